-- What time does to runs: leases are extended or expire, retries and debounced runs become due, hints drift.

-- Extend the leases of runs in one statement.
--
-- Returns the runs that their worker must release: the lease is lost, or cancellation was requested.  A run that
-- is locked is in its own write-back; no other worker can claim it before that ends.
--
-- Raises 42501 if the caller may not hold one of the runs.
create function agent_internal.heartbeat(_worker text, _runs bigint[], _leases bigint[], _lease interval)
    returns table (run_id bigint, cancelled boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if agent_internal.is_runner() then
        update agent.worker set seen_at = agent_internal.now() where name = _worker;
    else
        perform agent_internal.check_holder(mine.id) from unnest(_runs) as mine (id);
    end if;
    with held as materialized (
        select r.id
          from unnest(_runs, _leases) as mine (id, lease)
               join agent.run r on r.id = mine.id and r.lease = mine.lease
         where r.lease_expires_at is not null
         order by r.id
           for no key update of r skip locked
    )
    update agent.run r set lease_expires_at = agent_internal.now() + _lease from held where r.id = held.id;
    return query
        select mine.id, coalesce(r.cancel_requested, false)
          from unnest(_runs, _leases) as mine (id, lease)
               left join agent.run r on r.id = mine.id
         where r.id is null or r.lease <> mine.lease or r.state <> 'running' or r.cancel_requested;
end;
$$;
comment on function agent_internal.heartbeat(text, bigint[], bigint[], interval) is 'Extend the leases of runs that the caller holds';

-- Release runs whose lease has expired: to be claimed again, unless cancellation was requested or their attempts
-- are used up.
--
-- Args: _kind, _queue: only of these; NULL: of all.
-- Returns the queues that have them.
create function agent_internal.expire_leases(_kind text default null, _queue bigint default null)
    returns bigint[]
    language plpgsql
as $$
declare
    _queues bigint[];
begin
    with lost as (
        select id from agent.run
         where state = 'running' and lease_expires_at < agent_internal.now()
           and kind = coalesce(_kind, kind) and queue_id = coalesce(_queue, queue_id)
         order by id for no key update skip locked
    ), freed as (
        update agent.run r
           set state = case when r.cancel_requested then 'cancelled' when r.attempt >= r.max_attempts then 'dead'
                            else 'pending' end::agent.run_state,
               lease_expires_at = null,
               cancel_requested = false,
               finished_at = case when r.cancel_requested or r.attempt >= r.max_attempts then agent_internal.now() end,
               error = case when r.attempt >= r.max_attempts and not r.cancel_requested then jsonb_build_object(
                   'reason', format('lost the worker of this run %s times', r.attempt)) else r.error end
          from lost where r.id = lost.id
        returning r.id, r.queue_id, r.state
    ), opened as (
        update agent.run b set blocked_by = null
         from freed f where b.blocked_by = f.id and agent_internal.is_final(f.state)
    )
    select array(select distinct queue_id from freed) into _queues;
    return _queues;
end;
$$;
comment on function agent_internal.expire_leases(text, bigint) is 'Release runs whose lease has expired';

-- Requeue runs whose retry is due or whose debounce window has ended.
--
-- Returns the queues that have them.
create function agent_internal.wake_due()
    returns bigint[]
    language plpgsql
as $$
declare
    _retried   bigint[];
    _collected bigint[];
begin
    with due as (
        select id from agent.run
         where state = 'waiting_retry' and next_attempt_at <= agent_internal.now()
         order by id for no key update skip locked
    ), woken as (
        update agent.run r set state = 'pending', next_attempt_at = null from due where r.id = due.id
        returning r.queue_id
    )
    select array(select distinct queue_id from woken) into _retried;
    with due as (
        select id from agent.run
         where not_before <= agent_internal.now() and state = 'pending'
         order by id for no key update skip locked
    ), woken as (
        update agent.run r set not_before = null from due where r.id = due.id
        returning r.queue_id
    )
    select array(select distinct queue_id from woken) into _collected;
    return _retried || _collected;
end;
$$;
comment on function agent_internal.wake_due() is 'Requeue runs whose retry is due or whose debounce window has ended';

-- Repair hints that a crash left wrong: blocks by runs that have ended, counts, and queues that have runs but
-- are not marked.
--
-- Queues with runs to claim are found by their runs, with one lookup in the index run_ready for each.
--
-- Args: _queues: those that were given runs.
-- Returns whether there was a queue to repair.
create function agent_internal.repair_hints(_queues bigint[])
    returns boolean
    language plpgsql
as $$
declare
    _wrong bigint[];
begin
    update agent.run r set blocked_by = null
     where r.blocked_by is not null
       and not exists (select from agent.run p where p.id = r.blocked_by and not agent_internal.is_final(p.state));
    -- Locked in one order, and only these are updated: other transactions wait for queues while they hold some.
    _wrong := array(
        with recursive ready (id) as (
            (select r.queue_id from agent.run r
              where r.state = 'pending' and r.blocked_by is null and r.not_before is null
              order by r.queue_id limit 1)
            union all
            select (select r.queue_id from agent.run r
                     where r.state = 'pending' and r.blocked_by is null and r.not_before is null and r.queue_id > n.id
                     order by r.queue_id limit 1)
              from ready n where n.id is not null
        ), lively (id) as (
            select id from ready union select unnest(_queues)
        ), suspect (id) as (
            select id from lively union select id from agent_internal.queue where cap is not null
        )
        select l.id
          from suspect s join agent_internal.queue l on l.id = s.id
         where not l.queued and l.id in (select id from lively)
            or l.cap is not null
               and l.used <> (select count(*) from agent.run r where r.queue_id = l.id and r.state = 'running')
         order by l.id for no key update of l);
    update agent_internal.queue l
       set used = case when l.cap is null then 0
                       else (select count(*) from agent.run r where r.queue_id = l.id and r.state = 'running') end,
           queued = true
     where l.id = any (_wrong);
    return found;
end;
$$;
comment on function agent_internal.repair_hints(bigint[]) is 'Repair hints of queues and blocks that a crash left wrong';

-- Process what is due: expired leases, retries, debounce windows, expired approvals, wrong hints.  One caller at
-- a time; for the others this does nothing.
--
-- Returns the seconds until something is due, or NULL.
create function agent_internal.tick()
    returns double precision
    language plpgsql
as $$
declare
    _queues bigint[];
begin
    if not pg_try_advisory_xact_lock(hashtext('walagent.tick')) then
        return null;
    end if;
    _queues := agent_internal.expire_leases() || agent_internal.wake_due();
    perform agent_internal.expire_approvals();
    if agent_internal.repair_hints(_queues) then
        perform pg_notify('walagent_runs', '');
    end if;
    perform agent_internal.release_lost();
    return (select extract(epoch from least(
                       (select min(next_attempt_at) from agent.run where state = 'waiting_retry'),
                       (select min(not_before) from agent.run where not_before is not null),
                       (select min(expires_at) from agent.approval where state = 'pending')) - agent_internal.now()));
end;
$$;
comment on function agent_internal.tick() is 'Process what is due: expired leases, retries, debounce windows, approvals';
