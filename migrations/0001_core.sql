-- The nouns: models, agents, attachments, queues, runs, steps, questions, approvals, and how far the WAL is ingested.
--
-- Everything lives in the schema `agent`.  Whoever applies this file owns it; that role needs no
-- superuser rights, only CREATE on the database.  What must be atomic under contention is a
-- function in a later file; what can be said as a constraint is one here.

create schema if not exists agent;
comment on schema agent is 'walagent: what people call, insert into and read';

create schema agent_internal;
comment on schema agent_internal is 'walagent: what only its programs and the functions of agent call; not an interface';

-- The one clock of everything below: leases, back-off, expiry.  A function of our own, so that
-- a test can replace it.  The start of the statement, not of the transaction: a claim that waited
-- for a lock must not hand out a lease that has already aged.
create function agent_internal.now()
    returns timestamptz
    language sql
    stable
as $$ select statement_timestamp() $$;
comment on function agent_internal.now() is 'The time that leases, retries and expiry are measured by';

-- Who the caller is: the login, whatever role it has set and whatever function with other rights it
-- is in.  One function, so that there is one place to change where people are not logins of their own.
create function agent.current_principal()
    returns name
    language sql
    stable
as $$ select session_user $$;
comment on function agent.current_principal() is 'Who the caller is';

-- The key that proves a write-back message to be ours.  One row, made here, readable by the
-- owner and the runner alone: see agent_internal.begin_write().
create table agent_internal.secret (
    one boolean primary key default true check (one),
    key bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
);
comment on table agent_internal.secret is 'The key with which our own transactions are told from forged ones';
insert into agent_internal.secret default values;

create table agent.model (
    name               text primary key check (name <> ''),
    provider           text not null,
    model_id           text not null,
    base_url           text,
    credential         text,
    tool_mode          text not null default 'native' check (tool_mode in ('native', 'schema')),
    context_window     integer not null default 128000 check (context_window > 0),
    max_output_tokens  integer not null default 4096 check (max_output_tokens > 0),
    timeout_seconds    integer not null default 120 check (timeout_seconds > 0),
    input_price        numeric check (input_price >= 0),
    cached_input_price numeric check (cached_input_price >= 0),
    cache_write_price  numeric check (cache_write_price >= 0),
    output_price       numeric check (output_price >= 0),
    parameters         jsonb not null default '{}' check (jsonb_typeof(parameters) = 'object'),
    enabled            boolean not null default true
);
comment on table agent.model is 'A model that agents may use';
comment on column agent.model.provider is 'built in, or of another package: an entry point in the group walagent.models';
comment on column agent.model.credential is 'The name of the environment variable or systemd credential that holds the key; never the key';
comment on column agent.model.tool_mode is 'native: the endpoint''s own tool calls; schema: one JSON schema of all tools';
comment on column agent.model.timeout_seconds is 'How long one call may ingest all; then it counts as unanswered';
comment on column agent.model.input_price is 'US dollars per million tokens; NULL where unknown';

create table agent.tool (
    name            text primary key check (name ~ '^[A-Za-z_][A-Za-z0-9_]{0,63}$'),
    kind            text not null check (kind in ('sql', 'python', 'mcp', 'builtin')),
    target          text not null,
    description     text not null default '',
    input_schema    jsonb check (jsonb_typeof(input_schema) = 'object'),
    effect          text not null default 'transactional'
                        check (effect in ('read', 'transactional', 'idempotent', 'unsafe')),
    risk            text not null default 'low' check (risk in ('low', 'medium', 'high', 'critical')),
    approval        boolean not null default false,
    timeout_seconds integer not null default 30 check (timeout_seconds > 0),
    bind            jsonb not null default '{}' check (jsonb_typeof(bind) = 'object'),
    enabled         boolean not null default true,
    fingerprint     text,
    check ((kind = 'mcp') = (fingerprint is not null))
);
comment on table agent.tool is 'A capability under a name; plain SQL functions need no row here';
comment on column agent.tool.target is 'kind sql: a function; python: module:function; mcp: server.tool; builtin: its name';
comment on column agent.tool.fingerprint is 'kind mcp: of the name, description and schema that a person has accepted';
comment on column agent.tool.effect is 'read: changes nothing; transactional: commits with its step; idempotent: leaves the database, may be repeated with its key; unsafe: leaves the database, at most once';
comment on column agent.tool.bind is 'Arguments taken from the change, argument to column; the model does not see them';

