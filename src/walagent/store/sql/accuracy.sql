-- How much of what agents wrote others left as it was, by version and column.
select a.agent,
       a.attachment,
       a.version,
       a.column_name as column,
       sum(a.written)::bigint as written,
       sum(a.corrected)::bigint as corrected,
       sum(a.changed_in_bulk)::bigint as changed_in_bulk,
       sum(a.confirmed)::bigint as confirmed,
       sum(a.scored)::bigint as scored,
       sum(a.wrong)::bigint as wrong,
       round(1 - sum(a.wrong) / sum(a.written), 4) as accuracy
  from agent.accuracy a
 where (%(agent)s::text is null or a.agent = %(agent)s)
   and (%(since)s::timestamptz is null or a.day >= %(since)s::date)
   and (%(age)s::interval is null or a.day >= (agent_internal.now() - %(age)s::interval)::date)
 group by a.agent, a.attachment, a.version, a.column_name
 order by a.agent, a.attachment, a.version desc, a.column_name
