-- Types and their component types, with the code that parsing a value from text runs: CHECK
-- constraints of domains as stored rules, functions of types and ranges as OIDs.
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
)
select t.oid::regtype::text as name,
       array(select c.conbin::text from pg_constraint c where c.contypid = t.oid and c.conbin is not null) as checks,
       array(select f::int8
               from unnest(array[
                        case when t.typtype = 'b' then t.typinput end, case when t.typtype = 'b' then t.typoutput end,
                        (select r.rngcanonical from pg_range r where r.rngtypid = t.oid),
                        (select r.rngsubdiff from pg_range r where r.rngtypid = t.oid)]) as f
              where f is not null and f <> 0) as functions
  from made join pg_type t using (oid)
