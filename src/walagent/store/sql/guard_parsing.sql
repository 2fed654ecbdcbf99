-- Types of users whose values, inside other types too, can be converted from text by a user's function.
select c.contypid::int8 from pg_constraint c where c.contypid > 0 and c.oid >= 16384
union
select r.rngtypid::int8 from pg_range r where r.rngtypid >= 16384
union
select t.oid::int8 from pg_type t where t.oid >= 16384 and t.typtype = 'b' and t.typinput >= 16384
