-- What the login of this session can read besides what %(role)s and everybody can.
with me as (
    select r.oid, t.oid as role
      from pg_roles r cross join pg_roles t
     where r.rolname = session_user and t.rolname = %(role)s and r.oid <> t.oid
), granted (what, covered) as (
    select format('%%s on %%s', lower(a.privilege_type), c.oid::regclass),
           case when c.relkind = 'S' then has_sequence_privilege(m.role, c.oid, a.privilege_type)
                else has_table_privilege(m.role, c.oid, a.privilege_type) end
      from me m, pg_class c cross join aclexplode(c.relacl) a
     where a.grantee = m.oid
    union all
    select format('%%s on %%s(%%I)', lower(a.privilege_type), t.attrelid::regclass, t.attname),
           has_column_privilege(m.role, t.attrelid, t.attnum, a.privilege_type)
      from me m, pg_attribute t cross join aclexplode(t.attacl) a
     where a.grantee = m.oid
    union all
    select format('%%s on schema %%I', lower(a.privilege_type), n.nspname), has_schema_privilege(m.role, n.oid, a.privilege_type)
      from me m, pg_namespace n cross join aclexplode(n.nspacl) a
     where a.grantee = m.oid
    union all
    select format('%%s on function %%s', lower(a.privilege_type), p.oid::regprocedure), has_function_privilege(m.role, p.oid, a.privilege_type)
      from me m, pg_proc p cross join aclexplode(p.proacl) a
     where a.grantee = m.oid
    union all
    select format('membership of %%I', o.rolname), false
      from me m join pg_auth_members a on a.member = m.oid join pg_roles o on o.oid = a.roleid
     where o.oid <> m.role
    union all
    -- What it owns, what else it was granted, and the policies that name it.
    select case d.deptype when 'o' then 'ownership of ' when 'r' then '' else 'a privilege on ' end
               || pg_describe_object(d.classid, d.objid, d.objsubid), false
      from me m join pg_shdepend d on d.refclassid = 'pg_authid'::regclass and d.refobjid = m.oid
     where d.dbid = (select b.oid from pg_database b where b.datname = current_database())
       and (d.deptype <> 'a' or d.classid not in ('pg_class'::regclass, 'pg_namespace'::regclass, 'pg_proc'::regclass))
)
select what from granted where covered is not true order by what
