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
comment on table agent.tool is 'Tools by name; a plain SQL function needs no row';
comment on column agent.tool.target is 'sql: a function; python: module:function; mcp: server.tool; builtin: its name';
comment on column agent.tool.fingerprint is 'mcp: digest of the name, description and schema that a person has accepted';
comment on column agent.tool.effect is 'read: changes nothing; transactional: commits with its step; idempotent: acts outside the database and can be repeated with its key; unsafe: acts outside the database, at most once';
comment on column agent.tool.bind is 'Arguments set from the change, {"argument": "column"}; the model does not see them';
comment on column agent.tool.name is 'Name that attachments and models use';
comment on column agent.tool.kind is 'sql, python, mcp or builtin';
comment on column agent.tool.description is 'Shown to the model; empty for sql: the comment of the function';
comment on column agent.tool.input_schema is 'JSON Schema of the arguments; NULL: derived from the function';
comment on column agent.tool.risk is 'A label without effect';
comment on column agent.tool.approval is 'Whether every call requires an approval';
comment on column agent.tool.timeout_seconds is 'Maximum duration of one call, in seconds';
comment on column agent.tool.enabled is 'Whether it can be attached';

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
comment on table agent.agent is 'Agents: a model with a prompt, tools and limits';
comment on column agent.agent.tool_choice is 'auto, required, or the name of the tool that must be called first';
comment on column agent.agent.examples is 'Examples for the model: [{"text": ..., "tool": ..., "arguments": {...}}]';
comment on column agent.agent.max_seconds is 'Maximum duration of one run in seconds, without waits for people and retries';
comment on column agent.agent.name is 'Name that attachments use';
comment on column agent.agent.version is 'Incremented by each change';
comment on column agent.agent.model is 'Model that it calls';
comment on column agent.agent.system_prompt is 'Instructions for the model';
comment on column agent.agent.tools is 'Tools that the model can call';
comment on column agent.agent.parameters is 'Sent with every call; overrides those of the model';
comment on column agent.agent.max_steps is 'Maximum number of replies of the model in one run';
comment on column agent.agent.max_tokens is 'Maximum tokens of one run; NULL: no limit';
comment on column agent.agent.max_cost is 'Maximum cost of one run in US dollars; NULL: no limit';
comment on column agent.agent.max_attempts is 'Maximum number of failed attempts of one run';
comment on column agent.agent.max_output_tokens is 'Maximum output tokens of one call; NULL: that of the model';
comment on column agent.agent.updated_at is 'Time of the last change';

-- The queue of an attachment has the ID of the attachment.  Intake inserts runs for attachments that are not yet
-- visible (their transaction waits for a standby) or no longer exist (they were detached later), so it must derive
-- the queue without a lookup.  One sequence numbers both, so that no other queue gets the ID.
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
comment on column agent.attachment.definition is 'The definition that runs use, frozen by a trigger; the reader receives it through the WAL';
comment on table agent.attachment is 'Attachments: an agent, a table, the changes it acts on, and the roles it acts as';
comment on column agent.attachment.condition is 'A boolean SQL expression over new and old; NULL: every change matches';
comment on column agent.attachment.server_filter is 'Whether the server filters by the condition before it sends a row; PostgreSQL then rejects changes of the columns that it reads';
comment on column agent.attachment.columns is 'Columns that the agent is shown; an update must change one of them. NULL: all';
comment on column agent.attachment.writes is 'Columns that the tool update_row can write';
comment on column agent.attachment.bind is 'Tool arguments set from the change: {"argument": "column"}';
comment on column agent.attachment.approve is 'Tools whose calls require an approval';
comment on column agent.attachment.run_as is 'Role that SQL tools run as, never that of the daemon';
comment on column agent.attachment.query_as is 'Read-only role that the tool query runs as; NULL: walagent_analyst';
comment on column agent.attachment.search_path is 'search_path of the condition, of tool names and of tool bodies: that of the role that attached';
comment on column agent.attachment.ordering_key is 'Runs with equal values in these columns are executed one at a time, in commit order. NULL: the primary key; empty: no order';
comment on column agent.attachment.cap is 'Maximum number of concurrent runs; NULL: as many as the workers have slots';
comment on column agent.attachment.max_depth is 'Maximum number of agents'' writes in the chain that caused a change; 0: only changes of people and applications';
comment on column agent.attachment.paused is 'Whether no run starts; changes are still ingested';
comment on column agent.attachment.id is 'Attachment ID; also that of its queue';
comment on column agent.attachment.name is 'Name in commands and logs';
comment on column agent.attachment.agent is 'Agent that acts';
comment on column agent.attachment.relation is 'Table whose changes it acts on';
comment on column agent.attachment.ops is 'Operations that it acts on: insert, update, delete, truncate';
comment on column agent.attachment.debounce is 'Changes with one ordering key within this time become one run';
comment on column agent.attachment.backfill is 'Whether rows that existed at the attach get runs';
comment on column agent.attachment.approval_ttl is 'Time after which a pending approval expires';
comment on column agent.attachment.paused_reason is 'Why it is paused';
comment on column agent.attachment.version is 'Incremented by each change of the definition';
comment on column agent.attachment.attached_by is 'Role that attached it';
comment on column agent.attachment.attached_at is 'Time of the attach';
comment on column agent.attachment.source is 'file: managed by walagent apply; sql: by SQL';

-- The frozen definitions that runs are pinned to.  A version never changes; only its positions, between which
-- commits it was in effect, are set later, by the reader.
create table agent.attachment_version (
    attachment_id bigint not null,
    version       integer not null,
    definition    jsonb not null,
    active_from   pg_lsn,
    active_until  pg_lsn,
    made_at       timestamptz not null default now(),
    primary key (attachment_id, version)
);
comment on table agent.attachment_version is 'Frozen definitions of attachments, with agent and tools, by version';
comment on column agent.attachment_version.active_from is 'Commit LSN of the transaction that created it; it applies to changes that commit later';
comment on column agent.attachment_version.attachment_id is 'Attachment, which may have been removed';
comment on column agent.attachment_version.version is 'Number of the version';
comment on column agent.attachment_version.definition is 'Attachment, agent and tools as runs use them';
comment on column agent.attachment_version.active_until is 'Commit LSN of the transaction that ended it; NULL: not ended';
comment on column agent.attachment_version.made_at is 'Time of creation';

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
comment on table agent.backfill is 'Backfills: runs for the rows that existed at the attach, or at the end of a gap';
comment on column agent.backfill.generation is '0: at the attach; otherwise the generation of the slot after a gap';
comment on column agent.backfill.attachment_id is 'Attachment whose rows it reads';
comment on column agent.backfill.version is 'Version that its runs are pinned to';
comment on column agent.backfill.state is 'pending, running, done, failed, or replaced by a later one';
comment on column agent.backfill.cursor is 'Primary key of the last row read';
comment on column agent.backfill.rows_total is 'Estimated number of rows; exact when done';
comment on column agent.backfill.rows_done is 'Number of rows read';
comment on column agent.backfill.runs is 'Number of runs inserted';
comment on column agent.backfill.error is 'Why it failed';
comment on column agent.backfill.started_at is 'Time of the start';
comment on column agent.backfill.finished_at is 'Time of the end';

-- Rows that a backfill in progress must skip: those inserted since it was requested, which the stream has, and
-- for older backfills those that the end of a gap has processed.
create table agent_internal.backfill_seen (
    attachment_id bigint not null,
    generation    integer not null default 0,
    key           text not null,
    primary key (attachment_id, key, generation)
);
comment on table agent_internal.backfill_seen is 'Rows that a backfill in progress skips, because they have runs already';
