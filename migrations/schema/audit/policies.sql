alter table agent.audit enable row level security, force row level security;
create policy tenant on agent.audit
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.audit as restrictive for select using ((select agent_internal.may_read()));
-- Appended by the commit of anyone who acts, also for a tenant that it does not act in any more.
create policy append on agent.audit for insert with check (true);
create policy auditor on agent.audit as restrictive for select
    using ((select agent_internal.all_tenants()) or (select agent.has_role('auditor')));

alter table agent_internal.audit_head enable row level security, force row level security;
create policy tenant on agent_internal.audit_head
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.audit_head as restrictive for select using ((select agent_internal.may_read()));
create policy auditor on agent_internal.audit_head as restrictive for select
    using ((select agent_internal.all_tenants()) or (select agent.has_role('auditor')) or (select agent_internal.has_owner_rights()));
-- The commit of anyone who acts appends to the chain of the tenant that it is about.
create policy of_definers on agent_internal.audit_head using ((select agent_internal.has_owner_rights()));
