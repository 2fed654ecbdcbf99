-- Workers of one's own: programs that call a model themselves and use walagent over SQL.
--
-- A turn of such a worker is a run of kind turn in a queue of kind worker, which no worker of walagent claims.  Steps, approvals,
-- limits and the checks of calls are those of other turns, so everything that shows or decides runs does so with these.
--
-- Who works: the principal that the attachment names, by sessions.  The session that started a turn holds it under a lease,
-- which each call extends.  When the lease has expired, another session of that principal can continue the turn; the former
-- one is then refused.  A session is known by its backend, or by the setting walagent.worker, for poolers and reconnects.
--
--   WA027   a turn of a worker of one's own: it does not exist, has ended, is held by another worker, or has no such call

-- Let a program work the turns of an agent.
--
-- Args: worker: the principal that it acts as; NULL: the caller.  run_as: the role that SQL tools run as.
--   lease: how long a turn is held after each call.
create function agent.attach_worker(
    agent text, worker name default null, run_as name default current_user, approve text[] default '{}',
    lease interval default '1 minute', name text default null
)
    returns bigint
    language plpgsql
as $$
declare
    _id bigint;
begin
    if lease is null or lease <= interval '0' then
        raise exception 'invalid lease %: expected a duration above 0', lease using errcode = 'WA027';
    end if;
    insert into agent.attachment (name, agent, relation, condition, approve, run_as, turns)
    values (coalesce(attach_worker.name, attach_worker.agent), attach_worker.agent, 'agent.event'::regclass, 'false',
            attach_worker.approve, attach_worker.run_as, jsonb_build_object(
                'worker', coalesce(attach_worker.worker, agent.current_principal()), 'lease_seconds', extract(epoch from attach_worker.lease)))
    returning id into _id;
    if has_function_privilege('agent_internal.make_trampoline(name)', 'execute') then
        perform agent_internal.make_trampoline(attach_worker.run_as);
    end if;
    return _id;
end;
$$;
comment on function agent.attach_worker(text, name, name, text[], interval, text) is 'Let a program of one''s own work the turns of an agent';

-- The session, as the holder of turns.  The principal is part of it: a setting does not make somebody else of it.
create function agent_internal.worker_name()
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('%s/%s', agent.current_principal(), coalesce(nullif(current_setting('walagent.worker', true), ''), pg_backend_pid()::text))
$$;

-- Act as the agent of a turn, a member of its thread, until agent_internal.act_again().  Returns who acted before.
create function agent_internal.act_as_agent(_tenant text, _agent name)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _before constant text := coalesce(current_setting('walagent.identity', true), '');
begin
    perform agent_internal.assume(_tenant, _agent);
    return _before;
end;
$$;

create function agent_internal.act_again(_before text)
    returns void
    language plpgsql
as $$ begin perform pg_catalog.set_config('walagent.identity', _before, true); end; $$;

-- The definition that a turn is pinned to.
create function agent_internal.turn_definition(_turn agent.run)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select v.definition from agent.attachment_version v
     where v.attachment_id = _turn.attachment_id and v.version = _turn.attachment_version
$$;

-- Calls of a turn without a result, in the order in which they were made.
--
-- Returns begun: whether the worker may carry it out; key: its idempotency key.  approval: the latest request of an approval.
create function agent_internal.open_calls(_run bigint)
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
create function agent_internal.open_calls_json(_run bigint)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(jsonb_build_object('call_id', c.call_id, 'tool', c.tool, 'arguments', c.arguments)), '[]')
      from agent_internal.open_calls(_run) c
$$;

-- Tokens as the SDKs of providers report them: input, cached, cache write and output.
--
-- Raises WA027 if they are no counts.
create function agent_internal.usage_of(_usage jsonb)
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
    elsif jsonb_typeof(_usage) <> 'object' or exists (select from unnest(_given) g where g !~ '^[0-9]{1,8}$') then
        raise exception 'usage is not an object with counts of tokens: %', left(_usage::text, 200) using errcode = 'WA027',
            hint = 'Pass usage as the SDK reports it, with prompt_tokens and completion_tokens, or NULL.';
    end if;
    _tokens := _given::integer[];
    return array[greatest(0, _tokens[1] - _tokens[2]), _tokens[3], _tokens[4], _tokens[5]];
end;
$$;

