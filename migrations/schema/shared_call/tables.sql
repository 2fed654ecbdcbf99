-- Calls whose reply is shared by equal first calls of other runs.  The reply itself is step 0 of the run that made the call:
-- as soon as that is recorded, it can be shared, and not before.
create table agent_internal.shared_call (
    tenant     text collate "C" not null default agent.current_tenant(),
    scope      text collate "C" not null,  -- attachment, version and role
    digest     bytea not null check (octet_length(digest) = 32),
    run_id     bigint not null,
    lease      bigint not null,
    keep_until timestamptz not null,
    primary key (tenant, scope, digest),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);

create index shared_call_of_run on agent_internal.shared_call (run_id);

-- Runs that wait for the reply of another one.
create table agent_internal.shared_wait (
    run_id bigint primary key,
    of_run bigint not null,
    tenant text collate "C" not null default agent.current_tenant(),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);

create index shared_wait_of_run on agent_internal.shared_wait (of_run);
