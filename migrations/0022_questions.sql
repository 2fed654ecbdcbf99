-- Questions that people ask of their database, and what the planner is shown for them.
--
-- A question is a run in the queue of its session.  The login that asked it claims that run and holds it, as a
-- worker does an agent's, but is not trusted with other runs: agent_internal.fence() checks whose it is, and row
-- level security shows each login its own rows.  See agent.grant_asker().

create table agent.session (
    id           text primary key check (id <> '' and length(id) <= 200),
    owner        name not null default agent.current_principal(),
    made_at      timestamptz not null default agent_internal.now(),
    asked_at     timestamptz not null default agent_internal.now(),
    summary      text,
    summary_upto bigint,
    constraint a_summary_is_of_something check (num_nonnulls(summary, summary_upto) in (0, 2))
);
comment on table agent.session is 'Sessions: conversations about the database; a question can refer to earlier ones';
comment on column agent.session.owner is 'Login that began it; only this login can read or continue it';
comment on column agent.session.summary is 'Summary of the earlier questions, if they are too long for a prompt';
comment on column agent.session.summary_upto is 'Last question that the summary covers';
comment on column agent.session.id is 'Name of the session';
comment on column agent.session.made_at is 'Time of creation';
comment on column agent.session.asked_at is 'Time of the last question';

alter table agent_internal.queue add foreign key (session_id) references agent.session on delete cascade;

create table agent.question (
    id         bigint primary key generated always as identity,
    session_id text not null references agent.session on delete cascade,
    text       text not null check (text <> '' and length(text) <= 20000),
    options    jsonb not null default '{}',
    asked_at   timestamptz not null default agent_internal.now(),
    run_id     bigint unique references agent.run on delete set null,
    answer     jsonb
);
create index question_of_session on agent.question (session_id, id);
create index question_unanswered on agent.question (asked_at) where answer is null and run_id is not null;
comment on table agent.question is 'Questions in natural language; the run has plan, statements and results as steps';
comment on column agent.question.answer is '{"status", "text", "sql", "assumptions", "caveats"}; NULL: not answered yet. Kept when the run is removed';
comment on column agent.question.id is 'Question ID';
comment on column agent.question.session_id is 'Session that it belongs to';
comment on column agent.question.text is 'The question';
comment on column agent.question.options is 'Options of the command that asked';
comment on column agent.question.asked_at is 'Time of the question';
comment on column agent.question.run_id is 'Run that answers it; NULL: removed';

