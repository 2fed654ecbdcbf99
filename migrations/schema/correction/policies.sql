-- As of row changes.
alter table agent.correction enable row level security, force row level security;
create policy tenant on agent.correction
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.correction as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.correction as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or exists (select from agent.run r where r.id = correction.run_id and r.principal = (select agent.current_principal())));

alter table agent_internal.last_write enable row level security, force row level security;
create policy tenant on agent_internal.last_write
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.last_write as restrictive for select using ((select agent_internal.may_read()));

alter table agent.score enable row level security, force row level security;
create policy tenant on agent.score
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.score as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.score as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or exists (select from agent.run r where r.id = score.run_id and r.principal = (select agent.current_principal())));
