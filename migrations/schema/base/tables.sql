-- Which files the database has: all upgrades, and the code of the version that migrated it last.
create table agent_internal.migration (
    name       text primary key,
    sha256     text not null,
    version    text not null,
    applied_at timestamptz not null default now()
);

-- The functions, views and policies that code has defined.  An upgrade drops those that it no longer defines, and leaves what
-- others have put into these schemas.
create table agent_internal.code_object (
    object text primary key
);

-- The key that signs origin markers.  One row, created here, which only the owner and the runner can read: see
-- agent_internal.begin_write().
create table agent_internal.secret (
    one boolean primary key default true check (one),
    key bytea not null default decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex')
);

-- Locks between transactions of walagent: rows, because anyone who can connect can hold an advisory lock.
create table agent_internal.lock (
    name text primary key
);

-- Intake locks this table with each run that it starts; a lock of a row would write WAL and take ten times as long.
create table agent_internal.start_lock ();

-- A tick locks this table: on an idle server, a row would make WAL every few seconds.
create table agent_internal.tick_lock ();

-- The identity of the database.  A copy of the files or of the rows has the runs of the original, but must not execute
-- them: the server's system identifier or the OID of the database differs.  A copy of the whole cluster with all its files
-- has both; a person must see to it that one of the two is not started.
--
-- Without a row, the next claim makes an identity.
create table agent_internal.database (
    one        boolean primary key default true check (one),
    id         text not null default left(replace(gen_random_uuid()::text, '-', ''), 16),
    system_id  text not null,
    oid        oid not null,
    adopted_at timestamptz not null default now(),
    made_at    pg_lsn not null default pg_current_wal_insert_lsn()  -- no slot of walagent begins before its publications
);

-- Only the owner can insert, and nobody commits a row: who sees one is in the transaction of a trial.
create table agent_internal.trial (
    started_at timestamptz primary key default now()
);

-- Anyone who can connect can hold an advisory lock without limit.  These tables are empty; only their owner, and the functions
-- below, may lock them in a mode that conflicts with another.  A lock of a table, not of a row: that would give the
-- transaction an ID, and the creation of a slot waits for each transaction with an ID.
create table agent_internal.slot_lock ();

create table agent_internal.apply_lock ();
