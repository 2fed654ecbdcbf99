-- Tools that write: the origin marker, the role, the visibility of the row, and the call.

-- The key that signs origin markers.  One row, created here, which only the owner and the runner can read: see
-- agent_internal.begin_write().
create table agent_internal.secret (
    one boolean primary key default true check (one),
    key bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
);
comment on table agent_internal.secret is 'The key that signs origin markers, so that a forged one is ignored';
insert into agent_internal.secret default values;

-- The transaction ID is signed as BEGIN shows it in the WAL: its lower 32 bits.
create function agent_internal.sign_write(_what text, _xid xid8)
    returns text
    language plpgsql  -- keeps its plan; a function in SQL is planned for each call
    stable
as $$
declare
    _key    constant bytea := (select key from agent_internal.secret);
    _signed constant bytea := convert_to(_what || ' ' || (_xid::text::numeric % 4294967296)::bigint, 'utf8');
begin
    return encode(sha256(_key || sha256(_key || _signed)), 'hex');
end;
$$;

-- Start a write-back transaction: lock the run, and emit an origin marker, a logical message with run, attachment
-- and depth.  It is signed with a key that only the owner and the runner can read, and bound to the transaction
-- ID: a marker that is forged or copied is ignored.
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

-- Set the output styles that walagent's programs read, whatever the defaults of the role or database are.  The
-- input order of dates (DMY, MDY) is kept.
create function agent_internal.set_styles()
    returns void
    language plpgsql
as $$
begin
    perform set_config('datestyle', 'ISO', false), set_config('intervalstyle', 'postgres', false);
end;
$$;
comment on function agent_internal.set_styles() is 'Set the output styles of dates and intervals that walagent reads';

-- Reset what a tool has left in the session: role, settings, locks, temporary tables.  Connections are shared,
-- and the next tool on this one can belong to another attachment.  Called in the tool's transaction, so that the
-- reset holds whether it commits or not.
--
-- Args: _durable: synchronous_commit as of the start of the call; default: that of the role or database, but at
-- least on.
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

-- Assume the role of an attachment for the rest of the transaction, with lock timeouts that make the application
-- win a lock conflict.
--
-- A tool's lock wait ends long before the deadlock check of a transaction that waits for the tool: in a deadlock,
-- that check would cancel the application's transaction.  The short wait also bounds how long the application
-- waits for a lock that a waiting tool holds.  If the tool closes the cycle, its own check cancels it: at once if
-- the runner may set deadlock_timeout (grant set on parameter deadlock_timeout), otherwise the short wait
-- resolves most cases.
--
-- Raises WA008; the caller must then execute nothing, as it still has its own role.
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
        raise exception 'could not set role "%": % (SQLSTATE %)', _run_as, _message, _state
            using errcode = 'WA008', detail = _state,
                  hint = format('Run grant %I to %I, then walagent resume.', _run_as, session_user);
    end;
    perform set_config('search_path', concat_ws(', ', nullif(_path, ''), 'pg_temp'), true);
end;
$$;
comment on function agent_internal.assume_role(name, text) is 'Assume the role of an attachment for the rest of the transaction';

-- Whether a row may be shown to an agent, checked with its role before a run begins: the WAL has no privileges,
-- and they might have changed since the agent was attached.
--
-- Args: _sql: a template for agent_internal.bind_relation() that returns whether the row is visible; NULL if the
-- change has no row.
-- Returns whether it is visible, and whether row level security was applied.  A row of a dropped table is not
-- visible.
-- Raises WA008 if the role does not exist, cannot be assumed or cannot read what is shown, and what
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
            using errcode = 'WA008', detail = _state, hint = coalesce(nullif(_hint, ''), 'Grant the privilege, then run walagent resume.');
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
comment on function agent_internal.row_visibility(name, oid, text[], text, jsonb) is 'Whether a row may be shown to the role of an agent';

-- Add the time of a long write-back to its lease: the heartbeat skips runs that are locked, and the first tick
-- after the commit would expire the lease.
create function agent_internal.extend_lease(_run bigint, _lease bigint, _by interval)
    returns void
    language sql
as $$
    update agent.run set lease_expires_at = lease_expires_at + _by
     where id = _run and lease = _lease and lease_expires_at is not null
$$;
comment on function agent_internal.extend_lease(bigint, bigint, interval) is 'Extend a lease by the time for which its holder had locked the run';

-- Execute a SQL tool and record its result: fence, origin marker, role, statement and step in one transaction,
-- which is this statement.
--
-- The tool's statement runs as *_run_as* in a savepoint.  An error it raises becomes the result that the model
-- receives, except for transient ones (locks, serialization, shutdown): those are raised again, and the whole
-- step is retried.  A statement that leaves another role set is rolled back.  The detail of a violated constraint
-- quotes the row, with columns that the agent is not shown, and is left out.
--
-- Args: _must_find: a statement that returns NULL has failed (P0002).
--       _relation: the table of the statement, which is then a template for agent_internal.bind_relation().
-- Raises WA009 if the tool fails because its attachment is broken.
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
    _is_tool boolean := _relation is not null;  -- whether an error is the tool's
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
            raise exception 'row does not exist or is not visible to role "%"; nothing was updated', _run_as
                using errcode = 'P0002';
        end if;
        set constraints all immediate;  -- a violation is an error of the tool, not of the commit
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        _role := current_setting('role');
        reset role;
        if _role <> _run_as then
            raise exception 'the tool left role "%" set instead of "%"', _role, _run_as using errcode = '42501';
        end if;
        -- In some languages a function without a result returns an empty text, which tells a model nothing.
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
    if not agent_internal.is_utf8(_content ->> 'content') then  -- programs could not read the step
        _content := _content || jsonb_build_object('content', encode(convert_to(_content ->> 'content', 'SQL_ASCII'), 'escape'));
    end if;
    perform agent_internal.insert_step(_run, _seq, 'result', _content,  -- planted: two-transactions-sql/function
                                       _duration_ms => extract(milliseconds from clock_timestamp() - _started)::integer);
    return _content;
end;
$$;
