-- What a link shows.
select o.refusal, (o.link).principal, p.id as approval, p.run_id as run, p.agent, p.tool, p.risk,
       p.arguments || p.bound as arguments, p.relation, p.key, p.content, p.expires_at
  from agent_internal.open_link(_token => %(token)s) o
       left join agent.pending_approval p on p.id = (o.approval).id
