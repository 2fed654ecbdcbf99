-- Insert runs, and advance the checkpoint with them.

-- The lease number after *_lease*.  Each timeline of the server has a range of its own: a promoted standby
-- might lack the latest claims and would issue their numbers, even the IDs of their runs, a second time while
-- a worker still holds them.
create or replace function agent_internal.next_lease(_lease bigint)
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return greatest(_lease, (('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint - 1) << 32) + 1;
end;
$$;

create or replace function agent_internal.defer_changes(_generation integer, _changes jsonb)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    insert into agent_internal.deferred_change (run_id, change)
    select r.id, x.change::json
      from jsonb_to_recordset(_changes) as x (attachment_id bigint, commit_lsn pg_lsn, ordinal integer, change text)
           join agent.run r on (r.attachment_id, r.generation, r.commit_lsn, r.ordinal)
                             = (x.attachment_id, _generation, x.commit_lsn, x.ordinal)
    on conflict do nothing
$$;
comment on function agent_internal.defer_changes(integer, jsonb) is 'Store changes to be evaluated later, beside their runs: attachment_id, commit_lsn, ordinal, change';

-- Make a run executable whose deferred change was evaluated: *_change* has what the agent is shown by the
-- present definition.
--
-- Raises WA001, WA002 as agent_internal.fence() does.
create or replace function agent_internal.accept_deferred(_run bigint, _lease bigint, _change jsonb, _key text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    update agent.run set change = _change, key = _key, error = null where id = _run;
    delete from agent_internal.deferred_change where run_id = _run;
end;
$$;
comment on function agent_internal.accept_deferred(bigint, bigint, jsonb, text) is 'Store the change of a run that was deferred and has been evaluated';

-- Insert runs for rows that a backfill found.  A row that already has a run is ignored.
--
-- Args: _runs: an array of agent.new_run without a position; `key` names the row.
create or replace function agent_internal.insert_backfill_runs(_generation integer, _runs jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- As in agent.retry(): until this commits, no run of the same ordering key starts as it is inserted.
    perform agent_internal.prevent_starts();
    insert into agent.run (tenant, reason, queue_id, attachment_id, attachment_version, generation, change, key, ordering_key,
                           backfill_key, max_attempts, state, error, finished_at, priority)
    select coalesce(n.tenant, agent.current_tenant()), 'backfill', n.attachment_id, n.attachment_id, n.attachment_version, _generation, n.change, n.key, n.ordering_key,
           n.key, n.max_attempts, coalesce(n.state, 'pending'), n.error,
           case when agent_internal.is_final(n.state) then agent_internal.now() end, coalesce(n.priority, 0)
      from jsonb_populate_recordset(null::agent.new_run, _runs) n
    on conflict do nothing;
end;
$$;
comment on function agent_internal.insert_backfill_runs(integer, jsonb) is 'Insert runs for rows that a backfill found';

-- Insert a turn of an agent in each thread with an event that it has not taken up: what was posted in a gap is there.  Its
-- rule is asked when the turn starts, of all these events.
--
-- Args: _shift: how much higher than the attachment's their priority is.
-- Returns: the number of turns.
create or replace function agent_internal.insert_missed_turns(_attachment bigint, _generation integer, _shift integer)
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _on    agent.attachment;
    _count bigint;
begin
    perform agent_internal.prevent_starts();
    select * into _on from agent.attachment a where a.id = _attachment;
    insert into agent.run (tenant, kind, reason, principal, queue_id, attachment_id, attachment_version, generation, change, key,
                           ordering_key, backfill_key, max_attempts, state, priority)
    select _on.tenant, 'turn', 'backfill', _on.agent, _on.id, _on.id,
           coalesce(case when m.attachment_id = _on.id then m.attachment_version end, _on.version), _generation,
           jsonb_build_object('op', 'insert', 'schema', 'agent', 'table', 'event', 'new', jsonb_build_object(
               'tenant', e.tenant, 'thread_id', e.thread_id, 'number', e.number, 'id', e.id, 'type', e.type, 'author', e.author,
               'run_id', e.run_id)),
           e.id::text, e.thread_id::text, e.thread_id::text, g.max_attempts, 'pending', _on.priority + _shift
      from agent.member m
           join agent.agent g on (g.tenant, g.name) = (_on.tenant, _on.agent)
           cross join lateral (select e.*
                                 from agent.event e join agent.principal p on (p.tenant, p.name) = (e.tenant, e.author)
                                where e.tenant = m.tenant and e.thread_id = m.thread_id and e.number > m.seen and e.author <> m.principal
                                  and (_on.condition is not null or e.type = 'text' and p.kind <> 'agent')
                                order by e.number desc limit 1) e
     where m.tenant = _on.tenant and m.principal = _on.agent and not agent_internal.is_absorbed(_on.id, m.thread_id::text)
        on conflict do nothing;
    get diagnostics _count = row_count;
    return _count;
end;
$$;
comment on function agent_internal.insert_missed_turns(bigint, integer, integer) is 'Insert a turn in each thread whose latest events the agent has not taken up';

-- Insert runs and advance the checkpoint, in one round trip.
--
-- A run that a worker in the reader's process has a slot for is inserted as already claimed, which saves a
-- commit.  Its queue has no cap or pause, its ordering key no unfinished run, and its tenant no run of a higher priority
-- to claim.  The caller sets `start` for at most
-- one run of an ordering key, and for none if its last claim left runs, so that none is passed over for long.
--
-- No older run may be inserted or requeued between that check and the commit: a claim could start it at the same
-- time.  agent.retry() and backfills call agent_internal.prevent_starts(); until they commit, no run is
-- started here.
--
-- Args: _runs: an array of agent.new_run; _changes: of agent_internal.record_row_changes().
-- Returns the runs that were started: [[id, lease, attachment, commit LSN, ordinal], ...].
create or replace function agent_internal.ingest(
    _slot text, _epoch bigint, _generation integer, _commit_lsn pg_lsn, _end_lsn pg_lsn, _runs jsonb,
    _worker text default null, _lease interval default null, _committed_at timestamptz default null, _changes jsonb default null
)
    returns jsonb
    language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    _started jsonb;
    _waiting boolean := _runs <> '[]';
begin
    if _changes is not null then
        perform agent_internal.record_row_changes(_changes);
        perform agent_internal.take_corrections(_changes);
    end if;
    if _worker is null or not agent_internal.try_start() then
        perform agent_internal.insert_runs(_generation, _runs);
    else
        with given as (
            -- Each with LIMIT: the planner expects a hundred runs, and would rather read all unfinished ones once.
            select n.*, coalesce(n.start, false) and coalesce(n.state, 'pending') = 'pending' and n.delay is null
                   and (select true from agent_internal.queue l
                         where l.id = n.attachment_id and not l.paused and l.cap is null
                         limit 1) is not null
                   and agent_internal.room_of(n.tenant) is null
                   and not agent_internal.is_outranked(coalesce(n.tenant, agent.current_tenant()), coalesce(n.priority, 0))
                   and (select true from agent.run p
                         where p.queue_id = n.attachment_id and p.ordering_key = n.ordering_key
                           and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')  -- planted: review-holds-nothing/start
                         limit 1) is null
                   as go
              from jsonb_populate_recordset(null::agent.new_run, _runs) n
             where n.kind is null or not agent_internal.is_absorbed(n.attachment_id, n.ordering_key)
        ), taken as (
            insert into agent.run (tenant, kind, principal, not_before, queue_id, attachment_id, attachment_version, generation, commit_lsn,
                                   ordinal, committed_at, change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at,
                                   worker, lease, attempt, lease_expires_at, started_at, priority)
            select coalesce(g.tenant, agent.current_tenant()), coalesce(g.kind, 'agent'), g.principal, agent_internal.now() + make_interval(secs => g.delay),
                   g.attachment_id, g.attachment_id, g.attachment_version, _generation, g.commit_lsn, g.ordinal, g.committed_at,
                   g.change, g.key, g.ordering_key, g.max_attempts, g.cause_run, coalesce(g.depth, 0),
                   case when g.go then 'running' else coalesce(g.state, 'pending') end, g.error,
                   case when agent_internal.is_final(g.state) then agent_internal.now() end,
                   case when g.go then _worker end, case when g.go then agent_internal.next_lease(0) else 0 end, g.go::integer,
                   case when g.go then agent_internal.now() + _lease end, case when g.go then agent_internal.now() end, coalesce(g.priority, 0)
              from given g
             order by g.commit_lsn, g.ordinal
            on conflict on constraint run_once_per_change do nothing  -- planted: no-unique-key/insert-and-claim
            returning id, lease, attachment_id, commit_lsn, ordinal, state
        )
        select jsonb_agg(jsonb_build_array(t.id, t.lease, t.attachment_id, t.commit_lsn, t.ordinal)) filter (where t.state = 'running'),
               coalesce(bool_or(t.state = 'pending'), false)
          into _started, _waiting
          from taken t;
        if _runs @? '$[*].shadow' then
            perform agent_internal.insert_shadowed(_generation, _runs);
        end if;
    end if;
    perform agent_internal.advance_checkpoint(_slot, _epoch, _commit_lsn, _end_lsn, _waiting, _committed_at);
    return _started;
end;
$$;

create or replace function agent_internal.insert_runs(_generation integer, _runs jsonb)
    returns bigint
    language plpgsql
    set enable_seqscan = off  -- after an analyze of a full queue, the planner would read it whole
    set search_path = pg_catalog, pg_temp
as $$
declare
    _count bigint;
begin
    insert into agent.run (tenant, kind, principal, not_before, queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                           committed_at, change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at, priority)
    select coalesce(n.tenant, agent.current_tenant()), coalesce(n.kind, 'agent'), n.principal, agent_internal.now() + make_interval(secs => n.delay),
           n.attachment_id, n.attachment_id, n.attachment_version, _generation, n.commit_lsn, n.ordinal, n.committed_at,
           n.change, n.key, n.ordering_key, n.max_attempts, n.cause_run, coalesce(n.depth, 0),
           coalesce(n.state, 'pending'), n.error,
           case when agent_internal.is_final(n.state) then agent_internal.now() end, coalesce(n.priority, 0)
      from jsonb_populate_recordset(null::agent.new_run, _runs) n
     where n.kind is null or not agent_internal.is_absorbed(n.attachment_id, n.ordering_key)
     order by n.commit_lsn, n.ordinal
    on conflict on constraint run_once_per_change do nothing;  -- planted: no-unique-key/insert
    get diagnostics _count = row_count;
    if _runs @? '$[*].shadow' then
        perform agent_internal.insert_shadowed(_generation, _runs);
    end if;
    return _count;
end;
$$;
