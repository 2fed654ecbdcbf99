-- What people do to runs: cancel, retry, resolve.

-- The transaction of a person can stay open for a long time, and every claim and every ingestion needs the queue: it
-- is updated at commit.
create function agent_internal.notify_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent_internal.queue set queued = true where id = new.queue_id and not queued;
    perform pg_notify('walagent_runs', '');
    return null;
end;
$$;
create constraint trigger notify_queue
    after update of state on agent.run
    deferrable initially deferred
    for each row when (new.state = 'pending' and old.state in ('waiting_approval', 'needs_review', 'failed', 'dead', 'cancelled')
                       or new.state = 'cancelled' and old.state <> 'running')
    execute function agent_internal.notify_queue();

-- Cancel a run: at once, or, if it is running, as soon as its worker receives the request.
--
-- Approvals are locked before the run, as in a decision: the other order could deadlock.
create function agent.cancel(run_id bigint, reason text default null)
    returns agent.run_state
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
    perform from agent.approval a where a.run_id = cancel.run_id and a.state = 'pending' order by a.id for no key update;
    select * into _run from agent.run where id = cancel.run_id for no key update;
    if not found then
        raise exception 'run % does not exist', cancel.run_id using errcode = 'WA003';
    elsif agent_internal.is_final(_run.state) then
        raise exception 'run % is already %', _run.id, _run.state using errcode = 'WA003';
    elsif _run.state = 'running' then
        update agent.run set cancel_requested = true, error = jsonb_build_object('reason', coalesce(cancel.reason, 'cancelled'))
         where id = _run.id;
        perform pg_notify('walagent_cancel', _run.id::text);
        return 'running';
    end if;
    update agent.approval set state = 'cancelled', decided_at = agent_internal.now()
     where approval.run_id = _run.id and state = 'pending';
    update agent.run
       set state = 'cancelled', finished_at = agent_internal.now(), next_attempt_at = null, not_before = null, blocked_by = null,
           error = jsonb_build_object('reason', coalesce(cancel.reason, 'cancelled'))
     where id = _run.id;
    perform agent_internal.unblock(_run.id);
    return 'cancelled';
end;
$$;
comment on function agent.cancel(bigint, text) is 'Cancel a run';

-- Requeue an ended run.  Its steps stay; limits and attempts start again.  For the lock see agent_internal.ingest():
-- until this commits, no run starts as it is inserted.
create function agent.retry(run_id bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
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
    perform pg_advisory_xact_lock_shared(hashtext('walagent.start'));
    perform agent_internal.insert_step(_run.id, null, 'note', jsonb_build_object(
        'retry', true, 'by', agent.current_principal()));
    update agent.run set state = 'pending', attempt = 0, finished_at = null, error = null, result = null where id = _run.id;
end;
$$;
comment on function agent.retry(bigint) is 'Requeue a failed, dead or cancelled run';

-- Record the outcome of an unsafe tool call that is unknown to walagent: it happened, with *note* as result, or not.
create function agent.resolve(run_id bigint, happened boolean, note text default '')
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run    agent.run;
    _intent jsonb;
begin
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
    update agent.run set state = 'pending', error = null where id = _run.id;
end;
$$;
comment on function agent.resolve(bigint, boolean, text) is 'Resolve an unsafe tool call whose outcome is unknown: whether it happened';
