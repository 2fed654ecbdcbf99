alter table agent.budget enable row level security, force row level security;
create policy tenant on agent.budget
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.budget as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.budget_use enable row level security, force row level security;
create policy tenant on agent_internal.budget_use
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.budget_use as restrictive for select using ((select agent_internal.may_read()));

alter table agent.spend enable row level security, force row level security;
create policy tenant on agent.spend
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.spend as restrictive for select using ((select agent_internal.may_read()));
