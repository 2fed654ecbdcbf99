-- Budgets as `apply` compares them.
select b.name,
       to_jsonb(b) - '{id,name,version,made_at}'::text[] as fields
  from agent.budget b
