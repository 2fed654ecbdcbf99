-- Say what is expected of a run on the change of a case.
--
-- Args: expected: {"values": {argument: value}, "tools": [name, ...], "result": text}, at least one; NULL: removes the label.
create or replace function agent.label_case(id bigint, expected jsonb)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _unknown text := (select k from jsonb_object_keys(case jsonb_typeof(label_case.expected) when 'object' then label_case.expected else '{}' end) k
                       where k <> all ('{values,tools,result}') limit 1);
    _dataset text;
begin
    perform agent_internal.check_role('approver');
    if _unknown is not null then
        raise exception 'label: unknown key "%"', left(_unknown, 100)
            using errcode = '22023', hint = agent_internal.suggest(_unknown, '{values,tools,result}');
    elsif not agent_internal.is_label(label_case.expected) then
        raise exception 'invalid label %', left(label_case.expected::text, 200)
            using errcode = '22023', hint = 'Expected {"values": {argument: value}, "tools": [name, ...], "result": text}, at least one of them.';
    end if;
    update agent.dataset_case c
       set expected = label_case.expected,
           labelled_by = case when label_case.expected is not null then coalesce(agent.current_principal(), session_user) end,
           labelled_at = case when label_case.expected is not null then agent_internal.now() end
      from agent.dataset d
     where c.id = label_case.id and d.id = c.dataset_id
       and (c.tenant = agent.current_tenant() or agent_internal.all_tenants())
    returning d.name into _dataset;
    if _dataset is null then
        raise exception 'case % does not exist', label_case.id using errcode = 'WA005';
    end if;
    perform agent_internal.audit('case.' || case when label_case.expected is null then 'unlabelled' else 'labelled' end,
                                 label_case.id::text, jsonb_build_object('dataset', _dataset));
end;
$$;
comment on function agent.label_case(bigint, jsonb) is 'Say what is expected of a run on the change of a case of a dataset; NULL: nothing';

-- Remove evaluations that ended before an interval ago: their cases have what runs did, which is removed then, too.
create or replace function agent_internal.prune_evaluations(_keep interval)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    delete from agent.evaluation e
     where coalesce(e.ended_at, e.held_until) < agent_internal.now() - _keep and (e.shadow is null or e.ended_at is not null);
    -- A shadow that lasts keeps what it did on changes whose runs are there.
    delete from agent.evaluation_case x using agent.evaluation e
     where e.id = x.evaluation_id and e.shadow is not null and e.ended_at is null
       and not exists (select from agent.run r where r.id = x.run_id);
$$;
comment on function agent_internal.prune_evaluations(interval) is 'Remove evaluations that ended before an interval ago';

-- Release what replays have reserved that no process holds any more; the caller has locked the use of these budgets.
create or replace function agent_internal.release_charges(_budgets bigint[])
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    with lost as (
        delete from agent_internal.evaluation_charge c
         where c.budget_id = any (_budgets)
           and not exists (select from agent.evaluation e
                            where e.id = c.evaluation_id and e.ended_at is null and e.held_until > agent_internal.now())
        returning c.budget_id, c.reserved_cost, c.reserved_tokens
    ), of_budget as (
        select budget_id, sum(reserved_cost) as cost, sum(reserved_tokens) as tokens from lost group by 1
    )
    update agent_internal.budget_use u
       set reserved_cost = u.reserved_cost - o.cost, reserved_tokens = u.reserved_tokens - o.tokens
      from of_budget o where u.budget_id = o.budget_id;
end;
$$;

-- Release what the calls of an evaluation have reserved; no process holds it.
create or replace function agent_internal.release_evaluation(_evaluation bigint)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _budgets constant bigint[] := array(select c.budget_id from agent_internal.evaluation_charge c where c.evaluation_id = _evaluation);
begin
    if _budgets <> '{}' then
        perform from agent_internal.budget_use where budget_id = any (_budgets) order by budget_id for no key update;
        update agent.evaluation e set held_until = agent_internal.now() where e.id = _evaluation;
        perform agent_internal.release_charges(_budgets);
    end if;
end;
$$;
comment on function agent_internal.release_evaluation(bigint) is 'Release what the calls of an evaluation have reserved';

