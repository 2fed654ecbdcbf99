-- Execute a SQL tool and record its result: fence, origin marker, statement and step in one transaction, which is this
-- statement.
--
-- The statement is executed by the trampoline of `run_as`, in a savepoint.  An error it raises becomes the result that the
-- model receives, except for transient ones (locks, serialization, shutdown): those are raised again, and the whole
-- step is retried.  The detail of a violated constraint quotes the row, with columns that the agent is not shown, and is
-- left out.
--
-- Args: _request: signed: run, lease, seq, call, name, run_as, sql, arguments, path;
--         given: the arguments of the call, as agent_internal.check_call() takes them;
--         must_find: a statement that returns NULL has failed (P0002);
--         relation: the OID of its table: the statement is then a template for agent_internal.bind_relation(), and returns
--         JSON's null if the row has changed, or {"row": a digest of it}.
-- Returns the content of the step; or, if nothing was executed because a person has to approve the call or policies have
-- changed it, {"verdict": the result of agent_internal.check_call()}.
-- Raises WA009 if the tool fails because its attachment is broken, WA016 as agent_internal.trampoline_of() does, and 42501
-- as agent_internal.signed() does.
create or replace function agent_signed.call_tool(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call     constant jsonb := agent_internal.signed(_request, _signature);
    _started  constant timestamptz := clock_timestamp();
    _durable  constant text := current_setting('synchronous_commit');
    _run      constant bigint := _call -> 'run';
    _lease    constant bigint := _call -> 'lease';
    _relation constant bigint := nullif(_call -> 'relation', 'null');
    _sql     text := _call ->> 'sql';
    _is_tool boolean := _relation is not null;  -- whether an error is the tool's
    _checked jsonb;
    _through text;
    _lost    text;
    _value   text;
    _result  jsonb;
    _row     jsonb;
    _content jsonb;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    perform agent_internal.begin_write(_run, _lease, _relation is not null);
    _through := agent_internal.trampoline_of((_call ->> 'run_as')::name);
    perform agent_internal.limit_lock_waits();
    _checked := agent_internal.check_call(_run, _call ->> 'call', _call ->> 'name', _call -> 'given');
    if _checked ->> 'action' = 'deny' then
        _content := agent_internal.refused_call(_call ->> 'call', _call ->> 'name', _checked ->> 'reason');
        perform agent_internal.insert_step(_run, (_call -> 'seq')::integer, 'result', _content);
        return _content;
    elsif _checked ->> 'action' <> 'allow' then
        return jsonb_build_object('verdict', _checked);
    end if;
    begin
        if _relation is not null then
            perform agent_internal.record_before(_run, _through, _relation::oid, _call #> '{arguments,key}');
            _sql := agent_internal.bind_relation(_sql, _relation::oid, _call #> '{arguments,key}', _call #> '{arguments,set}',
                                                 _call -> 'arguments');
        end if;
        _is_tool := true;
        _value := agent_internal.go_through(_through, _sql, _call -> 'arguments', null,
                                            concat_ws(', ', nullif(_call ->> 'path', ''), 'pg_temp'), false, true);
        _result := _value::jsonb;
        if (_call -> 'must_find')::boolean and _result is null then
            raise exception 'row does not exist or is not visible to role "%"; nothing was updated', _call ->> 'run_as'
                using errcode = 'P0002';
        end if;
        if _relation is not null and _result = 'null' then
            perform agent_internal.forget_before(_run);
            _result := to_jsonb('not updated: the row has changed since'::text);
        elsif _relation is not null then
            perform agent_internal.record_after(_run, _through, _relation::oid, _call #> '{arguments,key}');
            if jsonb_typeof(_result) = 'object' then
                _row := _result -> 'row';
                _result := to_jsonb('updated'::text);
            end if;
        end if;
        -- In some languages a function without a result returns an empty text, which tells a model nothing.
        _content := jsonb_build_object('is_error', false, 'content', left(coalesce(nullif(
            case jsonb_typeof(_result) when 'string' then _result #>> '{}' else _result::text end, ''), 'done'), 65536));
        _content := agent_internal.checked_result(_checked, _content);
        if _row is not null then
            _content := _content || jsonb_build_object('row', _row);
        end if;
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
        if _state = 'WA022' then
            _content := _content || jsonb_build_object('denied', _message);
        else
            _content := agent_internal.checked_error(_checked, _content);
        end if;
    end;
    if clock_timestamp() - _started > interval '1 second' then
        perform agent_internal.extend_lease(_run, _lease, clock_timestamp() - _started);
    end if;
    _content := _content || jsonb_build_object('call_id', _call -> 'call', 'name', _call -> 'name');
    if (_checked -> 'changed')::boolean then
        _content := _content || jsonb_build_object('arguments', _call -> 'given');
    end if;
    if not agent_internal.is_utf8(_content ->> 'content') then  -- programs could not read the step
        _content := _content || jsonb_build_object('content', encode(convert_to(_content ->> 'content', 'SQL_ASCII'), 'escape'));
    end if;
    perform agent_internal.insert_step(_run, (_call -> 'seq')::integer, 'result', _content,  -- planted: two-transactions-sql/function
                                       _duration_ms => extract(milliseconds from clock_timestamp() - _started)::integer);
    perform agent_internal.seal(_durable);
    return _content;
end;
$$;
comment on function agent_signed.call_tool(text, bytea) is 'Execute a SQL tool as the role of its attachment, and record its result';

-- Execute a statement that reads as a role, in a transaction that is read-only from here on: once, because nothing can make
-- it writable again.
--
-- Args: _request: signed: run_as, sql, arguments (its $1), path;
--         rows: whether the result is rows, see agent_internal.trampoline_body(), instead of one value;
--         settings: of the transaction;
--         relation, key: the statement is a template for agent_internal.bind_relation();
--         run: a turn, as whose agent it reads;
--         declare: open a cursor for the statement instead; fetch: return so many of its rows.  Roll the transaction back
--         afterwards: code of others can have opened cursors WITH HOLD.
-- _texts: its $2.  Not signed: values of rows, in any bytes, and never code.
-- Raises what the statement raises, 25006 if the transaction is read-only, WA016 as agent_internal.trampoline_of() and 42501
-- as agent_internal.signed() does.
create or replace function agent_signed.read_as(_request text, _signature bytea, _texts text[] default null)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call     constant jsonb := agent_internal.signed(_request, _signature);
    _through  constant text := agent_internal.trampoline_of((_call ->> 'run_as')::name);
    _relation constant bigint := nullif(_call -> 'relation', 'null');
    _fetch    constant integer := _call -> 'fetch';
    _declare  constant boolean := coalesce((_call -> 'declare')::boolean, false);
    _sql      text := _call ->> 'sql';
    _result   text;
begin
    if _fetch is not null then
        _sql := format('fetch %s from walagent', _fetch);
    elsif current_setting('transaction_read_only')::boolean and not pg_is_in_recovery() then
        raise exception 'cannot read in a transaction that is read-only: a signed request is valid once' using errcode = '25006';
    end if;
    perform agent_internal.number_audit();
    perform set_config('transaction_read_only', 'on', true);
    perform set_config(s.key, s.value, true) from jsonb_each_text(nullif(_call -> 'settings', 'null')) s;
    if _relation is not null then
        _sql := agent_internal.bind_relation(_sql, _relation::oid, _call -> 'key');
    end if;
    if _declare then
        _sql := 'declare walagent no scroll cursor for ' || _sql;
    end if;
    _result := agent_internal.go_through(_through, _sql, _call -> 'arguments', _texts, coalesce(_call ->> 'path', ''),
                                         coalesce((_call -> 'rows')::boolean, false), false);
    if _fetch is null and not _declare then
        execute 'close all';
    end if;
    return _result;
end;
$$;
comment on function agent_signed.read_as(text, bytea, text[]) is 'Execute a statement that reads, as a role';

-- Fence the run, emit the origin marker, and limit waits.
--
-- Args: _request: signed: run, lease, seq, call, name, given, run_as; rest: milliseconds for which the transaction may be idle.
-- Returns the result of agent_internal.check_call(), with key: the idempotency key; content: the result of a refused call, which
-- is recorded.
-- Raises as agent_signed.call_tool() does.
create or replace function agent_signed.open_step(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call    constant jsonb := agent_internal.signed(_request, _signature);
    _checked jsonb;
begin
    perform agent_internal.begin_write((_call -> 'run')::bigint, (_call -> 'lease')::bigint);
    perform agent_internal.trampoline_of((_call ->> 'run_as')::name);
    perform agent_internal.limit_lock_waits();
    perform set_config('idle_in_transaction_session_timeout', _call ->> 'rest', true);
    _checked := agent_internal.check_call((_call -> 'run')::bigint, _call ->> 'call', _call ->> 'name', _call -> 'given');
    if _checked ->> 'action' = 'deny' then
        _checked := _checked || jsonb_build_object(
            'content', agent_internal.refused_call(_call ->> 'call', _call ->> 'name', _checked ->> 'reason'));
        perform agent_internal.insert_step((_call -> 'run')::bigint, (_call -> 'seq')::integer, 'result', _checked -> 'content');
    end if;
    return _checked || jsonb_build_object('key', agent_internal.call_key((_call -> 'run')::bigint, _call ->> 'call'));
end;
$$;
comment on function agent_signed.open_step(text, bytea) is 'Begin a step whose statements are sent one by one';

-- Execute a statement of a step as the role of its attachment.
--
-- Args: _request: signed: run_as, sql, path; last: whether deferred constraints are checked.
-- Returns rows, see agent_internal.trampoline_body().
create or replace function agent_signed.execute_as(_request text, _signature bytea)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call constant jsonb := agent_internal.signed(_request, _signature);
begin
    return agent_internal.go_through(
        agent_internal.trampoline_of((_call ->> 'run_as')::name), _call ->> 'sql', null, null,
        concat_ws(', ', nullif(_call ->> 'path', ''), 'pg_temp'), true, (_call -> 'last')::boolean);
end;
$$;
comment on function agent_signed.execute_as(text, bytea) is 'Execute a statement of a step as a role';

-- Record the result of a step, in the transaction of its effects.
--
-- Args: _request: signed: run, lease, seq, content; took: seconds for which the run was locked.
create or replace function agent_signed.close_step(_request text, _signature bytea)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call  constant jsonb := agent_internal.signed(_request, _signature);
    _run   constant bigint := _call -> 'run';
    _lease constant bigint := _call -> 'lease';
begin
    perform agent_internal.lock_run(_run, _lease);
    perform agent_internal.insert_step(_run, (_call -> 'seq')::integer, 'result', _call -> 'content');
    if (_call ->> 'took')::numeric > 1 then
        perform agent_internal.extend_lease(_run, _lease, make_interval(secs => (_call ->> 'took')::double precision));
    end if;
    perform agent_internal.seal(case when current_setting('synchronous_commit') in ('off', 'local') then 'on'
                                     else current_setting('synchronous_commit') end);
end;
$$;
comment on function agent_signed.close_step(text, bytea) is 'Record the result of a step whose statements were sent one by one';

-- Execute a statement of a principal as a role, and let nothing of it run on as the login.
--
-- Args: _request: signed: run_as, sql, path; tenant, agent, scopes: who acts.
-- Returns rows, see agent_internal.trampoline_body().
-- Raises what the statement raises, WA016 as agent_internal.trampoline_of() and 42501 as agent_internal.signed() does.
create or replace function agent_signed.write_as(_request text, _signature bytea)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call constant jsonb := agent_internal.signed(_request, _signature);
    _result text;
begin
    if current_setting('transaction_read_only')::boolean then
        raise exception 'cannot write in a transaction that is read-only: a signed request is valid once' using errcode = '25006';
    end if;
    perform agent_internal.limit_lock_waits();
    perform agent_internal.emit_author();
    _result := agent_internal.go_through(agent_internal.trampoline_of((_call ->> 'run_as')::name), _call ->> 'sql', null, null,
                                         _call ->> 'path', true, true);
    perform agent_internal.seal(case when current_setting('synchronous_commit') in ('off', 'local') then 'on'
                                     else current_setting('synchronous_commit') end);
    return _result;
end;
$$;
comment on function agent_signed.write_as(text, bytea) is 'Execute a statement of a principal, as a role';
