-- Queues, runs, steps and workers: the tables, and the states of a run.

create type agent.run_state as enum (
    'pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review',
    'succeeded', 'failed', 'dead', 'cancelled', 'skipped'
);
comment on type agent.run_state is 'States of a run: pending -> running -> succeeded | failed | dead | cancelled | skipped, with waits in between';

create function agent_internal.is_final(_state agent.run_state)
    returns boolean
    language sql
    immutable
as $$ select _state in ('succeeded', 'failed', 'dead', 'cancelled', 'skipped') $$;

-- The transitions.  Only agent.retry() requeues `failed`, `dead` and `cancelled`.
create function agent_internal.may_follow(_old agent.run_state, _new agent.run_state)
    returns boolean
    language sql
    immutable
as $$
    select case _old
        when 'pending' then _new in ('running', 'cancelled', 'dead', 'skipped')
        when 'running' then _new in ('pending', 'waiting_approval', 'waiting_retry', 'needs_review',
                                     'succeeded', 'failed', 'dead', 'cancelled', 'skipped')
        when 'waiting_approval' then _new in ('pending', 'cancelled', 'failed')
        when 'waiting_retry' then _new in ('pending', 'cancelled', 'dead')
        when 'needs_review' then _new in ('pending', 'cancelled', 'failed')
        when 'failed' then _new = 'pending'
        when 'dead' then _new = 'pending'
        when 'cancelled' then _new = 'pending'
        else false
    end
$$;

-- Which columns are set depends on state and reason.  In PL/pgSQL on purpose: the expression of a constraint is
-- read and planned for every statement, a call of such a function is not.
create function agent_internal.fits_state(
    _state agent.run_state, _lease_expires_at timestamptz, _next_attempt_at timestamptz, _finished_at timestamptz
)
    returns boolean
    language plpgsql
    immutable
as $$
begin
    return (_lease_expires_at is not null) = (_state = 'running')
       and (_next_attempt_at is not null) = (_state = 'waiting_retry')
       and (_finished_at is not null) = agent_internal.is_final(_state);
end;
$$;

create function agent_internal.fits_kind(
    _kind text, _reason text, _attachment_id bigint, _attachment_version integer, _principal name, _commit_lsn pg_lsn,
    _ordinal integer, _backfill_key text
)
    returns boolean
    language plpgsql
    immutable
as $$
begin
    return case _kind
        when 'agent' then _attachment_id is not null and _attachment_version is not null
            and case _reason
                when 'change' then _commit_lsn is not null and _ordinal is not null
                when 'backfill' then _backfill_key is not null
                else _reason = 'manual'
            end
        when 'question' then _attachment_id is null and _principal is not null and _reason = 'question'
        else _attachment_id is null and _commit_lsn is null and _backfill_key is null
            and _reason not in ('change', 'backfill', 'question')
    end;
end;
$$;

-- The queues.  `queued` and `used` are hints that claims maintain and agent_internal.tick() repairs; agent.run has
-- the truth.  So ending a run updates no row that runs share, and ends commit concurrently.
--
-- Each claim updates rows of this table; the fill factor keeps new versions on the page of the old ones.  There
-- can be very many sessions, few of which have runs to claim: neither a claim nor a tick reads the whole table.
create table agent_internal.queue (
    id            bigint primary key default nextval('agent_internal.queue_id'),
    kind          text not null,
    attachment_id bigint unique,
    session_id    text unique,
    cap           integer,
    used          integer not null default 0,
    queued        boolean not null default true,
    paused        boolean not null default false,
    served        bigint not null default 0,
    constraint columns_fit_kind
        check ((kind = 'agent') = (attachment_id is not null) and (kind = 'question') = (session_id is not null))
) with (fillfactor = 80);
create index queue_ready on agent_internal.queue (kind) where queued and not paused;
create index queue_capped on agent_internal.queue (id) where cap is not null;
comment on table agent_internal.queue is 'Queues of runs, which claims serve in turn: one for each attachment and each session';
comment on column agent_internal.queue.kind is 'Kind of its runs: agent, question, or another one';
comment on column agent_internal.queue.cap is 'Maximum number of concurrent runs; NULL: as many as the workers have slots';
comment on column agent_internal.queue.used is 'Number of running runs, a hint; 0 without a cap';
comment on column agent_internal.queue.queued is 'Whether there might be runs to claim, a hint';
comment on column agent_internal.queue.served is 'Number of agent_internal.queue_turn at the last claim from it';

create sequence agent_internal.queue_turn;

