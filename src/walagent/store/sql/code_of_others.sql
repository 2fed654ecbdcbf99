-- What the rule of pg_temp.walagent_shape refers to that is not walagent's, views of others down to the bottom; of
-- PostgreSQL's own objects, there are no records.
with recursive rules (oid) as (
    select r.oid from pg_rewrite r where r.ev_class = 'pg_temp.walagent_shape'::regclass
    union
    select v.oid
      from rules r
           join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid and d.refclassid = 'pg_class'::regclass
           join pg_class c on c.oid = d.refobjid and c.relkind = 'v'
           join pg_namespace n on n.oid = c.relnamespace
                               and n.nspname not in ('agent', 'agent_internal', 'pg_catalog', 'information_schema')
           join pg_rewrite v on v.ev_class = c.oid
)
select i.identity
  from rules r
       join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
       cross join lateral pg_identify_object(d.refclassid, d.refobjid, 0) i
 where i.schema is not null
   and i.schema not in ('agent', 'agent_internal', 'pg_catalog', 'information_schema')
   and not exists (select from pg_class c where d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid and c.relkind = 'v')
   and not exists (select from pg_type t where d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid and t.typtype = 'c')
 order by i.identity
 limit 1