-- Ask a question in a session: insert a run that the caller can claim.
--
-- Returns the run and its queue, for agent_internal.claim_runs().  Raises WA003 if the session belongs to another
-- login.
create function agent_internal.ask(_session text, _question text, _options jsonb default '{}')
    returns table (run_id bigint, queue_id bigint, question_id bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _queue bigint;
    _run   bigint;
    _id    bigint;
begin
    perform agent_internal.end_abandoned_questions();
    insert into agent.session as s (id) values (_session)
    on conflict (id) do update set asked_at = agent_internal.now() where s.owner = agent.current_principal();
    if not found then
        raise exception 'session "%" belongs to another role', _session using errcode = 'WA003';
    end if;
    insert into agent_internal.queue as q (kind, session_id) values ('question', _session)
    on conflict (session_id) do update set queued = true
    returning q.id into _queue;
    insert into agent.run (kind, reason, queue_id, principal, change, max_attempts)
    values ('question', 'question', _queue, agent.current_principal(), '{}', 100)
    returning id into _run;
    insert into agent.question (session_id, text, options, run_id) values (_session, _question, _options, _run)
    returning id into _id;
    return query select _run, _queue, _id;
end;
$$;
comment on function agent_internal.ask(text, text, jsonb) is 'Ask a question in a session of the caller';

-- Release questions whose process has died, and end those that were not continued for a week, so that they can be
-- removed.  A database can have no worker that does it.
create function agent_internal.end_abandoned_questions()
    returns void
    language plpgsql
as $$
begin
    if agent_internal.expire_leases('question') <> '{}' then
        perform agent_internal.release_lost();
    end if;
    with left_alone as (
        select r.id
          from agent.question q join agent.run r on r.id = q.run_id
         where q.answer is null and q.run_id is not null and q.asked_at < agent_internal.now() - interval '7 days'
           and r.state in ('pending', 'waiting_retry')
         order by r.id limit 100
           for no key update of r skip locked
    )
    update agent.run r
       set state = 'cancelled', next_attempt_at = null, finished_at = agent_internal.now(),
           error = jsonb_build_object('reason', 'session was not continued for 7 days')
      from left_alone l where r.id = l.id;
end;
$$;
comment on function agent_internal.end_abandoned_questions() is 'End questions that were not continued for a week';

-- Make the latest unfinished question of a session claimable.
--
-- Returns no row if there is none.  `run_id` is the run of the question, for agent_internal.claim_runs(); if it is
-- NULL, a process holds the question for `wait` seconds, unless it extends its lease.
create function agent_internal.resume_session(_session text)
    returns table (run_id bigint, queue_id bigint, wait double precision)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _queue bigint;
    _run   bigint;
begin
    select q.id into _queue
      from agent_internal.queue q join agent.session s on s.id = q.session_id
     where s.id = _session and s.owner = agent.current_principal();
    perform agent_internal.expire_leases('question', _queue) where _queue is not null;
    select r.id into _run
      from agent.question q join agent.run r on r.id = q.run_id
     where q.session_id = _session and r.queue_id = _queue and r.state in ('pending', 'waiting_retry')
     order by q.id desc limit 1
       for no key update of r skip locked;
    if found then
        update agent.run set state = 'pending', next_attempt_at = null where id = _run and state = 'waiting_retry';
        return query select _run, _queue, null::double precision;
        return;
    end if;
    return query
        select null::bigint, _queue, extract(epoch from max(r.lease_expires_at) - agent_internal.now())::double precision
          from agent.question q join agent.run r on r.id = q.run_id
         where q.session_id = _session and r.queue_id = _queue and r.state = 'running'
        having count(*) > 0;
end;
$$;
comment on function agent_internal.resume_session(text) is 'Make the unfinished question of a session of the caller claimable';

create table agent.verified_query (
    id       bigint primary key generated always as identity,
    owner    name not null default agent.current_principal(),
    question text not null check (question <> ''),
    sql      text not null check (sql <> ''),
    words    tsvector generated always as (to_tsvector('simple', question)) stored,
    saved_at timestamptz not null default agent_internal.now(),
    constraint one_statement_for_a_question unique (owner, question)
);
create index verified_query_words on agent.verified_query using gin (words);
comment on table agent.verified_query is 'Questions with a statement that a person has verified; examples for the planner';
comment on column agent.verified_query.owner is 'Role that can change it; used for questions of this role and its members';
comment on column agent.verified_query.id is 'Example ID';
comment on column agent.verified_query.question is 'The question';
comment on column agent.verified_query.sql is 'Statement that answers it';
comment on column agent.verified_query.words is 'Words of the question, for the search';
comment on column agent.verified_query.saved_at is 'Time of the last save';

create table agent.glossary (
    owner   name not null default agent.current_principal(),
    term    text not null check (term <> ''),
    meaning text not null check (meaning <> ''),
    primary key (owner, term)
);
comment on table agent.glossary is 'Terms of the business with their meaning, for the planner: churned: no invoice for 90 days';
comment on column agent.glossary.owner is 'Role that can change it; used for questions of this role and its members';
comment on column agent.glossary.term is 'The term';
comment on column agent.glossary.meaning is 'What it means in this database';

-- What a role can read of the schema, so that a question need not read the catalog.  It belongs to the login that read
-- it: a role that could write what the model of another login is shown could make it execute anything.
create table agent_internal.schema_index (
    owner       name not null default agent.current_principal(),
    role        name not null,
    fingerprint text not null,
    read_at     timestamptz not null default agent_internal.now(),
    primary key (owner, role)
);
comment on table agent_internal.schema_index is 'The application''s schema as a role can read it; read again when the fingerprint changes, and daily';
comment on column agent_internal.schema_index.role is 'Role that it was read as: the analyst';
comment on column agent_internal.schema_index.fingerprint is 'Digest of the catalog rows and settings that it was made from';

create table agent_internal.schema_table (
    owner       name not null default agent.current_principal(),
    role        name not null,
    name        text not null,
    description jsonb not null,
    vector      real[],
    vector_of   text,
    primary key (owner, role, name),
    foreign key (owner, role) references agent_internal.schema_index on delete cascade
);
comment on table agent_internal.schema_table is 'Tables and views of the application, as described to the planner';
comment on column agent_internal.schema_table.vector is 'Embedding of the description; with ask.vectors';
comment on column agent_internal.schema_table.vector_of is 'Digest of the text that the vector was made from';
comment on column agent_internal.schema_table.description is 'Columns, keys, comments, enum and CHECK values, and common values of columns that can be shown';

-- Whether the login is this role or a member of it; a superuser is not implicitly a member.
create function agent_internal.is_member_of(_role name)
    returns boolean
    language sql
    stable
as $$
    with recursive me (oid) as (
        select oid from pg_catalog.pg_roles where rolname = agent.current_principal()
         union
        select m.roleid from me join pg_catalog.pg_auth_members m on m.member = me.oid
    )
    select exists (select from me join pg_catalog.pg_roles r using (oid) where r.rolname = _role)
$$;
comment on function agent_internal.is_member_of(name) is 'Whether the login is this role or a member of it';

-- Each login has sessions and an index of its own, and sees its own verified queries and glossary terms and those of
-- the roles that it is a member of, such as the analyst.
alter table agent.session enable row level security;
alter table agent.question enable row level security;
alter table agent.verified_query enable row level security;
alter table agent.glossary enable row level security;
alter table agent_internal.schema_index enable row level security;
alter table agent_internal.schema_table enable row level security;
create policy of_its_owner on agent.session using (owner = agent.current_principal()) with check (owner = agent.current_principal());
create policy of_its_session on agent.question
    using (exists (select from agent.session s where s.id = session_id and s.owner = agent.current_principal()));
create policy of_its_owner on agent.verified_query using (owner = agent.current_principal()) with check (owner = agent.current_principal());
create policy of_its_members on agent.verified_query for select using (agent_internal.is_member_of(owner));
create policy of_its_owner on agent.glossary using (owner = agent.current_principal()) with check (owner = agent.current_principal());
create policy of_its_members on agent.glossary for select using (agent_internal.is_member_of(owner));
create policy of_its_owner on agent_internal.schema_index using (owner = agent.current_principal()) with check (owner = agent.current_principal());
create policy of_its_owner on agent_internal.schema_table using (owner = agent.current_principal()) with check (owner = agent.current_principal());
