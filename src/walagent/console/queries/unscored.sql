-- key: run_id
-- parameters: agent, relation, key, column, run, since, until, before, limit
-- A page of succeeded runs that a person should score, of the last 7 days or of since, the latest first.
with page as materialized (
    select u.*
      from agent.unscored_run u
     where (%(before)s = '' or u.run_id < nullif(%(before)s, '')::bigint)
       and (%(agent)s = '' or u.agent = any (string_to_array(%(agent)s, ',')))
       and (%(relation)s = '' or array[u.table_name, split_part(u.table_name, '.', 2)] && string_to_array(%(relation)s, ','))
       and (%(key)s = '' or u.key = %(key)s or u.key = any (string_to_array(%(key)s, ',')))
       and (%(column)s = '' or exists (select from agent.row_change c where c.run_id = u.run_id and c.columns && string_to_array(%(column)s, ',')))
       and (%(run)s = '' or u.run_id = any (string_to_array(%(run)s, ',')::bigint[]))
       and u.created_at >= case when %(since)s = '' then now() - interval '7 days' else
-- include: _since
           end
       and u.created_at <
-- include: _until
     order by u.run_id desc
     limit least(%(limit)s::integer, 500))
select p.run_id, p.run_id::text as place, p.agent, p.version, p.reasons, p.finished_at,
-- include: _subject
,
       left(coalesce(
-- include: _what_calls_did
            , r.result), 300) as what
-- include: _run_from
       join page p on p.run_id = r.id
 order by p.run_id desc
