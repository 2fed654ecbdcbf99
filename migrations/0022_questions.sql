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
comment on table agent.session is 'A conversation about the database: a question may refer to those before it';
comment on column agent.session.owner is 'Who began it; nobody else may read or continue it';
comment on column agent.session.summary is 'What was asked and found so far, where that is too long for a prompt';
comment on column agent.session.summary_upto is 'The last question that the summary is about';

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
comment on table agent.question is 'A question in plain words; its run has the plan, the statements and their results as steps';
comment on column agent.question.answer is '{"status", "text", "sql", "assumptions", "caveats"}, once it is there; kept when the run is pruned';

-- Ask a question in a session: a run that the caller can claim.
--
-- Returns the run and its queue, for agent_internal.claim_runs.  Raises WA003 when the session is somebody
-- else's.
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
        raise exception 'session "%" belongs to somebody else', _session using errcode = 'WA003';
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
comment on function agent_internal.ask(text, text, jsonb) is 'Ask a question in a session of one''s own';

-- Take back what questions hold whose process is gone, and end those that nobody continued for a week, so
-- that they can be pruned.  A server may have no worker that does it.
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
           error = jsonb_build_object('reason', 'nobody went on with its session for 7 days')
      from left_alone l where r.id = l.id;
end;
$$;
comment on function agent_internal.end_abandoned_questions() is 'End questions that nobody continued for a week';

-- Let the latest unfinished question of a session be claimed.
--
-- Returns no row when there is none.  `run_id` is that question's run, for agent_internal.claim_runs; or it is
-- NULL, and `wait` says for how many seconds a process holds the question, unless it extends its lease.
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
comment on function agent_internal.resume_session(text) is 'Let the unfinished question of a session of one''s own be claimed';

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
comment on table agent.verified_query is 'Questions whose statement a person has found right; they are examples for the planner';
comment on column agent.verified_query.owner is 'Who may change it; shown to questions of this role and of its members';

create table agent.glossary (
    owner   name not null default agent.current_principal(),
    term    text not null check (term <> ''),
    meaning text not null check (meaning <> ''),
    primary key (owner, term)
);
comment on table agent.glossary is 'What words mean in this business: churned is no invoice for 90 days';
comment on column agent.glossary.owner is 'Who may change it; told to questions of this role and of its members';

-- What a role may read of the schema, so that not each question reads the catalog.  It belongs to the
-- login that read it: whoever could write what another login's model is told could make it ask for
-- anything.
create table agent_internal.schema_index (
    owner       name not null default agent.current_principal(),
    role        name not null,
    fingerprint text not null,
    read_at     timestamptz not null default agent_internal.now(),
    primary key (owner, role)
);
comment on table agent_internal.schema_index is 'The schema as a role may read it; read anew when its fingerprint changes, and once a day';
comment on column agent_internal.schema_index.role is 'With whose rights it was read: the analyst';
comment on column agent_internal.schema_index.fingerprint is 'Of the rows of the catalog it was made of, and of the settings';

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
comment on table agent_internal.schema_table is 'A table or view of the application, as questions know it';
comment on column agent_internal.schema_table.vector is 'What it means, as the embedding model sees it; where ask.vectors is on';
comment on column agent_internal.schema_table.vector_of is 'Digest of the words that the vector was made of';
comment on column agent_internal.schema_table.description is 'Columns, keys, comments, enum and CHECK values, and common values of columns that may be shown';

-- Whether this login is a role, or a member of it; a superuser is no member of everything here.
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

-- Each login has sessions and an index of its own, also where several may ask, and sees the examples
-- and words of its own and of the roles that it is a member of: of the analyst, for instance.
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
