-- The statements that let the role %(role)s read a table; no row: it can.
select format('grant usage on schema %%I to %%I; grant select on %%s to %%I',
              n.nspname, r.rolname, c.oid::regclass, r.rolname)
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace,
       pg_catalog.pg_roles r
 where n.nspname = %(schema)s and c.relname = %(table)s and r.rolname = %(role)s
   and not (has_schema_privilege(r.oid, n.oid, 'usage') and has_table_privilege(r.oid, c.oid, 'select'))
