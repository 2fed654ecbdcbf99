-- The rows that transactions of runs changed, as the WAL says: triggers and cascades included, savepoints that were rolled
-- back left out.  The reader inserts them with the checkpoint, so that each is here once.
--
-- Values are the texts that the output functions of their types write, as the WAL has them: a JSON number or document would
-- lose digits.  A column that is not in an image is not known; null is NULL.
create table agent.row_change (
    run_id       bigint not null,
    commit_lsn   pg_lsn not null,
    ordinal      integer not null check (ordinal >= 0),
    step         integer check (step >= 0),
    xid          bigint not null,  -- as BEGIN shows it in the WAL: the lower 32 bits
    committed_at timestamptz not null,
    relation     oid,              -- of a partition: that of its topmost table; NULL: dropped before the reader came to it
    schema_name  text not null,
    table_name   text not null,
    op           text not null check (op in ('insert', 'update', 'delete', 'truncate', 'more')),
    source       text check (source in ('statement', 'trigger')),
    key          jsonb,
    old_key      jsonb,
    columns      text[],
    before       jsonb,
    after        jsonb,
    omitted      text[] not null default '{}',
    rows         bigint not null default 1 check (rows > 0),
    numbers      jsonb not null default '{}',
    tenant       text collate "C" not null default agent.current_tenant(),
    primary key (run_id, commit_lsn, ordinal),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);

-- By hash: a key can be longer than an entry of a B-tree.
create index row_change_of_row on agent.row_change using hash (key);

create index row_change_of_old_key on agent.row_change using hash (old_key) where old_key is not null;

-- Lists begin with the latest.  Rows are inserted in the order of time, so an entry costs little.
create index row_change_committed on agent.row_change (committed_at, commit_lsn, ordinal);

-- What a row was before the tool update_row updated it, or a revert restored it: the WAL has that only with replica identity
-- full.  Written in the transaction of the step, and taken into agent.row_change when the reader comes to it.
create table agent_internal.row_before (
    run_id   bigint not null,
    xid      bigint not null,
    n        integer not null default 0 check (n >= 0),
    relation oid not null,
    key      jsonb not null,
    before   jsonb,
    after    jsonb,  -- only if updates of the table are not published
    tenant   text collate "C" not null default agent.current_tenant(),
    primary key (run_id, xid, n),
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete cascade
);

create index row_before_of_row on agent_internal.row_before using hash (key);
