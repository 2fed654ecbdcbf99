-- role: admin
-- parameters: tenant
-- End all sessions of the caller's tenant, its own too, and links that nobody has used; returns how many.
select count(x.done)
  from (select agent.revoke_token(t.id)::text as done
          from agent.token t
         where t.tenant = agent.current_tenant() and t.tenant = %(tenant)s and t.purpose in ('session', 'link')
           and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
         order by t.id
        offset 0) x
