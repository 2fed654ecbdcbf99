-- Questions that people put to their database: see docs/decisions/0015.
--
-- Whoever asks holds the run of the question, but need not be trusted with runs: what a login that
-- asks does here goes through functions that look whose question it is, and of the tables it sees its
-- own rows.  See agent.grant_asker().

create table agent.session (
    id           text primary key check (id <> '' and length(id) <= 200),
    owner        name not null default session_user,
    made_at      timestamptz not null default agent_internal.now(),
    asked_at     timestamptz not null default agent_internal.now(),
    summary      text,
    summary_upto bigint,
    constraint a_summary_is_of_something check (num_nonnulls(summary, summary_upto) in (0, 2))
);
comment on table agent.session is 'A conversation about the database: questions that know of those before them';
comment on column agent.session.owner is 'The login that began it; nobody else may read it or go on with it';
comment on column agent.session.summary is 'What was asked and found so far, where that is too long to be told as it was';
comment on column agent.session.summary_upto is 'The last question that the summary is about';

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

alter table agent.run alter column attachment_id drop not null;
alter table agent.run add constraint only_questions_have_no_attachment
    check ((attachment_id is null) = (reason = 'question'));
create or replace function agent_internal.fits_reason(_reason text, _commit_lsn pg_lsn, _ordinal integer, _backfill_key text)
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

-- Give back what questions hold whose process is gone, and end those that nobody went on with for a
-- week, so that they can be pruned.  Nobody else may be there to see to it.
create function agent_internal.release_abandoned_questions()
    returns void
    language plpgsql
as $$
begin
    with lost as (
        select id from agent.run
         where state = 'running' and lease_expires_at < agent_internal.now() and reason = 'question' and not cancel_requested
         order by id for no key update skip locked
    )
    update agent.run r set state = 'pending', lease_expires_at = null from lost where r.id = lost.id;
    if found then
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

-- Raises 42501 unless a run answers a question of this login.
create function agent_internal.check_asker(_run_id bigint)
    returns void
    language plpgsql
    stable
as $$
begin
    if not exists (select from agent.question q join agent.session s on s.id = q.session_id
                    where q.run_id = _run_id and s.owner = session_user) then
        raise exception 'run % answers no question of %', _run_id, session_user using errcode = 'insufficient_privilege';
    end if;
end;
$$;

-- Ask, and begin to work on it: whoever asks holds the run.
--
-- Raises WA003 when the session is somebody else's.
create function agent_internal.begin_question(_session text, _text text, _options jsonb, _worker text, _lease interval)
    returns table (run_id bigint, lease bigint, question_id bigint)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _run      bigint;
    _question bigint;
begin
    perform agent_internal.release_abandoned_questions();
    insert into agent.session as s (id) values (_session)
    on conflict (id) do update set asked_at = agent_internal.now() where s.owner = session_user;
    if not found then
        raise exception 'session "%" belongs to somebody else', _session using errcode = 'WA003';
    end if;
    insert into agent.run (reason, attachment_version, change, max_attempts, state, worker, lease, attempt,
                           lease_expires_at, started_at)
    values ('question', 0, '{}', 100, 'running', _worker, 1, 1, agent_internal.now() + _lease, agent_internal.now())
    returning id into _run;
    insert into agent.question (session_id, text, options, run_id) values (_session, _text, _options, _run)
    returning id into _question;
    return query select _run, 1::bigint, _question;
end;
$$;
comment on function agent_internal.begin_question(text, text, jsonb, text, interval) is 'Ask a question in a session, and hold its run';

-- Go on with the question of a session that was not finished; no row when there is none, or when
-- somebody is working on it.
create function agent_internal.resume_question(_session text, _worker text, _lease interval)
    returns table (run_id bigint, lease bigint, question_id bigint, text text, options jsonb)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
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
       and (r.state in ('pending', 'waiting_retry') or r.state = 'running' and r.lease_expires_at < agent_internal.now())
     order by q.id desc limit 1
       for no key update of r skip locked;
    if _run is null then
        return;
    end if;
    update agent.run set state = 'pending', next_attempt_at = null where id = _run and state = 'waiting_retry';
    update agent.run
       set state = 'running', worker = _worker, lease = lease + 1, attempt = attempt + 1,
           lease_expires_at = agent_internal.now() + _lease
     where id = _run;
    return query
        select r.id, r.lease, q.id, q.text, q.options from agent.run r join agent.question q on q.run_id = r.id where r.id = _run;
