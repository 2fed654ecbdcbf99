-- Budgets: limits on what models cost over a period, by all runs together.
--
-- Before a call the worker reserves the most that it can cost, in a statement of its own; the statement that
-- records the reply settles the actual cost.  So the sum of spent and reserved never exceeds the limit, and
-- nothing is locked during the call.  If no budget applies, none of this is called.
--
-- A reservation belongs to one lease of a run.  It is released if the call fails without a reply, when the run's next attempt
-- reserves, or when agent_internal.tick() finds that the lease is lost; that of a call in a batch stays until the batch has
-- its reply.

-- Start and end of the period of *_at*; NULL for total.
create or replace function agent_internal.period_start(_period text, _at timestamptz)
    returns timestamptz
    language sql
    immutable
begin atomic
    select case when _period <> 'total' then date_trunc(_period, _at at time zone 'UTC') at time zone 'UTC' end;
end;
comment on function agent_internal.period_start(text, timestamp with time zone) is 'Start of the present period of a budget; NULL: none';

create or replace function agent_internal.period_end(_period text, _at timestamptz)
    returns timestamptz
    language sql
    immutable
begin atomic
    select case when _period <> 'total'
                then (date_trunc(_period, _at at time zone 'UTC') + ('1 ' || _period)::interval) at time zone 'UTC' end;
end;
comment on function agent_internal.period_end(text, timestamp with time zone) is 'When a budget resets; NULL: never';

create or replace function agent_internal.short_number(_value numeric)
    returns text
    language sql
    immutable
return trim_scale(round(_value, 6))::text;

-- Release the reservations of a run.
--
-- Args: _but_lease: except those of this lease, which has concurrent calls, other than *_call*.
create or replace function agent_internal.release(_run bigint, _but_lease bigint default null, _call integer default null)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent_internal.budget_use
      where budget_id in (select budget_id from agent.spend
                           where run_id = _run and settled_at is null and (lease is distinct from _but_lease or call = _call)
                             and not agent_internal.is_in_batch(run_id, lease, call))
      order by budget_id for no key update;
    with gone as (
        delete from agent.spend
         where run_id = _run and settled_at is null and (lease is distinct from _but_lease or call = _call)
           and not agent_internal.is_in_batch(run_id, lease, call)
        returning budget_id, reserved_cost, reserved_tokens
    ), of_budget as (
        select budget_id, sum(reserved_cost) as cost, sum(reserved_tokens) as tokens from gone group by 1
    )
    update agent_internal.budget_use u
       set reserved_cost = u.reserved_cost - o.cost, reserved_tokens = u.reserved_tokens - o.tokens
      from of_budget o where u.budget_id = o.budget_id;
end;
$$;

-- Release the reservation of a call of a run that the caller holds: it has no reply and is not repeated.
--
-- Raises as agent_internal.fence() does.
create or replace function agent_internal.release_call(_run bigint, _lease bigint, _call integer)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    perform agent_internal.release(_run, _lease, _call);
end;
$$;
comment on function agent_internal.release_call(bigint, bigint, integer) is 'Release the reservation of a call that has no reply and is not repeated';

-- Release the reservations of lost leases.
--
-- Budgets whose row is locked are skipped: the caller has locked queues and must not wait.  A transaction that settles
-- has locked that row, so its reservation is not released.
create or replace function agent_internal.release_lost()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _budgets bigint[];
begin
    select array_agg(u.budget_id) into _budgets
      from (select budget_id from agent_internal.budget_use
             where budget_id in (select budget_id from agent.spend where settled_at is null
                                 union all select budget_id from agent_internal.evaluation_charge)
             order by budget_id for no key update skip locked) u;
    if _budgets is null then
        return;
    end if;
    with lost as (
        delete from agent.spend s
         where s.settled_at is null and s.budget_id = any (_budgets)
           and not exists (select from agent.run r
                            where r.id = s.run_id and r.lease = s.lease and r.lease_expires_at is not null)
           and not agent_internal.is_in_batch(s.run_id, s.lease, s.call)
        returning s.budget_id, s.reserved_cost, s.reserved_tokens
    ), of_budget as (
        select budget_id, sum(reserved_cost) as cost, sum(reserved_tokens) as tokens from lost group by 1
    )
    update agent_internal.budget_use u
       set reserved_cost = u.reserved_cost - o.cost, reserved_tokens = u.reserved_tokens - o.tokens
      from of_budget o where u.budget_id = o.budget_id;
    perform agent_internal.release_charges(_budgets);
