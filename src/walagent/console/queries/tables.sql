-- key: relation
-- Tables with agents, and whether the caller's own login can read them; is_explained: all columns, and it sees the runs.
select n.nspname || '.' || c.relname as relation, g.agents, greatest(c.reltuples, 0)::bigint as rows,
-- include: _table_refusal
       agent_internal.sees_runs()
       and not exists (select from pg_catalog.pg_attribute t
                        where t.attrelid = c.oid and t.attnum > 0 and not t.attisdropped
                          and not coalesce(has_column_privilege(l.oid, c.oid, t.attnum, 'select'), false)) as is_explained,
       quote_ident(n.nspname) || '.' || quote_ident(c.relname) as quoted, x.login::text as login, g.is_broken, g.attachments
  from (select a.relation, string_agg(distinct a.agent, ', ') as agents, count(*)::integer as attachments,
               bool_or(a.paused and a.paused_reason is not null and a.paused_by is null) as is_broken
          from agent.attachment a
         group by 1) g
       join pg_catalog.pg_class c on c.oid = g.relation
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
       cross join agent_internal.asking('') x
       left join pg_catalog.pg_roles l on l.rolname = x.login
 where n.nspname <> 'agent'
 order by 1
 limit 500
