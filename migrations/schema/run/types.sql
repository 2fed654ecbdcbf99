create type agent.run_state as enum (
    'pending', 'running', 'waiting_approval', 'waiting_retry', 'needs_review',
    'succeeded', 'failed', 'dead', 'cancelled', 'skipped'
);
comment on type agent.run_state is 'States of a run: pending -> running -> succeeded | failed | dead | cancelled | skipped, with waits in between';

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
    start              boolean,  -- whether a worker of the reader's process has a slot for it
    tenant             text,
    kind               text,
    principal          name,
    delay              double precision,
    priority           smallint
);
comment on type agent.new_run is 'A run to be inserted, an element of the JSON array that intake and backfills send';

-- A step of a run unless `seq` is NULL, and its end unless `state` is NULL: the arguments of
-- agent_internal.record_step() and agent_internal.finish_with_step(), of a call that no budget counts.
create type agent_internal.run_record as (
    run         bigint,
    lease       bigint,
    state       agent.run_state,
    result      text,
    error       jsonb,
    tokens      bigint,
    cost        numeric,
    seq         integer,
    kind        text,
    content     jsonb,
    usage       integer[],
    step_cost   numeric,
    duration_ms integer
);
