-- Threads: conversations of people and agents.  What was said and done are events, numbered within their thread.

create table agent.thread (
    tenant          text collate "C" not null default agent.current_tenant() references agent.tenant,
    id              uuid not null default gen_random_uuid(),
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
    primary key (tenant, id),
    constraint holds_no_key check (agent_internal.no_key(context::text, 'context'))
);

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
)
with (fillfactor = 80);  -- `seen` changes with each turn

create index member_of on agent.member (tenant, principal);

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

-- The threads of each principal, kept in step with agent.member.  Policies read it: of another table with policies
-- that refer to it, they would refer to themselves.
create table agent_internal.participation (
    tenant    text collate "C" not null,
    principal name not null,
    thread_id uuid not null,
    primary key (tenant, principal, thread_id),
    foreign key (tenant, thread_id, principal) references agent.member on delete cascade
);

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
