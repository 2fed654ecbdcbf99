-- Agents as `apply` compares them.
select g.name,
       to_jsonb(g) - '{name,version,updated_at}'::text[] as fields
  from agent.agent g
