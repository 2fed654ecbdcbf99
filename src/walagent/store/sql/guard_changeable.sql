-- Types of a literal, with a part to which its owner can add code between two looks: a CHECK to a domain, an attribute to a
-- composite type or table.  A domain that the literal has itself is converted without it.  No %(types)s: whether there is such a type.
with recursive becoming (word) as (
    select case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end
), made (type, oid, inside) as (
    select t, t, false from unnest(%(types)s::oid[]) t
    union
    select m.type, part.oid, m.inside or part.inside
      from made m
           join pg_type t on t.oid = m.oid
           cross join lateral (
               select t.typelem, true union all
               select t.typbasetype, false union all
               select a.atttypid, true from pg_attribute a where a.attrelid = t.typrelid and t.typrelid <> 0 and a.attnum > 0
                union all
               select r.rngsubtype, true from pg_range r where t.oid in (r.rngtypid, r.rngmultitypid)
           ) as part (oid, inside)
     where part.oid <> 0
)
select m.type::regtype::text as type, t.oid::regtype::text as part, o.rolname as owner
  from made m
       join pg_type t on t.oid = m.oid and (t.typtype = 'c' or t.typtype = 'd' and m.inside)
       join pg_roles o on o.oid = t.typowner
 where not o.rolsuper and not pg_has_role(o.oid, session_user, (select word from becoming))
 union all
select null, null, o.rolname
  from pg_type t join pg_roles o on o.oid = t.typowner
 where %(types)s::oid[] is null and t.typtype in ('c', 'd') and t.oid >= 16384
   and not o.rolsuper and not pg_has_role(o.oid, session_user, (select word from becoming))
 limit 1
