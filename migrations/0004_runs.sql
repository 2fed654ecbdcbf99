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
-- Lock order: queue rows (by attachment), then questions, then run rows; run rows of others only with skip
-- locked.

-- The number of a lease after *_lease*.  Each timeline of the server has numbers of its own: a standby
-- that is promoted may lack the latest claims and would give their numbers, even their runs' ids, out
-- again, while a worker still holds them.
create function agent_internal.next_lease(_lease bigint)
    returns bigint
    language sql
as $$
    select greatest(_lease, (('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::bigint - 1) << 32) + 1
$$;

-- Claim up to *_slots* runs for a worker, queue after queue, the one served longest ago first.
--
-- A run whose ordering key has an earlier unfinished run is not taken but marked with it (`blocked_by`),
-- so that it is looked at again only when that one has ended.  The mark is made while holding the
-- earlier run with FOR SHARE: whoever ends it waits for us, and then sees the mark.  If the earlier
-- run is locked by somebody else, nothing is marked and the run is looked at again next time.
--
-- `more` says on every row whether the queues still had runs to give.
--
-- Args: _done_queues, _done_counts: how many runs of which attachment this worker has let go of
-- since its last claim, so that no finishing transaction needs to touch the shared queue row.
-- _tight, _rooms: of which attachments how many runs at most; 0 where the provider of their model
-- takes no calls now.  Their runs stay in the queue, instead of being claimed only to be parked.
create function agent_internal.claim_runs(
    _worker      text,
    _slots       integer,
    _lease       interval,
    _done_queues  bigint[] default '{}',
    _done_counts integer[] default '{}',
    _tight       bigint[] default '{}',
    _rooms       integer[] default '{}'
)
    returns table (
        run_id bigint, attachment_id bigint, attachment_version integer, lease bigint, attempt integer,
        max_attempts integer, reason text, change jsonb, key text, depth integer, commit_lsn text,
        committed_at timestamptz, created_at timestamptz, started_at timestamptz, merged jsonb, steps jsonb,
        more boolean
    )
    language plpgsql
as $$
#variable_conflict use_column
declare
    _queues bigint[];
    _queue  record;
    _shut  constant bigint[] := array(select t.id from unnest(_tight, _rooms) as t (id, room) where t.room <= 0);
    _left  integer := _slots;
    _want  integer;
    _taken bigint[] := '{}';
    _here  bigint[];
    _now   bigint[];
    _used  integer;
    _seen  integer;
    _marks integer;
    _n     integer;
begin
    if _done_queues <> '{}' then
        perform from agent_internal.queue where attachment_id = any (_done_queues) order by attachment_id for no key update;
        update agent_internal.queue l
           set used = greatest(0, l.used - d.n), queued = true
          from unnest(_done_queues, _done_counts) as d (id, n)
         where l.attachment_id = d.id;
    end if;

    select array_agg(q.attachment_id) into _queues
      from (select l.attachment_id
              from agent_internal.queue l
             where l.queued and not l.paused and (l.cap is null or l.used < l.cap)
               and l.attachment_id <> all (_shut)
             order by l.served
             limit greatest(_slots, 1)
               for update skip locked) q;

    _n := coalesce(cardinality(_queues), 0);
    for _queue in
        select l.attachment_id as id, l.cap, l.used
          from agent_internal.queue l where l.attachment_id = any (_queues) order by l.served
    loop
        exit when _left <= 0;
        -- The count is a hint; a cap is a promise, and few runs are running.
        _used := case when _queue.cap is null then _queue.used
                      else (select count(*) from agent.run r where r.attachment_id = _queue.id and r.state = 'running') end;
        _want := greatest(0, least(ceil(_left::numeric / _n)::integer, _queue.cap - _used,
                                   _rooms[array_position(_tight, _queue.id)]));
        _here := '{}';
        _n := _n - 1;

        -- Again while all that was seen had to be marked: behind a thousand changes of one row there
        -- may be one of another.
        for _round in 1 .. 25 loop
        with candidate as materialized (
            select r.id, r.ordering_key
              from agent.run r
             where r.attachment_id = _queue.id and r.state = 'pending'
               and r.blocked_by is null and r.not_before is null and r.id <> all (_here)
             order by r.id + 0
             limit _want + 32
               for update skip locked
        ), ahead as materialized (
            select c.id,
                   (select p.id
                      from agent.run p
                     where p.attachment_id = _queue.id and p.ordering_key = c.ordering_key and p.id <> c.id
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
        select array(select a.id from ahead a where a.by is null order by a.id limit _want - cardinality(_here)),
               (select count(*) from ahead), (select count(*) from marked)
          into _now, _seen, _marks;
        _here := _here || _now;
        exit when _marks = 0 or _seen < _want + 32 or cardinality(_here) = _want;
        end loop;

        update agent_internal.queue l
           set used = _used + cardinality(_here),
               queued = _seen > cardinality(_now),
               served = case when cardinality(_here) > 0 then nextval('agent_internal.queue_turn') else l.served end
         where l.attachment_id = _queue.id;
        _taken := _taken || _here;
        _left := _left - cardinality(_here);
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
        select c.id, c.attachment_id, c.attachment_version, c.lease, c.attempt, c.max_attempts, c.reason, c.change,
               c.key, c.depth, c.commit_lsn::text, c.committed_at, c.created_at, c.started_at,
               (select jsonb_agg(m.change order by m.commit_lsn, m.ordinal) from agent_internal.merged_change m where m.run_id = c.id),
               (select jsonb_agg(jsonb_build_object(
                           'seq', s.seq, 'kind', s.kind, 'content', s.content, 'cost', s.cost,
                           'tokens', coalesce(s.input_tokens, 0) + coalesce(s.cached_tokens, 0)
                                     + coalesce(s.cache_write_tokens, 0) + coalesce(s.output_tokens, 0))
                        order by s.seq)
                  from agent.step s where s.run_id = c.id),
               exists (select from agent_internal.queue l where l.attachment_id = any (_queues) and l.queued)
          from claimed c
         order by c.id;
end;
$$;
comment on function agent_internal.claim_runs(text, integer, interval, bigint[], integer[], bigint[], integer[]) is 'Give a worker runs to work, with a lease';

-- Hold a run still for the rest of the transaction, if it is ours.
--
-- `lease_expires_at is not null` says the same as `state = 'running'` (a constraint sees to it).
-- Said the other way, the planner would read the index of all running runs to find this one.
--
-- Raises WA001 when another worker has it, WA002 when it is to be cancelled.
create function agent_internal.fence(_run_id bigint, _lease bigint)
    returns void
    language plpgsql
as $$
declare
    _run record;
begin
    select r.cancel_requested, r.lease_expires_at < agent_internal.now() as overslept into _run
      from agent.run r
     where r.id = _run_id and r.lease = _lease and r.lease_expires_at is not null
       for no key update;
    if not found then
        raise exception 'run % is no longer held with lease %', _run_id, _lease using errcode = 'WA001';
    elsif _run.cancel_requested then
        raise exception 'run % is to be cancelled', _run_id using errcode = 'WA002';
    elsif _run.overslept then
        -- Its worker was suspended, and is awake: the heartbeat passes over what is locked here.
        update agent.run set lease_expires_at = agent_internal.now() + interval '10 seconds' where id = _run_id;
    end if;
end;
$$;

-- Start a write-back transaction: hold the run, and leave a message in the WAL that names run,
-- attachment and depth.  It is signed with a key that only the owner and the runner can read and
-- bound to this very transaction, so a message that somebody else emits, or copies, proves nothing.
create function agent_internal.begin_write(_run_id bigint, _lease bigint)
    returns void
    language plpgsql
as $$
declare
    _what text;
begin
    perform agent_internal.fence(_run_id, _lease);
    select format('%s %s %s', id, attachment_id, depth) into _what from agent.run where id = _run_id;
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

-- Whether the step before *_seq* is here.  A standby that was promoted may have the claim of a run and
-- lack its latest steps, which its worker believes recorded.
create function agent_internal.has_previous_step(_run_id bigint, _seq integer)
    returns boolean
    language sql
    stable
as $$
    select _seq = 0 or exists (select from agent.step where run_id = _run_id and seq = _seq - 1)
$$;

-- Say why a step was not recorded.
create function agent_internal.raise_step_conflict(_run_id bigint, _seq integer)
    returns void
    language plpgsql
as $$
begin
    if exists (select from agent.step where run_id = _run_id and seq = _seq) then
        raise exception 'step % of run % is recorded already', _seq, _run_id using errcode = 'WA004';
    end if;
    raise exception 'steps of run % before number % are lost, with a server that was', _run_id, _seq using errcode = 'WA001';
end;
$$;

-- Record what a step produced.  In the transaction of the step's own effects, so that the two
-- commit together or not at all.
--
-- Args: _reserved, here and below: budgets may hold a reservation for what is now done, see
-- 0007_budgets.sql.
-- Raises WA001, WA002 as agent_internal.fence does; WA001 too when steps before it are lost; WA004 when the step
-- is there already: its effects are done, and the caller's must roll back.
create function agent_internal.record_step(
    _run_id bigint, _lease bigint, _seq integer, _kind text, _content jsonb,
    _usage integer[] default null, _cost numeric default null, _duration_ms integer default null,
    _reserved boolean default false
)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.fence(_run_id, _lease);
    insert into agent.step (run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                            output_tokens, cost, duration_ms)
    select _run_id, _seq, _kind, _content, _usage[1], _usage[2], _usage[3], _usage[4], _cost, _duration_ms
     where agent_internal.has_previous_step(_run_id, _seq)
    on conflict do nothing;
    if not found then
        perform agent_internal.raise_step_conflict(_run_id, _seq);
    end if;
    if _reserved then
        perform agent_internal.settle(_run_id, _usage, _cost);
    end if;
end;
$$;

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
create function agent_internal.extend_lease(_run_id bigint, _lease bigint, _by interval)
    returns void
    language sql
as $$
    update agent.run set lease_expires_at = lease_expires_at + _by
     where id = _run_id and lease = _lease and lease_expires_at is not null
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
    _run_id bigint, _lease bigint, _seq integer, _call_id text, _name text, _run_as name, _sql text, _arguments jsonb,
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
    perform agent_internal.begin_write(_run_id, _lease);
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
        _lost := agent_internal.drift_of_run(_run_id, _state);
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
        perform agent_internal.extend_lease(_run_id, _lease, clock_timestamp() - _started);
    end if;
    _content := _content || jsonb_build_object('call_id', _call_id, 'name', _name);
    if not agent_internal.is_utf8(_content ->> 'content') then  -- nobody could read the step any more
        _content := _content || jsonb_build_object('content', encode(convert_to(_content ->> 'content', 'SQL_ASCII'), 'escape'));
    end if;
    insert into agent.step (run_id, seq, kind, content, duration_ms)
    select _run_id, _seq, 'result', _content, extract(milliseconds from clock_timestamp() - _started)::integer
     where agent_internal.has_previous_step(_run_id, _seq)
    on conflict do nothing;
    if not found then
        perform agent_internal.raise_step_conflict(_run_id, _seq);
    end if;
    return _content;
end;
$$;

-- End a run, and let the next run of its ordering key go.  Two statements on purpose: the second must see what
-- a claim marked while we waited for its lock.
--
-- Returns whether one was waiting.  Raises WA001 when another worker holds the run.
create function agent_internal.finish_run(
    _run_id bigint, _lease bigint, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric,
    _reserved boolean default false
)
    returns boolean
    language plpgsql
as $$
declare
    _unblocked boolean;
begin
    update agent.run
       set state = _state, result = _result,
           error = case when cancel_requested and _state = 'cancelled' then error else _error end, tokens = _tokens, cost = _cost,
           lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false
     where id = _run_id and lease = _lease and lease_expires_at is not null
       and (not cancel_requested or _state in ('cancelled', 'succeeded'));
    if not found then
        perform agent_internal.fence(_run_id, _lease);  -- raises, and says why
    end if;
    update agent.run set blocked_by = null where blocked_by = _run_id;
    _unblocked := found;
    if _reserved then
        perform agent_internal.release(_run_id);
    end if;
    return _unblocked;
end;
$$;

create function agent_internal.unblock(_run_id bigint)
    returns boolean
    language plpgsql
as $$
begin
    update agent.run set blocked_by = null where blocked_by = _run_id;
    return found;
end;
$$;

-- Record the last reply and end the run, in one round trip.  Ending it first is the fence.
create function agent_internal.finish_with_step(
    _run_id bigint, _lease bigint, _seq integer, _kind text, _content jsonb, _usage integer[], _step_cost numeric,
    _duration_ms integer, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric,
    _reserved boolean default false
)
    returns boolean
    language plpgsql
as $$
declare
    _unblocked boolean;
begin
    _unblocked := agent_internal.finish_run(_run_id, _lease, _state, _result, _error, _tokens, _cost);
    insert into agent.step (run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                            output_tokens, cost, duration_ms)
    select _run_id, _seq, _kind, _content, _usage[1], _usage[2], _usage[3], _usage[4], _step_cost, _duration_ms
     where agent_internal.has_previous_step(_run_id, _seq)
    on conflict do nothing;
    if not found then
        perform agent_internal.raise_step_conflict(_run_id, _seq);
    end if;
    if _reserved then
        perform agent_internal.settle(_run_id, _usage, _step_cost);
    end if;
    return _unblocked;
end;
$$;

-- Let a run go without ending it: until a time, until a person has decided, or at once.
--
-- Args: _refund: give the attempt back, because waiting was no failure of the run.
create function agent_internal.park_run(
    _run_id bigint, _lease bigint, _state agent.run_state, _delay interval, _refund boolean, _error jsonb,
    _tokens bigint, _cost numeric, _reserved boolean default false
)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.fence(_run_id, _lease);
    update agent.run
       set state = _state, lease_expires_at = null, error = _error, tokens = _tokens, cost = _cost,
           next_attempt_at = case when _state = 'waiting_retry' then agent_internal.now() + _delay end,
           attempt = greatest(0, attempt - _refund::integer)
     where id = _run_id;
    if _reserved then
        perform agent_internal.release(_run_id);
    end if;
end;
$$;

-- Ask a person about one tool call, and let the run wait.
create function agent_internal.ask_approval(
    _run_id bigint, _lease bigint, _seq integer, _call_id text, _tool text, _arguments jsonb, _run_as name,
    _ttl interval, _tokens bigint, _cost numeric
)
    returns bigint
    language plpgsql
as $$
declare
    _id bigint;
begin
    insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at)
    values (_run_id, _call_id, _tool, _arguments, agent_internal.call_digest(_run_id, _call_id, _tool, _arguments), _run_as,
            agent_internal.now() + _ttl)
    returning id into _id;
    perform agent_internal.record_step(_run_id, _lease, _seq, 'approval', jsonb_build_object(
        'approval', _id, 'call_id', _call_id, 'tool', _tool,
        'digest', agent_internal.call_digest(_run_id, _call_id, _tool, _arguments)));
    perform agent_internal.park_run(_run_id, _lease, 'waiting_approval', null, true, null, _tokens, _cost);
    perform pg_notify('walagent_approvals', _id::text);
    return _id;
end;
$$;

-- jsonb prints equal values alike, so the digest does not depend on how the model wrote them.
create function agent_internal.call_digest(_run_id bigint, _call_id text, _tool text, _arguments jsonb)
    returns text
    language sql
    immutable
as $$
    select encode(sha256(convert_to(jsonb_build_array(_run_id, _call_id, _tool, _arguments)::text, 'utf8')), 'hex')
$$;

-- Extend all leases of a worker in one statement.
--
-- Returns the runs that it must let go of: held by another worker by now, or to be cancelled.  A
-- run that is locked is in the middle of its own write-back; nobody can take it before that ends.
create function agent_internal.heartbeat(_worker text, _run_ids bigint[], _leases bigint[], _lease interval)
    returns table (run_id bigint, cancelled boolean)
    language plpgsql
as $$
begin
    update agent.worker set seen_at = agent_internal.now() where name = _worker;
    with held as materialized (
        select r.id
          from unnest(_run_ids, _leases) as mine (id, lease)
               join agent.run r on r.id = mine.id and r.lease = mine.lease
         where r.lease_expires_at is not null
         order by r.id
           for no key update of r skip locked
    )
    update agent.run r set lease_expires_at = agent_internal.now() + _lease from held where r.id = held.id;
    return query
        select mine.id, coalesce(r.cancel_requested, false)
          from unnest(_run_ids, _leases) as mine (id, lease)
               left join agent.run r on r.id = mine.id
         where r.id is null or r.lease <> mine.lease or r.state <> 'running' or r.cancel_requested;
end;
$$;

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
        returning r.id, r.attachment_id, r.state
    ), opened as (
        update agent.run b set blocked_by = null
          from freed f where b.blocked_by = f.id and agent_internal.is_final(f.state)
    )
    select array_agg(distinct attachment_id) into _queues from freed;
    if _queues is not null then
        update agent_internal.queue set queued = true
         where attachment_id in (select attachment_id from agent_internal.queue where attachment_id = any (_queues)
                                  order by attachment_id for no key update);
        perform pg_notify('walagent_runs', '');
        perform agent_internal.release_lost();
    end if;
end;
$$;

-- Whether an attachment has a run that could be claimed.
create function agent_internal.has_claimable_run(_attachment_id bigint)
    returns boolean
    language sql
    stable
as $$
    select exists (select from agent.run r
                    where r.attachment_id = _attachment_id and r.state = 'pending'
                      and r.blocked_by is null and r.not_before is null)
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
    _queues bigint[] := '{}';
    _more  bigint[];
    _next  timestamptz;
begin
    if not pg_try_advisory_xact_lock(hashtext('walagent.tick')) then
        return null;
    end if;

    with lost as (
        select id from agent.run
         where state = 'running' and lease_expires_at < agent_internal.now()
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
        returning r.id, r.attachment_id, r.state
    ), opened as (
        update agent.run b set blocked_by = null
         from freed f where b.blocked_by = f.id and agent_internal.is_final(f.state)
    )
    select array_agg(distinct attachment_id) into _more from freed;
    _queues := _queues || coalesce(_more, '{}');

    with due as (
        select id from agent.run
         where state = 'waiting_retry' and next_attempt_at <= agent_internal.now()
         order by id for no key update skip locked
    ), woken as (
        update agent.run r set state = 'pending', next_attempt_at = null from due where r.id = due.id
        returning r.attachment_id
    )
    select array_agg(distinct attachment_id) into _more from woken;
    _queues := _queues || coalesce(_more, '{}');

    with due as (
        select id from agent.run
         where not_before <= agent_internal.now() and state = 'pending'
         order by id for no key update skip locked
    ), woken as (
        update agent.run r set not_before = null from due where r.id = due.id
        returning r.attachment_id
    )
    select array_agg(distinct attachment_id) into _more from woken;
    _queues := _queues || coalesce(_more, '{}');

    -- A question that somebody is just deciding, or whose run is being cancelled, waits for the next time.
    with due as (
        select p.id
          from agent.approval p join agent.run r on r.id = p.run_id
         where p.state = 'pending' and p.expires_at <= agent_internal.now()
         order by p.id for no key update of p, r skip locked
    )
    update agent.approval p set state = 'expired', decided_at = agent_internal.now() from due where p.id = due.id;

    -- Hints that a crash left wrong.
    update agent.run r set blocked_by = null
     where r.blocked_by is not null
       and not exists (select from agent.run p where p.id = r.blocked_by and not agent_internal.is_final(p.state));
    -- In one order, and no queue that was not locked then: others wait for queues while they hold some.
    _queues := array(
        select h.attachment_id
          from (select l.attachment_id
                  from agent_internal.queue l
                 where l.used <> (select count(*) from agent.run r where r.attachment_id = l.attachment_id and r.state = 'running')
                    or not l.queued and (l.attachment_id = any (_queues) or agent_internal.has_claimable_run(l.attachment_id))
                 order by l.attachment_id for no key update) h);
    update agent_internal.queue l
       set used = (select count(*) from agent.run r where r.attachment_id = l.attachment_id and r.state = 'running'),
           queued = true
     where l.attachment_id = any (_queues);
    if found then
        perform pg_notify('walagent_runs', '');
    end if;
    perform agent_internal.release_lost();

    select least((select min(next_attempt_at) from agent.run where state = 'waiting_retry'),
                 (select min(not_before) from agent.run where not_before is not null),
                 (select min(expires_at) from agent.approval where state = 'pending'))
      into _next;
    return extract(epoch from _next - agent_internal.now());
end;
$$;
comment on function agent_internal.tick() is 'Do what time has made due: expired leases, retries, debounce, approvals';

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
        new.decided_by := current_user;
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
    insert into agent.step (run_id, seq, kind, content)
    select new.run_id, coalesce(max(seq), -1) + 1, 'decision', jsonb_build_object(
               'call_id', new.call_id, 'decision', new.state, 'by', new.decided_by, 'reason', new.reason,
               'digest', new.digest)
      from agent.step where run_id = new.run_id;
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
    update agent_internal.queue set queued = true where attachment_id = new.attachment_id and not queued;
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
    insert into agent.step (run_id, seq, kind, content)
    select _run.id, coalesce(max(seq), -1) + 1, 'note', jsonb_build_object('retry', true, 'by', session_user)
      from agent.step where step.run_id = _run.id;
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
    insert into agent.step (run_id, seq, kind, content)
    select _run.id, max(seq) + 1, 'result', jsonb_build_object(
               'call_id', _intent ->> 'call_id', 'name', _intent ->> 'name', 'is_error', not happened,
               'content', case when happened then coalesce(nullif(note, ''), 'done')
                               else 'this did not happen' || coalesce(': ' || nullif(note, ''), '') end,
               'reviewed_by', session_user)
      from agent.step where step.run_id = _run.id;
    update agent.run set state = 'pending', error = null where id = _run.id;
end;
$$;
comment on function agent.resolve(bigint, boolean, text) is 'Say what became of an unsafe tool call whose outcome is unknown';

-- Take changes in: one run each.  A change that is here already leaves no trace.
--
-- Args: _runs: an array of objects; short names, because there are many: a attachment, v version,
-- l commit LSN, o ordinal, t committed at, c change, k key, n ordering key, m max attempts, u causing run,
-- d depth, s state, e error.
create function agent_internal.insert_runs(_generation integer, _runs jsonb)
    returns bigint
    language sql
as $$
    with taken as (
        insert into agent.run (attachment_id, attachment_version, generation, commit_lsn, ordinal, committed_at,
                               change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at)
        select x.a, x.v, _generation, x.l, x.o, x.t, x.c, x.k, x.n, x.m, x.u, x.d, x.s, x.e,
               case when agent_internal.is_final(x.s) then agent_internal.now() end
          from jsonb_to_recordset(_runs) as x (
                   a bigint, v integer, l pg_lsn, o integer, t timestamptz, c jsonb, k text, n text,
                   m integer, u bigint, d integer, s agent.run_state, e jsonb)
         order by x.l, x.o
        on conflict on constraint run_once_per_change do nothing
        returning 1
    )
    select count(*) from taken
$$;

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
     where slot = _slot and epoch = _epoch and end_lsn <= _end_lsn;
    if not found then
        raise exception 'another reader took over slot "%"', _slot using errcode = 'WA007';
    end if;
    if _queues <> '{}' then
        update agent_internal.queue set queued = true
         where attachment_id in (select attachment_id from agent_internal.queue where attachment_id = any (_queues)
                                  order by attachment_id for no key update);
        perform pg_notify('walagent_runs', '');
    end if;
end;
$$;

-- The plain case of intake, in one round trip, and one commit less where it can be: a run that a
-- worker in the reader's own process has a slot for is inserted as already claimed by it.  Only
-- where nobody is passed over: the attachment has no backlog, no cap and no pause, and the run's
-- ordering key no unfinished run.  The caller marks (x) at most one run of an ordering key.
--
-- Nobody may put an older run before it between that look and our commit, or a claim could start it
-- beside ours: agent.retry and backfills share the lock `walagent.start`, and while any does, nothing
-- is started here.
--
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
            select x.*, coalesce(x.x, false) and x.s = 'pending'
                   and exists (
                       select from agent_internal.queue l
                        where l.attachment_id = x.a and not l.queued and not l.paused and l.cap is null)
                   and not exists (
                       select from agent.run p
                        where p.attachment_id = x.a and p.ordering_key = x.n
                          and p.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review'))
                   as go
              from jsonb_to_recordset(_runs) as x (
                       a bigint, v integer, l pg_lsn, o integer, t timestamptz, c jsonb, k text, n text,
                       m integer, u bigint, d integer, s agent.run_state, e jsonb, x boolean)
        ), taken as (
            insert into agent.run (attachment_id, attachment_version, generation, commit_lsn, ordinal, committed_at,
                                   change, key, ordering_key, max_attempts, cause_run, depth, state, error, finished_at,
                                   worker, lease, attempt, lease_expires_at, started_at)
            select g.a, g.v, _generation, g.l, g.o, g.t, g.c, g.k, g.n, g.m, g.u, g.d,
                   case when g.go then 'running' else g.s end, g.e,
                   case when agent_internal.is_final(g.s) then agent_internal.now() end,
                   case when g.go then _worker end, case when g.go then agent_internal.next_lease(0) else 0 end, g.go::integer,
                   case when g.go then agent_internal.now() + _lease end, case when g.go then agent_internal.now() end
              from given g
             order by g.l, g.o
            on conflict on constraint run_once_per_change do nothing
            returning id, lease, attachment_id, commit_lsn, ordinal, state
        )
        select jsonb_agg(jsonb_build_array(t.id, t.lease, t.attachment_id, t.commit_lsn, t.ordinal)) filter (where t.state = 'running'),
               coalesce(array_agg(distinct t.attachment_id) filter (where t.state = 'pending'), '{}')
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
