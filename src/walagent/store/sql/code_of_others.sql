-- What the rule of pg_temp.walagent_shape refers to that is not walagent's; of PostgreSQL's own objects, there are no records.
select i.identity
  from pg_rewrite r
       join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
       cross join lateral pg_identify_object(d.refclassid, d.refobjid, 0) i
 where r.ev_class = 'pg_temp.walagent_shape'::regclass and d.refobjid <> r.ev_class
   and i.schema is not null
   and i.schema not in ('agent', 'agent_internal', 'pg_catalog', 'information_schema')
 order by i.identity
 limit 1
