-- Threads: conversations of people and agents.  What was said and done are events, numbered within their thread.

create table agent.thread (
    tenant          text collate "C" not null default agent.current_tenant() references agent.tenant,
    id              uuid not null unique default gen_random_uuid(),
    title           text not null default '',
    state           text not null default 'active' check (state in ('active', 'paused', 'completed', 'archived')),
    last_number     bigint not null default 0,
    agent_turns     integer not null default 0,
    max_agent_turns integer not null default 20 check (max_agent_turns > 0),
    summary         text,
    summary_upto    bigint not null default 0,
    context         jsonb not null default '{}' check (jsonb_typeof(context) = 'object'),
    created_by      name not null default agent.current_principal(),
    created_at      timestamptz not null default now(),
    primary key (tenant, id)
);
comment on table agent.thread is 'Threads: conversations of people and agents';
comment on column agent.thread.tenant is 'Tenant that it belongs to';
comment on column agent.thread.id is 'ID, which its creator can choose';
comment on column agent.thread.title is 'Title for people';
comment on column agent.thread.state is 'active; paused: no turn starts; completed; archived: nothing can be posted';
comment on column agent.thread.last_number is 'Number of the latest event';
comment on column agent.thread.agent_turns is 'Turns of agents since the latest event of a person';
comment on column agent.thread.max_agent_turns is 'Turns of agents after which a person must write';
comment on column agent.thread.summary is 'Summary of the events that prompts leave out';
comment on column agent.thread.summary_upto is 'Number of the latest event that the summary covers';
comment on column agent.thread.context is 'What its application keeps about it';
comment on column agent.thread.created_by is 'Principal that created it';
comment on column agent.thread.created_at is 'Time of creation';

create table agent.member (
    tenant    text collate "C" not null default agent.current_tenant(),
    thread_id uuid not null,
    principal name not null,
    id        uuid not null default gen_random_uuid(),
    role      text not null default 'member' check (role ~ '^[a-z][a-z0-9_-]{0,62}$'),
    joined_at timestamptz not null default now(),
    seen      bigint not null default 0,
    attachment_id      bigint,
    attachment_version integer,
    primary key (tenant, thread_id, principal),
    unique (tenant, id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, principal) references agent.principal
);
create index member_of on agent.member (tenant, principal);
comment on table agent.member is 'Members of threads: people and agents';
comment on column agent.member.tenant is 'Tenant of thread and principal';
comment on column agent.member.thread_id is 'Thread';
comment on column agent.member.principal is 'Principal that takes part';
comment on column agent.member.id is 'The membership for programs that want a UUID; who joins or opens a thread can choose it';
comment on column agent.member.role is 'Role in the thread: owner, member, or one of the application''s; who joins by itself is a member';
comment on column agent.member.joined_at is 'Time of joining';
comment on column agent.member.seen is 'Of an agent: number of the latest event that one of its turns has taken up';
comment on column agent.member.attachment_id is 'Of an agent: attachment of its first turn here';
comment on column agent.member.attachment_version is 'Version of the attachment that its turns here use; NULL: the newest, with the next turn';

create table agent.event (
    tenant     text collate "C" not null default agent.current_tenant(),
    thread_id  uuid not null,
    number     bigint not null check (number > 0),
    id         uuid not null default gen_random_uuid(),
    type       text not null check (type in ('system', 'text', 'tool_use', 'tool_result')),
    author     name not null,
    data       jsonb not null check (jsonb_typeof(data) = 'object'),
    run_id     bigint,
    created_at timestamptz not null default clock_timestamp(),
    primary key (tenant, thread_id, number),
    unique (tenant, id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, author) references agent.principal
);
create index event_of_system on agent.event (tenant, thread_id, number) where type = 'system';
comment on table agent.event is 'Events of threads, in order; append-only';
comment on column agent.event.tenant is 'Tenant of the thread';
comment on column agent.event.thread_id is 'Thread';
comment on column agent.event.number is 'Number within the thread, from 1, without gaps';
comment on column agent.event.id is 'ID, which its author can choose';
comment on column agent.event.type is 'system: something happened to the thread; text: a message; tool_use: a call of an agent; tool_result: what it returned';
comment on column agent.event.author is 'Principal whose event it is';
comment on column agent.event.data is 'system: {"action", ...}; text: {"text"}; tool_use: {"id", "name", "input"}; tool_result: {"tool_use_id", "tool_name", "content", "is_error"}';
comment on column agent.event.run_id is 'Turn that made it; NULL: a person or an application';
comment on column agent.event.created_at is 'Time of the insert';

