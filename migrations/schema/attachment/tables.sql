-- The queue of an attachment has the ID of the attachment.  Intake inserts runs for attachments that are not yet
-- visible (their transaction waits for a standby) or no longer exist (they were detached later), so it must derive
-- the queue without a lookup.  One sequence numbers both, so that no other queue gets the ID.
create sequence agent_internal.queue_id;

create table agent.attachment (
    id            bigint primary key default nextval('agent_internal.queue_id'),
    name          text not null check (name <> ''),
    agent         text not null,
    relation      regclass not null,
    ops           text[] not null default '{insert}'
                      check (ops <@ '{insert,update,delete,truncate}' and cardinality(ops) > 0),
    condition     text,
    columns       text[],
    writes        text[] not null default '{}',
    bind          jsonb not null default '{}' check (jsonb_typeof(bind) = 'object'),
    approve       text[] not null default '{}',
    lets_out      text[] not null default '{}',
    run_as        name not null default current_user,
    query_as      name,
    ordering_key  text[],
    debounce      interval check (debounce > interval '0'),
    cap           integer check (cap > 0),
    backfill      boolean not null default false,
    server_filter boolean not null default false,
    corrections   boolean not null default false,
    only_unchanged boolean not null default false,
    score_share   numeric not null default 0 check (score_share between 0 and 1),
    embeds        boolean not null default false,
    max_depth     integer not null default 3 check (max_depth between 0 and 100),
    priority      integer not null default 0 check (priority between -1000 and 1000),
    search_path   text not null,
    approval_ttl  interval not null default '7 days' check (approval_ttl > interval '0'),
    paused        boolean not null default false,
    paused_reason text,
    version       integer not null default 1,
    attached_by   name not null default current_user,
    attached_at   timestamptz not null default now(),
    source        text not null default 'sql' check (source in ('sql', 'file')),
    definition    jsonb not null default '{}',
    tenant        text collate "C" not null default agent.current_tenant() references agent.tenant,
    tenant_column text,
    paused_by     name,
    turns         jsonb check (jsonb_typeof(turns) = 'object'),
    canary        jsonb check (jsonb_typeof(canary) = 'object'),
    canary_share  double precision check (canary_share > 0 and canary_share <= 1),
    canary_definition jsonb,
    canary_shadow boolean not null default false,
    unique (tenant, name),
    unique (tenant, id),
    foreign key (tenant, agent) references agent.agent,
    constraint canary_is_whole check (num_nulls(canary, canary_share, canary_definition) in (0, 3)),
    constraint shadow_is_canary check (case when canary_shadow then canary is not null else canary_share is null or canary_share < 1 end)
);

-- The frozen definitions that runs are pinned to.  A version never changes; only its positions, between which
-- commits it was in effect, and for which share of the ordering keys, are set later, by the reader.
create table agent.attachment_version (
    attachment_id bigint not null,
    version       integer not null,
    definition    jsonb not null,
    active_from   pg_lsn,
    active_until  pg_lsn,
    made_at       timestamptz not null default now(),
    tenant        text collate "C" not null default agent.current_tenant(),
    share         double precision,
    shadow        boolean not null default false,
    primary key (attachment_id, version)
);

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
    tenant        text collate "C" not null default agent.current_tenant(),
    primary key (attachment_id, generation)
);

-- Rows that a backfill in progress must skip: those inserted since it was requested, which the stream has, and
-- for older backfills those that the end of a gap has processed.
create table agent_internal.backfill_seen (
    attachment_id bigint not null,
    generation    integer not null default 0,
    key           text not null,
    tenant        text collate "C" not null default agent.current_tenant(),
    primary key (attachment_id, key, generation)
);