create table agent.run (
    id                 bigint primary key generated always as identity,
    kind               text not null default 'agent',
    reason             text not null default 'change',  -- change, backfill, manual or question
    queue_id           bigint not null,             -- without a foreign key: each insert would lock the queue
    principal          name,
    attachment_id      bigint,
    attachment_version integer,
    generation         integer not null default 0,  -- of the slot; 0 for runs that it has nothing to do with
    commit_lsn         pg_lsn,
    ordinal            integer,
    committed_at       timestamptz,
    change             jsonb not null,
    key                text,                        -- primary key of the row, for people and `why`
    ordering_key       text,                        -- NULL: no order
    backfill_key       text,
    cause_run          bigint,                      -- the run whose write-back made this change
    depth              integer not null default 0,
    state              agent.run_state not null default 'pending',
    blocked_by         bigint,                      -- the unfinished run with this ordering key before this one
    not_before         timestamptz,                 -- pending, but collecting (debounce) until then
    attempt            integer not null default 0,
    max_attempts       integer not null default 5,
    lease              bigint not null default 0,   -- grows with every claim: the fencing token
    lease_expires_at   timestamptz,
    worker             text,
    next_attempt_at    timestamptz,
    cancel_requested   boolean not null default false,
    result             text,
    error              jsonb,                       -- {"reason": ..., "sqlstate": ...}
    tokens             bigint not null default 0,   -- settled when the run ends or waits
    cost               numeric,
    created_at         timestamptz not null default now(),
    started_at         timestamptz,
    finished_at        timestamptz,

    -- The slot delivers at least once; with this, a change is ingested exactly once.
    constraint run_once_per_change unique (attachment_id, generation, commit_lsn, ordinal),  -- planted: no-unique-key/table
    constraint columns_fit_state
        check (agent_internal.fits_state(state, lease_expires_at, next_attempt_at, finished_at)),
    constraint columns_fit_kind
        check (agent_internal.fits_kind(kind, reason, attachment_id, attachment_version, principal, commit_lsn, ordinal, backfill_key))
)
-- A run is written three times: inserted, claimed, ended.  Ended runs stay for a long time, so a fifth of the table,
-- the default threshold of autovacuum, would be a multiple of the unfinished runs.
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
comment on table agent.run is 'Runs: one for each matching change, row of a backfill, or question';
comment on column agent.run.kind is 'agent: an agent acts on a change; question: a person asked the database; other kinds have no attachment';
comment on column agent.run.queue_id is 'Queue that it is claimed from';
comment on column agent.run.principal is 'Login that asked the question; NULL for kind agent, which acts as the roles of its attachment version';
comment on column agent.run.attachment_version is 'Version of the attachment that it is pinned to; NULL for a question';
comment on column agent.run.change is '{"op", "schema", "table", "new", "old", "unchanged", "truncated"} from the WAL';
comment on column agent.run.ordering_key is 'Runs of one queue with equal ordering keys are executed one at a time, in order of ID';
comment on column agent.run.id is 'Run ID';
comment on column agent.run.reason is 'change, backfill, manual or question';
comment on column agent.run.attachment_id is 'Attachment that it acts for; NULL for a question';
comment on column agent.run.generation is 'Generation of the slot; 0: not from a slot';
comment on column agent.run.commit_lsn is 'Commit LSN of the change; NULL: not from the WAL';
comment on column agent.run.ordinal is 'Number of the change in its transaction, from 0; NULL: not from the WAL';
comment on column agent.run.committed_at is 'Commit time of the change';
comment on column agent.run.key is 'Primary key of the row, as text';
comment on column agent.run.backfill_key is 'Primary key of the row of a backfill';
comment on column agent.run.cause_run is 'Run whose write-back made the change';
comment on column agent.run.depth is 'Number of agents'' writes in the chain that caused it';
comment on column agent.run.state is 'State of the run';
comment on column agent.run.blocked_by is 'Earlier unfinished run with the same ordering key';
comment on column agent.run.not_before is 'End of the debounce window; until then it collects changes';
comment on column agent.run.attempt is 'Number of attempts; one that does not count is subtracted';
comment on column agent.run.max_attempts is 'Maximum number of failed attempts';
comment on column agent.run.lease is 'Incremented by each claim; a worker with an older number can write nothing';
comment on column agent.run.lease_expires_at is 'When the lease expires unless it is extended';
comment on column agent.run.worker is 'Worker of the last claim';
comment on column agent.run.next_attempt_at is 'When waiting_retry ends';
comment on column agent.run.cancel_requested is 'Whether its worker is to stop it';
comment on column agent.run.result is 'Text with which the model ended';
comment on column agent.run.error is 'Reason of a failure, pause or wait: {"reason", "sqlstate"}';
comment on column agent.run.tokens is 'Input and output tokens, recorded when the run ends or waits';
comment on column agent.run.cost is 'US dollars, recorded with the tokens; NULL: none or unknown';
comment on column agent.run.created_at is 'Time of the insert';
comment on column agent.run.started_at is 'Time of the first claim';
comment on column agent.run.finished_at is 'Time of the end';
-- Partial: only runs of backfills need an entry.
create unique index run_once_per_backfilled_row on agent.run (attachment_id, generation, backfill_key)
    where backfill_key is not null;
-- Ordered by an expression, as are the queries that use them: after an analyze of a full queue, the planner would
-- otherwise scan the primary key, past every run that has ended since.
create index run_ready on agent.run (queue_id, (id + 0))
    where state = 'pending' and blocked_by is null and not_before is null;