create table agent.fact (
    tenant         text collate "C" not null default agent.current_tenant(),
    id             uuid not null default gen_random_uuid(),
    thread_id      uuid not null,
    subject        name not null,
    predicate      text not null check (predicate <> ''),
    object         text not null check (object <> ''),
    category       text not null check (category <> ''),
    confidence     numeric not null default 0.8 check (confidence > 0 and confidence <= 1),
    disputed       boolean not null default false,
    source_event   uuid,
    tool_use_event uuid,
    superseded_by  uuid,
    retracted_at   timestamptz,
    created_at     timestamptz not null default now(),
    primary key (tenant, id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, subject) references agent.principal,
    foreign key (tenant, source_event) references agent.event (tenant, id),
    foreign key (tenant, tool_use_event) references agent.event (tenant, id),
    foreign key (tenant, superseded_by) references agent.fact
);
create index fact_of_thread on agent.fact (tenant, thread_id);
comment on table agent.fact is 'Facts that agents learnt in threads, each with the event that it came from';
comment on column agent.fact.tenant is 'Tenant of the thread';
comment on column agent.fact.id is 'ID of the fact';
comment on column agent.fact.thread_id is 'Thread';
comment on column agent.fact.subject is 'Principal that it is about';
comment on column agent.fact.predicate is 'Relation of subject and object, such as likes';
comment on column agent.fact.object is 'What the subject is related to';
comment on column agent.fact.category is 'Category, such as hobby';
comment on column agent.fact.confidence is 'How certain it is, above 0 and up to 1';
comment on column agent.fact.disputed is 'Whether somebody contradicted it';
comment on column agent.fact.source_event is 'Event that it was learnt from';
comment on column agent.fact.tool_use_event is 'Event of the call that stored it';
comment on column agent.fact.superseded_by is 'Fact that replaced it after a correction';
comment on column agent.fact.retracted_at is 'When it was withdrawn after a denial';
comment on column agent.fact.created_at is 'Time of the insert';

-- The threads of each principal, kept in step with agent.member.  Policies read it: of another table with policies
-- that refer to it, they would refer to themselves.
create table agent_internal.participation (
    tenant    text collate "C" not null,
    principal name not null,
    thread_id uuid not null,
    primary key (tenant, principal, thread_id),
    foreign key (tenant, thread_id, principal) references agent.member on delete cascade
);
comment on table agent_internal.participation is 'Threads of principals, for policies';
alter table agent_internal.participation enable row level security, force row level security;
create policy own on agent_internal.participation for select
    using ((select agent_internal.all_tenants())
           or tenant = (select agent.current_tenant()) and principal = (select agent.current_principal()));
create policy kept on agent_internal.participation for insert with check (true);
create policy reading on agent_internal.participation as restrictive for select using ((select agent_internal.may_read()));

-- Whether the caller sees threads that it is no member of.  Of a login that is no principal, its privileges decide.
create function agent_internal.sees_threads()
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

