alter table agent.gap_choice enable row level security, force row level security;
create policy tenant on agent.gap_choice
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.gap_choice as restrictive for select using ((select agent_internal.may_read()));
