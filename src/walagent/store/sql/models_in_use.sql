-- The models of agents.
select distinct g.model from agent.agent g order by 1
