-- The statements that let the role %(role)s read a table; no row: it can, or nobody reads it as an open table.
select format('grant usage on schema %%I to %%I; grant select on %%s to %%I',
              n.nspname, r.rolname, c.oid::regclass, r.rolname)
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace,
       pg_catalog.pg_roles r
 where c.relkind in ('r', 'p') and not c.relrowsecurity
   and n.nspname not in ('agent', 'agent_internal', 'information_schema') and n.nspname !~ '^pg_'
   and n.nspname = %(schema)s and c.relname = %(table)s and r.rolname = %(role)s
   and not (has_schema_privilege(r.oid, n.oid, 'usage') and has_table_privilege(r.oid, c.oid, 'select'))
