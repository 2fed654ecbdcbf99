-- What people say in a thread while a turn of an agent goes on there: it waits for the next turn, is absorbed by this one, or
-- interrupts the reply that is being written.

-- What a turn has to take in beyond event *_upto*; NULL: nothing.
--
-- Returns: interrupts: whether the reply that is being written is not wanted any more.
create or replace function agent_internal.said_meanwhile(_run bigint, _upto bigint)
    returns jsonb
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn agent.run;
    _how  text;
    _new  record;
begin
    perform agent_internal.check_holder(_run);
    select * into _turn from agent.run r where r.id = _run;
    select max(e.number) as upto, bool_or(e.data ? 'interrupts') as interrupts into _new
      from agent.event e join agent.principal p on p.tenant = e.tenant and p.name = e.author
     where e.tenant = _turn.change #>> '{new,tenant}' and e.thread_id = (_turn.change #>> '{new,thread_id}')::uuid
       and e.number > _upto and e.type = 'text' and p.kind <> 'agent';
    if _new.upto is null then
        return null;
    end if;
    select coalesce(v.definition #>> '{turns,meanwhile}', 'queue') into _how from agent.attachment_version v
     where v.attachment_id = _turn.attachment_id and v.version = _turn.attachment_version;
    if _how = 'queue' and not _new.interrupts then
        return null;
    end if;
    return jsonb_build_object('upto', _new.upto, 'interrupts', _how = 'interrupt' or _new.interrupts);
end;
$$;
comment on function agent_internal.said_meanwhile(bigint, bigint) is 'What people have said since a turn read its thread, if it takes that in';

-- Post what an agent had said of a reply that was interrupted, in the transaction that records it.
create or replace function agent_internal.post_cut_off(_run bigint, _text text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _turn agent.run;
    _what text;
begin
    select * into _turn from agent.run r where r.id = _run;
    _what := format('%s %s %s', _turn.id, _turn.attachment_id, _turn.depth);
    perform pg_logical_emit_message(true, 'walagent', _what || ' ' || agent_internal.sign_write(_what, pg_current_xact_id()));
    perform agent_internal.post_event(_turn.tenant, (_turn.change #>> '{new,thread_id}')::uuid, 'text', _turn.principal,
                                      jsonb_build_object('text', _text, 'cut_off', true), _run);
end;
$$;
comment on function agent_internal.post_cut_off(bigint, text) is 'Post what an agent had said of a reply that was interrupted';

-- Let the workers look whether turns that go on in a thread are interrupted.  A hint: they also look by themselves.
--
-- Args: _all: of all agents, not only of those whose turns any text of a person interrupts.
create or replace function agent_internal.hint_turns(_tenant text, _thread uuid, _all boolean)
    returns void
    language sql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select pg_notify('walagent_interrupt', r.id::text)
      from agent.member m
           join agent.attachment a on a.tenant = m.tenant and a.agent = m.principal and a.relation = 'agent.event'::regclass
           join agent.run r on r.queue_id = a.id and r.ordering_key = _thread::text and r.state = 'running'
     where m.tenant = _tenant and m.thread_id = _thread and (_all or a.turns ->> 'meanwhile' = 'interrupt')
$$;
comment on function agent_internal.hint_turns(text, uuid, boolean) is 'Let workers look whether turns are interrupted';

-- Post a text as the caller, and interrupt the turns that go on in the thread: a reply that is being written is cut off, stays
-- as far as it was said, and the turn goes on with the text.  Calls of tools that were made are carried out before.
--
-- Args and errors as of agent.post(); 42501 if the caller is an agent.
create or replace function agent.interrupt(thread uuid, "text" text, id uuid default null)
    returns agent.event
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(interrupt.thread);
begin
    if (select p.kind from agent.principal p where p.tenant = _me.tenant and p.name = _me.principal) = 'agent' then
        raise exception 'an agent cannot interrupt turns' using errcode = '42501', hint = 'Use agent.post().';
    end if;
    return agent_internal.post_text(_me, interrupt."text", interrupt.id, true);
end;
$$;
comment on function agent.interrupt(uuid, text, uuid) is 'Post a text in a thread, as the caller, and interrupt the turns that go on there';