create index run_ordering on agent.run (queue_id, ordering_key, (id + 0))
    where ordering_key is not null
      and state in ('pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review');
create index run_leased on agent.run (lease_expires_at) where state = 'running';
create index run_due on agent.run (next_attempt_at) where state = 'waiting_retry';
create index run_collecting on agent.run (not_before) where not_before is not null;
create index run_blocked on agent.run (blocked_by) where blocked_by is not null;
create index run_unhappy on agent.run (state, id) where state in ('waiting_approval', 'needs_review', 'dead', 'failed');
create index run_of_row on agent.run (key) where key is not null;

create function agent_internal.check_transition()
    returns trigger
    language plpgsql
as $$
begin
    if not agent_internal.may_follow(old.state, new.state) then
        raise exception 'cannot change the state of run % from % to %', old.id, old.state, new.state
            using errcode = 'WA003',
                  hint = 'See "States of a run" in docs/concepts.md.';
    end if;
    return new;
end;
$$;
create trigger check_transition
    before update of state on agent.run
    for each row
    when (old.state is distinct from new.state)
    execute function agent_internal.check_transition();

-- A run as intake and backfills insert it, as JSON with the names of the columns.  An omitted column has its
-- default.
create type agent.new_run as (
    attachment_id      bigint,
    attachment_version integer,
    commit_lsn         pg_lsn,
    ordinal            integer,
    committed_at       timestamptz,
    change             jsonb,
    key                text,
    ordering_key       text,
    max_attempts       integer,
    cause_run          bigint,
    depth              integer,
    state              agent.run_state,
    error              jsonb,
    start              boolean  -- whether a worker of the reader's process has a slot for it
);
comment on type agent.new_run is 'A run to be inserted, an element of the JSON array that intake and backfills send';

-- The second and later changes that an attachment with debounce merged into one run.
create table agent_internal.merged_change (
    attachment_id bigint not null,
    generation    integer not null,
    commit_lsn    pg_lsn not null,
    ordinal       integer not null,
    run_id        bigint not null references agent.run on delete cascade,
    change        jsonb not null,
    size          integer generated always as (octet_length(change::text)) stored,
    primary key (attachment_id, generation, commit_lsn, ordinal)
);
create index merged_change_run on agent_internal.merged_change (run_id);
comment on table agent_internal.merged_change is 'Changes that were merged into the run of an earlier change by debounce';

-- Beside the run, not in it: it holds columns that the agent is not shown.
create table agent_internal.deferred_change (
    run_id bigint primary key references agent.run on delete cascade,
    change json not null
);
comment on table agent_internal.deferred_change is 'Changes whose evaluation is deferred because their attachment is broken; each has a pending run';
comment on column agent_internal.deferred_change.change is 'json, not jsonb: it can contain bytes of a SQL_ASCII database, as \udcXX';

create table agent.step (
    run_id             bigint not null references agent.run on delete cascade,
    seq                integer not null check (seq >= 0),
    kind               text not null
                           check (kind in ('reply', 'intent', 'result', 'approval', 'decision', 'note', 'error')),
    content            jsonb not null,
    input_tokens       integer,
    cached_tokens      integer,
    cache_write_tokens integer,
    output_tokens      integer,
    cost               numeric,
    duration_ms        integer,
    recorded_at        timestamptz not null default now(),
    primary key (run_id, seq)
);
comment on table agent.step is 'Steps of runs, in order; append-only';
comment on column agent.step.kind is 'reply: of the model; intent: an external tool is about to be called; result: of a tool; approval: requested; decision: on an approval; note: inserted text; error: a failed attempt';
comment on column agent.step.run_id is 'Run that it belongs to';
comment on column agent.step.seq is 'Number of the step in its run, from 0';
comment on column agent.step.content is 'What happened, by kind';
comment on column agent.step.input_tokens is 'Input tokens of a reply';
comment on column agent.step.cached_tokens is 'Input tokens read from a cache';
comment on column agent.step.cache_write_tokens is 'Input tokens written to a cache';
comment on column agent.step.output_tokens is 'Output tokens of a reply';
comment on column agent.step.cost is 'US dollars; NULL: unknown';
comment on column agent.step.duration_ms is 'Duration of the call in milliseconds';
comment on column agent.step.recorded_at is 'Time of the transaction that recorded it';

create table agent.worker (
    name         text primary key,
    started_at   timestamptz not null default now(),
    seen_at      timestamptz not null default now(),
    version      text not null default '',
    slots        integer not null default 0
);
comment on table agent.worker is 'Processes that execute runs, with the time of their last heartbeat';
comment on column agent.worker.name is 'Name of the process';
comment on column agent.worker.started_at is 'Time of the start';
comment on column agent.worker.seen_at is 'Time of the last heartbeat';
comment on column agent.worker.version is 'Version of walagent';
comment on column agent.worker.slots is 'Maximum number of concurrent runs';
