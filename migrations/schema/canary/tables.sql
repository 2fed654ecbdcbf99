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
    check_at      timestamptz not null,
    tenant        text collate "C" not null default agent.current_tenant(),
    primary key (attachment_id, version)
);

create unique index canary_running on agent.canary (attachment_id) where state = 'running';
