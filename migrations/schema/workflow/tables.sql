-- Workflows: graphs of nodes, executed as runs of the kind node.
--
-- A workflow has versions that never change, and a run is pinned to one.  Its nodes share a state, a JSON object.  Between
-- two nodes a worker records a checkpoint: which node is next, with which state.  What a node does is recorded as any step
-- is, so a run continues after a crash where it was.
--
--   WA025   a workflow does not exist, is not valid, or has no such checkpoint or interrupt

create table agent.workflow (
    tenant      text collate "C" not null default agent.current_tenant() references agent.tenant,
    name        text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
    version     integer not null,
    description text not null default '',
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    primary key (tenant, name)
);

create table agent.workflow_version (
    tenant      text collate "C" not null default agent.current_tenant(),
    workflow    text not null,
    version     integer not null,
    source      jsonb not null check (jsonb_typeof(source) = 'object'),
    entry       text not null,
    exits       text[] not null,
    max_steps   integer not null check (max_steps between 1 and 10000),
    timeout     interval not null check (timeout > '0'),
    run_as      name not null default current_user,
    search_path text not null,
    definition  jsonb not null,
    made_by     name not null,
    made_at     timestamptz not null default now(),
    primary key (tenant, workflow, version),
    foreign key (tenant, workflow) references agent.workflow on delete cascade,
    constraint holds_no_key check (agent_internal.no_key(source::text, 'source'))
);

create table agent.workflow_node (
    tenant   text collate "C" not null,
    workflow text not null,
    version  integer not null,
    name     text not null,
    kind     text not null check (kind in ('model', 'tool', 'router', 'function', 'human', 'parallel', 'subgraph')),
    settings jsonb not null,
    primary key (tenant, workflow, version, name),
    foreign key (tenant, workflow, version) references agent.workflow_version on delete cascade
);

create table agent.workflow_edge (
    tenant    text collate "C" not null,
    workflow  text not null,
    version   integer not null,
    number    integer not null,
    from_node text not null,
    to_node   text not null,
    condition text,
    label     text not null default '',
    priority  integer not null default 100,
    primary key (tenant, workflow, version, number),
    foreign key (tenant, workflow, version) references agent.workflow_version on delete cascade
);
