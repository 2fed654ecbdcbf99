-- The budgets, in the form that `apply` compares.
select b.name,
       to_jsonb(b) - '{id,name,version,made_at}'::text[] as fields
  from agent.budget b
