-- Which columns are set depends on state and reason.  In PL/pgSQL on purpose: the expression of a constraint is
-- read and planned for every statement, a call of such a function is not.
create or replace function agent_internal.fits_state(
    _state agent.run_state, _lease_expires_at timestamptz, _next_attempt_at timestamptz, _finished_at timestamptz
)
    returns boolean
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (_lease_expires_at is not null) = (_state = 'running')
       and (_next_attempt_at is not null) = (_state = 'waiting_retry')
       and (_finished_at is not null) = agent_internal.is_final(_state);
end;
$$;

create or replace function agent_internal.fits_kind(
    _kind text, _reason text, _attachment_id bigint, _attachment_version integer, _principal name, _commit_lsn pg_lsn,
    _ordinal integer, _backfill_key text
)
    returns boolean
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return case
        when _kind = 'question' then _attachment_id is null and _principal is not null and _reason = 'question'
        when _kind = 'agent' or _kind in ('turn', 'node', 'delivery') and _attachment_id is not null then
            _attachment_id is not null and _attachment_version is not null
            and case _reason
                when 'change' then _commit_lsn is not null and _ordinal is not null
                when 'backfill' then _backfill_key is not null
                else _reason = 'manual' or _kind <> 'agent' and _reason <> 'question'
            end
        else _attachment_id is null and _commit_lsn is null and _backfill_key is null
            and _reason not in ('change', 'backfill', 'question')
    end;
end;
$$;
