-- key: run_id, commit_lsn, ordinal, column_name
-- parameters: agent, relation, key, column, run, since, until, before, limit
-- A page of what others made of what agents wrote, newest first; before: the place of the last one of the page before.
select o.run_id, o.commit_lsn::text, o.ordinal, o.column_name,
       concat_ws(' ', extract(epoch from o.committed_at), o.commit_lsn, o.ordinal, o.run_id, o.column_name) as place,
       o.agent, o.version, o.table_name as relation, o.key, o.kind, left(o.wrote, 300) as wrote, left(o.value, 300) as value,
       coalesce(length(o.wrote) > 300, false) or coalesce(length(o.value) > 300, false) as is_cut,
       o.omitted, o.rows, o.by_run, o.corrected_by, o.committed_at,
       -- Whether the login of the principal cannot read the column in the table.
       not (select agent_internal.sees_changes())
           and not coalesce(agent_internal.readable_part(c.relation, jsonb_build_object(o.column_name, ''), jsonb_build_object(o.column_name, c.number)) ? o.column_name, false) as is_hidden
  from agent.correction_overview o
       join agent.correction c on (c.run_id, c.commit_lsn, c.ordinal, c.column_name) = (o.run_id, o.commit_lsn, o.ordinal, o.column_name)
 where (%(before)s = ''
        or (extract(epoch from o.committed_at), o.commit_lsn, o.ordinal, o.run_id, o.column_name)
           < (nullif(split_part(%(before)s, ' ', 1), '')::numeric, nullif(split_part(%(before)s, ' ', 2), '')::pg_lsn,
              nullif(split_part(%(before)s, ' ', 3), '')::integer, nullif(split_part(%(before)s, ' ', 4), '')::bigint,
              regexp_replace(%(before)s, '^(\S* ){4}', '')))
   and (%(agent)s = '' or o.agent = any (string_to_array(%(agent)s, ',')))
   and (%(relation)s = '' or array[o.table_name, split_part(o.table_name, '.', 2)] && string_to_array(%(relation)s, ','))
   and (%(key)s = '' or o.key = %(key)s or o.key = any (string_to_array(%(key)s, ',')))
   and (%(column)s = '' or o.column_name = any (string_to_array(%(column)s, ',')))
   and (%(run)s = '' or o.run_id = any (string_to_array(%(run)s, ',')::bigint[]))
   and o.committed_at >=
-- include: _since
   and o.committed_at <
-- include: _until
 order by o.committed_at desc, o.commit_lsn desc, o.ordinal desc, o.run_id desc, o.column_name desc
 limit least(%(limit)s::integer, 500)
