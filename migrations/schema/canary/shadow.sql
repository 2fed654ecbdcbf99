-- A shadow is a canary whose runs are trials: each change that it gets has its run of the version that there is, and after that one
-- a trial of the version of the shadow, in transactions that are rolled back.  What is kept is a case of an evaluation.

-- Begin the evaluation of a shadow; NULL for a canary.
create or replace function agent_internal.begin_shadow(_attachment agent.attachment)
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _id bigint;
begin
    if _attachment.canary_shadow then
        insert into agent.evaluation (attachment, agent, model, draft, planned, shadow, made_by, held_until, tenant)
        values (_attachment.name, _attachment.canary_definition ->> 'agent', _attachment.canary_definition ->> 'model',
                _attachment.canary -> 'changes', 0, (_attachment.canary_definition ->> 'version')::integer,
                coalesce(agent.current_principal(), session_user), agent_internal.now(), _attachment.tenant)
        returning id into _id;
    end if;
    return _id;
end;
$$;
comment on function agent_internal.begin_shadow(agent.attachment) is 'Begin the evaluation that has the trials of a shadow';

-- End the evaluation of a shadow.  What waits is not tried any more.
create or replace function agent_internal.end_shadow(_attachment agent.attachment)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _number constant integer := _attachment.canary_definition ->> 'version';
begin
    update agent.evaluation e set ended_at = agent_internal.now()
      from agent.canary c
     where c.attachment_id = _attachment.id and c.version = _number and e.id = c.evaluation_id;
    delete from agent_internal.shadowed_run s where s.attachment_id = _attachment.id and s.version = _number and not s.ended;
end;
$$;
comment on function agent_internal.end_shadow(agent.attachment) is 'End the evaluation of a shadow';

-- Record which of the runs that were just inserted have a shadow, in the transaction that inserted them.
--
-- Args: _runs: as of agent_internal.insert_runs(); those with "shadow", a version.
create or replace function agent_internal.insert_shadowed(_generation integer, _runs jsonb)
    returns void
    language sql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
    insert into agent_internal.shadowed_run (tenant, run_id, attachment_id, version)
    select r.tenant, r.id, r.attachment_id, n.shadow
      from jsonb_to_recordset(_runs) as n (attachment_id bigint, commit_lsn pg_lsn, ordinal integer, shadow integer)
           join agent.run r on (r.attachment_id, r.generation, r.commit_lsn, r.ordinal) = (n.attachment_id, _generation, n.commit_lsn, n.ordinal)
     where n.shadow is not null
    on conflict do nothing
$$;
comment on function agent_internal.insert_shadowed(integer, jsonb) is 'Record which runs have a shadow';

-- Claim the next change of a shadow, for walagent: one of each attachment at a time, after its run has ended, and only while no
-- run of its attachment is ready.
--
-- Returns the run, and what the shadow is: evaluation, name of the attachment, its tenant, definition.  No row: none is due.
create or replace function agent_internal.claim_shadow(_lease interval)
    returns table (run_id bigint, attempt integer, evaluation_id bigint, attachment text, tenant text, definition jsonb)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _now  constant timestamptz := agent_internal.now();
    _some constant bigint := 100;  -- at once
    _on    agent.canary;
    _run   bigint;
    _count bigint;
begin
    for _on in select c.* from agent.canary c where c.state = 'running' and c.shadow order by random() for update skip locked loop
        continue when exists (select from agent_internal.shadowed_run s
                               where s.attachment_id = _on.attachment_id and s.version = _on.version and not s.ended and s.claimed_until > _now)
                   or exists (select from agent.run r
                               where r.queue_id = _on.attachment_id and r.state = 'pending' and coalesce(r.not_before <= _now, true));
        -- No trial of what the agent was not shown.
        loop
            with next as materialized (
                select s.run_id, r.state in ('cancelled', 'skipped') or not agent_internal.was_shown(r.id) as unseen
                  from agent_internal.shadowed_run s join agent.run r on r.id = s.run_id
                 where s.attachment_id = _on.attachment_id and s.version = _on.version and not s.ended
                   and coalesce(s.not_before <= _now, true) and agent_internal.is_final(r.state)
                 order by s.run_id limit _some
            ), gone as (
                delete from agent_internal.shadowed_run s using next n where s.run_id = n.run_id and n.unseen
            )
            select min(n.run_id) filter (where not n.unseen), count(*) into _run, _count from next n;
            exit when _run is not null or _count < _some;
        end loop;
        continue when _run is null;
        -- What a process has reserved that ended before its trial did.
        perform agent_internal.release_evaluation(_on.evaluation_id);
        update agent.evaluation e set held_until = _now + _lease where e.id = _on.evaluation_id;
        return query
            update agent_internal.shadowed_run s
               set claimed_until = _now + _lease, attempt = s.attempt + 1
              from agent.attachment a
             where s.run_id = _run and a.id = _on.attachment_id and a.canary_definition ->> 'version' = _on.version::text
            returning s.run_id, s.attempt, _on.evaluation_id, a.name, a.tenant, a.canary_definition;
        return;
    end loop;
end;
$$;
comment on function agent_internal.claim_shadow(interval) is 'Claim the next change of a shadow';

-- End a claim: with the case that came of it, an object with the columns of agent.evaluation_case, or until the next attempt.
--
-- Returns whether the claim was still in effect: if not, nothing is stored.
create or replace function agent_internal.end_shadowed(_run bigint, _attempt integer, _evaluation bigint, _case jsonb, _wait interval)
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent_internal.shadowed_run s
       set ended = _case is not null, claimed_until = null, not_before = agent_internal.now() + _wait
     where s.run_id = _run and s.attempt = _attempt and not s.ended;
    if not found then
        return false;
    end if;
    update agent.evaluation e set held_until = agent_internal.now() where e.id = _evaluation;
    if _case is not null then
        insert into agent.evaluation_case (evaluation_id, number, run_id, key, recorded, candidate, agrees, tenant)
        select _evaluation, coalesce((select max(o.number) from agent.evaluation_case o where o.evaluation_id = _evaluation), 0) + 1,
               _run, c.key, c.recorded, c.candidate, c.agrees, c.tenant
          from jsonb_populate_record(null::agent.evaluation_case, _case) c;
    end if;
    return true;
end;
$$;
comment on function agent_internal.end_shadowed(bigint, integer, bigint, jsonb, interval) is 'Store what a shadow came to on a change, or when it is tried again';

-- What a shadow came to, and what the runs beside it did, of the same changes.
--
-- Args: _side: baseline or shadow.  latency: median of the seconds that the model took.
create or replace function agent_internal.shadow_figures(_evaluation bigint, _side text)
    returns table (runs bigint, ended bigint, failures numeric, corrections numeric, cost numeric, latency numeric, calls numeric)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select count(*), count(*),
           round(avg((o.outcome ->> 'state' <> 'succeeded')::integer), 4),
           case _side when 'baseline'
                      then round(avg(exists (select from agent.correction k where k.run_id = x.run_id and k.kind <> 'bulk')::integer), 4) end,
           round(avg((o.outcome ->> 'cost')::numeric), 6),
           round((percentile_cont(0.5) within group (order by (o.outcome ->> 'seconds')::float8))::numeric, 3),
           null::numeric
      from agent.evaluation_case x
           cross join lateral (select case _side when 'baseline' then x.recorded else x.candidate end) as o (outcome)
     where x.evaluation_id = _evaluation
$$;
comment on function agent_internal.shadow_figures(bigint, text) is 'What a shadow came to, or the runs beside it';
