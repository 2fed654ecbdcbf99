-- What code of others could use of the login of this session, besides what it reads; NULL: nothing.
with me as (
    select r.* from pg_catalog.pg_roles r where r.rolname = session_user
)
select string_agg(x.what, ', ') from (
    select unnest(array[case when m.rolsuper then 'SUPERUSER' end, case when m.rolreplication then 'REPLICATION' end,
                        case when m.rolcreaterole then 'CREATEROLE' end, case when m.rolcreatedb then 'CREATEDB' end,
                        case when m.rolbypassrls then 'BYPASSRLS' end])
      from me m
    union all
    select format('membership of %I', o.rolname)
      from me m join pg_catalog.pg_auth_members a on a.member = m.oid join pg_catalog.pg_roles o on o.oid = a.roleid
    union all
    select format('ownership of %s', pg_catalog.pg_describe_object(d.classid, d.objid, 0))
      from me m join pg_catalog.pg_shdepend d on d.refclassid = 'pg_authid'::regclass and d.refobjid = m.oid and d.deptype = 'o'
     where d.dbid = (select b.oid from pg_catalog.pg_database b where b.datname = current_database())
    union all
    select format('execute on %s', p.oid::regprocedure)
      from me m, pg_catalog.pg_proc p
     where p.pronamespace::regnamespace::text in ('agent', 'agent_internal')
       and has_function_privilege(m.oid, p.oid, 'execute')
    union all
    select format('%s on %s', v.privilege, c.oid::regclass)
      from me m, pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
           cross join (values ('insert'), ('update'), ('delete'), ('truncate'), ('trigger')) as v (privilege)
     where c.relkind in ('r', 'p', 'v') and n.nspname !~ '^pg_' and has_table_privilege(m.oid, c.oid, v.privilege)
    union all
    select format('%s on schema %I', v.privilege, n.nspname)
      from me m, pg_catalog.pg_namespace n cross join (values ('create')) as v (privilege)
     where n.nspname !~ '^pg_' and n.nspname <> 'public' and has_schema_privilege(m.oid, n.oid, v.privilege)
) as x (what)
 where x.what is not null
