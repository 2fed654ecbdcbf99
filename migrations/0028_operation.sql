-- The order of runs with one ordering key, and what repairs it.

-- Allow the roles that may call *_old* to call *_new*, too: they were granted by an earlier version.
create function agent_internal.grant_as(_new regprocedure, _old regprocedure)
    returns void
    language plpgsql
as $$
declare
    _role regrole;
begin
    for _role in
        select a.grantee::regrole
          from pg_catalog.pg_proc p cross join pg_catalog.aclexplode(p.proacl) a
         where p.oid = _old and a.grantee not in (p.proowner, 0)
    loop
        execute format('grant execute on function %s to %s', _new, _role);
    end loop;
end;
$$;
comment on function agent_internal.grant_as(regprocedure, regprocedure) is 'Allow the roles that may call one function to call another; used by migrations';
revoke all on function agent_internal.grant_as(regprocedure, regprocedure) from public;

-- Runs of one ordering key have one order at any time: those that have begun, by ID, then the others, by ID.  A run has
-- begun if it was claimed since its last retry: agent.retry() resets started_at.  So a run waits only for runs before
-- it, and no two wait for each other.
comment on column agent.run.started_at is 'Time of the first claim since the last retry';
update agent.run r
   set started_at = null
 where r.state = 'pending'
   and (select s.kind = 'note' and s.content ? 'retry' from agent.step s where s.run_id = r.id order by s.seq desc limit 1);

-- Runs that block one another, which agent_internal.repair_hints() releases.  Earlier versions let a retried run and a
-- run that had waited block each other.
--
-- Of each circle one run at least is blocked by one with a higher ID.
create function agent_internal.runs_in_circles()
    returns setof bigint
    language sql
    stable
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
revoke all on function agent_internal.runs_in_circles() from public;

-- Choose and lock up to *_want* runs of a queue, oldest first, and store whether the queue has more.
--
-- A run whose ordering key has an unfinished run before it is not taken.  `blocked_by` is set to the last of them,
-- and the blocked run is not read again until that one has ended.  Meanwhile the earlier run is locked FOR SHARE:
-- the transaction that ends it waits, and then sees `blocked_by`.  If another transaction has locked the earlier
-- run, nothing is set, and the next claim reads the run again.
--
-- Tenants that have runs in the queue take turns, each up to its limit.
--
-- Args: _queue: a row that the caller has locked.  _run: only this run.
-- Returns: more: whether the queue might have more runs to claim.
create or replace function agent_internal.claim_from_queue(
    _queue agent_internal.queue, _want integer, _run bigint, out taken bigint[], out more boolean
)
    language plpgsql
as $$
declare
    _id      constant bigint := _queue.id;
    _used    integer := _queue.used;
    _tenants text[] := '{}';
    _last    text := _queue.last_tenant;
    _some    record;
begin
    if _queue.cap is not null then
        -- `used` is a hint, a cap is a promise, and few runs are running.
        _used := (select count(*) from agent.run r where r.queue_id = _id and r.state = 'running');
    end if;
    _want := greatest(0, least(_want, _queue.cap - _used));
    taken := '{}';
    more := false;
    if _run is null and _queue.session_id is null then
        _tenants := agent_internal.tenants_in_turn(_id, _last, _want);
    end if;
    if cardinality(_tenants) <= 1 and coalesce(agent_internal.room_of(_tenants[1]) is null, true) then
        select * into taken, more from agent_internal.claim_in_order(_id, null, _want, _run);
    else
        for _n in 1 .. cardinality(_tenants) loop
            if cardinality(taken) >= _want then
                more := true;
                exit;
            end if;
            select * into _some from agent_internal.claim_in_order(_id, _tenants[_n], least(
                ceil((_want - cardinality(taken))::numeric / (cardinality(_tenants) - _n + 1))::integer,
                agent_internal.room_of(_tenants[_n], true)), null);
            taken := taken || _some.taken;
            more := more or _some.more;
            _last := _tenants[_n];
        end loop;
    end if;
    update agent_internal.queue l
       set used = case when l.cap is null then 0 else _used + cardinality(taken) end,
           -- A tenant at its limit has runs that no claim takes yet.
           queued = claim_from_queue.more or cardinality(_tenants) > 1,
           last_tenant = _last,
           served = case when cardinality(taken) > 0 then nextval('agent_internal.queue_turn') else l.served end
     where l.id = _id;
    more := more and taken <> '{}';
end;
$$;

-- Choose and lock up to *_want* runs of a queue, oldest first: of one tenant, or of all.
create function agent_internal.claim_in_order(
    _id bigint, _tenant text, _want integer, _run bigint, out taken bigint[], out more boolean
)
    language plpgsql
as $$
declare
    _window bigint[];
    _now    bigint[];
    _seen   integer;
    _marks  integer;
