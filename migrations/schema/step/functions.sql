-- Record steps of a run that the caller holds.

-- Record a step, in the transaction of its effects: both commit, or neither.
--
-- Args: _call: the number under which the step's model call was reserved, which is settled here; NULL: no budget
-- counts it.  See budget/functions.sql.
-- Raises as agent_internal.fence() and agent_internal.insert_step() do.  After WA004 the effects already exist,
-- and the caller must roll its own back.
create or replace function agent_internal.record_step(
    _run bigint, _lease bigint, _seq integer, _kind text, _content jsonb,
    _usage integer[] default null, _cost numeric default null, _duration_ms integer default null,
    _call integer default null
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
begin
    perform agent_internal.fence(_run, _lease);
    perform agent_internal.insert_step(_run, _seq, _kind, _content, _usage, _cost, _duration_ms);
    if _call is not null then
        perform agent_internal.settle(_run, _lease, _call, _usage, _cost);
    end if;
end;
$$;
comment on function agent_internal.record_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer, integer) is 'Record a step of a run that the caller holds';

-- The transaction for which a request is signed: no other backend has its ID, and none a second one at the same time.
create or replace function agent_internal.transaction_name()
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (select concat(pg_backend_pid(), ' ', extract(epoch from transaction_timestamp())));
end;
$$;

-- Lock a run for the rest of the transaction, if *_lease* is its lease.
--
-- `lease_expires_at is not null` is equivalent to `state = 'running'` by a constraint.  With the latter, the
-- planner would read the index of all running runs to find this one.
--
-- Raises WA001 if the lease is lost, WA002 if cancellation was requested.
create or replace function agent_internal.lock_run(_run bigint, _lease bigint)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _held record;
begin
    select r.cancel_requested or exists (select from agent_internal.cancel_request c where c.run_id = r.id) as cancelled,
           r.lease_expires_at < agent_internal.now() as overslept
      into _held
      from agent.run r
     where r.id = _run
       and r.lease = _lease and r.lease_expires_at is not null  -- planted: no-fence-of-runs/fence
       for no key update;
    if not found then
        raise exception 'run % is no longer held with lease %', _run, _lease using errcode = 'WA001';
    elsif _held.cancelled then
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
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_holder(_run);
    perform agent_internal.lock_run(_run, _lease);
end;
$$;

-- Insert a step of a run that the caller has locked.
--
-- The previous step must exist: a promoted standby might have the claim of a run and lack its latest steps,
-- which the worker has recorded on the former primary.
--
-- Args: _seq: its number; NULL: the next.  _usage: input, cached, cache write and output tokens.
-- Raises WA002 if cancellation was requested since the run was locked, WA004 if the step already exists, WA001 if a previous step is missing.
create or replace function agent_internal.insert_step(
    _run bigint, _seq integer, _kind text, _content jsonb, _usage integer[] default null, _cost numeric default null,
    _duration_ms integer default null
)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
begin
    if exists (select from agent_internal.cancel_request c where c.run_id = _run) then
        raise exception 'cancellation of run % was requested', _run using errcode = 'WA002';
    end if;
    if _seq is null then
        _seq := (select coalesce(max(seq), -1) + 1 from agent.step where run_id = _run);
    end if;
    -- Not ON CONFLICT DO NOTHING, which writes a second WAL record for each row: the run is locked, so that no other
    -- transaction inserts a step of it.
    if exists (select from agent.step where run_id = _run and seq = _seq) then
        raise exception 'step % of run % already exists', _seq, _run using errcode = 'WA004';
    end if;
    insert into agent.step (tenant, run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                            output_tokens, cost, duration_ms)
    select (select r.tenant from agent.run r where r.id = _run), _run, _seq, _kind, _content, _usage[1], _usage[2], _usage[3], _usage[4], _cost, _duration_ms
     where _seq = 0 or exists (select from agent.step where run_id = _run and seq = _seq - 1);
    if not found then
        raise exception 'run % lacks steps before step %: they were lost with a former primary', _run, _seq using errcode = 'WA001';
    end if;
end;
$$;

-- The idempotency key of a call: the same for each attempt, and for no other call of any database.
create or replace function agent_internal.call_key(_run bigint, _call_id text)
    returns text
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select format('walagent-%s-%s-%s', d.id, _run, _call_id) from agent_internal.database d $$;
comment on function agent_internal.call_key(bigint, text) is 'Idempotency key of a tool call';

-- Record that a call outside the database is about to be made, unless that is recorded already.
--
-- Returns its idempotency key: as recorded, so that it stays the same after an upgrade.
-- Raises as agent_internal.record_step() does.
create or replace function agent_internal.begin_call(
    _run bigint, _lease bigint, _seq integer, _call_id text, _name text, _again boolean
)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _key text;
begin
    perform agent_internal.lock_run(_run, _lease);
    if _again then
        select s.content ->> 'idempotency_key' into _key
          from agent.step s
         where s.run_id = _run and s.kind = 'intent' and s.content ->> 'call_id' = _call_id
         order by s.seq desc limit 1;
    end if;
    _key := coalesce(_key, agent_internal.call_key(_run, _call_id));
    if not _again then
        perform agent_internal.insert_step(_run, _seq, 'intent', jsonb_build_object(
            'call_id', _call_id, 'name', _name, 'idempotency_key', _key));
    end if;
    return _key;
end;
$$;
comment on function agent_internal.begin_call(bigint, bigint, integer, text, text, boolean) is 'Record that a call outside the database is about to be made; return its idempotency key';
