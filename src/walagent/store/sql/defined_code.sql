-- The functions, views and policies of walagent's schemas: what drops each, and the transaction that defined it last.
select format('function %s', p.oid::regprocedure), p.oid::text || ' ' || p.xmin::text
  from pg_catalog.pg_proc p
 where p.pronamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace, 'agent_signed'::regnamespace)
union all
select format('view %s', r.ev_class::regclass), r.ev_class::text || ' ' || r.xmin::text
  from pg_catalog.pg_rewrite r join pg_catalog.pg_class c on c.oid = r.ev_class
 where c.relkind = 'v' and c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
union all
select format('policy %I on %s', p.polname, p.polrelid::regclass), p.oid::text || ' ' || p.xmin::text
  from pg_catalog.pg_policy p join pg_catalog.pg_class c on c.oid = p.polrelid
 where c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace)
 order by 1 desc
