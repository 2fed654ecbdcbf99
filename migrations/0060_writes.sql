-- Writes of principals to tables of others: one statement, as a role that the configuration names.

-- Execute a statement of a principal as a role, and let nothing of it run on as the login.
--
-- Args: _request: signed: run_as, sql, path; tenant, agent, scopes: who acts.
-- Returns rows, see agent_internal.trampoline_body().
-- Raises what the statement raises, WA016 as agent_internal.trampoline_of() and 42501 as agent_internal.signed() does.
create function agent_signed.write_as(_request text, _signature bytea)
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
    execute format('select %s($1, null, null, $2, true, true)', agent_internal.trampoline_of((_call ->> 'run_as')::name)) into _result
      using _call ->> 'sql', _call ->> 'path';
    perform agent_internal.seal(case when current_setting('synchronous_commit') in ('off', 'local') then 'on'
                                     else current_setting('synchronous_commit') end);
    return _result;
end;
$$;
comment on function agent_signed.write_as(text, bytea) is 'Execute a statement of a principal, as a role';
select agent_internal.keep_rights('agent_signed.write_as(text, bytea)');
