-- End a run, or release it without ending it.

-- Unblock the runs that wait for one that has ended.
--
-- Returns whether its ordering key has another run to claim: also one that no claim could mark, because another
-- transaction had locked the run before it.
create or replace function agent_internal.unblock(_run bigint)
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.run set blocked_by = null where blocked_by = _run;
    return found or coalesce((
        select (select true from agent.run p
                 where p.queue_id = e.queue_id and p.ordering_key = e.ordering_key
                   and p.state = 'pending' and p.blocked_by is null and p.not_before is null
                 limit 1)
          from agent.run e where e.id = _run), false);
end;
$$;

-- What is left of a change when its agent may not see the row.
create or replace function agent_internal.without_row(_change jsonb)
    returns jsonb
    language sql
    immutable
return (select jsonb_object_agg(e.key, e.value) from jsonb_each(_change) e where e.key in ('op', 'schema', 'table'));

-- The role of a skipped run cannot see the row, or it is gone: then the key still says which one it was.
create or replace function agent_internal.drop_row()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    new.change := agent_internal.without_row(new.change);
    if (select agent_internal.is_guarded(v.definition, (v.definition ->> 'run_as')::name) from agent.attachment_version v
         where v.attachment_id = new.attachment_id and v.version = new.attachment_version) is not false then
        new.key := null;
        new.ordering_key := null;
    end if;
    update agent_internal.merged_change m set change = agent_internal.without_row(m.change) where m.run_id = new.id;
    perform agent_internal.leave(_entered);
    return new;
end;
$$;

-- Record the last reply and end the run, in one round trip.  Ending it comes first, as the fence.
--
-- Args: _call: as in agent_internal.record_step().
create or replace function agent_internal.finish_with_step(
    _run bigint, _lease bigint, _seq integer, _kind text, _content jsonb, _usage integer[], _step_cost numeric,
    _duration_ms integer, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric,
    _call integer default null
)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _unblocked boolean;
begin
    _unblocked := agent_internal.finish_run(_run, _lease, _state, _result, _error, _tokens, _cost);
    perform agent_internal.insert_step(_run, _seq, _kind, _content, _usage, _step_cost, _duration_ms);
    if _call is not null then
        perform agent_internal.settle(_run, _lease, _call, _usage, _step_cost);
        perform agent_internal.release(_run);
    end if;
    return _unblocked;
end;
$$;
comment on function agent_internal.finish_with_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer, agent.run_state, text, jsonb, bigint, numeric, integer) is 'Record the last step of a run and end it';

