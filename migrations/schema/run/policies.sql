alter table agent.run enable row level security, force row level security;
create policy tenant on agent.run
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.run as restrictive for select using ((select agent_internal.may_read()));
-- Of a turn, the run says no more than its thread does; its steps have what tools returned.
create policy reader on agent.run as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights() or agent_internal.sees_runs())
           or principal = (select agent.current_principal())
           or kind = 'turn' and exists (select from agent_internal.participation p where p.thread_id::text = run.ordering_key));
-- The WAL knows no policies: a row is shown once the agent was, whose role can see it.
create policy judged on agent.run as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights())
           or attachment_id is null or not change ?| '{new,old}'
           or attachment_id <> all ((select agent_internal.guarded_attachments())::bigint[])
           or agent_internal.was_shown(id));

alter table agent_internal.merged_change enable row level security, force row level security;
create policy tenant on agent_internal.merged_change
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.merged_change as restrictive for select using ((select agent_internal.may_read()));
create policy judged on agent_internal.merged_change as restrictive for select
    using ((select agent_internal.all_tenants() or agent_internal.has_owner_rights())
           or not change ?| '{new,old}'
           or attachment_id <> all ((select agent_internal.guarded_attachments())::bigint[])
           or agent_internal.was_shown(run_id));

alter table agent_internal.deferred_change enable row level security, force row level security;
create policy tenant on agent_internal.deferred_change
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.deferred_change as restrictive for select using ((select agent_internal.may_read()));

alter table agent_internal.cancel_request enable row level security, force row level security;
create policy tenant on agent_internal.cancel_request
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent_internal.cancel_request as restrictive for select using ((select agent_internal.may_read()));
