-- Schema, name and primary key of a table.
select n.nspname as schema,
       c.relname as name,
       agent_internal.key_columns(c.oid) as key_columns
  from pg_catalog.pg_class c
       join pg_catalog.pg_namespace n on n.oid = c.relnamespace
 where c.oid = %(relation)s
