-- Who may claim and hold runs, and for how long.
--
-- A login that asks a question holds its run, and is no worker.  Functions for the holder of a run have the
-- owner's rights, and agent_internal.fence() checks that the caller may hold the run.

-- A login that asks is not trusted with more than its questions: not with a lease that outlives its process for long, nor
-- with figures that are no numbers.
create or replace function agent_internal.allowed_lease(_lease interval)
    returns interval
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return case when agent_internal.is_runner() then _lease else least(_lease, interval '2 minutes') end;
end;
$$;

-- Extend the leases of runs in one statement.
--
-- Returns the runs that their worker must release: the lease is lost, or cancellation was requested.  A run that
-- is locked is in its own write-back; no other worker can claim it before that ends.
--
-- Raises 42501 if the caller may not hold one of the runs.
create or replace function agent_internal.heartbeat(_worker text, _runs bigint[], _leases bigint[], _lease interval)
    returns table (run_id bigint, cancelled boolean)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if agent_internal.is_runner() then
        -- A worker that holds nothing is seen rarely: else an idle server would write WAL.
        update agent.worker set seen_at = agent_internal.now()
         where name = _worker and (cardinality(_runs) > 0 or seen_at < agent_internal.now() - least(_lease * 1.5, interval '45 s'));
    else
        perform agent_internal.check_holder(mine.id) from unnest(_runs) as mine (id);
    end if;
    with held as materialized (
        select r.id
          from unnest(_runs, _leases) as mine (id, lease)
               join agent.run r on r.id = mine.id and r.lease = mine.lease
         where r.lease_expires_at is not null
           and (not r.cancel_requested or agent_internal.is_runner())  -- a login that asks cannot delay it
         order by r.id
           for no key update of r skip locked
    )
    update agent.run r set lease_expires_at = agent_internal.now() + agent_internal.allowed_lease(_lease) from held where r.id = held.id;
    return query
        select mine.id, coalesce(r.cancel_requested, false) or c.run_id is not null
          from unnest(_runs, _leases) as mine (id, lease)
               left join agent.run r on r.id = mine.id
               left join agent_internal.cancel_request c on c.run_id = mine.id
         where r.id is null or r.lease <> mine.lease or r.state <> 'running' or r.cancel_requested or c.run_id is not null;
end;
$$;
comment on function agent_internal.heartbeat(text, bigint[], bigint[], interval) is 'Extend the leases of runs that the caller holds';

-- Raise 42501 unless the caller may claim from these queues: a worker from any, another login only from the
-- queue of one of its sessions.  Raise WA017 in a copy of the database.
create or replace function agent_internal.check_claim(_kinds text[], _queue bigint)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_database();
    if agent_internal.is_runner()
       or _kinds = '{question}'
          and exists (select from agent_internal.queue q join agent.session s on s.tenant = q.tenant and s.id = q.session_id
                       where q.id = _queue and s.owner = agent.current_principal() and s.tenant = agent.current_tenant()) then
        return;
    end if;
    raise exception 'role "%" may not claim these runs', agent.current_principal()
        using errcode = '42501', hint = 'Without grant_runner, a role can claim only from the queue of one of its sessions.';
end;
$$;

-- Who acts as somebody is not the runner, whatever its login may do.
create or replace function agent_internal.is_runner()
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select has_table_privilege(coalesce(nullif(current_setting('role'), 'none'), session_user), 'agent.run'::regclass, 'update')
               and not (agent_internal.identity()).named);
end;
$$;
comment on function agent_internal.is_runner() is 'Whether the caller has agent.grant_runner';

create or replace function agent_internal.may_hold(_kind text, _principal name, _tenant text)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select _kind = 'question' and _principal = agent.current_principal() and _tenant = agent.current_tenant() or agent_internal.is_runner()
$$;

create or replace function agent_internal.check_holder(_run bigint)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.is_runner()
       and not exists (select from agent.run r where r.id = _run and agent_internal.may_hold(r.kind, r.principal, r.tenant)) then
        raise exception 'role "%" may not hold run %', agent.current_principal(), _run using errcode = '42501';
    end if;
end;
$$;
