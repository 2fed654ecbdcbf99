-- Code of others - tools, and what their statements fire: triggers, defaults, policies, types - is executed as a role that
-- it cannot leave.
--
-- PostgreSQL refuses SET ROLE, RESET ROLE and SET SESSION AUTHORIZATION in a function with the rights of its owner.  So
-- each `run_as` role owns a function, its trampoline, which executes the statement it is given.  The trampolines' schema
-- is closed to all roles but its owner, so that no role can alter its own.
--
-- Two kinds of code are executed at the commit, after the trampoline has returned: cursors WITH HOLD, which are therefore
-- closed, and deferred triggers that were deferred again (before PostgreSQL 18).  Those run as the login of the
-- connection, so it has no privilege and is a member of no role; the transaction is read-only before it commits.  The functions of agent_signed
-- are granted to PUBLIC, for a grant to the login would be part of each dump, and its name differs on another server.
-- They carry out only what the holder of agent_internal.secret has signed.
--
--   WA016   a role has no trampoline, or not as it was created, or the worker may not become it:
--           agent_internal.make_trampoline() makes it, or tells why not

create schema agent_call;
comment on schema agent_call is 'The trampoline of each role that agents run as; closed to all roles but its owner';

create schema agent_signed;
comment on schema agent_signed is 'Functions that each role can call, and that only a signed request can use';

-- The body of each trampoline.  Its parameters: the statement, its $1 and $2, the search_path, and whether the result is a
-- value or rows.
--
-- Rows are returned as JSON: names, types (OIDs; of a domain, those of its base type), each row as the text of a record,
-- and the number of rows.  The types are read from the binary form of the first row: nothing else has those of a record.
create function agent_internal.trampoline_body()
    returns text
    language sql
    immutable
as $body$
    select $$
declare
    _result text;
    _row    record;
    _sent   bytea;
    _at     integer := 4;
    _type   bigint;
    _base   bigint;
    _names  text[];
    _types  bigint[];
    _found  text[] := '{}';
    _count  bigint := 0;
begin
    perform set_config('search_path', _path, true);
    if not _rows then
        execute _sql into _result using _arguments, _texts;
        get diagnostics _count = row_count;
    else
        begin
            for _row in execute _sql using _arguments, _texts loop
                if _count = 0 then
                    _names := array(select json_object_keys(row_to_json(_row)));
                    begin
                        _sent := record_send(_row);
                        for _n in 1 .. cardinality(_names) loop
                            _type := (get_byte(_sent, _at)::bigint << 24) + (get_byte(_sent, _at + 1) << 16)
                                     + (get_byte(_sent, _at + 2) << 8) + get_byte(_sent, _at + 3);
                            _at := _at + 8 + greatest(0, ('x' || encode(substr(_sent, _at + 5, 4), 'hex'))::bit(32)::integer);
                            loop
                                select typbasetype into _base from pg_type where oid = _type and typtype = 'd';
                                exit when not found;
                                _type := _base;
                            end loop;
                            _types := _types || _type;
                        end loop;
                    exception when undefined_function then  -- a type without a binary form
                        _types := null;
                    end;
                end if;
                _count := _count + 1;
                _found := _found || _row::text;
            end loop;
        exception when invalid_cursor_definition then  -- no rows, or several statements: nothing was executed
            execute _sql using _arguments, _texts;
            get diagnostics _count = row_count;
        end;
        _result := json_build_object('names', _names, 'types', _types, 'rows', _found, 'count', _count);
    end if;
    if _last then
        set constraints all immediate;  -- a violation is an error of the statement, not of the commit
    end if;
    return _result;
end
$$
$body$;

