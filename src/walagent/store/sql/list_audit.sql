-- Rows of the audit, the newest first.
select a.tenant, a.number, a.at, a.principal, a.login, a.action, a.object, a.detail
  from agent.audit a
 where a.tenant = coalesce(%(tenant)s::text, a.tenant)
   and (%(action)s::text is null or a.action = %(action)s or a.action like %(action)s || '.%%')
   and a.principal = coalesce(%(principal)s::name, a.principal)
 order by a.at desc, a.tenant, a.number desc
 limit %(limit)s::bigint
