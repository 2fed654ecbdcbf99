-- key: name
-- Principals with the roles that they have now, and who is the only one that administers for good.
select p.name::text, p.kind, p.display_name, p.email, p.active, p.login::text, p.links_of::text, p.created_at,
       p.name = agent.current_principal() as is_me,
       (select coalesce(jsonb_object_agg(g.role, g.expires_at), '{}') from agent.role_grant g
         where (g.tenant, g.principal) = (p.tenant, p.name) and (g.expires_at is null or g.expires_at > now())) as roles,
       (select count(*) from agent.token t
         where (t.tenant, t.principal) = (p.tenant, p.name) and t.revoked_at is null
           and (t.expires_at is null or t.expires_at > now())) as tokens,
       p.active and exists (select from agent.role_grant g
                             where (g.tenant, g.principal, g.role) = (p.tenant, p.name, 'admin') and g.expires_at is null)
           and not exists (select from agent.role_grant g join agent.principal o on o.tenant = g.tenant and o.name = g.principal
                            where g.tenant = p.tenant and g.principal <> p.name and g.role = 'admin' and g.expires_at is null and o.active) as is_last_admin
  from agent.principal p
 where p.tenant = agent.current_tenant()
 order by p.kind <> 'user', p.name
 limit 2000
