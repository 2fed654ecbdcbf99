-- Types and their component types, with the code of users that their values can execute: `checks` and
-- `functions` when one is parsed or built, `casts` when it becomes JSON, `comparisons` when it is
-- compared inside an array, row or range.
with recursive made (oid) as (
    select unnest(%(types)s::oid[])
    union
    select part.oid
      from made
           join pg_type t on t.oid = made.oid
           cross join lateral (
               select t.typelem union all
               select t.typbasetype union all
               select a.atttypid from pg_attribute a where a.attrelid = t.typrelid and t.typrelid <> 0 and a.attnum > 0
                union all
               select r.rngsubtype from pg_range r where t.oid in (r.rngtypid, r.rngmultitypid)
           ) as part (oid)
     where part.oid <> 0
), opclass (oid, family, of) as (
    -- Default operator classes, and those of ranges.
    select o.oid, o.opcfamily, o.opcintype from pg_opclass o
     where o.opcmethod in (403, 405) and o.opcdefault and o.opcintype in (select oid from made)
    union
    select o.oid, o.opcfamily, r.rngtypid from pg_range r join pg_opclass o on o.oid = r.rngsubopc
     where r.rngtypid in (select oid from made)
)
select t.oid::regtype::text as name,
       array(select c.conbin::text from pg_constraint c where c.contypid = t.oid and c.conbin is not null) as checks,
       array(select f::int8
               from unnest(array[
                        case when t.typtype = 'b' then t.typinput end, case when t.typtype = 'b' then t.typoutput end,
                        (select r.rngcanonical from pg_range r where r.rngtypid = t.oid),
                        (select r.rngsubdiff from pg_range r where r.rngtypid = t.oid)]) as f
              where f >= 16384
              union
             select p.amproc::int8 from opclass o join pg_amproc p on p.amprocfamily = o.family
              where o.of = t.oid and t.typtype = 'r' and p.amproc >= 16384) as functions,
       array(select c.castfunc::int8 from pg_cast c
              where c.castsource = t.oid and c.casttarget in (114, 3802) and c.castfunc >= 16384) as casts,
       array(select p.amproc::int8 from opclass o join pg_amproc p on p.amprocfamily = o.family
              where o.of = t.oid and p.amproc >= 16384
              union
             select m.oprcode::int8 from opclass o join pg_amop a on a.amopfamily = o.family join pg_operator m on m.oid = a.amopopr
              where o.of = t.oid and m.oprcode >= 16384) as comparisons
  from made join pg_type t using (oid)
