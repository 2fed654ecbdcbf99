-- A table that the current role may not read, except walagent's own.
select c.oid::regclass::text
  from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'p', 'm') and c.oid >= 16384
   and n.nspname not in ('agent', 'agent_internal', 'information_schema') and n.nspname not like 'pg\_%'
   and not (has_schema_privilege(n.oid, 'usage') and (has_table_privilege(c.oid, 'select') or has_any_column_privilege(c.oid, 'select')))
 limit 1