-- The trampoline of a role, quoted, if nobody has changed it since it was created.
--
-- A role could do so with the privileges of pg_read_all_data, or with DROP OWNED and REASSIGN OWNED.
-- Raises WA016.
create function agent_internal.trampoline_of(_role name)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found text;
begin
    select format('agent_call.%I', p.proname) into _found
      from pg_roles r
           join pg_namespace n on n.nspname = 'agent_call'
           join pg_proc p on p.pronamespace = n.oid and p.proname = 'as_' || r.oid
           join pg_language l on l.oid = p.prolang
     where r.rolname = _role
       and p.proowner = r.oid and p.prosecdef and l.lanname = 'plpgsql' and p.prokind = 'f'
       and p.prosrc = agent_internal.trampoline_body()
       and p.proconfig = array['search_path=pg_catalog, pg_temp', 'standard_conforming_strings=on']
       and pg_get_function_identity_arguments(p.oid) = '_sql text, _arguments jsonb, _texts text[], _path text, _rows boolean, _last boolean'
       and p.prorettype = 'text'::regtype and not p.proretset
       and p.proacl is not null
       and not exists (select from aclexplode(p.proacl) a where a.grantee not in (p.proowner, n.nspowner))
       and not exists (select from aclexplode(n.nspacl) a where a.grantee <> n.nspowner)
       and has_function_privilege(n.nspowner, p.oid, 'execute');
    if _found is null then
        raise exception 'role "%" has no valid trampoline', _role using errcode = 'WA016';
    end if;
    return _found;
end;
$$;
comment on function agent_internal.trampoline_of(name) is 'The trampoline of a role, if it is as it was created';

