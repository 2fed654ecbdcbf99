-- The message that a run delivers.
select o.id::text, o.tenant, o.channel, c.kind, c.target, c.secret, o.event, o.subject, o.body,
       (select agent_internal.link_token(l) from agent.approval_link l where l.tenant = o.tenant and l.id = o.link_id) as token,
       o.created_at
  from agent.outbox o
       join agent.channel c on c.tenant = o.tenant and c.name = o.channel
 where o.run_id = %(run)s