end;
$$;
comment on function agent_internal.resume_question(text, text, interval) is 'Go on with a question whose process is gone';

-- Returns: seconds after which nobody works on a question of the session any more, unless its process says that it
-- does; NULL: nobody does.
create function agent_internal.question_under_way(_session text) returns double precision
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select extract(epoch from max(r.lease_expires_at) - agent_internal.now())
      from agent.question q
           join agent.session s on s.id = q.session_id
           join agent.run r on r.id = q.run_id
     where q.session_id = _session and s.owner = session_user and r.state = 'running';
$$;
comment on function agent_internal.question_under_way(text) is 'For how long a question of one''s own session is somebody''s at least';

create function agent_internal.question_run(
    _run_id bigint, out attempt integer, out max_attempts integer, out created_at timestamptz, out started_at timestamptz
)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform agent_internal.check_asker(_run_id);
    select r.attempt, r.max_attempts, r.created_at, r.started_at into attempt, max_attempts, created_at, started_at
      from agent.run r where r.id = _run_id;
end;
$$;
comment on function agent_internal.question_run(bigint) is 'The run of a question of one''s own';

create function agent_internal.question_steps(_run_id bigint)
    returns table (seq integer, kind text, content jsonb, tokens integer, cost double precision)
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform agent_internal.check_asker(_run_id);
    return query
        select s.seq, s.kind, s.content,
               coalesce(s.input_tokens + s.cached_tokens + s.cache_write_tokens + s.output_tokens, 0), s.cost::float8
          from agent.step s where s.run_id = _run_id order by s.seq;
end;
$$;
comment on function agent_internal.question_steps(bigint) is 'What was recorded for a question of one''s own';

-- Say that the question is still being worked on; false: it is cancelled, or another process has it.
create function agent_internal.hold_question(_run_id bigint, _lease bigint, _worker text, _lease_for interval)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_asker(_run_id);
    return not exists (select from agent_internal.heartbeat(_worker, array[_run_id], array[_lease], _lease_for));
end;
$$;
comment on function agent_internal.hold_question(bigint, bigint, text, interval) is 'Extend the lease of a question of one''s own';

-- Reserve what a model call for a question can take at most, in the budgets that count it.
--
-- Returns: call: for agent_internal.record_question_step(); refusal: as of agent_internal.reserve().
-- Raises WA001, WA002 as agent_internal.fence does.
create function agent_internal.reserve_for_question(
    _run_id bigint, _lease bigint, _model text, _tokens bigint, _cost numeric, out call integer, out refusal jsonb
)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_asker(_run_id);
    perform agent_internal.fence(_run_id, _lease);  -- so that calls that go side by side get numbers of their own
    select coalesce(max(s.seq) + 1, 0) into call from agent.spend s where s.run_id = _run_id;
    refusal := agent_internal.reserve(_run_id, _lease, call, '', '', _model, _tokens, _cost, session_user);
end;
$$;
comment on function agent_internal.reserve_for_question(bigint, bigint, text, bigint, numeric) is 'Reserve the worst case of a model call for a question of one''s own';

-- Record a step, and settle what its call has reserved, where it was one.
--
-- Raises as agent_internal.record_step does.
create function agent_internal.record_question_step(
    _run_id bigint, _lease bigint, _seq integer, _kind text, _content jsonb, _usage integer[], _cost numeric,
    _duration_ms integer, _call integer
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_asker(_run_id);
    perform agent_internal.record_step(_run_id, _lease, _seq, _kind, _content, _usage, _cost, _duration_ms);
    if _call is not null then
        perform agent_internal.settle(_run_id, _usage, _cost, _call);
    end if;
end;
$$;
comment on function agent_internal.record_question_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer, integer) is 'Record a step of a question of one''s own';

