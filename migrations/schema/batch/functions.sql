-- Batches of a provider.
--
--   await_batch      a run waits, with its call as an item; what it may cost stays reserved
--   form_batches     items of a tenant and model become a batch, which is committed before it is submitted
--   claim_batch      one process has a batch, with a lease
--   begin_batch      its calls; from here on, the provider may have it
--   submit_batch     the provider has it, under this ID
--   store_replies    each is charged, and its run goes on
--   end_batch        what has no reply is asked directly, or waits for a smaller batch
--   batch_reply      the run takes the reply, as a step
--
-- Lock order: a run, then its items.  A transaction that has locked items locks runs with SKIP LOCKED only: a run that it
-- passes over is executed, and waits for the item, or is woken by agent_internal.wake_replied().

-- Wait for a batch with a call of a run that the caller holds.
--
-- Args: _seq: of the step that will have the reply.  _call: as in agent_internal.record_step().  _body: of the request, as sent.
-- Raises as agent_internal.fence() does.
create or replace function agent_internal.await_batch(
    _run bigint, _lease bigint, _seq integer, _call integer, _model text, _model_id text, _body text, _tokens bigint, _cost numeric
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
begin
    perform agent_internal.fence(_run, _lease);
    delete from agent_internal.batch_item i where i.run_id = _run and i.batch_id is null;  -- of before a retry
    insert into agent_internal.batch_item (tenant, run_id, seq, lease, call, model, model_id, body, size)
    select r.tenant, _run, _seq, _lease, _call, _model, _model_id, _body::json, octet_length(_body) from agent.run r where r.id = _run;
    perform agent_internal.park_locked(
        _run, 'waiting_retry', agent_internal.longest_batch(), true,
        jsonb_build_object('reason', format('waits for a batch of model "%s"', _model), 'batch', null), _tokens, _cost);
end;
$$;
comment on function agent_internal.await_batch(bigint, bigint, integer, integer, text, text, text, bigint, numeric) is 'Let a run that the caller holds wait for a batch with its call';

-- After this time a provider has ended any batch, and what has no reply is asked directly.
create or replace function agent_internal.longest_batch()
    returns interval
    language sql
    immutable
return interval '26 hours';

-- Take the reply to a call of a run that the caller holds, or wait on.
--
-- Returns NULL: it has no item of this step.  {"answer": ...}: as the provider sent it.  {"why": ...}: why it has none.
-- {"wait": ...}: the run was released for so many seconds.
-- Raises as agent_internal.fence() does.
create or replace function agent_internal.batch_reply(_run bigint, _lease bigint, _seq integer, _tokens bigint, _cost numeric)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _item agent_internal.batch_item;
    _left interval;
begin
    perform agent_internal.fence(_run, _lease);
    select * into _item from agent_internal.batch_item i where i.run_id = _run and i.seq = _seq for update;
    if not found then
        return null;
    elsif _item.state in ('answered', 'used') and _item.answer is not null then
        return jsonb_build_object('answer', _item.answer::text, 'batch', _item.batch_id);
    elsif _item.state = 'requeued' then
        delete from agent_internal.batch_item i where i.run_id = _run and i.seq = _seq;
        return null;
    elsif _item.state <> 'waiting' then
        return jsonb_build_object('why', coalesce(_item.why, 'no reply'), 'batch', _item.batch_id);
    end if;
    _left := _item.created_at + agent_internal.longest_batch() - agent_internal.now();
    if _left <= interval '0' then
        update agent_internal.batch_item i set state = 'unanswered', why = 'no reply in time', body = null
         where i.run_id = _run and i.seq = _seq;
        update agent.batch b set unanswered = b.unanswered + 1 where b.id = _item.batch_id;
        perform agent_internal.settle(_run, _item.lease, _item.call, null, null);  -- it may be charged yet: as reserved
        return jsonb_build_object('why', 'no reply in time', 'batch', _item.batch_id);
    end if;
    perform agent_internal.park_locked(
        _run, 'waiting_retry', _left, true, agent_internal.batch_reason(_item), _tokens, _cost);
    return jsonb_build_object('wait', extract(epoch from _left));
end;
$$;
comment on function agent_internal.batch_reply(bigint, bigint, integer, bigint, numeric) is 'Take the reply to a call of a run that the caller holds from its batch, or let the run wait on';

-- Whether the first call of a run waits for a batch, or for the run to take the reply.
create or replace function agent_internal.awaits_batch(_run agent.run)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select not agent_internal.is_final(_run.state)
           and exists (select from agent_internal.batch_item i
                        where i.run_id = _run.id and i.seq = 0 and i.state in ('waiting', 'answered'))
$$;

-- What a run with this item waits for, as its error.
create or replace function agent_internal.batch_reason(_item agent_internal.batch_item)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
        'reason', case when _item.batch_id is null then format('waits for a batch of model "%s"', _item.model)
                       else format('waits for batch %s of model "%s"', _item.batch_id, _item.model) end,
        'batch', _item.batch_id)
