alter table agent.model enable row level security, force row level security;
create policy tenant on agent.model
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.model as restrictive for select using ((select agent_internal.may_read()));
create policy shared on agent.model for select using (tenant is null);
