-- The labels of the models of agents: a tenant's own model precedes the shared one of its name.
select distinct case when m.tenant is null then coalesce(m.name, g.model) else m.tenant || '/' || m.name end
  from agent.agent g left join lateral agent_internal.model_of(g.tenant, g.model) m on true
 order by 1
