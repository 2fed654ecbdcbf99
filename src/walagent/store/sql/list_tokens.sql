select t.tenant, t.id, t.principal, t.label, t.scopes,
       case when t.revoked_at is not null then 'revoked'
            when t.expires_at <= agent_internal.now() then 'expired'
            else 'valid' end as state,
       t.created_at, t.expires_at, t.revoked_at
  from agent.token t
 where t.tenant = coalesce(%(tenant)s, t.tenant)
 order by t.tenant, t.principal, t.created_at, t.id