begin
    taken := '{}';
    -- Repeat while all candidates are blocked: behind a thousand changes of one row there might be one of
    -- another row.
    for _round in 1 .. 25 loop
        -- Two statements: each has the index that it needs.
        if _tenant is null then
            _window := array(
                select r.id
                  from agent.run r
                 where r.queue_id = _id and r.state = 'pending'
                   and r.blocked_by is null and r.not_before is null and r.id <> all (taken)
                   and (_run is null or r.id = _run)
                 order by r.id + 0
                 limit _want + 32
                   for update skip locked);
        else
            _window := array(
                select r.id
                  from agent.run r
                 where r.queue_id = _id and r.tenant = _tenant and r.state = 'pending'
                   and r.blocked_by is null and r.not_before is null and r.id <> all (taken)
                 order by r.id + 0
                 limit _want + 32
                   for update skip locked);
        end if;
        with candidate as materialized (
            select r.id, r.ordering_key, r.started_at is not null as begun
              from agent.run r
             where r.id = any (_window)
             order by r.id
        ), ahead as materialized (
            select c.id,
                   coalesce(
                       case when not c.begun then
                           (select p.id
                              from agent.run p
                             where p.queue_id = _id and p.ordering_key = c.ordering_key and p.id + 0 < c.id
                               and p.state = 'pending' and p.started_at is null
                             order by p.id + 0 desc
                             limit 1) end,
                       (select p.id
                          from agent.run p
                         where p.queue_id = _id and p.ordering_key = c.ordering_key and p.id <> c.id
                           and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
                           and (p.state <> 'pending' or p.started_at is not null or p.id = any (taken))
                           and (not c.begun or p.id < c.id or p.state = 'running' or p.id = any (taken))
                         order by p.id + 0 desc
                         limit 1)) as by
              from candidate c
        ), held as materialized (
            select p.id
              from agent.run p
             where p.id in (select a.by from ahead a where a.by is not null)
               for share skip locked
        ), marked as (
            -- All locks first: a row that this statement has updated can no longer be locked by it.
            update agent.run r
               set blocked_by = a.by
              from ahead a
             where r.id = a.id and a.by = any (array(select h.id from held h))
            returning 1
        )
        select array(select a.id from ahead a where a.by is null order by a.id limit _want - cardinality(taken)),
               (select count(*) from ahead), (select count(*) from marked)
          into _now, _seen, _marks;
        taken := taken || _now;
        exit when _marks = 0 or _seen < _want + 32 or cardinality(taken) = _want;
    end loop;
    more := _seen > cardinality(_now);
end;
$$;

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

-- Locks between transactions of walagent: rows, because anyone who can connect can hold an advisory lock.
create table agent_internal.lock (
    name     text primary key,
    taken_at timestamptz
);
insert into agent_internal.lock (name, taken_at) values ('tick', agent_internal.now()), ('budget', null);
revoke all on agent_internal.lock from public;
comment on table agent_internal.lock is 'Locks between transactions of walagent: tick, budget';
comment on column agent_internal.lock.taken_at is 'tick: time of the last tick';

-- Take a lock for the rest of the transaction; return false if another transaction has it.
create function agent_internal.try_lock(_name text)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent_internal.lock l where l.name = _name for no key update skip locked;
    return found;
end;
$$;

