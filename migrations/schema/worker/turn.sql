-- Own workers: programs that call a model themselves and use walagent over SQL.
--
-- A turn of such a worker is a run of kind turn in a queue of kind worker, which no worker of walagent claims.  Steps, approvals,
-- limits and the checks of calls are those of other turns, so everything that shows or decides runs does so with these.
--
-- Who works: the principal that the attachment names, by sessions.  The session that started a turn holds it under a lease,
-- which each call extends.  When the lease has expired, another session of that principal can continue the turn; the former
-- one is then refused.  A session is known by its backend, or by the setting walagent.worker, for poolers and reconnects.
--
--   WA027   a turn of an own worker: it does not exist, has ended, is held by another worker, or has no such call

create or replace function agent_internal.check_lease(_lease interval)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _lease is null or _lease <= interval '0' then
        raise exception 'invalid lease %: expected a duration above 0', _lease using errcode = 'WA027';
    end if;
end;
$$;

-- Prepare the SQL tools of an attachment for its worker; return its ID.
create or replace function agent_internal.worker_attached(_name text)
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _new agent.attachment;
begin
    select * into _new from agent.attachment a where a.tenant = agent.current_tenant() and a.name = _name;
    if exists (select from jsonb_array_elements(_new.definition -> 'tools') t where t ->> 'kind' = 'sql') then
        perform agent_internal.make_trampoline_of_member(_new.run_as);
    end if;
    return _new.id;
end;
$$;

-- Let a program work the turns of an agent.
--
-- Args: worker: the principal that it acts as; NULL: the caller.  run_as: the role that SQL tools run as.
--   lease: how long a turn is held after each call.
create or replace function agent.attach_worker(
    agent text, worker name default null, run_as name default current_user, approve text[] default '{}',
    lease interval default '1 minute', name text default null, lets_out text[] default '{}'
)
    returns bigint
    language sql
begin atomic
    select agent_internal.check_lease(attach_worker.lease);
    insert into agent.attachment (name, agent, relation, condition, approve, lets_out, run_as, turns)
    values (coalesce(attach_worker.name, attach_worker.agent), attach_worker.agent, 'agent.event'::regclass, 'false',
            attach_worker.approve, attach_worker.lets_out, attach_worker.run_as, jsonb_build_object(
                'worker', coalesce(attach_worker.worker, agent.current_principal()), 'lease_seconds', extract(epoch from attach_worker.lease)));
    select agent_internal.worker_attached(coalesce(attach_worker.name, attach_worker.agent));
end;
comment on function agent.attach_worker(text, name, name, text[], interval, text, text[]) is 'Let a program of one''s own work the turns of an agent';

-- The session, as the holder of turns.  The principal is part of it: a setting does not make somebody else of it.
create or replace function agent_internal.worker_name()
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select format('%s/%s', agent.current_principal(), coalesce(nullif(current_setting('walagent.worker', true), ''), pg_backend_pid()::text))
$$;

-- Act as the agent of a turn, a member of its thread, until agent_internal.act_again().  Returns who acted before.
create or replace function agent_internal.act_as_agent(_tenant text, _agent name)
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

