-- Roles that row-level security does not confine, and that should not be so: of the daemon, the owner and principals.  And logins
-- that it lets see nothing, because another has their name.
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
union all
-- A login that acts as nobody, because its role was created after it became the principal's.
select 'later', l.login::text, format('%s of tenant %s', l.principal, l.tenant),
       format('update agent.principal set login = null where (tenant, name) = (%1$L, %2$L);'
              ' update agent.principal set login = %3$L where (tenant, name) = (%1$L, %2$L);', l.tenant, l.principal, l.login)
  from agent_internal.login l
       join pg_roles r on r.rolname = l.login and r.oid is distinct from l.role
 where l.taken_by = 'login'
union all
-- Or because a principal or an agent of tenant default has its name.
select 'nobody', r.rolname::text, l.taken_by, ''
  from agent_internal.login l
       join pg_roles r on r.rolname = l.login and r.rolcanlogin
 where l.taken_by <> 'login' and not exists (select from agent_internal.login o where o.login = l.login and o.taken_by = 'login')
 order by 1, 2
