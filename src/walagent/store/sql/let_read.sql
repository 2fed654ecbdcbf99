-- The statements that let the role %(role)s read a table; no row: it can, or nobody reads it as an open table.
select concat_ws('; ',
           case when not has_schema_privilege(r.oid, n.oid, 'usage')
                then format('grant usage on schema %%I to %%I', n.nspname, r.rolname) end,
           case when not has_table_privilege(r.oid, c.oid, 'select')
                then format('grant select on %%s to %%I', c.oid::regclass, r.rolname) end)
  from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace,
       pg_catalog.pg_roles r
 where c.relkind in ('r', 'p') and not c.relrowsecurity
   and n.nspname not in ('agent', 'agent_internal', 'information_schema') and n.nspname !~ '^pg_'
   and n.nspname = %(schema)s and c.relname = %(table)s and r.rolname = %(role)s
   and not (has_schema_privilege(r.oid, n.oid, 'usage') and has_table_privilege(r.oid, c.oid, 'select'))
