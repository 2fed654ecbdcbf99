-- Tokens as the SDKs of providers report them: input, cached, cache write and output.
--
-- Raises WA027 if they are no counts.
create or replace function agent_internal.usage_of(_usage jsonb)
    returns integer[]
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _given  constant text[] := array[
        coalesce(_usage ->> 'prompt_tokens', _usage ->> 'input_tokens', '0'),
        coalesce(_usage #>> '{prompt_tokens_details,cached_tokens}', '0'),
        coalesce(_usage #>> '{prompt_tokens_details,cached_tokens}', _usage ->> 'cache_read_input_tokens', '0'),
        coalesce(_usage ->> 'cache_creation_input_tokens', '0'),
        coalesce(_usage ->> 'completion_tokens', _usage ->> 'output_tokens', '0')];
    _tokens integer[];
begin
    if coalesce(_usage, 'null') = 'null' then
        return null;
    elsif jsonb_typeof(_usage) <> 'object' or _usage <> '{}' and not _usage ?| '{prompt_tokens,input_tokens,completion_tokens,output_tokens}' or exists (select from unnest(_given) g where g !~ '^[0-9]{1,8}$') then
        raise exception 'usage is not an object with counts of tokens: %', left(_usage::text, 200) using errcode = 'WA027',
            hint = 'Pass usage as the SDK reports it, with prompt_tokens and completion_tokens, or NULL.';
    end if;
    _tokens := _given::integer[];
    return array[greatest(0, _tokens[1] - _tokens[2]), _tokens[3], _tokens[4], _tokens[5]];
end;
$$;

-- The cost of a call in US dollars, as walagent's own workers count it; NULL if a price that it needs is unknown, or the
-- tokens of a model that is not free.
create or replace function agent_internal.cost_of_usage(_tenant text, _model text, _usage integer[])
    returns numeric
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when bool_and(t.tokens = 0) then case when bool_and((coalesce(t.price, t.otherwise) = 0) is true) then 0 end
                when not bool_or(t.tokens > 0 and t.price is null) then sum(t.tokens * coalesce(t.price, 0)) / 1000000 end
      from agent_internal.model_of(_tenant, _model) m
           cross join lateral (
               select b.* from jsonb_to_recordset(m.price_bands) as b (above integer, input_price numeric, cached_input_price numeric,
                                                                       cache_write_price numeric, output_price numeric)
                where _usage[1] + _usage[2] + _usage[3] > b.above
                union all
               select -1, m.input_price, m.cached_input_price, m.cache_write_price, m.output_price
                order by 1 desc limit 1
           ) p
           cross join lateral unnest(
               _usage, array[p.input_price, p.cached_input_price, p.cache_write_price, p.output_price],
               array[null, 0, 0, null]) as t (tokens, price, otherwise)
$$;

-- The messages of a turn in the form of OpenAI's API: what was said before it, with the agent's calls and their results,
-- then its own replies.
create or replace function agent_internal.turn_messages(_turn agent.run, _def jsonb)
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _thread agent.thread;
    _upto   constant bigint := (select (s.content #> '{turn,upto}')::bigint from agent.step s where s.run_id = _turn.id and s.seq = 0);
    _bytes  constant bigint := 4 * coalesce((_def #> '{turns,max_context_tokens}')::bigint, 24000);
    _many   boolean;
    _past   jsonb;
    _own    jsonb;
begin
    select * into _thread from agent.thread t
     where t.tenant = _turn.tenant and t.id = (_turn.change #>> '{new,thread_id}')::uuid;
    _many := (select count(*) > 2 from agent.member m where m.tenant = _thread.tenant and m.thread_id = _thread.id);
    with recent as (
        select e.*, sum(octet_length(e.data::text) + 100) over (order by e.number desc) as size
          from (select * from agent.event e
                 where e.tenant = _thread.tenant and e.thread_id = _thread.id and e.number between _thread.summary_upto + 1 and _upto
                 order by e.number desc limit 2000) e
    )
    select jsonb_agg(m.message order by e.number, m.place) into _past
      from recent e
           cross join lateral (
               select 0 as place, jsonb_strip_nulls(jsonb_build_object(
                          'role', case when e.author = _turn.principal then 'assistant' else 'user' end,
                          'content', coalesce((select o.content from agent.observation o
                                                where o.tenant = e.tenant and o.event_id = e.id and o.type = 'correction'
                                                order by o.created_at desc limit 1), e.data ->> 'text'),
                          'name', case when _many and e.author <> _turn.principal and e.author ~ '^[A-Za-z0-9_-]+$' then e.author end)) as message
                where e.type = 'text'
               union all
               select 0, jsonb_build_object('role', case e.data ->> 'kind' when 'context' then 'user' else 'system' end, 'content', e.data ->> 'text')
                where e.type = 'system' and e.data ->> 'action' = 'injected'
               union all
               select 0, jsonb_build_object('role', 'assistant', 'content', null, 'tool_calls', jsonb_build_array(agent_internal.openai_call(
                          e.data ->> 'id', e.data ->> 'name', e.data -> 'input')))
                where e.type = 'tool_use' and e.author = _turn.principal
               union all
               select 1, jsonb_build_object('role', 'tool', 'tool_call_id', e.data -> 'id', 'content', coalesce(
                          (select x.data ->> 'content' from agent.event x
                            where x.tenant = e.tenant and x.thread_id = e.thread_id and x.number = e.number + 1 and x.type = 'tool_result'
                              and x.data ->> 'tool_use_id' = e.data ->> 'id'), 'done'))
                where e.type = 'tool_use' and e.author = _turn.principal
           ) m
     where e.size <= _bytes or e.number = _upto;
    -- A call with its result, in the order of results, as the events have them in the next turn: the provider knows the start.
    with said as (
        select s.seq, 0 as place, jsonb_build_object('role', 'assistant', 'content', string_agg(p ->> 'text', '' order by n)) as message
          from agent.step s cross join jsonb_array_elements(s.content -> 'parts') with ordinality as x (p, n)
         where s.run_id = _turn.id and s.kind = 'reply' and p ? 'text'
         group by s.seq
        union all
        select d.seq, m.place, m.message
          from agent.step d
               cross join lateral (
                   select p from agent.step s cross join jsonb_array_elements(s.content -> 'parts') p
                    where s.run_id = _turn.id and s.kind = 'reply' and p ->> 'call' = d.content ->> 'call_id' limit 1) c
               cross join lateral (
                   select 0 as place, jsonb_build_object('role', 'assistant', 'content', null, 'tool_calls', jsonb_build_array(
                              agent_internal.openai_call(p ->> 'call', p ->> 'name', p -> 'arguments'))) as message
                   union all
                   select 1, jsonb_build_object('role', 'tool', 'tool_call_id', p ->> 'call', 'content', d.content -> 'content')) m
         where d.run_id = _turn.id and d.kind = 'result'
        union all
        select s.seq, 0, jsonb_build_object('role', 'user', 'content', s.content -> 'text')
          from agent.step s where s.run_id = _turn.id and s.kind = 'note' and s.content ? 'text'
    )
    select jsonb_agg(s.message order by s.seq, s.place) into _own from said s;
    return case when _thread.summary is null then '[]'::jsonb
                else jsonb_build_array(jsonb_build_object('role', 'user', 'content', 'Summary of earlier messages: ' || _thread.summary)) end
           || coalesce(_past, '[]') || coalesce(_own, '[]');
end;
$$;

create or replace function agent_internal.openai_call(_id text, _name text, _arguments jsonb)
    returns jsonb
    language sql
    immutable
begin atomic
    select jsonb_build_object('id', _id, 'type', 'function', 'function', jsonb_build_object(
        'name', _name, 'arguments', coalesce(_arguments, '{}')::text));
end;

-- The number of a reply, by which budgets know the call that it answers.
create or replace function agent_internal.reply_number(_turn bigint)
    returns integer
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select count(*)::integer from agent.step s where s.run_id = _turn and s.kind = 'reply' and not s.content ? 'continues' $$;

-- The most that a call can cost, in US dollars; NULL if a price is unknown.
create or replace function agent_internal.most_cost(_tenant text, _model text, _input integer, _output integer)
    returns numeric
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select greatest(agent_internal.cost_of_usage(_tenant, _model, array[_input, 0, 0, _output]),
                    agent_internal.cost_of_usage(_tenant, _model, array[0, 0, _input, _output]))
$$;

-- Reserve the next call of a turn in the budgets that count it: one input token per byte of what is asked, and the output limit.
--
-- If a budget does not allow it, the turn waits until it does, or fails if waiting does not help.
create or replace function agent_internal.reserve_reply(_turn agent.run, _def jsonb, _asked jsonb, _output integer)
    returns agent.run
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _model   constant text := _def ->> 'model';
    _input   constant integer := octet_length(_asked::text);
    _refusal jsonb;
begin
    _refusal := agent_internal.reserve_call(
        _turn.id, _turn.lease, agent_internal.reply_number(_turn.id), _model, _input + _output,
        agent_internal.most_cost(_turn.tenant, _model, _input, _output), _turn.principal,
        (select a.name from agent.attachment a where a.id = _turn.attachment_id));
    if _refusal ? 'wait' then
        perform agent_internal.await_budget(_turn.id, _refusal, s.tokens, s.cost) from agent_internal.spent_of(_turn.id) s;
    elsif _refusal is not null then
        perform agent_internal.end_own_turn(_turn, 'failed', null, _refusal - '{version}'::text[]);
    end if;
    select * into _turn from agent.run r where r.id = _turn.id;
    return _turn;
end;
$$;

-- Record a reply of a turn's model that its worker reports, and settle its reservation.  What is not reported counts as reserved.
create or replace function agent_internal.insert_reply(_turn agent.run, _def jsonb, _content jsonb, _usage integer[])
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _cost constant numeric := agent_internal.cost_of_usage(_turn.tenant, _def ->> 'model', _usage);
begin
    if not _content ? 'continues' then
        perform agent_internal.settle(_turn.id, _turn.lease, agent_internal.reply_number(_turn.id), _usage, _cost);
    end if;
    perform agent_internal.insert_step(
        _turn.id, null, 'reply', _content || jsonb_build_object('model', '', 'registered', _def -> 'model'), _usage, _cost);
end;
$$;

-- What to ask the model next.
--
-- The call is reserved in the budgets that count it; if one does not allow it, the turn waits, or has failed.
--
-- Returns turn, status; if it is running: agent, thread, model (at its provider), messages and tools (as OpenAI's API takes them),
-- system_prompt, parameters, calls: those without a result, with which to continue.
create or replace function agent.run_turn(turn bigint)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn  agent.run := agent_internal.within_limits(agent_internal.take_turn(run_turn.turn));
    _def   constant jsonb := agent_internal.turn_definition(_turn);
    _model agent.model;
    _before text;
    _asked  jsonb;
    _calls  jsonb;
begin
    if _turn.state <> 'running' then
        return agent_internal.turn_status(_turn) || case when agent_internal.is_final(_turn.state) then '{}' else jsonb_build_object(
            'calls', agent_internal.open_calls_json(_turn.id)) end;
    end if;
    _model := agent_internal.model_of(_turn.tenant, _def ->> 'model');
    _before := agent_internal.act_as_agent(_turn.tenant, _turn.principal);
    _asked := jsonb_build_object(
        'system_prompt', _def -> 'system_prompt',
        'messages', agent_internal.turn_messages(_turn, _def),
        'tools', (select coalesce(jsonb_agg(jsonb_build_object('type', 'function', 'function', jsonb_build_object(
                             'name', t -> 'name', 'description', coalesce(t ->> 'description', ''), 'parameters', t -> 'input_schema'))
                         order by n), '[]')
                    from jsonb_array_elements(_def -> 'tools') with ordinality as x (t, n)));
    perform agent_internal.act_again(_before);
    _calls := agent_internal.open_calls_json(_turn.id);
    if _calls = '[]' then
        _turn := agent_internal.reserve_reply(_turn, _def, _asked, coalesce((_def ->> 'max_output_tokens')::integer, _model.max_output_tokens, 4096));
        if _turn.state <> 'running' then
            return agent_internal.turn_status(_turn);
        end if;
    end if;
    return agent_internal.turn_status(_turn) || _asked || jsonb_build_object(
        'thread', _turn.change #> '{new,thread_id}', 'agent', _turn.principal,
        'model', coalesce(_model.model_id, _def ->> 'model'), 'provider', _model.provider,
        'parameters', _def -> 'parameters' || jsonb_strip_nulls(jsonb_build_object('max_tokens', _def -> 'max_output_tokens')),
        'calls', _calls);
end;
$$;
comment on function agent.run_turn(bigint) is 'What to ask the model next: messages, tools, system prompt, parameters, and calls to continue with';
