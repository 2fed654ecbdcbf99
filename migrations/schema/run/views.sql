-- Violations of the promises in migrations/README.md.  `walagent wal check` prints them.
create or replace view agent.broken_invariant with (security_invoker = on) as
    select 'a step is missing' as rule, format('run %s: %s steps, the last is number %s', run_id, count(*), max(seq)) as detail
      from agent.step where run_id > coalesce(agent_internal.first_checked_run(), 0)
     group by run_id having count(*) <> max(seq) + 1
    union all
    select 'a run is ahead of the checkpoint', format('run %s at %s, checkpoint at %s', r.id, r.commit_lsn, p.end_lsn)
      from (select generation, max(end_lsn) as end_lsn from agent.checkpoint group by generation) p
           cross join (select distinct attachment_id from agent.attachment_version) v
           cross join lateral (select * from agent.run  -- LIMIT: by the index of run_once_per_change
                                where attachment_id = v.attachment_id and generation = p.generation
                                  and commit_lsn >= p.end_lsn
                                order by commit_lsn desc limit 100) r
     where r.reason = 'change'
    union all
    select 'a run waits for an approval that does not exist', format('run %s', r.id)
      from agent.run r
     where r.state = 'waiting_approval'
       and not exists (select from agent.approval p where p.run_id = r.id and p.state = 'pending')
    union all
    select 'an approval waits for a run that has ended', format('approval %s of run %s', p.id, p.run_id)
      from agent.approval p join agent.run r on r.id = p.run_id
     where p.state = 'pending' and agent_internal.is_final(r.state)
    union all
    select 'a run is blocked by one that has ended', format('run %s by %s', r.id, r.blocked_by)
      from agent.run r join agent.run p on p.id = r.blocked_by where agent_internal.is_final(p.state)
    union all
    select 'a run waits for one of a lower priority', format('run %s for %s', r.id, r.blocked_by)
      from agent.run r join agent.run p on p.id = r.blocked_by where p.priority < r.priority and not agent_internal.is_final(p.state)
    union all
    select 'runs block one another', format('run %s', c.id) from agent_internal.runs_in_circles() c (id)
    union all
    -- Of one reply: some providers start the numbers of calls again with each reply.
    select 'a call has two results', format('run %s, call %s', run_id, call_id)
      from (select run_id, content ->> 'call_id' as call_id, array_agg(seq) as at from agent.step
             where kind = 'result' and run_id > coalesce(agent_internal.first_checked_run(), 0)
             group by 1, 2 having count(*) > 1) c
     where (select count(distinct (select coalesce(max(r.seq), -1) from agent.step r
                                    where r.run_id = c.run_id and r.kind = 'reply' and r.seq < a.seq))
                   < count(*)
              from unnest(c.at) as a (seq))
    union all
    select 'a lease has expired and its run was not released', format('run %s since %s', id, lease_expires_at)
      from agent.run where state = 'running' and lease_expires_at < agent_internal.now() - interval '5 minutes'
    union all
    select 'a change is in two runs', format('attachment %s at %s #%s', m.attachment_id, m.commit_lsn, m.ordinal)
      from agent_internal.merged_change m join agent.run r using (attachment_id, generation, commit_lsn, ordinal)
    union all
    select 'the reserved amount of a budget is not the sum of its reservations', format('budget %s', u.budget_id)
      from agent_internal.budget_use u
           cross join lateral (select coalesce(sum(s.reserved_cost), 0) as cost, coalesce(sum(s.reserved_tokens), 0) as tokens
                                 from (select x.budget_id, x.reserved_cost, x.reserved_tokens from agent.spend x where x.settled_at is null
                                       union all
                                       select c.budget_id, c.reserved_cost, c.reserved_tokens from agent_internal.evaluation_charge c) s
                                where s.budget_id = u.budget_id) o
     where u.reserved_cost <> o.cost or u.reserved_tokens <> o.tokens
    union all
    select 'a reservation of a lost lease was not released', format('run %s, budget %s, since %s', s.run_id, s.budget_id, s.reserved_at)
      from agent.spend s left join agent.run r on r.id = s.run_id
     where s.settled_at is null and s.reserved_at < agent_internal.now() - interval '5 minutes'
       and (r.lease <> s.lease or r.lease_expires_at is null) and not agent_internal.is_in_batch(s.run_id, s.lease, s.call);
comment on view agent.broken_invariant is 'Violated promises; empty unless there is a bug';
comment on column agent.broken_invariant.rule is 'What is violated';
comment on column agent.broken_invariant.detail is 'Where';

create or replace view agent.run_overview with (security_invoker = on) as
    select r.id, r.kind,
           -- Of a detached attachment: the name that the run's version has.
           coalesce(a.name, (select v.definition ->> 'name' from agent.attachment_version v
                              where v.attachment_id = r.attachment_id and v.version = r.attachment_version),
                    case when r.attachment_id is not null then agent_internal.definition_of_run(r.id) ->> 'name' end) as attachment,
           r.reason, r.state, r.change ->> 'op' as op,
           (r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation, r.key,
           r.attempt, (select count(*) from agent.step s where s.run_id = r.id) as steps,
           r.tokens, r.cost, r.result, r.error ->> 'reason' as error,
           r.committed_at, r.created_at, r.started_at, r.finished_at, r.commit_lsn, r.ordinal, r.cause_run, r.depth,
           r.attachment_version as version, r.priority
      from agent.run r left join agent.attachment a on a.id = r.attachment_id;
comment on view agent.run_overview is 'Runs with attachment, table, number of steps and error';
comment on column agent.run_overview.id is 'Run ID';
comment on column agent.run_overview.kind is 'agent, question, or another kind';
comment on column agent.run_overview.attachment is 'Name of the attachment; NULL for a question';
comment on column agent.run_overview.reason is 'change, backfill, manual or question';
comment on column agent.run_overview.state is 'State of the run';
comment on column agent.run_overview.op is 'Operation of the change';
comment on column agent.run_overview.relation is 'Table of the change, as schema.table';
comment on column agent.run_overview.key is 'Primary key of the row, as text';
comment on column agent.run_overview.attempt is 'Number of attempts; one that does not count is subtracted';
comment on column agent.run_overview.steps is 'Number of steps';
comment on column agent.run_overview.tokens is 'Input and output tokens, recorded when the run ends or waits';
comment on column agent.run_overview.cost is 'US dollars, recorded with the tokens; NULL: none or unknown';
comment on column agent.run_overview.result is 'Text with which the model ended';
comment on column agent.run_overview.error is 'Reason of a failure, pause or wait';
comment on column agent.run_overview.committed_at is 'Commit time of the change';
comment on column agent.run_overview.created_at is 'Time of the insert';
comment on column agent.run_overview.started_at is 'Time of the first claim';
comment on column agent.run_overview.finished_at is 'Time of the end';
comment on column agent.run_overview.commit_lsn is 'Commit LSN of the change; NULL: not from the WAL';
comment on column agent.run_overview.ordinal is 'Number of the change in its transaction, from 0; NULL: not from the WAL';
comment on column agent.run_overview.cause_run is 'Run whose write-back made the change';
comment on column agent.run_overview.depth is 'Number of agents'' writes in the chain that caused it';
comment on column agent.run_overview.priority is 'Of the ready runs of a tenant, those of the highest priority are claimed first';
comment on column agent.run_overview.version is 'Version of the attachment that it is pinned to';
