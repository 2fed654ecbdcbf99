-- Canaries: a version of an attachment that a share of the ordering keys gets.  agent.attachment has the present one; a trigger
-- keeps this record of all.
create table agent.canary (
    attachment_id bigint not null,
    attachment    text not null,
    version       integer not null,
    base_version  integer not null,
    changes       jsonb not null,
    share         double precision not null,
    rollback_if   text,
    min_runs      integer not null,
    state         text not null default 'running' check (state in ('running', 'promoted', 'rolled_back', 'replaced')),
    begun_by      name not null,
    begun_at      timestamptz not null,
    ended_by      name,
    ended_at      timestamptz,
    reason        text,
    after_run     bigint not null,
    last_run      bigint,
    shadow        boolean not null default false,
    evaluation_id bigint,
    check_at      timestamptz not null,
    tenant        text collate "C" not null default agent.current_tenant(),
    primary key (attachment_id, version)
);

create unique index canary_running on agent.canary (attachment_id) where state = 'running';

-- Runs whose changes a shadow gets, too: inserted with them, by the reader.  A shadow's trial begins when the run has ended, and a
-- claim is kept for as long as its process lives.  Without a foreign key to versions: an attachment can be removed.
create table agent_internal.shadowed_run (
    run_id        bigint primary key,
    attachment_id bigint not null,
    version       integer not null,
    ended         boolean not null default false,
    attempt       integer not null default 0 check (attempt >= 0),
    not_before    timestamptz,
    claimed_until timestamptz,
    tenant        text collate "C" not null default agent.current_tenant(),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);

create index shadowed_run_waiting on agent_internal.shadowed_run (attachment_id, version, run_id) where not ended;