-- Share a lock for the rest of the transaction; waits while another transaction has it.
create function agent_internal.share_lock(_name text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent_internal.lock l where l.name = _name for share;
end;
$$;

-- Intake locks this table with each run that it starts; a lock of a row would write WAL and take ten times as long.
create table agent_internal.start_lock ();
revoke all on agent_internal.start_lock from public;
comment on table agent_internal.start_lock is 'Locked by transactions that start runs, and by those that insert or requeue older ones';

-- Allow the start of runs for the rest of the transaction; return false if another transaction prevents it.
create function agent_internal.try_start()
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
create function agent_internal.prevent_starts()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    lock table agent_internal.start_lock in share mode;
end;
$$;

create function agent_internal.begin_tick()
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

create function agent_internal.tick_age()
    returns double precision
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select extract(epoch from agent_internal.now() - taken_at) from agent_internal.lock where name = 'tick' $$;
comment on function agent_internal.tick_age() is 'Seconds since the last tick of any process';
revoke all on function agent_internal.try_lock(text), agent_internal.share_lock(text), agent_internal.try_start(),
    agent_internal.prevent_starts(), agent_internal.begin_tick(), agent_internal.tick_age() from public;

-- Process what is due: expired leases, retries, debounce windows, expired approvals, wrong hints.  One caller at
-- a time; for the others this does nothing.
--
-- Returns the seconds until something is due, or NULL.
create or replace function agent_internal.tick()
    returns double precision
    language plpgsql
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
    return (select extract(epoch from least(
                       (select min(next_attempt_at) from agent.run where state = 'waiting_retry'),
                       (select min(not_before) from agent.run where not_before is not null),
                       (select min(expires_at) from agent.approval where state = 'pending')) - agent_internal.now()));
end;
$$;

-- Insert runs for rows that a backfill found.  A row that already has a run is ignored.
--
-- Args: _runs: an array of agent.new_run without a position; `key` names the row.
create or replace function agent_internal.insert_backfill_runs(_generation integer, _runs jsonb)
    returns void
    language plpgsql
as $$
begin
    -- As in agent.retry(): until this commits, no run of the same ordering key starts as it is inserted.
    perform agent_internal.prevent_starts();
    insert into agent.run (tenant, reason, queue_id, attachment_id, attachment_version, generation, change, key, ordering_key,
                           backfill_key, max_attempts, state, error, finished_at)
    select coalesce(n.tenant, agent.current_tenant()), 'backfill', n.attachment_id, n.attachment_id, n.attachment_version, _generation, n.change, n.key, n.ordering_key,
           n.key, n.max_attempts, coalesce(n.state, 'pending'), n.error,
           case when agent_internal.is_final(n.state) then agent_internal.now() end
      from jsonb_populate_recordset(null::agent.new_run, _runs) n
    on conflict do nothing;
end;
$$;

-- Insert runs and advance the checkpoint, in one round trip.
--
-- A run that a worker in the reader's process has a slot for is inserted as already claimed, which saves a
-- commit.  It must pass over no other run: its queue has no backlog, cap or pause, and its ordering key has no
-- unfinished run.  The caller sets `start` for at most one run of an ordering key.
--
-- No older run may be inserted or requeued between that check and the commit: a claim could start it at the same
-- time.  agent.retry() and backfills call agent_internal.prevent_starts(); until they commit, no run is
-- started here.
--
-- Args: _runs: an array of agent.new_run.
-- Returns the runs that were started: [[id, lease, attachment, commit LSN, ordinal], ...].
create or replace function agent_internal.ingest(
    _slot text, _epoch bigint, _generation integer, _commit_lsn pg_lsn, _end_lsn pg_lsn, _runs jsonb,
    _queues bigint[], _worker text default null, _lease interval default null, _committed_at timestamptz default null
)
    returns jsonb
    language plpgsql
as $$
declare
    _started jsonb;
    _waiting bigint[] := _queues;
begin
    if _worker is null or not agent_internal.try_start() then
        perform agent_internal.insert_runs(_generation, _runs);
    else
        with given as (
            -- Each with LIMIT: the planner expects a hundred runs, and would rather read all unfinished ones once.
            select n.*, coalesce(n.start, false) and coalesce(n.state, 'pending') = 'pending' and n.delay is null
                   and (select true from agent_internal.queue l
                         where l.id = n.attachment_id and not l.queued and not l.paused and l.cap is null
                         limit 1) is not null
                   and agent_internal.room_of(n.tenant) is null
                   and (select true from agent.run p
                         where p.queue_id = n.attachment_id and p.ordering_key = n.ordering_key
                           and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
                         limit 1) is null
                   as go
              from jsonb_populate_recordset(null::agent.new_run, _runs) n
             where n.kind is null or not agent_internal.is_absorbed(n.attachment_id, n.ordering_key)
        ), taken as (
            insert into agent.run (tenant, kind, principal, not_before, queue_id, attachment_id, attachment_version, generation, commit_lsn,
                                   ordinal, committed_at, change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at,
                                   worker, lease, attempt, lease_expires_at, started_at)
            select coalesce(g.tenant, agent.current_tenant()), coalesce(g.kind, 'agent'), g.principal, agent_internal.now() + make_interval(secs => g.delay),
                   g.attachment_id, g.attachment_id, g.attachment_version, _generation, g.commit_lsn, g.ordinal, g.committed_at,
                   g.change, g.key, g.ordering_key, g.max_attempts, g.cause_run, coalesce(g.depth, 0),
                   case when g.go then 'running' else coalesce(g.state, 'pending') end, g.error,
                   case when agent_internal.is_final(g.state) then agent_internal.now() end,
                   case when g.go then _worker end, case when g.go then agent_internal.next_lease(0) else 0 end, g.go::integer,
                   case when g.go then agent_internal.now() + _lease end, case when g.go then agent_internal.now() end
              from given g
             order by g.commit_lsn, g.ordinal
            on conflict on constraint run_once_per_change do nothing  -- planted: no-unique-key/insert-and-claim
            returning id, lease, queue_id, attachment_id, commit_lsn, ordinal, state
        )
        select jsonb_agg(jsonb_build_array(t.id, t.lease, t.attachment_id, t.commit_lsn, t.ordinal)) filter (where t.state = 'running'),
               coalesce(array_agg(distinct t.queue_id) filter (where t.state = 'pending'), '{}')
          into _started, _waiting
          from taken t;
    end if;
    perform agent_internal.advance_checkpoint(_slot, _epoch, _commit_lsn, _end_lsn, _waiting, _committed_at);
    return _started;
end;
$$;

-- Release a run whose call exceeds a budget until the budget allows it.  With the lock, either a change of the budget is
-- visible here and the run does not wait, or the transaction that commits it sees the waiting run.
--
-- Reservations of other calls of the run are released.
--
-- Args: _refusal: the result of agent_internal.reserve().
create or replace function agent_internal.wait_for_budget(_run bigint, _lease bigint, _refusal jsonb, _tokens bigint, _cost numeric)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _same boolean;
begin
    perform agent_internal.fence(_run, _lease);
    perform agent_internal.share_lock('budget');
    _same := exists (select from agent.budget
                     where tenant = (select r.tenant from agent.run r where r.id = _run) and name = _refusal ->> 'budget' and version = (_refusal ->> 'version')::integer);
    perform agent_internal.park_run(_run, _lease, 'waiting_retry',
                           case when _same then (_refusal ->> 'wait')::double precision else 0 end * interval '1 second',
                           true, _refusal - '{version,wait}'::text[], _tokens, _cost, true);
end;
$$;

-- Notify the workers of changed budgets, and requeue the runs that wait for one.  Deferred, so that the lock is held
-- only during the commit.
create or replace function agent_internal.notify_budget()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op <> 'INSERT' then
        perform from agent_internal.lock where name = 'budget' for update;
        update agent.run set next_attempt_at = agent_internal.now()
         where id in (select id from agent.run
                       where state = 'waiting_retry' and error ->> 'budget' = old.name and tenant = old.tenant
                       order by id for no key update skip locked);
        perform pg_notify('walagent_runs', '');
    end if;
    perform pg_notify('walagent_budgets', '');
    return null;
end;
$$;

-- A login that asks is not trusted with more than its questions: not with a lease that outlives its process for long, nor
-- with figures that are no numbers.
create function agent_internal.allowed_lease(_lease interval)
    returns interval
    language sql
    stable
as $$ select case when agent_internal.is_runner() then _lease else least(_lease, interval '2 minutes') end $$;
revoke all on function agent_internal.allowed_lease(interval) from public;

alter table agent.step add constraint figures_are_numbers
    check (least(input_tokens, cached_tokens, cache_write_tokens, output_tokens) >= 0
           and least(cost, 0) >= 0 and greatest(cost, 0) < 'infinity') not valid;
alter table agent.run add constraint figures_are_numbers
    check (tokens >= 0 and least(cost, 0) >= 0 and greatest(cost, 0) < 'infinity') not valid;

alter function agent_internal.claim_runs(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint)
    rename to claim_runs_without_tenant;

-- Claim up to *_slots* runs from the queues in turn, each with a lease.
--
-- `more`, equal in all rows, is whether the queues have more runs to claim.  `question` is set for runs of kind
-- question: {"id", "session", "text", "options"}.
--
-- Args: _queue, _run: only from this queue, only this run of it; waits for its lock.
-- _done_queues, _done_counts: how many runs of which queue this worker has released since its last claim, so
-- that a transaction that ends a run need not update the queue, which all runs share.
-- _limited, _limits: maximum number of runs for some queues; 0 if the provider of their model accepts no calls
-- now.  Their runs stay in the queue instead of being claimed only to be parked.
-- Raises 42501 and WA017 as check_claim() does.
create function agent_internal.claim_runs(
    _worker      text,
    _slots       integer,
    _lease       interval,
    _kinds       text[] default '{agent}',
    _queue       bigint default null,
    _done_queues bigint[] default '{}',
    _done_counts integer[] default '{}',
    _limited     bigint[] default '{}',
    _limits      integer[] default '{}',
    _run         bigint default null
)
    returns table (
        run_id bigint, kind text, queue_id bigint, attachment_id bigint, attachment_version integer, lease bigint,
        attempt integer, max_attempts integer, reason text, principal name, change jsonb, question jsonb, key text,
        depth integer, commit_lsn text, committed_at timestamptz, created_at timestamptz, started_at timestamptz,
        merged jsonb, steps jsonb, tenant text, more boolean
    )
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _queues agent_internal.queue[];
    _each   agent_internal.queue;
    _some   record;
    _taken  bigint[] := '{}';
    _left   integer := _slots;
    _more   boolean := false;
begin
    perform agent_internal.check_claim(_kinds, _queue, _done_queues);
    if _done_queues <> '{}' then
        perform agent_internal.return_slots(_done_queues, _done_counts);
    end if;
    _queues := array(select q from agent_internal.pick_queues(_slots, _kinds, _queue, array(
                         select l.id from unnest(_limited, _limits) as l (id, most) where l.most <= 0)) q);
    for _n in 1 .. cardinality(_queues) loop
        if _left <= 0 then
            _more := true;
            exit;
        end if;
        _each := _queues[_n];
        select * into _some from agent_internal.claim_from_queue(_each, least(
            ceil(_left::numeric / (cardinality(_queues) - _n + 1))::integer,
            _limits[array_position(_limited, _each.id)]), _run);
        _taken := _taken || _some.taken;
        _left := _left - cardinality(_some.taken);
        _more := _more or _some.more;
    end loop;
    if _taken = '{}' then
        return;
    end if;
    return query
        with claimed as (
            update agent.run r
               set state = 'running', worker = _worker, lease = agent_internal.next_lease(r.lease), attempt = r.attempt + 1,
                   lease_expires_at = agent_internal.now() + agent_internal.allowed_lease(_lease), started_at = coalesce(r.started_at, agent_internal.now())
             where r.id = any (_taken)
            returning r.*
        )
        select c.id, c.kind, c.queue_id, c.attachment_id, c.attachment_version, c.lease, c.attempt, c.max_attempts, c.reason,
               c.principal, c.change,
               case c.kind when 'question' then
                   (select jsonb_build_object('id', q.id, 'session', q.session_id, 'text', q.text, 'options', q.options)
                      from agent.question q where q.run_id = c.id) end,
               c.key, c.depth, c.commit_lsn::text, c.committed_at, c.created_at, c.started_at,
               (select jsonb_agg(m.change order by m.commit_lsn, m.ordinal) from agent_internal.merged_change m where m.run_id = c.id),
               (select jsonb_agg(jsonb_build_object(
                           'seq', s.seq, 'kind', s.kind, 'content', s.content, 'cost', s.cost,
                           'tokens', coalesce(s.input_tokens, 0) + coalesce(s.cached_tokens, 0)
                                     + coalesce(s.cache_write_tokens, 0) + coalesce(s.output_tokens, 0))
                        order by s.seq)
                  from agent.step s where s.run_id = c.id),
               c.tenant, _more
          from claimed c
         order by c.id;
end;
$$;
revoke all on function agent_internal.claim_runs(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint) from public;
comment on function agent_internal.claim_runs(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint) is 'Claim runs, and return them with their steps';
select agent_internal.grant_as('agent_internal.claim_runs(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint)', 'agent_internal.claim_runs_without_tenant(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint)');
drop function agent_internal.claim_runs_without_tenant(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint);

-- Extend the leases of runs in one statement.
--
-- Returns the runs that their worker must release: the lease is lost, or cancellation was requested.  A run that
-- is locked is in its own write-back; no other worker can claim it before that ends.
--
-- Raises 42501 if the caller may not hold one of the runs.
create or replace function agent_internal.heartbeat(_worker text, _runs bigint[], _leases bigint[], _lease interval)
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
           and (not r.cancel_requested or agent_internal.is_runner())  -- a login that asks cannot delay it
         order by r.id
           for no key update of r skip locked
    )
    update agent.run r set lease_expires_at = agent_internal.now() + agent_internal.allowed_lease(_lease) from held where r.id = held.id;
    return query
        select mine.id, coalesce(r.cancel_requested, false) or c.run_id is not null
          from unnest(_runs, _leases) as mine (id, lease)
               left join agent.run r on r.id = mine.id
               left join agent_internal.cancel_request c on c.run_id = mine.id
         where r.id is null or r.lease <> mine.lease or r.state <> 'running' or r.cancel_requested or c.run_id is not null;