-- Let a role create its trampoline in this transaction, after the present one was dropped.  One transaction at a time: the
-- privileges of a schema are one row.  Raises 55P03 if another one does not end.
create function agent_internal.open_trampoline(_role name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old regprocedure;
begin
    perform agent_internal.lock_grants();
    for _old in select p.oid from pg_proc p join pg_roles r on p.proname = 'as_' || r.oid
                 where p.pronamespace = 'agent_call'::regnamespace and r.rolname = _role loop
        execute format('drop function %s', _old);
    end loop;
    if (select r.rolname <> _role from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'agent_call') then
        execute format('grant usage, create on schema agent_call to %I', _role);
    end if;
end;
$$;

-- Close the trampolines' schema again, and check the new trampoline.  Raises WA016.
create function agent_internal.close_trampoline(_role name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if (select r.rolname <> _role from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'agent_call') then
        execute format('revoke all on schema agent_call from %I', _role);
    end if;
    perform agent_internal.trampoline_of(_role);
end;
$$;

-- Create the trampoline of a role, unless it has one.  The caller must be able to become the role.
--
-- Raises WA008 if it cannot.
create function agent_internal.make_trampoline(_role name)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _owner constant name := (select r.rolname from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'agent_call');
    _body  constant text := agent_internal.trampoline_body();
    _name  constant text := (select 'agent_call.as_' || oid from pg_roles where rolname = _role)
                            || '(_sql text, _arguments jsonb, _texts text[], _path text, _rows boolean, _last boolean)';
    _other text;
begin
    perform agent_internal.become(_role);
    reset role;
    begin
        perform agent_internal.trampoline_of(_role);
        return;
    exception when sqlstate 'WA016' then
        null;
    end;
    perform agent_internal.open_trampoline(_role);
    perform agent_internal.become(_role);
    execute format(
        'create function %s returns text language plpgsql security definer'
        ' set search_path = pg_catalog, pg_temp set standard_conforming_strings = on as %L', _name, _body);
    -- Also what the role's default privileges have granted.
    for _other in select coalesce((select format('%I', r.rolname) from pg_roles r where r.oid = a.grantee), 'public')
                    from pg_proc p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
                   where p.pronamespace = 'agent_call'::regnamespace and p.proowner = (select oid from pg_roles where rolname = _role) and a.grantee <> p.proowner loop
        execute format('revoke all on function %s from %s', _name, _other);
    end loop;
    execute format('grant execute on function %s to %I', _name, _owner);
    reset role;
    perform agent_internal.close_trampoline(_role);
end;
$$;
comment on function agent_internal.make_trampoline(name) is 'Create the function as which the statements of a role are executed';

-- Become a role for the rest of the transaction; execute nothing of others as it, for they can become the login again.
--
-- Raises WA008; the caller then still has its own role.
create function agent_internal.become(_role name)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _state   text;
    _message text;
begin
    perform set_config('role', _role, true);
exception when others then
    get stacked diagnostics _state = returned_sqlstate, _message = message_text;
    raise exception 'could not set role "%": % (SQLSTATE %)', _role, _message, _state
        using errcode = 'WA008', detail = _state,
              hint = format('Run grant %I to %I, then walagent resume.', _role, session_user);
end;
$$;

-- The login that executes code of others in this database.  Roles belong to the cluster: each database has its own.
create function agent_internal.tools_login()
    returns name
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select ('walagent_tools_' || oid)::name from pg_database where datname = current_database() $$;
comment on function agent_internal.tools_login() is 'The login of the connections on which code of others is executed';

-- The transaction for which a request is signed: no other backend has its ID, and none a second one at the same time.
create function agent_internal.transaction_name()
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select concat(pg_backend_pid(), ' ', extract(epoch from transaction_timestamp())) $$;

-- The parameters of a call, if its signature is that of a holder of agent_internal.secret for this transaction, and the login
-- is one that code of others may become.  Who finds a request in a log cannot use it.
--
-- The worker that signs must be able to become the `run_as` role at each call: a role that is revoked from it acts no more.
--
-- Raises 42501, and WA016 if the worker cannot become the role.
create function agent_internal.signed(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _key  constant bytea := (select key from agent_internal.secret);
    _call jsonb;
begin
    if exists (select from pg_roles r
                where r.rolname = session_user
                  and (r.rolsuper or r.rolcreaterole or r.rolcreatedb or r.rolreplication or r.rolbypassrls
                       or exists (select from pg_auth_members m where m.member = r.oid)))
       and not exists (select from agent_internal.trial) then  -- which never commits
        raise exception 'login "%" has attributes or is a member of roles that code of others could use', session_user
            using errcode = '42501', hint = 'Create a login without any.';
    elsif (sha256(_key || _signature)  -- hashed, so that the time of the comparison says nothing of the signature
           = sha256(_key || sha256(_key || sha256(_key || convert_to('call ' || _request, 'utf8'))))) is not true then
        raise exception 'the call is not signed by a worker of this database' using errcode = '42501';
    end if;
    _call := _request::jsonb;
    if _call ->> 'transaction' is distinct from agent_internal.transaction_name() then
        raise exception 'the call is signed for another transaction' using errcode = '42501';
    end if;
    if _call ? 'tenant' then
        perform agent_internal.assume(_call ->> 'tenant', (_call ->> 'agent')::name,
                                      array(select jsonb_array_elements_text(_call -> 'scopes')));
    end if;
    if _call ? 'run_as'
       and pg_has_role((_call -> 'worker')::bigint::oid, to_regrole(quote_ident(_call ->> 'run_as')),
                       case when current_setting('server_version_num')::integer < 160000 then 'member' else 'set' end) is not true then
        raise exception 'the worker cannot become role "%"', _call ->> 'run_as' using errcode = 'WA016';
    end if;
    return _call;
end;
$$;

-- Lock a run for the rest of the transaction, if *_lease* is its lease.
--
-- `lease_expires_at is not null` is equivalent to `state = 'running'` by a constraint.  With the latter, the
-- planner would read the index of all running runs to find this one.
--
-- Raises WA001 if the lease is lost, WA002 if cancellation was requested.
create function agent_internal.lock_run(_run bigint, _lease bigint)
    returns void
    language plpgsql
as $$
declare
    _held record;
begin
    select r.cancel_requested, r.lease_expires_at < agent_internal.now() as overslept
      into _held
      from agent.run r
     where r.id = _run
       and r.lease = _lease and r.lease_expires_at is not null  -- planted: no-fence-of-runs/fence
       for no key update;
    if not found then
        raise exception 'run % is no longer held with lease %', _run, _lease using errcode = 'WA001';
    elsif _held.cancel_requested then
        raise exception 'cancellation of run % was requested', _run using errcode = 'WA002';
    elsif _held.overslept then
        -- Its worker was suspended and continues: the heartbeat skips runs that are locked, as this one is.
        update agent.run set lease_expires_at = agent_internal.now() + interval '10 seconds' where id = _run;
    end if;
end;
$$;

-- Lock a run for the rest of the transaction, if the caller holds its lease and may hold it.
--
-- Raises 42501 if the caller may not hold the run, otherwise as agent_internal.lock_run() does.
create or replace function agent_internal.fence(_run bigint, _lease bigint)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.check_holder(_run);
    perform agent_internal.lock_run(_run, _lease);
end;
$$;

-- Start a write-back transaction: lock the run, and emit an origin marker, a logical message with run, attachment
-- and depth.  It is signed with a key that only the owner and the runner can read, and bound to the transaction
-- ID: a marker that is forged or copied is ignored.
create or replace function agent_internal.begin_write(_run bigint, _lease bigint)
    returns void
    language plpgsql
as $$
declare
    _what text;
begin
    perform agent_internal.lock_run(_run, _lease);
    select format('%s %s %s', id, coalesce(attachment_id, 0), depth) into _what from agent.run where id = _run;
    perform pg_logical_emit_message(true, 'walagent',
                                    _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
end;
$$;

-- Limit lock waits for the rest of the transaction, so that the application wins a lock conflict.
--
-- A tool's lock wait ends long before the deadlock check of a transaction that waits for the tool: in a deadlock,
-- that check would cancel the application's transaction.  The short wait also bounds how long the application
-- waits for a lock that a waiting tool holds.  If the tool closes the cycle, its own check cancels it: at once if
-- the owner may set deadlock_timeout (grant set on parameter deadlock_timeout), otherwise the short wait
-- resolves most cases.
create function agent_internal.limit_lock_waits()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _check constant numeric := extract(epoch from current_setting('deadlock_timeout')::interval) * 1000;
    _asked constant numeric := extract(epoch from current_setting('lock_timeout')::interval) * 1000;
begin
    perform set_config('lock_timeout', least(nullif(_asked, 0), greatest(round(_check / 10), 10), 5000)::text, true);
    if has_parameter_privilege('deadlock_timeout', 'set') then
        perform set_config('deadlock_timeout', '10ms', true);
    end if;
end;
$$;

-- Number the entries of the audit that wait for the commit, while this transaction can write: code of others that follows
-- could make it read-only, or check its constraints where it is.
create function agent_internal.number_audit()
    returns void
    language plpgsql
as $$
begin
    if exists (select from agent_internal.audit_entry) then
        set constraints agent_internal.mark_audit_entry immediate;
        set constraints agent_internal.append_audit immediate;
    end if;
end;
$$;

-- End what code of others could still do in this transaction: no cursor WITH HOLD is left to be executed at the commit, and
-- nothing else that is executed there can write.
create function agent_internal.seal(_durable text)
    returns void
    language plpgsql
as $$
begin
    execute 'close all';
    perform agent_internal.number_audit();
    perform set_config('synchronous_commit', _durable, true), set_config('transaction_read_only', 'on', true);
end;
$$;

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
--         relation: the OID of its table: the statement is then a template for agent_internal.bind_relation().
-- Returns the content of the step; or, if nothing was executed because a person has to approve the call or policies have
-- changed it, {"verdict": the result of agent_internal.check_call()}.
-- Raises WA009 if the tool fails because its attachment is broken, WA016 as agent_internal.trampoline_of() does, and 42501
-- as agent_internal.signed() does.
create function agent_signed.call_tool(_request text, _signature bytea)
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
    _content jsonb;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    perform agent_internal.begin_write(_run, _lease);
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
            _sql := agent_internal.bind_relation(_sql, _relation::oid, _call #> '{arguments,key}', _call #> '{arguments,set}');
        end if;
        _is_tool := true;
        execute format('select %s($1, $2, null, $3, false, true)', _through) into _value
          using _sql, _call -> 'arguments', concat_ws(', ', nullif(_call ->> 'path', ''), 'pg_temp');
        -- A SET by the tool outlasts the search_path of this function: its operators must not be found here.
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        _result := _value::jsonb;
        if (_call -> 'must_find')::boolean and _result is null then
            raise exception 'row does not exist or is not visible to role "%"; nothing was updated', _call ->> 'run_as'
                using errcode = 'P0002';
        end if;
        -- In some languages a function without a result returns an empty text, which tells a model nothing.
        _content := jsonb_build_object('is_error', false, 'content', left(coalesce(nullif(
            case jsonb_typeof(_result) when 'string' then _result #>> '{}' else _result::text end, ''), 'done'), 65536));
        _content := agent_internal.checked_result(_checked, _content);
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
create function agent_signed.read_as(_request text, _signature bytea, _texts text[] default null)
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
    execute format('select %s($1, $2, $3, $4, $5, true)', _through) into _result
      using _sql, _call -> 'arguments', _texts, coalesce(_call ->> 'path', ''), coalesce((_call -> 'rows')::boolean, false);
    if _fetch is null and not _declare then
        execute 'close all';
    end if;
    return _result;
end;
$$;
comment on function agent_signed.read_as(text, bytea, text[]) is 'Execute a statement that reads, as a role';

-- A step whose statements a tool in Python sends one by one: open, execute, close, in one transaction of the worker's.

-- Fence the run, emit the origin marker, and limit waits.
--
-- Args: _request: signed: run, lease, seq, call, name, given, run_as; rest: milliseconds for which the transaction may be idle.
-- Returns the result of agent_internal.check_call(), with key: the idempotency key; content: the result of a refused call, which
-- is recorded.
-- Raises as agent_signed.call_tool() does.
create function agent_signed.open_step(_request text, _signature bytea)
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
create function agent_signed.execute_as(_request text, _signature bytea)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call constant jsonb := agent_internal.signed(_request, _signature);
    _result text;
begin
    execute format('select %s($1, null, null, $2, true, $3)', agent_internal.trampoline_of((_call ->> 'run_as')::name)) into _result
      using _call ->> 'sql', concat_ws(', ', nullif(_call ->> 'path', ''), 'pg_temp'), (_call -> 'last')::boolean;
    return _result;
end;
$$;
comment on function agent_signed.execute_as(text, bytea) is 'Execute a statement of a step as a role';

-- Record the result of a step, in the transaction of its effects.
--
-- Args: _request: signed: run, lease, seq, content; took: seconds for which the run was locked.
create function agent_signed.close_step(_request text, _signature bytea)
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

-- Check with the role of an agent, before a run begins or continues, whether its row may be shown: the WAL has no
-- privileges, and they might have changed since the agent was attached.  No code of others is executed.
--
-- Returns whether row level security decides it, which agent_signed.read_as() then asks; NULL: the table was dropped.
-- Raises WA008 if the role does not exist, cannot be assumed or cannot read what is shown.
create function agent_internal.check_reader(_run_as name, _relation oid, _columns text[])
    returns boolean
    language plpgsql
as $$
declare
    _state   text;
    _message text;
    _hint    text;
begin
    begin
        perform agent_internal.check_visibility(_relation::regclass, _columns, _run_as);
    exception when insufficient_privilege or undefined_object then
        get stacked diagnostics _state = returned_sqlstate, _message = message_text, _hint = pg_exception_hint;
        raise exception '% (SQLSTATE %)', _message, _state
            using errcode = 'WA008', detail = _state, hint = coalesce(nullif(_hint, ''), 'Grant the privilege, then run walagent resume.');
    end;
    perform agent_internal.become(_run_as);
    reset role;
    perform agent_internal.make_trampoline(_run_as);
    return (select c.relrowsecurity from pg_class c where c.oid = _relation);
end;
$$;
comment on function agent_internal.check_reader(name, oid, text[]) is 'Whether the role of an agent can read what the agent is shown, and whether policies apply';

-- Reject a function that *_run_as* cannot call, or that cannot be called with named arguments.
--
-- Functions of PostgreSQL and of extensions are for people, not for models: they are tools only if agent.tool has them.
-- Those of PostgreSQL that are volatile change the session or the server, read files, or execute SQL from text: never.
create or replace function agent_internal.check_function(_name text, _function regprocedure, _run_as name)
    returns void
    language plpgsql
    stable
as $$
declare
    _system  constant boolean := exists (select from pg_catalog.pg_proc p
                                          where p.oid = _function and p.pronamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace));
    _foreign constant boolean := exists (select from pg_catalog.pg_depend d
                                          where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = _function and d.deptype = 'e');
begin
    if not has_function_privilege(_run_as, _function, 'execute') then
        raise exception 'tool "%": role "%" lacks EXECUTE on function %', _name, _run_as, _function
            using errcode = 'WA011', hint = format('grant execute on function %s to %I', _function, _run_as);
    elsif _system and exists (select from pg_catalog.pg_proc p where p.oid = _function and p.provolatile = 'v') then
        raise exception 'tool "%": volatile function % of PostgreSQL cannot be a tool', _name, _function
            using errcode = 'WA011', hint = 'Write a function of your own that does only what the model needs.';
    elsif (_system or _foreign) and not exists (select from agent.tool t where t.name = _name and t.kind = 'sql') then
        raise exception 'tool "%": % belongs to PostgreSQL or an extension', _name, _function
            using errcode = 'WA011',
                  hint = format('Write a function of your own, or as the owner: insert into agent.tool (name, kind, target) values (%L, ''sql'', %L)',
                                _name, _function);
    elsif '' = any (agent_internal.argument_names(_function)) then
        raise exception 'tool "%": function % has an unnamed argument', _name, _function
            using errcode = 'WA011';
    elsif exists (select from pg_catalog.pg_proc p join pg_catalog.pg_type t on t.oid = any (p.proargtypes)
                   where p.oid = _function and (p.provariadic <> 0 or t.typtype = 'p')) then
        raise exception 'tool "%": function % is variadic or polymorphic', _name, _function
            using errcode = 'WA011', hint = 'Use a function with fixed arguments and types.';
    end if;
end;
$$;

-- Only the owner registers SQL functions as tools; the runner registers those of its processes.
create function agent_internal.check_tool()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if (new.kind in ('sql', 'builtin') or tg_op = 'UPDATE' and old.kind in ('sql', 'builtin'))
       and not pg_has_role((select relowner from pg_class where oid = tg_relid), 'member') then
        raise exception 'only the owner of agent.tool may register tools of kind "%"', new.kind using errcode = '42501';
    end if;
    return new;
end;
$$;
create trigger check_tool
    before insert or update on agent.tool
    for each row execute function agent_internal.check_tool();

drop function agent_internal.call_tool(bigint, bigint, integer, text, text, name, text, jsonb, text, boolean, oid);
drop function agent_internal.row_visibility(name, oid, text[], text, jsonb);
drop function agent_internal.assume_role(name, text);
drop function agent_internal.clean_session(text);
drop function agent_internal.set_styles();

revoke all on schema agent_call from public;
revoke all on all functions in schema agent, agent_internal from public;
grant usage on schema agent_signed to public;
grant execute on all functions in schema agent_signed to public;