-- Release the runs that a stopping worker holds; their attempts do not count.
create or replace function agent_internal.release_runs(_worker text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    with held as (
        select id from agent.run
         where lease_expires_at is not null and worker = _worker
         order by id for no key update
    ), freed as (
        update agent.run r
           set state = case when r.cancel_requested then 'cancelled' else 'pending' end::agent.run_state,
               lease_expires_at = null,
               attempt = greatest(0, r.attempt - 1),
               cancel_requested = false,
               finished_at = case when r.cancel_requested then agent_internal.now() end
          from held where r.id = held.id
        returning r.id, r.state
    )
    update agent.run b set blocked_by = null
      from freed f where b.blocked_by = f.id and agent_internal.is_final(f.state);
    perform agent_internal.wake_workers();
    perform agent_internal.release_lost();
end;
$$;

-- Release a run that the caller has locked: until a time, until a person has decided, or for any worker to claim.
--
-- Args: _refund: do not count the attempt, because the wait is no failure of the run.
create or replace function agent_internal.park_locked(
    _run bigint, _state agent.run_state, _delay interval, _refund boolean, _error jsonb, _tokens bigint, _cost numeric,
    _reserved boolean default false
)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.run
       set state = _state, lease_expires_at = null, error = _error, tokens = _tokens, cost = _cost,
           next_attempt_at = case when _state = 'waiting_retry' then agent_internal.now() + _delay end,
           attempt = greatest(0, attempt - _refund::integer)
     where id = _run;
    if _reserved then
        perform agent_internal.release(_run);
    end if;
end;
$$;

-- Release a run that the caller holds without ending it.
--
-- Args: as agent_internal.park_locked().
create or replace function agent_internal.park_run(
    _run bigint, _lease bigint, _state agent.run_state, _delay interval, _refund boolean, _error jsonb,
    _tokens bigint, _cost numeric, _reserved boolean default false
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    if _state not in ('pending', 'waiting_retry') and not agent_internal.is_runner() then
        raise exception 'role "%" may not let run % wait for a person', agent.current_principal(), _run using errcode = '42501';
    end if;
    perform agent_internal.park_locked(_run, _state, _delay, _refund, _error, _tokens, _cost, _reserved);
end;
$$;
comment on function agent_internal.park_run(bigint, bigint, agent.run_state, interval, boolean, jsonb, bigint, numeric, boolean) is 'Release a run that the caller holds without ending it';

-- Why somebody has cancelled a run that is executed, as its error will be; NULL: nobody has.
--
-- A request may have found the run locked by a step, and waits to be applied.
create or replace function agent_internal.cancel_reason(_run agent.run)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when _run.cancel_requested then coalesce(_run.error, '{}') else
               (select jsonb_build_object('reason', coalesce(c.reason, 'cancelled')) from agent_internal.cancel_request c where c.run_id = _run.id) end
$$;
comment on function agent_internal.cancel_reason(agent.run) is 'Why somebody has cancelled a run that is executed';

create or replace function agent_internal.record_many(_records jsonb)
    returns table (run_id bigint, unblocked boolean, failed text)
    language plpgsql
    set enable_seqscan = off
    set plan_cache_mode = force_generic_plan  -- planning for each length of the arrays costs more than executing
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _given agent_internal.run_record[] := array(select e from jsonb_populate_recordset(null::agent_internal.run_record, _records) e);
    _held  bigint[];
    _late  bigint[];
    _busy  bigint[];
    _done  bigint[];
    _ended bigint[];
    _freed bigint[];
    _next  bigint[];
begin
    if (select count(*) > count(distinct e.run) from unnest(_given) e) then
        raise exception 'records contain a run twice' using errcode = '22023';
    end if;
    with held as (
        select r.id, r.lease_expires_at < agent_internal.now() and e.state is null as late
          from agent.run r join unnest(_given) e on r.id = e.run
         where r.lease_expires_at is not null
           and r.lease = e.lease  -- planted: no-fence-of-runs/record
           and (e.state in ('cancelled', 'succeeded')
                or not r.cancel_requested and not exists (select from agent_internal.cancel_request c where c.run_id = r.id))
         order by r.id
           for no key update of r skip locked
    )
    select coalesce(array_agg(id), '{}'), coalesce(array_agg(id) filter (where late), '{}') into _held, _late from held;
    if _late <> '{}' then  -- as agent_internal.fence
        update agent.run r set lease_expires_at = agent_internal.now() + interval '10 seconds' where r.id = any (_late);
    end if;
    -- The runs that wait for these, in a statement of its own: no claim marks another one from here on.
    with free as materialized (
        select r.id from agent.run r where r.blocked_by = any (_held) order by r.id for no key update skip locked
    )
    select array(select r.blocked_by from agent.run r
                  where r.blocked_by = any (_held) and r.id not in (select id from free)) into _busy;
    if _busy <> '{}' then
        _held := array(select e.run from unnest(_given) e
                        where e.run = any (_held) and (e.state is null or e.run <> all (_busy)));
    end if;
    with recorded as (
        insert into agent.step (tenant, run_id, seq, kind, content, input_tokens, cached_tokens, cache_write_tokens,
                                output_tokens, cost, duration_ms)
        select r.tenant, e.run, e.seq, e.kind, e.content, e.usage[1], e.usage[2], e.usage[3], e.usage[4], e.step_cost, e.duration_ms
          from unnest(_given) e join agent.run r on r.id = e.run
         where e.run = any (_held)
           and (e.seq = 0 or exists (select from agent.step s where s.run_id = e.run and s.seq = e.seq - 1))
           -- As agent_internal.insert_step() does it; not as an anti join, which would read all steps.
           and (select true from agent.step s where s.run_id = e.run and s.seq = e.seq limit 1) is null
        returning run_id
    ), ended as (
        update agent.run r
           set state = e.state, result = e.result,
               error = case when e.state = 'cancelled' then coalesce(agent_internal.cancel_reason(r), e.error) else e.error end,
               tokens = coalesce(e.tokens, 0), cost = e.cost,
               lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false
          from unnest(_given) e
         where r.id = e.run and r.id = any (_held) and e.state is not null
           and (e.seq is null or r.id in (select run_id from recorded))
        returning r.id
    )
    select array(select run_id from recorded union select id from ended), array(select id from ended) into _done, _ended;
    _freed := array(select r.blocked_by from agent.run r where r.blocked_by = any (_ended));
    -- As agent_internal.unblock() says it.
    _next := array(select e.id from agent.run e
                    where e.id = any (_ended) and e.ordering_key is not null and e.id <> all (_freed)
                      and (select true from agent.run p
                            where p.queue_id = e.queue_id and p.ordering_key = e.ordering_key
                              and p.state = 'pending' and p.blocked_by is null and p.not_before is null
                            limit 1));
    update agent.run r set blocked_by = null where r.blocked_by = any (_freed);
    return query
        select e.run, e.run = any (_freed || _next),
               case when e.run = any (_done) then null
                    when e.run = any (_held)
                         and exists (select from agent.step s where s.run_id = e.run and s.seq = e.seq) then 'WA004'
                    when e.run = any (_held) then 'WA001'
                    else coalesce((
                         select case when agent_internal.cancel_reason(r) is not null
                                           and coalesce(e.state not in ('cancelled', 'succeeded'), true) then 'WA002' else '55P03' end
                            from agent.run r
                           where r.id = e.run and r.lease = e.lease and r.lease_expires_at is not null), 'WA001') end
          from unnest(_given) e;
end;
$$;
comment on function agent_internal.record_many(jsonb) is 'Record a step, the end, or both, of each of many runs';

create or replace function agent_internal.finish_run(
    _run bigint, _lease bigint, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric,
    _reserved boolean default false
)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _unblocked boolean;
begin
    update agent.run
       set state = _state, result = _result,
           error = case when _state = 'cancelled' then coalesce(agent_internal.cancel_reason(run), _error) else _error end,
           tokens = _tokens, cost = _cost,
           lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false
     where id = _run
       and lease = _lease and lease_expires_at is not null  -- planted: no-fence-of-runs/finish
       and (_state in ('cancelled', 'succeeded')
            or not cancel_requested and not exists (select from agent_internal.cancel_request c where c.run_id = run.id))
       and agent_internal.may_hold(kind, principal, tenant);
    if not found then
        perform agent_internal.fence(_run, _lease);  -- raises the reason
    end if;
    _unblocked := agent_internal.unblock(_run);
    if _reserved then
        perform agent_internal.release(_run);
    end if;
    return _unblocked;
end;
$$;
comment on function agent_internal.finish_run(bigint, bigint, agent.run_state, text, jsonb, bigint, numeric, boolean) is 'End a run that the caller holds';
