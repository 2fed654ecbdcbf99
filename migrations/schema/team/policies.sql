alter table agent.team enable row level security, force row level security;
create policy tenant on agent.team
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.team as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.team as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = team.thread_id));

alter table agent.team_member enable row level security, force row level security;
create policy tenant on agent.team_member
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.team_member as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.team_member as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = team_member.thread_id));

alter table agent.proposal enable row level security, force row level security;
create policy tenant on agent.proposal
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.proposal as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.proposal as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = proposal.thread_id));

alter table agent.vote enable row level security, force row level security;
create policy tenant on agent.vote
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.vote as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.vote as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = vote.thread_id));

alter table agent.task enable row level security, force row level security;
create policy tenant on agent.task
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.task as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.task as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = task.thread_id));

alter table agent.task_need enable row level security, force row level security;
create policy tenant on agent.task_need
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.task_need as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.task_need as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = task_need.thread_id));

alter table agent.artifact enable row level security, force row level security;
create policy tenant on agent.artifact
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.artifact as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.artifact as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = artifact.thread_id));

alter table agent.discussion enable row level security, force row level security;
create policy tenant on agent.discussion
    using ((select agent_internal.all_tenants()) or tenant = (select agent.current_tenant()));
create policy reading on agent.discussion as restrictive for select using ((select agent_internal.may_read()));
create policy member on agent.discussion as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = discussion.thread_id));
