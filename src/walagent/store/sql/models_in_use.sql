-- The labels of the models of agents, of their cascades and fall-backs: a tenant's own model precedes the shared one of its name.
select distinct case when m.tenant is null then coalesce(m.name, o.model) else m.tenant || '/' || m.name end
  from agent.agent g
       cross join lateral (select g.model
                            union select s.model from agent_internal.stages(g.cascade) s
                            union select g.fallback where g.fallback is not null) o
       left join lateral agent_internal.model_of(g.tenant, o.model) m on true
 order by 1
