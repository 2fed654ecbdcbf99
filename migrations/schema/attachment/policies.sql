alter table agent.attachment enable row level security, force row level security;
create policy tenant on agent.attachment
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
-- Rows name their tenants: its people act on runs of it.
create policy of_definers on agent.attachment for select
    using ((select agent_internal.has_owner_rights()) and tenant_column is not null);
create policy reading on agent.attachment as restrictive for select using ((select agent_internal.may_read()));

alter table agent.attachment_version enable row level security, force row level security;
create policy tenant on agent.attachment_version
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy of_definers on agent.attachment_version for select
    using ((select agent_internal.has_owner_rights()) and definition ->> 'tenant_column' is not null);
create policy reading on agent.attachment_version as restrictive for select using ((select agent_internal.may_read()));

alter table agent.backfill enable row level security, force row level security;
create policy tenant on agent.backfill
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.backfill as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.backfill_seen enable row level security, force row level security;
create policy tenant on agent_internal.backfill_seen
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.backfill_seen as restrictive for select using ((select agent_internal.may_read()));
