alter table agent.batch enable row level security, force row level security;
create policy tenant on agent.batch
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.batch as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.batch as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));

alter table agent_internal.batch_item enable row level security, force row level security;
create policy tenant on agent_internal.batch_item
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.batch_item as restrictive for select using ((select agent_internal.may_read()));
