alter table agent.tool enable row level security, force row level security;
create policy tenant on agent.tool
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.tool as restrictive for select using ((select agent_internal.may_read()));
create policy shared on agent.tool for select using (tenant is null);

alter table agent.tool_version enable row level security, force row level security;
create policy tenant on agent.tool_version
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.tool_version as restrictive for select using ((select agent_internal.may_read()));
create policy shared on agent.tool_version for select using (tenant is null);

alter table agent.role_tool enable row level security, force row level security;
create policy tenant on agent.role_tool
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.role_tool as restrictive for select using ((select agent_internal.may_read()));