end;
$$;

create or replace function agent_internal.open_budget()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent_internal.budget_use (budget_id) values (new.id);
    return null;
end;
$$;

-- At commit: until then, calls use the budget as it was, and do not wait.
create or replace function agent_internal.delete_budget_use()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    delete from agent_internal.budget_use where budget_id = old.id;
    delete from agent.spend where budget_id = old.id;
    delete from agent_internal.evaluation_charge where budget_id = old.id;
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

create or replace function agent_internal.count_budget_version()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    new.version := old.version + 1;
    return new;
end;
$$;

-- Release a run that the caller has locked, whose call exceeds a budget, until the budget allows it.  With the lock, either
-- a change of the budget is visible here and the run does not wait, or the transaction that commits it sees the waiting run.
--
-- Reservations of other calls of the run are released.
--
-- Args: _refusal: the result of agent_internal.reserve().
create or replace function agent_internal.await_budget(_run bigint, _refusal jsonb, _tokens bigint, _cost numeric)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _same boolean;
begin
    perform agent_internal.share_lock('budget');
    _same := exists (select from agent.budget
                     where tenant = (select r.tenant from agent.run r where r.id = _run) and name = _refusal ->> 'budget' and version = (_refusal ->> 'version')::integer);
    perform agent_internal.park_locked(_run, 'waiting_retry',
                                       case when _same then (_refusal ->> 'wait')::double precision else 0 end * interval '1 second',
                                       true, _refusal - '{version,wait}'::text[], _tokens, _cost, true);
end;
$$;

-- The same, for a run that the caller holds.
create or replace function agent_internal.wait_for_budget(_run bigint, _lease bigint, _refusal jsonb, _tokens bigint, _cost numeric)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    perform agent_internal.await_budget(_run, _refusal, _tokens, _cost);
end;
$$;
comment on function agent_internal.wait_for_budget(bigint, bigint, jsonb, bigint, numeric) is 'Release a run that the caller holds until a budget allows its call';

-- Notify the workers of changed budgets, and requeue the runs that wait for one.  Deferred, so that the lock is held
-- only during the commit.
create or replace function agent_internal.notify_budget()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    if tg_op <> 'INSERT' then
        perform from agent_internal.lock where name = 'budget' for update;
        update agent.run set next_attempt_at = agent_internal.now()
         where id in (select id from agent.run
                       where state = 'waiting_retry' and error ->> 'budget' = old.name and tenant = old.tenant
                       order by id for no key update skip locked);
        perform pg_notify('walagent_runs', '');
    end if;
    perform pg_notify('walagent_budgets', '');
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

