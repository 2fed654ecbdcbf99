-- The thread of an event that the caller can see.
create or replace function agent_internal.may_see(_thread uuid)
    returns boolean
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select agent_internal.sees_threads()
        or exists (select from agent.member m
                    where m.tenant = agent.current_tenant() and m.thread_id = _thread and m.principal = agent.current_principal())
$$;
comment on function agent_internal.may_see(uuid) is 'Whether the caller sees a thread of its tenant';

create or replace function agent_internal.event_of(_event uuid)
    returns agent.event
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found agent.event;
begin
    select * into _found from agent.event e where e.tenant = agent.current_tenant() and e.id = _event;
    if not found or not agent_internal.may_see(_found.thread_id) then
        raise exception 'event % does not exist', _event using errcode = 'WA019';
    end if;
    return _found;
end;
$$;

create or replace function agent_internal.add_observation(
    _thread uuid, _event uuid, _type text, _content text, _severity text default null, _rating integer default null, _aspects jsonb default '{}'
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _id uuid;
begin
    insert into agent.observation (tenant, thread_id, event_id, author, type, severity, rating, aspects, content)
    values (agent.current_tenant(), _thread, _event, (agent_internal.participant(agent.current_principal())).name, _type,
            _severity, _rating, coalesce(_aspects, '{}'), coalesce(_content, ''))
    returning id into _id;
    return _id;
end;
$$;

-- Correct what an agent said: from now on agents are shown the correction in its place.  The event stays as it is.
create or replace function agent.override_response(event uuid, "text" text)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _said constant agent.event := agent_internal.event_of(override_response.event);
begin
    perform agent_internal.check_owner(_said.thread_id);
    if _said.type <> 'text' or (select p.kind from agent.principal p where p.tenant = _said.tenant and p.name = _said.author) <> 'agent' then
        raise exception 'event % is not a text of an agent', _said.id using errcode = 'WA019';
    end if;
    perform agent_internal.post_event(_said.tenant, _said.thread_id, 'system', (agent_internal.participant(agent.current_principal())).name,
        jsonb_build_object('action', 'overridden', 'target', _said.id, 'text', override_response."text"));
    return agent_internal.add_observation(_said.thread_id, _said.id, 'correction', override_response."text");
end;
$$;
comment on function agent.override_response(uuid, text) is 'Replace what an agent said, for agents that read the thread';

-- Rate what an agent said or did.
--
-- Args: rating: 1 to 5.  aspects: ratings of aspects, each 1 to 5.
create or replace function agent.rate(event uuid, rating integer, aspects jsonb default '{}', comment text default '')
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _said   constant agent.event := agent_internal.event_of(rate.event);
    _aspect record;
begin
    if rate.rating is null or rate.rating not between 1 and 5 then
        raise exception 'invalid rating %: expected 1 to 5', coalesce(rate.rating::text, 'NULL') using errcode = 'WA019';
    end if;
    for _aspect in select key, value from jsonb_each(rate.aspects) loop
        if jsonb_typeof(_aspect.value) <> 'number' or (_aspect.value)::numeric not between 1 and 5 then
            raise exception 'invalid rating of "%": expected 1 to 5', _aspect.key using errcode = 'WA019';
        end if;
    end loop;
    return agent_internal.add_observation(_said.thread_id, _said.id, 'rating', rate.comment, null, rate.rating, rate.aspects);
end;
$$;
comment on function agent.rate(uuid, integer, jsonb, text) is 'Rate an event, 1 to 5';

create or replace function agent.flag(event uuid, severity text, comment text default '')
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _said constant agent.event := agent_internal.event_of(flag.event);
begin
    if flag.severity is null or flag.severity <> all ('{info,warning,error,critical}') then
        raise exception 'invalid severity "%": expected info, warning, error or critical', flag.severity using errcode = 'WA019';
    end if;
    return agent_internal.add_observation(_said.thread_id, _said.id, 'flag', flag.comment, flag.severity);
end;
$$;
comment on function agent.flag(uuid, text, text) is 'Flag an event';

create or replace function agent.observe(thread uuid, note text, event uuid default null)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform from agent.thread t where t.tenant = agent.current_tenant() and t.id = observe.thread;
    if not found or not agent_internal.may_see(observe.thread)
       or event is not null and (agent_internal.event_of(event)).thread_id <> thread then
        raise exception 'thread % does not exist, or the event is of another one', observe.thread using errcode = 'WA019';
    end if;
    return agent_internal.add_observation(observe.thread, observe.event, 'note', observe.note);
end;
$$;
comment on function agent.observe(uuid, text, uuid) is 'Note something about a thread or an event';

-- Raise WA019 unless a principal is a member of the thread, and the event is one of it.
create or replace function agent_internal.check_fact(_me agent.member, _subject name, _source uuid)
    returns void
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from agent.member m where (m.tenant, m.thread_id, m.principal) = (_me.tenant, _me.thread_id, _subject)) then
        raise exception 'subject "%" is not a member of the thread', _subject using errcode = 'WA019';
    elsif _source is not null and not exists (select from agent.event e
                                               where e.tenant = _me.tenant and e.id = _source and e.thread_id = _me.thread_id) then
        raise exception 'source event % is not in the thread', _source using errcode = 'WA019';
    end if;
