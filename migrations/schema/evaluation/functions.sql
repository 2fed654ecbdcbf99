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

-- Count the most that a call of a replay can cost as spent, in all budgets that apply to the attachment, or in none.  What it
-- did cost is corrected by agent_internal.correct_charge(); after a crash the most stays counted, as of a reply that was lost.
--
-- Returns {"budgets": [id, ...]}, or the refusal as agent_internal.reserve() returns it.
--
-- Args: _cost: NULL: the model has no price.
create or replace function agent_internal.charge_call(_evaluation bigint, _tenant text, _model text, _tokens bigint, _cost numeric)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now     constant timestamptz := agent_internal.now();
    _budgets bigint[];
    _refusal jsonb;
begin
    _budgets := array(select b.id
                        from agent.budget b join agent.evaluation e on e.id = _evaluation
                       where b.tenant = _tenant and b.asker is null
                         and (b.model is null or b.model = _model)
                         and (b.agent is null or b.agent = e.agent)
                         and (b.attachment is null or b.attachment = e.attachment));
    perform from agent_internal.budget_use where budget_id = any (_budgets) order by budget_id for no key update;
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
    update agent_internal.budget_use
       set spent_cost = spent_cost + coalesce(_cost, 0), spent_tokens = spent_tokens + _tokens
     where budget_id = any (_budgets);
    return jsonb_build_object('budgets', to_jsonb(_budgets));
end;
$$;
comment on function agent_internal.charge_call(bigint, text, text, bigint, numeric) is 'Count the most that a call of a replay can cost as spent, or say why not';

-- Replace what was counted of a call by what it cost; nothing of a period that has ended since *_at*.
create or replace function agent_internal.correct_charge(
    _budgets bigint[], _at timestamptz, _tokens bigint, _cost numeric, _used_tokens bigint, _used_cost numeric
)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent_internal.budget_use where budget_id = any (_budgets) order by budget_id for no key update;
    update agent_internal.budget_use
       set spent_cost = greatest(spent_cost + coalesce(_used_cost, _cost, 0) - coalesce(_cost, 0), 0),
           spent_tokens = greatest(spent_tokens + coalesce(_used_tokens, _tokens) - _tokens, 0)
     where budget_id = any (_budgets) and starts_at <= _at;
end;
$$;
comment on function agent_internal.correct_charge(bigint[], timestamp with time zone, bigint, numeric, bigint, numeric) is 'Replace what was counted of a call of a replay by what it cost';