insert into agent.tool (name, kind, target, description, effect) values
    ('update_row', 'builtin', 'update_row', 'Update the row that this is about.', 'transactional'),
    ('do_nothing', 'builtin', 'do_nothing', 'Do nothing: this row needs no action.', 'read'),
    ('query', 'builtin', 'query', 'Read the database with one SELECT of PostgreSQL; what could write is refused.', 'read');

create table agent.agent (
    name              text primary key check (name <> ''),
    version           integer not null default 1,
    model             text not null references agent.model,
    system_prompt     text not null default '',
    tools             text[] not null default '{}',
    tool_choice       text not null default 'auto',
    examples          jsonb not null default '[]' check (jsonb_typeof(examples) = 'array'),
    parameters        jsonb not null default '{}' check (jsonb_typeof(parameters) = 'object'),
    max_steps         integer not null default 20 check (max_steps > 0),
    max_tokens        bigint check (max_tokens > 0),
    max_cost          numeric check (max_cost > 0),
    max_seconds       integer not null default 600 check (max_seconds > 0),
    max_attempts      integer not null default 5 check (max_attempts > 0),
    max_output_tokens integer check (max_output_tokens > 0),
    updated_at        timestamptz not null default now()
);
comment on table agent.agent is 'A model with instructions, tools and limits, under a name';
comment on column agent.agent.tool_choice is 'auto, required, or the name of the tool that must be called first';
comment on column agent.agent.examples is 'Worked examples: [{"text": ..., "tool": ..., "arguments": {...}}]';
comment on column agent.agent.max_seconds is 'Wall time of one run, waiting for people and retries not counted';

-- An attachment's queue has the attachment's id.  Intake inserts runs for attachments that it cannot
-- see yet (their transaction waits for a standby) or any more (they were detached later), so it must
-- know the queue without looking it up.  One sequence numbers both, so that no other queue gets the id.
create sequence agent_internal.queue_id;

create table agent.attachment (
    id            bigint primary key default nextval('agent_internal.queue_id'),
    name          text not null unique check (name <> ''),
    agent         text not null references agent.agent,
    relation      regclass not null,
    ops           text[] not null default '{insert}'
                      check (ops <@ '{insert,update,delete,truncate}' and cardinality(ops) > 0),
    condition     text,
    columns       text[],
    writes        text[] not null default '{}',
    bind          jsonb not null default '{}' check (jsonb_typeof(bind) = 'object'),
    approve       text[] not null default '{}',
    run_as        name not null default current_user,
    query_as      name,
    ordering_key      text[],
    debounce      interval check (debounce > interval '0'),
    cap           integer check (cap > 0),
    backfill      boolean not null default false,
    server_filter boolean not null default false,
    max_depth     integer not null default 3 check (max_depth between 0 and 100),
    search_path   text not null,
    approval_ttl  interval not null default '7 days' check (approval_ttl > interval '0'),
    paused        boolean not null default false,
    paused_reason text,
    version       integer not null default 1,
    attached_by   name not null default current_user,
    attached_at   timestamptz not null default now(),
    source        text not null default 'sql' check (source in ('sql', 'file')),
    definition    jsonb not null default '{}'
);
comment on column agent.attachment.definition is 'What a run needs to know, frozen by a trigger; the reader takes it from the WAL';
comment on table agent.attachment is 'An agent on a table: which changes it acts on, and as whom';
comment on column agent.attachment.condition is 'A boolean SQL expression over new and old; NULL: every change';
comment on column agent.attachment.server_filter is 'Let the server filter by the condition before it sends a row. PostgreSQL then refuses to drop or retype the columns that it reads';
comment on column agent.attachment.columns is 'What the agent is shown; an update must touch one of them. NULL: all columns';
comment on column agent.attachment.writes is 'The columns that the tool update_row may write';
comment on column agent.attachment.bind is 'Tool arguments taken from the change: {"argument": "column"}';
comment on column agent.attachment.approve is 'Tools whose calls wait for a person';
comment on column agent.attachment.run_as is 'The role that tools run as, never the daemon''s';
comment on column agent.attachment.query_as is 'The role with whose rights the tool query reads; it can read and nothing else. NULL: walagent_analyst';
comment on column agent.attachment.search_path is 'Where names in the condition, of tools and inside the tools'' bodies are looked up: as it was for whoever attached';
comment on column agent.attachment.ordering_key is 'Changes with equal values here are worked one at a time, in commit order. NULL: the primary key; empty: no order';
comment on column agent.attachment.cap is 'Runs at the same time; NULL: as many as the workers have slots';
comment on column agent.attachment.max_depth is 'How many agents'' writes may have led to a change that this one still acts on; 0: only people''s and applications'' changes';
comment on column agent.attachment.paused is 'Changes are still ingested, but no run starts';

