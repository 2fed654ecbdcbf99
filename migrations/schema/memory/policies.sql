alter table agent.memory enable row level security, force row level security;
create policy tenant on agent.memory
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.memory as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.memory_lock enable row level security, force row level security;
create policy tenant on agent_internal.memory_lock
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.memory_lock as restrictive for select using ((select agent_internal.may_read()));
