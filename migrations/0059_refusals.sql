-- Refusals of requests: the statement that was refused is rolled back, and its audit with it.

-- Append to the audit that a request of the caller was refused, in a transaction of its own.
--
-- Args: _request: its name, such as mutation console.approve; no arguments.
create function agent_internal.audit_refused_request(_request text, _sqlstate text)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select agent_internal.audit('request.refused', left(_request, 200), jsonb_build_object('sqlstate', _sqlstate))
$$;
comment on function agent_internal.audit_refused_request(text, text) is 'Append to the audit that a request of the caller was refused';
revoke all on function agent_internal.audit_refused_request(text, text) from public;
select agent_internal.permit('runner', 'execute on function agent_internal.audit_refused_request(text, text)');