end;
$$;

-- Release a run without ending it: until a time, until a person has decided, or for any worker to claim.
--
-- Args: _refund: do not count the attempt, because the wait is no failure of the run.
create or replace function agent_internal.park_run(
    _run bigint, _lease bigint, _state agent.run_state, _delay interval, _refund boolean, _error jsonb,
    _tokens bigint, _cost numeric, _reserved boolean default false
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    if _state not in ('pending', 'waiting_retry') and not agent_internal.is_runner() then
        raise exception 'role "%" may not let run % wait for a person', agent.current_principal(), _run using errcode = '42501';
    end if;
    update agent.run
       set state = _state, lease_expires_at = null, error = _error, tokens = _tokens, cost = _cost,
           next_attempt_at = case when _state = 'waiting_retry' then agent_internal.now() + _delay end,
           attempt = greatest(0, attempt - _refund::integer)
     where id = _run;
    if _reserved then
        perform agent_internal.release(_run);
    end if;
end;
$$;

-- Requests to cancel a run that a step has locked.  The step sees its request before it commits, and is rolled back.
create table agent_internal.cancel_request (
    run_id       bigint primary key references agent.run on delete cascade,
    reason       text,
    requested_at timestamptz not null default now()
);
revoke all on agent_internal.cancel_request from public;
comment on table agent_internal.cancel_request is 'Requests to cancel a run that a step has locked; the next tick applies them';

-- Insert a step of a run that the caller has locked.
--
-- The previous step must exist: a promoted standby might have the claim of a run and lack its latest steps,
-- which the worker has recorded on the former primary.
--
-- Args: _seq: its number; NULL: the next.  _usage: input, cached, cache write and output tokens.
-- Raises WA002 if cancellation was requested since the run was locked, WA004 if the step already exists, WA001 if a previous step is missing.
create or replace function agent_internal.insert_step(
    _run bigint, _seq integer, _kind text, _content jsonb, _usage integer[] default null, _cost numeric default null,
    _duration_ms integer default null
)
    returns void
    language plpgsql
as $$
begin
    if exists (select from agent_internal.cancel_request c where c.run_id = _run) then
        raise exception 'cancellation of run % was requested', _run using errcode = 'WA002';
    end if;
    if _seq is null then
        _seq := (select coalesce(max(seq), -1) + 1 from agent.step where run_id = _run);
    end if;
    insert into agent.step (tenant, run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                            output_tokens, cost, duration_ms)
    select (select r.tenant from agent.run r where r.id = _run), _run, _seq, _kind, _content, _usage[1], _usage[2], _usage[3], _usage[4], _cost, _duration_ms
     where _seq = 0 or exists (select from agent.step where run_id = _run and seq = _seq - 1)
    on conflict do nothing;
    if found then
        return;
    elsif exists (select from agent.step where run_id = _run and seq = _seq) then
        raise exception 'step % of run % already exists', _seq, _run using errcode = 'WA004';
    end if;
    raise exception 'run % lacks steps before step %: they were lost with a former primary', _run, _seq using errcode = 'WA001';
end;
$$;

-- Cancel a run: at once, or, if it is running, as soon as its worker receives the request.
--
-- A step can have locked the run for as long as its tool takes: then the request is stored beside it.
--
-- Approvals are locked before the run, as in a decision: the other order could deadlock.
create function agent_internal.cancel_run(run_id bigint, reason text default null)
    returns agent.run_state
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
    if not exists (select from agent.run r where r.id = cancel_run.run_id and agent_internal.sees(r.tenant)) then
        raise exception 'run % does not exist', cancel_run.run_id using errcode = 'WA003';
    end if;
    perform from agent.approval a where a.run_id = cancel_run.run_id and a.state = 'pending' order by a.id for no key update;
    if (select r.state from agent.run r where r.id = cancel_run.run_id) = 'running' then
        select * into _run from agent.run where id = cancel_run.run_id for no key update skip locked;
        if not found then
            insert into agent_internal.cancel_request (run_id, reason) values (cancel_run.run_id, cancel_run.reason)
            on conflict do nothing;
            perform agent_internal.audit('run.cancelled', cancel_run.run_id::text,
                                         _tenant => (select r.tenant from agent.run r where r.id = cancel_run.run_id));
            perform pg_notify('walagent_cancel', cancel_run.run_id::text);
            return 'running';
        end if;
    else
        select * into _run from agent.run where id = cancel_run.run_id for no key update;
    end if;
    if _run.id is null then
        raise exception 'run % does not exist', cancel_run.run_id using errcode = 'WA003';
    elsif agent_internal.is_final(_run.state) then
        raise exception 'run % is already %', _run.id, _run.state using errcode = 'WA003';
    end if;
    perform agent_internal.audit('run.cancelled', _run.id::text, _tenant => _run.tenant);
    if _run.state = 'running' then
        update agent.run set cancel_requested = true, error = jsonb_build_object('reason', coalesce(cancel_run.reason, 'cancelled'))
         where id = _run.id;
        perform pg_notify('walagent_cancel', _run.id::text);
        return 'running';
    end if;
    update agent.approval set state = 'cancelled', decided_at = agent_internal.now()
     where approval.run_id = _run.id and state = 'pending';
    update agent.run
       set state = 'cancelled', finished_at = agent_internal.now(), next_attempt_at = null, not_before = null, blocked_by = null,
           error = jsonb_build_object('reason', coalesce(cancel_run.reason, 'cancelled'))
     where id = _run.id;
    perform agent_internal.unblock(_run.id);
    return 'cancelled';
end;
$$;
comment on function agent_internal.cancel_run(bigint, text) is 'Cancel a run, for functions that have checked who calls';
revoke all on function agent_internal.cancel_run(bigint, text) from public;

create or replace function agent.cancel(run_id bigint, reason text default null)
    returns agent.run_state
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_role('approver');
    return agent_internal.cancel_run(cancel.run_id, cancel.reason);
end;
$$;

-- Apply requests to runs that are not locked any more.
create function agent_internal.apply_cancel_requests()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _asked   record;
    _waiting bigint;
    _locked  bigint;
begin
    for _asked in select c.run_id, c.reason from agent_internal.cancel_request c order by c.run_id loop
        select count(*) into _waiting from agent.approval a where a.run_id = _asked.run_id and a.state = 'pending';
        perform from agent.approval a
          where a.run_id = _asked.run_id and a.state = 'pending' order by a.id for no key update skip locked;
        get diagnostics _locked = row_count;
        continue when _locked <> _waiting;
        perform from agent.run r where r.id = _asked.run_id for no key update skip locked;
        continue when not found;
        delete from agent_internal.cancel_request where run_id = _asked.run_id;
        perform agent.cancel(r.id, _asked.reason) from agent.run r
          where r.id = _asked.run_id and not agent_internal.is_final(r.state);
    end loop;
end;
$$;
comment on function agent_internal.apply_cancel_requests() is 'Apply requests to cancel runs that a step had locked';
revoke all on function agent_internal.apply_cancel_requests() from public;

-- What an agent may see of a change by a definition: *_change* can be that of an earlier one, with more columns.
create function agent_internal.visible_change(_change jsonb, _definition jsonb)
    returns jsonb
    language sql
    immutable
as $$
    with shown (columns) as (
        select array(select jsonb_array_elements_text(_definition -> 'columns')
                      union select jsonb_array_elements_text(_definition -> 'key_columns')
                      union select b.value from jsonb_array_elements(_definition -> 'tools') t, jsonb_each_text(t -> 'bind') b)
    )
    select case when jsonb_typeof(_definition -> 'columns') is distinct from 'array' then _change
           else _change || coalesce((
                    select jsonb_object_agg(side.key, (
                               select coalesce(jsonb_object_agg(v.key, v.value), '{}')
                                 from jsonb_each(side.value) v where v.key = any (shown.columns)))
                      from jsonb_each(_change) side cross join shown
                     where side.key in ('new', 'old') and jsonb_typeof(side.value) = 'object'), '{}') end
$$;

-- Requeue an ended run.  Its steps stay; limits and attempts start again.  It gets the current version of its attachment,
-- if that is not detached, and sees no more of the change than that version shows.  For the lock see
-- agent_internal.ingest(): until this commits, no run starts as it is inserted.
create function agent.retry(run_id bigint, same_version boolean default false)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run        agent.run;
    _version    integer;
    _definition jsonb;
begin
    perform agent_internal.check_role('approver');
    select * into _run from agent.run where id = retry.run_id for no key update;
    if not found then
        raise exception 'run % does not exist', retry.run_id using errcode = 'WA003';
    elsif _run.state not in ('failed', 'dead', 'cancelled') then
        raise exception 'run % is %; only failed, dead and cancelled runs can be retried', _run.id, _run.state
            using errcode = 'WA003';
    elsif exists (select from agent_internal.queue q
                   where q.id = _run.queue_id and q.attachment_id is not null and q.paused
                     and not exists (select from agent.attachment a where a.id = q.attachment_id)) then
        raise exception 'run % cannot be retried: its attachment was detached while paused', _run.id using errcode = 'WA003';
    end if;
    perform agent_internal.audit('run.retried', _run.id::text, _tenant => _run.tenant);
    perform agent_internal.prevent_starts();
    perform agent_internal.insert_step(_run.id, null, 'note', jsonb_build_object(
        'retry', true, 'by', agent.current_principal()));
    if not same_version then
        select v.version, v.definition into _version, _definition
          from agent.attachment a
               join agent.attachment_version v on v.attachment_id = a.id and v.version = a.version
         where a.id = _run.attachment_id and a.version <> _run.attachment_version;
    end if;
    if _version is not null then
        update agent_internal.merged_change m
           set change = agent_internal.visible_change(m.change, _definition) where m.run_id = _run.id;
    end if;
    update agent.run
       set state = 'pending', attempt = 0, started_at = null, finished_at = null, error = null, result = null,
           attachment_version = coalesce(_version, attachment_version),
           change = case when _version is null then change else agent_internal.visible_change(change, _definition) end
     where id = _run.id;
end;
$$;
comment on function agent.retry(bigint, boolean) is 'Requeue a failed, dead or cancelled run, with the current version of its attachment';
select agent_internal.grant_as('agent.retry(bigint, boolean)', 'agent.retry(bigint)');
drop function agent.retry(bigint);

-- The same for many: all or none.
create function agent.retry_runs(run_ids bigint[], same_version boolean default false)
    returns bigint
    language sql
as $$
    select count(*) from (select agent.retry(id, retry_runs.same_version)
                            from (select distinct unnest(run_ids) as id order by 1) i offset 0) done
$$;
comment on function agent.retry_runs(bigint[], boolean) is 'Requeue many runs, or none if one cannot be requeued; return their number';

create function agent.cancel_runs(run_ids bigint[], reason text default null)
    returns bigint
    language sql
as $$
    select count(*) from (select agent.cancel(id, cancel_runs.reason)
                            from (select distinct unnest(run_ids) as id order by 1) i offset 0) done
$$;
comment on function agent.cancel_runs(bigint[], text) is 'Cancel many runs, or none if one has ended; return their number';

create function agent.approve_calls(ids bigint[])
    returns bigint
    language sql
as $$
    select count(*) from (select agent.approve(id) from (select distinct unnest(ids) as id order by 1) i offset 0) done
$$;
comment on function agent.approve_calls(bigint[]) is 'Approve many tool calls, or none if one cannot be approved; return their number';

create function agent.reject_calls(ids bigint[], reason text default null)
    returns bigint
    language sql
as $$
    select count(*) from (select agent.reject(id, reject_calls.reason)
                            from (select distinct unnest(ids) as id order by 1) i offset 0) done
$$;
comment on function agent.reject_calls(bigint[], text) is 'Reject many tool calls, or none if one cannot be rejected; return their number';
revoke all on function agent_internal.visible_change(jsonb, jsonb), agent.retry(bigint, boolean),
    agent.retry_runs(bigint[], boolean), agent.cancel_runs(bigint[], text), agent.approve_calls(bigint[]),
    agent.reject_calls(bigint[], text) from public;

-- Violations of the promises in 0001_overview.sql.  `walagent check` prints them.
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
    select 'two runs of one ordering key at the same time', format('queue %s, ordering key %s', queue_id, ordering_key)
      from agent.run where state = 'running' and ordering_key is not null group by queue_id, ordering_key having count(*) > 1
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
                                 from agent.spend s
                                where s.budget_id = u.budget_id and s.settled_at is null) o
     where u.reserved_cost <> o.cost or u.reserved_tokens <> o.tokens
    union all
    select 'a reservation of a lost lease was not released', format('run %s, budget %s, since %s', s.run_id, s.budget_id, s.reserved_at)
      from agent.spend s left join agent.run r on r.id = s.run_id
     where s.settled_at is null and s.reserved_at < agent_internal.now() - interval '5 minutes'
       and (r.lease <> s.lease or r.lease_expires_at is null);

