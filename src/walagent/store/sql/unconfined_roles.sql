-- Roles that row-level security does not confine, and that should not be so: of the daemon, the owner and principals.
with owner as (
    select r.* from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'agent_internal'
)
select 'daemon' as used_by, r.rolname::text as role, '' as principal,
       case when r.rolbypassrls then 'BYPASSRLS' else 'OWNER' end as reason
  from pg_roles r, owner o
 where r.rolname = current_user and not r.rolsuper and (r.rolbypassrls or pg_has_role(r.oid, o.oid, 'member'))
union all
select 'owner', o.rolname::text, '', 'BYPASSRLS' from owner o where o.rolbypassrls and not o.rolsuper
union all
select 'principal', r.rolname::text, format('%s of tenant %s', l.principal, l.tenant),
       case when r.rolsuper then 'SUPERUSER' when r.rolbypassrls then 'BYPASSRLS' else 'OWNER' end
  from agent_internal.login l
       join pg_roles r on r.rolname = l.login and l.taken_by = 'login'
       cross join owner o
 where r.rolsuper or r.rolbypassrls or pg_has_role(r.oid, o.oid, 'member')
 order by 1, 2
