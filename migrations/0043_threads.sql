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
comment on column agent.thread.context is 'What its application keeps about it';
comment on column agent.thread.created_by is 'Principal that created it';
comment on column agent.thread.created_at is 'Time of creation';

create table agent.member (
    tenant    text collate "C" not null default agent.current_tenant(),
    thread_id uuid not null,
    principal name not null,
    role      text not null default 'member' check (role ~ '^[a-z][a-z0-9_-]{0,62}$'),
    joined_at timestamptz not null default now(),
    primary key (tenant, thread_id, principal),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, principal) references agent.principal
);
create index member_of on agent.member (tenant, principal);
comment on table agent.member is 'Members of threads: people and agents';
comment on column agent.member.tenant is 'Tenant of thread and principal';
comment on column agent.member.thread_id is 'Thread';
comment on column agent.member.principal is 'Principal that takes part';
comment on column agent.member.role is 'Role in the thread: owner, member, or one of the application''s; who joins by itself is a member';
comment on column agent.member.joined_at is 'Time of joining';

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
comment on table agent.event is 'Events of threads, in order; append-only';
comment on column agent.event.tenant is 'Tenant of the thread';
comment on column agent.event.thread_id is 'Thread';
comment on column agent.event.number is 'Number within the thread, from 1, without gaps';
comment on column agent.event.id is 'ID, which its author can choose';
comment on column agent.event.type is 'system: something happened to the thread; text: a message; tool_use: a call of an agent; tool_result: what it returned';
comment on column agent.event.author is 'Principal whose event it is';
comment on column agent.event.data is 'system: {"action", …}; text: {"text"}; tool_use: {"id", "name", "input"}; tool_result: {"tool_use_id", "tool_name", "content", "is_error"}';
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

-- Append an event.  The thread is locked: its events are numbered in the order of their commits.
--
-- Args: _author: whose event it is; the caller has checked that it may write in that name.
-- Raises WA019 if there is no such thread for the caller, or nothing can be posted in it.
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
begin
    update agent.thread t
       set last_number = t.last_number + 1,
           agent_turns = case when _run is null and _type = 'text' then 0 else t.agent_turns end
     where t.id = _thread
    returning * into _where;
    if _where.id is null then
        raise exception 'no thread has the ID %', _thread using errcode = 'WA019';
    elsif _where.state = 'archived' then
        raise exception 'thread % is archived', _thread using errcode = 'WA019', hint = 'Resume it to post in it.';
    end if;
    insert into agent.event (tenant, thread_id, number, id, type, author, data, run_id)
    values (_where.tenant, _thread, _where.last_number, coalesce(_id, gen_random_uuid()), _type, _author, _data, _run)
    returning * into _event;
    return _event;
end;
$$;
comment on function agent_internal.post_event(uuid, text, name, jsonb, bigint, uuid) is 'Append an event to a thread';

select agent_internal.isolate(t) from unnest('{agent.thread, agent.member, agent.event, agent.fact}'::regclass[]) t;
revoke all on agent.thread, agent.member, agent.event, agent.fact from public;
revoke all on function agent_internal.post_event(uuid, text, name, jsonb, bigint, uuid) from public;
select agent_internal.permit(c, 'select on agent.thread, agent.member, agent.event, agent.fact')
  from unnest('{viewer, member}'::text[]) c;