$$;

-- Whether a reservation is of a call that waits for a batch: no lease holds it.
create or replace function agent_internal.is_in_batch(_run bigint, _lease bigint, _call integer)
    returns boolean
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from agent_internal.batch_item i
                    where i.run_id = _run and i.lease = _lease and i.call = _call and i.state = 'waiting')
$$;
comment on function agent_internal.is_in_batch(bigint, bigint, integer) is 'Whether a reservation is of a call that waits for a batch';

-- Whether a call of a run waits for a batch.
create or replace function agent_internal.is_in_batch(_run bigint)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from agent_internal.batch_item i where i.run_id = _run and i.state = 'waiting')
$$;
comment on function agent_internal.is_in_batch(bigint) is 'Whether a call of a run waits for a batch';

-- Whether the run of a call still wants its reply: it has not ended, nor gone on, as one does that was cancelled and retried.
create or replace function agent_internal.is_wanted(_item agent_internal.batch_item)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from agent.run r where r.id = _item.run_id and not agent_internal.is_final(r.state))
           and not exists (select from agent.step s where s.run_id = _item.run_id and s.seq >= _item.seq)
$$;

-- Release the reservation of a call that waited for a batch.  Returns whether there was one.
create or replace function agent_internal.release_item(_run bigint, _lease bigint, _call integer)
    returns boolean
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent_internal.budget_use
      where budget_id in (select s.budget_id from agent.spend s
                           where s.run_id = _run and s.lease = _lease and s.call = _call and s.settled_at is null)
      order by budget_id for no key update;
    with gone as (
        delete from agent.spend s
         where s.run_id = _run and s.lease = _lease and s.call = _call and s.settled_at is null
        returning s.budget_id, s.reserved_cost, s.reserved_tokens
    )
    update agent_internal.budget_use u
       set reserved_cost = u.reserved_cost - g.reserved_cost, reserved_tokens = u.reserved_tokens - g.reserved_tokens
      from gone g where u.budget_id = g.budget_id;
    return found;
end;
$$;

-- Take the reply out of the item of a call: it is a step now.
create or replace function agent_internal.end_item(_run bigint, _seq integer)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    update agent_internal.batch_item i set state = 'used', answer = null
     where i.run_id = _run and i.seq = _seq and i.state in ('answered', 'unanswered')
       and exists (select from agent.step s where s.run_id = _run and s.seq = _seq)
$$;
comment on function agent_internal.end_item(bigint, integer) is 'Take the reply out of the item of a call that is a step now';

