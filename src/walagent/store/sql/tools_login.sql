-- Facts about the login %(name)s, on whose connections code of others is executed: it must have no right but to log in.
select r.oid is not null as is_role,
       coalesce(r.rolcanlogin, false) as may_log_in,
       array_remove(array[case when r.rolsuper then 'SUPERUSER' end, case when r.rolcreaterole then 'CREATEROLE' end,
                          case when r.rolcreatedb then 'CREATEDB' end, case when r.rolreplication then 'REPLICATION' end,
                          case when r.rolbypassrls then 'BYPASSRLS' end], null) as attributes,
       array(select o.rolname::text from pg_auth_members m join pg_roles o on o.oid = m.roleid
              where m.member = r.oid order by 1) as member_of,
       array(select distinct coalesce(pg_describe_object(d.classid, d.objid, 0), 'an object of another database')
               from pg_shdepend d
              where d.refclassid = 'pg_authid'::regclass and d.refobjid = r.oid and d.deptype = 'o'
                and d.dbid in (0, (select oid from pg_database where datname = current_database()))
              order by 1) as owns,
       (select rolsuper or rolcreaterole from pg_roles where rolname = current_user) as may_create
  from (values (%(name)s::name)) given (name)
       left join pg_roles r on r.rolname = given.name
