-- Whether the caller sees threads that it is no member of.  Of a login that is no principal, its privileges decide.
create or replace function agent_internal.sees_threads()
    returns boolean
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _named boolean;
begin
    if agent_internal.all_tenants() then
        return true;
    end if;
    _named := (agent_internal.identity()).named;
    return case when _named then agent.has_role('auditor') or agent.has_role('viewer')
                else has_table_privilege(session_user, 'agent.run', 'select') end;
end;
$$;
comment on function agent_internal.sees_threads() is 'Whether the caller sees all threads of its tenant';

-- A principal of the caller's tenant.  In the tenant `default`, where logins need not be principals, the row of a login
-- is created on first use.
--
-- Raises WA019 if there is none, or it cannot act.
create or replace function agent_internal.participant(_name name)
    returns agent.principal
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := agent.current_tenant();
    _found  agent.principal;
begin
    select * into _found from agent.principal p where p.tenant = _tenant and p.name = _name;
    if not found and _tenant = 'default' and exists (select from pg_roles r where r.rolname = _name)
       and not exists (select from agent_internal.login l where l.login = _name) then
        insert into agent.principal (tenant, name, is_login)
        select _tenant, _name, r.rolcanlogin from pg_roles r where r.rolname = _name on conflict do nothing;
        select * into _found from agent.principal p where p.tenant = _tenant and p.name = _name;
    end if;
    if _found.name is null then
        raise exception 'principal "%" does not exist', coalesce(_name, '(none)') using errcode = 'WA019';
    elsif not _found.active then
        raise exception 'principal "%" is not active', _name using errcode = 'WA019';
    end if;
    return _found;
end;
$$;
comment on function agent_internal.participant(name) is 'A principal of the tenant, created for a login on first use';

-- Whether the token that is being looked up is of a principal, or of one of a tenant; see agent_internal.find_token().  In the
-- policies of tables that members read, who may not read agent.token.
create or replace function agent_internal.is_sought(_tenant text, _principal name default null)
    returns boolean
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from agent.token t
                    where t.digest = agent_internal.sought_token() and t.tenant = _tenant
                      and t.principal = coalesce(_principal, t.principal));
end;
$$;

-- Append an event.  The thread is locked: its events are numbered in the order of their commits.
--
-- Args: _author: whose event it is; the caller has checked that it may write in that name.
-- Raises WA019 if there is no such thread for the caller, or nothing can be posted in it; 42501 if such an author cannot
-- write such events.
create or replace function agent_internal.post_event(
    _tenant text, _thread uuid, _type text, _author name, _data jsonb, _run bigint default null, _id uuid default null
)
    returns agent.event
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _where agent.thread;
    _event agent.event;
    _kind  text;
begin
    select * into _where from agent.thread t where t.tenant = _tenant and t.id = _thread for no key update;
    if _where.id is null then
        raise exception 'thread % does not exist', _thread using errcode = 'WA019';
    elsif _where.state = 'archived' then
        raise exception 'thread % is archived', _thread using errcode = 'WA019', hint = 'Resume it to post in it.';
    end if;
    select p.kind into _kind from agent.principal p where p.tenant = _where.tenant and p.name = _author;
    if _kind <> 'agent' and _type not in ('text', 'system') then
        raise exception 'events of type "%" are of agents, and "%" is a %', _type, _author, _kind using errcode = '42501';
    end if;
    -- A text is a new state of affairs: agents may answer it, and a completed thread continues.
    update agent.thread t
       set last_number = t.last_number + 1,
           agent_turns = case when _kind <> 'agent' and _type = 'text' then 0 else t.agent_turns end,
           state = case when t.state = 'completed' and _type = 'text' then 'active' else t.state end
     where t.tenant = _where.tenant and t.id = _thread;
    insert into agent.event (tenant, thread_id, number, id, type, author, data, run_id)
    values (_where.tenant, _thread, _where.last_number + 1, coalesce(_id, gen_random_uuid()), _type, _author, _data, _run)
    returning * into _event;
    return _event;
end;
$$;
comment on function agent_internal.post_event(text, uuid, text, name, jsonb, bigint, uuid) is 'Append an event to a thread';

