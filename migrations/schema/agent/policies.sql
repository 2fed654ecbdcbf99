alter table agent.agent enable row level security, force row level security;
create policy tenant on agent.agent
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.agent as restrictive for select using ((select agent_internal.may_read()));

alter table agent.agent_version enable row level security, force row level security;
create policy tenant on agent.agent_version
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.agent_version as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.rate enable row level security, force row level security;
create policy tenant on agent_internal.rate
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.rate as restrictive for select using ((select agent_internal.may_read()));
