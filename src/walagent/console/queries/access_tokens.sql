-- key: id
-- Tokens, links and sessions that the caller sees, those that can be used first.
select t.id, t.principal::text, t.label, t.purpose, t.scopes, t.created_at, t.expires_at, t.revoked_at,
       case when t.revoked_at is not null then 'revoked' when t.expires_at <= now() then 'expired' else 'valid' end as state
  from agent.token t
 where t.tenant = agent.current_tenant()
 order by t.revoked_at is not null or coalesce(t.expires_at <= now(), false), t.created_at desc, t.id
 limit 500
