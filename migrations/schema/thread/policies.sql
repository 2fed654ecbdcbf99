alter table agent.thread enable row level security, force row level security;
create policy tenant on agent.thread
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.thread as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.thread as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = thread.id));

alter table agent.member enable row level security, force row level security;
create policy tenant on agent.member
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.member as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.member as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = member.thread_id));

alter table agent.event enable row level security, force row level security;
create policy tenant on agent.event
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.event as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.event as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = event.thread_id));

alter table agent.fact enable row level security, force row level security;
create policy tenant on agent.fact
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.fact as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.fact as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = fact.thread_id));

alter table agent_internal.participation enable row level security, force row level security;
create policy own on agent_internal.participation for select
    using ((select agent_internal.all_tenants())
           or tenant = (select agent.current_tenant()) and principal = (select agent.current_principal()));
create policy kept on agent_internal.participation for insert with check (true);
create policy reading on agent_internal.participation as restrictive for select using ((select agent_internal.may_read()));

alter table agent.observation enable row level security, force row level security;
create policy tenant on agent.observation
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.observation as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.observation as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = observation.thread_id));