-- Rate, flag and correct: what people say about events, beside the thread.
create table agent.observation (
    tenant     text collate "C" not null default agent.current_tenant(),
    id         uuid not null default gen_random_uuid(),
    thread_id  uuid not null,
    event_id   uuid,
    author     name not null,
    type       text not null check (type in ('note', 'flag', 'rating', 'correction')),
    severity   text check (severity in ('info', 'warning', 'error', 'critical')),
    rating     integer check (rating between 1 and 5),
    aspects    jsonb not null default '{}' check (jsonb_typeof(aspects) = 'object'),
    content    text not null default '',
    created_at timestamptz not null default clock_timestamp(),
    primary key (tenant, id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, event_id) references agent.event (tenant, id) on delete cascade,
    foreign key (tenant, author) references agent.principal,
    check ((type = 'flag') = (severity is not null)),
    check ((type = 'rating') = (rating is not null))
);
create index observation_of_thread on agent.observation (tenant, thread_id);
comment on table agent.observation is 'What people say about threads and their events: notes, flags, ratings, corrections';
comment on column agent.observation.tenant is 'Tenant of the thread';
comment on column agent.observation.id is 'ID of the observation';
comment on column agent.observation.thread_id is 'Thread';
comment on column agent.observation.event_id is 'Event that it is about; NULL: the thread';
comment on column agent.observation.author is 'Principal that made it';
comment on column agent.observation.type is 'note, flag, rating or correction';
comment on column agent.observation.severity is 'Of a flag: info, warning, error or critical';
comment on column agent.observation.rating is 'Of a rating: 1 to 5';
comment on column agent.observation.aspects is 'Of a rating: ratings of aspects, such as {"accuracy": 4}';
comment on column agent.observation.content is 'Text; of a correction, what replaces the text of the event';
comment on column agent.observation.created_at is 'Time of the insert';

select agent_internal.isolate(t)
  from unnest('{agent.thread, agent.member, agent.event, agent.fact, agent.observation}'::regclass[]) t;
create policy member on agent.thread as restrictive for select
    using ((select agent_internal.sees_threads())
           or exists (select from agent_internal.participation p where p.thread_id = thread.id));
do $$
declare
    _table text;
begin
    foreach _table in array '{agent.member, agent.event, agent.fact, agent.observation}'::text[] loop
        execute format('create policy member on %1$s as restrictive for select '
                       'using ((select agent_internal.sees_threads()) '
                       'or exists (select from agent_internal.participation p where p.thread_id = %2$I.thread_id))',
                       _table, split_part(_table, '.', 2));
    end loop;
end;
$$;

-- A principal of the caller's tenant.  In the tenant `default`, where logins need not be principals, the row of a login
-- is created on first use.
--
-- Raises WA019 if there is none, or it cannot act.
create function agent_internal.participant(_name name)
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
        insert into agent.principal (tenant, name) values (_tenant, _name) on conflict do nothing;
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
create function agent_internal.is_sought(_tenant text, _principal name default null)
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
drop policy if exists sought on agent.principal;
create policy sought on agent.principal for select
    using ((select agent_internal.sought_token()) is not null and agent_internal.is_sought(tenant, name));
drop policy if exists sought on agent.tenant;
create policy sought on agent.tenant for select
    using ((select agent_internal.sought_token()) is not null and agent_internal.is_sought(name));

-- Append an event.  The thread is locked: its events are numbered in the order of their commits.
--
-- Args: _author: whose event it is; the caller has checked that it may write in that name.
-- Raises WA019 if there is no such thread for the caller, or nothing can be posted in it; 42501 if such an author cannot
-- write such events.
create function agent_internal.post_event(
    _thread uuid, _type text, _author name, _data jsonb, _run bigint default null, _id uuid default null
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
    select * into _where from agent.thread t where t.id = _thread for no key update;
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
comment on function agent_internal.post_event(uuid, text, name, jsonb, bigint, uuid) is 'Append an event to a thread';

-- The caller's membership of a thread.
--
-- Raises WA019 if it has none: what a principal is no member of does not exist for it.
create function agent_internal.membership(_thread uuid)
    returns agent.member
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _member agent.member;
begin
    select * into _member
      from agent.member m
     where m.tenant = agent.current_tenant() and m.thread_id = _thread and m.principal = agent.current_principal();
    if not found then
        raise exception 'thread % does not exist, or "%" is not a member of it', _thread, agent.current_principal()
            using errcode = 'WA019';
    end if;
    return _member;
end;
$$;
comment on function agent_internal.membership(uuid) is 'The caller''s membership of a thread';

-- Raise 42501 unless the caller is an owner of the thread, or an admin of its tenant.
create function agent_internal.check_owner(_thread uuid)
    returns void
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from agent.member m
                    where m.tenant = agent.current_tenant() and m.thread_id = _thread
                      and m.principal = agent.current_principal() and m.role = 'owner')
       and not ((agent_internal.identity()).named and agent.has_role('admin'))
       and not agent_internal.all_tenants() then
        perform agent_internal.membership(_thread);
        raise exception 'only an owner of the thread or an admin can do this' using errcode = '42501';
    end if;