-- Reserve the most that a call of a replay can cost in all budgets that apply to the attachment, or in none.
--
-- Not agent_internal.reserve(): the run of a replay is in a transaction that is rolled back.
--
-- Returns {"call": n}, for agent_internal.settle_charge(), or the refusal as agent_internal.reserve() returns it.
--
-- Args: _tenant: of the case.  _cost: NULL: the model has no price.
create or replace function agent_internal.reserve_charge(_evaluation bigint, _tenant text, _model text, _tokens bigint, _cost numeric)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now     constant timestamptz := agent_internal.now();
    _budgets bigint[];
    _refusal jsonb;
    _call    bigint;
begin
    _budgets := array(select b.id
                        from agent.budget b join agent.evaluation e on e.id = _evaluation
                       where b.tenant = _tenant and b.asker is null
                         and (b.model is null or b.model = _model)
                         and (b.agent is null or b.agent = e.agent)
                         and (b.attachment is null or b.attachment = e.attachment));
    perform from agent_internal.budget_use where budget_id = any (_budgets) order by budget_id for no key update;
    perform agent_internal.release_charges(_budgets);
    update agent_internal.budget_use u
       set starts_at = agent_internal.period_start(b.period, _now), spent_cost = 0, spent_tokens = 0
      from agent.budget b
     where u.budget_id = any (_budgets) and b.id = u.budget_id and u.starts_at < agent_internal.period_start(b.period, _now);
    select r.refusal into _refusal
      from agent.budget b
           join agent_internal.budget_use u on u.budget_id = b.id
           cross join lateral agent_internal.refusal(b, u, _model, _tokens, _cost, _now) as r
     where b.id = any (_budgets) and r.refusal is not null
     order by (r.refusal ->> 'wait')::numeric desc  -- those without `wait` come first
     limit 1;
    if _refusal is not null then
        return _refusal;
    end if;
    _call := nextval('agent_internal.evaluation_call');
    update agent_internal.budget_use
       set reserved_cost = reserved_cost + coalesce(_cost, 0), reserved_tokens = reserved_tokens + _tokens
     where budget_id = any (_budgets);
    insert into agent_internal.evaluation_charge (budget_id, evaluation_id, call, reserved_cost, reserved_tokens, tenant)
    select u.budget_id, _evaluation, _call, coalesce(_cost, 0), _tokens, _tenant
      from agent_internal.budget_use u where u.budget_id = any (_budgets);
    return jsonb_build_object('call', _call);
end;
$$;
comment on function agent_internal.reserve_charge(bigint, text, text, bigint, numeric) is 'Reserve the most that a call of a replay can cost in the budgets that apply';

-- Settle the reservation of a call of a replay, as agent_internal.settle() does for runs.
--
-- Args: _tokens, _cost: what it used; NULL: unknown, and counts as reserved.
create or replace function agent_internal.settle_charge(_call bigint, _tokens bigint, _cost numeric)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now constant timestamptz := agent_internal.now();
begin
    perform from agent_internal.budget_use
      where budget_id in (select budget_id from agent_internal.evaluation_charge where call = _call)
      order by budget_id for no key update;
    with settled as (
        delete from agent_internal.evaluation_charge where call = _call
        returning budget_id, reserved_cost, reserved_tokens
    )
    update agent_internal.budget_use u
       set reserved_cost = u.reserved_cost - s.reserved_cost,
           reserved_tokens = u.reserved_tokens - s.reserved_tokens,
           spent_cost = coalesce(_cost, s.reserved_cost) + case when u.starts_at < p.start then 0 else u.spent_cost end,
           spent_tokens = coalesce(_tokens, s.reserved_tokens) + case when u.starts_at < p.start then 0 else u.spent_tokens end,
           starts_at = greatest(u.starts_at, p.start)
      from settled s
           join agent.budget b on b.id = s.budget_id
           cross join agent_internal.period_start(b.period, _now) as p (start)
     where u.budget_id = s.budget_id;
end;
$$;
comment on function agent_internal.settle_charge(bigint, bigint, numeric) is 'Settle the reservation of a call of a replay with what it cost';