-- The identity of the database.  A copy of the files or of the rows has the runs of the original, but must not execute
-- them: the server's system identifier or the OID of the database differs.  A copy of the whole cluster with all its files
-- has both; a person must see to it that one of the two is not started.
--
-- Without a row, the next claim makes an identity.
create table agent_internal.database (
    one        boolean primary key default true check (one),
    id         text not null default left(replace(gen_random_uuid()::text, '-', ''), 16),
    system_id  text not null,
    oid        oid not null,
    adopted_at timestamptz not null default now()
);
revoke all on agent_internal.database from public;
comment on table agent_internal.database is 'Identity of the database, which a copy of it does not match; one row';
comment on column agent_internal.database.id is 'Part of every idempotency key';
comment on column agent_internal.database.system_id is 'System identifier of the server; empty if its owner hides it';
comment on column agent_internal.database.oid is 'OID of the database';
comment on column agent_internal.database.adopted_at is 'When this database was made the one that executes the runs';

create function agent_internal.present_database(out system_id text, out oid oid)
    language plpgsql
    stable
as $$
begin
    system_id := '';
    if has_function_privilege('pg_catalog.pg_control_system()', 'execute') then
        system_id := (select c.system_identifier::text from pg_catalog.pg_control_system() c);
    end if;
    oid := (select d.oid from pg_catalog.pg_database d where d.datname = current_database());
