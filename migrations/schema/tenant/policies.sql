alter table agent.tenant enable row level security, force row level security;
create policy tenant on agent.tenant
    using ((select agent_internal.all_tenants()) or name = (select agent.current_tenant()));
create policy reading on agent.tenant as restrictive for select using ((select agent_internal.may_read()));
create policy sought on agent.tenant for select
    using ((select agent_internal.sought_token()) is not null and agent_internal.is_sought(name));

alter table agent.principal enable row level security, force row level security;
create policy tenant on agent.principal
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.principal as restrictive for select using ((select agent_internal.may_read()));
create policy sought on agent.principal for select
    using ((select agent_internal.sought_token()) is not null and agent_internal.is_sought(tenant, name));

alter table agent.role_grant enable row level security, force row level security;
create policy tenant on agent.role_grant
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.role_grant as restrictive for select using ((select agent_internal.may_read()));

alter table agent.token enable row level security, force row level security;
create policy tenant on agent.token
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.token as restrictive for select using ((select agent_internal.may_read()));
-- A digest finds its token; nothing else follows from knowing it.
create policy sought on agent.token for select using (digest = (select agent_internal.sought_token()));
-- Tokens of others are visible to admins only; digests to nobody.
create policy own on agent.token as restrictive for select
    using ((select agent_internal.all_tenants()) or principal = (select agent.current_principal())
           or (select agent.has_role('admin')) or digest = (select agent_internal.sought_token()));
