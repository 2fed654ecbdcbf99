-- What one question can use of a budget, and what a login that asks can settle.

alter table agent.budget
    add column max_cost_per_question numeric default 10
        check (max_cost_per_question > 0 and max_cost_per_question < 'infinity'),
    add column max_tokens_per_question bigint default 1000000 check (max_tokens_per_question > 0);
comment on column agent.budget.max_cost_per_question is 'US dollars that one question can use of it, with what its calls in progress reserve; NULL: no limit';
comment on column agent.budget.max_tokens_per_question is 'The same in tokens';

-- Why a call exceeds what one question can use of a budget, with what is left of it; NULL: it does not.
create function agent_internal.question_refusal(_budget agent.budget, _run bigint, _tokens bigint, _cost numeric, out refusal jsonb)
    language plpgsql
    stable
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
revoke all on function agent_internal.question_refusal(agent.budget, bigint, bigint, numeric) from public;

-- Reserve the worst case of a call of a run that the caller has locked, as agent_internal.reserve() does.
create function agent_internal.reserve_call(
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
revoke all on function agent_internal.reserve_call(bigint, bigint, integer, text, bigint, numeric, text, text) from public;

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
    perform agent_internal.fence(_run, _lease);
    return agent_internal.reserve_call(_run, _lease, _call, _model, _tokens, _cost, _agent, _attachment);
end;
$$;

-- Settle the reservation of a call with the cost of its reply.
--
-- Called in the transaction that records the reply, while it has locked the run.
--
-- Args: _usage: tokens of each kind; all zero: the server did not count.  _cost: NULL: unknown.  What is unknown counts
-- as reserved, and so does what a login that asks says beyond that: a call cannot exceed its worst case.
create or replace function agent_internal.settle(_run bigint, _lease bigint, _call integer, _usage integer[], _cost numeric)
    returns void
    language plpgsql
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