-- Open a thread.  The caller is its owner; *members*, people and agents, are members.
--
-- Args: id: chosen by the caller: the second call with it returns the thread of the first.
-- membership: ID of the caller's membership.
-- Raises WA019 for a principal that does not exist, or an ID that somebody else used.
create or replace function agent.open_thread(
    title text default '', members name[] default '{}', id uuid default null, max_agent_turns integer default null,
    membership uuid default null
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := agent.current_tenant();
    _me     constant agent.principal := agent_internal.participant(agent.current_principal());
    _id     constant uuid := coalesce(open_thread.id, gen_random_uuid());
    _name   name;
begin
    insert into agent.thread (tenant, id, title, max_agent_turns)
    values (_tenant, _id, open_thread.title, coalesce(open_thread.max_agent_turns, 20))
    on conflict do nothing;
    if not found then
        if exists (select from agent.thread t where t.tenant = _tenant and t.id = _id and t.created_by = _me.name) then
            return _id;
        end if;
        raise exception 'the ID % is taken', _id using errcode = 'WA019';
    end if;
    insert into agent.member (tenant, thread_id, principal, id, role)
    values (_tenant, _id, _me.name, coalesce(open_thread.membership, gen_random_uuid()), 'owner');
    foreach _name in array coalesce(open_thread.members, '{}') loop
        insert into agent.member (tenant, thread_id, principal)
        values (_tenant, _id, (agent_internal.participant(_name)).name)
        on conflict do nothing;
    end loop;
    perform agent_internal.post_event(_tenant, _id, 'system', _me.name, '{"action": "created", "target": "thread"}');
    return _id;
exception when unique_violation then
    raise exception 'the ID % is taken', open_thread.membership using errcode = 'WA019';
end;
$$;
comment on function agent.open_thread(text, name[], uuid, integer, uuid) is 'Open a thread with members; the caller is its owner';

-- Post a text of a member, which the caller is.
--
-- Args: _interrupts: whether it interrupts the turns that go on in the thread.
create or replace function agent_internal.post_text(_me agent.member, _text text, _id uuid, _interrupts boolean)
    returns agent.event
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _event agent.event;
begin
    if coalesce(_text, '') = '' then
        raise exception 'the text is empty' using errcode = 'WA019';
    end if;
    if _id is not null then
        perform from agent.thread t where t.tenant = _me.tenant and t.id = _me.thread_id for no key update;
        select * into _event from agent.event e where e.tenant = _me.tenant and e.id = _id;
        if found and (_event.thread_id, _event.author, _event.data ->> 'text') = (_me.thread_id, _me.principal, _text) then
            return _event;
        elsif found then
            raise exception 'the ID % is of another event', _id using errcode = 'WA019';
        end if;
    end if;
    perform agent_internal.check_queue();
    _event := agent_internal.post_event(_me.tenant, _me.thread_id, 'text', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'text', _text, 'interrupts', nullif(_interrupts, false))), null, _id);
    perform agent_internal.hint_turns(_me.tenant, _me.thread_id, _interrupts);
    return _event;
end;
$$;
comment on function agent_internal.post_text(agent.member, text, uuid, boolean) is 'Post a text of a member, which the caller is';

-- Post a text as the caller.
--
-- Args: id: chosen by the caller: the second call with it returns the event of the first.
-- Raises WA019 if the caller is no member, the thread is archived, or the ID is of another event.
create or replace function agent.post(thread uuid, "text" text, id uuid default null)
    returns agent.event
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    return agent_internal.post_text(agent_internal.membership(post.thread), post."text", post.id, false);
end;
$$;
comment on function agent.post(uuid, text, uuid) is 'Post a text in a thread, as the caller';

