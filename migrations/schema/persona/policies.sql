alter table agent.persona enable row level security, force row level security;
create policy tenant on agent.persona
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.persona as restrictive for select using ((select agent_internal.may_read()));

alter table agent.persona_version enable row level security, force row level security;
create policy tenant on agent.persona_version
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.persona_version as restrictive for select using ((select agent_internal.may_read()));
