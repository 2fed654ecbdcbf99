-- What people and applications made of what agents wrote: changes of a column, by a transaction of no run, while the value of
-- the agent was there.  The reader inserts them with the checkpoint, so that each is here once.
create table agent.correction (
    run_id       bigint not null,
    commit_lsn   pg_lsn not null,
    ordinal      integer not null check (ordinal >= 0),
    column_name  text not null,
    number       smallint not null,
    kind         text not null check (kind in ('changed', 'deleted', 'reverted', 'bulk')),
    relation     oid not null,
    schema_name  text not null,
    table_name   text not null,
    key          jsonb,
    wrote        text,
    value        text,
    omitted      boolean not null default false,
    rows         bigint not null default 1 check (rows > 0),
    by_run       bigint,  -- that took it back
    corrected_by name,  -- who signed the transaction, or asked for the revert; NULL: the WAL does not say
    xid          bigint not null,
    committed_at timestamptz not null,
    tenant       text collate "C" not null default agent.current_tenant(),
    primary key (run_id, commit_lsn, ordinal, column_name),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade,
    check ((kind = 'bulk') = (key is null))
);

-- Lists begin with the latest.  Rows are inserted in the order of time, so an entry costs little.
create index correction_committed on agent.correction (committed_at, commit_lsn, ordinal);

-- The last write of an agent to a column of a row, until somebody changes it.  The value itself is in agent.row_change.
create table agent_internal.last_write (
    relation    oid not null,
    key         jsonb not null,
    row_hash    uuid generated always as (md5(key::text)::uuid) stored,  -- a key can be longer than an entry of an index
    column_name text not null,
    number      smallint not null,  -- another column can have the name since
    run_id      bigint not null,
    digest      bigint,  -- of the value's text; NULL: it is NULL
    written_at  timestamptz not null,
    tenant      text collate "C" not null default agent.current_tenant(),
    primary key (relation, row_hash, column_name),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
) with (fillfactor = 80);

create index last_write_of_run on agent_internal.last_write (run_id);

create index last_write_written on agent_internal.last_write using brin (written_at) with (pages_per_range = 8, autosummarize = on);

-- What people say of runs: one score of each person for a run.
create table agent.score (
    run_id    bigint not null,
    principal name not null,
    value     numeric not null check (value between -1 and 1),
    comment   text check (length(comment) <= 10000),
    scored_at timestamptz not null default agent_internal.now(),
    tenant    text collate "C" not null default agent.current_tenant(),
    primary key (run_id, principal),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);