-- The snapshot that runs are pinned to.  A version is never changed after it was made; only the
-- positions say between which commits it was the one in effect, and only the reader sets them.
create table agent.attachment_version (
    attachment_id bigint not null,
    version       integer not null,
    definition    jsonb not null,
    active_from   pg_lsn,
    active_until  pg_lsn,
    made_at       timestamptz not null default now(),
    primary key (attachment_id, version)
);
comment on table agent.attachment_version is 'What an attachment, its agent and its tools were, version by version';
comment on column agent.attachment_version.active_from is 'Commit LSN of the transaction that made it; changes committed later are its';

create type agent.run_state as enum (
    'pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review',
    'succeeded', 'failed', 'dead', 'cancelled', 'skipped'
);
comment on type agent.run_state is 'pending -> running -> succeeded | failed | dead | cancelled | skipped, with waits between';

create function agent_internal.is_final(_state agent.run_state)
    returns boolean
    language sql
    immutable
as $$ select _state in ('succeeded', 'failed', 'dead', 'cancelled', 'skipped') $$;

-- Which state may follow which.  `failed`, `dead` and `cancelled` open again only by agent.retry.
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

-- Which columns a run has depends on its state and reason.  Functions in plpgsql on purpose: a
-- constraint's expression is read and planned anew for every statement, a call of one is not.
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
        else false
    end;
end;
$$;

create table agent.session (
    id           text primary key check (id <> '' and length(id) <= 200),
    owner        name not null default agent.current_principal(),
    made_at      timestamptz not null default agent_internal.now(),
    asked_at     timestamptz not null default agent_internal.now(),
    summary      text,
    summary_upto bigint,
    constraint a_summary_is_of_something check (num_nonnulls(summary, summary_upto) in (0, 2))
);
comment on table agent.session is 'A conversation about the database: a question may refer to those before it';
comment on column agent.session.owner is 'Who began it; nobody else may read or continue it';
comment on column agent.session.summary is 'What was asked and found so far, where that is too long for a prompt';
comment on column agent.session.summary_upto is 'The last question that the summary is about';

-- One row for each queue: whose turn it is.  `queued` and `used` are hints kept by claims and repaired
-- by agent_internal.tick(); the truth is in agent.run.  So ending a run touches no row that other runs
-- share, and ends commit side by side.
--
-- Each claim updates rows of this table.  Pages with some room left keep the new versions on the
-- page of the old ones.  There may be very many sessions, of which few have runs to claim: neither a
-- claim nor a tick reads the whole table.
create table agent_internal.queue (
    id            bigint primary key default nextval('agent_internal.queue_id'),
    kind          text not null,
    attachment_id bigint unique,
    session_id    text unique references agent.session on delete cascade,
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
comment on table agent_internal.queue is 'Queues of runs, which claims serve in turn: one of each attachment, one of each session';
comment on column agent_internal.queue.kind is 'Of its runs: agent or question';
comment on column agent_internal.queue.cap is 'Runs at the same time; NULL: as many as the workers have slots';
comment on column agent_internal.queue.used is 'Runs that are running, as a hint; 0 where there is no cap';
comment on column agent_internal.queue.queued is 'Whether there may be runs to claim, as a hint';
comment on column agent_internal.queue.served is 'When it was served last, as a number of agent_internal.queue_turn';
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

    -- The slot delivers at least once; this makes taking a change in exactly once.
    constraint run_once_per_change unique (attachment_id, generation, commit_lsn, ordinal),  -- planted: no-unique-key/table
    constraint columns_fit_state
        check (agent_internal.fits_state(state, lease_expires_at, next_attempt_at, finished_at)),
    constraint columns_fit_kind
        check (agent_internal.fits_kind(kind, reason, attachment_id, attachment_version, principal, commit_lsn, ordinal, backfill_key))
)
-- A run is written three times: inserted, claimed, ended.  Ended runs stay for long, so a fifth of the
-- table, which autovacuum waits for by default, would be many times the part that is worked on.
with (autovacuum_vacuum_scale_factor = 0.02, autovacuum_analyze_scale_factor = 0.02);
comment on table agent.run is 'One piece of work, why it exists, and how far it is';
comment on column agent.run.kind is 'agent: an agent works on a change; question: somebody asked one';
comment on column agent.run.queue_id is 'The queue that it is claimed from';
comment on column agent.run.principal is 'On whose behalf: who asked. NULL for an agent''s run, which acts as its attachment''s version says';
comment on column agent.run.attachment_version is 'The version of the attachment that it is pinned to; NULL for a question';
comment on column agent.run.change is '{"op", "schema", "table", "new", "old", "unchanged", "truncated"} as the WAL told it';
comment on column agent.run.ordering_key is 'Runs of one queue with the same ordering key are worked one at a time, in order of id';

