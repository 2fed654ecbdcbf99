-- key: relation
-- Tables whose changes the reader receives: walagent's own, and those with an attachment that the caller can see.
select t.schemaname || '.' || t.tablename as relation,
       bool_or(p.pubinsert) as inserts, bool_or(p.pubupdate) as updates, bool_or(p.pubdelete) as deletes, bool_or(p.pubtruncate) as truncates,
       bool_or(t.rowfilter is not null) as is_filtered,
       t.schemaname = 'agent' as is_own,
       coalesce((select jsonb_agg(distinct a.agent) from agent.attachment a where a.relation = c.oid), '[]') as agents
  from pg_catalog.pg_publication_tables t
       join pg_catalog.pg_publication p on p.pubname = t.pubname
       join pg_catalog.pg_namespace n on n.nspname = t.schemaname
       join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
 where t.pubname in ('walagent', 'walagent_inserts')
   and (t.schemaname = 'agent' or exists (select from agent.attachment a where a.relation = c.oid))
 group by t.schemaname, t.tablename, c.oid
 order by is_own, 1
 limit 500