end;
$$;

insert into agent_internal.database (system_id, oid) select system_id, oid from agent_internal.present_database();

-- Return the identity of the database.  Raises WA017 in a copy of it.
create function agent_internal.check_database()
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _stored  agent_internal.database;
    _present record;
begin
    select * into _stored from agent_internal.database;
    select * into _present from agent_internal.present_database();
    if _stored.id is null then
        insert into agent_internal.database (system_id, oid) values (_present.system_id, _present.oid)
        on conflict do nothing;
        select * into _stored from agent_internal.database;
    elsif (_stored.system_id, _stored.oid) is distinct from (_present.system_id, _present.oid) then
        raise exception 'this database is a copy: it has OID % on the server with system identifier %, expected OID % on %',
            _present.oid, _present.system_id, _stored.oid, _stored.system_id
            using errcode = 'WA017',
                  hint = 'Use walagent adopt --moved if the original is not used any more, or walagent adopt --copy if it is.';
    end if;
    return _stored.id;
end;
$$;
comment on function agent_internal.check_database() is 'Identity of the database; raises WA017 in a copy';

-- Let a copy execute runs.
--
-- Args: _moved: the original is not used any more: all runs continue, and calls have the keys that they had.  Otherwise
-- the unfinished runs are cancelled, because the original executes them, and keys are different from now on.
-- Returns the number of cancelled runs; NULL: it is no copy, and nothing was done.
create function agent_internal.adopt_database(_moved boolean)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _present record;
    _count   bigint := 0;
