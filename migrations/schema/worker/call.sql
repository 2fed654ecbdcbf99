-- Calls of a turn without a result, in the order in which they were made.
--
-- Returns begun: whether the worker may carry it out; key: its idempotency key.  approval: the latest request of an approval.
create or replace function agent_internal.open_calls(_run bigint)
    returns table (call_id text, tool text, arguments jsonb, begun boolean, key text, approval bigint)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select p ->> 'call', p ->> 'name', p -> 'arguments', i.content is not null, i.content ->> 'idempotency_key',
           (select max(a.id) from agent.approval a where a.run_id = _run and a.call_id = p ->> 'call')
      from agent.step s cross join jsonb_array_elements(s.content -> 'parts') with ordinality as x (p, n)
           left join agent.step i on i.run_id = _run and i.kind = 'intent' and i.content ->> 'call_id' = p ->> 'call'
     where s.run_id = _run and s.kind = 'reply' and p ? 'call'
       and not exists (select from agent.step d where d.run_id = _run and d.kind = 'result' and d.content ->> 'call_id' = p ->> 'call')
     order by s.seq, n
$$;

-- The same for a worker.
create or replace function agent_internal.open_calls_json(_run bigint)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(jsonb_build_object('call_id', c.call_id, 'tool', c.tool, 'name', c.tool, 'arguments', c.arguments)), '[]')
      from agent_internal.open_calls(_run) c
$$;

