-- Turns: runs in which an agent takes part in a thread.  And what all kinds of runs share.
--
-- Kinds with a run to execute are agent (a change), question, turn (an event of a thread), node (a step of a workflow) and
-- delivery (a message to the outside).  The latter three may have an attachment; each run has a queue.

-- What a turn is decided and rendered from: the thread, its members, its events and its facts, as of now.
--
-- Args: _bytes: up to this size, the latest events fit: those after the summary, and those that the agent has not seen.  A
--   large one counts as half of it, as it is cut when it is shown.  Events that the agent has not seen and instructions are
--   returned in any case.
create or replace function agent_internal.look_turn(_run bigint, _bytes bigint)
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   agent.run;
    _thread agent.thread;
    _me     agent.member;
begin
    perform agent_internal.check_holder(_run);
    select * into _turn from agent.run r where r.id = _run;
    select * into _thread from agent.thread t
     where t.tenant = _turn.change #>> '{new,tenant}' and t.id = (_turn.change #>> '{new,thread_id}')::uuid;
    select * into _me from agent.member m
     where m.tenant = _thread.tenant and m.thread_id = _thread.id and m.principal = _turn.principal;
    return jsonb_build_object(
        'thread', to_jsonb(_thread) - 'created_at',
        'agent', _turn.principal, 'role', _me.role, 'seen', _me.seen,
        'members', (select jsonb_agg(jsonb_build_object('name', p.name, 'id', p.id, 'kind', p.kind, 'display_name', p.display_name, 'role', m.role)
                                     order by m.joined_at, p.name)
                      from agent.member m join agent.principal p on p.tenant = m.tenant and p.name = m.principal
                     where m.tenant = _thread.tenant and m.thread_id = _thread.id),
        'facts', (select jsonb_agg(jsonb_build_object('id', f.id, 'subject', f.subject, 'predicate', f.predicate, 'object', f.object,
                                                      'category', f.category, 'confidence', f.confidence, 'disputed', f.disputed)
                                   order by f.created_at, f.id)
                    from agent.fact f
                   where f.tenant = _thread.tenant and f.thread_id = _thread.id and f.superseded_by is null and f.retracted_at is null),
        'events', (select jsonb_agg(jsonb_build_object(
                               'number', x.number, 'id', x.id, 'type', x.type, 'author', p.name, 'author_id', p.id, 'author_kind', p.kind,
                               'data', x.data, 'run_id', x.run_id, 'created_at', x.created_at, 'fits', x.fits) order by x.number)
                     from (select e.*, e.number = _thread.last_number
                                       or sum(least(octet_length(e.data::text) + 100, _bytes / 2)) over (order by e.number desc) <= _bytes as fits
                             from (select * from agent.event e
                                    where e.tenant = _thread.tenant and e.thread_id = _thread.id
                                      and e.number > least(_thread.summary_upto, _me.seen)
                                    order by e.number desc limit 2000) e
                           union all
                           select e.*, false from agent.event e  -- instructions hold, however long ago they were given
                            where e.tenant = _thread.tenant and e.thread_id = _thread.id and e.type = 'system'
                              and e.number <= least(_thread.summary_upto, _me.seen)) x
                          join agent.principal p on p.tenant = x.tenant and p.name = x.author
                    where x.fits or x.number > _me.seen or x.data ->> 'action' = 'injected'));
end;
$$;
comment on function agent_internal.look_turn(bigint, bigint) is 'What a turn is decided and rendered from';

-- Begin a turn: count it, and record as its first step what the model is shown.
--
-- Locks the run, then the thread.
--
-- Returns NULL, or why the turn does not take place; `paused`: the run waits until the thread is resumed.
create or replace function agent_internal.begin_turn(_run bigint, _lease bigint, _content jsonb)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    return agent_internal.admit_turn(_run, _content);
end;
$$;
comment on function agent_internal.begin_turn(bigint, bigint, jsonb) is 'Begin a turn, with what the model is shown as its first step';

-- The same for a caller that has locked the run.
create or replace function agent_internal.admit_turn(_run bigint, _content jsonb)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   agent.run;
    _thread agent.thread;
begin
    select * into _turn from agent.run r where r.id = _run;
    select * into _thread from agent.thread t
     where t.tenant = _turn.change #>> '{new,tenant}' and t.id = (_turn.change #>> '{new,thread_id}')::uuid
       for no key update;
    if not exists (select from agent.member m
                    where m.tenant = _thread.tenant and m.thread_id = _thread.id and m.principal = _turn.principal) then
        return format('agent "%s" is not a member of the thread', _turn.principal);
    elsif _thread.state = 'paused' then
        update agent.run
           set state = 'pending', lease_expires_at = null, not_before = '9999-12-31 UTC', attempt = greatest(0, attempt - 1)
         where id = _run;
        return 'paused';
    elsif _thread.state = 'archived' then
        return 'the thread is archived';
    elsif _thread.agent_turns >= _thread.max_agent_turns then
        return format('agents took %s turns since the last message of a person (max_agent_turns)', _thread.agent_turns);
    end if;
    update agent.thread set agent_turns = agent_turns + 1 where tenant = _thread.tenant and id = _thread.id;
    update agent.member m set attachment_id = _turn.attachment_id, attachment_version = _turn.attachment_version
     where m.tenant = _thread.tenant and m.thread_id = _thread.id and m.principal = _turn.principal
       and (m.attachment_version is null or m.attachment_id <> _turn.attachment_id);
    perform agent_internal.insert_step(_run, 0, 'note', _content);
    return null;
