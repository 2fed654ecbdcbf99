-- Questions that people put to their database: see docs/decisions/0015.

create table agent.session (
    id       text primary key check (id <> '' and length(id) <= 200),
    owner    name not null default session_user,
    made_at  timestamptz not null default agent.now(),
    asked_at timestamptz not null default agent.now()
);
comment on table agent.session is 'A conversation about the database: questions that know of those before them';
comment on column agent.session.owner is 'The login that began it; nobody else may go on with it';

create table agent.question (
    id         bigint primary key generated always as identity,
    session_id text not null references agent.session on delete cascade,
    text       text not null check (text <> '' and length(text) <= 20000),
    options    jsonb not null default '{}',
    asked_at   timestamptz not null default agent.now(),
    run_id     bigint unique references agent.run on delete set null,
    answer     jsonb
);
create index question_of_session on agent.question (session_id, id);
comment on table agent.question is 'A question in plain words; its run has the plan, the statements and their results as steps';
comment on column agent.question.answer is '{"status", "text", "sql", "assumptions", "caveats"}, once it is there; kept when the run is pruned';

alter table agent.run alter column attachment_id drop not null;
alter table agent.run add constraint only_questions_have_no_attachment
    check ((attachment_id is null) = (reason = 'question'));
create or replace function agent.fits_reason(_reason text, _commit_lsn pg_lsn, _ordinal integer, _backfill_key text)
    returns boolean
    language plpgsql
    immutable
as $$
begin
    return case _reason
        when 'change' then _commit_lsn is not null and _ordinal is not null
        when 'backfill' then _backfill_key is not null
        else _reason in ('manual', 'question')
    end;
end;
$$;

-- Ask, and begin to work on it: whoever asks holds the run.
--
-- Raises WA003 when the session is somebody else's.
create function agent.begin_question(_session text, _text text, _options jsonb, _worker text, _lease interval)
    returns table (run_id bigint, lease bigint)
    language plpgsql
as $$
#variable_conflict use_column
declare
    _run bigint;
begin
    insert into agent.session as s (id) values (_session)
    on conflict (id) do update set asked_at = agent.now() where s.owner = session_user;
    if not found then
        raise exception 'session "%" belongs to somebody else', _session using errcode = 'WA003';
    end if;
    insert into agent.run (reason, attachment_version, change, max_attempts, state, worker, lease, attempt,
                           lease_expires_at, started_at)
    values ('question', 0, '{}', 100, 'running', _worker, 1, 1, agent.now() + _lease, agent.now())
    returning id into _run;
    insert into agent.question (session_id, text, options, run_id) values (_session, _text, _options, _run);
    return query select _run, 1::bigint;
end;
$$;
comment on function agent.begin_question(text, text, jsonb, text, interval) is 'Ask a question in a session, and hold its run';

-- Go on with the question of a session that was not finished; no row when there is none, or when
-- somebody is working on it.
create function agent.resume_question(_session text, _worker text, _lease interval)
    returns table (run_id bigint, lease bigint, text text, options jsonb)
    language plpgsql
as $$
#variable_conflict use_column
declare
    _run bigint;
begin
    select r.id into _run
      from agent.question q
           join agent.session s on s.id = q.session_id
           join agent.run r on r.id = q.run_id
     where q.session_id = _session and s.owner = session_user
       and (r.state in ('pending', 'waiting_retry') or r.state = 'running' and r.lease_expires_at < agent.now())
     order by q.id desc limit 1
       for no key update of r skip locked;
    if _run is null then
        return;
    end if;
    update agent.run set state = 'pending', next_attempt_at = null where id = _run and state = 'waiting_retry';
    update agent.run
       set state = 'running', worker = _worker, lease = lease + 1, attempt = attempt + 1,
           lease_expires_at = agent.now() + _lease
     where id = _run;
    return query
        select r.id, r.lease, q.text, q.options from agent.run r join agent.question q on q.run_id = r.id where r.id = _run;
end;
$$;
comment on function agent.resume_question(text, text, interval) is 'Go on with a question whose process is gone';

create table agent.verified_query (
    id       bigint primary key generated always as identity,
    owner    name not null default session_user,
    question text not null check (question <> ''),
    sql      text not null check (sql <> ''),
    words    tsvector generated always as (to_tsvector('simple', question)) stored,
    saved_at timestamptz not null default agent.now(),
    constraint one_statement_for_a_question unique (owner, question)
);
create index verified_query_words on agent.verified_query using gin (words);
comment on table agent.verified_query is 'Questions whose statement a person has found right; they are examples for the planner';

create table agent.glossary (
    owner   name not null default session_user,
    term    text not null check (term <> ''),
    meaning text not null check (meaning <> ''),
    primary key (owner, term)
);
comment on table agent.glossary is 'What words mean in this business: churned is no invoice for 90 days';

-- What a role may read of the schema, so that not each question reads the catalog.  It belongs to the
-- login that read it: whoever could write what another login's model is told could make it ask for
-- anything.
create table agent.schema_index (
    owner       name not null default session_user,
    role        name not null,
    fingerprint text not null,
    read_at     timestamptz not null default agent.now(),
    primary key (owner, role)
);
comment on table agent.schema_index is 'The schema as a role may read it; read anew when its fingerprint changes, and once a day';
comment on column agent.schema_index.role is 'With whose rights it was read: the analyst';
comment on column agent.schema_index.fingerprint is 'Of the rows of the catalog it was made of, and of the settings';

create table agent.schema_table (
    owner       name not null default session_user,
    role        name not null,
    name        text not null,
    description jsonb not null,
    primary key (owner, role, name),
    foreign key (owner, role) references agent.schema_index on delete cascade
);
comment on table agent.schema_table is 'A table or view of the application, as questions know it';
comment on column agent.schema_table.description is 'Columns, keys, comments, enum and CHECK values, and common values of columns that may be shown';

-- At the end, so that it holds for what this file makes, too.
revoke all on all tables in schema agent from public;
revoke all on all functions in schema agent from public;