-- Why a call exceeds a budget; NULL: it does not.
--
-- What calls in progress have reserved is released within seconds, unless they are in a batch, and most cost far less than the worst case.  An
-- exhausted total can only be raised, which requeues the runs that wait for it.  If waiting is not brief, the result has
-- what is left, so that the caller can lower its output limit.
create or replace function agent_internal.refusal(
    _budget agent.budget, _use agent_internal.budget_use, _model text, _tokens bigint, _cost numeric, _now timestamptz,
    out refusal jsonb
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _money  constant boolean := coalesce(_use.spent_cost + _use.reserved_cost + _cost > _budget.max_cost, false);
    _spent  constant numeric := case when _money then _use.spent_cost else _use.spent_tokens end;
    _held   constant numeric := case when _money then _use.reserved_cost else _use.reserved_tokens end;
    _wanted constant numeric := case when _money then _cost else _tokens end;
    _limit  constant numeric := case when _money then _budget.max_cost else _budget.max_tokens end;
    _unit   constant text := case when _money then 'US dollars' else 'tokens' end;
    _resets constant timestamptz := agent_internal.period_end(_budget.period, _now);
    _reason text;
    _wait   numeric;
    _brief  boolean := _limit is null;
begin
    if _budget.on_exceeded = 'warn' then
        return;
    elsif _budget.max_cost is not null and _cost is null then
        _reason := format('model "%s" has no price, which budget "%s" in US dollars requires; set its input_price '
                          'and output_price, or use max_tokens instead', _model, _budget.name);
        _wait := 86400;  -- agent_internal.wake_priced() requeues the run earlier
    elsif _spent + _held + _wanted <= _limit or _limit is null then
        return;
    elsif _wanted > _limit then
        _reason := format('one call needs up to %s %s, more than all of budget "%s" (%s); raise it, or lower '
                          'max_output_tokens', agent_internal.short_number(_wanted), _unit, _budget.name, agent_internal.short_number(_limit));
    elsif _spent + _wanted <= _limit then
        -- A batch holds its reservations for hours: looking again every second would cost more than it saves.
        _wait := case when exists (
                     select from agent.spend s
                      where s.settled_at is null and s.budget_id = _budget.id and agent_internal.is_in_batch(s.run_id, s.lease, s.call))
                 then 40 else 1 end * (1 + 2 * random());
        _brief := true;
        _reason := format('budget "%s": %s of %s %s spent, %s reserved by calls in progress, next call needs up to %s',
                          _budget.name, agent_internal.short_number(_spent), agent_internal.short_number(_limit), _unit,
                          agent_internal.short_number(_held), agent_internal.short_number(_wanted));
    else
        if _budget.on_exceeded = 'wait' then
            _wait := coalesce(extract(epoch from _resets - _now), 86400);
        end if;
        _reason := format('budget "%s" exhausted: %s of %s %s spent, next call needs up to %s; ', _budget.name,
                          agent_internal.short_number(_spent), agent_internal.short_number(_limit), _unit, agent_internal.short_number(_wanted))
                   || coalesce(to_char(_resets at time zone 'UTC', '"resets at" YYYY-MM-DD HH24:MI "UTC"'),
                               'it does not reset');
    end if;
    refusal := jsonb_strip_nulls(jsonb_build_object(
        'budget', _budget.name, 'version', _budget.version, 'reason', _reason, 'wait', _wait,
        'unpriced', case when _budget.max_cost is not null and _cost is null then _model end,
        'left_cost', case when _money and not _brief then greatest(_limit - _spent - _held, 0) end,
        'left_tokens', case when not _money and not _brief then greatest(_limit - _spent - _held, 0) end));
end;
$$;

-- Why a call exceeds what one question can use of a budget, with what is left of it; NULL: it does not.
create or replace function agent_internal.question_refusal(_budget agent.budget, _run bigint, _tokens bigint, _cost numeric, out refusal jsonb)
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _used  record;
    _money boolean;
begin
    select coalesce(sum(coalesce(s.cost, s.reserved_cost)), 0) as cost, coalesce(sum(coalesce(s.tokens, s.reserved_tokens)), 0) as tokens
      into _used
      from agent.spend s
     where s.run_id = _run and s.budget_id = _budget.id;
    -- What is no number is left to the constraints of agent.spend.
    _money := coalesce(_used.cost + _cost > _budget.max_cost_per_question and _cost < 'infinity', false);
    if not _money and (_used.tokens + _tokens <= _budget.max_tokens_per_question) is not false then
        return;
    end if;
    refusal := jsonb_strip_nulls(jsonb_build_object(
        'budget', _budget.name, 'version', _budget.version,
        'left_cost', case when _money then greatest(_budget.max_cost_per_question - _used.cost, 0) end,
        'left_tokens', case when not _money then greatest(_budget.max_tokens_per_question - _used.tokens, 0) end,
        'reason', format('one question can use %s of budget "%s", this one has used %s, and its next call needs up to %s; raise %s',
            case when _money then agent_internal.short_number(_budget.max_cost_per_question) || ' US dollars'
                 else _budget.max_tokens_per_question || ' tokens' end,
            _budget.name,
            agent_internal.short_number(case when _money then _used.cost else _used.tokens end),
            agent_internal.short_number(case when _money then _cost else _tokens end),
            case when _money then 'max_cost_per_question' else 'max_tokens_per_question' end)));
end;
$$;

-- Reserve the worst case of a call of a run that the caller has locked, as agent_internal.reserve() does.
create or replace function agent_internal.reserve_call(
    _run bigint, _lease bigint, _call integer, _model text, _tokens bigint, _cost numeric, _agent text, _attachment text
)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now       constant timestamptz := agent_internal.now();
    _kind      text;
    _principal name;
    _tenant    text;
    _budgets   bigint[];
    _refusal   jsonb;
begin
    select r.kind, r.principal, r.tenant into _kind, _principal, _tenant from agent.run r where r.id = _run;
    -- A login that asks does not spend the budgets of agents, whatever it gives here.
    _budgets := array(select b.id from agent.budget b
                       where b.tenant = _tenant
                         and (b.model is null or b.model = _model)
                         and (b.asker is null or b.asker = _principal)
                         and (b.agent is null or b.agent = _agent and _kind <> 'question')
                         and (b.attachment is null or b.attachment = _attachment and _kind <> 'question'));
    perform from agent_internal.budget_use
      where budget_id = any (_budgets)
         or budget_id in (select budget_id from agent.spend where run_id = _run and settled_at is null)
      order by budget_id for no key update;
    perform agent_internal.release(_run, _lease, _call);

    update agent_internal.budget_use u
       set starts_at = agent_internal.period_start(b.period, _now), spent_cost = 0, spent_tokens = 0
      from agent.budget b
     where u.budget_id = any (_budgets) and b.id = u.budget_id and u.starts_at < agent_internal.period_start(b.period, _now);

    select r.refusal into _refusal
      from agent.budget b
           join agent_internal.budget_use u on u.budget_id = b.id
           cross join lateral (
               select agent_internal.question_refusal(b, _run, _tokens, _cost) where _kind = 'question'
               union all
               select agent_internal.refusal(b, u, _model, _tokens, _cost, _now)
           ) as r (refusal)
     where b.id = any (_budgets) and r.refusal is not null
     order by (r.refusal ->> 'wait')::numeric desc  -- those without `wait` come first
     limit 1;
    if _refusal is not null then
        return _refusal;
    end if;

    update agent_internal.budget_use
       set reserved_cost = reserved_cost + coalesce(_cost, 0), reserved_tokens = reserved_tokens + _tokens
     where budget_id = any (_budgets);
    insert into agent.spend (tenant, run_id, call, budget_id, lease, model, reserved_cost, reserved_tokens)
    select _tenant, _run, _call, u.budget_id, _lease, _model, coalesce(_cost, 0), _tokens
      from agent_internal.budget_use u where u.budget_id = any (_budgets);
    return null;
end;
$$;

-- Reserve the worst case of a call in all budgets that apply, or in none.
--
-- Calls of a run can be concurrent: only reservations of an earlier lease, or of an earlier attempt at this call, are
-- released.
--
-- Returns NULL if the call is allowed; otherwise the budget that it exceeds, the reason, and the seconds to wait;
-- without `wait`, waiting does not help.  For a question, the limits for each question count too, so that no login
-- exhausts a budget that it shares with one of them, whatever figures it gives.
--
-- Args: _call: a number that is unique under this lease, for agent_internal.record_step().  _cost: NULL: the model has
-- no price.  _agent, _attachment: those of the run, for their budgets; NULL for a question.
-- Raises as agent_internal.fence() does: nothing more is spent on a cancelled run.
create or replace function agent_internal.reserve(
    _run bigint, _lease bigint, _call integer, _model text, _tokens bigint, _cost numeric,
    _agent text default null, _attachment text default null
)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    -- Without a budget there is nothing to write: a lock of the run would cost a commit for each call of a model.
    perform from agent.run r
      where r.id = _run and r.lease = _lease and r.lease_expires_at >= agent_internal.now() and not r.cancel_requested
        and not exists (select from agent_internal.cancel_request c where c.run_id = _run)
        and not exists (select from agent.budget b where b.tenant = r.tenant)
        and not exists (select from agent.spend s where s.run_id = _run and s.settled_at is null);
    if found then
        perform agent_internal.check_holder(_run);
        return null;
    end if;
    perform agent_internal.fence(_run, _lease);
    return agent_internal.reserve_call(_run, _lease, _call, _model, _tokens, _cost, _agent, _attachment);
end;
$$;
comment on function agent_internal.reserve(bigint, bigint, integer, text, bigint, numeric, text, text) is 'Reserve the worst case of a model call in the budgets that apply';

-- Settle the reservation of a call with the cost of its reply.
--
-- Called in the transaction that records the reply, while it has locked the run.
--
-- Args: _usage: tokens of each kind; all zero: the server did not count.  _cost: NULL: unknown.  What is unknown counts
-- as reserved, and so does what a login that asks says beyond that: a call cannot exceed its worst case.
create or replace function agent_internal.settle(_run bigint, _lease bigint, _call integer, _usage integer[], _cost numeric)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now     constant timestamptz := agent_internal.now();
    _tokens  constant bigint := nullif((select sum(n) from unnest(_usage) as n), 0);
    _trusted constant boolean := agent_internal.is_runner();
begin
    perform from agent_internal.budget_use
      where budget_id in (select budget_id from agent.spend
                           where run_id = _run and lease = _lease and call = _call and settled_at is null)
      order by budget_id for no key update;
    with settled as (
        update agent.spend
           set cost = least(coalesce(_cost, reserved_cost), case when not _trusted then reserved_cost end),
               tokens = least(coalesce(_tokens, reserved_tokens), case when not _trusted then reserved_tokens end),
               settled_at = _now
         where run_id = _run and lease = _lease and call = _call and settled_at is null
        returning budget_id, reserved_cost, reserved_tokens, cost, tokens
    )
    update agent_internal.budget_use u
       set reserved_cost = u.reserved_cost - s.reserved_cost,
           reserved_tokens = u.reserved_tokens - s.reserved_tokens,
           spent_cost = s.cost + case when u.starts_at < p.start then 0 else u.spent_cost end,
           spent_tokens = s.tokens + case when u.starts_at < p.start then 0 else u.spent_tokens end,
           starts_at = greatest(u.starts_at, p.start)
      from settled s
           join agent.budget b on b.id = s.budget_id
           cross join agent_internal.period_start(b.period, _now) as p (start)
     where u.budget_id = s.budget_id;
end;
$$;
comment on function agent_internal.settle(bigint, bigint, integer, integer[], numeric) is 'Settle a reservation with the cost of the reply';

-- Settle the reservation of a call whose reply came and could not be used: the provider charges for it.
create or replace function agent_internal.settle_unusable(_run bigint, _lease bigint, _call integer, _usage integer[], _cost numeric)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_holder(_run);
    perform agent_internal.fence(_run, _lease);
    perform agent_internal.settle(_run, _lease, _call, _usage, _cost);
end;
$$;
comment on function agent_internal.settle_unusable(bigint, bigint, integer, integer[], numeric) is 'Settle a reservation with the cost of a reply that could not be used';

create or replace function agent_internal.check_budget()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _what  text;
    _word  text;
    _known text[];
begin
    for _what, _word, _known in
        select * from (values
            ('agent', new.agent, array(select name from agent.agent where tenant = new.tenant)),
            ('attachment', new.attachment, array(select name from agent.attachment where tenant = new.tenant)),
            ('model', new.model, array(select name from agent.model where tenant is null or tenant = new.tenant)),
            ('role', new.asker, array(select rolname from pg_roles where new.asker is not null))) as x (what, word, known)
         where word is not null and not word = any (known)
    loop
        raise exception 'budget "%": % "%" does not exist', new.name, _what, _word
            using errcode = 'WA015', hint = agent_internal.suggest(_word, _known);
    end loop;
    return new;
end;
$$;

create or replace function agent_internal.warn_of_price()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found record;
begin
    for _found in
        select * from agent.unpriced u
         where u.tenant = new.tenant and case tg_table_name when 'budget' then u.budget = new.name else u.attachment = new.name end
    loop
        raise warning 'model "%" has no price: calls of attachment "%" exceed budget "%" in US dollars',
            _found.model, _found.attachment, _found.budget
            using hint = 'Set input_price and output_price of the model, or limit the budget by max_tokens alone.';
    end loop;
    return null;
end;
$$;
