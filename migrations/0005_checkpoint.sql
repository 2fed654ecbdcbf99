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

-- Take over the checkpoint of a slot that is not given up; older readers can write nothing from here on.
create function agent_internal.take_checkpoint(_slot text, _reader text)
    returns agent.checkpoint
    language sql
as $$
    update agent.checkpoint set epoch = epoch + 1, reader = _reader, updated_at = agent_internal.now()
     where slot = _slot and abandoned_at is null
    returning *
$$;

-- Give a slot up: write the gap down and fence its reader.  Dropping the slot comes after the commit;
-- who dies in between leaves that to whoever comes next.
--
-- Returns the gap, or NULL when another reader has taken the checkpoint over: then nothing is done.
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
comment on function agent_internal.abandon_slot(text, bigint, text) is 'Give a slot up that keeps too much WAL; called by its reader';
