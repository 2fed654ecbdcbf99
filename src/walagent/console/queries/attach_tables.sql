-- key: relation
-- Tables of which the login of the caller can read columns, with these; none for a login that may attach nothing.
select format('%%I.%%I', n.nspname, c.relname) as relation,
       array(select a.attname::text from pg_catalog.pg_attribute a
              where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and has_column_privilege(x.login, c.oid, a.attnum, 'select')
              order by a.attnum) as columns
  from agent_internal.asking('') x
       cross join pg_catalog.pg_class c
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where agent.has_role('developer') and x.login is not null
   and c.relkind in ('r', 'p') and c.relpersistence = 'p' and not c.relispartition
   and n.nspname !~ '^(pg_.*|information_schema|agent|agent_internal|agent_call|agent_signed)$'
   and has_schema_privilege(x.login, n.oid, 'usage') and has_any_column_privilege(x.login, c.oid, 'select')
 order by n.nspname <> 'public', 1
 limit 500
