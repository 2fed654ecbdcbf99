-- How far the WAL of a slot is ingested, and what was lost.

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
comment on table agent.checkpoint is 'Checkpoints: how far the WAL of each slot is ingested';
comment on column agent.checkpoint.generation is 'Incremented when the slot is created again, so that positions stay unique';
comment on column agent.checkpoint.epoch is 'Incremented by each reader that takes over; an older reader can write nothing';
comment on column agent.checkpoint.end_lsn is 'Position to resume at: everything that committed before it is ingested';
comment on column agent.checkpoint.committed_at is 'Commit time of the last ingested transaction';
comment on column agent.checkpoint.abandoned_at is 'When the slot was abandoned: no reader uses it, and the next process that finds it drops it';
comment on column agent.checkpoint.slot is 'Name of the replication slot';
comment on column agent.checkpoint.system_id is 'System identifier of the server';
comment on column agent.checkpoint.timeline is 'Timeline of the server';
comment on column agent.checkpoint.plugin is 'Output plug-in of the slot';
comment on column agent.checkpoint.commit_lsn is 'Commit LSN of the last ingested transaction';
comment on column agent.checkpoint.reader is 'Reader that holds it';
comment on column agent.checkpoint.updated_at is 'Time of the last change';

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
-- Nothing is ingested while a gap is open, so one open gap is enough.
create unique index gap_open_once on agent.gap (slot, generation) where resolved_at is null;
comment on table agent.gap is 'Gaps: WAL that was lost, and its resolution';
comment on column agent.gap.generation is 'Generation of the lost slot';
comment on column agent.gap.from_lsn is 'Start: everything that committed before it is ingested';
comment on column agent.gap.to_lsn is 'End of the WAL when the gap was found; after the resolution, start of the new slot';
comment on column agent.gap.since is 'Everything that committed before this time is ingested';
comment on column agent.gap.id is 'Gap ID';
comment on column agent.gap.slot is 'Name of the lost slot';
comment on column agent.gap.reason is 'Why the WAL was lost';
comment on column agent.gap.found_at is 'When it was found';
comment on column agent.gap.resolution is 'How it was resolved';
comment on column agent.gap.resolved_at is 'When it was resolved; NULL: open';
comment on column agent.gap.resolved_by is 'Role that resolved it';

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
comment on table agent.gap_choice is 'What was chosen for the rows of a gap, by attachment; written by walagent resync';
comment on column agent.gap_choice.choice is 'skip: no runs; since: runs for rows whose column has this time or a later one; all: runs for every row';
comment on column agent.gap_choice.since is 'Rows with this time or a later one in the column were checked';
comment on column agent.gap_choice.rows is 'Number of checked rows';
comment on column agent.gap_choice.runs is 'Number of runs that were inserted, without rows that had one or do not match. NULL for all: see agent.backfill';
comment on column agent.gap_choice.undated is 'Number of rows left out because the column is NULL';
comment on column agent.gap_choice.gap_id is 'Gap ID';
comment on column agent.gap_choice.attachment_id is 'Attachment ID';
comment on column agent.gap_choice.attachment is 'Name of the attachment at the time of the choice';
comment on column agent.gap_choice.column_name is 'since: column with the time of the last change of a row';
comment on column agent.gap_choice.chosen_by is 'Role that chose';
comment on column agent.gap_choice.chosen_at is 'Time of the choice';

-- Take over the checkpoint of a slot that is not abandoned; from then on, older readers can write nothing.
create function agent_internal.take_checkpoint(_slot text, _reader text)
    returns agent.checkpoint
    language sql
as $$
    update agent.checkpoint set epoch = epoch + 1, reader = _reader, updated_at = agent_internal.now()
     where slot = _slot and abandoned_at is null
    returning *
$$;

-- Abandon a slot: record the gap and fence the reader.  The slot is dropped after the commit; if the process dies
-- in between, the next one drops it.
--
-- Returns the gap, or NULL if another reader has the checkpoint: then nothing is done.
create function agent_internal.abandon_slot(_slot text, _epoch bigint, _reason text)
    returns bigint
    language sql
as $$
    with held as (
        update agent.checkpoint
           set abandoned_at = agent_internal.now(), epoch = epoch + 1, updated_at = agent_internal.now()
         where slot = _slot and epoch = _epoch and abandoned_at is null
        returning slot, generation, end_lsn, committed_at
    )
    insert into agent.gap as g (slot, generation, from_lsn, to_lsn, since, reason)
    select slot, generation, end_lsn, pg_current_wal_lsn(), committed_at, _reason from held
    on conflict (slot, generation) where resolved_at is null do update set to_lsn = excluded.to_lsn
    returning g.id
$$;
comment on function agent_internal.abandon_slot(text, bigint, text) is 'Abandon a slot that retains too much WAL; called by its reader';