create or replace function agent_internal.no_such_call(_turn agent.run, _tool text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'no call of "%" in turn % waits for a result', _tool, _turn.id
        using errcode = 'WA027', hint = 'Make the call with agent.process_tool_call(); a status of ready says that it may be carried out.';
end;
$$;

-- The result of a call that is not carried out, which the model receives.
create or replace function agent_internal.refuse_own_call(_turn agent.run, _call_id text, _tool text, _reason text, _denied boolean default true)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.insert_step(_turn.id, null, 'result', case
        when _denied then agent_internal.refused_call(_call_id, _tool, _reason)
        else jsonb_build_object('call_id', _call_id, 'name', _tool, 'is_error', true, 'content', _reason) end);
    return jsonb_build_object('status', 'denied', 'call_id', _call_id, 'reason', _reason);
end;
$$;

-- What is wrong with the arguments of a call; NULL: nothing that can be seen without types.
create or replace function agent_internal.wrong_arguments(_tool jsonb, _arguments jsonb)
    returns text
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    select case
        when jsonb_typeof(_arguments) is distinct from 'object' then format('the arguments of %s are not a JSON object', _tool ->> 'name')
        else coalesce(
            (select format('%s has no argument "%s"', _tool ->> 'name', left(k, 64)) from jsonb_object_keys(_arguments) k
              where _tool #> '{input_schema,additionalProperties}' = 'false' and not coalesce(_tool #> '{input_schema,properties}' ? k, false)
              order by k limit 1),
            (select format('%s requires the argument "%s"', _tool ->> 'name', k)
               from jsonb_array_elements_text(_tool #> '{input_schema,required}') k where not _arguments ? k order by k limit 1),
            -- NULL of an argument that may be left out is its default.
            (select format('%s: argument "%s" is not one of %s', _tool ->> 'name', k, (select string_agg(e, ', ') from jsonb_array_elements_text(p -> 'enum') e))
               from jsonb_each(_arguments) as x (k, v) cross join lateral (select _tool #> array['input_schema', 'properties', k]) y (p)
              where jsonb_typeof(p -> 'enum') = 'array' and not p -> 'enum' @> jsonb_build_array(v)
                and (v <> 'null' or coalesce(_tool #> '{input_schema,required}' ? k, false))
              order by k limit 1))
    end
$$;

-- A value with integers for whole numbers where its schema says so: to JSON Schema 7.0 is one, to bigint it is not.
create or replace function agent_internal.whole_numbers(_schema jsonb, _value jsonb)
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return case jsonb_typeof(_value)
        when 'number' then case
            when jsonb_build_array(_schema -> 'type') @@ '$[*][*] == "integer"' and trunc((_value #>> '{}')::numeric) = (_value #>> '{}')::numeric
            then to_jsonb(trunc((_value #>> '{}')::numeric)) else _value end
        when 'array' then (select coalesce(jsonb_agg(agent_internal.whole_numbers(_schema -> 'items', v) order by n), '[]')
                             from jsonb_array_elements(_value) with ordinality as x (v, n))
        when 'object' then (select coalesce(jsonb_object_agg(k, agent_internal.whole_numbers(_schema #> array['properties', k], v)), '{}')
                              from jsonb_each(_value) as x (k, v))
        else _value end;
end;
$$;
comment on function agent_internal.whole_numbers(jsonb, jsonb) is 'A value with integers for whole numbers, where its schema says so';

-- The arguments of a SQL tool as they are meant: null for one with a default is that default.
create or replace function agent_internal.meant_arguments(_tool jsonb, _arguments jsonb)
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select coalesce(jsonb_object_agg(k, agent_internal.whole_numbers(_tool #> array['input_schema', 'properties', k], v)), '{}')
          from jsonb_each(_arguments) as x (k, v)
         where v <> 'null' or not coalesce(_tool #> '{input_schema,properties}' ? k, false)
               or coalesce(_tool #> '{input_schema,required}' ? k, false));
end;
$$;
comment on function agent_internal.meant_arguments(jsonb, jsonb) is 'The arguments that a SQL tool is called with';

-- The statement of a SQL tool: select to_jsonb(schema.f(a => g.a, ...)) from jsonb_to_record($1) as g (a type, ...).
create or replace function agent_internal.tool_statement(_tool jsonb, _arguments jsonb)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with given as (
        select string_agg(format('%1$I => g.%1$I', a ->> 'name'), ', ' order by n) as arguments,
               string_agg(format('%I %s', a ->> 'name', a ->> 'type'), ', ' order by n) as types
          from jsonb_array_elements(_tool -> 'arguments') with ordinality as x (a, n)
         where _arguments ? (a ->> 'name')
    ), parts as (
        select format('%I.%I(%s)', _tool ->> 'schema', _tool ->> 'function', coalesce(arguments, '')) as call,
               case when types is null then '(select) as g' else format('pg_catalog.jsonb_to_record($1) as g (%s)', types) end as source
          from given
    )
    select case when (_tool -> 'returns_set')::boolean
                then format('select coalesce(pg_catalog.jsonb_agg(pg_catalog.to_jsonb(r)), ''[]'') from %s, lateral (select * from %s limit 1000) as r', source, call)
                else format('select pg_catalog.to_jsonb(%s) from %s', call, source) end
      from parts
$$;

-- Carry out a call of a SQL tool in this transaction, and record its result: as a worker of walagent does.  The transaction
-- can write nothing after it.
--
-- The request is signed for this transaction.  The role that attached the agent must be able to become the role of the tool.
create or replace function agent_internal.call_in_place(_turn agent.run, _def jsonb, _tool jsonb, _call_id text, _given jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _identity  constant text := coalesce(current_setting('walagent.identity', true), '');
    _key       constant bytea := (select s.key from agent_internal.secret s);
    _arguments constant jsonb := agent_internal.meant_arguments(_tool, _given) || coalesce((select jsonb_object_agg(b.key, coalesce(_turn.change #> array['new', b.value], 'null'))
                                                       from jsonb_each_text(_tool -> 'bind') b), '{}');
    _request   text;
    _content   jsonb;
begin
    _request := jsonb_build_object(
        'run', _turn.id, 'lease', _turn.lease, 'seq', (select max(s.seq) + 1 from agent.step s where s.run_id = _turn.id),
        'call', _call_id, 'name', _tool -> 'name', 'given', _given, 'run_as', _def -> 'run_as',
        'sql', agent_internal.tool_statement(_tool, _arguments), 'arguments', _arguments, 'path', coalesce(_def ->> 'search_path', ''),
        'must_find', false, 'relation', null, 'transaction', agent_internal.transaction_name(),
        'worker', (select r.oid::bigint from pg_roles r where r.rolname = _def ->> 'attached_by'))::text;
    _content := agent_signed.call_tool(_request, sha256(_key || sha256(_key || convert_to('call ' || _request, 'utf8'))));
    perform agent_internal.act_again(_identity);
    return _content;
end;
$$;

-- Whether somebody's expressions decide about the calls of a tenant.
create or replace function agent_internal.policies_have_code(_tenant text)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from agent.policy p where p.tenant = _tenant and p.enabled and (p.condition is not null or p.expression is not null))
$$;

-- Make a call of a tool, or continue with one that was made.
--
-- Call it alone in its transaction: after a SQL tool, the transaction can write nothing more.
--
-- Args: call_id: the model's, if a turn has equal calls.  usage: tokens of the reply that made the call, as SDKs report them.
-- Returns call_id, and status: `done`: it was carried out in the database, with result and is_error; `ready`: the worker must
-- carry it out with these arguments and record the result; `awaiting_approval`: call again after the decision; `denied`, with reason,
-- which is the result; or the state in which the turn has ended or waits.
create or replace function agent.process_tool_call(turn bigint, tool text, arguments jsonb, call_id text default null, usage jsonb default null)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _state   text;
    _which   text;
    _context text;
begin
    return agent_internal.process_call(
        process_tool_call.turn, process_tool_call.tool, process_tool_call.arguments, process_tool_call.call_id, process_tool_call.usage);
exception when others or query_canceled or assert_failure then
    get stacked diagnostics _state = returned_sqlstate, _which = constraint_name, _context = pg_exception_context;
    perform agent_internal.end_used_session(_state, _which, _context);
    raise;
end;
$$;
comment on function agent.process_tool_call(bigint, text, jsonb, text, jsonb) is 'Make a call of a tool in a turn: it is carried out, ready, denied, or awaits an approval';

-- The same, with the rights of walagent.
create or replace function agent_internal.process_call(_of bigint, _name text, _arguments jsonb, _call_id text, _usage jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   constant agent.run := agent_internal.take_turn(_of);
    _before text;
    _made   jsonb;
begin
    if agent_internal.is_final(_turn.state) then
        raise exception 'turn % has ended: %', _turn.id, _turn.state using errcode = 'WA027', detail = coalesce(_turn.error ->> 'reason', '');
    elsif _turn.state <> 'running' then
        return agent_internal.turn_status(_turn);
    end if;
    _before := agent_internal.act_as_agent(_turn.tenant, _turn.principal);
    _made := agent_internal.make_call(_turn, _name, _arguments, _call_id, agent_internal.usage_of(_usage));
    perform agent_internal.act_again(_before);
    return _made;
end;
$$;
comment on function agent_internal.process_call(bigint, text, jsonb, text, jsonb) is 'Make a call of a tool in a turn of an own worker';

-- The same, in a turn that the caller holds, as its agent.
create or replace function agent_internal.make_call(_turn agent.run, _name text, _arguments jsonb, _id text, _usage integer[])
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _def      constant jsonb := agent_internal.turn_definition(_turn);
    _tool     constant jsonb := (select t from jsonb_array_elements(_def -> 'tools') t where t ->> 'name' = _name);
    _call     record;
    _decision agent.approval;
    _verdict  jsonb;
    _given    jsonb;
    _content  jsonb;
    _wrong    text;
begin
    select c.* into _call from agent_internal.open_calls(_turn.id) c
     where c.tool = _name
       and case when _id is null then c.arguments = _arguments else c.call_id = _id end
     limit 1;
    if not found then
        _turn := agent_internal.within_limits(_turn);
        if _turn.state <> 'running' then
            return agent_internal.turn_status(_turn);
        elsif exists (select from agent.step s cross join jsonb_array_elements(s.content -> 'parts') p
                       where s.run_id = _turn.id and s.kind = 'reply' and p ->> 'call' = _id) then
            raise exception 'call "%" of turn % has its result already', _id, _turn.id using errcode = 'WA027';
        end if;
        perform agent_internal.insert_reply(
            _turn, _def, jsonb_build_object(
                'parts', jsonb_build_array(jsonb_build_object(
                    'call', coalesce(_id, format('call_%s_%s', _turn.id, (select max(s.seq) + 1 from agent.step s where s.run_id = _turn.id))),
                    'name', _name, 'arguments', _arguments)),
                'stop', 'tool')
                -- Further calls of the same reply.
                || case when exists (select from agent_internal.open_calls(_turn.id)) then '{"continues": true}' else '{}' end::jsonb,
            _usage);
        select c.* into _call from agent_internal.open_calls(_turn.id) c
         where c.tool = _name and c.arguments = _arguments
           and c.call_id = coalesce(_id, c.call_id)
         limit 1;
    end if;
    if _tool is null then
        return agent_internal.refuse_own_call(_turn, _call.call_id, _call.tool, format('the agent does not have the tool "%s"', left(_call.tool, 64)));
    end if;
    _given := _call.arguments;
    select * into _decision from agent.approval a where a.id = _call.approval;
    if _decision.state = 'approved' and _tool ->> 'target' = 'ask_human' then
        _content := jsonb_build_object('call_id', _call.call_id, 'name', _call.tool, 'is_error', false, 'content', coalesce(_decision.reason, 'yes'));
        perform agent_internal.insert_step(_turn.id, null, 'result', _content);
        return jsonb_build_object('status', 'done', 'call_id', _call.call_id, 'result', _content -> 'content', 'is_error', false);
    elsif _decision.state = 'approved' then
        _given := coalesce(_decision.edited, _decision.arguments);
    elsif _decision.id is not null then
        return agent_internal.refuse_own_call(_turn, _call.call_id, _call.tool, case _decision.state
            when 'expired' then 'nobody decided about this call in time; it was not carried out'
            else 'a person refused this call' || coalesce(': ' || nullif(_decision.reason, ''), '') end, false);
    end if;
    _wrong := agent_internal.wrong_arguments(_tool, _given);
    if _wrong is not null then
        return agent_internal.refuse_own_call(_turn, _call.call_id, _call.tool, _wrong, false);
    end if;
    if _tool ->> 'kind' = 'sql' or agent_internal.policies_have_code(_turn.tenant) then
        perform agent_internal.refuse_strangers();
    end if;
    perform set_config('walagent.own_session', 'on', true);
    if not _call.begun then
        _verdict := agent_internal.check_call(_turn.id, _call.call_id, _call.tool, _given);
        if _verdict ->> 'action' = 'transform' then
            _given := _verdict -> 'arguments';
            _verdict := agent_internal.check_call(_turn.id, _call.call_id, _call.tool, _given);
        end if;
        if _verdict ->> 'action' = 'deny' then
            return agent_internal.refuse_own_call(_turn, _call.call_id, _call.tool, _verdict ->> 'reason');
        elsif _decision.id is null and (_verdict ->> 'action' <> 'allow' or coalesce((_tool -> 'approval')::boolean, false)
                                        or _tool ->> 'target' = 'ask_human' and _tool ->> 'kind' = 'builtin') then
            perform agent_internal.await_approval(
                _turn, null, _call.call_id, _call.tool, _given, (_def ->> 'run_as')::name,
                make_interval(secs => (_def ->> 'approval_seconds')::double precision), s.tokens, s.cost)
               from agent_internal.spent_of(_turn.id) s;
            return jsonb_build_object('status', 'awaiting_approval', 'call_id', _call.call_id);
        elsif _verdict ->> 'action' <> 'allow' then
            return agent_internal.refuse_own_call(_turn, _call.call_id, _call.tool, coalesce(_verdict ->> 'reason', 'a policy requires another decision'));
        end if;
    end if;
    if _tool ->> 'kind' = 'builtin' then
        _content := agent_internal.call_builtin(_turn, _tool, _call.call_id, _given);
    elsif _tool ->> 'kind' = 'sql' then
        _content := agent_internal.call_in_place(_turn, _def, _tool, _call.call_id, _given);
    end if;
    if _tool ->> 'kind' = 'sql' or agent_internal.policies_have_code(_turn.tenant) then
        perform agent_internal.refuse_strangers(true);  -- also of what was committed meanwhile
    end if;
    if _content is not null then
        return jsonb_build_object('status', case when _content ? 'denied' then 'denied' else 'done' end, 'call_id', _call.call_id,
                                  'result', _content -> 'content', 'is_error', _content -> 'is_error');
    end if;
    if not _call.begun then
        perform agent_internal.insert_step(_turn.id, null, 'intent', jsonb_build_object(
            'call_id', _call.call_id, 'name', _call.tool, 'idempotency_key', agent_internal.call_key(_turn.id, _call.call_id)));
    end if;
    return jsonb_build_object('status', 'ready', 'call_id', _call.call_id, 'arguments', _given,
                              'idempotency_key', coalesce(_call.key, agent_internal.call_key(_turn.id, _call.call_id)));
end;
$$;

-- Record the result of a call that was ready.
--
-- Args: result: what the model receives: a text, or any JSON.  call_id: NULL: the oldest ready call of the tool.
-- Raises WA027 if no such call was made, or it was not ready.
create or replace function agent.record_tool_result(turn bigint, tool text, result jsonb, is_error boolean default false, call_id text default null)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _state   text;
    _which   text;
    _context text;
begin
    return agent_internal.record_call(
        record_tool_result.turn, record_tool_result.tool, record_tool_result.result, record_tool_result.is_error, record_tool_result.call_id);
exception when others or query_canceled or assert_failure then
    get stacked diagnostics _state = returned_sqlstate, _which = constraint_name, _context = pg_exception_context;
    perform agent_internal.end_used_session(_state, _which, _context);
    raise;
end;
$$;
comment on function agent.record_tool_result(bigint, text, jsonb, boolean, text) is 'Record the result of a call that the worker carried out';

-- The same, with the rights of walagent.
create or replace function agent_internal.record_call(_of bigint, _name text, _result jsonb, _is_error boolean, _call_id text)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn    constant agent.run := agent_internal.take_turn(_of);
    _before  text;
    _call    record;
    _content jsonb;
begin
    if agent_internal.is_final(_turn.state) then
        raise exception 'turn % has ended: %', _turn.id, _turn.state using errcode = 'WA027', detail = coalesce(_turn.error ->> 'reason', '');
    end if;
    select c.* into _call from agent_internal.open_calls(_turn.id) c
     where c.tool = _name and c.begun and c.call_id = coalesce(_call_id, c.call_id)
     limit 1;
    if not found or _turn.state <> 'running' then
        perform agent_internal.no_such_call(_turn, _name);
    end if;
    if agent_internal.policies_have_code(_turn.tenant) then
        perform agent_internal.refuse_strangers();
    end if;
    perform set_config('walagent.own_session', 'on', true);
    _before := agent_internal.act_as_agent(_turn.tenant, _turn.principal);
    _content := jsonb_build_object(
        'call_id', _call.call_id, 'name', _call.tool, 'is_error', coalesce(_is_error, false), 'content', left(case jsonb_typeof(_result)
            when 'string' then _result #>> '{}' else coalesce(_result::text, 'done') end, 65536));
    -- As policies leave it.
    _content := agent_internal.checked_error(
        agent_internal.check_call(_turn.id, _call.call_id, _call.tool, _call.arguments), _content);
    if agent_internal.policies_have_code(_turn.tenant) then
        perform agent_internal.refuse_strangers(true);
    end if;
    perform agent_internal.insert_step(_turn.id, null, 'result', _content);
    perform agent_internal.act_again(_before);
    return agent_internal.turn_status(_turn);
end;
$$;
comment on function agent_internal.record_call(bigint, text, jsonb, boolean, text) is 'Record the result of a call that an own worker carried out';
