-- Documents: texts that agents and people search, by words and by meaning.
--
-- A document is searched by its words as soon as it is stored.  A run of the kind `embedding` cuts it into chunks and,
-- where the worker has an embedder, embeds them.  Each tenant has a queue of such runs, with a limit; documents beyond it
-- wait and are queued as runs end.

create table agent.document (
    tenant          text collate "C" not null default agent.current_tenant() references agent.tenant,
    id              uuid not null default gen_random_uuid(),
    title           text not null check (length(title) between 1 and 1000),
    body            text not null check (octet_length(body) <= 1048576),
    source          text not null default '' check (length(source) <= 2000),
    metadata        jsonb not null default '{}' check (jsonb_typeof(metadata) = 'object'),
    version         integer not null default 1,
    queued_version  integer,
    indexed_version integer,
    created_by      name not null default agent.current_principal(),
    created_at      timestamptz not null default now(),
    updated_at      timestamptz not null default now(),
    search          tsvector not null generated always as (
                        setweight(to_tsvector('english', title), 'A') || setweight(to_tsvector('english', left(body, 400000)), 'B')) stored,
    primary key (tenant, id)
);

create index document_search on agent.document using gin (search);

create index document_metadata on agent.document using gin (metadata jsonb_path_ops);

create index document_waiting on agent.document (tenant, created_at, id) where queued_version is distinct from version;

create table agent.document_chunk (
    tenant          text collate "C" not null,
    document_id     uuid not null,
    number          integer not null,
    version         integer not null,
    content         text not null,
    embedding       real[],
    embedding_model text,
    search          tsvector not null,
    primary key (tenant, document_id, number),
    foreign key (tenant, document_id) references agent.document on delete cascade,
    check ((embedding is null) = (embedding_model is null))
);

create index document_chunk_search on agent.document_chunk using gin (search);

create table agent.document_link (
    tenant     text collate "C" not null default agent.current_tenant(),
    from_id    uuid not null,
    to_id      uuid not null,
    relation   text not null check (relation in ('references', 'supersedes', 'part_of', 'summarizes', 'translates', 'related')),
    created_at timestamptz not null default now(),
    primary key (tenant, from_id, to_id, relation),
    foreign key (tenant, from_id) references agent.document on delete cascade,
    foreign key (tenant, to_id) references agent.document on delete cascade,
    check (from_id <> to_id)
);

create index document_link_to on agent.document_link (tenant, to_id);

create table agent.embedding_setting (
    tenant        text collate "C" primary key default agent.current_tenant() references agent.tenant on delete cascade,
    auto_enqueue  boolean not null default true,
    max_queue     integer not null default 1000 check (max_queue between 1 and 100000),
    chunk_chars   integer not null default 2000 check (chunk_chars between 100 and 8000),
    overlap_chars integer not null default 200 check (overlap_chars between 0 and 2000),
    check (overlap_chars * 4 <= chunk_chars)
);
