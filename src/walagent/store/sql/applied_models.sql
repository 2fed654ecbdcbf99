-- The models, in the form that `apply` compares.
select m.name,
       to_jsonb(m) - 'name' as fields
  from agent.model m
