-- What time does to runs: leases are extended or expire, retries and debounced runs become due, hints drift.

-- Release runs whose lease has expired: to be claimed again, unless cancellation was requested or their attempts
-- are used up.
--
-- Args: _kind, _queue: only of these; NULL: of all.
-- Returns the queues that have them.
create or replace function agent_internal.expire_leases(_kind text default null, _queue bigint default null)
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
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
create or replace function agent_internal.wake_due()
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
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

-- Runs that block one another, which agent_internal.repair_hints() releases.  Earlier versions let a retried run and a
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

-- Repair hints that are wrong: blocks by runs that have ended, or that block one another, counts, and queues that
-- have runs but are not marked.
--
-- Queues with runs to claim are found by their runs, with one lookup in the index run_ready for each.
--
-- Args: _queues: those that were given runs.
-- Returns whether there was a queue to repair.
create or replace function agent_internal.repair_hints(_queues bigint[])
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _wrong bigint[];
begin
    update agent.run r set blocked_by = null
     where r.blocked_by is not null
       and not exists (select from agent.run p where p.id = r.blocked_by and not agent_internal.is_final(p.state));
    with stuck as (
        select r.id from agent.run r
         where r.id in (select agent_internal.runs_in_circles())
         order by r.id for no key update skip locked
    )
    update agent.run r set blocked_by = null from stuck s where r.id = s.id;
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
    if not agent_internal.try_lock('tick') then
        return false;
    end if;
    update agent_internal.lock l set taken_at = agent_internal.now() where l.name = 'tick';
    return true;
end;
$$;

create or replace function agent_internal.tick_age()
    returns double precision
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select extract(epoch from agent_internal.now() - taken_at) from agent_internal.lock where name = 'tick' $$;
comment on function agent_internal.tick_age() is 'Seconds since the last tick of any process';

-- Process what is due: expired leases, retries, debounce windows, expired approvals, wrong hints.  One caller at
-- a time; for the others this does nothing.
--
-- Returns the seconds until something is due, or NULL.
create or replace function agent_internal.tick()
    returns double precision
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _queues bigint[];
begin
    if not agent_internal.begin_tick() then
        return null;
    end if;
    perform agent_internal.apply_cancel_requests();
    _queues := agent_internal.expire_leases() || agent_internal.wake_due();
    perform agent_internal.expire_approvals();
    perform agent_internal.settle_due_proposals();
    if agent_internal.repair_hints(_queues) then
        perform pg_notify('walagent_runs', '');
    end if;
    perform agent_internal.release_lost();
    perform agent_internal.number_left_entries();
    return (select extract(epoch from least(
                       (select min(next_attempt_at) from agent.run where state = 'waiting_retry'),
                       (select min(not_before) from agent.run where not_before is not null),
                       (select min(expires_at) from agent.approval where state = 'pending')) - agent_internal.now()));
end;
$$;
comment on function agent_internal.tick() is 'Process what is due: expired leases, retries, debounce windows, approvals';
