-- Record steps of a run that the caller holds.

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
-- budget counts it.  See 0021_budgets.sql.
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

-- A change was evaluated after all, and its run is to be worked: with what the agent is shown by now.
--
-- Raises WA001, WA002 as agent_internal.fence does.
create function agent_internal.accept_deferred(_run bigint, _lease bigint, _change jsonb, _key text)
    returns void
    language plpgsql
as $$
begin
    perform agent_internal.fence(_run, _lease);
    update agent.run set change = _change, key = _key, error = null where id = _run;
    delete from agent_internal.deferred_change where run_id = _run;
end;
$$;
comment on function agent_internal.accept_deferred(bigint, bigint, jsonb, text) is 'Let a run be worked whose change was evaluated late';