begin
    select * into _present from agent_internal.present_database();
    perform from agent_internal.database d
      where (d.system_id, d.oid) is distinct from (_present.system_id, _present.oid) for update;
    if not found then
        return null;
    end if;
    if not _moved then
        update agent.approval set state = 'cancelled', decided_at = agent_internal.now() where state = 'pending';
        update agent.run
           set state = 'cancelled', lease_expires_at = null, next_attempt_at = null, not_before = null, blocked_by = null,
               cancel_requested = false, finished_at = agent_internal.now(),
               error = jsonb_build_object('reason', 'this database is a copy: the original continues the run')
         where state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review');
        get diagnostics _count = row_count;
        perform agent_internal.release_lost();
        delete from agent.worker;
    end if;
    update agent_internal.database
       set id = case when _moved then id else left(replace(gen_random_uuid()::text, '-', ''), 16) end,
           system_id = _present.system_id, oid = _present.oid, adopted_at = agent_internal.now();
    return _count;
end;
$$;
comment on function agent_internal.adopt_database(boolean) is 'Let a copy of the database execute runs';

-- Raise 42501 unless the caller may claim from these queues: a worker from any, another login only from the
-- queue of one of its sessions.  Raise WA017 in a copy of the database.
create or replace function agent_internal.check_claim(_kinds text[], _queue bigint, _done_queues bigint[])
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.check_database();
    if agent_internal.is_runner()
       or _kinds = '{question}' and _done_queues <@ array[_queue]
          and exists (select from agent_internal.queue q join agent.session s on s.tenant = q.tenant and s.id = q.session_id
                       where q.id = _queue and s.owner = agent.current_principal() and s.tenant = agent.current_tenant()) then
        return;
    end if;
    raise exception 'role "%" may not claim these runs', agent.current_principal()
        using errcode = '42501', hint = 'Without grant_runner, a role can claim only from the queue of one of its sessions.';
