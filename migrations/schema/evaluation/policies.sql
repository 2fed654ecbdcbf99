alter table agent.dataset enable row level security, force row level security;
create policy tenant on agent.dataset
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.dataset as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.dataset as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));

alter table agent.dataset_case enable row level security, force row level security;
create policy tenant on agent.dataset_case
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.dataset_case as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.dataset_case as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));

alter table agent.evaluation enable row level security, force row level security;
create policy tenant on agent.evaluation
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.evaluation as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.evaluation as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));

alter table agent.evaluation_case enable row level security, force row level security;
create policy tenant on agent.evaluation_case
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.evaluation_case as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.evaluation_case as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs()));

alter table agent_internal.evaluation_charge enable row level security, force row level security;
create policy tenant on agent_internal.evaluation_charge
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.evaluation_charge as restrictive for select using ((select agent_internal.may_read()));
