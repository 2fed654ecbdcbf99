-- Tools that write: the origin marker, the role, the visibility of the row, and the call.

-- The transaction ID is signed as BEGIN shows it in the WAL: its lower 32 bits.
create or replace function agent_internal.sign_write(_what text, _xid xid8)
    returns text
    language plpgsql  -- keeps its plan; a function in SQL is planned for each call
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _key    constant bytea := (select key from agent_internal.secret);
    _signed constant bytea := convert_to(_what || ' ' || (_xid::text::numeric % 4294967296)::bigint, 'utf8');
begin
    return encode(sha256(_key || sha256(_key || _signed)), 'hex');
end;
$$;

-- Add the time of a long write-back to its lease: the heartbeat skips runs that are locked, and the first tick
-- after the commit would expire the lease.
create or replace function agent_internal.extend_lease(_run bigint, _lease bigint, _by interval)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    update agent.run set lease_expires_at = lease_expires_at + _by
     where id = _run and lease = _lease and lease_expires_at is not null
$$;
comment on function agent_internal.extend_lease(bigint, bigint, interval) is 'Extend a lease by the time for which its holder had locked the run';

-- The login that executes code of others in this database.  Roles belong to the cluster: each database has its own.
create or replace function agent_internal.tools_login()
    returns name
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (select ('walagent_tools_' || oid)::name from pg_database where datname = current_database());
end;
$$;
comment on function agent_internal.tools_login() is 'The login of the connections on which code of others is executed';

-- Whether this session executes what others have signed: the login for tools, whatever its name, may not use the schema.
create or replace function agent_internal.is_for_tools()
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return session_user = agent_internal.tools_login() or not has_schema_privilege(session_user, 'agent', 'usage');
end;
$$;
comment on function agent_internal.is_for_tools() is 'Whether the login of this session executes what others have signed';

-- The parameters of a call, if its signature is that of a holder of agent_internal.secret for this transaction, and the login
-- is one that code of others may become.  Who finds a request in a log cannot use it.
--
-- The worker that signs must be able to become the `run_as` role at each call: a role that is revoked from it acts no more.
--
-- Raises 42501, and WA016 if the worker cannot become the role.
create or replace function agent_internal.signed(_request text, _signature bytea)
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
       and agent_internal.may_become((_call -> 'worker')::bigint::oid, (_call ->> 'run_as')::name) is not true then
        raise exception 'the worker cannot become role "%"', _call ->> 'run_as' using errcode = 'WA016';
    end if;
    return _call;
end;
$$;

-- Start a write-back transaction: lock the run, and emit an origin marker, a logical message with run, attachment
-- and depth; "revert" follows if the run takes another back, to which no agent reacts; else "before" if this transaction
-- can insert into agent_internal.row_before, so that the reader looks there.  It is signed with a key that only the owner
-- and the runner can read, and bound to the transaction ID: a marker that is forged or copied is ignored.
create or replace function agent_internal.begin_write(_run bigint, _lease bigint, _before boolean default false)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _what text;
begin
    perform agent_internal.lock_run(_run, _lease);
    select format('%s %s %s%s', id, coalesce(attachment_id, 0), depth,
                  case when undoes is not null then ' revert' when _before then ' before' end)
      into _what from agent.run where id = _run;
    perform pg_logical_emit_message(true, 'walagent',
                                    _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
end;
$$;
