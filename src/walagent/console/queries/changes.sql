-- key: run_id, commit_lsn, ordinal
-- parameters: agent, relation, key, column, run, since, until, before, limit
-- A page of rows that runs changed, newest first; before: the place of the last one of the page before.
with page as (
    select o.*, concat_ws(' ', extract(epoch from o.committed_at), o.commit_lsn, o.ordinal, o.run_id) as place
      from agent.change_overview o
     where (%(before)s = ''
            or (extract(epoch from o.committed_at), o.commit_lsn, o.ordinal, o.run_id)
               < (nullif(split_part(%(before)s, ' ', 1), '')::numeric, nullif(split_part(%(before)s, ' ', 2), '')::pg_lsn,
                  nullif(split_part(%(before)s, ' ', 3), '')::integer, nullif(split_part(%(before)s, ' ', 4), '')::bigint))
       and (%(agent)s = '' or coalesce(o.agent, o.kind) = any (string_to_array(%(agent)s, ',')))
       and (%(relation)s = '' or array[o.table_name, split_part(o.table_name, '.', 2)] && string_to_array(%(relation)s, ','))
       and (%(key)s = '' or o.key = %(key)s or o.key = any (string_to_array(%(key)s, ',')))
       and (%(column)s = '' or o.op <> 'update' or o.columns is null or o.columns && string_to_array(%(column)s, ','))
       and (%(run)s = '' or o.run_id = any (string_to_array(%(run)s, ',')::bigint[]))
       and o.committed_at >=
-- include: _since
       and o.committed_at <
-- include: _until
     order by o.committed_at desc, o.commit_lsn desc, o.ordinal desc, o.run_id desc
     limit least(%(limit)s::integer, 500))
select p.run_id, p.commit_lsn::text, p.ordinal, p.place, p.step, p.tool, p.agent, p.version, p.kind, p.undoes,
       p.table_name as relation, p.op, p.source, p.key, p.columns, b.image as before, a.image as after, p.omitted, p.rows, p.committed_at,
       coalesce(a.cut, '{}') || coalesce(b.cut, '{}') as cut,
       -- Of these, the login of the principal can read no value in the table.
       array(select k from jsonb_object_keys(coalesce(c.before, '{}') || coalesce(c.after, '{}')) k
              where not coalesce(p.before ? k, false) and not coalesce(p.after ? k, false)) as hidden
  from page p
       join agent.row_change c on (c.run_id, c.commit_lsn, c.ordinal) = (p.run_id, p.commit_lsn, p.ordinal)
       left join lateral (select jsonb_object_agg(e.key, left(e.value, 300)) as image, array_agg(e.key) filter (where length(e.value) > 300) as cut
                            from jsonb_each_text(p.before) e) b on true
       left join lateral (select jsonb_object_agg(e.key, left(e.value, 300)) as image, array_agg(e.key) filter (where length(e.value) > 300) as cut
                            from jsonb_each_text(p.after) e) a on true
 order by p.committed_at desc, p.commit_lsn desc, p.ordinal desc, p.run_id desc
