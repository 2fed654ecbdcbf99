create or replace view agent.budget_overview with (security_invoker = on) as
    select b.name, b.agent, b.attachment, b.model, b.asker, b.period, b.on_exceeded,
           b.max_cost, case when u.starts_at < p.start then 0 else u.spent_cost end as spent_cost, u.reserved_cost,
           b.max_tokens, case when u.starts_at < p.start then 0 else u.spent_tokens end as spent_tokens, u.reserved_tokens,
           agent_internal.waiting_runs(b.tenant, b.name) as waiting,
           agent_internal.period_end(b.period, agent_internal.now()) as resets_at,
           b.tenant
      from agent.budget b
           join agent_internal.budget_use u on u.budget_id = b.id
           cross join agent_internal.period_start(b.period, agent_internal.now()) as p (start);
comment on view agent.budget_overview is 'Budgets with their limits, what is spent and reserved in this period, and how many runs wait';
comment on column agent.budget_overview.name is 'Name of the budget';
comment on column agent.budget_overview.agent is 'Agent whose calls count; NULL: all';
comment on column agent.budget_overview.attachment is 'Attachment whose calls count; NULL: all';
comment on column agent.budget_overview.model is 'Model whose calls count; NULL: all';
comment on column agent.budget_overview.asker is 'Login whose questions count; NULL: all calls';
comment on column agent.budget_overview.period is 'day, month or total';
comment on column agent.budget_overview.on_exceeded is 'wait, fail or warn';
comment on column agent.budget_overview.max_cost is 'US dollars; NULL: no limit';
comment on column agent.budget_overview.spent_cost is 'US dollars spent in this period';
comment on column agent.budget_overview.reserved_cost is 'US dollars reserved by calls in progress';
comment on column agent.budget_overview.max_tokens is 'Input and output tokens; NULL: no limit';
comment on column agent.budget_overview.spent_tokens is 'Tokens spent in this period';
comment on column agent.budget_overview.reserved_tokens is 'Tokens reserved by calls in progress';
comment on column agent.budget_overview.waiting is 'Number of runs that wait for it';
comment on column agent.budget_overview.resets_at is 'End of the period; NULL for total';
comment on column agent.budget_overview.tenant is 'Tenant whose calls it limits';

create or replace view agent.unpriced with (security_invoker = on) as
    select b.name as budget, a.name as attachment, m.name as model, b.tenant
      from agent.budget b
           join agent.attachment a on a.tenant = b.tenant
           join agent.agent g on g.tenant = a.tenant and g.name = a.agent
           cross join agent_internal.model_of(g.tenant, g.model) m
     where b.max_cost is not null and b.on_exceeded <> 'warn' and b.asker is null
       and (m.input_price is null or m.output_price is null)
       and coalesce(b.agent, g.name) = g.name and coalesce(b.attachment, a.name) = a.name
       and coalesce(b.model, m.name) = m.name;
comment on view agent.unpriced is 'Attachments whose model has no price, which a budget in US dollars requires';
comment on column agent.unpriced.budget is 'Budget in US dollars';
comment on column agent.unpriced.attachment is 'Attachment whose calls it refuses';
comment on column agent.unpriced.model is 'Model without an input or output price';
comment on column agent.unpriced.tenant is 'Tenant of budget and attachment';
