alter table agent.approval enable row level security, force row level security;
create policy tenant on agent.approval
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.approval as restrictive for select using ((select agent_internal.may_read()));
create policy reader on agent.approval as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or exists (select from agent.run r where r.id = approval.run_id));
