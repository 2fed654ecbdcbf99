-- The functions with these OIDs, and those of operators.
select p.oid::int8 as oid,
       p.proname as name,
       p.oid::regprocedure::text as signature,
       p.provolatile = 'v' as volatile,
       p.prokind = 'a' as aggregate,
       l.lanname in ('c', 'internal') as compiled,
       l.lanname = 'internal' and p.prosrc ~ '^(multi)?range_constructor\d$' as range_maker,
       n.nspname = 'pg_catalog' as of_catalog,
       n.nspname as schema,
       l.lanname = 'sql' and p.prokind = 'f' and p.provolatile <> 'v' and not p.prosecdef and p.proconfig is null as readable,
       p.prosqlbody::text as rule,
       p.prosrc as source,
       format('create function pg_temp.walagent_body(%%s) returns %%s language sql stable begin atomic ',
              pg_get_function_identity_arguments(p.oid), pg_get_function_result(p.oid)) as head,
       coalesce(e.extname, '') as extension
  from pg_proc p
       join pg_namespace n on n.oid = p.pronamespace
       join pg_language l on l.oid = p.prolang
       left join pg_depend d on d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e'
       left join pg_extension e on e.oid = d.refobjid
 where p.oid = any (%(functions)s::oid[])
    or p.oid in (select oprcode from pg_operator where oid = any (%(operators)s::oid[]))
