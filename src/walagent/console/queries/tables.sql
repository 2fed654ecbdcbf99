-- key: relation
-- Tables with agents.
select n.nspname || '.' || c.relname as relation, string_agg(distinct a.agent, ', ') as agents, greatest(max(c.reltuples), 0)::bigint as rows,
       bool_or(a.paused and a.paused_reason is not null) as is_broken, count(*)::integer as attachments
  from agent.attachment a
       join pg_catalog.pg_class c on c.oid = a.relation
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where n.nspname <> 'agent'
 group by 1
 order by 1
 limit 500
