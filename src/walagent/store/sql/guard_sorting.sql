-- Functions of users that compare or hash for these operators, in the families of operators that have them.
--
-- idle: only an index or a partition key of the family calls them. For anything else PostgreSQL takes, of the families that have
-- an operator in the place that is needed, the one with the lowest OID: its own, since each operator of this family is in the same
-- place of one of PostgreSQL's. No class of this family is the default of a type, or that of a range.
-- Source: get_ordering_op_properties, get_op_hash_functions, get_mergejoin_opfamilies, predtest.c, typcache.c.
select f.amproc::int8 as function,
       family.oid::int8 as family,
       coalesce('operator class ' || (select string_agg(format('%%s for type %%s', quote_ident(c.opcname), c.opcintype::regtype), ', ' order by c.oid)
                                        from pg_opclass c where c.opcfamily = family.oid),
                'operator family ' || quote_ident(family.opfname)) as class,
       pg_get_userbyid(p.proowner)::text as owner,
       family.oid >= 16384
       and not exists (select from pg_opclass c
                        where c.opcfamily = family.oid
                          and (c.opcdefault or exists (select from pg_range r where r.rngsubopc = c.oid)))
       and not exists (select from pg_amop a
                        where a.amopfamily = family.oid
                          and not exists (select from pg_amop b
                                           where b.amopopr = a.amopopr and b.amopmethod = a.amopmethod
                                             and b.amopstrategy = a.amopstrategy and b.amoppurpose = a.amoppurpose
                                             and b.amoplefttype = a.amoplefttype and b.amoprighttype = a.amoprighttype
                                             and b.amopopr < 16384 and b.amopfamily < 16384)) as idle
  from pg_opfamily family
       join pg_amproc f on f.amprocfamily = family.oid
       join pg_proc p on p.oid = f.amproc
 where f.amproc >= 16384 and family.opfmethod in (403, 405)
   and exists (select from pg_amop o where o.amopfamily = family.oid and o.amopopr = any (%(operators)s::oid[]))
 order by 2, 1
