-- What the rule of pg_temp.walagent_shape refers to that is not walagent's, views of others down to the bottom; of
-- PostgreSQL's own objects, there are no records.  With what it is, and whose.
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
select concat(i.type, ' ', i.identity, ' of ' || o.rolname)
  from rules r
       join pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
       cross join lateral pg_identify_object(d.refclassid, d.refobjid, 0) i
       left join pg_class c on d.refclassid = 'pg_class'::regclass and c.oid = d.refobjid
       left join pg_proc p on d.refclassid = 'pg_proc'::regclass and p.oid = d.refobjid
       left join pg_type t on d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid
       left join pg_operator x on d.refclassid = 'pg_operator'::regclass and x.oid = d.refobjid
       left join pg_roles o on o.oid = coalesce(c.relowner, p.proowner, t.typowner, x.oprowner)
 where i.schema is not null
   and i.schema not in ('agent', 'agent_internal', 'pg_catalog', 'information_schema')
   and c.relkind is distinct from 'v' and t.typtype is distinct from 'c'
 order by i.identity
 limit 1