-- Let a question wait: for its session to go on, or, with the refusal of a budget, for that.
create function agent_internal.park_question(
    _run_id bigint, _lease bigint, _error jsonb, _refusal jsonb, _tokens bigint, _cost numeric
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_asker(_run_id);
    if _refusal is not null then
        perform agent_internal.wait_for_budget(_run_id, _lease, _refusal, _tokens, _cost);
    else
        perform agent_internal.park_run(_run_id, _lease, 'waiting_retry', interval '0', true, _error, _tokens, _cost);
    end if;
    perform agent_internal.release(_run_id);
end;
$$;
comment on function agent_internal.park_question(bigint, bigint, jsonb, jsonb, bigint, numeric) is 'Let a question of one''s own wait';

create function agent_internal.end_question(
    _run_id bigint, _lease bigint, _state agent.run_state, _result text, _error jsonb, _tokens bigint, _cost numeric, _answer jsonb
)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_asker(_run_id);
    perform agent_internal.finish_run(_run_id, _lease, _state, _result, _error, _tokens, _cost, true);
    update agent.question set answer = _answer where run_id = _run_id and _answer is not null;
end;
$$;
comment on function agent_internal.end_question(bigint, bigint, agent.run_state, text, jsonb, bigint, numeric, jsonb) is 'End the run of a question of one''s own, and keep its answer';

create table agent.verified_query (
    id       bigint primary key generated always as identity,
    owner    name not null default session_user,
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
    owner   name not null default session_user,
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
    owner       name not null default session_user,
    role        name not null,
    fingerprint text not null,
    read_at     timestamptz not null default agent_internal.now(),
    primary key (owner, role)
);
comment on table agent_internal.schema_index is 'The schema as a role may read it; read anew when its fingerprint changes, and once a day';
comment on column agent_internal.schema_index.role is 'With whose rights it was read: the analyst';
comment on column agent_internal.schema_index.fingerprint is 'Of the rows of the catalog it was made of, and of the settings';

create table agent_internal.schema_table (
    owner       name not null default session_user,
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
        select oid from pg_catalog.pg_roles where rolname = session_user
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
create policy of_its_owner on agent.session using (owner = session_user) with check (owner = session_user);
create policy of_its_session on agent.question
    using (exists (select from agent.session s where s.id = session_id and s.owner = session_user));
create policy of_its_owner on agent.verified_query using (owner = session_user) with check (owner = session_user);
create policy of_its_members on agent.verified_query for select using (agent_internal.is_member_of(owner));
create policy of_its_owner on agent.glossary using (owner = session_user) with check (owner = session_user);
create policy of_its_members on agent.glossary for select using (agent_internal.is_member_of(owner));
create policy of_its_owner on agent_internal.schema_index using (owner = session_user) with check (owner = session_user);
create policy of_its_owner on agent_internal.schema_table using (owner = session_user) with check (owner = session_user);

-- A login that asks, and does nothing else: it sees no run, no step and no approval but through the
-- functions above, and of those what belongs to its own questions.
create function agent.grant_asker(role name)
    returns void
    language plpgsql
as $$
begin
    execute format('grant usage on schema agent, agent_internal to %I', role);
    execute format('grant select on agent.model, agent.session, agent.question to %I', role);
    execute format('grant update (summary, summary_upto) on agent.session to %I', role);
    execute format('grant select, insert, update, delete on agent.verified_query, agent.glossary, agent_internal.schema_index, '
        'agent_internal.schema_table to %I', role);
    execute format('grant execute on function agent_internal.now(), agent_internal.is_member_of(name), agent_internal.begin_question(text, text, jsonb, text, interval), '
        'agent_internal.resume_question(text, text, interval), agent_internal.question_under_way(text), '
        'agent_internal.question_run(bigint), agent_internal.question_steps(bigint), '
        'agent_internal.hold_question(bigint, bigint, text, interval), '
        'agent_internal.reserve_for_question(bigint, bigint, text, bigint, numeric), '
        'agent_internal.record_question_step(bigint, bigint, integer, text, jsonb, integer[], numeric, integer, integer), '
        'agent_internal.park_question(bigint, bigint, jsonb, jsonb, bigint, numeric), '
        'agent_internal.end_question(bigint, bigint, agent.run_state, text, jsonb, bigint, numeric, jsonb) to %I', role);
end;
$$;
comment on function agent.grant_asker(name) is 'Let a role ask questions (walagent ask, chat, the library), and see its own sessions';

-- At the end, so that it holds for what this file makes, too.
revoke all on all tables in schema agent, agent_internal from public;
revoke all on all functions in schema agent, agent_internal from public;
