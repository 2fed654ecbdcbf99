-- What time does to runs: leases are extended or expire, retries and debounced runs become due.

-- Release runs whose lease has expired: to be claimed again, unless cancellation was requested or their attempts
-- are used up.
--
-- Args: _kind, _queue: only of these; NULL: of all.
-- Returns whether there were some.
create or replace function agent_internal.expire_leases(_kind text default null, _queue bigint default null)
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _count bigint;
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
        returning r.id, r.state
    ), opened as (
        update agent.run b set blocked_by = null
         from freed f where b.blocked_by = f.id and agent_internal.is_final(f.state)
    )
    select count(*) from freed into _count;
    return _count > 0;
end;
$$;
comment on function agent_internal.expire_leases(text, bigint) is 'Release runs whose lease has expired';

-- Requeue runs whose retry is due or whose debounce window has ended.
--
-- Returns whether there were some.
create or replace function agent_internal.wake_due()
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _retried boolean;
begin
    with due as (
        select id from agent.run
         where state = 'waiting_retry' and next_attempt_at <= agent_internal.now()
         order by id for no key update skip locked
    )
    update agent.run r set state = 'pending', next_attempt_at = null from due where r.id = due.id;
    _retried := found;
    with due as (
        select id from agent.run
         where not_before <= agent_internal.now() and state = 'pending'
         order by id for no key update skip locked
    )
    update agent.run r set not_before = null from due where r.id = due.id;
    return _retried or found;
end;
$$;
comment on function agent_internal.wake_due() is 'Requeue runs whose retry is due or whose debounce window has ended';

-- The first of the latest runs whose steps agent.broken_invariant reads; NULL: it reads all of them.
--
-- Steps are never changed, so those of old runs stay as they were when they were last checked.  The setting is of
-- the session or transaction: how many runs.
create or replace function agent_internal.first_checked_run()
    returns bigint
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select max(id) - nullif(current_setting('walagent.checked_runs', true), '')::bigint from agent.run
$$;

-- Runs that block one another, which agent_internal.repair_blocks() releases.  Earlier versions let a retried run and a
-- run that had waited block each other.
--
-- Of each circle one run at least is blocked by one with a higher ID.
create or replace function agent_internal.runs_in_circles()
    returns setof bigint
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive way (start, at) as (
        select r.id, r.blocked_by from agent.run r where r.blocked_by > r.id
         union
        select w.start, r.blocked_by
          from way w join agent.run r on r.id = w.at
         where w.at <> w.start and r.blocked_by is not null
    )
    select distinct w.at from way w where w.start in (select c.start from way c where c.at = c.start)
$$;
comment on function agent_internal.runs_in_circles() is 'Runs that block one another';

-- Release runs that are blocked by one that has ended, or that block one another.
--
-- Returns whether there were some.
create or replace function agent_internal.repair_blocks()
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _repaired boolean;
begin
    update agent.run r set blocked_by = null
     where r.blocked_by is not null
       and not exists (select from agent.run p where p.id = r.blocked_by and not agent_internal.is_final(p.state));
    _repaired := found;
    with stuck as (
        select r.id from agent.run r
         where r.id in (select agent_internal.runs_in_circles())
         order by r.id for no key update skip locked
    )
    update agent.run r set blocked_by = null from stuck s where r.id = s.id;
    return _repaired or found;
end;
$$;
comment on function agent_internal.repair_blocks() is 'Release runs that are blocked by one that has ended, or that block one another';

-- Allow the start of runs for the rest of the transaction; return false if another transaction prevents it.
create or replace function agent_internal.try_start()
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    lock table agent_internal.start_lock in row exclusive mode nowait;
    return true;
exception when lock_not_available then
    return false;
end;
$$;

-- Prevent the start of runs by others for the rest of the transaction; waits for those that are starting some.
create or replace function agent_internal.prevent_starts()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    lock table agent_internal.start_lock in share mode;
end;
$$;

create or replace function agent_internal.begin_tick()
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    lock table agent_internal.tick_lock in share row exclusive mode nowait;
    return true;
exception when lock_not_available then
    return false;
end;
$$;

-- Process what is due: expired leases, retries, debounce windows, expired approvals, wrong blocks.  One caller at
-- a time; for the others this does nothing.  Where nothing is due, nothing is written.
--
-- Returns: done: whether this was the one caller.  due: the seconds until something is due, or NULL.  ready: whether a run
-- can be claimed.
create or replace function agent_internal.tick(out done boolean, out due double precision, out ready boolean)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _expired boolean;
    _woken   boolean;
begin
    done := agent_internal.begin_tick();
    if not done then
        ready := true;
        return;
    end if;
    perform agent_internal.apply_cancel_requests();
    _expired := agent_internal.expire_leases();
    _woken := agent_internal.wake_due();
    perform agent_internal.expire_approvals();
    perform agent_internal.settle_due_proposals();
    if agent_internal.repair_blocks() or _expired or _woken then
        perform agent_internal.wake_workers();
    end if;
    perform agent_internal.release_lost();
    perform agent_internal.number_left_entries();
    due := (select extract(epoch from least(
                       (select min(next_attempt_at) from agent.run where state = 'waiting_retry'),
                       (select min(not_before) from agent.run where not_before is not null),
                       (select min(expires_at) from agent.approval where state = 'pending')) - agent_internal.now()));
    ready := exists (select from agent.run where state = 'pending' and blocked_by is null and not_before is null);
end;
$$;
comment on function agent_internal.tick() is 'Process what is due: expired leases, retries, debounce windows, approvals';
