create table agent.run (
    id                 bigint generated always as identity,
    kind               text not null default 'agent',
    reason             text not null default 'change',  -- change, backfill, manual or question
    queue_id           bigint not null,  -- without a foreign key: each insert would lock the queue
    principal          name,
    attachment_id      bigint,
    attachment_version integer,
    generation         integer not null default 0,  -- of the slot; 0 for runs that it has nothing to do with
    commit_lsn         pg_lsn,
    ordinal            integer,
    committed_at       timestamptz,
    change             jsonb not null,
    key                text,  -- primary key of the row, for people and `why`
    ordering_key       text,  -- NULL: no order
    backfill_key       text,
    cause_run          bigint,  -- the run whose write-back made this change
    undoes             bigint,  -- the run whose changes this one takes back
    fork_of            bigint,  -- the run whose steps before fork_step this one began with
    fork_step          integer,
    depth              integer not null default 0,
    state              agent.run_state not null default 'pending',
    blocked_by         bigint,  -- the unfinished run with this ordering key before this one
    not_before         timestamptz,  -- pending, but collecting (debounce) until then
    attempt            integer not null default 0,
    max_attempts       integer not null default 5,
    lease              bigint not null default 0,  -- grows with every claim: the fencing token
    lease_expires_at   timestamptz,
    worker             text,
    next_attempt_at    timestamptz,
    cancel_requested   boolean not null default false,
    result             text,
    error              jsonb,  -- {"reason": ..., "sqlstate": ...}
    tokens             bigint not null default 0,  -- settled when the run ends or waits
    cost               numeric,
    created_at         timestamptz not null default now(),
    started_at         timestamptz,
    finished_at        timestamptz,
    tenant             text collate "C" not null default agent.current_tenant(),
    priority           smallint not null default 0 check (priority between -2000 and 2000),
    -- The slot delivers at least once; with this, a change is ingested exactly once.
    constraint run_once_per_change unique (attachment_id, generation, commit_lsn, ordinal),  -- planted: no-unique-key/table
    constraint columns_fit_state
        check (agent_internal.fits_state(state, lease_expires_at, next_attempt_at, finished_at)),
    constraint columns_fit_kind
        check (agent_internal.fits_kind(kind, reason, attachment_id, attachment_version, principal, commit_lsn, ordinal, backfill_key)),
    constraint figures_are_numbers
    check (tokens >= 0 and least(cost, 0) >= 0 and greatest(cost, 0) < 'infinity'),
    primary key (id, tenant)
)
-- A run is written three times: inserted, claimed, ended.  Ended runs stay for a long time, so a fifth of the table,
-- the default threshold of autovacuum, would be a multiple of the unfinished runs.  What is left free of a page lets leases
-- be extended, and runs end, beside the version before.
with (fillfactor = 90, autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);

-- Partial: only runs of backfills need an entry.
create unique index run_once_per_backfilled_row on agent.run (attachment_id, generation, backfill_key)
    where backfill_key is not null;

-- Ordered by an expression, as are the queries that use them: after an analyze of a full queue, the planner would
-- otherwise scan the primary key, past every run that has ended since.
create index run_ready on agent.run (queue_id, priority desc, (id + 0))
    where state = 'pending' and blocked_by is null and not_before is null;

create index run_ordering on agent.run (queue_id, ordering_key, (id + 0))
    where ordering_key is not null
      and state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review');

-- Not by the lease: each heartbeat would be an entry in all indexes.  Those that run are few, and a tick reads them.
create index run_leased on agent.run (id) where state = 'running';

create index run_due on agent.run (next_attempt_at) where state = 'waiting_retry';

create index run_collecting on agent.run (not_before) where not_before is not null;

create index run_blocked on agent.run (blocked_by) where blocked_by is not null;

create index run_of_row on agent.run (key) where key is not null;

create index run_undoing on agent.run (undoes) where undoes is not null;

create index run_forked on agent.run (fork_of) where fork_of is not null;

-- Runs that can be claimed, by whose turn it is.
create index run_ready_in_turn on agent.run (tenant, priority desc, queue_id, (id + 0))
    where state = 'pending' and blocked_by is null and not_before is null;

-- Promise: never two running runs of one ordering key.  A claim avoids it by what it sees; this refuses what it cannot
-- see, as an older run that another transaction inserts or requeues.
create unique index run_alone on agent.run (queue_id, ordering_key)  -- planted: two-of-a-key
    where state = 'running' and ordering_key is not null;

-- Rows are inserted in the order of time: a block range index finds a window, and costs an insert nearly nothing.
create index run_created on agent.run using brin (created_at) with (pages_per_range = 8, autosummarize = on);

create index run_waits on agent.run (state, id) where state in ('waiting_approval', 'needs_review');

create index run_failed on agent.run (finished_at) where state in ('failed', 'dead');

-- The turns of a thread, latest first, whatever the number of runs is.
create index run_of_thread on agent.run (ordering_key, id) where kind = 'turn';

-- The second and later changes that an attachment with debounce merged into one run.
create table agent_internal.merged_change (
    attachment_id bigint not null,
    generation    integer not null,
    commit_lsn    pg_lsn not null,
    ordinal       integer not null,
    run_id        bigint not null,
    change        jsonb not null,
    size          integer generated always as (octet_length(change::text)) stored,
    tenant        text collate "C" not null default agent.current_tenant(),
    primary key (attachment_id, generation, commit_lsn, ordinal),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);

create index merged_change_run on agent_internal.merged_change (run_id);

-- Beside the run, not in it: it holds columns that the agent is not shown.
create table agent_internal.deferred_change (
    run_id bigint primary key,
    change json not null,
    tenant text collate "C" not null default agent.current_tenant(),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);

create table agent.worker (
    name         text primary key,
    started_at   timestamptz not null default now(),
    seen_at      timestamptz not null default now(),
    version      text not null default '',
    slots        integer not null default 0
);

-- Requests to cancel a run that a step has locked.  The step sees its request before it commits, and is rolled back.
create table agent_internal.cancel_request (
    run_id       bigint primary key,
    reason       text,
    requested_at timestamptz not null default now(),
    tenant       text collate "C" not null default agent.current_tenant(),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);
