-- key: login
-- The login of the caller, the roles that its agents can run as, and tools; no row for a login that may attach nothing.
select x.login,
       array(select r.rolname::text from pg_catalog.pg_roles r
              where pg_has_role(x.login, r.oid, 'member') and (r.rolname = x.login or r.rolname !~ '^(pg_|walagent_)')
              order by r.rolname <> x.login, r.rolname limit 200) as roles,
       (select coalesce(jsonb_agg(distinct t.name), '[]') from agent.tool t
         where (t.tenant is null or t.tenant = agent.current_tenant()) and t.enabled) as tools
  from agent_internal.asking('') x
 where agent.has_role('developer') and x.login is not null
