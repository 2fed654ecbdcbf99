-- As of steps: values are those that the role of the run can read, and who sees no step of it sees none of them.
alter table agent.row_change enable row level security, force row level security;
create policy tenant on agent.row_change
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.row_change as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.row_change as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or exists (select from agent.run r where r.id = row_change.run_id and r.principal = (select agent.current_principal())));

alter table agent_internal.row_before enable row level security, force row level security;
create policy tenant on agent_internal.row_before
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.row_before as restrictive for select using ((select agent_internal.may_read()));
