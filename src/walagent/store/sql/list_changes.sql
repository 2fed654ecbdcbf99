-- Rows that runs changed, the latest first.
select o.run_id as run,
       o.step,
       o.tool,
       o.agent,
       o.attachment,
       o.version,
       o.kind,
       o.table_name as relation,
       o.op,
       o.source,
       o.key,
       o.columns,
       o.before,
       o.after,
       o.omitted,
       o.rows,
       o.committed_at,
       o.commit_lsn::text
  from agent.change_overview o
 where (%(agent)s::text is null or o.agent = %(agent)s)
   and (%(run)s::bigint is null or o.run_id = %(run)s)
   and (%(relation)s::text is null or %(relation)s in (o.table_name, split_part(o.table_name, '.', 2)))
   and (%(key)s::text is null or o.key = %(key)s)
   and (%(column)s::text is null or o.op <> 'update' or o.columns is null or %(column)s = any (o.columns))
   and (%(since)s::timestamptz is null or o.committed_at >= %(since)s)
   and (%(age)s::interval is null or o.committed_at >= now() - %(age)s)
 order by o.committed_at desc, o.commit_lsn desc, o.ordinal desc
 limit %(limit)s
