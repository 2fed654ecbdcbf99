select p.tenant, p.name, p.kind, p.login, p.active,
       array(select g.role from agent.role_grant g
              where g.tenant = p.tenant and g.principal = p.name
                and (g.expires_at is null or g.expires_at > agent_internal.now())
              order by g.role) as roles,
       (select min(g.expires_at) from agent.role_grant g
         where g.tenant = p.tenant and g.principal = p.name and g.expires_at > agent_internal.now()) as expires_at,
       p.display_name, p.email, p.created_at
  from agent.principal p
 where p.tenant = coalesce(%(tenant)s, p.tenant)
 order by p.tenant, p.name
