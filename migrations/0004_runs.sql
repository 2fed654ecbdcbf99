-- The life of a run: claim, record, wait, end, and what people decide about it.
--
-- Every function here runs in its caller's transaction and commits nothing.  Own SQLSTATEs:
--   WA001  another worker holds the run by now (lease lost)
--   WA002  somebody asked to cancel the run
--   WA003  the run's state does not allow this
--   WA004  the step is recorded already
--   WA005  the approval is not pending any more, or its arguments have changed
--   WA006  you may not decide this
--   WA007  a newer reader took the checkpoint over
--   WA008  the role of an attachment cannot be taken on, or may not see what its agent is shown;
--          the detail is PostgreSQL's own SQLSTATE
--   WA009  the attachment has lost its ground: its table, key, role or tools are not what they were
--   42501  the run, or the queue, is not the caller's
-- Lock order: approvals, then runs, then queues (by id).  A claim locks queues first, and waits for no run:
-- runs of others are locked only with skip locked.
--
-- Who asks a question holds its run, and is no worker: what holding a run takes has the owner's rights and
-- checks, with agent_internal.fence, that the run is the caller's.

-- The number of a lease after *_lease*.  Each timeline of the server has numbers of its own: a standby
-- that is promoted may lack the latest claims and would give their numbers, even their runs' ids, out
-- again, while a worker still holds them.
create function agent_internal.next_lease(_lease bigint)
    returns bigint
    language sql