-- The cost of a call in US dollars; NULL if a price is unknown.
create function agent_internal.cost_of_usage(_tenant text, _model text, _usage integer[])
    returns numeric
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select (_usage[1] * p.input_price + _usage[2] * coalesce(p.cached_input_price, p.input_price)
            + _usage[3] * coalesce(p.cache_write_price, p.input_price) + _usage[4] * p.output_price) / 1000000
      from agent_internal.model_of(_tenant, _model) m
           cross join lateral (
               select b.* from jsonb_to_recordset(m.price_bands) as b (above integer, input_price numeric, cached_input_price numeric,
                                                                       cache_write_price numeric, output_price numeric)
                where _usage[1] + _usage[2] + _usage[3] > b.above
                union all
               select -1, m.input_price, m.cached_input_price, m.cache_write_price, m.output_price
                order by 1 desc limit 1
           ) p
$$;

-- End a turn that the caller has locked.
create function agent_internal.end_own_turn(_turn agent.run, _state agent.run_state, _result text, _error jsonb)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.run r
       set state = _state, result = _result, error = coalesce(_error, case when _state = 'cancelled' then r.error end),
           lease_expires_at = null, finished_at = agent_internal.now(), cancel_requested = false,
           tokens = s.tokens, cost = s.cost
      from (select coalesce(sum(x.input_tokens + x.cached_tokens + x.cache_write_tokens + x.output_tokens), 0) as tokens, sum(x.cost) as cost
              from agent.step x where x.run_id = _turn.id) s
     where r.id = _turn.id;
    perform agent_internal.release(_turn.id);
    perform agent_internal.unblock(_turn.id);
end;
$$;

-- Lock a turn, and hold it if it can be held: it is this session's, or nobody's any more.
--
-- Returns the turn as it is then; unless it is running, this session does not hold it.
-- Raises WA027 if the caller does not work this agent's turns, or another session holds it.
create function agent_internal.take_turn(_id bigint)
    returns agent.run
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me   constant text := agent_internal.worker_name();
    _def  jsonb;
    _turn agent.run;
    _open record;
    _died boolean;
