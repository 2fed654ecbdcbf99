alter table agent.workflow enable row level security, force row level security;
create policy tenant on agent.workflow
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.workflow as restrictive for select using ((select agent_internal.may_read()));

alter table agent.workflow_version enable row level security, force row level security;
create policy tenant on agent.workflow_version
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.workflow_version as restrictive for select using ((select agent_internal.may_read()));

alter table agent.workflow_node enable row level security, force row level security;
create policy tenant on agent.workflow_node
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.workflow_node as restrictive for select using ((select agent_internal.may_read()));

alter table agent.workflow_edge enable row level security, force row level security;
create policy tenant on agent.workflow_edge
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.workflow_edge as restrictive for select using ((select agent_internal.may_read()));
