-- Claim runs: choose and lock them, and give them to a worker.

-- Raise the runs that hold back others of their ordering key: a run must not wait for one of a lower priority.
--
-- Locked ones are passed over.  Runs that wait for those are released, and a claim looks at them again.  So none of lower
-- priority than a run that waits is ever in its `blocked_by`.
--
-- Args: _runs: unfinished ones; all unfinished runs of their keys before them are raised to their priorities.
-- Returns: the queues of those that were raised.
create or replace function agent_internal.raise_before(_runs bigint[])
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _queues bigint[];
begin
    with low as materialized (
        select p.id, max(c.priority) as priority
          from agent.run c
               join agent.run p on p.queue_id = c.queue_id and p.ordering_key = c.ordering_key and p.id <> c.id
                                   and (p.id + 0 < c.id or p.started_at is not null) and p.priority < c.priority
         where c.id = any (_runs) and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
         group by p.id
    ), free as materialized (
        select r.id from agent.run r where r.id in (select l.id from low l) order by r.id for no key update skip locked
    ), raised as (
        update agent.run r
           set priority = greatest(r.priority, l.priority),
               blocked_by = case when r.blocked_by is null or r.blocked_by not in (select id from low)
                                      or r.blocked_by in (select id from free) then r.blocked_by end
          from low l
         where r.id = l.id and r.id = any (array(select f.id from free f))
        returning r.queue_id
    )
    select array(select distinct queue_id from raised) into _queues;
    return _queues;
end;
$$;
comment on function agent_internal.raise_before(bigint[]) is 'Raise the runs that hold back others of their ordering key';

