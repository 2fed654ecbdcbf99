-- Remove old runs, in batches.
--
-- A run is removed with its steps, approvals, merged changes and spend.  Runs in which a person has decided
-- something are the record of that decision and have a retention period of their own.  Definitions
-- (agent.attachment_version) and gaps are few, and stay.

create function agent_internal.has_decision(_run bigint)
    returns boolean
    language sql
    stable
as $$
    select exists (select from agent.approval p where p.run_id = _run and p.decided_by is not null)
        or exists (select from agent.step s
                    where s.run_id = _run and s.kind = 'result' and s.content ? 'reviewed_by')
$$;
comment on function agent_internal.has_decision(bigint) is 'Whether a person has approved, rejected or reviewed something in a run';

-- Remove those of the next *_batch* runs after *_after* that ended longer than *_keep* ago.
--
-- Ids grow with time, so no index is needed that every run would pay for: from the first on, runs
-- are old, and where a whole batch is too young the rest is, too.  A run that somebody holds is left
-- for the next time: nobody waits for us, and we wait for nobody.
--
-- Args: _keep_decided: for runs in which a person has decided something; NULL: for ever.
-- Returns: last: where to go on; NULL: nothing that follows is old enough.
create function agent_internal.prune_some(
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
               for update skip locked) old
     where r.id = old.id;
    get diagnostics removed = row_count;
    if coalesce(_young, true) then
        last := null;
    end if;
end;
$$;
comment on function agent_internal.prune_some(interval, interval, bigint, integer) is 'Remove old runs among the next few';

-- Remove what is left of processes and attachments that are gone.
--
-- Workers say that they live every few seconds; one that was silent for *_keep*, at most a day, is
-- dead.  Rows that a backfill had to leave alone are needed until it is done.
create function agent_internal.prune_rest(_keep interval)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    delete from agent.worker where seen_at < agent_internal.now() - least(_keep, interval '1 day');
    delete from agent_internal.backfill_seen
     where attachment_id <> all (array(select b.attachment_id from agent.backfill b
                                        where b.state in ('pending', 'running')));
$$;
comment on function agent_internal.prune_rest(interval) is 'Remove what is left of workers and backfills that are gone';

-- The same by hand, in the caller's transaction.
create function agent.prune(keep interval, max_runs integer default 10000, keep_decided interval default null)
    returns integer
    language plpgsql
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
    return _total;
end;
$$;
comment on function agent.prune(interval, integer, interval) is 'Remove ended runs older than an interval, in batches; those with a person''s decision only where keep_decided says so';
