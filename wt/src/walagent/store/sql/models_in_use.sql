-- Models that agents name.
select distinct g.model from agent.agent g order by 1
