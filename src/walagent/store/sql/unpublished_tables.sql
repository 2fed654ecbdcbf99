-- Tables that a role can write and whose updates the reader does not receive, by role.
select r.rolname::text, array_agg(format('%%I.%%I', n.nspname, c.relname) order by n.nspname, c.relname)
  from pg_roles r
       cross join pg_class c
       join pg_namespace n on n.oid = c.relnamespace
 where r.rolname = any (%(roles)s)
   and c.relkind in ('r', 'p') and not c.relispartition
   and n.nspname !~ '^(pg_.*|information_schema|agent|agent_internal|agent_call|agent_signed)$'
   and has_schema_privilege(r.oid, n.oid, 'usage')
   and (has_table_privilege(r.oid, c.oid, 'insert, update, delete') or has_any_column_privilege(r.oid, c.oid, 'insert, update'))
   and not exists (select from pg_publication_tables p
                    where p.pubname = 'walagent' and p.schemaname = n.nspname and p.tablename = c.relname)
 group by r.rolname
 order by 1
