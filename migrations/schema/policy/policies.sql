alter table agent.policy enable row level security, force row level security;
create policy tenant on agent.policy
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.policy as restrictive for select using ((select agent_internal.may_read()));

alter table agent.egress_rule enable row level security, force row level security;
create policy tenant on agent.egress_rule
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.egress_rule as restrictive for select using ((select agent_internal.may_read()));
