-- Constraints of the application that are deferred at the start of a transaction.  A name can stand for several
-- constraints of a schema; SET CONSTRAINTS refuses it if one of them is not deferrable.
select n.nspname::text, c.conname::text
  from pg_constraint c join pg_namespace n on n.oid = c.connamespace
 where n.nspname not in ('agent', 'agent_internal', 'pg_catalog', 'information_schema')
 group by n.nspname, c.conname
having bool_or(c.condeferred) and bool_and(c.condeferrable)
 order by 1, 2
