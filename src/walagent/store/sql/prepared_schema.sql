-- What is in a schema agent that was prepared: it must be empty, for what is in it is somebody else's.
select pg_catalog.pg_describe_object(d.classid, d.objid, d.objsubid)
  from pg_catalog.pg_namespace n
       join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_namespace'::regclass and d.refobjid = n.oid
 where n.nspname = 'agent' and not exists (select from pg_catalog.pg_namespace i where i.nspname = 'agent_internal')
 order by 1
 limit 1
