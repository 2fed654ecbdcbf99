-- The name of the slot of this database, if none is configured: one that has a checkpoint, if possible and exists; else one of
-- the names that walagent gives; else the first of these that is free.  Never one of another database: a copy on the same
-- server has the checkpoints of the original.
with offer (name, rank) as (
    values (%(default)s::text, 1),
           ('walagent_' || pg_catalog.left(pg_catalog.regexp_replace(pg_catalog.lower(current_database()), '[^a-z0-9_]', '_', 'g'), 54), 2),
           ('walagent_' || (select oid from pg_catalog.pg_database where datname = current_database()), 3)
)
select o.name
  from (select name, 0 as rank, true as known from pg_catalog.unnest(%(known)s::text[]) name
         union all
        select name, rank, false from offer) o
       left join pg_catalog.pg_replication_slots s on s.slot_name = o.name
 where s.slot_name is null or s.database = current_database()
 order by o.known desc, s.database = current_database() desc nulls last, o.name = %(default)s desc, o.rank
 limit 1