create or replace function agent.rename_thread(thread uuid, title text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(rename_thread.thread);
begin
    update agent.thread t set title = rename_thread.title where t.tenant = _me.tenant and t.id = _me.thread_id;
    perform agent_internal.post_event(_me.tenant, _me.thread_id, 'system', _me.principal,
        jsonb_build_object('action', 'renamed', 'target', 'thread', 'title', rename_thread.title));
end;
$$;
comment on function agent.rename_thread(uuid, text) is 'Give a thread another title';

-- Change the state of a thread, and record it as an event.
create or replace function agent_internal.set_thread_state(_thread uuid, _state text, _action text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me  constant agent.principal := agent_internal.participant(agent.current_principal());
    _was text;
begin
    perform agent_internal.check_owner(_thread);
    select t.state into _was from agent.thread t where t.tenant = _me.tenant and t.id = _thread for no key update;
    if _was is null then
        raise exception 'thread % does not exist', _thread using errcode = 'WA019';
    elsif _was = _state then
        return;
    end if;
    if _was = 'archived' then
        update agent.thread t set state = _state where t.tenant = _me.tenant and t.id = _thread;
    end if;
    perform agent_internal.post_event(_me.tenant, _thread, 'system', _me.name, jsonb_build_object('action', _action, 'target', 'thread'));
    update agent.thread t set state = _state where t.tenant = _me.tenant and t.id = _thread;
end;
$$;
comment on function agent_internal.set_thread_state(uuid, text, text) is 'Change the state of a thread';

create or replace function agent.pause_thread(thread uuid)
    returns void language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_thread_state($1, 'paused', 'paused') $$;
comment on function agent.pause_thread(uuid) is 'Start no turns in a thread until it is resumed; messages can be posted';

create or replace function agent.resume_thread(thread uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.set_thread_state(resume_thread.thread, 'active', 'resumed');
    perform agent_internal.release_turns(agent.current_tenant(), resume_thread.thread);
end;
$$;
comment on function agent.resume_thread(uuid) is 'Resume a thread that is paused, completed or archived; turns that waited start';

create or replace function agent.complete_thread(thread uuid)
    returns void language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_thread_state($1, 'completed', 'closed') $$;
comment on function agent.complete_thread(uuid) is 'Mark a thread as completed; a new message continues it';

create or replace function agent.archive_thread(thread uuid)
    returns void language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_thread_state($1, 'archived', 'archived') $$;
comment on function agent.archive_thread(uuid) is 'Archive a thread: nothing can be posted until it is resumed';

-- Tell the agents of a thread something, as an owner of it.
--
-- Args: kind: system: an instruction beside those of the agent; override: the same, and earlier ones no longer hold;
-- context: data.
create or replace function agent.inject(thread uuid, "text" text, kind text default 'context')
    returns agent.event
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if inject.kind is null or inject.kind <> all ('{system,context,override}') then
        raise exception 'invalid kind "%": expected system, context or override', inject.kind using errcode = 'WA019';
    end if;
    perform agent_internal.check_owner(inject.thread);
    -- Of a login without a principal, its privileges decide: who may write prompts may instruct.
    if inject.kind <> 'context' and not (agent.has_role('developer') and (
            (agent_internal.identity()).named or has_table_privilege(session_user, 'agent.agent', 'update'))) then
        raise exception 'principal "%" may not instruct agents', coalesce(agent.current_principal(), '')
            using errcode = '42501', hint = 'An instruction needs the role developer, and its token the scope for it; context needs none.';
    end if;
    return agent_internal.post_event(agent.current_tenant(), inject.thread, 'system', (agent_internal.participant(agent.current_principal())).name,
        jsonb_build_object('action', 'injected', 'kind', inject.kind, 'text', inject."text"));
end;
$$;
comment on function agent.inject(uuid, text, text) is 'Give the agents of a thread an instruction or context';

-- Replace the events up to a number by a summary, in what agents are shown.
create or replace function agent.summarise(thread uuid, summary text, upto bigint default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.all_tenants() then
        perform agent_internal.membership(summarise.thread);
    end if;
    update agent.thread t set summary = summarise.summary, summary_upto = coalesce(summarise.upto, t.last_number)
     where t.id = summarise.thread and (t.tenant = agent.current_tenant() or agent_internal.all_tenants())
       and coalesce(summarise.upto, t.last_number) between t.summary_upto and t.last_number;
    if not found then
        raise exception 'events up to % cannot be summarized: they are already, or do not exist', summarise.upto using errcode = 'WA019';
    end if;
end;
$$;
comment on function agent.summarise(uuid, text, bigint) is 'Replace events by a summary, in what agents are shown';
