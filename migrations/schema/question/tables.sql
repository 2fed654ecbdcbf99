-- Questions that people ask of their database, and what the planner is shown for them.
--
-- A question is a run in the queue of its session.  The login that asked it claims that run and holds it, as a
-- worker does an agent's, but is not trusted with other runs: agent_internal.fence() checks whose it is, and row
-- level security shows each login its own rows.  See agent.grant_asker().

create table agent.session (
    id           text not null check (id <> '' and length(id) <= 200),
    owner        name not null default agent.current_principal(),
    made_at      timestamptz not null default agent_internal.now(),
    asked_at     timestamptz not null default agent_internal.now(),
    summary      text,
    summary_upto bigint,
    tenant       text collate "C" not null default agent.current_tenant() references agent.tenant,
    constraint a_summary_is_of_something check (num_nonnulls(summary, summary_upto) in (0, 2)),
    primary key (tenant, id)
);

create table agent.question (
    id         bigint primary key generated always as identity,
    session_id text not null,
    text       text not null check (text <> '' and length(text) <= 20000),
    options    jsonb not null default '{}',
    asked_at   timestamptz not null default agent_internal.now(),
    run_id     bigint unique,
    answer     jsonb,
    tenant     text collate "C" not null default agent.current_tenant(),
    foreign key (tenant, session_id) references agent.session on delete cascade,
    foreign key (run_id, tenant) references agent.run (id, tenant) on delete set null (run_id)
);

create index question_unanswered on agent.question (asked_at) where answer is null and run_id is not null;

create index question_of_session on agent.question (tenant, session_id, id);

create table agent.verified_query (
    id       bigint primary key generated always as identity,
    owner    name not null default agent.current_principal(),
    question text not null check (question <> ''),
    sql      text not null check (sql <> ''),
    words    tsvector generated always as (to_tsvector('simple', question)) stored,
    saved_at timestamptz not null default agent_internal.now(),
    tenant   text collate "C" not null default agent.current_tenant() references agent.tenant,
    constraint one_statement_for_a_question unique (tenant, owner, question)
);

create index verified_query_words on agent.verified_query using gin (words);

create table agent.glossary (
    owner   name not null default agent.current_principal(),
    term    text not null check (term <> ''),
    meaning text not null check (meaning <> ''),
    tenant  text collate "C" not null default agent.current_tenant() references agent.tenant,
    primary key (tenant, owner, term)
);

-- What a role can read of the schema, so that a question need not read the catalog.  It belongs to the login that read
-- it: a role that could write what the model of another login is shown could make it execute anything.
create table agent_internal.schema_index (
    owner       name not null default agent.current_principal(),
    role        name not null,
    fingerprint text not null,
    read_at     timestamptz not null default agent_internal.now(),
    tenant      text collate "C" not null default agent.current_tenant() references agent.tenant,
    primary key (tenant, owner, role)
);

create table agent_internal.schema_table (
    owner       name not null default agent.current_principal(),
    role        name not null,
    name        text not null,
    description jsonb not null,
    vector      real[],
    vector_of   text,
    tenant      text collate "C" not null default agent.current_tenant(),
    primary key (tenant, owner, role, name),
    foreign key (tenant, owner, role) references agent_internal.schema_index on delete cascade
);