-- Make batches of the calls that wait, of a tenant and model each: as soon as they are enough, or the oldest has waited long
-- enough.  Calls of runs that have ended meanwhile are taken out.
--
-- Where the provider had no room for a batch, the next one is made five minutes later and has half as many calls, for a day.
--
-- Args: _items, _bytes: the most of one batch.
-- Returns: formed: how many were made; is_open: whether a batch has not ended, or a call waits to be in one.
create or replace function agent_internal.form_batches(
    _items integer, _bytes bigint, _wait interval, out formed integer, out is_open boolean
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _now    constant timestamptz := agent_internal.now();
    _group  record;
    _batch  bigint;
    _runs   bigint[];
    _left   bigint;
    _full_at timestamptz;
    _most   integer;
begin
    formed := 0;
    is_open := exists (select from agent_internal.batch_item i where i.batch_id is null and i.state = 'waiting');
    if not is_open then
        is_open := exists (select from agent.batch b where b.next_at is not null);
        return;
    end if;
    perform agent_internal.check_database();
    with gone as (
        delete from agent_internal.batch_item i
         where (i.run_id, i.seq) in (
               select o.run_id, o.seq from agent_internal.batch_item o
                where o.batch_id is null and o.state = 'waiting' and not agent_internal.is_wanted(o)
                order by o.run_id for update of o skip locked)
        returning i.run_id, i.lease, i.call
    )
    select count(*) filter (where agent_internal.release_item(g.run_id, g.lease, g.call)) into _left from gone g;
    for _group in
        select i.tenant, i.model, i.model_id from agent_internal.batch_item i
         where i.batch_id is null and i.state = 'waiting'
         group by 1, 2, 3
        having count(*) >= _items or sum(i.size) >= _bytes or min(i.created_at) <= _now - _wait
    loop
        select b.ended_at, greatest(b.items / 2, 1) into _full_at, _most
          from agent.batch b
         where b.tenant = _group.tenant and b.model = _group.model and b.requeued > 0 and b.ended_at > _now - interval '1 day'
         order by b.id desc limit 1;
        continue when _full_at > _now - interval '5 minutes';
        _most := least(_items, _most);
        loop
            select array_agg(s.run_id) filter (where s.sum <= _bytes or s.n = 1) into _runs
              from (select o.run_id, sum(o.size) over w, row_number() over w as n
                      from (select u.run_id, u.size from agent_internal.batch_item u
                             where u.tenant = _group.tenant and u.model = _group.model and u.model_id = _group.model_id
                               and u.batch_id is null and u.state = 'waiting'
                             order by u.run_id limit _most for update skip locked) o
                    window w as (order by o.run_id)) s;
            exit when _runs is null;
            insert into agent.batch (tenant, model, model_id, items, next_at)
            values (_group.tenant, _group.model, _group.model_id, cardinality(_runs), _now) returning id into _batch;
            update agent_internal.batch_item i
               set batch_id = _batch,
                   custom_id = format('%s-%s-%s-%s', (select d.id from agent_internal.database d), _batch, i.run_id, i.seq)
             where i.run_id = any (_runs) and i.batch_id is null and i.state = 'waiting';
            with waiting as (
                select r.id, agent_internal.batch_reason(i) as reason
                  from agent.run r join agent_internal.batch_item i on i.run_id = r.id and i.batch_id = _batch
                 where r.state = 'waiting_retry'
                 order by r.id for no key update of r skip locked
            )
            update agent.run r set error = w.reason from waiting w where r.id = w.id;
            formed := formed + 1;
            select count(*) into _left from agent_internal.batch_item i
             where i.tenant = _group.tenant and i.model = _group.model and i.model_id = _group.model_id
               and i.batch_id is null and i.state = 'waiting';
            exit when _left = 0;
        end loop;
    end loop;
end;
$$;
comment on function agent_internal.form_batches(integer, bigint, interval) is 'Make batches of the calls that wait for one';

-- Claim a batch that is due.  NULL: none is.
create or replace function agent_internal.claim_batch(_lease interval)
    returns agent.batch
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _batch agent.batch;
begin
    select * into _batch from agent.batch b
     where b.next_at <= agent_internal.now()
       and (b.lease_expires_at is null or b.lease_expires_at < agent_internal.now())
     order by b.next_at limit 1 for no key update skip locked;
    if not found then
        return null;
    end if;
    perform agent_internal.check_database();
    update agent.batch b set lease = b.lease + 1, lease_expires_at = agent_internal.now() + _lease
     where b.id = _batch.id returning * into _batch;
    return _batch;
end;
$$;
comment on function agent_internal.claim_batch(interval) is 'Claim a batch that is due';

-- Lock a batch that the caller has claimed, and extend its lease.
--
-- Raises WA001 if another process has it.
create or replace function agent_internal.hold_batch(_batch bigint, _lease bigint, _extend interval default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent.batch b
      where b.id = _batch and b.lease = _lease and b.lease_expires_at is not null and b.state <> 'ended'
        for no key update;
    if not found then
        raise exception 'batch % is no longer held with lease %', _batch, _lease using errcode = 'WA001';
    end if;
    if _extend is not null then
        update agent.batch b set lease_expires_at = agent_internal.now() + _extend where b.id = _batch;
    end if;
end;
$$;
comment on function agent_internal.hold_batch(bigint, bigint, interval) is 'Lock a batch that the caller has claimed, and extend its lease';

-- Return the calls of a batch, of which the provider may have been sent all from here on.  Before that, calls of runs that
-- have ended are taken out.
create or replace function agent_internal.begin_batch(_batch bigint, _lease bigint)
    returns table (custom_id text, body text)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    _ended bigint;
begin
    perform agent_internal.hold_batch(_batch, _lease);
    if (select b.tried_at from agent.batch b where b.id = _batch) is null then
        with gone as (
            delete from agent_internal.batch_item i
             where i.batch_id = _batch and i.state = 'waiting' and not agent_internal.is_wanted(i)
            returning i.run_id, i.lease, i.call
        )
        select count(*) filter (where agent_internal.release_item(g.run_id, g.lease, g.call)) into _ended from gone g;
        update agent.batch b
           set tried_at = agent_internal.now(),
               items = (select count(*) from agent_internal.batch_item i where i.batch_id = _batch)
         where b.id = _batch;
    end if;
    return query select i.custom_id, i.body::text from agent_internal.batch_item i
                  where i.batch_id = _batch and i.state = 'waiting' and i.body is not null order by i.run_id;
end;
$$;
comment on function agent_internal.begin_batch(bigint, bigint) is 'Return the calls of a batch that is about to be submitted';

-- Record that the provider has a batch: the prompts are not needed any more.
create or replace function agent_internal.submit_batch(_batch bigint, _lease bigint, _provider_id text, _seconds double precision)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
begin
    perform agent_internal.hold_batch(_batch, _lease);
    update agent.batch b
       set state = 'submitted', provider_id = _provider_id, submitted_at = agent_internal.now(), attempts = 0, error = null,
           next_at = agent_internal.now() + make_interval(secs => _seconds), lease_expires_at = null
     where b.id = _batch;
    update agent_internal.batch_item i set body = null where i.batch_id = _batch and i.state = 'waiting';
end;
$$;
comment on function agent_internal.submit_batch(bigint, bigint, text, double precision) is 'Record that the provider has a batch';

-- Release a batch until it is looked at again.
--
-- Args: _error: what failed; NULL: nothing did.
create or replace function agent_internal.postpone_batch(_batch bigint, _lease bigint, _seconds double precision, _error text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.hold_batch(_batch, _lease);
    update agent.batch b
       set next_at = agent_internal.now() + make_interval(secs => _seconds), lease_expires_at = null, error = _error,
           attempts = b.attempts + 1
     where b.id = _batch;
end;
$$;
comment on function agent_internal.postpone_batch(bigint, bigint, double precision, text) is 'Release a batch until it is looked at again';

-- Store replies of a batch that the caller has claimed: each is charged, also that of a run that has ended, and its run can
-- be claimed.  A line that was stored before, or is of another batch, changes nothing.
--
-- Args: _replies: of each custom_id, answer (a text in JSON) or why; usage and cost, as in agent_internal.settle(), also of a
-- reply that cannot be used.
create or replace function agent_internal.store_replies(_batch bigint, _lease bigint, _replies jsonb)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _given record;
    _item  agent_internal.batch_item;
    _waits boolean;
    _used  boolean;
    _runs  bigint[] := '{}';
begin
    perform agent_internal.hold_batch(_batch, _lease);
    for _given in
        select e.* from jsonb_to_recordset(_replies) as e (custom_id text, answer text, why text, usage integer[], cost numeric)
         order by e.custom_id
    loop
        select * into _item from agent_internal.batch_item i
         where i.custom_id = _given.custom_id
           and i.batch_id = _batch  -- planted: reply-of-another-batch
           for update;
        continue when not found or _item.state <> 'waiting';
        _waits := agent_internal.is_wanted(_item);
        _used := _waits and _given.answer is not null;
        update agent_internal.batch_item i
           set state = case when _used then 'answered' when _waits then 'unanswered' else 'used' end,
               answer = case when _used then _given.answer::json end, why = _given.why, body = null
         where i.run_id = _item.run_id and i.seq = _item.seq;
        if _given.usage is not null then
            perform agent_internal.settle(_item.run_id, _item.lease, _item.call, _given.usage, _given.cost);
        else
            perform agent_internal.release_item(_item.run_id, _item.lease, _item.call);
        end if;
        update agent.batch b
           set answered = b.answered + (_given.answer is not null)::integer,
               unanswered = b.unanswered + (_given.answer is null)::integer,
               unused = b.unused + (_given.usage is not null and not _used)::integer,
               cost = case when _given.cost is null then b.cost else coalesce(b.cost, 0) + _given.cost end,
               unused_cost = case when _used or _given.cost is null then b.unused_cost else coalesce(b.unused_cost, 0) + _given.cost end
         where b.id = _batch;
        _runs := _runs || _item.run_id;
    end loop;
    perform agent_internal.wake_replied(_runs);
end;
$$;
comment on function agent_internal.store_replies(bigint, bigint, jsonb) is 'Store replies of a batch that the caller has claimed';

-- End a batch that the caller has claimed: runs that have no reply ask directly.
--
-- Args: _charged: whether the provider may have answered what has no reply: then it counts as reserved.  _full: whether it has no
-- room for the batch, and has not begun it: then the runs wait for smaller ones.
create or replace function agent_internal.end_batch(_batch bigint, _lease bigint, _why text, _charged boolean, _full boolean)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _item agent_internal.batch_item;
    _n    integer := 0;
begin
    perform agent_internal.hold_batch(_batch, _lease);
    for _item in
        update agent_internal.batch_item i set state = case when _full then 'requeued' else 'unanswered' end, why = _why, body = null
         where i.batch_id = _batch and i.state = 'waiting' returning *
    loop
        _n := _n + 1;
        if _charged then
            perform agent_internal.settle(_item.run_id, _item.lease, _item.call, null, null);
        else
            perform agent_internal.release_item(_item.run_id, _item.lease, _item.call);
        end if;
    end loop;
    update agent.batch b
       set state = 'ended', ended_at = agent_internal.now(), next_at = null, lease_expires_at = null,
           unanswered = b.unanswered + case when _full then 0 else _n end, requeued = case when _full then _n else 0 end,
           error = case when _n > 0 then _why end
     where b.id = _batch;
    perform agent_internal.wake_replied();
end;
$$;
comment on function agent_internal.end_batch(bigint, bigint, text, boolean, boolean) is 'End a batch that the caller has claimed: runs that have no reply ask directly';

-- Let the runs go on whose call has a reply, or will have none.  Returns how many.
--
-- A run that is locked is executed, or is woken the next time.
--
-- Args: _runs: NULL: all.
create or replace function agent_internal.wake_replied(_runs bigint[] default null)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _woken integer;
begin
    with due as (
        select r.id from agent_internal.batch_item i join agent.run r on r.id = i.run_id
         where i.state in ('answered', 'unanswered', 'requeued') and (_runs is null or i.run_id = any (_runs))
           and r.state = 'waiting_retry' and r.next_attempt_at > agent_internal.now()
           and r.error ? 'batch'  -- not a run that has taken it, and is retried
         order by r.id for no key update of r skip locked
    )
    update agent.run r set next_attempt_at = agent_internal.now() from due where r.id = due.id;
    get diagnostics _woken = row_count;
    if _woken > 0 then
        perform pg_notify('walagent_runs', '');
    end if;
    return _woken;
end;
$$;
comment on function agent_internal.wake_replied(bigint[]) is 'Let the runs go on whose call has a reply of a batch, or will have none';

-- Remove batches that ended before an interval ago, and replies that are steps; none that a run has yet to take.
create or replace function agent_internal.prune_batches(_keep interval)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    update agent_internal.batch_item i set state = 'used', answer = null
     where i.state in ('answered', 'unanswered', 'requeued')
       and exists (select from agent.step s where s.run_id = i.run_id and s.seq >= i.seq);
    delete from agent.batch b
     where b.ended_at < agent_internal.now() - _keep
       and not exists (select from agent_internal.batch_item i where i.batch_id = b.id and i.state = 'answered');
$$;
comment on function agent_internal.prune_batches(interval) is 'Remove batches that ended before an interval ago';
