-- Teams: people and agents with roles, who discuss, decide by votes, divide tasks and keep what they make.
--
-- A team has a thread, and each discussion is another one: what is said and done are events there.  Tables keep what must be
-- constrained.  Who sees the thread sees the rows.
--
--   WA026   a team, proposal, task or artifact does not exist, or its state does not allow what was asked

create table agent.team (
    tenant      text collate "C" not null default agent.current_tenant() references agent.tenant,
    name        text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
    thread_id   uuid not null,
    description text not null default '',
    consensus   numeric not null default 0.6 check (consensus > 0 and consensus <= 1),
    max_members integer not null default 10 check (max_members > 0),
    created_by  name not null default agent.current_principal(),
    created_at  timestamptz not null default now(),
    primary key (tenant, name),
    unique (tenant, thread_id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade
);

create table agent.team_member (
    tenant    text collate "C" not null default agent.current_tenant(),
    team      text not null,
    thread_id uuid not null,
    principal name not null,
    role      text not null default 'member' check (role in ('leader', 'coordinator', 'member', 'critic', 'advocate', 'observer')),
    weight    numeric not null default 1 check (weight > 0 and weight <= 1000),
    primary key (tenant, team, principal),
    foreign key (tenant, team) references agent.team on delete cascade,
    -- A principal that leaves the thread leaves the team.
    foreign key (tenant, thread_id, principal) references agent.member on delete cascade
);

create table agent.proposal (
    tenant      text collate "C" not null default agent.current_tenant(),
    id          uuid not null default gen_random_uuid(),
    team        text not null,
    thread_id   uuid not null,
    title       text not null check (title <> ''),
    body        text not null default '',
    rule        text not null check (rule in ('consensus', 'majority', 'unanimity')),
    threshold   numeric not null check (threshold > 0 and threshold <= 1),
    quorum      numeric not null check (quorum >= 0 and quorum <= 1),
    deadline    timestamptz,
    state       text not null default 'open' check (state in ('open', 'accepted', 'rejected', 'withdrawn')),
    proposed_by name not null,
    created_at  timestamptz not null default now(),
    decided_at  timestamptz,
    primary key (tenant, id),
    foreign key (tenant, team) references agent.team on delete cascade,
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, proposed_by) references agent.principal,
    constraint decided check ((state = 'open') = (decided_at is null)),
    constraint unanimity_is_all check (rule <> 'unanimity' or threshold = 1 and quorum = 1)
);

create index proposal_due on agent.proposal (deadline) where state = 'open';

create index proposal_of_team on agent.proposal (tenant, team);

create index proposal_of_thread on agent.proposal (tenant, thread_id);

create table agent.vote (
    tenant      text collate "C" not null default agent.current_tenant(),
    proposal_id uuid not null,
    thread_id   uuid not null,
    principal   name not null,
    choice      text not null check (choice in ('yes', 'no', 'abstain')),
    weight      numeric not null,
    reason      text not null default '',
    cast_at     timestamptz not null default clock_timestamp(),
    primary key (tenant, proposal_id, principal),
    foreign key (tenant, proposal_id) references agent.proposal on delete cascade,
    foreign key (tenant, principal) references agent.principal
);

create table agent.task (
    tenant      text collate "C" not null default agent.current_tenant(),
    id          uuid not null default gen_random_uuid(),
    team        text not null,
    thread_id   uuid not null,
    title       text not null check (title <> ''),
    description text not null default '',
    state       text not null default 'open' check (state in ('open', 'started', 'blocked', 'completed', 'cancelled')),
    assignee    name,
    note        text not null default '',
    due_at      timestamptz,
    created_by  name not null,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    primary key (tenant, id),
    foreign key (tenant, team) references agent.team on delete cascade,
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, assignee) references agent.principal
);

create index task_of_team on agent.task (tenant, team, state);

create table agent.task_need (
    tenant    text collate "C" not null default agent.current_tenant(),
    task_id   uuid not null,
    needs     uuid not null,
    thread_id uuid not null,
    primary key (tenant, task_id, needs),
    foreign key (tenant, task_id) references agent.task on delete cascade,
    foreign key (tenant, needs) references agent.task on delete cascade,
    check (task_id <> needs)
);

create table agent.artifact (
    tenant    text collate "C" not null default agent.current_tenant(),
    team      text not null,
    name      text not null check (name <> ''),
    version   integer not null check (version > 0),
    thread_id uuid not null,
    kind      text not null default 'text/markdown',
    content   text not null,
    made_by   name not null,
    made_at   timestamptz not null default now(),
    primary key (tenant, team, name, version),
    foreign key (tenant, team) references agent.team on delete cascade,
    foreign key (tenant, made_by) references agent.principal,
    constraint holds_no_key check (agent_internal.no_key(content, 'content'))
);

-- Discussions: threads of a team.
create table agent.discussion (
    tenant     text collate "C" not null default agent.current_tenant(),
    thread_id  uuid not null,
    team       text not null,
    topic      text not null,
    opened_by  name not null,
    opened_at  timestamptz not null default now(),
    primary key (tenant, thread_id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, team) references agent.team on delete cascade
);

create index discussion_of_team on agent.discussion (tenant, team);