end;
$$;


-- The idempotency key of a call: the same for each attempt, and for no other call of any database.
create function agent_internal.call_key(_run bigint, _call_id text)
    returns text
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select format('walagent-%s-%s-%s', d.id, _run, _call_id) from agent_internal.database d $$;
comment on function agent_internal.call_key(bigint, text) is 'Idempotency key of a tool call';

-- Record that a call outside the database is about to be made, unless that is recorded already.
--
-- Returns its idempotency key: as recorded, so that it stays the same after an upgrade.
-- Raises as agent_internal.record_step() does.
create function agent_internal.begin_call(
    _run bigint, _lease bigint, _seq integer, _call_id text, _name text, _again boolean
)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _key text;
begin
    perform agent_internal.lock_run(_run, _lease);
    if _again then
        select s.content ->> 'idempotency_key' into _key
          from agent.step s
         where s.run_id = _run and s.kind = 'intent' and s.content ->> 'call_id' = _call_id
         order by s.seq desc limit 1;
    end if;
    _key := coalesce(_key, agent_internal.call_key(_run, _call_id));
    if not _again then
        perform agent_internal.insert_step(_run, _seq, 'intent', jsonb_build_object(
            'call_id', _call_id, 'name', _name, 'idempotency_key', _key));
    end if;
    return _key;
end;
$$;
comment on function agent_internal.begin_call(bigint, bigint, integer, text, text, boolean)
    is 'Record that a call outside the database is about to be made; return its idempotency key';
revoke all on function agent_internal.present_database(), agent_internal.check_database(),
    agent_internal.adopt_database(boolean), agent_internal.call_key(bigint, text),
    agent_internal.begin_call(bigint, bigint, integer, text, text, boolean) from public;

create or replace view agent.run_overview with (security_invoker = on) as
    select r.id, r.kind,
           -- Of a detached attachment: the name that the run's version has.
           coalesce(a.name, (select v.definition ->> 'name' from agent.attachment_version v
                              where v.attachment_id = r.attachment_id and v.version = r.attachment_version)) as attachment,
           r.reason, r.state, r.change ->> 'op' as op,
           (r.change ->> 'schema') || '.' || (r.change ->> 'table') as relation, r.key,
           r.attempt, (select count(*) from agent.step s where s.run_id = r.id) as steps,
           r.tokens, r.cost, r.result, r.error ->> 'reason' as error,
           r.committed_at, r.created_at, r.started_at, r.finished_at, r.commit_lsn, r.ordinal, r.cause_run, r.depth,
           r.attachment_version as version
      from agent.run r left join agent.attachment a on a.id = r.attachment_id;
comment on column agent.run_overview.version is 'Version of the attachment that it is pinned to';

select agent_internal.grant_as('agent_internal.runs_in_circles()', 'agent_internal.first_checked_run()');
select agent_internal.grant_as(f, 'agent_internal.tick()')
  from unnest('{agent_internal.apply_cancel_requests(), agent_internal.try_lock(text), agent_internal.share_lock(text), agent_internal.try_start(), agent_internal.prevent_starts(),
                agent_internal.begin_tick(), agent_internal.tick_age(),
                agent_internal.check_database(), agent_internal.adopt_database(boolean), "agent_internal.call_key(bigint,text)",
                "agent_internal.begin_call(bigint,bigint,integer,text,text,boolean)"}'::regprocedure[]) f;
select agent_internal.grant_as(f, 'agent.cancel(bigint, text)')
  from unnest('{"agent.retry_runs(bigint[],boolean)","agent.cancel_runs(bigint[],text)"}'::regprocedure[]) f;
select agent_internal.grant_as('agent.approve_calls(bigint[])', 'agent.approve(bigint)');
select agent_internal.grant_as('agent.reject_calls(bigint[], text)', 'agent.reject(bigint, text)');
