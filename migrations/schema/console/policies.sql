alter table agent.saved_filter enable row level security, force row level security;
create policy tenant on agent.saved_filter
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.saved_filter as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.saved_filter as restrictive
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));
create policy saver on agent.saved_filter as restrictive for insert
    with check (saved_by = (select agent.current_principal()));
create policy changer on agent.saved_filter as restrictive for update
    using (saved_by = (select agent.current_principal()))
    with check (saved_by = (select agent.current_principal()));
create policy remover on agent.saved_filter as restrictive for delete
    using ((select agent_internal.all_tenants() or agent.has_role('admin'))
           or saved_by = (select agent.current_principal()));

alter table agent.issue enable row level security, force row level security;
create policy tenant on agent.issue
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.issue as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.issue as restrictive
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));

alter table agent_internal.problem_standing enable row level security, force row level security;
create policy tenant on agent_internal.problem_standing
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.problem_standing as restrictive for select using ((select agent_internal.may_read()));
