alter table agent.canary enable row level security, force row level security;
create policy tenant on agent.canary
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.canary as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.shadowed_run enable row level security, force row level security;
create policy tenant on agent_internal.shadowed_run
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.shadowed_run as restrictive for select using ((select agent_internal.may_read()));
