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
    select r.tenant, r.id as run_id, r.kind, coalesce(a.agent, agent_internal.agent_of_run(r.attachment_id, r.id), r.principal) as agent,
           case when r.kind = 'turn' then (r.change #>> '{new,thread_id}')::uuid end as thread_id,
           r.state, r.worker, s.seq as step, s.kind as step_kind, s.recorded_at as step_at, r.started_at, r.lease_expires_at,
           r.error ->> 'reason' as reason
      from unfinished r
           left join agent.attachment a on a.id = r.attachment_id
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
        select r.tenant, r.id, null, r.error ->> 'call_id', i.content ->> 'name', null, coalesce(a.agent, agent_internal.agent_of_run(r.attachment_id, r.id)), coalesce(t.risk, 'critical'), 'needs_review', i.recorded_at, null
          from agent.run r
               left join agent.attachment a on a.id = r.attachment_id
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
    select r.tenant, r.id as run_id, s.seq, coalesce(a.agent, agent_internal.agent_of_run(r.attachment_id, r.id), r.principal) as agent,
           coalesce(p #>> '{thinking,thinking}', p #>> '{thinking,text}', p #>> '{thinking,reasoning}', p #>> '{thinking,reasoning_content}',
                    p ->> 'text') as text,
           p ? 'thinking' as is_thinking, s.recorded_at
      from agent.run r
           join agent.step s on s.run_id = r.id and s.kind = 'reply'
           cross join lateral jsonb_array_elements(s.content -> 'parts') p
           left join agent.attachment a on a.id = r.attachment_id
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
    select r.tenant, r.id as run_id, r.kind, coalesce(a.agent, agent_internal.agent_of_run(r.attachment_id, r.id), r.principal) as agent, r.state, r.error ->> 'reason' as reason,
           r.error ->> 'sqlstate' as sqlstate, r.attempt, coalesce(r.finished_at, r.started_at, r.created_at) as at
      from agent.run r left join agent.attachment a on a.id = r.attachment_id
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
           r.attachment_version as version, coalesce(v.made_at, o.made_at) as made_at, coalesce(n.at, m.made_at) as replaced_at,
           coalesce(a.version = r.attachment_version, o.is_present, false) as is_present
      from agent.run r
           left join agent.attachment a on a.id = r.attachment_id
           left join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
           -- A canary replaces the version before it when it is promoted, and is replaced when it ends otherwise.
           left join lateral (
               (select c.ended_at as at from agent.canary c
                 where c.attachment_id = r.attachment_id and c.version = r.attachment_version and c.state in ('rolled_back', 'replaced'))
               union all
               (select coalesce(c.ended_at, x.made_at)
                  from agent.attachment_version x left join agent.canary c on c.attachment_id = x.attachment_id and c.version = x.version
                 where x.attachment_id = r.attachment_id and x.version > r.attachment_version and coalesce(c.state, 'promoted') = 'promoted'
                 order by x.version limit 1)
               limit 1) n on true
           left join agent_internal.versions_of_others() o on o.attachment_id = r.attachment_id and o.version = r.attachment_version
           left join agent_internal.versions_of_others() m on m.attachment_id = r.attachment_id and m.version = r.attachment_version + 1;
comment on view agent_internal.failure is 'Runs with what makes failures the same issue';

-- What is there now, whatever the day had: read every 30 s by each process.
create or replace view agent_internal.present_counts with (security_invoker = on) as
select -- By the partial indexes: there is none on all pending runs.
           (select count(*) from (select from agent.run where state = 'pending' and blocked_by is null and not_before is null limit 100001) p)
               + (select count(*) from (select from agent.run where state = 'pending' and blocked_by is not null limit 100001) p)
               + (select count(*) from (select from agent.run where state = 'pending' and blocked_by is null and not_before is not null limit 100001) p)
               as pending,
           (select count(*) from agent.run where state = 'running') as running,
           (select count(*) from agent.worker where seen_at > now() - interval '2 minutes')::integer as workers,
           (select count(*) from agent.gap where resolved_at is null)::integer as gaps;
comment on view agent_internal.present_counts is 'Unfinished runs, workers and gaps';

-- Slots of this database, and those that keep WAL of the server.
create or replace view agent_internal.kept_slot with (security_invoker = on) as
    select k.*, k.wal_status <> 'lost' and k.retained >= 0.8 * (k.retained + k.safe) as is_near
      from (
    select s.slot_name::text as slot, s.active, s.active_pid, s.confirmed_flush_lsn, c.reader_pid, s.wal_status, s.temporary, c.slot is not null as is_own, c.end_lsn,
           pg_catalog.pg_wal_lsn_diff(p.lsn, s.restart_lsn)::bigint as retained,
           greatest(s.safe_wal_size, 0) as safe,
           pg_catalog.pg_wal_lsn_diff(p.lsn, coalesce(s.confirmed_flush_lsn, s.restart_lsn))::bigint as lag
      from pg_catalog.pg_replication_slots s
           cross join (select case when pg_catalog.pg_is_in_recovery() then pg_catalog.pg_last_wal_replay_lsn()
                                    else pg_catalog.pg_current_wal_lsn() end as lsn) p
           left join agent.checkpoint c on c.slot = s.slot_name and c.abandoned_at is null
     where s.database = current_database() or s.slot_type = 'physical') k;
comment on view agent_internal.kept_slot is 'Replication slots, the WAL that they keep, and whose they are';

-- What a person must act on, a view for each part, which agent_internal.problems() reads by itself.  Urgency: 1 stands still,
-- 2 will be lost, 3 costs; 4 can wait.  What concerns the server as a whole is the default tenant's.
create or replace view agent_internal.problem_of_reader (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    select 1, 'reader', 'default', null, 'No process reads the WAL', 'What is committed waits in the WAL.', 'walagent run',
           (select max(c.updated_at) from agent.checkpoint c where c.abandoned_at is null)
     where not exists (select from agent_internal.kept_slot where is_own and active)
       and not exists (select from agent_internal.kept_slot where is_own and wal_status = 'lost')
    union all
    select 1, 'foreign', 'default', k.slot, pg_catalog.format('Another client reads slot %s: PID %s', k.slot, k.active_pid),
           'What it consumes is not ingested.', pg_catalog.format('select pg_terminate_backend(%s);', k.active_pid), null
      from agent_internal.kept_slot k where k.is_own and k.active_pid <> k.reader_pid
    union all
    -- While the own reader reads, the checkpoint can be newer than this snapshot.
    select 1, 'slot', 'default', k.slot, pg_catalog.format('Slot %s is at %s, ahead of the checkpoint at %s', k.slot, k.confirmed_flush_lsn, k.end_lsn),
           'Another client has read from it: changes were not ingested.', 'walagent wal resync', null
      from agent_internal.kept_slot k
     where k.is_own and k.wal_status <> 'lost' and coalesce(k.active_pid <> k.reader_pid, true) and k.confirmed_flush_lsn > k.end_lsn;
comment on view agent_internal.problem_of_reader is 'Problems: who reads';

create or replace view agent_internal.problem_of_slots (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    -- Others' sessions have no names and times without pg_read_all_stats.
    with holder as (
    select a.pid, pg_catalog.format('select pg_terminate_backend(%s);', a.pid) as ends, concat_ws(' ', 'pid ' || a.pid || ',', nullif(a.application_name, ''), 'as ' || a.usename || ',', a.state) as who, a.xact_start as since
      from pg_catalog.pg_stat_activity a where a.backend_xid is not null
    union all
    select null, pg_catalog.format('rollback prepared %L;', p.gid), 'prepared transaction ' || p.gid, p.prepared from pg_catalog.pg_prepared_xacts p
    order by since nulls last limit 1)
    select 1, 'slot', 'default', k.slot, pg_catalog.format('Slot %s is lost: changes since %s cannot be read', k.slot, k.end_lsn),
           'The server has removed WAL that it needs. Runs go on, new changes are not read.', 'walagent wal resync', null
      from agent_internal.kept_slot k where k.is_own and k.wal_status = 'lost'
    union all
    select 2, 'slot', 'default', n.slot, pg_catalog.format('Slot %s keeps %s of %s: %s until it is lost', n.slot, pg_catalog.pg_size_pretty(n.retained),
                             pg_catalog.pg_size_pretty(n.retained + n.safe), pg_catalog.pg_size_pretty(n.safe)),
           case when n.lag > n.retained / 2 then pg_catalog.format('Its reader is %s behind.', pg_catalog.pg_size_pretty(n.lag))
                else coalesce((select pg_catalog.format('Its reader is %s behind; a transaction that is open holds it: %s.', pg_catalog.pg_size_pretty(n.lag), h.who) from holder h),
                              'Its reader is not behind: a transaction that was open held it.') end,
           (select h.ends from holder h where n.lag <= n.retained / 2),
           (select h.since from holder h where n.lag <= n.retained / 2)
      from agent_internal.kept_slot n where n.is_own and n.is_near
    union all
    select 4, 'foreign', 'default', n.slot, case when n.wal_status = 'lost' then pg_catalog.format('Slot %s of somebody else is lost', n.slot)
                              else pg_catalog.format('Slot %s of somebody else keeps %s of WAL%s', n.slot, pg_catalog.pg_size_pretty(n.retained),
                                                     case when n.active then '' else ', and nobody reads it' end) end,
           'walagent does not own it.', null, null
      from agent_internal.kept_slot n
     where not n.is_own and not n.temporary
       and (n.wal_status = 'lost' or n.is_near or not n.active and n.retained > pg_catalog.pg_size_bytes('1 GB'));
comment on view agent_internal.problem_of_slots is 'Problems: slots';

create or replace view agent_internal.problem_of_attachments (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    select 1, 'attachment', a.tenant, a.name, pg_catalog.format('%s has stopped', a.name), a.paused_reason, 'walagent agents resume ' || case when a.name ~ '^[[:alnum:]_.-]+$' then a.name else '''' || replace(a.name, '''', '''\''''') || '''' end, null::timestamptz
      from agent.attachment a where a.paused and a.paused_reason is not null and a.paused_by is null;
comment on view agent_internal.problem_of_attachments is 'Problems: attachments';

-- For a day, or until the attachment has another canary or version.
create or replace view agent_internal.problem_of_canaries (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    select 3, 'canary', c.tenant, a.name, pg_catalog.format('Canary version %s of %s was rolled back', c.version, a.name), c.reason, 'walagent agents canary list', c.ended_at
      from agent.canary c join agent.attachment a on a.id = c.attachment_id
     where c.state = 'rolled_back' and c.ended_by is null and c.ended_at > now() - interval '1 day'
       and a.version = c.base_version and not exists (select from agent.canary n where n.attachment_id = c.attachment_id and n.version > c.version);
comment on view agent_internal.problem_of_canaries is 'Problems: canaries that their rules ended';

create or replace view agent_internal.problem_of_runs (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    select 1, 'review', 'default', null, pg_catalog.format('%s %s', n, case when n = 1 then 'run has an unknown outcome' else 'runs have an unknown outcome' end),
           'A call was started, and its worker stopped before the answer.', 'walagent runs list --state needs_review', null::timestamptz
      from (select count(*) as n from agent.run where state = 'needs_review') r where n > 0
    union all
    select 1, 'worker', 'default', null, pg_catalog.format('%s %s, and no worker takes runs', f.pending, case when f.pending = 1 then 'run is pending' else 'runs are pending' end), null, 'walagent run', null
      from agent_internal.present_counts f where f.workers = 0 and f.pending > 0;
comment on view agent_internal.problem_of_runs is 'Problems: runs';

-- Providers promise a day.
create or replace view agent_internal.problem_of_batches (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    select 3, 'batch', b.tenant, b.id::text,
           pg_catalog.format('Batch %s of model %s has waited for %s hours', b.id, b.model,
                             pg_catalog.floor(extract(epoch from agent_internal.now() - b.formed_at) / 3600)),
           case when b.state = 'forming' then 'It is not submitted' else pg_catalog.format('It is submitted, as %s', b.provider_id) end
               || coalesce(': ' || pg_catalog.left(b.error, 200), '') || '. After 26 hours its calls are made directly.',
           'walagent runs batches', b.formed_at
      from agent.batch b where b.state <> 'ended' and b.formed_at < agent_internal.now() - interval '24 hours';
comment on view agent_internal.problem_of_batches is 'Problems: batches that take longer than a day';

create or replace view agent_internal.problem_of_gaps (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    select 2, 'gap', 'default', null, pg_catalog.format('%s %s for a decision', f.gaps, case when f.gaps = 1 then 'gap waits' else 'gaps wait' end),
           'Changes may not have been read.', 'walagent wal resync', (select min(g.found_at) from agent.gap g where g.resolved_at is null)
      from agent_internal.present_counts f where f.gaps > 0;
comment on view agent_internal.problem_of_gaps is 'Problems: gaps';

-- A budget is spent for a call that needs more than is left.
create or replace view agent_internal.problem_of_budgets (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    with budget as (
    select b.tenant, b.name, b.waiting, b.resets_at, b.on_exceeded,
           greatest((b.spent_cost + b.reserved_cost) / nullif(b.max_cost, 0), (b.spent_tokens + b.reserved_tokens)::numeric / nullif(b.max_tokens, 0))
               as part,
           b.waiting > 0 or b.on_exceeded = 'fail' and exists (
               select from agent.run r
                where r.tenant = b.tenant and r.state in ('failed', 'dead') and r.finished_at > now() - interval '1 hour'
                  and r.error ->> 'budget' = b.name) as refuses
      from agent.budget_overview b)
    select case when b.on_exceeded <> 'warn' and (b.refuses or b.part >= 1) then 3 else 4 end, 'budget', b.tenant, b.name,
           pg_catalog.format('Budget %s is at %s %%', b.name, pg_catalog.round(100 * b.part))
               || case when b.refuses and b.part < 1 then ', and a call needs more than is left' else '' end,
           case when b.waiting > 0 then b.waiting || ' runs wait' || coalesce(' until ' || pg_catalog.to_char(b.resets_at, 'YYYY-MM-DD HH24:MI TZ'), ', and it never begins again') || '.' end,
           'walagent agents budgets', null::timestamptz
      from budget b where b.part >= 0.8 or b.refuses;
comment on view agent_internal.problem_of_budgets is 'Problems: budgets';

-- Of the newest failures of a day: each process looks every 30 s.
create or replace view agent_internal.problem_of_issues (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    with failing as (
    select f.* from agent_internal.failure f
     where f.state in ('failed', 'dead') and f.finished_at > now() - interval '1 day' and exists (select from agent.issue where state = 'resolved')
     order by f.finished_at desc limit 10000)
    select 4, 'regression', i.tenant, concat_ws(' ', i.agent, nullif(i.sqlstate, ''), i.reason), pg_catalog.format('%s fails again: %s', i.agent, pg_catalog.left(i.reason, 120)),
           pg_catalog.format('%s had resolved it.', i.changed_by), 'walagent runs list --state failed', i.since
      from agent.issue i
     where i.state = 'resolved' and exists (
               select from failing f
                where (f.tenant, f.agent, f.sqlstate, f.reason) = (i.tenant, i.agent, i.sqlstate, i.reason) and f.finished_at > i.since
                  and agent_internal.fails_again(i.resolved_in, i.since, f.made_at, f.replaced_at));
comment on view agent_internal.problem_of_issues is 'Problems: failures that came back';

create or replace view agent_internal.problem_of_approvals (urgency, kind, tenant, subject, text, detail, fix, since) with (security_invoker = on) as
    select 4, 'approval', 'default', null, pg_catalog.format('%s %s within the hour', n, case when n = 1 then 'call that waits for a person expires' else 'calls that wait for a person expire' end),
           null, 'walagent approvals list', first
      from (select count(*) as n, min(p.expires_at) as first from agent.approval p where p.state = 'pending' and p.expires_at < now() + interval '1 hour') e where n > 0;
comment on view agent_internal.problem_of_approvals is 'Problems: calls that wait for a person';
