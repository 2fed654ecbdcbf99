-- What people do to runs: cancel, retry, resolve.

-- Cancel runs that became claimable after their attachment was detached while paused: of changes that committed before
-- and were ingested later, or requeued after a retry or a decision.  No claim serves these queues.
create or replace function agent_internal.cancel_detached()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _queues constant bigint[] := array(
        select q.id from agent_internal.queue q
         where q.attachment_id is not null and q.paused
           and not exists (select from agent.attachment a where a.id = q.attachment_id));
begin
    if _queues <> '{}' then
        perform agent_internal.cancel_runs(array(
            select r.id from agent.run r
             where r.queue_id = any (_queues) and r.state = 'pending' and r.blocked_by is null and r.not_before is null));
    end if;
end;
$$;
comment on function agent_internal.cancel_detached() is 'Cancel runs that became claimable after their attachment was detached while paused';

-- Cancel runs that are not being executed.  Locked runs are skipped: a claim or a decision has them.
create or replace function agent_internal.cancel_runs(_runs bigint[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    with ended as (
        select id from agent.run
         where id = any (_runs) and state in ('pending', 'waiting_retry', 'needs_review')
         order by id for no key update skip locked
    ), cancelled as (
        update agent.run r
           set state = 'cancelled', finished_at = agent_internal.now(), next_attempt_at = null, not_before = null, blocked_by = null,
               error = jsonb_build_object('reason', 'attachment was detached while paused')
          from ended e where r.id = e.id
        returning r.id
    )
    update agent.run b set blocked_by = null from cancelled c where b.blocked_by = c.id and b.id <> all (_runs);
end;
$$;

-- Cancel a run: at once, or, if it is running, as soon as its worker receives the request.
--
-- A step can have locked the run for as long as its tool takes: then the request is stored beside it.
--
-- Approvals are locked before the run, as in a decision: the other order could deadlock.
create or replace function agent_internal.cancel_run(run_id bigint, reason text default null)
    returns agent.run_state
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
    if not exists (select from agent.run r where r.id = cancel_run.run_id and agent_internal.sees(r.tenant)) then
        raise exception 'run % does not exist', cancel_run.run_id using errcode = 'WA003';
    end if;
    perform from agent.approval a where a.run_id = cancel_run.run_id and a.state = 'pending' order by a.id for no key update;
    if (select r.state from agent.run r where r.id = cancel_run.run_id) = 'running' then
        select * into _run from agent.run where id = cancel_run.run_id for no key update skip locked;
        if not found then
            insert into agent_internal.cancel_request (run_id, reason) values (cancel_run.run_id, cancel_run.reason)
            on conflict do nothing;
            perform agent_internal.audit('run.cancelled', cancel_run.run_id::text,
                                         _tenant => (select r.tenant from agent.run r where r.id = cancel_run.run_id));
            perform pg_notify('walagent_cancel', cancel_run.run_id::text);
            return 'running';
        end if;
    else
        select * into _run from agent.run where id = cancel_run.run_id for no key update;
    end if;
    if _run.id is null then
        raise exception 'run % does not exist', cancel_run.run_id using errcode = 'WA003';
    elsif agent_internal.is_final(_run.state) then
        raise exception 'run % is already %', _run.id, _run.state using errcode = 'WA003';
    end if;
    perform agent_internal.audit('run.cancelled', _run.id::text, _tenant => _run.tenant);
    if _run.state = 'running' then
        update agent.run set cancel_requested = true, error = jsonb_build_object('reason', coalesce(cancel_run.reason, 'cancelled'))
         where id = _run.id;
        perform pg_notify('walagent_cancel', _run.id::text);
        return 'running';
    end if;
    update agent.approval set state = 'cancelled', decided_at = agent_internal.now()
     where approval.run_id = _run.id and state = 'pending';
    update agent.run
       set state = 'cancelled', finished_at = agent_internal.now(), next_attempt_at = null, not_before = null, blocked_by = null,
           error = jsonb_build_object('reason', coalesce(cancel_run.reason, 'cancelled'))
     where id = _run.id;
    perform agent_internal.unblock(_run.id);
    return 'cancelled';
end;
$$;
comment on function agent_internal.cancel_run(bigint, text) is 'Cancel a run, for functions that have checked who calls';

create or replace function agent.cancel(run_id bigint, reason text default null)
    returns agent.run_state
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_role('approver');
    return agent_internal.cancel_run(cancel.run_id, cancel.reason);
end;
$$;
comment on function agent.cancel(bigint, text) is 'Cancel a run';

-- Apply requests to runs that are not locked any more.
create or replace function agent_internal.apply_cancel_requests()
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _asked   record;
    _waiting bigint;
    _locked  bigint;
begin
    for _asked in select c.run_id, c.reason from agent_internal.cancel_request c order by c.run_id loop
        select count(*) into _waiting from agent.approval a where a.run_id = _asked.run_id and a.state = 'pending';
        perform from agent.approval a
          where a.run_id = _asked.run_id and a.state = 'pending' order by a.id for no key update skip locked;
        get diagnostics _locked = row_count;
        continue when _locked <> _waiting;
        perform from agent.run r where r.id = _asked.run_id for no key update skip locked;
        continue when not found;
        delete from agent_internal.cancel_request where run_id = _asked.run_id;
        perform agent.cancel(r.id, _asked.reason) from agent.run r
          where r.id = _asked.run_id and not agent_internal.is_final(r.state);
    end loop;
end;
$$;
comment on function agent_internal.apply_cancel_requests() is 'Apply requests to cancel runs that a step had locked';

-- What an agent may see of a change by a definition: *_change* can be that of an earlier one, with more columns.
create or replace function agent_internal.visible_change(_change jsonb, _definition jsonb)
    returns jsonb
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    with shown (columns) as (
        select array(select jsonb_array_elements_text(_definition -> 'columns')
                      union select jsonb_array_elements_text(_definition -> 'key_columns')
                      union select b.value from jsonb_array_elements(_definition -> 'tools') t, jsonb_each_text(t -> 'bind') b)
    )
    select case when jsonb_typeof(_definition -> 'columns') is distinct from 'array' then _change
           else _change || coalesce((
                    select jsonb_object_agg(side.key, (
                               select coalesce(jsonb_object_agg(v.key, v.value), '{}')
                                 from jsonb_each(side.value) v where v.key = any (shown.columns)))
                      from jsonb_each(_change) side cross join shown
                     where side.key in ('new', 'old') and jsonb_typeof(side.value) = 'object'), '{}') end
$$;

-- The first call of a run that wrote or sent something, or might have; NULL if no call did.
--
-- A tool only reads if each version of the attachment that has it says so.  A call that failed was rolled back, unless
-- it went outside: then it has an intent.  One of which a person said that it did not happen does not count, nor one whose
-- changes a revert of the whole run has taken back.
create or replace function agent_internal.effect_of_run(_run agent.run)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('call of "%s" (step %s)', s.content ->> 'name', s.seq)
      from agent.step s
     where s.run_id = _run.id and (s.kind = 'intent' or s.kind = 'result' and not (s.content -> 'is_error')::boolean)
       and not exists (select from agent.step r
                        where r.run_id = s.run_id and r.kind = 'result' and r.seq > s.seq and r.content ->> 'call_id' = s.content ->> 'call_id'
                          and r.content ? 'reviewed_by' and (r.content -> 'is_error')::boolean)
       and not coalesce((select bool_and(t ->> 'effect' = 'read')
                           from agent.attachment_version v cross join jsonb_array_elements(v.definition -> 'tools') t
                          where v.attachment_id = _run.attachment_id and t ->> 'name' = s.content ->> 'name'), false)
       and (s.kind = 'intent' or agent_internal.in_effect(_run.id)
            or not exists (select from agent.row_change c where c.run_id = s.run_id and c.step = s.seq))
     order by s.seq
     limit 1
$$;
comment on function agent_internal.effect_of_run(agent.run) is 'The first call of a run that wrote or sent something, or might have';

-- Requeue an ended run.  Its steps stay; limits and attempts start again.  It gets the current version of its attachment,
-- if that is not detached, and sees no more of the change than that version shows.  For the lock see
-- agent_internal.ingest(): until this commits, no run starts as it is inserted.
--
-- Args: fresh: show the model nothing of the steps before, as in a new run.  It could not know what they did, so a run that
--   wrote or sent something is refused, unless its changes were taken back.
create or replace function agent.retry(run_id bigint, same_version boolean default false, fresh boolean default false)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run        agent.run;
    _version    integer;
    _definition jsonb;
    _effect     text;
begin
    perform agent_internal.check_role('approver');
    select * into _run from agent.run where id = retry.run_id for no key update;
    if not found then
        raise exception 'run % does not exist', retry.run_id using errcode = 'WA003';
    elsif _run.state not in ('failed', 'dead', 'cancelled') then
        raise exception 'run % is %; only failed, dead and cancelled runs can be retried', _run.id, _run.state
            using errcode = 'WA003';
    elsif exists (select from agent_internal.queue q
                   where q.id = _run.queue_id and q.attachment_id is not null and q.paused
                     and not exists (select from agent.attachment a where a.id = q.attachment_id)) then
        raise exception 'run % cannot be retried: its attachment was detached while paused', _run.id using errcode = 'WA003';
    end if;
    if retry.fresh then
        _effect := agent_internal.effect_of_run(_run);
        if _run.kind <> 'agent' then
            raise exception 'run % is of kind "%"; only runs of agents can begin afresh', _run.id, _run.kind using errcode = 'WA003',
                hint = 'Retry it without fresh.';
        elsif _effect is not null then
            raise exception 'run % cannot begin afresh: its % wrote or sent something, or might have', _run.id, _effect
                using errcode = 'WA003', hint = 'Retry it without fresh: the model is shown what was done. '
                                                  'Or take its changes back first, with walagent revert.';
        end if;
    end if;
    perform agent_internal.audit('run.retried', _run.id::text,
                                 case when retry.fresh then '{"fresh": true}'::jsonb else '{}' end, _run.tenant);
    perform agent_internal.prevent_starts();
    perform agent_internal.insert_step(_run.id, null, 'note', jsonb_strip_nulls(jsonb_build_object(
        'retry', true, 'by', agent.current_principal(), 'fresh', nullif(retry.fresh, false))));
    if not same_version then
        select v.version, v.definition into _version, _definition
          from agent.attachment a
               join agent.attachment_version v on v.attachment_id = a.id and v.version = a.version
         where a.id = _run.attachment_id and a.version <> _run.attachment_version
           and a.canary_definition ->> 'version' is distinct from _run.attachment_version::text;  -- a canary keeps its runs
    end if;
    if _version is not null then
        update agent_internal.merged_change m
           set change = agent_internal.visible_change(m.change, _definition) where m.run_id = _run.id;
    end if;
    update agent.run
       set state = 'pending', attempt = 0, started_at = null, finished_at = null, error = null, result = null,
           attachment_version = coalesce(_version, attachment_version),
           change = case when _version is null then change else agent_internal.visible_change(change, _definition) end
     where id = _run.id;
end;
$$;
comment on function agent.retry(bigint, boolean, boolean) is 'Requeue a failed, dead or cancelled run, with the current version of its attachment';

-- The same for many: all or none.
create or replace function agent.retry_runs(run_ids bigint[], same_version boolean default false, fresh boolean default false)
    returns bigint
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    select count(*) from (select agent.retry(id, retry_runs.same_version, retry_runs.fresh)
                            from (select distinct unnest(run_ids) as id order by 1) i offset 0) done
$$;
comment on function agent.retry_runs(bigint[], boolean, boolean) is 'Requeue many runs, or none if one cannot be requeued; return their number';

create or replace function agent.cancel_runs(run_ids bigint[], reason text default null)
    returns bigint
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    select count(*) from (select agent.cancel(id, cancel_runs.reason)
                            from (select distinct unnest(run_ids) as id order by 1) i offset 0) done
$$;
comment on function agent.cancel_runs(bigint[], text) is 'Cancel many runs, or none if one has ended; return their number';

-- Let a waiting run start before others of its tenant, or after them.  Those that it waits for are raised with it, and it
-- cannot have less than one that waits for it.
--
-- Returns the priority that it has then.  Raises WA003 if it does not exist, is running or has ended, 22023 beyond the limits.
create or replace function agent.set_priority(run_id bigint, priority integer)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run  agent.run;
    _rank integer;
begin
    perform agent_internal.check_role('approver');
    if set_priority.priority is null or set_priority.priority not between -2000 and 2000 then
        raise exception 'priority must be from -2000 to 2000, not %', coalesce(set_priority.priority::text, 'NULL') using errcode = '22023';
    end if;
    select * into _run from agent.run r where r.id = set_priority.run_id for no key update;
    if not found then
        raise exception 'run % does not exist', set_priority.run_id using errcode = 'WA003';
    elsif _run.state not in ('pending', 'waiting_approval', 'waiting_retry', 'needs_review') then
        raise exception 'run % is %; only a run that waits has a priority to set', _run.id, _run.state using errcode = 'WA003';
    end if;
    -- In a statement of its own: whatever waits for this run was marked before it was locked.
    _rank := greatest(set_priority.priority, (select max(w.priority) from agent.run w where w.blocked_by = _run.id));
    update agent.run r set priority = _rank where r.id = _run.id;
    perform agent_internal.raise_before(array[_run.id]);
    if exists (select from agent.run p where p.id = _run.blocked_by and p.priority < _rank) then
        update agent.run r set blocked_by = null where r.id = _run.id;  -- it is locked: a claim looks again
    end if;
    perform agent_internal.audit('run.prioritized', _run.id::text, jsonb_build_object('from', _run.priority, 'to', _rank), _run.tenant);
    perform agent_internal.wake_workers();
    return _rank;
end;
$$;
comment on function agent.set_priority(bigint, integer) is 'Set the priority of a waiting run; return what it is then';

-- Continue a run that waits for a person before or after a call: approve what it waits for.
--
-- Returns the number of calls.  Raises WA003 if it waits for none.
create or replace function agent.resume_run(run_id bigint)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _ids constant bigint[] := array(select a.id from agent.approval a
                                     where a.run_id = resume_run.run_id and a.state = 'pending' order by a.id);
begin
    if _ids = '{}' then
        raise exception 'run % does not wait for a person', resume_run.run_id using errcode = 'WA003';
    end if;
    perform agent.approve(i) from unnest(_ids) i;
    return cardinality(_ids);
end;
$$;
comment on function agent.resume_run(bigint) is 'Continue a run that waits for a person before or after a call';

-- Record the outcome of an unsafe tool call that is unknown to walagent: it happened, with *note* as result, or not.
create or replace function agent.resolve(run_id bigint, happened boolean, note text default '')
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run    agent.run;
    _intent jsonb;
begin
    perform agent_internal.check_role('approver');
    select * into _run from agent.run where id = resolve.run_id for no key update;
    if not found or _run.state <> 'needs_review' then
        raise exception 'run % is not waiting for a review', resolve.run_id using errcode = 'WA003';
    end if;
    select content into _intent from agent.step
     where step.run_id = _run.id and kind = 'intent' order by seq desc limit 1;
    perform agent_internal.insert_step(_run.id, null, 'result', jsonb_build_object(
        'call_id', _intent ->> 'call_id', 'name', _intent ->> 'name', 'is_error', not happened,
        'content', case when happened then coalesce(nullif(note, ''), 'done')
                        else 'this did not happen' || coalesce(': ' || nullif(note, ''), '') end,
        'reviewed_by', agent.current_principal()));
    perform agent_internal.audit('run.resolved', _run.id::text, jsonb_build_object('happened', happened), _run.tenant);
    update agent.run set state = 'pending', error = null where id = _run.id;
end;
$$;
comment on function agent.resolve(bigint, boolean, text) is 'Resolve an unsafe tool call whose outcome is unknown: whether it happened';