-- Partial: rows that no backfill brought need no entry.
create unique index run_once_per_backfilled_row on agent.run (attachment_id, generation, backfill_key)
    where backfill_key is not null;
-- Ordered by an expression, and so are the queries that use them: after an analyze of a full queue
-- the planner would rather walk the primary key, past every run that has ended since.
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

-- A run as intake and backfills insert it: JSON with the names of the columns.  What is left out has the
-- column's default.
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
comment on type agent.new_run is 'A run that is about to be inserted';

create function agent_internal.check_transition()
    returns trigger
    language plpgsql
as $$
begin
    if not agent_internal.may_follow(old.state, new.state) then
        raise exception 'run % cannot go from % to %', old.id, old.state, new.state
            using errcode = 'WA003',
                  hint = 'docs/concepts.md shows which state may follow which';
    end if;
    return new;
end;
$$;
create trigger check_transition
    before update of state on agent.run
    for each row
    when (old.state is distinct from new.state)
    execute function agent_internal.check_transition();

-- Changes after the first that a debouncing attachment merged into one run.
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
comment on table agent_internal.merged_change is 'Changes that joined an earlier change''s run because of debounce';

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
comment on table agent.step is 'What happened in a run, in order; append-only';
comment on column agent.step.kind is 'reply: the model; intent: an external tool is about to be called; result: a tool''s answer; approval: a person was asked; decision: what the person said; note: injected text; error: a failed attempt';

create table agent.question (
    id         bigint primary key generated always as identity,
    session_id text not null references agent.session on delete cascade,
    text       text not null check (text <> '' and length(text) <= 20000),
    options    jsonb not null default '{}',
    asked_at   timestamptz not null default agent_internal.now(),
    run_id     bigint unique references agent.run on delete set null,
    answer     jsonb
);
create index question_of_session on agent.question (session_id, id);
create index question_unanswered on agent.question (asked_at) where answer is null and run_id is not null;
comment on table agent.question is 'A question in plain words; its run has the plan, the statements and their results as steps';
comment on column agent.question.answer is '{"status", "text", "sql", "assumptions", "caveats"}, once it is there; kept when the run is pruned';

