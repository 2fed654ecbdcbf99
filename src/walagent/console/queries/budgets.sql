-- key: name
-- Budgets, what is spent and reserved of them, and why the caller may not change them; NULL: it may.
select o.name, concat_ws(', ', 'agent ' || o.agent, 'attachment ' || o.attachment, 'model ' || o.model, 'questions of ' || o.asker) as applies_to,
       o.period, o.on_exceeded, o.max_cost, o.spent_cost, o.reserved_cost, o.max_tokens, o.spent_tokens, o.reserved_tokens, o.waiting, o.resets_at,
       b.version, b.source = 'file' as of_file, w.refusal
  from agent.budget_overview o
       join agent.budget b on b.tenant = o.tenant and b.name = o.name
       cross join (select case when not agent.has_role('admin') then 'role'
                               when x.login is null then 'login'
                               when not has_table_privilege(x.login, 'agent.budget', 'update') then 'privilege' end as refusal
                     from agent_internal.asking('') x) w
 order by o.name
