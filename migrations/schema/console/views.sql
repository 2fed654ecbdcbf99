-- What agents do now and have done: views for people and consoles.
--
-- Each has the rights of the reader, so row-level security decides whose rows it shows.  Each reads what is unfinished, or a
-- window of time, whatever the number of old runs is.

create or replace view agent.live_activity with (security_invoker = on) as
    with unfinished as (
        select r.* from agent.run r where r.state = 'running'
        union all
        select r.* from agent.run r where r.state = 'waiting_retry'
        union all
        select r.* from agent.run r where r.state in ('waiting_approval', 'needs_review')
    )
    select r.tenant, r.id as run_id, r.kind, coalesce(a.agent, r.principal) as agent,
           case when r.kind = 'turn' then (r.change #>> '{new,thread_id}')::uuid end as thread_id,
           r.state, r.worker, s.seq as step, s.kind as step_kind, s.recorded_at as step_at, r.started_at, r.lease_expires_at,
           r.error ->> 'reason' as reason
      from unfinished r
           left join agent.attachment a on a.tenant = r.tenant and a.id = r.attachment_id
           left join lateral (select x.seq, x.kind, x.recorded_at from agent.step x where x.run_id = r.id order by x.seq desc limit 1) s on true;
comment on view agent.live_activity is 'Runs that are executed or wait, with their latest step; queued ones are left out';
comment on column agent.live_activity.tenant is 'Tenant';
comment on column agent.live_activity.run_id is 'Run';
comment on column agent.live_activity.kind is 'Kind of run';
comment on column agent.live_activity.agent is 'Agent, or who asks';
comment on column agent.live_activity.thread_id is 'Thread of a turn';
comment on column agent.live_activity.state is 'State';
comment on column agent.live_activity.worker is 'Worker of the last claim';
comment on column agent.live_activity.step is 'Number of the latest step';
comment on column agent.live_activity.step_kind is 'Kind of the latest step';
comment on column agent.live_activity.step_at is 'Time of the latest step';
comment on column agent.live_activity.started_at is 'Time of the first claim';
comment on column agent.live_activity.lease_expires_at is 'End of the lease';
comment on column agent.live_activity.reason is 'Why it waits';

-- The thread first: its ID alone is unique, so a query by it reads only its events.
create or replace view agent.conversation_timeline with (security_invoker = on) as
    select t.tenant, t.id as thread_id, t.title, e.number, e.type, e.author, p.kind as author_kind,
           coalesce(e.data ->> 'text', e.data ->> 'content', e.data ->> 'action', e.data ->> 'name') as text, e.data, e.run_id, e.created_at
      from agent.thread t
           join agent.event e on e.tenant = t.tenant and e.thread_id = t.id
           join agent.principal p on p.tenant = e.tenant and p.name = e.author;
comment on view agent.conversation_timeline is 'Events of threads; use with a condition on thread_id';
comment on column agent.conversation_timeline.tenant is 'Tenant';
comment on column agent.conversation_timeline.thread_id is 'Thread';
comment on column agent.conversation_timeline.title is 'Title of the thread';
comment on column agent.conversation_timeline.number is 'Number of the event in its thread';
comment on column agent.conversation_timeline.type is 'Type of the event';
comment on column agent.conversation_timeline.author is 'Author';
comment on column agent.conversation_timeline.author_kind is 'user, agent or service';
comment on column agent.conversation_timeline.text is 'Text, content of a result, action, or name of a tool';
comment on column agent.conversation_timeline.data is 'Data of the event';
comment on column agent.conversation_timeline.run_id is 'Turn that made it';
comment on column agent.conversation_timeline.created_at is 'Time';

create or replace view agent.agent_stats with (security_invoker = on) as select * from agent.agent_analytics(7);
comment on view agent.agent_stats is 'agent.agent_analytics() of the last 7 days';
comment on column agent.agent_stats.tenant is 'Tenant';
comment on column agent.agent_stats.agent is 'Agent';
comment on column agent.agent_stats.runs is 'Runs that were created';
comment on column agent.agent_stats.succeeded is 'Of these, succeeded';
comment on column agent.agent_stats.failed is 'Of these, failed or dead';
comment on column agent.agent_stats.waiting is 'Of these, waiting now';
comment on column agent.agent_stats.tokens is 'Tokens of runs that ended or wait';
comment on column agent.agent_stats.cost is 'US dollars of these';
comment on column agent.agent_stats.average_seconds is 'Average time from the first claim to the end';
comment on column agent.agent_stats.slow_seconds is 'The same at the 95th percentile';
comment on column agent.agent_stats.rating is 'Average rating of its messages';

create or replace view agent.tool_call_queue with (security_invoker = on) as
    select q.* from (
        select p.tenant, p.run_id, p.id as approval, p.call_id, p.tool, p.arguments, p.agent, p.risk, 'awaiting_approval' as waits_for,
               p.asked_at as since, p.expires_at
          from agent.approval p
         where p.state = 'pending'
        union all
        select r.tenant, r.id, null, r.error ->> 'call_id', i.content ->> 'name', null, a.agent, coalesce(t.risk, 'critical'), 'needs_review', i.recorded_at, null
          from agent.run r
               left join agent.attachment a on a.tenant = r.tenant and a.id = r.attachment_id
               left join lateral (select x.content, x.recorded_at from agent.step x where x.run_id = r.id and x.kind = 'intent'
                                   order by x.seq desc limit 1) i on true
               left join lateral (select x.risk from agent.tool x where x.name = i.content ->> 'name' and x.scope in ('', r.tenant)
                                   order by x.scope desc limit 1) t on true
         where r.state = 'needs_review'
    ) q
     order by agent_internal.risk_rank(q.risk) desc, q.since;
comment on view agent.tool_call_queue is 'Tool calls that wait for a person, the highest risk first, then the oldest';
comment on column agent.tool_call_queue.tenant is 'Tenant';
comment on column agent.tool_call_queue.run_id is 'Run';
comment on column agent.tool_call_queue.approval is 'Approval; NULL: agent.resolve() of the run decides';
comment on column agent.tool_call_queue.call_id is 'Call';
comment on column agent.tool_call_queue.tool is 'Tool';
comment on column agent.tool_call_queue.arguments is 'Arguments of the call';
comment on column agent.tool_call_queue.agent is 'Agent that made it';
comment on column agent.tool_call_queue.risk is 'Risk of the tool; of one without a risk: critical';
comment on column agent.tool_call_queue.waits_for is 'awaiting_approval, or needs_review: its outcome is unknown';
comment on column agent.tool_call_queue.since is 'Since when it waits';
comment on column agent.tool_call_queue.expires_at is 'When the approval expires';

create or replace view agent.thinking_trace with (security_invoker = on) as
    select r.tenant, r.id as run_id, s.seq, coalesce(a.agent, r.principal) as agent,
           coalesce(p #>> '{thinking,thinking}', p #>> '{thinking,text}', p #>> '{thinking,reasoning}', p #>> '{thinking,reasoning_content}',
                    p ->> 'text') as text,
           p ? 'thinking' as is_thinking, s.recorded_at
      from agent.run r
           join agent.step s on s.run_id = r.id and s.kind = 'reply'
           cross join lateral jsonb_array_elements(s.content -> 'parts') p
           left join agent.attachment a on a.tenant = r.tenant and a.id = r.attachment_id
     where r.created_at > agent_internal.now() - interval '1 day' and not p ? 'call';
comment on view agent.thinking_trace is 'What models thought and said in runs that were created in the last 24 hours';
comment on column agent.thinking_trace.tenant is 'Tenant';
comment on column agent.thinking_trace.run_id is 'Run';
comment on column agent.thinking_trace.seq is 'Number of the step';
comment on column agent.thinking_trace.agent is 'Agent, or who asks';
comment on column agent.thinking_trace.text is 'Text; NULL: only the provider can read it';
comment on column agent.thinking_trace.is_thinking is 'Whether it is reasoning, not an answer';
comment on column agent.thinking_trace.recorded_at is 'Time of the reply';

create or replace view agent.error_log with (security_invoker = on) as
    select r.tenant, r.id as run_id, r.kind, coalesce(a.agent, r.principal) as agent, r.state, r.error ->> 'reason' as reason,
           r.error ->> 'sqlstate' as sqlstate, r.attempt, coalesce(r.finished_at, r.started_at, r.created_at) as at
      from agent.run r left join agent.attachment a on a.tenant = r.tenant and a.id = r.attachment_id
     where r.state in ('failed', 'dead', 'needs_review') and r.created_at > agent_internal.now() - interval '7 days';
comment on view agent.error_log is 'Runs of the last 7 days that failed, are dead or need a review';
comment on column agent.error_log.tenant is 'Tenant';
comment on column agent.error_log.run_id is 'Run';
comment on column agent.error_log.kind is 'Kind of run';
comment on column agent.error_log.agent is 'Agent, or who asks';
comment on column agent.error_log.state is 'failed, dead or needs_review';
comment on column agent.error_log.reason is 'Reason';
comment on column agent.error_log.sqlstate is 'SQLSTATE';
comment on column agent.error_log.attempt is 'Number of attempts';
comment on column agent.error_log.at is 'Time of the end, or of the last claim';

create or replace view agent.hourly_activity with (security_invoker = on) as
    select r.tenant, date_trunc('hour', r.created_at) as hour, count(*) as runs, count(*) filter (where r.state = 'succeeded') as succeeded,
           count(*) filter (where r.state in ('failed', 'dead')) as failed, sum(r.tokens) as tokens, sum(r.cost) as cost
      from agent.run r
     where r.created_at > date_trunc('hour', agent_internal.now()) - interval '23 hours'
     group by r.tenant, date_trunc('hour', r.created_at);
comment on view agent.hourly_activity is 'Runs of the last 24 hours by the hour in which they were created';
comment on column agent.hourly_activity.tenant is 'Tenant';
comment on column agent.hourly_activity.hour is 'Start of the hour';
comment on column agent.hourly_activity.runs is 'Runs that were created';
comment on column agent.hourly_activity.succeeded is 'Of these, succeeded';
comment on column agent.hourly_activity.failed is 'Of these, failed or dead';
comment on column agent.hourly_activity.tokens is 'Tokens of these';
comment on column agent.hourly_activity.cost is 'US dollars of these';

create or replace view agent.dashboard with (security_invoker = on) as
    with day as (
        select count(*) as runs, count(*) filter (where r.state = 'succeeded') as succeeded,
               count(*) filter (where r.state in ('failed', 'dead')) as failed, coalesce(sum(r.tokens), 0) as tokens, coalesce(sum(r.cost), 0) as cost
          from agent.run r
         where r.tenant = (select agent.current_tenant()) and r.created_at > agent_internal.now() - interval '1 day'
    )
    select (select agent.current_tenant()) as tenant,
           (select count(*) from agent.agent g where g.tenant = (select agent.current_tenant())) as agents,
           (select count(*) from agent.thread t where t.tenant = (select agent.current_tenant()) and t.state = 'active') as threads,
           (select count(*) from agent.run r where r.tenant = (select agent.current_tenant()) and r.state = 'running') as running,
           (select count(*) from agent.approval p where p.tenant = (select agent.current_tenant()) and p.state = 'pending') as approvals,
           (select count(*) from agent.run r where r.tenant = (select agent.current_tenant()) and r.state = 'needs_review') as reviews,
           d.runs, d.succeeded, d.failed, d.tokens, d.cost
      from day d;
comment on view agent.dashboard is 'The tenant of the caller in one row: what exists and waits now, and the runs of the last 24 hours';
comment on column agent.dashboard.tenant is 'Tenant of the caller';
comment on column agent.dashboard.agents is 'Agents';
comment on column agent.dashboard.threads is 'Active threads';
comment on column agent.dashboard.running is 'Runs that are executed now';
comment on column agent.dashboard.approvals is 'Pending approvals';
comment on column agent.dashboard.reviews is 'Runs that need a review';
comment on column agent.dashboard.runs is 'Runs that were created in the last 24 hours';
comment on column agent.dashboard.succeeded is 'Of these, succeeded';
comment on column agent.dashboard.failed is 'Of these, failed or dead';
comment on column agent.dashboard.tokens is 'Tokens of these';
comment on column agent.dashboard.cost is 'US dollars of these';

-- Runs that failed, or wait for another attempt, and what makes them the same issue: the columns of agent.issue.
create or replace view agent_internal.failure with (security_invoker = on) as
    select r.tenant, r.id, r.state, r.finished_at, coalesce(r.finished_at, r.created_at) as at, r.created_at, r.error,
           coalesce(v.definition ->> 'agent', o.agent, r.kind) as agent, coalesce(r.error ->> 'sqlstate', '') as sqlstate,
           agent_internal.without_values(coalesce(r.error ->> 'reason', 'no reason was recorded')) as reason,
           r.attachment_version as version, coalesce(v.made_at, o.made_at) as made_at, coalesce(n.made_at, m.made_at) as replaced_at,
           coalesce(a.version = r.attachment_version, o.is_present, false) as is_present
      from agent.run r
           left join agent.attachment a on a.id = r.attachment_id
           left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
           left join agent.attachment_version n on n.attachment_id = r.attachment_id and n.version = r.attachment_version + 1
           left join agent_internal.versions_of_others() o on o.attachment_id = r.attachment_id and o.version = r.attachment_version
           left join agent_internal.versions_of_others() m on m.attachment_id = r.attachment_id and m.version = r.attachment_version + 1;
comment on view agent_internal.failure is 'Runs with what makes failures the same issue';
