-- Of these families of operators, those of indexes and partition keys of the relations, their parts and what they are parts of.
with recursive near (oid) as (
    select unnest(%(relations)s::oid[])
    union
    select x.oid from near join pg_inherits i on near.oid in (i.inhparent, i.inhrelid)
           cross join lateral (values (i.inhparent), (i.inhrelid)) as x (oid)
), class (relation, oid) as (
    select indrelid, unnest(indclass::oid[]) from pg_index
    union all
    select partrelid, unnest(partclass::oid[]) from pg_partitioned_table
)
select distinct o.opcfamily::int8 as family
  from near
       join class on class.relation = near.oid
       join pg_opclass o on o.oid = class.oid
 where o.opcfamily = any (%(families)s::oid[])