create table agent.approval (
    id          bigint primary key generated always as identity,
    run_id      bigint not null references agent.run on delete cascade,
    call_id     text not null,
    tool        text not null,
    arguments   jsonb not null,
    digest      text not null,
    run_as      name not null,
    state       text not null default 'pending'
                    check (state in ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
    asked_at    timestamptz not null default now(),
    expires_at  timestamptz not null,
    decided_by  name,
    decided_at  timestamptz,
    reason      text,
    constraint decided_has_decider check ((state in ('approved', 'rejected')) = (decided_by is not null))
);
-- A call is asked about again only after a question that ended without an answer to it.
create unique index asked_once_per_call on agent.approval (run_id, call_id) where state = 'pending';
create index approval_pending on agent.approval (expires_at) where state = 'pending';
comment on table agent.approval is 'A question to a person about one tool call, bound to the digest of its exact arguments';

create table agent.worker (
    name         text primary key,
    started_at   timestamptz not null default now(),
    seen_at      timestamptz not null default now(),
    version      text not null default '',
    slots        integer not null default 0
);
comment on table agent.worker is 'Processes that work runs, and when each was last alive';

create table agent.checkpoint (
    slot         text primary key,
    generation   integer not null default 1,
    epoch        bigint not null default 0,
    system_id    text not null,
    timeline     integer not null,
    plugin       text not null,
    commit_lsn   pg_lsn not null,
    end_lsn      pg_lsn not null,
    committed_at timestamptz not null default now(),
    abandoned_at  timestamptz,
    reader       text,
    updated_at   timestamptz not null default now()
);
comment on table agent.checkpoint is 'How far the WAL of a slot is ingested';
comment on column agent.checkpoint.generation is 'Grows when the slot is made anew, so that positions stay unique';
comment on column agent.checkpoint.epoch is 'Grows with every reader that takes over; an older reader can write nothing';
comment on column agent.checkpoint.end_lsn is 'Where to resume: everything that committed before it is ingested';
comment on column agent.checkpoint.committed_at is 'When the last transaction committed that is ingested';
comment on column agent.checkpoint.abandoned_at is 'When the slot was given up: nobody reads it any more, and whoever finds it drops it';

create table agent.gap (
    id          bigint primary key generated always as identity,
    slot        text not null,
    generation  integer not null default 0,
    from_lsn    pg_lsn,
    to_lsn      pg_lsn,
    since       timestamptz,
    reason      text not null,
    found_at    timestamptz not null default now(),
    resolution  text,
    resolved_at timestamptz,
    resolved_by name
);
-- Nothing is ingested while a gap is open, so one at a time says it all.
create unique index gap_open_once on agent.gap (slot, generation) where resolved_at is null;
comment on table agent.gap is 'A stretch of WAL that was lost to us, and what was done about it';
comment on column agent.gap.generation is 'Of the slot that was lost';
comment on column agent.gap.from_lsn is 'Everything that committed before it is ingested';
comment on column agent.gap.to_lsn is 'Where the WAL ended when the gap was found; once it is dealt with, where the new slot begins';
comment on column agent.gap.since is 'Everything that committed before this time is ingested';

create table agent.gap_choice (
    gap_id        bigint not null references agent.gap on delete cascade,
    attachment_id bigint not null,
    attachment    text not null,
    choice        text not null check (choice in ('skip', 'since', 'all')),
    column_name   name,
    since         timestamptz,
    rows          bigint,
    runs          bigint,
    undated       bigint,
    chosen_by     name not null default agent.current_principal(),
    chosen_at     timestamptz not null default now(),
    primary key (gap_id, attachment_id),
    constraint columns_fit_choice
        check ((choice = 'since') = (column_name is not null and since is not null and rows is not null and runs is not null))
);
comment on table agent.gap_choice is 'What people chose to do, for each attachment, about the rows of a gap; written by walagent resync';
comment on column agent.gap_choice.choice is 'skip: nothing; since: run on the rows whose column says that they have changed since; all: run on every row';
comment on column agent.gap_choice.since is 'Rows whose column had this time or a later one were looked at';
comment on column agent.gap_choice.rows is 'How many those were';
comment on column agent.gap_choice.runs is 'How many of them got a run: not those that were ingested already, or whose condition is false. NULL for all: see agent.backfill';
comment on column agent.gap_choice.undated is 'Rows whose column is NULL: nobody can say when they changed, and they were left out';

create table agent.backfill (
    attachment_id bigint not null,
    version       integer not null,
    generation    integer not null default 0,
    state         text not null default 'pending' check (state in ('pending', 'running', 'done', 'failed', 'replaced')),
    cursor        jsonb,
    rows_total    bigint,
    rows_done     bigint not null default 0,
    runs          bigint not null default 0,
    error         text,
    started_at    timestamptz,
    finished_at   timestamptz,
    primary key (attachment_id, generation)
);
comment on table agent.backfill is 'Running an agent on the rows that existed when it was attached, or when a gap ended';
comment on column agent.backfill.generation is '0: the attach. Else of the slot that followed a gap';

-- Rows inserted after a backfill was asked for, while it is going on: the stream has them, so the
-- backfill must leave them alone.  So must older backfills with those that a gap's end brought.
create table agent_internal.backfill_seen (
    attachment_id bigint not null,
    generation    integer not null default 0,
    key           text not null,
    primary key (attachment_id, key, generation)
);
comment on table agent_internal.backfill_seen is 'Rows that have their runs in another way, and that a running backfill leaves alone';