as $$
    select greatest(_lease, (('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint - 1) << 32) + 1
$$;

-- Whether the caller executes runs of all kinds: a worker.  The role that counts is the one that was
-- set, else the login: inside a function with the owner's rights, current_user is the owner.
create function agent_internal.is_runner()
    returns boolean
    language sql
    stable
as $$
    select has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), 'agent.run'::regclass, 'update')
$$;
comment on function agent_internal.is_runner() is 'Whether the caller has agent.grant_runner';

-- Whether the caller may hold such a run: a worker may hold any, and who asked a question its run.
create function agent_internal.may_hold(_kind text, _principal name)
    returns boolean
    language sql
    stable
as $$
    select _kind = 'question' and _principal = agent.current_principal() or agent_internal.is_runner()
$$;

-- Raise 42501 unless the caller may hold a run.
create function agent_internal.check_holder(_run bigint)
    returns void
    language plpgsql
    stable
as $$
begin
    if not agent_internal.is_runner()
       and not exists (select from agent.run r where r.id = _run and agent_internal.may_hold(r.kind, r.principal)) then
        raise exception 'role "%" may not hold run %', agent.current_principal(), _run using errcode = '42501';
    end if;
end;
$$;

-- Raise 42501 unless the caller may claim from these queues: a worker from any, another login only
-- from the queue of a session of its own.
create function agent_internal.check_claim(_kinds text[], _queue bigint, _done_queues bigint[])
    returns void
    language plpgsql
    stable
as $$
begin
    if agent_internal.is_runner()
       or _kinds = '{question}' and _done_queues <@ array[_queue]
          and exists (select from agent_internal.queue q join agent.session s on s.id = q.session_id
                       where q.id = _queue and s.owner = agent.current_principal()) then
        return;
    end if;
    raise exception 'role "%" may not claim these runs', agent.current_principal()
        using errcode = '42501', hint = 'A login that asks claims from the queue of one of its sessions.';
end;
$$;

-- Choose the queues to serve, the one served longest ago first, and lock them.
--
-- Args: _slots: how many queues at most.  _queue: this one alone, whether or not it seems to have runs.
-- _shut: none of these.
create function agent_internal.pick_queues(_slots integer, _kinds text[], _queue bigint, _shut bigint[])
    returns setof agent_internal.queue
    language plpgsql
as $$
begin
    if _queue is not null then
        return query
            select l.* from agent_internal.queue l
             where l.id = _queue and l.kind = any (_kinds) and not l.paused
               for no key update;
        return;
    end if;
    return query
        select l.* from agent_internal.queue l
         where l.queued and not l.paused and l.kind = any (_kinds)
           and (l.cap is null or l.used < l.cap)
           and l.id <> all (_shut)
         order by l.served
         limit greatest(_slots, 1)
           for no key update skip locked;
end;
$$;

-- Choose and lock up to *_want* runs of a queue, oldest first, and note what the queue has left.
--
-- A run whose ordering key has an earlier unfinished run is not taken but marked with it (`blocked_by`),
-- so that it is looked at again only when that one has ended.  The mark is made while holding the
-- earlier run with FOR SHARE: whoever ends it waits for us, and then sees the mark.  If the earlier
-- run is locked by somebody else, nothing is marked and the run is looked at again next time.
--
-- Args: _queue: a row that the caller has locked.  _run: this run and no other.
-- Returns: more: whether the queue may have more runs to give.
create function agent_internal.claim_from_queue(
    _queue agent_internal.queue, _want integer, _run bigint, out taken bigint[], out more boolean
)
    language plpgsql
as $$
declare
    _id    constant bigint := _queue.id;
    _used  integer := _queue.used;
    _now   bigint[];
    _seen  integer;
    _marks integer;
begin
    if _queue.cap is not null then
        -- The count is a hint; a cap is a promise, and few runs are running.
        _used := (select count(*) from agent.run r where r.queue_id = _id and r.state = 'running');
    end if;
    _want := greatest(0, least(_want, _queue.cap - _used));
    taken := '{}';
    -- Again while all that was seen had to be marked: behind a thousand changes of one row there may be
    -- one of another.
    for _round in 1 .. 25 loop
        with candidate as materialized (
            select r.id, r.ordering_key
              from agent.run r
             where r.queue_id = _id and r.state = 'pending'
               and r.blocked_by is null and r.not_before is null and r.id <> all (taken)
               and (_run is null or r.id = _run)
             order by r.id + 0
             limit _want + 32
               for update skip locked
        ), ahead as materialized (
            select c.id,
                   (select p.id
                      from agent.run p
                     where p.queue_id = _id and p.ordering_key = c.ordering_key and p.id <> c.id
                       and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
                       and (p.id < c.id or p.state <> 'pending')
                     order by p.id + 0 desc
                     limit 1) as by
              from candidate c
        ), held as materialized (
            select p.id
              from agent.run p
             where p.id in (select a.by from ahead a where a.by is not null)
               for share skip locked
        ), marked as (
            -- All locks first: a row that this very statement has marked could not be locked any more.
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
    update agent_internal.queue l
       set used = case when l.cap is null then 0 else _used + cardinality(taken) end,
           queued = claim_from_queue.more,
           served = case when cardinality(taken) > 0 then nextval('agent_internal.queue_turn') else l.served end
     where l.id = _id;
end;
$$;

-- Note that a worker has released runs of some queues: there may be room for others.
create function agent_internal.return_slots(_queues bigint[], _counts integer[])
    returns void
    language plpgsql
as $$
begin
    perform from agent_internal.queue where id = any (_queues) order by id for no key update;
    update agent_internal.queue l
       set used = greatest(0, l.used - d.n), queued = true
      from unnest(_queues, _counts) as d (id, n)
     where l.id = d.id;
end;
$$;

-- Claim up to *_slots* runs, queue after queue, each with a lease.
--
-- `more` says on every row whether the queues still had runs to give.  `question` is set for runs of
-- kind question: {"id", "session", "text", "options"}.
--
-- Args: _queue, _run: only from this queue, only this run of it; waits for its lock.
-- _done_queues, _done_counts: how many runs of which queue this worker has released since its last
-- claim, so that no transaction that ends a run needs to touch the queue, which all share.
-- _limited, _limits: of which queues how many runs at most; 0 where the provider of their model takes no
-- calls now.  Their runs stay in the queue, instead of being claimed only to be parked.
-- Raises 42501 where check_claim() does.
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
        merged jsonb, steps jsonb, more boolean
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
                   lease_expires_at = agent_internal.now() + _lease, started_at = coalesce(r.started_at, agent_internal.now())
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
               _more
          from claimed c
         order by c.id;
end;
$$;
comment on function agent_internal.claim_runs(text, integer, interval, text[], bigint, bigint[], integer[], bigint[], integer[], bigint)
    is 'Give a worker runs to execute, each with a lease';

-- Hold a run still for the rest of the transaction, if the caller may hold it and does.
--
-- `lease_expires_at is not null` says the same as `state = 'running'` (a constraint sees to it).
-- Said the other way, the planner would read the index of all running runs to find this one.
--
-- Raises 42501 when the run is not the caller's to hold, WA001 when another worker has it, WA002 when it
-- is to be cancelled.
create function agent_internal.fence(_run bigint, _lease bigint)
    returns void
    language plpgsql
as $$
declare
    _held record;
begin
    select r.cancel_requested, r.lease_expires_at < agent_internal.now() as overslept,
           agent_internal.may_hold(r.kind, r.principal) as allowed
      into _held
      from agent.run r
     where r.id = _run
       and r.lease = _lease and r.lease_expires_at is not null  -- planted: no-fence-of-runs/fence
       for no key update;
    if not coalesce(_held.allowed, false) then
        perform agent_internal.check_holder(_run);
        raise exception 'run % is no longer held with lease %', _run, _lease using errcode = 'WA001';
    elsif _held.cancel_requested then
        raise exception 'run % is to be cancelled', _run using errcode = 'WA002';
    elsif _held.overslept then
        -- Its worker was suspended, and is awake: the heartbeat passes over what is locked here.
        update agent.run set lease_expires_at = agent_internal.now() + interval '10 seconds' where id = _run;
    end if;
end;
$$;

-- Start a write-back transaction: hold the run, and leave a message in the WAL that names run,
-- attachment and depth.  It is signed with a key that only the owner and the runner can read and
-- bound to this very transaction, so a message that somebody else emits, or copies, proves nothing.
create function agent_internal.begin_write(_run bigint, _lease bigint)
    returns void
    language plpgsql
as $$
declare
    _what text;
begin
    perform agent_internal.fence(_run, _lease);
    select format('%s %s %s', id, attachment_id, depth) into _what from agent.run where id = _run;
    perform pg_logical_emit_message(true, 'walagent',
                                    _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
end;
$$;

-- The transaction is named as BEGIN shows it in the WAL: by 32 bits.
create function agent_internal.sign_write(_what text, _xid xid8)
    returns text
    language sql
    stable
as $$
    select encode(sha256(s.key || sha256(s.key || convert_to(
               _what || ' ' || (_xid::text::numeric % 4294967296)::bigint, 'utf8'))), 'hex')
      from agent_internal.secret s
$$;

-- Insert a step of a run that the caller holds still.  Every step is inserted here.
--
-- The step before it must be there: a standby that was promoted may have the claim of a run and lack
-- its latest steps, which its worker believes recorded.
--
-- Args: _seq: its number; NULL: the next.  _usage: input, cached, cache write and output tokens.
-- Raises WA004 when the step is there already, WA001 when steps before it are lost.
create function agent_internal.insert_step(
    _run bigint, _seq integer, _kind text, _content jsonb, _usage integer[] default null, _cost numeric default null,
    _duration_ms integer default null
)
    returns void
    language plpgsql
as $$
begin
    if _seq is null then
        _seq := (select coalesce(max(seq), -1) + 1 from agent.step where run_id = _run);
    end if;
    insert into agent.step (run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                            output_tokens, cost, duration_ms)
    select _run, _seq, _kind, _content, _usage[1], _usage[2], _usage[3], _usage[4], _cost, _duration_ms
     where _seq = 0 or exists (select from agent.step where run_id = _run and seq = _seq - 1)
    on conflict do nothing;
    if found then
        return;
    elsif exists (select from agent.step where run_id = _run and seq = _seq) then
        raise exception 'step % of run % is recorded already', _seq, _run using errcode = 'WA004';
    end if;
    raise exception 'steps of run % before number % are lost, with a server that was', _run, _seq using errcode = 'WA001';
end;
$$;

-- Record what a step produced.  In the transaction of the step's own effects, so that the two
-- commit together or not at all.
--
-- Args: _call: the number under which the step's call was reserved, which is settled with it; NULL: no
-- budget counts it.  See 0007_budgets.sql.
-- Raises as agent_internal.fence and agent_internal.insert_step do.  After WA004 the step's effects are
-- done, and the caller's must roll back.
create function agent_internal.record_step(
    _run bigint, _lease bigint, _seq integer, _kind text, _content jsonb,
    _usage integer[] default null, _cost numeric default null, _duration_ms integer default null,
    _call integer default null
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    perform agent_internal.insert_step(_run, _seq, _kind, _content, _usage, _cost, _duration_ms);
    if _call is not null then
        perform agent_internal.settle(_run, _lease, _call, _usage, _cost);
    end if;
end;
$$;
comment on function agent_internal.record_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer, integer)
    is 'Record a step of a run that the caller holds';

-- Forget what a tool has left in the session: role, settings, locks, temporary tables.  Connections are
-- shared, and the next tool on this one is somebody else's.  In the tool's transaction, so that it
-- holds whether that commits or not.
--
-- Args: _durable: what synchronous_commit is to be, as the connection was opened; default: what the
-- role or database has it be, but never less than on.
create function agent_internal.clean_session(_durable text default null)
    returns void
    language plpgsql
as $$
begin
    reset role;
    reset all;
    if _durable is not null or current_setting('synchronous_commit') in ('off', 'local') then
        perform set_config('synchronous_commit', coalesce(_durable, 'on'), false);
    end if;
    perform agent_internal.set_styles();
    perform pg_advisory_unlock_all();
    if pg_my_temp_schema() <> 0 then
        discard temp;
    end if;
end;
$$;

-- Let times be written as our programs read them, whatever the role's or database's default.  How
-- dates are read (DMY, MDY) stays.
create function agent_internal.set_styles()
    returns void
    language plpgsql
as $$
begin
    perform set_config('datestyle', 'ISO', false), set_config('intervalstyle', 'postgres', false);
end;
$$;
comment on function agent_internal.set_styles() is 'Let times be written in this session as walagent reads them';

-- Let the time that a long write-back took not count against its lease: the heartbeat cannot extend
-- that of a run that is locked, and whoever ticks first after the commit would take the run away.
create function agent_internal.extend_lease(_run bigint, _lease bigint, _by interval)
    returns void
    language sql
as $$
    update agent.run set lease_expires_at = lease_expires_at + _by
     where id = _run and lease = _lease and lease_expires_at is not null
$$;
comment on function agent_internal.extend_lease(bigint, bigint, interval) is 'Let a lease stand still for as long as its holder held the run locked';

-- Become the role of an attachment for the rest of the transaction, and see to it that the
-- application wins where the two of us want the same rows.
--
-- Our wait for a lock ends long before the deadlock check of whoever waits for us: were both in a
-- circle, that check would end the application's transaction.  It also bounds how long the application
-- waits for a lock that we hold while we wait for another.  Where we close the circle, it is our own
-- check that ends it; it comes at once where the runner may set deadlock_timeout (grant set on
-- parameter deadlock_timeout), else the short wait makes up for most of it.
--
-- Raises WA008: nothing may be done then, least of all as whoever we are.
create function agent_internal.assume_role(_run_as name, _path text default '')
    returns void
    language plpgsql
as $$
declare
    _check constant numeric := extract(epoch from current_setting('deadlock_timeout')::interval) * 1000;
    _asked constant numeric := extract(epoch from current_setting('lock_timeout')::interval) * 1000;
    _state   text;
    _message text;
begin
    perform set_config('lock_timeout', least(nullif(_asked, 0), greatest(round(_check / 10), 10), 5000)::text, true);
    if has_parameter_privilege('deadlock_timeout', 'set') then
        perform set_config('deadlock_timeout', '10ms', true);
    end if;
    begin
        perform set_config('role', _run_as, true);
    exception when others then
        get stacked diagnostics _state = returned_sqlstate, _message = message_text;
        raise exception 'cannot become role "%": % (SQLSTATE %)', _run_as, _message, _state
            using errcode = 'WA008', detail = _state,
                  hint = format('grant %I to %I; then: walagent resume', _run_as, session_user);
    end;
    perform set_config('search_path', concat_ws(', ', nullif(_path, ''), 'pg_temp'), true);
end;
$$;
comment on function agent_internal.assume_role(name, text) is 'Become the role of an attachment for the rest of the transaction';

-- Whether a row may be shown to an agent, asked as its role before a run begins: the WAL knows no
-- privileges, and they may have changed since the agent was attached.
--
-- Args: _sql: asks whether the row can be seen, as a boolean, for agent_internal.bind_relation(); NULL where the
-- change names no row.
-- Returns whether it may, and whether row level security had a say in that; of a table that is gone,
-- that it may not.
-- Raises WA008 when the role is gone, cannot be taken on, or may not read what is shown, and what
-- agent_internal.bind_relation() raises.
create function agent_internal.row_visibility(
    _run_as name, _relation oid, _columns text[], _sql text, _key jsonb, out seen boolean, out row_security boolean
)
    language plpgsql
as $$
declare
    _state   text;
    _message text;
    _hint    text;
begin
    select c.relrowsecurity into row_security from pg_class c where c.oid = _relation;
    begin
        perform agent_internal.check_visibility(_relation::regclass, _columns, _run_as);
    exception when insufficient_privilege or undefined_object then
        get stacked diagnostics _state = returned_sqlstate, _message = message_text, _hint = pg_exception_hint;
        raise exception '% (SQLSTATE %)', _message, _state
            using errcode = 'WA008', detail = _state, hint = coalesce(nullif(_hint, ''), 'then: walagent resume');
    end;
    if row_security then
        _sql := coalesce(agent_internal.bind_relation(_sql, _relation, _key), 'select false');
    end if;
    perform agent_internal.assume_role(_run_as);
    seen := row_security is not null;
    if row_security then
        execute _sql into seen using _key;
    end if;
end;
$$;
comment on function agent_internal.row_visibility(name, oid, text[], text, jsonb) is 'Whether an agent''s role may be shown a row';

-- Carry out a SQL tool and record its answer: fence, tag, role, statement and step in one
-- transaction, which is this one statement.
--
-- The statement runs as *_run_as* inside a savepoint.  What it raises becomes the answer that the
-- model reads, except for conditions that pass (lost locks, serialization, shutdown): those are
-- raised, so that the whole step is tried again later.  A statement that leaves another role
-- behind has tried to be somebody else, and is taken back.  The detail of a violated constraint
-- quotes the row, with columns that the agent is not shown: it stays here.
--
-- Args: _must_find: a statement that gives nothing has failed (P0002).
--       _relation: the table that the statement is about; it is made for it by agent_internal.bind_relation().
-- Raises WA009 where the tool fails because its attachment has lost its ground.
create function agent_internal.call_tool(
    _run bigint, _lease bigint, _seq integer, _call_id text, _name text, _run_as name, _sql text, _arguments jsonb,
    _path text default '', _must_find boolean default false, _relation oid default null
)
    returns jsonb
    language plpgsql
as $$
declare
    _started constant timestamptz := clock_timestamp();
    _durable constant text := current_setting('synchronous_commit');
    _is_tool boolean := _relation is not null;  -- whether what is raised is the tool's
    _lost    text;
    _result  jsonb;
    _role    text;
    _content jsonb;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    perform agent_internal.begin_write(_run, _lease);
    begin
        if _relation is not null then
            _sql := agent_internal.bind_relation(_sql, _relation, _arguments -> 'key', _arguments -> 'set');
            _is_tool := false;
        end if;
        perform agent_internal.assume_role(_run_as, _path);
        _is_tool := true;
        execute _sql into _result using _arguments;
        if _must_find and _result is null then
            raise exception 'the row is gone, or role "%" cannot see it: nothing was updated', _run_as
                using errcode = 'P0002';
        end if;
        set constraints all immediate;  -- what is wrong is the tool's answer, not the commit's
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        _role := current_setting('role');
        reset role;
        if _role <> _run_as then
            raise exception 'the tool left role "%" behind instead of "%"', _role, _run_as using errcode = '42501';
        end if;
        -- A function that returns nothing gives an empty text in some languages, which says nothing.
        _content := jsonb_build_object('is_error', false, 'content', left(coalesce(nullif(
            case jsonb_typeof(_result) when 'string' then _result #>> '{}' else _result::text end, ''), 'done'), 65536));
    exception when others or assert_failure then
        get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                                _detail = pg_exception_detail, _hint = pg_exception_hint;
        if _state ~ '^(08|40|53|57P|55P03)' or not _is_tool then
            raise;
        end if;
        _lost := agent_internal.drift_of_run(_run, _state);
        if _lost is not null then
            raise exception '%', _lost using errcode = 'WA009';
        end if;
        _content := jsonb_build_object('is_error', true, 'sqlstate', _state, 'content', left(
            format('%s (SQLSTATE %s)', _message, _state)
            || coalesce('; detail: ' || case when _state !~ '^(23|44)' then nullif(_detail, '') end, '')
            || coalesce('; hint: ' || nullif(_hint, ''), ''), 4096));
    end;
    perform agent_internal.clean_session(_durable);
    if clock_timestamp() - _started > interval '1 second' then
        perform agent_internal.extend_lease(_run, _lease, clock_timestamp() - _started);
    end if;
    _content := _content || jsonb_build_object('call_id', _call_id, 'name', _name);
    if not agent_internal.is_utf8(_content ->> 'content') then  -- nobody could read the step any more
        _content := _content || jsonb_build_object('content', encode(convert_to(_content ->> 'content', 'SQL_ASCII'), 'escape'));
    end if;
    perform agent_internal.insert_step(_run, _seq, 'result', _content,  -- planted: two-transactions-sql/function
                                       _duration_ms => extract(milliseconds from clock_timestamp() - _started)::integer);
    return _content;
end;
$$;

-- End a run, and let the next run of its ordering key go.  Two statements on purpose: the second must see what
-- a claim marked while we waited for its lock.
--
-- Args: _reserved: budgets may still hold reservations of it, which are released.
-- Returns whether one was waiting.  Raises as agent_internal.fence does.
create function agent_internal.finish_run(
    _run bigint, _lease bigint, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric,
    _reserved boolean default false
)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _unblocked boolean;
begin
    update agent.run
       set state = _state, result = _result,
           error = case when cancel_requested and _state = 'cancelled' then error else _error end, tokens = _tokens, cost = _cost,
           lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false
     where id = _run
       and lease = _lease and lease_expires_at is not null  -- planted: no-fence-of-runs/finish
       and (not cancel_requested or _state in ('cancelled', 'succeeded'))
       and agent_internal.may_hold(kind, principal);
    if not found then
        perform agent_internal.fence(_run, _lease);  -- raises, and says why
    end if;
    _unblocked := agent_internal.unblock(_run);
    if _reserved then
        perform agent_internal.release(_run);
    end if;
    return _unblocked;
end;
$$;
comment on function agent_internal.finish_run(bigint, bigint, agent.run_state, text, jsonb, bigint, numeric, boolean)
    is 'End a run that the caller holds';

create function agent_internal.unblock(_run bigint)
    returns boolean
    language plpgsql
as $$
begin
    update agent.run set blocked_by = null where blocked_by = _run;
    return found;
end;
$$;

-- Record the last reply and end the run, in one round trip.  Ending it first is the fence.
--
-- Args: _call: as of agent_internal.record_step.
create function agent_internal.finish_with_step(
    _run bigint, _lease bigint, _seq integer, _kind text, _content jsonb, _usage integer[], _step_cost numeric,
    _duration_ms integer, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric,
    _call integer default null
)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _unblocked boolean;
begin
    _unblocked := agent_internal.finish_run(_run, _lease, _state, _result, _error, _tokens, _cost);
    perform agent_internal.insert_step(_run, _seq, _kind, _content, _usage, _step_cost, _duration_ms);
    if _call is not null then
        perform agent_internal.settle(_run, _lease, _call, _usage, _step_cost);
        perform agent_internal.release(_run);
    end if;
    return _unblocked;
end;
$$;
comment on function agent_internal.finish_with_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer,
    agent.run_state, text, jsonb, bigint, numeric, integer) is 'Record the last step of a run and end it';

-- The end of a run, with its last step if `seq` is not NULL: what agent_internal.finish_run and
-- agent_internal.finish_with_step take.
create type agent_internal.run_end as (
    run         bigint,
    lease       bigint,
    state       agent.run_state,
    result      text,
    error       jsonb,
    tokens      bigint,
    cost        numeric,
    reserved    boolean,
    seq         integer,
    kind        text,
    content     jsonb,
    usage       integer[],
    step_cost   numeric,
    duration_ms integer,
    call        integer
);

-- End many runs at once, each with its last step: many runs are one statement and one commit.
--
-- One that cannot be ended is left as it is, and does not keep the others from it.
--
-- Args: _ends: an array of agent_internal.run_end, each run once.
-- Returns a row for each: whether a run was waiting for it, and the SQLSTATE with which
-- agent_internal.finish_with_step would have failed; NULL: it has ended.
create function agent_internal.finish_runs(_ends jsonb)
    returns table (run_id bigint, unblocked boolean, failed text)
    language plpgsql
    set plan_cache_mode = force_generic_plan  -- planning for each length of the arrays costs more than executing
as $$
#variable_conflict use_column
declare
    _given agent_internal.run_end[] := array(select e from jsonb_populate_recordset(null::agent_internal.run_end, _ends) e);
    _held  bigint[];
    _ended bigint[];
    _freed bigint[];
begin
    _held := array(
        select r.id
          from agent.run r join unnest(_given) e on r.id = e.run and r.lease = e.lease
         where r.lease_expires_at is not null
           and (not r.cancel_requested or e.state in ('cancelled', 'succeeded'))
         order by r.id
           for no key update of r);
    with recorded as (
        insert into agent.step (run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                                output_tokens, cost, duration_ms)
        select e.run, e.seq, e.kind, e.content, e.usage[1], e.usage[2], e.usage[3], e.usage[4], e.step_cost, e.duration_ms
          from unnest(_given) e
         where e.run = any (_held)
           and (e.seq = 0 or exists (select from agent.step s where s.run_id = e.run and s.seq = e.seq - 1))
        on conflict do nothing
        returning run_id
    ), ended as (
        update agent.run r
           set state = e.state, result = e.result,
               error = case when r.cancel_requested and e.state = 'cancelled' then r.error else e.error end,
               tokens = coalesce(e.tokens, 0), cost = e.cost,
               lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false
          from unnest(_given) e
         where r.id = e.run and r.id = any (_held)
           and (e.seq is null or r.id in (select run_id from recorded))
        returning r.id
    )
    select array(select id from ended) into _ended;
    -- A statement of its own, for the reason that agent_internal.finish_run has.
    with waiting as (
        select id, blocked_by from agent.run where blocked_by = any (_ended) order by id for no key update
    ), freed as (
        update agent.run r set blocked_by = null from waiting w where r.id = w.id returning w.blocked_by
    )
    select array(select blocked_by from freed) into _freed;
    perform agent_internal.settle_runs(_given, _ended);
    return query
        select e.run, e.run = any (_freed),
               case when e.run = any (_ended) then null
                    when e.run = any (_held)
                         and exists (select from agent.step s where s.run_id = e.run and s.seq = e.seq) then 'WA004'
                    when exists (select from agent.run r where r.id = e.run and r.lease = e.lease and r.cancel_requested) then 'WA002'
                    else 'WA001' end
          from unnest(_given) e;
end;
$$;
comment on function agent_internal.finish_runs(jsonb) is 'End many runs at once, each with its last step';

-- Let a run go without ending it: until a time, until a person has decided, or at once.
--
-- Args: _refund: give the attempt back, because waiting was no failure of the run.
create function agent_internal.park_run(
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
comment on function agent_internal.park_run(bigint, bigint, agent.run_state, interval, boolean, jsonb, bigint, numeric, boolean)
    is 'Release a run that the caller holds without ending it';

-- Ask a person about one tool call, and let the run wait.
create function agent_internal.ask_approval(
    _run bigint, _lease bigint, _seq integer, _call_id text, _tool text, _arguments jsonb, _run_as name,
    _ttl interval, _tokens bigint, _cost numeric
)
    returns bigint
    language plpgsql
as $$
declare
    _digest constant text := agent_internal.call_digest(_run, _call_id, _tool, _arguments);
    _id     bigint;
begin
    insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at)
    values (_run, _call_id, _tool, _arguments, _digest, _run_as, agent_internal.now() + _ttl)
    returning id into _id;
    perform agent_internal.record_step(_run, _lease, _seq, 'approval', jsonb_build_object(
        'approval', _id, 'call_id', _call_id, 'tool', _tool, 'digest', _digest));
    perform agent_internal.park_run(_run, _lease, 'waiting_approval', null, true, null, _tokens, _cost);
    perform pg_notify('walagent_approvals', _id::text);
    return _id;
end;
$$;

-- jsonb prints equal values alike, so the digest does not depend on how the model wrote them.
create function agent_internal.call_digest(_run bigint, _call_id text, _tool text, _arguments jsonb)
    returns text
    language sql
    immutable
as $$
    select encode(sha256(convert_to(jsonb_build_array(_run, _call_id, _tool, _arguments)::text, 'utf8')), 'hex')
$$;

-- Extend the leases of runs in one statement.
--
-- Returns the runs that their worker must let go of: held by another worker by now, or to be cancelled.
-- A run that is locked is in the middle of its own write-back; nobody can take it before that ends.
--
-- Raises 42501 when one of the runs is not the caller's to hold.
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

-- Give back what a worker still holds when it leaves, as if it had not been begun.
create function agent_internal.release_runs(_worker text)
    returns void
    language plpgsql
as $$
declare
    _queues bigint[];
begin
    with held as (
        select id from agent.run
         where lease_expires_at is not null and worker = _worker
         order by id for no key update
    ), freed as (
        update agent.run r
           set state = case when r.cancel_requested then 'cancelled' else 'pending' end::agent.run_state,
               lease_expires_at = null,
               attempt = greatest(0, r.attempt - 1),
               cancel_requested = false,
               finished_at = case when r.cancel_requested then agent_internal.now() end
          from held where r.id = held.id
        returning r.id, r.queue_id, r.state
    ), opened as (
        update agent.run b set blocked_by = null
          from freed f where b.blocked_by = f.id and agent_internal.is_final(f.state)
    )
    select array_agg(distinct queue_id) into _queues from freed;
    if _queues is not null then
        perform agent_internal.wake_queues(_queues);
        perform agent_internal.release_lost();
    end if;
end;
$$;

-- Say that queues may have runs to claim, and wake the workers.  Late in a transaction: it locks the
-- queues, by id, and every claim and every intake needs them.
create function agent_internal.wake_queues(_queues bigint[])
    returns void
    language plpgsql
as $$
begin
    update agent_internal.queue set queued = true
     where id in (select id from agent_internal.queue where id = any (_queues) order by id for no key update);
    perform pg_notify('walagent_runs', '');
end;
$$;

-- What time does: leases run out, retries come due, collecting ends, approvals expire, hints drift.
-- One caller at a time; the others have nothing to add.
--
-- Returns the seconds until something is due again, or NULL.
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
comment on function agent_internal.tick() is 'Do what time has made due: expired leases, retries, debounce, approvals';

-- Take runs back whose lease has expired: to be claimed again, unless they are to be cancelled or their
-- attempts are used up.
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
                   'reason', format('the worker was lost %s times while it worked on this run', r.attempt)) else r.error end
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
comment on function agent_internal.expire_leases(text, bigint) is 'Take runs back whose lease has expired';

-- Let runs be claimed whose time to be retried has come, or whose debounce window has ended.
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
comment on function agent_internal.wake_due() is 'Let runs be claimed whose time has come';

-- End approvals whose time is up.  One that somebody is just deciding, or whose run is being cancelled,
-- waits for the next time.
create function agent_internal.expire_approvals()
    returns void
    language plpgsql
as $$
begin
    with due as (
        select p.id
          from agent.approval p join agent.run r on r.id = p.run_id
         where p.state = 'pending' and p.expires_at <= agent_internal.now()
         order by p.id for no key update of p, r skip locked
    )
    update agent.approval p set state = 'expired', decided_at = agent_internal.now() from due where p.id = due.id;
end;
$$;
comment on function agent_internal.expire_approvals() is 'End approvals whose time is up';

-- Repair hints that a crash left wrong: blocks by runs that have ended, counts, and queues that nobody
-- looks at although they have runs.
--
-- Queues with runs to claim are found by their runs, with one look into the index run_ready for each.
--
-- Args: _queues: that have got runs.
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
    -- In one order, and no queue that was not locked then: others wait for queues while they hold some.
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
comment on function agent_internal.repair_hints(bigint[]) is 'Repair what a crash left wrong in queues and blocks';

create function agent_internal.decision_of(_state text)
    returns boolean
    language sql
    immutable
as $$ select _state in ('approved', 'rejected', 'expired') $$;

-- The daemon's own pause: a credential that nobody accepts, a table that is gone.  It waits for no
-- person's transaction: an attachment that somebody is changing is left alone.
--
-- Returns true when this call paused it, false when it was paused before, else NULL.
create function agent_internal.pause_broken(_attachment_id bigint, _reason text)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent.attachment where id = _attachment_id and not paused for no key update skip locked;
    if found then
        update agent.attachment set paused = true, paused_reason = _reason where id = _attachment_id;
        return true;
    end if;
    return (select false from agent.attachment where id = _attachment_id and paused);
end;
$$;
comment on function agent_internal.pause_broken(bigint, text) is 'Pause an attachment none of whose runs can succeed';

-- A person's decision: check who it is, with that person's rights.
--
-- The role that runs the agent may not decide, nor whoever logged in as it and took another role.
-- Questions end unanswered only when their time is up (agent_internal.tick) or their run is cancelled
-- (agent.cancel, with the owner's rights).
create function agent_internal.check_decision()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if old.state <> 'pending' then
        raise exception 'approval % is % already', old.id, old.state using errcode = 'WA005';
    end if;
    if to_jsonb(new) - '{state,decided_by,decided_at,reason}'::text[]
       <> to_jsonb(old) - '{state,decided_by,decided_at,reason}'::text[] then
        raise exception 'only the decision of approval % may be written', old.id using errcode = 'WA005';
    end if;
    if new.state in ('approved', 'rejected') then
        if old.expires_at <= agent_internal.now() then
            raise exception 'approval % has expired', old.id using errcode = 'WA005';
        end if;
        if exists (select from pg_roles where rolname = old.run_as and rolname in (current_user, session_user) and not rolsuper) then
            raise exception 'role "%" runs this agent and may not decide its calls', old.run_as
                using errcode = 'WA006', hint = 'let another role that holds agent.grant_approver decide';
        end if;
        new.decided_by := agent.current_principal();
        new.decided_at := agent_internal.now();
    elsif new.state = 'expired' and old.expires_at > agent_internal.now()
          or new.state = 'cancelled' and not pg_has_role((select relowner from pg_class where oid = tg_relid), 'member') then
        raise exception 'approval % is still to be decided', old.id
            using errcode = 'WA005', hint = 'agent.approve or agent.reject it, or agent.cancel its run';
    end if;
    return new;
end;
$$;
create trigger check_decision
    before update on agent.approval
    for each row execute function agent_internal.check_decision();

-- Tell the run of the decision: one step, one transition.
create function agent_internal.continue_decided()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
    select * into _run from agent.run where id = new.run_id for no key update;
    if _run.state <> 'waiting_approval' then
        return null;  -- cancelled meanwhile
    end if;
    perform agent_internal.insert_step(new.run_id, null, 'decision', jsonb_build_object(
        'call_id', new.call_id, 'decision', new.state, 'by', new.decided_by, 'reason', new.reason, 'digest', new.digest));
    update agent.run set state = 'pending' where id = new.run_id;
    return null;
end;
$$;
create trigger continue_decided
    after update of state on agent.approval
    for each row when (agent_internal.decision_of(new.state))
    execute function agent_internal.continue_decided();

create function agent_internal.decide(_id bigint, _state text, _reason text)
    returns void
    language plpgsql
as $$
begin
    update agent.approval set state = _state, reason = _reason where id = _id;
    if not found then
        raise exception 'there is no approval %', _id using errcode = 'WA005';
    end if;
end;
$$;
create function agent.approve(id bigint)
    returns void
    language sql
as $$ select agent_internal.decide(id, 'approved', null) $$;
comment on function agent.approve(bigint) is 'Let a waiting tool call happen';
create function agent.reject(id bigint, reason text default null)
    returns void
    language sql
as $$ select agent_internal.decide(id, 'rejected', reason) $$;
comment on function agent.reject(bigint, text) is 'Refuse a waiting tool call; the model is told the reason';

-- A person's transaction may stay open for long.  Every claim and every intake needs the queue, so what
-- a person does to a run touches it only as it commits.
create function agent_internal.notify_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent_internal.queue set queued = true where id = new.queue_id and not queued;
    perform pg_notify('walagent_runs', '');
    return null;
end;
$$;
create constraint trigger notify_queue
    after update of state on agent.run
    deferrable initially deferred
    for each row when (new.state = 'pending' and old.state in ('waiting_approval', 'needs_review', 'failed', 'dead', 'cancelled')
                       or new.state = 'cancelled' and old.state <> 'running')
    execute function agent_internal.notify_queue();

-- Cancel a run: at once when nobody works on it, else as soon as its worker hears of it.
--
-- Its question is locked before it, as whoever decides takes them: the other way round the two of
-- them would wait for one another.
create function agent.cancel(run_id bigint, reason text default null)
    returns agent.run_state
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
    perform from agent.approval a where a.run_id = cancel.run_id and a.state = 'pending' order by a.id for no key update;
    select * into _run from agent.run where id = cancel.run_id for no key update;
    if not found then
        raise exception 'there is no run %', cancel.run_id using errcode = 'WA003';
    elsif agent_internal.is_final(_run.state) then
        raise exception 'run % is % already', _run.id, _run.state using errcode = 'WA003';
    elsif _run.state = 'running' then
        update agent.run set cancel_requested = true, error = jsonb_build_object('reason', coalesce(cancel.reason, 'cancelled'))
         where id = _run.id;
        perform pg_notify('walagent_cancel', _run.id::text);
        return 'running';
    end if;
    update agent.approval set state = 'cancelled', decided_at = agent_internal.now()
     where approval.run_id = _run.id and state = 'pending';
    update agent.run
       set state = 'cancelled', finished_at = agent_internal.now(), next_attempt_at = null, not_before = null, blocked_by = null,
           error = jsonb_build_object('reason', coalesce(cancel.reason, 'cancelled'))
     where id = _run.id;
    perform agent_internal.unblock(_run.id);
    return 'cancelled';
end;
$$;
comment on function agent.cancel(bigint, text) is 'Cancel a run';

-- Let an ended run go on.  Its steps stay; limits and attempts count anew from here.  For the lock
-- see agent_internal.ingest(): until this commits, no run starts as it is inserted.
create function agent.retry(run_id bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
    select * into _run from agent.run where id = retry.run_id for no key update;
    if not found then
        raise exception 'there is no run %', retry.run_id using errcode = 'WA003';
    elsif _run.state not in ('failed', 'dead', 'cancelled') then
        raise exception 'run % is %; only failed, dead and cancelled runs can be retried', _run.id, _run.state
            using errcode = 'WA003';
    end if;
    perform pg_advisory_xact_lock_shared(hashtext('walagent.start'));
    perform agent_internal.insert_step(_run.id, null, 'note', jsonb_build_object(
        'retry', true, 'by', agent.current_principal()));
    update agent.run set state = 'pending', attempt = 0, finished_at = null, error = null, result = null where id = _run.id;
end;
$$;
comment on function agent.retry(bigint) is 'Let a failed, dead or cancelled run go on';

-- Say what became of an unsafe tool whose outcome is unknown: it happened (with what result), or not.
create function agent.resolve(run_id bigint, happened boolean, note text default '')
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run    agent.run;
    _intent jsonb;
begin
    select * into _run from agent.run where id = resolve.run_id for no key update;
    if not found or _run.state <> 'needs_review' then
        raise exception 'run % does not wait for a review', resolve.run_id using errcode = 'WA003';
    end if;
    select content into _intent from agent.step
     where step.run_id = _run.id and kind = 'intent' order by seq desc limit 1;
    perform agent_internal.insert_step(_run.id, null, 'result', jsonb_build_object(
        'call_id', _intent ->> 'call_id', 'name', _intent ->> 'name', 'is_error', not happened,
        'content', case when happened then coalesce(nullif(note, ''), 'done')
                        else 'this did not happen' || coalesce(': ' || nullif(note, ''), '') end,
        'reviewed_by', agent.current_principal()));
    update agent.run set state = 'pending', error = null where id = _run.id;
end;
$$;
comment on function agent.resolve(bigint, boolean, text) is 'Say what became of an unsafe tool call whose outcome is unknown';

-- Insert runs of changes, one each.  A change that is here already leaves no trace.
--
-- Args: _runs: an array of agent.new_run.
create function agent_internal.insert_runs(_generation integer, _runs jsonb)
    returns bigint
    language plpgsql
as $$
declare
    _count bigint;
begin
    insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal, committed_at,
                           change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at)
    select n.attachment_id, n.attachment_id, n.attachment_version, _generation, n.commit_lsn, n.ordinal, n.committed_at,
           n.change, n.key, n.ordering_key, n.max_attempts, n.cause_run, coalesce(n.depth, 0),
           coalesce(n.state, 'pending'), n.error,
           case when agent_internal.is_final(n.state) then agent_internal.now() end
      from jsonb_populate_recordset(null::agent.new_run, _runs) n
     order by n.commit_lsn, n.ordinal
    on conflict on constraint run_once_per_change do nothing;  -- planted: no-unique-key/insert
    get diagnostics _count = row_count;
    return _count;
end;
$$;

-- Insert runs for rows that a backfill found; a row that has one already gets no second.
--
-- Args: _runs: an array of agent.new_run without a position; `key` names the row.
create function agent_internal.insert_backfill_runs(_generation integer, _runs jsonb)
    returns void
    language plpgsql
as $$
begin
    -- As agent.retry: no run of the same ordering key may start as it is inserted meanwhile.
    perform pg_advisory_xact_lock_shared(hashtext('walagent.start'));
    insert into agent.run (reason, queue_id, attachment_id, attachment_version, generation, change, key, ordering_key,
                           backfill_key, max_attempts, state, error, finished_at)
    select 'backfill', n.attachment_id, n.attachment_id, n.attachment_version, _generation, n.change, n.key, n.ordering_key,
           n.key, n.max_attempts, coalesce(n.state, 'pending'), n.error,
           case when agent_internal.is_final(n.state) then agent_internal.now() end
      from jsonb_populate_recordset(null::agent.new_run, _runs) n
    on conflict do nothing;
end;
$$;
comment on function agent_internal.insert_backfill_runs(integer, jsonb) is 'Insert runs for rows that a backfill found';

-- Move the checkpoint on, in the transaction that took the changes in, and wake the workers.  The
-- queues come last: a claim that holds one of them must not wait for the inserts before this.
--
-- Raises WA007 when a newer reader took over: then nothing may be confirmed.
create function agent_internal.advance_checkpoint(
    _slot text, _epoch bigint, _commit_lsn pg_lsn, _end_lsn pg_lsn, _queues bigint[], _committed_at timestamptz default null
)
    returns void
    language plpgsql
as $$
begin
    update agent.checkpoint
       set commit_lsn = _commit_lsn, end_lsn = _end_lsn, updated_at = agent_internal.now(),
           committed_at = greatest(committed_at, _committed_at)
     where slot = _slot
       and epoch = _epoch  -- planted: no-fence-of-the-checkpoint
       and end_lsn <= _end_lsn;
    if not found then
        raise exception 'another reader took over slot "%"', _slot using errcode = 'WA007';
    end if;
    if _queues <> '{}' then
        perform agent_internal.wake_queues(_queues);
    end if;
end;
$$;

-- The plain case of intake, in one round trip, and one commit less where it can be: a run that a
-- worker in the reader's own process has a slot for is inserted as already claimed by it.  Only
-- where nobody is passed over: the queue has no backlog, no cap and no pause, and the run's
-- ordering key no unfinished run.  The caller marks (`start`) at most one run of an ordering key.
--
-- Nobody may put an older run before it between that look and our commit, or a claim could start it
-- beside ours: agent.retry and backfills share the lock `walagent.start`, and while any does, nothing
-- is started here.
--
-- Args: _runs: an array of agent.new_run.
-- Returns the runs that were started: [[id, lease, attachment, commit LSN, ordinal], ...].
create function agent_internal.ingest(
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
    if _worker is null or not pg_try_advisory_xact_lock(hashtext('walagent.start')) then
        perform agent_internal.insert_runs(_generation, _runs);
    else
        with given as (
            select n.*, coalesce(n.start, false) and coalesce(n.state, 'pending') = 'pending'
                   and exists (
                       select from agent_internal.queue l
                        where l.id = n.attachment_id and not l.queued and not l.paused and l.cap is null)
                   and not exists (
                       select from agent.run p
                        where p.queue_id = n.attachment_id and p.ordering_key = n.ordering_key
                          and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review'))
                   as go
              from jsonb_populate_recordset(null::agent.new_run, _runs) n
        ), taken as (
            insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal, committed_at,
                                   change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at,
                                   worker, lease, attempt, lease_expires_at, started_at)
            select g.attachment_id, g.attachment_id, g.attachment_version, _generation, g.commit_lsn, g.ordinal, g.committed_at,
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


-- Take over the checkpoint of a slot that is not given up; older readers can write nothing from here on.
create function agent_internal.take_checkpoint(_slot text, _reader text)
    returns agent.checkpoint
    language sql
as $$
    update agent.checkpoint set epoch = epoch + 1, reader = _reader, updated_at = agent_internal.now()
     where slot = _slot and abandoned_at is null
    returning *
$$;
