-- Models as `apply` compares them.
select m.name,
       to_jsonb(m) - 'name' as fields
  from agent.model m
