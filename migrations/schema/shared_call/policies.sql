alter table agent_internal.shared_call enable row level security, force row level security;
create policy tenant on agent_internal.shared_call
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.shared_call as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.shared_wait enable row level security, force row level security;
create policy tenant on agent_internal.shared_wait
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.shared_wait as restrictive for select using ((select agent_internal.may_read()));
