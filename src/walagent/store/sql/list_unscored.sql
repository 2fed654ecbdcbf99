-- Succeeded runs that a person should score, and why, the latest first, with what each wrote to its row.
select u.run_id as run,
       u.agent,
       u.attachment,
       u.version,
       u.table_name as relation,
       u.key,
       u.reasons,
       (select jsonb_object_agg(e.key, e.value)
          from agent.change_overview c
               cross join lateral jsonb_each(c.after) e
         where c.run_id = u.run_id and c.source = 'statement' and e.key = any (c.columns)) as wrote,
       u.finished_at
  from agent.unscored_run u
 where (%(agent)s::text is null or u.agent = %(agent)s)
   and (%(reasons)s::text[] is null or u.reasons && %(reasons)s)
   and (%(since)s::timestamptz is null or u.created_at >= %(since)s)
   and (%(age)s::interval is null or u.created_at >= agent_internal.now() - %(age)s::interval)
 order by u.run_id desc
 limit %(limit)s
