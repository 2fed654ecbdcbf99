-- Tools, agents and attachments: the tables.

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
