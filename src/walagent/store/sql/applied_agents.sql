-- The agents, in the form that `apply` compares.
select g.name,
       to_jsonb(g) - '{name,version,updated_at}'::text[] as fields
  from agent.agent g