create or replace function agent_internal.act_again(_before text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform pg_catalog.set_config('walagent.identity', _before, true); end; $$;

-- The definition that a turn is pinned to.
create or replace function agent_internal.turn_definition(_turn agent.run)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select v.definition from agent.attachment_version v
     where v.attachment_id = _turn.attachment_id and v.version = _turn.attachment_version
$$;

-- What the replies of a turn have used.
create or replace function agent_internal.spent_of(_turn bigint, out tokens bigint, out cost numeric)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(sum(s.input_tokens + s.cached_tokens + s.cache_write_tokens + s.output_tokens), 0), sum(s.cost)
      from agent.step s where s.run_id = _turn
$$;

-- End a turn that the caller has locked.
create or replace function agent_internal.end_own_turn(_turn agent.run, _state agent.run_state, _result text, _error jsonb)
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
      from agent_internal.spent_of(_turn.id) s
     where r.id = _turn.id;
    perform agent_internal.release(_turn.id);
    perform agent_internal.unblock(_turn.id);
end;
$$;

-- Lock a turn, and hold it if it can be held: this session holds it, or no session does.
--
-- Returns the turn as it is then; unless it is running, this session does not hold it.
-- Raises WA027 if the caller does not work this agent's turns, or another session holds it.
create or replace function agent_internal.take_turn(_id bigint)
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
        begin
            update agent.run r
               set state = 'running', worker = _me, lease = r.lease + 1, attempt = r.attempt + 1, not_before = null, blocked_by = null,
                   error = null,
                   started_at = coalesce(r.started_at, agent_internal.now()),
                   lease_expires_at = agent_internal.now() + make_interval(secs => (_def #>> '{turns,lease_seconds}')::numeric)
             where r.id = _id;
        exception when unique_violation then
            raise exception 'another turn of thread "%" is being worked', _turn.ordering_key
                using errcode = 'WA027', hint = 'Try again when it has ended.';
        end;
        -- The former worker might have carried it out: only a person can know.
        select c.* into _open
          from agent_internal.open_calls(_id) c join jsonb_array_elements(_def -> 'tools') t on t ->> 'name' = c.tool
         where c.begun and t ->> 'effect' = 'unsafe'
         limit 1;
        if found then
            perform agent_internal.park_locked(
                _id, 'needs_review', null, true,
                jsonb_build_object('reason', format('outcome of %s is unknown', _open.tool), 'call_id', _open.call_id), s.tokens, s.cost)
               from agent_internal.spent_of(_id) s;
        end if;
    end if;
    select * into _turn from agent.run r where r.id = _id;
    return _turn;
end;
$$;
comment on function agent_internal.take_turn(bigint) is 'Lock a turn, and hold it if it can be held';

-- Why a turn has reached a limit before the next reply of its model; NULL: it has not.  As the deciders of walagent's own
-- workers say it, and the time.
create or replace function agent_internal.turn_limit(_turn agent.run, _def jsonb)
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
        when exists (
            select from agent.step s cross join jsonb_array_elements(s.content -> 'parts') p
                        join agent.step d on d.run_id = _turn.id and d.kind = 'result' and d.content ->> 'call_id' = p ->> 'call'
             where s.run_id = _turn.id and s.seq > _since and s.kind = 'reply'
             group by p -> 'name', p -> 'arguments', d.content -> 'content' having count(*) >= 3) then
            'the same call had the same result 3 times'
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
create or replace function agent_internal.within_limits(_turn agent.run)
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
create or replace function agent_internal.turn_status(_turn agent.run)
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

-- Post a message in a thread, as the caller.
create or replace function agent.add_user_message(thread uuid, text text)
    returns uuid
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select (agent.post($1, $2)).id $$;
comment on function agent.add_user_message(uuid, text) is 'Post a message in a thread, as the caller';

create or replace function agent_internal.is_member(_tenant text, _principal name, _thread uuid)
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
create or replace function agent.start_turn(thread uuid, agent text default null)
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
       and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')
     order by r.state = 'running' desc, r.id
     limit 1;
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

-- End a turn with the answer of its model, which is posted in the thread.
--
-- Args: text: NULL: nothing is posted.
-- Raises WA027 if the turn has ended or waits, or a call has no result: a text is posted or refused.
create or replace function agent.finish_turn(turn bigint, text text, usage jsonb default null)
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
    elsif _text is not null and not agent_internal.is_final(_turn.state) and _turn.state <> 'running' then
        raise exception 'turn % cannot end yet: it is %, and the text was not posted', _turn.id, agent_internal.turn_status(_turn) ->> 'status'
            using errcode = 'WA027', hint = 'Call agent.run_turn() until it is running, then finish it.';
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
