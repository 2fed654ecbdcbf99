-- Record steps of a run that the caller holds.

-- Lock a run for the rest of the transaction, if the caller holds its lease and may hold it.
--
-- `lease_expires_at is not null` is equivalent to `state = 'running'` by a constraint.  With the latter, the
-- planner would read the index of all running runs to find this one.
--
-- Raises 42501 if the caller may not hold the run, WA001 if the lease is lost, WA002 if cancellation was
-- requested.
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
        raise exception 'cancellation of run % was requested', _run using errcode = 'WA002';
    elsif _held.overslept then
        -- Its worker was suspended and continues: the heartbeat skips runs that are locked, as this one is.
        update agent.run set lease_expires_at = agent_internal.now() + interval '10 seconds' where id = _run;
    end if;
end;
$$;

-- Insert a step of a run that the caller has locked.
--
-- The previous step must exist: a promoted standby might have the claim of a run and lack its latest steps,
-- which the worker has recorded on the former primary.
--
-- Args: _seq: its number; NULL: the next.  _usage: input, cached, cache write and output tokens.
-- Raises WA004 if the step already exists, WA001 if a previous step is missing.
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
        raise exception 'step % of run % already exists', _seq, _run using errcode = 'WA004';
    end if;
    raise exception 'run % lacks steps before step %: they were lost with a former primary', _run, _seq using errcode = 'WA001';
end;
$$;

-- Record a step, in the transaction of its effects: both commit, or neither.
--
-- Args: _call: the number under which the step's model call was reserved, which is settled here; NULL: no budget
-- counts it.  See 0021_budgets.sql.
-- Raises as agent_internal.fence() and agent_internal.insert_step() do.  After WA004 the effects already exist,
-- and the caller must roll its own back.
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

-- Make a run executable whose deferred change was evaluated: *_change* has what the agent is shown by the
-- present definition.
--
-- Raises WA001, WA002 as agent_internal.fence() does.
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
comment on function agent_internal.accept_deferred(bigint, bigint, jsonb, text) is 'Store the change of a run that was deferred and has been evaluated';
