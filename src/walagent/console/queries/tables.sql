-- key: relation
-- Tables with agents, and whether the caller's own login can read them.
select n.nspname || '.' || c.relname as relation, g.agents, greatest(c.reltuples, 0)::bigint as rows,
-- include: _table_refusal
       x.login::text as login, g.is_broken, g.attachments
  from (select a.relation, string_agg(distinct a.agent, ', ') as agents, count(*)::integer as attachments,
               bool_or(a.paused and a.paused_reason is not null) as is_broken
          from agent.attachment a
         group by 1) g
       join pg_catalog.pg_class c on c.oid = g.relation
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       cross join agent_internal.asking('') x
       left join pg_catalog.pg_roles l on l.rolname = x.login
 where n.nspname <> 'agent'
 order by 1
 limit 500
