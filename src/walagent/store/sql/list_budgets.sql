-- Budgets: limits, spent and reserved amounts of this period, and runs that wait for the next.
select o.name, o.agent, o.attachment, o.model, o.asker, o.period, o.on_exceeded,
       o.max_cost::float8, o.spent_cost::float8, o.reserved_cost::float8,
       o.max_tokens, o.spent_tokens, o.reserved_tokens, o.waiting, o.resets_at
  from agent.budget_overview o
 where o.tenant = agent.current_tenant()
 order by o.name