begin
    select * into _turn from agent.run r
     where r.id = _id and r.kind = 'turn' and r.tenant = agent.current_tenant()
       for no key update;
    _def := agent_internal.turn_definition(_turn);
    if _turn.id is null or (_def #>> '{turns,worker}' = agent.current_principal()::text) is not true then
        raise exception 'turn % does not exist, or "%" does not work it', _id, agent.current_principal()
            using errcode = 'WA027', hint = 'agent.attach_worker() names the principal that works the turns of an agent.';
    end if;
    if _turn.state = 'waiting_approval' then
        update agent.approval a set state = 'expired', decided_at = agent_internal.now()
         where a.run_id = _id and a.state = 'pending' and a.expires_at <= agent_internal.now();
        select * into _turn from agent.run r where r.id = _id;
    end if;
    if _turn.state = 'waiting_retry' and _turn.next_attempt_at <= agent_internal.now() then
        update agent.run r set state = 'pending', next_attempt_at = null where r.id = _id returning * into _turn;
    end if;
    if _turn.state not in ('pending', 'running') then
        return _turn;
    elsif _turn.cancel_requested then
        perform agent_internal.end_own_turn(_turn, 'cancelled', null, null);
    elsif _turn.state = 'running' and _turn.worker = _me then
        update agent.run r set lease_expires_at = agent_internal.now() + make_interval(secs => (_def #>> '{turns,lease_seconds}')::numeric)
         where r.id = _id;
    elsif _turn.state = 'running' and _turn.lease_expires_at > agent_internal.now() then
        raise exception 'turn % is held by another worker', _id
            using errcode = 'WA027', detail = format('Its lease expires at %s unless it is extended.', _turn.lease_expires_at),
                  hint = 'Try again after that.';
    elsif _turn.attempt >= _turn.max_attempts then
        if _turn.state = 'pending' then
            update agent.run r set state = 'dead', not_before = null, blocked_by = null, finished_at = agent_internal.now() where r.id = _id;
        else
            perform agent_internal.end_own_turn(_turn, 'dead', null, jsonb_build_object(
                'reason', format('%s workers did not finish it (max_attempts)', _turn.attempt)));
        end if;
    else
        update agent.run r
           set state = 'running', worker = _me, lease = r.lease + 1, attempt = r.attempt + 1, not_before = null, blocked_by = null,
               error = null,
               started_at = coalesce(r.started_at, agent_internal.now()),
               lease_expires_at = agent_internal.now() + make_interval(secs => (_def #>> '{turns,lease_seconds}')::numeric)
         where r.id = _id;
        -- The former worker might have carried it out: only a person can know.
        for _open in select c.* from agent_internal.open_calls(_id) c where c.begun loop
            if exists (select from jsonb_array_elements(_def -> 'tools') t
                        where t ->> 'name' = _open.tool and t ->> 'effect' = 'unsafe') then
                update agent.run r
                   set state = 'needs_review', lease_expires_at = null, attempt = r.attempt - 1,
                       error = jsonb_build_object('reason', format('outcome of %s is unknown', _open.tool), 'call_id', _open.call_id)
                 where r.id = _id and r.state = 'running';
            end if;
        end loop;
    end if;
    select * into _turn from agent.run r where r.id = _id;
    return _turn;
end;
$$;
comment on function agent_internal.take_turn(bigint) is 'Lock a turn, and hold it if it can be held';

-- Why a turn has reached a limit before the next reply of its model; NULL: it has not.
create function agent_internal.turn_limit(_turn agent.run, _def jsonb)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _since constant integer := (select coalesce(max(s.seq), -1) from agent.step s
                                 where s.run_id = _turn.id and s.kind = 'note' and s.content ? 'retry');
    _used  record;
begin
    select count(*) filter (where not s.content ? 'continues') as replies, sum(s.cost) as cost,
           sum(coalesce(s.input_tokens + s.cached_tokens + s.cache_write_tokens + s.output_tokens, 0)) as tokens
      into _used
      from agent.step s where s.run_id = _turn.id and s.seq > _since and s.kind = 'reply';
    return case
        when _used.replies >= (_def -> 'max_steps')::integer and not exists (select from agent_internal.open_calls(_turn.id)) then
            format('%s replies of the model were not enough (max_steps)', _def ->> 'max_steps')
        when _used.tokens > nullif(_def -> 'max_tokens', 'null')::bigint then
            format('%s tokens used, %s allowed (max_tokens)', _used.tokens, _def ->> 'max_tokens')
        when _used.cost > nullif(_def -> 'max_cost', 'null')::numeric then
            format('%s US dollars spent, %s allowed (max_cost)', round(_used.cost, 6), _def ->> 'max_cost')
        when agent_internal.now() > _turn.started_at + make_interval(secs => nullif(_def -> 'max_seconds', 'null')::integer) then
            'run exceeded max_seconds'
    end;
end;
$$;

-- End a turn that has reached a limit.  Returns the turn.
create function agent_internal.within_limits(_turn agent.run)
    returns agent.run
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _reason text;
begin
    if _turn.state = 'running' then
        _reason := agent_internal.turn_limit(_turn, agent_internal.turn_definition(_turn));
        if _reason is not null then
            perform agent_internal.end_own_turn(_turn, 'failed', null, jsonb_build_object('reason', _reason));
            select * into _turn from agent.run r where r.id = _turn.id;
        end if;
    end if;
    return _turn;
end;
$$;

-- What a worker receives about a turn.
create function agent_internal.turn_status(_turn agent.run)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'turn', _turn.id,
        'status', case _turn.state when 'waiting_approval' then 'awaiting_approval' else _turn.state::text end,
        'error', _turn.error ->> 'reason'))
$$;

create function agent_internal.no_such_call(_turn agent.run, _tool text)
    returns void
    language plpgsql
as $$
begin
    raise exception 'no call of "%" in turn % waits for a result', _tool, _turn.id
        using errcode = 'WA027', hint = 'Make the call with agent.process_tool_call(); a status of ready says that it may be carried out.';
end;
$$;

-- Post a message in a thread, as the caller.
create function agent.add_user_message(thread uuid, text text)
    returns uuid
    language sql
    as $$ select (agent.post($1, $2)).id $$;
comment on function agent.add_user_message(uuid, text) is 'Post a message in a thread, as the caller';

create function agent_internal.is_member(_tenant text, _principal name, _thread uuid)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _before constant text := agent_internal.act_as_agent(_tenant, _principal);
    _found  constant boolean := exists (select from agent.member m where m.tenant = _tenant and m.thread_id = _thread and m.principal = _principal);
begin
    perform agent_internal.act_again(_before);
    return _found;
end;
$$;

-- Start a turn of an agent in a thread, or continue one that has not ended.
--
-- Args: agent: NULL: the one agent of the thread that the caller works for.
-- Returns the turn; NULL: nobody has written since the agent's last turn.
-- Raises WA027 if another worker holds the turn, or none can start; WA017 in a copy of the database.
create function agent.start_turn(thread uuid, agent text default null)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := agent.current_tenant();
    _me     constant name := agent.current_principal();
    _where  agent.thread;
    _names  text[];
    _at     agent.attachment;
    _event  agent.event;
    _turn   agent.run;
    _id     bigint;
    _worker constant text := agent_internal.worker_name();
    _before constant text := coalesce(current_setting('walagent.identity', true), '');
    _refused text;
begin
    perform agent_internal.check_database();
    _names := array(
        select a.name from agent.attachment a
         where a.tenant = _tenant and a.turns ->> 'worker' = _me and (start_turn.agent is null or a.agent = start_turn.agent)
           and agent_internal.is_member(a.tenant, a.agent, start_turn.thread)
         order by a.id);
    if cardinality(_names) <> 1 then
        raise exception '"%" works % in thread %', _me, case cardinality(_names) when 0 then
                coalesce('no agent "' || start_turn.agent || '"', 'no agent') else 'several agents' end, start_turn.thread
            using errcode = 'WA027', hint = case cardinality(_names)
                when 0 then 'The agent must be a member of the thread; agent.attach_worker() names the principal that works its turns.'
                else 'Name one: agent.start_turn(thread, agent).' end;
    end if;
    select * into _at from agent.attachment a where a.tenant = _tenant and a.name = _names[1];
    select r.id into _id from agent.run r
     where r.queue_id = _at.id and r.ordering_key = start_turn.thread::text and r.kind = 'turn'
       and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review');
    if found then
        perform agent_internal.take_turn(_id);
        return _id;
    elsif _at.paused then
        raise exception 'attachment "%" is paused', _at.name using errcode = 'WA027', hint = format('Run select agent.resume(%L).', _at.name);
    end if;
    perform agent_internal.assume(_tenant, _at.agent);
    select * into _where from agent.thread t where t.tenant = _tenant and t.id = start_turn.thread for no key update;
    select e.* into _event
      from agent.event e join agent.member m on m.tenant = e.tenant and m.thread_id = e.thread_id and m.principal = _at.agent
     where e.tenant = _tenant and e.thread_id = _where.id and e.number > m.seen and e.type = 'text' and e.author <> _at.agent
     order by e.number desc
     limit 1;
    if not found then
        perform agent_internal.act_again(_before);
        return null;
    end if;
    insert into agent.run (tenant, kind, reason, queue_id, principal, attachment_id, attachment_version, change, key, ordering_key, state,
                           max_attempts, attempt, lease, lease_expires_at, worker, started_at)
    values (_tenant, 'turn', 'manual', _at.id, _at.agent, _at.id,
            coalesce((select m.attachment_version from agent.member m
                       where m.tenant = _tenant and m.thread_id = _where.id and m.principal = _at.agent and m.attachment_id = _at.id), _at.version),
            jsonb_build_object('op', 'insert', 'schema', 'agent', 'table', 'event', 'new', to_jsonb(_event), 'old', null),
            _event.thread_id || ' ' || _event.number, start_turn.thread::text, 'running',
            (_at.definition -> 'max_attempts')::integer, 1, 1,
            agent_internal.now() + make_interval(secs => (_at.turns ->> 'lease_seconds')::numeric),
            _worker, agent_internal.now())
    returning * into _turn;
    _refused := agent_internal.admit_turn(_turn.id, jsonb_build_object('turn', jsonb_build_object(
        'context', '', 'instructions', '[]'::jsonb, 'upto', _where.last_number, 'worker', _turn.worker,
        'seen', (select m.seen from agent.member m where m.tenant = _tenant and m.thread_id = _where.id and m.principal = _at.agent))));
    if _refused is not null then
        raise exception 'no turn can start: %', case _refused when 'paused' then 'the thread is paused' else _refused end using errcode = 'WA027';
    end if;
    perform agent_internal.act_again(_before);
    return _turn.id;
end;
$$;
comment on function agent.start_turn(uuid, text) is 'Start a turn of an agent in a thread, or continue one; NULL: there is nothing to answer';

-- The messages of a turn in the form of OpenAI's API: what was said before it, with the agent's calls and their results,
-- then its own replies.
create function agent_internal.turn_messages(_turn agent.run, _def jsonb)
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
    with reply as (
        select s.seq, p ->> 'text' as text, p ->> 'call' as call_id, p ->> 'name' as tool, p -> 'arguments' as arguments, n,
               (select d.content from agent.step d where d.run_id = _turn.id and d.kind = 'result' and d.content ->> 'call_id' = p ->> 'call') as result
          from agent.step s cross join jsonb_array_elements(s.content -> 'parts') with ordinality as x (p, n)
         where s.run_id = _turn.id and s.kind = 'reply'
    ), said as (
        select r.seq, 0 as place, 0::bigint as n, jsonb_strip_nulls(jsonb_build_object(
                   'role', 'assistant', 'content', string_agg(r.text, '' order by r.n),
                   'tool_calls', jsonb_agg(agent_internal.openai_call(r.call_id, r.tool, r.arguments) order by r.n) filter (where r.result is not null)))
               as message
          from reply r group by r.seq having count(r.text) + count(r.result) > 0
        union all
        select r.seq, 1, r.n, jsonb_build_object('role', 'tool', 'tool_call_id', r.call_id, 'content', r.result -> 'content')
          from reply r where r.result is not null
        union all
        select s.seq, 0, 0, jsonb_build_object('role', 'user', 'content', s.content -> 'text')
          from agent.step s where s.run_id = _turn.id and s.kind = 'note' and s.content ? 'text'
    )
    select jsonb_agg(s.message order by s.seq, s.place, s.n) into _own from said s;
    return case when _thread.summary is null then '[]'::jsonb
                else jsonb_build_array(jsonb_build_object('role', 'user', 'content', 'Summary of earlier messages: ' || _thread.summary)) end
           || coalesce(_past, '[]') || coalesce(_own, '[]');
end;
$$;

create function agent_internal.openai_call(_id text, _name text, _arguments jsonb)
    returns jsonb
    language sql
    immutable
as $$
    select jsonb_build_object('id', _id, 'type', 'function', 'function', jsonb_build_object(
        'name', _name, 'arguments', coalesce(_arguments, '{}')::text))
$$;

-- The number of a reply, by which budgets know the call that it answers.
create function agent_internal.reply_number(_turn bigint)
    returns integer
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select count(*)::integer from agent.step s where s.run_id = _turn and s.kind = 'reply' and not s.content ? 'continues' $$;

-- The most that a call can cost, in US dollars; NULL if a price is unknown.
create function agent_internal.most_cost(_tenant text, _model text, _input integer, _output integer)
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
create function agent_internal.reserve_reply(_turn agent.run, _def jsonb, _asked jsonb, _output integer)
    returns agent.run
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _model   constant text := _def ->> 'model';
    _input   constant integer := octet_length(_asked::text);
    _refusal jsonb;
    _wait    interval;
begin
    _refusal := agent_internal.reserve_call(
        _turn.id, _turn.lease, agent_internal.reply_number(_turn.id), _model, _input + _output,
        agent_internal.most_cost(_turn.tenant, _model, _input, _output), _turn.principal,
        (select a.name from agent.attachment a where a.id = _turn.attachment_id));
    _wait := (_refusal ->> 'wait')::double precision * interval '1 second';
    if _wait is not null then
        -- Either a change of the budget is visible here, or the transaction that commits it sees the waiting turn.
        perform agent_internal.share_lock('budget');
        if not exists (select from agent.budget b where b.tenant = _turn.tenant and b.name = _refusal ->> 'budget'
                                                    and b.version = (_refusal ->> 'version')::integer) then
            _wait := interval '0';
        end if;
        update agent.run r
           set state = 'waiting_retry', lease_expires_at = null, attempt = greatest(0, r.attempt - 1), error = _refusal - '{version,wait}'::text[],
               next_attempt_at = agent_internal.now() + _wait
         where r.id = _turn.id;
        perform agent_internal.release(_turn.id);
    elsif _refusal is not null then
        perform agent_internal.end_own_turn(_turn, 'failed', null, _refusal - '{version}'::text[]);
    end if;
    select * into _turn from agent.run r where r.id = _turn.id;
    return _turn;
end;
$$;

-- Record a reply of a turn's model that its worker reports, and settle its reservation.  What is not reported counts as reserved.
create function agent_internal.insert_reply(_turn agent.run, _def jsonb, _content jsonb, _usage integer[])
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
create function agent.run_turn(turn bigint)
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

-- The result of a call that is not carried out, which the model receives.
create function agent_internal.refuse_own_call(_turn agent.run, _call_id text, _tool text, _reason text, _denied boolean default true)
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
create function agent_internal.wrong_arguments(_tool jsonb, _arguments jsonb)
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
               from jsonb_array_elements_text(_tool #> '{input_schema,required}') k where not _arguments ? k order by k limit 1))
    end
$$;

-- The statement of a SQL tool: select to_jsonb(schema.f(a => g.a, ...)) from jsonb_to_record($1) as g (a type, ...).
create function agent_internal.tool_statement(_tool jsonb, _arguments jsonb)
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
               coalesce(format('jsonb_to_record($1) as g (%s)', types), '(select) as g') as source
          from given
    )
    select case when (_tool -> 'returns_set')::boolean
                then format('select coalesce(jsonb_agg(to_jsonb(r)), ''[]'') from %s, lateral (select * from %s limit 1000) as r', source, call)
                else format('select to_jsonb(%s) from %s', call, source) end
      from parts
$$;

-- Carry out a call of a SQL tool in this transaction, and record its result: as a worker of walagent does.  The transaction
-- can write nothing after it.
--
-- The request is signed for this transaction.  The role that attached the agent must be able to become the role of the tool.
create function agent_internal.call_in_place(_turn agent.run, _def jsonb, _tool jsonb, _call_id text, _given jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _identity  constant text := coalesce(current_setting('walagent.identity', true), '');
    _key       constant bytea := (select s.key from agent_internal.secret s);
    _arguments constant jsonb := _given || coalesce((select jsonb_object_agg(b.key, coalesce(_turn.change #> array['new', b.value], 'null'))
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

-- The same for a built-in tool that works inside the database; NULL: it does not.
create function agent_internal.call_builtin(_turn agent.run, _tool jsonb, _call_id text, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _identity constant text := coalesce(current_setting('walagent.identity', true), '');
    _target   constant text := _tool ->> 'target';
    _content  jsonb;
begin
    if _target <> all ('{do_nothing,remember,recall,retrieve,post_event,send_email,send_webhook,propose,vote,task_update,hand_over}') then
        return null;
    end if;
    begin
        if _target <> 'do_nothing' then
            perform agent_internal.begin_builtin(_turn.id, _turn.lease);
        end if;
        _content := jsonb_build_object('is_error', false, 'content', left(case _target
            when 'do_nothing' then 'ok'
            when 'remember' then format('remembered as %s', agent_internal.builtin_remember(_turn.id, _arguments) ->> 'id')
            when 'post_event' then format('posted as event %s', agent_internal.builtin_post_event(_turn.id, _arguments) ->> 'number')
            when 'send_email' then agent_internal.builtin_send(_turn.id, 'email', _arguments)::text
            when 'send_webhook' then agent_internal.builtin_send(_turn.id, 'webhook', _arguments)::text
            when 'recall' then agent_internal.builtin_recall(_turn.id, _arguments)::text
            when 'retrieve' then agent_internal.builtin_retrieve(_turn.id, _arguments)::text
            else agent_internal.builtin_team(_turn.id, _target, _arguments)::text end, 65536));
    exception when others then
        if sqlstate ~ '^(08|40|53|57P|55P03|WA001|WA002|WA004)' then
            raise;
        end if;
        _content := jsonb_build_object('is_error', true, 'sqlstate', sqlstate, 'content', left(format('%s (SQLSTATE %s)', sqlerrm, sqlstate), 4096));
    end;
    perform agent_internal.act_again(_identity);
    _content := _content || jsonb_build_object('call_id', _call_id, 'name', _tool -> 'name');
    perform agent_internal.insert_step(_turn.id, null, 'result', _content);
    return _content;
end;
$$;

-- Make a call of a tool, or continue with one that was made.
--
-- Call it alone in its transaction: after a SQL tool, the transaction can write nothing more.
--
-- Args: call_id: the model's, if a turn has equal calls.  usage: tokens of the reply that made the call, as SDKs report them.
-- Returns call_id, and status: `done`: it was carried out in the database, with result and is_error; `ready`: the worker must
-- carry it out with these arguments and record the result; `awaiting_approval`: call again after the decision; `denied`, with reason,
-- which is the result; or the state in which the turn has ended or waits.
create function agent.process_tool_call(turn bigint, tool text, arguments jsonb, call_id text default null, usage jsonb default null)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   constant agent.run := agent_internal.take_turn(process_tool_call.turn);
    _before text;
    _made   jsonb;
begin
    if agent_internal.is_final(_turn.state) then
        raise exception 'turn % has ended: %', _turn.id, _turn.state using errcode = 'WA027', detail = coalesce(_turn.error ->> 'reason', '');
    elsif _turn.state <> 'running' then
        return agent_internal.turn_status(_turn);
    end if;
    _before := agent_internal.act_as_agent(_turn.tenant, _turn.principal);
    _made := agent_internal.make_call(_turn, process_tool_call.tool, process_tool_call.arguments, process_tool_call.call_id,
                                      agent_internal.usage_of(process_tool_call.usage));
    perform agent_internal.act_again(_before);
    return _made;
end;
$$;
comment on function agent.process_tool_call(bigint, text, jsonb, text, jsonb) is 'Make a call of a tool in a turn: it is carried out, ready, denied, or awaits an approval';

-- The same, in a turn that the caller holds, as its agent.
create function agent_internal.make_call(_turn agent.run, _name text, _arguments jsonb, _id text, _usage integer[])
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
    elsif not _call.begun then
        _verdict := agent_internal.check_call(_turn.id, _call.call_id, _call.tool, _given);
        if _verdict ->> 'action' = 'transform' then
            _given := _verdict -> 'arguments';
            _verdict := agent_internal.check_call(_turn.id, _call.call_id, _call.tool, _given);
        end if;
        if _verdict ->> 'action' = 'deny' then
            return agent_internal.refuse_own_call(_turn, _call.call_id, _call.tool, _verdict ->> 'reason');
        elsif _decision.id is null and (_verdict ->> 'action' <> 'allow' or coalesce((_tool -> 'approval')::boolean, false)
                                        or _tool ->> 'target' = 'ask_human' and _tool ->> 'kind' = 'builtin') then
            perform agent_internal.park_for_approval(_turn, _def, _call.call_id, _call.tool, _given);
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

-- Request an approval, and let the turn wait for it.
create function agent_internal.park_for_approval(_turn agent.run, _def jsonb, _call_id text, _tool text, _arguments jsonb)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _asked constant agent.approval := agent_internal.insert_approval(
        _turn, _call_id, _tool, _arguments, (_def ->> 'run_as')::name, make_interval(secs => (_def ->> 'approval_seconds')::double precision));
begin
    perform agent_internal.insert_step(_turn.id, null, 'approval', jsonb_build_object(
        'approval', _asked.id, 'call_id', _call_id, 'tool', _tool, 'digest', _asked.digest));
    update agent.run r set state = 'waiting_approval', lease_expires_at = null, attempt = greatest(0, r.attempt - 1) where r.id = _turn.id;
    perform pg_notify('walagent_approvals', _asked.id::text);
end;
$$;

-- Record the result of a call that was ready.
--
-- Args: result: what the model receives: a text, or any JSON.  call_id: NULL: the oldest ready call of the tool.
-- Raises WA027 if no such call was made, or it was not ready.
create function agent.record_tool_result(turn bigint, tool text, result jsonb, is_error boolean default false, call_id text default null)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _turn   agent.run := agent_internal.take_turn(record_tool_result.turn);
    _before text;
    _call    record;
    _content jsonb;
begin
    if agent_internal.is_final(_turn.state) then
        raise exception 'turn % has ended: %', _turn.id, _turn.state using errcode = 'WA027', detail = coalesce(_turn.error ->> 'reason', '');
    end if;
    select c.* into _call from agent_internal.open_calls(_turn.id) c
     where c.tool = record_tool_result.tool and c.begun and c.call_id = coalesce(record_tool_result.call_id, c.call_id)
     limit 1;
    if not found or _turn.state <> 'running' then
        perform agent_internal.no_such_call(_turn, record_tool_result.tool);
    end if;
    _before := agent_internal.act_as_agent(_turn.tenant, _turn.principal);
    _content := jsonb_build_object(
        'call_id', _call.call_id, 'name', _call.tool, 'is_error', coalesce(is_error, false), 'content', left(case jsonb_typeof(result)
            when 'string' then result #>> '{}' else coalesce(result::text, 'done') end, 65536));
    -- As policies leave it.
    _content := agent_internal.checked_error(
        agent_internal.check_call(_turn.id, _call.call_id, _call.tool, _call.arguments), _content);
    perform agent_internal.insert_step(_turn.id, null, 'result', _content);
    perform agent_internal.act_again(_before);
    return agent_internal.turn_status(_turn);
end;
$$;
comment on function agent.record_tool_result(bigint, text, jsonb, boolean, text) is 'Record the result of a call that the worker carried out';

-- End a turn with the answer of its model, which is posted in the thread.
--
-- Args: text: NULL: nothing is posted.
-- Raises WA027 if the turn has ended, or a call has no result.
create function agent.finish_turn(turn bigint, text text, usage jsonb default null)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn  agent.run := agent_internal.take_turn(finish_turn.turn);
    _def   constant jsonb := agent_internal.turn_definition(_turn);
    _usage constant integer[] := agent_internal.usage_of(finish_turn.usage);
    _text  constant text := nullif(btrim(finish_turn.text), '');
    _open  text;
    _identity constant text := coalesce(current_setting('walagent.identity', true), '');
begin
    if agent_internal.is_final(_turn.state) and not (_turn.state = 'cancelled' and _turn.finished_at = agent_internal.now()) then
        raise exception 'turn % has ended: %', _turn.id, _turn.state using errcode = 'WA027', detail = coalesce(_turn.error ->> 'reason', '');
    end if;
    select c.call_id into _open from agent_internal.open_calls(_turn.id) c limit 1;
    if _turn.state = 'running' and _open is not null then
        raise exception 'call "%" of turn % has no result', _open, _turn.id
            using errcode = 'WA027', hint = 'Continue it with agent.process_tool_call(), or record its result.';
    elsif _turn.state <> 'running' then
        return agent_internal.turn_status(_turn);
    end if;
    perform agent_internal.assume(_turn.tenant, _turn.principal);
    perform agent_internal.insert_reply(
        _turn, _def, jsonb_build_object(
            'parts', case when _text is null then '[]' else jsonb_build_array(jsonb_build_object('text', _text)) end, 'stop', 'end'),
        _usage);
    perform agent_internal.end_turn(_turn.id, _text, (select (s.content #> '{turn,upto}')::bigint from agent.step s where s.run_id = _turn.id and s.seq = 0));
    perform agent_internal.act_again(_identity);
    perform agent_internal.end_own_turn(_turn, 'succeeded', _text, null);
    select * into _turn from agent.run r where r.id = _turn.id;
    return agent_internal.turn_status(_turn);
end;
$$;
comment on function agent.finish_turn(bigint, text, jsonb) is 'End a turn with the answer of its model, which is posted in the thread';

revoke all on function agent.attach_worker(text, name, name, text[], interval, text), agent_internal.worker_name(),
    agent_internal.act_as_agent(text, name), agent_internal.act_again(text), agent_internal.is_member(text, name, uuid),
    agent_internal.make_call(agent.run, text, jsonb, text, integer[]), agent_internal.turn_definition(agent.run), agent_internal.open_calls(bigint), agent_internal.open_calls_json(bigint), agent_internal.usage_of(jsonb),
    agent_internal.reply_number(bigint), agent_internal.most_cost(text, text, integer, integer),
    agent_internal.reserve_reply(agent.run, jsonb, jsonb, integer), agent_internal.insert_reply(agent.run, jsonb, jsonb, integer[]),
    agent_internal.cost_of_usage(text, text, integer[]), agent_internal.end_own_turn(agent.run, agent.run_state, text, jsonb),
    agent_internal.take_turn(bigint), agent_internal.turn_limit(agent.run, jsonb), agent_internal.within_limits(agent.run),
    agent_internal.turn_status(agent.run), agent_internal.no_such_call(agent.run, text), agent.add_user_message(uuid, text),
    agent.start_turn(uuid, text), agent_internal.turn_messages(agent.run, jsonb), agent_internal.openai_call(text, text, jsonb),
    agent.run_turn(bigint), agent_internal.refuse_own_call(agent.run, text, text, text, boolean),
    agent_internal.wrong_arguments(jsonb, jsonb), agent_internal.tool_statement(jsonb, jsonb),
    agent_internal.call_in_place(agent.run, jsonb, jsonb, text, jsonb), agent_internal.call_builtin(agent.run, jsonb, text, jsonb),
    agent.process_tool_call(bigint, text, jsonb, text, jsonb),
    agent_internal.park_for_approval(agent.run, jsonb, text, text, jsonb),
    agent.record_tool_result(bigint, text, jsonb, boolean, text), agent.finish_turn(bigint, text, jsonb) from public;
select agent_internal.permit('developer', 'execute on function agent.attach_worker(text, name, name, text[], interval, text)');
select agent_internal.permit('member',
    'execute on function agent.add_user_message(uuid, text), agent.start_turn(uuid, text), agent.run_turn(bigint), '
    'agent.process_tool_call(bigint, text, jsonb, text, jsonb), agent.record_tool_result(bigint, text, jsonb, boolean, text), '
    'agent.finish_turn(bigint, text, jsonb)');