end;
$$;
comment on function agent_internal.check_fact(agent.member, name, uuid) is 'Check subject and source of a fact';

-- Store a fact.  If the thread has it already, it becomes as certain as the more certain of both.
create or replace function agent.add_fact(
    thread uuid, subject name, predicate text, object text, category text default 'general', confidence numeric default 0.8,
    source_event uuid default null, disputed boolean default false
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(add_fact.thread);
    _id uuid;
begin
    perform agent_internal.check_fact(_me, add_fact.subject, add_fact.source_event);
    if add_fact.confidence is null or add_fact.confidence <= 0 or add_fact.confidence > 1 then
        raise exception 'invalid confidence %: expected above 0 and up to 1', add_fact.confidence using errcode = 'WA019';
    end if;
    perform from agent.thread t where t.tenant = _me.tenant and t.id = _me.thread_id for no key update;
    update agent.fact f
       set confidence = greatest(f.confidence, add_fact.confidence), disputed = f.disputed or add_fact.disputed
     where f.tenant = _me.tenant and f.thread_id = _me.thread_id and f.subject = add_fact.subject
       and (lower(f.predicate), lower(f.object)) = (lower(add_fact.predicate), lower(add_fact.object))
       and f.superseded_by is null and f.retracted_at is null
    returning f.id into _id;
    if found then
        return _id;
    end if;
    insert into agent.fact (tenant, thread_id, subject, predicate, object, category, confidence, disputed, source_event)
    values (_me.tenant, _me.thread_id, add_fact.subject, add_fact.predicate, add_fact.object, add_fact.category,
            add_fact.confidence, add_fact.disputed, add_fact.source_event)
    returning id into _id;
    return _id;
end;
$$;
comment on function agent.add_fact(uuid, name, text, text, text, numeric, uuid, boolean) is 'Store a fact about a member of a thread';

-- A fact of a thread that the caller is a member of, locked; WA019 if it is no longer held.
create or replace function agent_internal.held_fact(_fact uuid)
    returns agent.fact
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found agent.fact;
begin
    select * into _found from agent.fact f
     where f.tenant = agent.current_tenant() and f.id = _fact and f.superseded_by is null and f.retracted_at is null
       for no key update;
    if not found then
        raise exception 'fact % does not exist, or was corrected or retracted', _fact using errcode = 'WA019';
    end if;
    perform agent_internal.membership(_found.thread_id);
    return _found;
end;
$$;

-- Replace a fact by its correction, which refers to the event that it follows from.
create or replace function agent.correct_fact(fact uuid, object text, source_event uuid default null, confidence numeric default null)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old constant agent.fact := agent_internal.held_fact(correct_fact.fact);
    _id  uuid;
begin
    if lower(_old.object) = lower(correct_fact.object) then
        return _old.id;
    end if;
    _id := agent.add_fact(_old.thread_id, _old.subject, _old.predicate, correct_fact.object, _old.category,
                          coalesce(correct_fact.confidence, _old.confidence), correct_fact.source_event);
    update agent.fact f set superseded_by = _id where f.tenant = _old.tenant and f.id = _old.id;
    return _id;
end;
$$;
comment on function agent.correct_fact(uuid, text, uuid, numeric) is 'Replace a fact by its correction';

create or replace function agent.retract_fact(fact uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old constant agent.fact := agent_internal.held_fact(retract_fact.fact);
begin
    update agent.fact f set retracted_at = agent_internal.now() where f.tenant = _old.tenant and f.id = _old.id;
end;
$$;
comment on function agent.retract_fact(uuid) is 'Withdraw a fact after a denial';

create or replace function agent.dispute_fact(fact uuid, disputed boolean default true)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old constant agent.fact := agent_internal.held_fact(dispute_fact.fact);
begin
    update agent.fact f set disputed = dispute_fact.disputed where f.tenant = _old.tenant and f.id = _old.id;
end;
$$;
comment on function agent.dispute_fact(uuid, boolean) is 'Mark a fact as contradicted, or no longer so';
