-- What code of others could use of the login of this session, besides what it reads; NULL: nothing.
select string_agg(x.what, ', ') from (
    select unnest(array[case when r.rolsuper then 'SUPERUSER' end, case when r.rolreplication then 'REPLICATION' end,
                        case when r.rolcreaterole then 'CREATEROLE' end, case when r.rolbypassrls then 'BYPASSRLS' end])
      from pg_catalog.pg_roles r where r.rolname = session_user
    union all
    select format('execute on %s', p.oid::regprocedure)
      from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
     where n.nspname in ('agent', 'agent_internal') and p.proname = 'assume'
       and has_function_privilege(session_user, p.oid, 'execute')
    union all
    select format('%s on %s', v.privilege, c.oid::regclass)
      from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
           cross join (values ('insert'), ('update'), ('delete')) as v (privilege)
     where c.relkind in ('r', 'p') and n.nspname !~ '^pg_' and has_table_privilege(session_user, c.oid, v.privilege)
) as x (what)
 where x.what is not null
