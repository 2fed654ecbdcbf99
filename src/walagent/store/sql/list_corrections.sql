-- What others made of what agents wrote, the latest first.
select o.run_id as run,
       o.agent,
       o.attachment,
       o.version,
       o.table_name as relation,
       o.key,
       o.column_name as column,
       o.kind,
       o.wrote,
       o.value,
       o.omitted,
       o.rows,
       o.by_run,
       o.corrected_by::text,
       o.committed_at
  from agent.correction_overview o
 where (%(agent)s::text is null or o.agent = %(agent)s)
   and (%(column)s::text is null or o.column_name = %(column)s)
   and (%(by)s::text is null or o.corrected_by = %(by)s)
   and (%(run)s::bigint is null or o.run_id = %(run)s)
   and (%(since)s::timestamptz is null or o.committed_at >= %(since)s)
   and (%(age)s::interval is null or o.committed_at >= agent_internal.now() - %(age)s::interval)
 order by o.committed_at desc, o.commit_lsn desc, o.ordinal desc, o.column_name
 limit %(limit)s
