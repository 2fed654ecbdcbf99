-- Remove old runs, in batches.
--
-- A run is removed with its steps, approvals, merged changes and spend.  Runs in which a person has decided
-- something are the record of that decision and have a retention period of their own.  Definitions
-- (agent.attachment_version) and gaps are few, and stay.

create or replace function agent_internal.has_decision(_run bigint)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from agent.approval p where p.run_id = _run and p.decided_by is not null)
        or exists (select from agent.step s
                    where s.run_id = _run and s.kind = 'result' and s.content ? 'reviewed_by')
$$;
comment on function agent_internal.has_decision(bigint) is 'Whether a person has approved, rejected or resolved a call of a run';

-- Remove those of the next *_batch* runs after *_after* that ended more than *_keep* ago.
--
-- IDs increase with time, so no index is needed: the first runs are the oldest, and if a whole batch is too young, so
-- are the others.  Locked runs are skipped.
--
-- Args: _keep_decided: for runs in which a person has decided something; NULL: permanently.
-- Returns: last: the *_after* of the next call; NULL: nothing that follows is old enough.
create or replace function agent_internal.prune_some(
    _keep interval, _keep_decided interval, _after bigint, _batch integer, out removed integer, out last bigint
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _young boolean;
begin
    select max(s.id), bool_and(s.created_at >= agent_internal.now() - _keep) into last, _young
      from (select r.id, r.created_at from agent.run r where r.id > _after order by r.id limit _batch) s;
    delete from agent.run r
     using (select o.id
              from agent.run o
             where o.id > _after and o.id <= last
               and o.finished_at < agent_internal.now() - _keep
               and (not agent_internal.has_decision(o.id) or o.finished_at < agent_internal.now() - _keep_decided)
               and not agent_internal.is_in_batch(o.id)  -- its reply is charged when the batch ends
               for update skip locked) old
     where r.id = old.id;
    get diagnostics removed = row_count;
    if coalesce(_young, true) then
        last := null;
    end if;
end;
$$;
comment on function agent_internal.prune_some(interval, interval, bigint, integer) is 'Remove old runs, one batch';

-- For manual use, in the transaction of the caller.
create or replace function agent.prune(keep interval, max_runs integer default 10000, keep_decided interval default null)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _some  record;
    _after bigint := 0;
    _total integer := 0;
begin
    while _after is not null and _total < max_runs loop
        select * into _some from agent_internal.prune_some(keep, keep_decided, _after, least(1000, max_runs - _total));
        _total := _total + _some.removed;
        _after := _some.last;
    end loop;
    perform agent_internal.prune_issues(keep);
    perform agent_internal.prune_evaluations(keep);
    perform agent_internal.prune_batches(keep);
    return _total;
end;
$$;
comment on function agent.prune(interval, integer, interval) is 'Remove runs that ended before an interval ago; those with a decision of a person only after keep_decided';

create or replace function agent_internal.prune_rest(_keep interval)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    delete from agent.worker where seen_at < agent_internal.now() - least(_keep, interval '1 day');
    delete from agent_internal.backfill_seen
     where attachment_id <> all (array(select b.attachment_id from agent.backfill b
                                        where b.state in ('pending', 'running')));
    delete from agent_internal.queue q
     where q.attachment_id is not null
       and not exists (select from agent.attachment a where a.id = q.attachment_id)
       and not exists (select from agent.run r where r.attachment_id = q.attachment_id)
       and not exists (select from agent.attachment_version v
                        where v.attachment_id = q.attachment_id and v.active_until is null);
    select agent_internal.prune_issues(_keep);
    select agent_internal.prune_evaluations(_keep);
    select agent_internal.prune_batches(_keep);
    select agent.prune_memory(_keep);
$$;
comment on function agent_internal.prune_rest(interval) is 'Remove stopped workers, the state of finished backfills, and queues of detached attachments';
