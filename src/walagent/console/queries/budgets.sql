-- key: name
-- Budgets, and what is spent and reserved of them.
select b.name, concat_ws(', ', 'agent ' || b.agent, 'attachment ' || b.attachment, 'model ' || b.model, 'questions of ' || b.asker) as applies_to,
       b.period, b.on_exceeded, b.max_cost, b.spent_cost, b.reserved_cost, b.max_tokens, b.spent_tokens, b.reserved_tokens, b.waiting, b.resets_at
  from agent.budget_overview b
 order by b.name
