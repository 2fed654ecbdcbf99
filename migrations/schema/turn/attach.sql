-- Agents in threads.  An agent takes part in a thread by being a member of it.  What wakes it is one attachment of the
-- agent on agent.event, for all its threads.

-- The fields of such an attachment that follow from its relation; the rest is checked.
create or replace function agent_internal.checked_turns(_new agent.attachment)
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known constant text[] := '{wake_function,context,template,format,max_context_tokens,meanwhile,worker,lease_seconds}';
    _key text;
    _of  text;
begin
    if _new.ops <> '{insert}' or _new.backfill or _new.writes <> '{}' or _new.corrections then
        raise exception 'events are only inserted: cannot attach to agent.event with other operations, backfill, writes or corrections'
            using errcode = 'WA013';
    elsif exists (select from agent.attachment a where a.tenant = _new.tenant and a.relation = _new.relation and a.agent = _new.agent and a.id <> _new.id) then
        raise exception 'agent "%" is attached to threads already', _new.agent
            using errcode = 'WA013', detail = 'One attachment serves all threads of an agent.';
    end if;
    _new.ordering_key := '{thread_id}';
    _new.turns := coalesce(_new.turns, '{}');
    for _key in select jsonb_object_keys(_new.turns) loop
        if _key <> all (_known) then
            raise exception 'invalid key "%" in turns', _key using errcode = 'WA013', hint = agent_internal.suggest(_key, _known);
        end if;
    end loop;
    if coalesce(_new.turns ->> 'format', 'json') <> all ('{json,burn}') then
        raise exception 'invalid format "%": expected json or burn', _new.turns ->> 'format' using errcode = 'WA013';
    end if;
    if coalesce(_new.turns ->> 'meanwhile', 'queue') <> all ('{queue,absorb,interrupt}') then
        raise exception 'invalid meanwhile "%": expected queue, absorb or interrupt', _new.turns ->> 'meanwhile' using errcode = 'WA013';
    elsif _new.turns ? 'worker' and coalesce(_new.turns ->> 'meanwhile', 'queue') <> 'queue' then
        raise exception 'meanwhile is of agents whose turns walagent takes' using errcode = 'WA013';
    end if;
    if jsonb_typeof(_new.turns -> 'max_context_tokens') is distinct from 'number' and _new.turns ? 'max_context_tokens' then
        raise exception 'max_context_tokens must be a number' using errcode = 'WA013';
    end if;
    if _new.turns ? 'template' and (_new.turns ? 'context' or jsonb_typeof(_new.turns -> 'template') <> 'string') then
        raise exception 'template must be a text, and there can be no context beside it' using errcode = 'WA013';
    end if;
    foreach _of in array '{wake_function,context}'::text[] loop
        if _new.turns ->> _of !~ '^(sql:|python:[A-Za-z_][A-Za-z0-9_.]*[.][A-Za-z_][A-Za-z0-9_]*$)' then
            raise exception '%: invalid function "%"', _of, _new.turns ->> _of
                using errcode = 'WA013', hint = 'Expected sql:function or python:module.function.';
        end if;
        if _new.turns ->> _of ~ '^sql:' then
            _new.turns := _new.turns || jsonb_build_object(
                _of, 'sql:' || agent_internal.turn_function(substr(_new.turns ->> _of, 5), _of, _new.run_as, _new.search_path));
        end if;
    end loop;
    return _new;
end;
$$;

-- The qualified name of a function that decides whether a turn starts, or renders its context: f(thread uuid, seen bigint).
create or replace function agent_internal.turn_function(_name text, _use text, _run_as name, _path text)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _oid  oid;
    _type regtype := case _use when 'context' then 'text' else 'boolean' end;
begin
    perform set_config('search_path', concat_ws(', ', 'pg_catalog', nullif(_path, ''), 'pg_temp'), true);
    _oid := pg_catalog.to_regprocedure(_name || '(uuid, bigint)');
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    if _oid is null then
        raise exception '%: function %(uuid, bigint) does not exist', _use, _name using errcode = 'WA013',
            hint = 'It gets the thread and the number of the event that the agent has seen last.';
    elsif (select p.prorettype from pg_proc p where p.oid = _oid) <> _type then
        raise exception '%: function % must return %', _use, _name, _type using errcode = 'WA013';
    elsif not has_function_privilege(_run_as, _oid, 'execute') then
        raise exception 'role "%" lacks EXECUTE on function %', _run_as, _name using errcode = '42501';
    end if;
    return (select format('%I.%I', n.nspname, p.proname) from pg_proc p join pg_namespace n on n.oid = p.pronamespace where p.oid = _oid);
end;
$$;

-- An agent that is attached to threads is a principal, so that it can be a member.
create or replace function agent_internal.keep_agent_principal()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent.principal (tenant, name, kind)
    values (new.tenant, new.agent, 'agent')
    on conflict do nothing;
    return null;
