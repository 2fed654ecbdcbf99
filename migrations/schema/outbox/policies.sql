alter table agent.channel enable row level security, force row level security;
create policy tenant on agent.channel
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.channel as restrictive for select using ((select agent_internal.may_read()));

alter table agent.notification enable row level security, force row level security;
create policy tenant on agent.notification
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.notification as restrictive for select using ((select agent_internal.may_read()));

alter table agent.outbox enable row level security, force row level security;
create policy tenant on agent.outbox
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.outbox as restrictive for select using ((select agent_internal.may_read()));

alter table agent.approval_link enable row level security, force row level security;
create policy tenant on agent.approval_link
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.approval_link as restrictive for select using ((select agent_internal.may_read()));