end;
$$;
comment on function agent_internal.check_owner(uuid) is 'Check that the caller can manage a thread';

-- The events joined and left are written where members are inserted and deleted, so neither is without the other.  The
-- members with which a thread is opened are part of its creation.
create function agent_internal.keep_members()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _by name := agent.current_principal();
begin
    if tg_op = 'INSERT' then
        insert into agent_internal.participation (tenant, principal, thread_id) values (new.tenant, new.principal, new.thread_id);
        if exists (select from agent.thread t where t.tenant = new.tenant and t.id = new.thread_id and t.last_number > 0) then
            perform agent_internal.post_event(new.thread_id, 'system', new.principal, jsonb_strip_nulls(jsonb_build_object(
                'action', 'joined', 'target', 'thread', 'by', nullif(_by, new.principal))));
        end if;
        return new;
    end if;
    -- A thread that is deleted takes its members with it.
    if exists (select from agent.thread t where t.tenant = old.tenant and t.id = old.thread_id) then
        perform agent_internal.cancel_turns(old.tenant, old.thread_id, old.principal);
        perform agent_internal.post_event(old.thread_id, 'system', old.principal, jsonb_strip_nulls(jsonb_build_object(
            'action', 'left', 'target', 'thread', 'by', nullif(_by, old.principal))));
    end if;
    return old;
end;
$$;
create trigger keep_joined after insert on agent.member for each row execute function agent_internal.keep_members();
create trigger keep_left before delete on agent.member for each row execute function agent_internal.keep_members();

