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
    reader_pid   integer,
    updated_at   timestamptz not null default now()
);

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

create table agent.gap_choice (
    gap_id        bigint not null references agent.gap on delete cascade,
    attachment_id bigint not null,
    attachment    text not null,
    choice        text not null check (choice in ('skip', 'since', 'all', 'turns')),
    column_name   name,
    since         timestamptz,
    rows          bigint,
    runs          bigint,
    undated       bigint,
    chosen_by     name not null default agent.current_principal(),
    chosen_at     timestamptz not null default now(),
    tenant        text collate "C" not null default agent.current_tenant(),
    primary key (gap_id, attachment_id),
    constraint columns_fit_choice
        check ((choice = 'since') = (column_name is not null and since is not null and rows is not null and runs is not null))
);
