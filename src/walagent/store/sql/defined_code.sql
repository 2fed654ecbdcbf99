-- The functions and views of the schema, and the transaction that defined each: what an upgrade does not define again is
-- no longer part of it.
select format('drop function %s', p.oid::regprocedure) as drop, p.oid::text || ' ' || p.xmin::text as definition
  from pg_catalog.pg_proc p
 where p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace, 'agent_signed'::regnamespace)
union all
select format('drop view %s', r.ev_class::regclass), r.ev_class::text || ' ' || r.xmin::text
  from pg_catalog.pg_rewrite r join pg_catalog.pg_class c on c.oid = r.ev_class
 where c.relkind = 'v' and c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
 order by 1 desc