end;
$$;

-- Let an agent use its newest version, from its next turn on, in a thread, or in all that the caller sees.
--
-- Returns: the number of threads.
create or replace function agent.use_newest_version(agent name, thread uuid default null)
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _count bigint;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not choose versions of agents', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    end if;
    update agent.member m set attachment_id = null, attachment_version = null
     where m.tenant = agent.current_tenant() and m.principal = use_newest_version.agent
       and m.thread_id = coalesce(use_newest_version.thread, m.thread_id) and m.attachment_version is not null;
    get diagnostics _count = row_count;
    return _count;
end;
$$;
comment on function agent.use_newest_version(name, uuid) is 'Let an agent use its newest version in a thread, or in all';

-- What follows from the end of a turn, in the transaction that ends its run: its answer, and what it has seen.
--
-- Args: _bytes: beyond this size of events, older ones are to be summarized, which is a run of its own.
-- Raises WA002 if the agent has left the thread.
create or replace function agent_internal.end_turn(_run bigint, _text text, _seen bigint, _bytes bigint default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn   agent.run;
    _what   text;
    _thread uuid;
begin
    select * into _turn from agent.run r where r.id = _run;
    _thread := (_turn.change #>> '{new,thread_id}')::uuid;
    if _text is not null then
        _what := format('%s %s %s', _turn.id, _turn.attachment_id, _turn.depth);
        perform pg_logical_emit_message(true, 'walagent', _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
        perform agent_internal.post_event(_turn.tenant, _thread, 'text', _turn.principal, jsonb_build_object('text', _text), _run);
    end if;
    update agent.member m set seen = greatest(m.seen, _seen)
     where m.tenant = _turn.change #>> '{new,tenant}' and m.thread_id = _thread and m.principal = _turn.principal;
    if not found and _text is not null then
        raise exception 'agent "%" has left the thread', _turn.principal using errcode = 'WA002';
    end if;
    if _bytes is not null then
        perform agent_internal.request_summary(_turn, _thread, _bytes);
    end if;
end;
$$;
comment on function agent_internal.end_turn(bigint, text, bigint, bigint) is 'Post the answer of a turn, and record what its agent has seen';

-- Queue a run that summarizes the older events of a thread, if they are too large for a prompt and none is queued.
create or replace function agent_internal.request_summary(_turn agent.run, _thread uuid, _bytes bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := _turn.change #>> '{new,tenant}';
begin
    if (select coalesce(sum(octet_length(e.data::text) + 100), 0)
          from agent.thread t
               join agent.event e on e.tenant = t.tenant and e.thread_id = t.id and e.number > t.summary_upto
         where t.tenant = _tenant and t.id = _thread) <= _bytes
       or exists (select from agent.run r
                   where r.queue_id = _turn.queue_id and r.ordering_key = 'summary ' || _thread
                     and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review')) then
        return;
    end if;
    insert into agent.run (tenant, kind, reason, queue_id, principal, attachment_id, attachment_version, change, key, ordering_key,
                           max_attempts, cause_run, priority)
    values (_turn.tenant, 'turn', 'summary', _turn.queue_id, _turn.principal, _turn.attachment_id, _turn.attachment_version,
            _turn.change, _turn.key, 'summary ' || _thread, _turn.max_attempts, _turn.id, _turn.priority);
    perform agent_internal.wake_workers();
end;
$$;
comment on function agent_internal.request_summary(agent.run, uuid, bigint) is 'Queue a run that summarizes older events';

-- What is shown of a text that an owner of the thread has corrected; NULL: nobody has.
create or replace function agent_internal.corrected(_event agent.event)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select _event.data || jsonb_build_object('text', e.data -> 'text')
      from agent.event e
     where e.tenant = _event.tenant and e.thread_id = _event.thread_id and e.type = 'system' and e.number > _event.number
       and e.data ->> 'action' = 'overridden' and e.data ->> 'target' = _event.id::text
     order by e.number desc
     limit 1
$$;
comment on function agent_internal.corrected(agent.event) is 'What is shown of a text that was corrected';

-- What a summary is made from: the summary before, and the events after it but for the latest.
--
-- Args: _bytes: size of the events that a prompt has room for; half of it stays as it is.  Sizes as in look_turn().
create or replace function agent_internal.look_summary(_run bigint, _bytes bigint)
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _look constant jsonb := agent_internal.look_turn(_run, 0);
begin
    return _look || jsonb_build_object('events', (
        select jsonb_agg(jsonb_build_object(
                   'number', x.number, 'id', x.id, 'type', x.type, 'author', p.name, 'author_id', p.id, 'author_kind', p.kind,
                   'data', x.data, 'run_id', x.run_id, 'created_at', x.created_at) order by x.number)
          from (select e.number, e.id, e.type, e.author, e.run_id, e.created_at, e.tenant,
                       case when e.type = 'text' then coalesce(agent_internal.corrected(e), e.data) else e.data end as data,
                       sum(least(octet_length(e.data::text) + 100, _bytes / 2)) over (order by e.number desc) as newer,
                       sum(least(octet_length(e.data::text) + 100, _bytes / 2)) over (order by e.number) as older
                  from agent.event e
                 where e.tenant = _look #>> '{thread,tenant}' and e.thread_id = (_look #>> '{thread,id}')::uuid
                   and e.number > (_look #>> '{thread,summary_upto}')::bigint) x
               join agent.principal p on p.tenant = x.tenant and p.name = x.author
         where x.newer > _bytes / 2 and x.older <= _bytes * 4));
end;
$$;
comment on function agent_internal.look_summary(bigint, bigint) is 'What a summary of a thread is made from';

-- Store a summary, in the transaction that ends its run.  One that covers more is kept.
create or replace function agent_internal.store_summary(_run bigint, _text text, _upto bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.thread t set summary = _text, summary_upto = _upto
      from agent.run r
     where r.id = _run and t.tenant = r.change #>> '{new,tenant}' and t.id = (r.change #>> '{new,thread_id}')::uuid
       and t.summary_upto < _upto;
end;
$$;
comment on function agent_internal.store_summary(bigint, text, bigint) is 'Store the summary of a thread';

-- Post the call of a tool in a turn, and its result if it says more than that it succeeded, with the step of the result.
-- Facts that the call stored point to the event of the call.
create or replace function agent_internal.post_call()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
    _turn   agent.run;
    _thread uuid;
    _call   jsonb;
    _event  agent.event;
begin
    select * into _turn from agent.run r where r.id = new.run_id;
    if _turn.kind is distinct from 'turn' or new.content ? 'correction' then
        perform agent_internal.leave(_entered);
        return null;
    end if;
    _thread := (_turn.change #>> '{new,thread_id}')::uuid;
    select p into _call
      from agent.step s cross join lateral jsonb_array_elements(s.content -> 'parts') p
     where s.run_id = new.run_id and s.kind = 'reply' and p ->> 'call' = new.content ->> 'call_id'
     order by s.seq desc
     limit 1;
    _event := agent_internal.post_event(_turn.tenant, _thread, 'tool_use', _turn.principal, jsonb_build_object(
        'id', new.content -> 'call_id', 'name', new.content -> 'name', 'input', coalesce(_call -> 'arguments', '{}')), _turn.id);
    if (new.content -> 'is_error')::boolean or new.content ->> 'content' <> all ('{done,ok}') then
        perform agent_internal.post_event(_turn.tenant, _thread, 'tool_result', _turn.principal, jsonb_build_object(
            'tool_use_id', new.content -> 'call_id', 'tool_name', new.content -> 'name',
            'content', new.content -> 'content', 'is_error', new.content -> 'is_error'), _turn.id);
    end if;
    update agent.fact f set tool_use_event = _event.id
     where f.tenant = _event.tenant and f.thread_id = _thread and f.tool_use_event is null and f.created_at = now();
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

-- Cancel the turns of an agent in a thread, also one that is going on.
create or replace function agent_internal.cancel_turns(_tenant text, _thread uuid, _agent name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.cancel_run(r.id, format('agent "%s" left the thread', _agent))
       from agent.run r
      where r.queue_id in (select a.id from agent.attachment a where a.agent = _agent and a.relation = 'agent.event'::regclass)
        and r.ordering_key = _thread::text and r.principal = _agent and r.change #>> '{new,tenant}' = _tenant
        and r.state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review');
end;
$$;
comment on function agent_internal.cancel_turns(text, uuid, name) is 'Cancel the turns of an agent in a thread';

-- Let the turns of a thread that waited for its resumption be claimed.
create or replace function agent_internal.release_turns(_tenant text, _thread uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.run r set not_before = null
     where r.queue_id in (select a.id from agent.attachment a where a.tenant = _tenant and a.relation = 'agent.event'::regclass)
       and r.ordering_key = _thread::text and r.state = 'pending' and r.not_before = '9999-12-31 UTC';
    if found then
        perform agent_internal.wake_workers();
    end if;
end;
$$;
comment on function agent_internal.release_turns(text, uuid) is 'Let turns that waited for the resumption of their thread be claimed';
