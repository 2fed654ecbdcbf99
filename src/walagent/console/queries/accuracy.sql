-- key: attachment, version, column_name
-- parameters: agent
-- How much of what an agent wrote in 30 days others left as it was, by version and column, the newest version first.
select a.attachment, a.version, a.column_name,
       sum(a.written)::bigint as written, sum(a.corrected)::bigint as corrected,
       sum(a.changed_in_bulk)::bigint as changed_in_bulk, sum(a.confirmed)::bigint as confirmed,
       sum(a.scored)::bigint as scored, sum(a.wrong)::bigint as wrong,
       round(1 - sum(a.wrong) / sum(a.written), 4) as accuracy
  from agent.accuracy a
 where a.tenant = (select agent.current_tenant()) and a.agent = %(agent)s and a.day >= (agent_internal.now() - interval '30 days')::date
 group by a.attachment, a.version, a.column_name
 order by a.attachment, a.version desc, a.column_name
 limit 100
