-- Memory: what an agent keeps between its runs, and the built-in tools that work inside the database.
--
-- A memory belongs to an agent of a tenant.  With a thread, it is recalled only there.  A key has one live value in each
-- (agent, kind, thread, principal): another value supersedes it, an equal one is merged with it.  What an agent stores is
-- `untrusted`, because a model derived it from what others wrote; it never replaces what a person stored.
--
-- SQLSTATE: WA024 memories and documents.

create table agent.memory (
    tenant          text collate "C" not null default agent.current_tenant() references agent.tenant,
    id              uuid not null default gen_random_uuid(),
    agent           name not null check (agent <> ''),
    kind            text not null default 'semantic'
                        check (kind in ('conversation', 'working', 'episodic', 'semantic', 'procedural')),
    key             text check (length(key) between 1 and 200),
    value           jsonb not null check (octet_length(value::text) <= 65536),
    thread_id       uuid,
    principal       name,
    importance      double precision not null default 0.5 check (importance between 0 and 1),
    trust           text not null default 'untrusted' check (trust in ('trusted', 'untrusted')),
    disputed        boolean not null default false,
    expires_at      timestamptz,
    run_id          bigint,
    event_id        uuid,
    created_by      name not null default agent.current_principal(),
    created_at      timestamptz not null default clock_timestamp(),
    access_count    bigint not null default 0,
    accessed_at     timestamptz,
    superseded_by   uuid,
    retracted_at    timestamptz,
    embedding       real[],
    embedding_model text,
    search          tsvector not null generated always as (
                        setweight(to_tsvector('english', coalesce(key, '')), 'A')
                        || setweight(to_tsvector('english', value #>> '{}'), 'B')) stored,
    primary key (tenant, id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, principal) references agent.principal on delete cascade,
    foreign key (tenant, event_id) references agent.event (tenant, id) on delete set null (event_id),
    -- Deferred: the memory that replaces another is inserted after the update, because a key is unique.
    foreign key (tenant, superseded_by) references agent.memory on delete cascade deferrable initially deferred,
    check ((embedding is null) = (embedding_model is null))
);

create unique index memory_key on agent.memory (tenant, agent, kind, key, thread_id, principal) nulls not distinct
    where key is not null and superseded_by is null and retracted_at is null;

create index memory_value on agent.memory (tenant, agent, jsonb_hash_extended(value, 0));

create index memory_search on agent.memory using gin (search);

create index memory_thread on agent.memory (tenant, thread_id) where thread_id is not null;

create index memory_principal on agent.memory (tenant, principal) where principal is not null;

create index memory_event on agent.memory (tenant, event_id) where event_id is not null;

create index memory_superseded on agent.memory (tenant, superseded_by) where superseded_by is not null;

create index memory_expiring on agent.memory (expires_at) where expires_at is not null;

create table agent_internal.memory_lock (
    tenant text collate "C",
    agent  name,
    primary key (tenant, agent)
);