-- Choose and lock runs of queues, oldest first: of one priority of a tenant, or of all tenants by priority.  Claims pass
-- over each other's runs.
--
-- A run whose ordering key has an unfinished run before it is not taken.  It looks for that one after it has locked its
-- candidates, so a run that another claim is taking is still an unfinished one.  `blocked_by` is set to the last of
-- them, and the blocked run is not read again until that one has ended.  Meanwhile the earlier run is locked FOR SHARE:
-- the transaction that ends it waits, and then sees `blocked_by`.  If another transaction has locked the earlier run,
-- nothing is set, and the next claim reads the run again.  So it is if the earlier run has a lower priority: then that one
-- is raised.
--
-- No more is locked than is taken, unless candidates are blocked: then the next rounds look further.
--
-- Args: _wants: how many of each queue.  _run: only this run.  taken: those that this claim has, to which it adds.
-- Returns: more: the queues that might have more runs to claim.
create or replace function agent_internal.claim_in_order(
    _tenant text, _priority integer, _queues bigint[], _wants integer[], _run bigint, inout taken bigint[], out more bigint[]
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _left   integer[] := _wants;  -- of each queue
    _seen   bigint[] := taken;  -- looked at
    _ids    bigint[];  -- the candidates, and of each its queue
    _of     bigint[];
    _keys   bigint;
    _now    bigint[];
    _waits  bigint[];  -- that wait for another run, and of each that one
    _by     bigint[];
    _marked integer;
    _raised bigint[];  -- queues
    _extra  integer := 0;
    _passed boolean;
begin
    more := '{}';
    -- Behind a thousand changes of one row there might be one of another row.
    for _round in 1 .. 25 loop
        -- Two statements: each has the index that it needs.
        if _tenant is null then
            select coalesce(array_agg(w.id), '{}'), array_agg(w.queue_id), count(w.ordering_key) into _ids, _of, _keys
              from unnest(_queues, _left) as q (id, n)
                   cross join lateral (select r.id, r.queue_id, r.ordering_key from agent.run r
                                        where r.queue_id = q.id
                                          and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                                          and r.id <> all (_seen) and (_run is null or r.id = _run)
                                        order by r.priority desc, r.id + 0
                                        limit case when q.n > 0 then q.n + _extra else 0 end
                                          for update skip locked) w;
        else
            select coalesce(array_agg(w.id), '{}'), array_agg(w.queue_id), count(w.ordering_key) into _ids, _of, _keys
              from unnest(_queues, _left) as q (id, n)
                   cross join lateral (select r.id, r.queue_id, r.ordering_key from agent.run r
                                        where r.tenant = _tenant and r.priority = _priority and r.queue_id = q.id
                                          and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                                          and r.id <> all (_seen)
                                        order by r.id + 0
                                        limit case when q.n > 0 then q.n + _extra else 0 end
                                          for update skip locked) w;
        end if;
        exit when _ids = '{}';
        _seen := _seen || _ids;
        _now := _ids;
        _raised := '{}';
        if _keys > 0 then  -- there is an order to keep
            with candidate as materialized (
                select r.id, r.queue_id, r.ordering_key, r.started_at is not null as begun
                  from agent.run r
                 where r.id = any (_ids)
                 order by r.id
            ), ahead as materialized (
                select c.id,
                       coalesce(
                           case when not c.begun then
                               (select p.id
                                  from agent.run p
                                 where p.queue_id = c.queue_id and p.ordering_key = c.ordering_key and p.id + 0 < c.id
                                   and p.state = 'pending' and p.started_at is null
                                 order by p.id + 0 desc
                                 limit 1) end,
                           (select p.id
                              from agent.run p
                             where p.queue_id = c.queue_id and p.ordering_key = c.ordering_key and p.id <> c.id
                               and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')  -- planted: review-holds-nothing/claim
                               and (p.state <> 'pending' or p.started_at is not null or p.id = any (taken))
                               and (not c.begun or p.id < c.id or p.state = 'running' or p.id = any (taken))
                             order by p.id + 0 desc
                             limit 1)) as by
                  from candidate c
            )
            select array_agg(a.id), array_agg(a.by) into _waits, _by from ahead a where a.by is not null;
            if _waits is not null then
                _now := array(select i from unnest(_ids) i where i <> all (_waits));
                with held as materialized (
                    select w.id
                      from unnest(_waits, _by) as w (id, by)
                           join agent.run c on c.id = w.id
                           join agent.run p on p.id = w.by
                     where p.priority >= c.priority
                       and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
                       for share of p skip locked
                )
                -- All locks first: a row that this statement has updated can no longer be locked by it.
                update agent.run r
                   set blocked_by = w.by
                  from unnest(_waits, _by) as w (id, by)
                 where r.id = w.id and r.id = any (array(select h.id from held h));
                get diagnostics _marked = row_count;
                if _marked < cardinality(_waits) then
                    _raised := agent_internal.raise_before(_waits);  -- planted: key-not-raised
                end if;
            end if;
        end if;
        _passed := cardinality(_now) < cardinality(_ids);
        if _extra > 0 then  -- more was locked than is wanted
            _now := array(
                select w.id
                  from (select i.id, i.queue, row_number() over (partition by i.queue order by i.at) as n
                          from unnest(_ids, _of) with ordinality as i (id, queue, at) where i.id = any (_now)) w
                       join unnest(_queues, _left) as q (id, n) on q.id = w.queue
                 where w.n <= q.n);
        end if;
        taken := taken || _now;
        select array_agg(case when q.n > 0 and (w.seen >= q.n + _extra or q.id = any (_raised)) then greatest(0, q.n - w.taken)
                              else 0 end order by q.at),
               more || coalesce(array_agg(q.id) filter (where w.seen > w.taken or q.n > 0 and w.seen >= q.n + _extra), '{}')
          into _left, more
          from unnest(_queues, _left) with ordinality as q (id, n, at)
               cross join lateral (select count(*)::integer as seen, (count(*) filter (where i.id = any (_now)))::integer as taken
                                     from unnest(_ids, _of) as i (id, queue) where i.queue = q.id) w;
        exit when not _passed;
        _extra := 32;
    end loop;
end;
$$;

-- Choose and lock runs for free slots: tenants in turn, of each the highest priority first, of this its queues in turn, of
-- each its oldest runs.
--
-- Whose turn it is costs no write: the worker remembers it.  One that remembers nothing begins at a random place, so
-- each has its turn.
--
-- Args: _turn: {"tenant": the one served last, "queues": {"PRIORITY TENANT": its queue served last}}; it decides about
-- nothing else.
-- Returns: turn: the next one.
create or replace function agent_internal.claim_in_turn(
    _slots integer, _kinds text[], _limited bigint[], _limits integer[], _turn jsonb,
    out taken bigint[], out more boolean, out turn jsonb
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _is_free constant boolean := agent_internal.try_start();  -- planted: pause-unseen
    _shut    constant bigint[] := array(select l.id from unnest(_limited, _limits) as l (id, most) where l.most <= 0);
    _place   text := _turn ->> 'tenant';
    _last    jsonb := coalesce(_turn -> 'queues', '{}');
    _full    text[];
    _seen    text[] := '{}';
    _tenants text[];
    _tenant  text;
    _level   integer;  -- a priority
    _key     text;
    _after   bigint;
    _room    integer;
    _share   integer;  -- of the tenant
    _before  integer;
    _queues  bigint[];
    _most    integer;
    _page    bigint[];  -- of the queues, which are read in portions
    _done    bigint[];  -- in this turn of the tenant
    _open    bigint[];
    _asked   bigint[];
    _rest    bigint[];  -- for which no part was left
    _held    boolean := false;  -- whether others have the runs of a queue
    _left    integer;
    _part    integer;  -- of a queue
    _cap     integer;
    _wants   integer[];
    _had     integer;
begin
    taken := '{}';
    more := false;
    if not agent_internal.any_ready(_kinds, _shut) then
        return;
    end if;
    _full := agent_internal.full_tenants();
    _place := coalesce(_place, (select t.name from agent.tenant t order by random() limit 1), '');
    <<tenants>>
    loop
        _tenants := agent_internal.ready_tenants(_place, _full, greatest(_slots - cardinality(taken), 2));
        exit when _tenants = '{}' or _tenants[1] = any (_seen);
        for _n in 1 .. cardinality(_tenants) loop
            _tenant := _tenants[_n];
            exit tenants when _tenant = any (_seen);
            if cardinality(taken) >= _slots then
                more := true;
                exit tenants;
            end if;
            _seen := _seen || _tenant;
            _place := _tenant;
            _room := agent_internal.room_of(_tenant, true);  -- planted: limit-unlocked
            continue when _room <= 0;
            _share := least(ceil((_slots - cardinality(taken))::numeric / (cardinality(_tenants) - _n + 1))::integer, _room);
            _before := cardinality(taken);
            _level := agent_internal.ready_priority(_tenant);
            while _level is not null loop
                _key := _level || ' ' || _tenant;
                _after := (_last ->> _key)::bigint;
                if _after is null then
                    select (min(r.queue_id) + random() * (max(r.queue_id) - min(r.queue_id) + 1) - 1)::bigint into _after
                      from agent.run r
                     where r.tenant = _tenant and r.priority = _level
                       and r.state = 'pending' and r.blocked_by is null and r.not_before is null;
                end if;
                _done := '{}';
                _asked := '{}';
                loop
                    _left := _share - (cardinality(taken) - _before);
                    _most := _left + 1;
                    _queues := agent_internal.ready_queues(_tenant, _level, coalesce(_after, 0), _kinds, _shut || _done, _most);
                    _page := _queues;
                    more := more or cardinality(_page) = _most;
                    -- What a queue leaves of its part goes to those that have more.
                    loop
                        _left := _share - (cardinality(taken) - _before);
                        exit when _left <= 0 or _queues = '{}';
                        _wants := '{}';
                        _rest := '{}';
                        for _m in 1 .. cardinality(_queues) loop
                            _part := ceil(_left::numeric / (cardinality(_queues) - _m + 1))::integer;
                            if _part <= 0 then
                                _rest := _queues[_m:];
                                exit;
                            end if;
                            _cap := agent_internal.cap_room_of(_queues[_m], taken, _is_free);
                            if _queues[_m] = any (_limited) then
                                _cap := least(_cap, _limits[array_position(_limited, _queues[_m])]
                                                    - (select count(*) from agent.run r where r.id = any (taken) and r.queue_id = _queues[_m])::integer);
                            end if;
                            _part := greatest(0, least(_part, _cap));
                            _wants := _wants || _part;
                            _left := _left - _part;
                            if _part > 0 and _queues[_m] <> all (_asked) then
                                _asked := _asked || _queues[_m];
                                _last := _last || jsonb_build_object(_key, _queues[_m]);
                            end if;
                        end loop;
                        _had := cardinality(taken);
                        select c.taken, c.more into taken, _open
                          from agent_internal.claim_in_order(_tenant, _level, _queues[:cardinality(_wants)], _wants, null, taken) c;
                        -- What another claim has locked, or waits for an earlier run, leaves its part to the rest.
                        if cardinality(taken) = _had then
                            _held := _held or _open <> '{}';
                            _open := '{}';
                        end if;
                        _queues := array(select q.id from unnest(_queues) with ordinality as q (id, at) where q.id = any (_open || _rest) order by q.at);
                    end loop;
                    more := more or _held or _queues <> '{}';
                    -- Those might be locked, or at their caps: then the next ones are served before a lower priority.
                    exit when cardinality(_page) < _most or cardinality(taken) - _before >= _share;
                    _done := _done || _page;
                    _after := _page[_most];
                end loop;
                -- Without a free slot, only whether there are more counts.
                exit when more and cardinality(taken) - _before >= _share;
                _level := agent_internal.ready_priority(_tenant, _level);
            end loop;
        end loop;
    end loop;
    turn := jsonb_build_object('tenant', _place, 'queues', case
        when (select count(*) from jsonb_object_keys(_last)) <= 200 then _last else '{}' end);
end;
$$;
comment on function agent_internal.claim_in_turn(integer, text[], bigint[], integer[], jsonb) is 'Choose and lock runs for free slots';

-- Give runs that the caller has locked to a worker.
--
-- Two claims can both take runs of one ordering key if neither could see the other's, as when an older run is committed
-- late.  The index run_alone lets the second one wait for the first one's commit, and its run stays in the queue.  All
-- claims meet the keys in one order.
create or replace function agent_internal.lease_runs(_runs bigint[], _worker text, _lease interval)
    returns bigint[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _each  bigint;
    _held  bigint[] := array(select r.id from agent.run r where r.id = any (_runs) and r.ordering_key is null);
    _keyed constant bigint[] := array(select r.id from agent.run r where r.id = any (_runs) and r.ordering_key is not null
                                       order by r.queue_id, r.ordering_key);
begin
    if _held <> '{}' then
        perform agent_internal.start_runs(_held, _worker, _lease);
    end if;
    if _keyed = '{}' then
        return _held;
    end if;
    begin
        perform agent_internal.start_runs(_keyed, _worker, _lease);
        return _held || _keyed;
    exception when unique_violation then
        null;
    end;
    foreach _each in array _keyed loop
        begin
            perform agent_internal.start_runs(array[_each], _worker, _lease);
            _held := _held || _each;
        exception when unique_violation then
            null;
        end;
    end loop;
    return _held;
end;
$$;
comment on function agent_internal.lease_runs(bigint[], text, interval) is 'Give runs to a worker';

create or replace function agent_internal.start_runs(_runs bigint[], _worker text, _lease interval)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    update agent.run r
       set state = 'running', worker = _worker, lease = agent_internal.next_lease(r.lease), attempt = r.attempt + 1,
           lease_expires_at = agent_internal.now() + agent_internal.allowed_lease(_lease),
           started_at = coalesce(r.started_at, agent_internal.now())
     where r.id = any (_runs);
end;
$$;

-- Claim up to *_slots* runs from the queues in turn, each with a lease.
--
-- `more` and `turn`, equal in all rows, are whether the queues have more runs to claim, and whose turn is next, which
-- the next claim is given.  `question` is set for runs of kind question: {"id", "session", "text", "options"}.
--
-- Args: _queue, _run: only from this queue, only this run of it; waits for its lock.
-- _limited, _limits: maximum number of runs for some queues; 0 if the provider of their model accepts no calls
-- now.  Their runs stay in the queue instead of being claimed only to be parked.
-- Raises 42501 and WA017 as check_claim() does.
create or replace function agent_internal.claim_runs(
    _worker  text,
    _slots   integer,
    _lease   interval,
    _kinds   text[] default '{agent}',
    _queue   bigint default null,
    _limited bigint[] default '{}',
    _limits  integer[] default '{}',
    _run     bigint default null,
    _turn    jsonb default '{}'
)
    returns table (
        run_id bigint, kind text, queue_id bigint, attachment_id bigint, attachment_version integer, lease bigint,
        attempt integer, max_attempts integer, reason text, principal name, change jsonb, question jsonb, key text,
        depth integer, commit_lsn text, committed_at timestamptz, created_at timestamptz, started_at timestamptz,
        merged jsonb, steps jsonb, tenant text, more boolean, turn jsonb
    )
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
    set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    _some record;
    _held bigint[];
begin
    perform agent_internal.check_claim(_kinds, _queue);
    if _queue is null then
        select * into _some from agent_internal.claim_in_turn(_slots, _kinds, _limited, _limits, _turn);
    else
        perform from agent_internal.queue l where l.id = _queue and l.kind = any (_kinds) and not l.paused for no key update;
        if not found then
            return;
        end if;
        select o.taken, o.more <> '{}' as more, _turn as turn into _some
          from agent_internal.claim_in_order(null, null, array[_queue], array[least(
                   _slots, agent_internal.cap_room_of(_queue, '{}', false), _limits[array_position(_limited, _queue)])], _run, '{}') o;
    end if;
    if _some.taken = '{}' then
        return;
    end if;
    _held := agent_internal.lease_runs(_some.taken, _worker, _lease);
    return query
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
               c.tenant, _some.more or cardinality(_held) < cardinality(_some.taken), _some.turn
          from agent.run c
         where c.id = any (_held)
         order by c.id;
end;
$$;
comment on function agent_internal.claim_runs(text, integer, interval, text[], bigint, bigint[], integer[], bigint, jsonb) is 'Claim runs, and return them with their steps';
