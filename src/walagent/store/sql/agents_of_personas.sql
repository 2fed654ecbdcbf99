-- The agents that use the latest version of one of some personas.
select g.name from agent.agent g where g.persona = any (%(personas)s) and g.persona_version is null