-- Open a thread.  The caller is its owner; *members*, people and agents, are members.
--
-- Args: id: chosen by the caller: the second call with it returns the thread of the first.
-- membership: ID of the caller's membership.
-- Raises WA019 for a principal that does not exist, or an ID that somebody else used.
create function agent.open_thread(
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
        if exists (select from agent.thread t where t.id = _id and t.created_by = _me.name) then
            return _id;
        end if;
        raise exception 'the ID % is taken', _id using errcode = 'WA019';
    end if;
    insert into agent.member (tenant, thread_id, principal, id, role)
    values (_tenant, _id, _me.name, coalesce(open_thread.membership, gen_random_uuid()), 'owner');
    foreach _name in array open_thread.members loop
        insert into agent.member (tenant, thread_id, principal)
        values (_tenant, _id, (agent_internal.participant(_name)).name)
        on conflict do nothing;
    end loop;
    perform agent_internal.post_event(_id, 'system', _me.name, '{"action": "created", "target": "thread"}');
    return _id;
exception when unique_violation then
    raise exception 'the ID % is taken', open_thread.membership using errcode = 'WA019';
end;
$$;
comment on function agent.open_thread(text, name[], uuid, integer, uuid) is 'Open a thread with members; the caller is its owner';

-- Post a text as the caller.
--
-- Args: id: chosen by the caller: the second call with it returns the event of the first.
-- Raises WA019 if the caller is no member, the thread is archived, or the ID is of another event.
create function agent.post(thread uuid, "text" text, id uuid default null)
    returns agent.event
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me    constant agent.member := agent_internal.membership(post.thread);
    _event agent.event;
begin
    if coalesce(post."text", '') = '' then
        raise exception 'the text is empty' using errcode = 'WA019';
    end if;
    if post.id is not null then
        perform from agent.thread t where t.tenant = _me.tenant and t.id = post.thread for no key update;
        select * into _event from agent.event e where e.tenant = _me.tenant and e.id = post.id;
        if found and (_event.thread_id, _event.author, _event.data ->> 'text') = (post.thread, _me.principal, post."text") then
            return _event;
        elsif found then
            raise exception 'the ID % is of another event', post.id using errcode = 'WA019';
        end if;
    end if;
    perform agent_internal.check_queue();
    return agent_internal.post_event(post.thread, 'text', _me.principal, jsonb_build_object('text', post."text"), null, post.id);
end;
$$;
comment on function agent.post(uuid, text, uuid) is 'Post a text in a thread, as the caller';

-- Join a thread whose ID the caller knows.  Who joins is a member: roles are given by owners.
--
-- Args: id: of the membership, chosen by the caller; who is a member already keeps its ID.
-- Raises WA019 if the thread does not exist, or the ID is of another membership.
create function agent.join_thread(thread uuid, role text default 'member', id uuid default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.principal := agent_internal.participant(agent.current_principal());
begin
    if join_thread.role <> 'member' then
        raise exception 'cannot join as "%": an owner of the thread gives roles', join_thread.role using errcode = '42501',
            hint = 'Join as a member.';
    end if;
    if exists (select from agent.member m where m.tenant = _me.tenant and m.thread_id = join_thread.thread and m.principal = _me.name) then
        return;
    end if;
    -- Without a target of the conflict: policies hide from the caller what it would be.
    insert into agent.member (tenant, thread_id, principal, id)
    values (_me.tenant, join_thread.thread, _me.name, coalesce(join_thread.id, gen_random_uuid()))
    on conflict do nothing;
    if not found then
        raise exception 'the ID % is taken', join_thread.id using errcode = 'WA019';
    end if;
exception when foreign_key_violation then
    raise exception 'thread % does not exist', join_thread.thread using errcode = 'WA019';
end;
$$;
comment on function agent.join_thread(uuid, text, uuid) is 'Join a thread as a member';

create function agent.leave_thread(thread uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(leave_thread.thread);
begin
    perform agent.remove_member(_me.thread_id, _me.principal);
end;
$$;
comment on function agent.leave_thread(uuid) is 'Leave a thread; of an agent, its turns are cancelled';

-- Any member can add members; only an owner gives another role.  For a principal that is a member, its role is changed.
create function agent.add_member(thread uuid, principal name, role text default 'member')
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _new constant agent.principal := agent_internal.participant(add_member.principal);
    _was text;
begin
    select m.role into _was from agent.member m
     where m.tenant = _new.tenant and m.thread_id = add_member.thread and m.principal = _new.name;
    if add_member.role <> 'member' or _was <> 'member' then
        perform agent_internal.check_owner(add_member.thread);
    elsif not agent_internal.all_tenants() then
        perform agent_internal.membership(add_member.thread);
    end if;
    insert into agent.member as m (tenant, thread_id, principal, role)
    values (_new.tenant, add_member.thread, _new.name, add_member.role)
    on conflict on constraint member_pkey do update set role = excluded.role where m.role <> excluded.role;
end;
$$;
comment on function agent.add_member(uuid, name, text) is 'Add a person or an agent to a thread, or change its role';

create function agent.remove_member(thread uuid, principal name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if remove_member.principal <> agent.current_principal() then
        perform agent_internal.check_owner(remove_member.thread);
    end if;
    perform agent_internal.keep_leader(remove_member.thread, remove_member.principal);
    delete from agent.member m
     where m.tenant = agent.current_tenant() and m.thread_id = remove_member.thread and m.principal = remove_member.principal;
    if not found then
        raise exception '"%" is not a member of the thread', remove_member.principal using errcode = 'WA019';
    end if;
end;
$$;
comment on function agent.remove_member(uuid, name) is 'Remove a member from a thread; of an agent, its turns are cancelled';

create function agent.rename_thread(thread uuid, title text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(rename_thread.thread);
begin
    update agent.thread t set title = rename_thread.title where t.tenant = _me.tenant and t.id = _me.thread_id;
    perform agent_internal.post_event(_me.thread_id, 'system', _me.principal,
        jsonb_build_object('action', 'renamed', 'target', 'thread', 'title', rename_thread.title));
end;
$$;
comment on function agent.rename_thread(uuid, text) is 'Give a thread another title';

-- Change the state of a thread, and record it as an event.
create function agent_internal.set_thread_state(_thread uuid, _state text, _action text)
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
    perform agent_internal.post_event(_thread, 'system', _me.name, jsonb_build_object('action', _action, 'target', 'thread'));
    update agent.thread t set state = _state where t.tenant = _me.tenant and t.id = _thread;
end;
$$;
comment on function agent_internal.set_thread_state(uuid, text, text) is 'Change the state of a thread';

create function agent.pause_thread(thread uuid)
    returns void language sql
    as $$ select agent_internal.set_thread_state($1, 'paused', 'paused') $$;
comment on function agent.pause_thread(uuid) is 'Start no turns in a thread until it is resumed; messages can be posted';

create function agent.resume_thread(thread uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.set_thread_state(resume_thread.thread, 'active', 'resumed');
    perform agent_internal.release_turns(resume_thread.thread);
end;
$$;
comment on function agent.resume_thread(uuid) is 'Resume a thread that is paused, completed or archived; turns that waited start';

create function agent.complete_thread(thread uuid)
    returns void language sql
    as $$ select agent_internal.set_thread_state($1, 'completed', 'closed') $$;
comment on function agent.complete_thread(uuid) is 'Mark a thread as completed; a new message continues it';

create function agent.archive_thread(thread uuid)
    returns void language sql
    as $$ select agent_internal.set_thread_state($1, 'archived', 'archived') $$;
comment on function agent.archive_thread(uuid) is 'Archive a thread: nothing can be posted until it is resumed';

-- Tell the agents of a thread something, as an owner of it.
--
-- Args: kind: system: an instruction beside those of the agent; override: the same, and earlier ones no longer hold;
-- context: data.
create function agent.inject(thread uuid, "text" text, kind text default 'context')
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
    return agent_internal.post_event(inject.thread, 'system', (agent_internal.participant(agent.current_principal())).name,
        jsonb_build_object('action', 'injected', 'kind', inject.kind, 'text', inject."text"));
end;
$$;
comment on function agent.inject(uuid, text, text) is 'Give the agents of a thread an instruction or context';

-- The thread of an event that the caller can see.
create function agent_internal.may_see(_thread uuid)
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

create function agent_internal.event_of(_event uuid)
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

create function agent_internal.add_observation(
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
create function agent.override_response(event uuid, "text" text)
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
    perform agent_internal.post_event(_said.thread_id, 'system', (agent_internal.participant(agent.current_principal())).name,
        jsonb_build_object('action', 'overridden', 'target', _said.id, 'text', override_response."text"));
    return agent_internal.add_observation(_said.thread_id, _said.id, 'correction', override_response."text");
end;
$$;
comment on function agent.override_response(uuid, text) is 'Replace what an agent said, for agents that read the thread';

-- Rate what an agent said or did.
--
-- Args: rating: 1 to 5.  aspects: ratings of aspects, each 1 to 5.
create function agent.rate(event uuid, rating integer, aspects jsonb default '{}', comment text default '')
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

create function agent.flag(event uuid, severity text, comment text default '')
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

create function agent.observe(thread uuid, note text, event uuid default null)
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

-- Replace the events up to a number by a summary, in what agents are shown.
create function agent.summarise(thread uuid, summary text, upto bigint default null)
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

revoke all on agent.thread, agent.member, agent.event, agent.fact, agent.observation, agent_internal.participation from public;
revoke all on all functions in schema agent, agent_internal from public;
select agent_internal.permit(c, 'select on agent.thread, agent.member, agent.event, agent.fact, agent.observation, agent_internal.participation',
                             'execute on function agent_internal.sees_threads()')
  from unnest('{viewer, member}'::text[]) c;
select agent_internal.permit(c, 'execute on function agent_internal.is_sought(text, name)')
  from unnest('{viewer, developer, asker, member}'::text[]) c;
select agent_internal.permit('member',
    'execute on function agent.open_thread(text, name[], uuid, integer, uuid), agent.post(uuid, text, uuid), agent.join_thread(uuid, text, uuid), '
    'agent.leave_thread(uuid), agent.add_member(uuid, name, text), agent.remove_member(uuid, name), agent.rename_thread(uuid, text), '
    'agent.pause_thread(uuid), agent.resume_thread(uuid), agent.complete_thread(uuid), agent.archive_thread(uuid), '
    'agent_internal.set_thread_state(uuid, text, text), agent.inject(uuid, text, text), agent.override_response(uuid, text), '
    'agent.rate(uuid, integer, jsonb, text), agent.flag(uuid, text, text), agent.observe(uuid, text, uuid), '
    'agent.summarise(uuid, text, bigint)');
