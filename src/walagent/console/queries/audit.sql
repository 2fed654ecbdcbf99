-- key: number
-- parameters: entry, who, did, object, since, until, q, before, limit
-- A page of the audit, newest first; before: the last number of the page before.
select a.number, a.at, a.principal::text, a.login::text, a.action, a.object, a.detail, encode(a.digest, 'hex') as digest,
       case when a.principal = '(walagent)' then 'walagent'
            when exists (select from agent.agent g where g.tenant = a.tenant and g.name = a.principal::text) then 'agent'
            else coalesce((select p.kind from agent.principal p where p.tenant = a.tenant and p.name = a.principal), 'login') end as kind
  from agent.audit a
 where (%(before)s = '' or a.number < nullif(%(before)s, '')::bigint)
   and
-- include: _audit_filter
 order by a.number desc
 limit least(%(limit)s::integer, 500)
