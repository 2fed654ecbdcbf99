-- Whether a login can read the key that signs.
select coalesce(bool_or(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')), false)
  from pg_catalog.pg_namespace n join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'secret'
 where n.nspname = 'agent_internal'
