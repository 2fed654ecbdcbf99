-- Claim runs: which caller may, from which queues, and in which order.
--
-- A login that asks a question holds its run, and is no worker.  Functions for the holder of a run have the
-- owner's rights, and agent_internal.fence() checks that the caller may hold the run.

-- Count runs that a worker has released: their queues might have capacity for others.
create or replace function agent_internal.return_slots(_queues bigint[], _counts integer[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent_internal.queue where id = any (_queues) order by id for no key update;
    update agent_internal.queue l
       set used = greatest(0, l.used - d.n), queued = true
      from unnest(_queues, _counts) as d (id, n)
     where l.id = d.id;
end;
$$;

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
    set search_path = pg_catalog, pg_temp
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
create or replace function agent_internal.claim_in_order(
    _id bigint, _tenant text, _want integer, _run bigint, out taken bigint[], out more boolean
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
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
                           and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')  -- planted: review-holds-nothing/claim
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

-- A login that asks is not trusted with more than its questions: not with a lease that outlives its process for long, nor
-- with figures that are no numbers.
create or replace function agent_internal.allowed_lease(_lease interval)
    returns interval
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select case when agent_internal.is_runner() then _lease else least(_lease, interval '2 minutes') end $$;

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
create or replace function agent_internal.claim_runs(
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
    set enable_seqscan = off
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
comment on function agent_internal.claim_runs(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint) is 'Claim runs, and return them with their steps';

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
comment on function agent_internal.heartbeat(text, bigint[], bigint[], interval) is 'Extend the leases of runs that the caller holds';

-- Raise 42501 unless the caller may claim from these queues: a worker from any, another login only from the
-- queue of one of its sessions.  Raise WA017 in a copy of the database.
create or replace function agent_internal.check_claim(_kinds text[], _queue bigint, _done_queues bigint[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
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

-- Who acts as somebody is not the runner, whatever its login may do.
create or replace function agent_internal.is_runner()
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), 'agent.run'::regclass, 'update')
           and not (agent_internal.identity()).named
$$;
comment on function agent_internal.is_runner() is 'Whether the caller has agent.grant_runner';

create or replace function agent_internal.may_hold(_kind text, _principal name, _tenant text)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select _kind = 'question' and _principal = agent.current_principal() and _tenant = agent.current_tenant() or agent_internal.is_runner()
$$;

create or replace function agent_internal.check_holder(_run bigint)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.is_runner()
       and not exists (select from agent.run r where r.id = _run and agent_internal.may_hold(r.kind, r.principal, r.tenant)) then
        raise exception 'role "%" may not hold run %', agent.current_principal(), _run using errcode = '42501';
    end if;
end;
$$;

-- The tenants that have runs to claim in a queue: the next ones after a tenant, then from the first one again.
create or replace function agent_internal.tenants_in_turn(_queue bigint, _after text, _most integer)
    returns text[]
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
    with recursive following (name) as (
        select (select r.tenant from agent.run r
                 where r.queue_id = _queue and r.tenant > _after and r.state = 'pending'
                   and r.blocked_by is null and r.not_before is null
                 order by r.tenant limit 1)
        union all
        select (select r.tenant from agent.run r
                 where r.queue_id = _queue and r.tenant > f.name and r.state = 'pending'
                   and r.blocked_by is null and r.not_before is null
                 order by r.tenant limit 1)
          from following f where f.name is not null
    ), first (name) as (
        select (select r.tenant from agent.run r
                 where r.queue_id = _queue and r.state = 'pending'
                   and r.blocked_by is null and r.not_before is null
                 order by r.tenant limit 1)
        union all
        select (select r.tenant from agent.run r
                 where r.queue_id = _queue and r.tenant > f.name and r.state = 'pending'
                   and r.blocked_by is null and r.not_before is null
                 order by r.tenant limit 1)
          from first f where f.name < _after
    )
    select array(
        select name from (
            (select 1 as part, name from following where name is not null limit greatest(_most, 2))
            union all
            (select 2, name from first where name is not null and name <= _after limit greatest(_most, 2))) as turn
         order by part, name
         limit greatest(_most, 2))
$$;
comment on function agent_internal.tenants_in_turn(bigint, text, integer) is 'The tenants that have runs to claim in a queue, in turn';

-- Tenants take turns first, then the queues of a tenant.
create or replace function agent_internal.pick_queues(_slots integer, _kinds text[], _queue bigint, _shut bigint[])
    returns setof agent_internal.queue
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _queue is not null then
        return query
            select l.* from agent_internal.queue l
             where l.id = _queue and l.kind = any (_kinds) and not l.paused
               for no key update;
    elsif (select count(*) from (select distinct t.name from agent.tenant t limit 2) as t) = 1
          and agent_internal.room_of((select t.name from agent.tenant t limit 1)) is null then
        return query
            select l.* from agent_internal.queue l
             where l.queued and not l.paused and l.kind = any (_kinds)
               and (l.cap is null or l.used < l.cap)
               and l.id <> all (_shut)
             order by l.served
             limit greatest(_slots, 1)
               for no key update skip locked;
    else
        return query
            with ready as (
                select l.id, l.tenant, row_number() over (partition by l.tenant order by l.served) as turn
                  from agent_internal.queue l
                 where l.queued and not l.paused and l.kind = any (_kinds)
                   and (l.cap is null or l.used < l.cap)
                   and l.id <> all (_shut)
            ), served as (
                select q.tenant, max(q.served) as at, agent_internal.room_of(q.tenant) as room
                  from agent_internal.queue q
                 where q.tenant in (select r.tenant from ready r)
                 group by q.tenant
            )
            select l.*
              from ready r join served s on s.tenant = r.tenant join agent_internal.queue l on l.id = r.id
             where l.queued and not l.paused
               -- A queue of an attachment can have runs of other tenants.
               and (s.room is null or s.room > 0 or agent_internal.tenants_in_turn(r.id, '', 2) <> array[r.tenant])
             order by r.turn, s.at
             limit greatest(_slots, 1)
               for no key update of l skip locked;
    end if;
end;
$$;