end;
$$;

-- Let an agent take part in the threads that it is a member of.
--
-- Args: wake: a condition over `new`, an event: the agent is woken if it holds for one of the events that it has not seen.
--   NULL: a text of somebody who is not an agent.
-- wake_function: then asked, when the turn starts: sql:f for a function f(thread uuid, seen bigint) returning boolean;
--   python:module.f for one in Python, of a module of tools.modules.
-- context: renders what the model is shown: sql:f for a function f(thread uuid, seen bigint) returning text;
--   python:module.f; NULL: by format.
-- template: instead of context: a Jinja template over thread, agent, summary, members, events and facts.
-- format: json: events as lines of JSON in a data block; burn: XML tags around YAML.
-- max_context_tokens: older events are left out, and summarized if the thread has a summary.
-- meanwhile: what becomes of a text of a person while a turn goes on: queue: the next turn reads it; absorb: this one does,
--   before its next call of the model; interrupt: this one does at once, and what it was being answered is cut off.
create or replace function agent.attach_to_threads(
    agent text, wake text default null, wake_function text default null, context text default null, format text default 'json',
    max_context_tokens integer default null, name text default null, bind jsonb default '{}', approve text[] default '{}',
    debounce interval default null, cap integer default null, run_as name default current_user, template text default null,
    lets_out text[] default '{}', priority integer default 0, meanwhile text default null
)
    returns bigint
    language sql
begin atomic
    insert into agent.attachment (name, agent, relation, condition, bind, approve, lets_out, debounce, cap, run_as, priority, turns)
    values (coalesce(attach_to_threads.name, attach_to_threads.agent), attach_to_threads.agent, 'agent.event'::regclass,
            attach_to_threads.wake, attach_to_threads.bind, attach_to_threads.approve, attach_to_threads.lets_out, attach_to_threads.debounce,
            attach_to_threads.cap, attach_to_threads.run_as, attach_to_threads.priority,
            jsonb_strip_nulls(jsonb_build_object(
                'wake_function', attach_to_threads.wake_function, 'context', attach_to_threads.context,
                'template', attach_to_threads.template,
                'format', attach_to_threads.format, 'max_context_tokens', attach_to_threads.max_context_tokens,
                'meanwhile', attach_to_threads.meanwhile)))
    returning id;
end;
comment on function agent.attach_to_threads(text, text, text, text, text, integer, text, jsonb, text[], interval, integer, name, text, text[], integer, text) is 'Let an agent take part in the threads that it is a member of';

-- The agents among the members of the threads of events; NULL: the event is not visible yet, or its thread is gone.
--
-- The cost is that of the members of these threads, however many threads and agents there are.
--
-- Args: _events: [[n, tenant, thread, number], ...].
--
-- Returns: pinned: {agent: [attachment, version]} of those that have taken a turn in the thread.
--
-- Each lookup is by a primary key: the planner could otherwise begin with all agents of the tenant, or with all events.
create or replace function agent_internal.agents_of_events(_events jsonb)
    returns table (n integer, agents name[], pinned jsonb, by_agent boolean)
    language plpgsql
    stable
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    _place jsonb;
    _event record;
begin
    for _place in select x from jsonb_array_elements(_events) x loop
        select e.tenant, e.thread_id, e.author into _event
          from agent.event e
         where e.tenant = _place ->> 1 and e.thread_id = (_place ->> 2)::uuid and e.number = (_place ->> 3)::bigint;
        continue when not found;
        n := (_place ->> 0)::integer;
        select array_agg(m.principal),
               jsonb_object_agg(m.principal, jsonb_build_array(m.attachment_id, m.attachment_version)) filter (where m.attachment_version is not null)
          into agents, pinned
          from agent.member m
         where m.tenant = _event.tenant and m.thread_id = _event.thread_id
           and (select p.kind = 'agent' and p.active from agent.principal p
                 where p.tenant = m.tenant and p.name = m.principal);
        by_agent := (select p.kind = 'agent' from agent.principal p where p.tenant = _event.tenant and p.name = _event.author);
        return next;
    end loop;
end;
$$;
comment on function agent_internal.agents_of_events(jsonb) is 'The agents in the threads of events';

-- Whether a turn that has not started is in the queue already.  It is rendered when it starts, so it shows this event, too.
create or replace function agent_internal.is_absorbed(_queue bigint, _ordering_key text)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from agent.run p
                    where p.queue_id = _queue and p.ordering_key = _ordering_key and p.state = 'pending'
                      and not exists (select from agent.step s where s.run_id = p.id))
$$;
comment on function agent_internal.is_absorbed(bigint, text) is 'Whether a turn that has not started waits for its claim';
