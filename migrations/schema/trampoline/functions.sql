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

-- The body of each trampoline.  Its parameters: the statement, its $1 and $2, the search_path, and whether the result is a
-- value or rows.
--
-- Rows are returned as JSON: names, types (OIDs; of a domain, those of its base type), each row as the text of a record,
-- and the number of rows.  The types are read from the binary form of the first row: nothing else has those of a record.
--
-- While the path is that of the statement, which others can create in, each name is qualified and no operator is used.
create or replace function agent_internal.trampoline_body()
    returns text
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $body$
begin
    return $$
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
    else
        begin
            for _row in execute _sql using _arguments, _texts loop
                if _names is null then
                    _names := array(select pg_catalog.json_object_keys(pg_catalog.row_to_json(_row)));
                    begin
                        _sent := pg_catalog.record_send(_row);
                    exception when undefined_function then  -- a type without a binary form
                        null;
                    end;
                end if;
                _found := pg_catalog.array_append(_found, _row::pg_catalog.text);
            end loop;
            _count := pg_catalog.cardinality(_found);
        exception when invalid_cursor_definition then  -- no rows, or several statements: nothing was executed
            execute _sql using _arguments, _texts;
            get diagnostics _count = row_count;
        end;
    end if;
    if _last then
        set constraints all immediate;  -- a violation is an error of the statement, not of the commit
    end if;
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    perform set_config('row_security', 'on', true);  -- without it, what records the result would fail
    if _rows then
        for _n in 1 .. case when _sent is null then 0 else cardinality(_names) end loop
            _type := ('x' || encode(substr(_sent, _at + 1, 4), 'hex'))::bit(32)::bigint;
            _at := _at + 8 + greatest(0, ('x' || encode(substr(_sent, _at + 5, 4), 'hex'))::bit(32)::integer);
            loop
                select typbasetype into _base from pg_type where oid = _type and typtype = 'd';
                exit when not found;
                _type := _base;
            end loop;
            _types := _types || _type;
        end loop;
        _result := json_build_object('names', _names, 'types', _types, 'rows', _found, 'count', _count);
    end if;
    return _result;
end
$$;
end;
$body$;

-- The trampoline of a role, quoted, if nobody has changed it since it was created.
--
-- A role could do so with the privileges of pg_read_all_data, or with DROP OWNED and REASSIGN OWNED.
-- Raises WA016.
create or replace function agent_internal.trampoline_of(_role name)
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

-- Execute a statement by a trampoline: see agent_internal.trampoline_body().
create or replace function agent_internal.go_through(
    _through text, _sql text, _arguments jsonb, _texts text[], _path text, _rows boolean, _last boolean
)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _before constant name := agent_internal.say_acting_role(pg_get_userbyid(substring(_through from '[0-9]+')::oid));
    _result text;
begin
    execute format('select %s($1, $2, $3, $4, $5, $6)', _through) into _result using _sql, _arguments, _texts, _path, _rows, _last;
    -- A SET by the statement outlasts the search_path of this function: its operators must not be found here.
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    perform agent_internal.say_acting_role(_before);
    return _result;
end;
$$;

-- Let a role create its trampoline in this transaction, after the present one was dropped.  One transaction at a time: the
-- privileges of a schema are one row.  Raises 55P03 if another one does not end.
--
-- Returns false if another one has made it meanwhile: a session that uses that one must not lose it.
create or replace function agent_internal.open_trampoline(_role name)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old regprocedure;
begin
    perform agent_internal.lock_grants();
    begin
        perform agent_internal.trampoline_of(_role);
        return false;
    exception when sqlstate 'WA016' then
        null;
    end;
    for _old in select p.oid from pg_proc p join pg_roles r on p.proname = 'as_' || r.oid
                 where p.pronamespace = 'agent_call'::regnamespace and r.rolname = _role loop
        execute format('drop function %s', _old);
    end loop;
    if (select r.rolname <> _role from pg_namespace n join pg_roles r on r.oid = n.nspowner where n.nspname = 'agent_call') then
        execute format('grant usage, create on schema agent_call to %I', _role);
    end if;
    return true;
end;
$$;

-- Close the trampolines' schema again, and check the new trampoline.  Raises WA016.
create or replace function agent_internal.close_trampoline(_role name)
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
create or replace function agent_internal.make_trampoline(_role name)
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
    if not agent_internal.open_trampoline(_role) then
        return;
    end if;
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
create or replace function agent_internal.become(_role name)
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
              hint = format('Run grant %I to %I, then walagent agents resume.', _role, session_user);
end;
$$;

-- Check with the role of an agent, before a run begins or continues, whether its row may be shown: the WAL has no
-- privileges, and they might have changed since the agent was attached.  No code of others is executed.
--
-- Returns whether row level security decides it, which agent_signed.read_as() then asks; NULL: the table was dropped.
-- Raises WA008 if the role does not exist, cannot be assumed or cannot read what is shown.
create or replace function agent_internal.check_reader(_run_as name, _relation oid, _columns text[])
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
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
            using errcode = 'WA008', detail = _state, hint = coalesce(nullif(_hint, ''), 'Grant the privilege, then run walagent agents resume.');
    end;
    perform agent_internal.become(_run_as);
    reset role;
    perform agent_internal.make_trampoline(_run_as);
    return (select c.relrowsecurity from pg_class c where c.oid = _relation);
end;
$$;
comment on function agent_internal.check_reader(name, oid, text[]) is 'Whether the role of an agent can read what the agent is shown, and whether policies apply';
