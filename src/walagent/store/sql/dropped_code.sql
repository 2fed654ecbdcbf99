-- A row, if a function or view that the code has defined does not exist.
select
  from agent_internal.code_object o
 where o.object not like 'policy %'
   and o.object not in (
       select pg_catalog.format('function %s', p.oid::regprocedure)
         from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
        where n.nspname in ('agent', 'agent_internal', 'agent_call', 'agent_signed')
       union all
       select pg_catalog.format('view %s', c.oid::regclass)
         from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
        where n.nspname in ('agent', 'agent_internal') and c.relkind = 'v')
 limit 1
