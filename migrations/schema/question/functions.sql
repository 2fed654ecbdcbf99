-- Release questions whose process has died, and end those that were not continued for a week, so that they can be
-- removed.  A database can have no worker that does it.
create or replace function agent_internal.end_abandoned_questions()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if agent_internal.expire_leases('question') then
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

-- Whether the login is this role or a member of it; a superuser is not implicitly a member.
create or replace function agent_internal.is_member_of(_role name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive me (oid) as (
        select oid from pg_catalog.pg_roles where rolname = agent.current_principal()
         union
        select m.roleid from me join pg_catalog.pg_auth_members m on m.member = me.oid
    )
    select exists (select from me join pg_catalog.pg_roles r using (oid) where r.rolname = _role)
$$;
comment on function agent_internal.is_member_of(name) is 'Whether the login is this role or a member of it';

-- Ask a question in a session: insert a run that the caller can claim.
--
-- An unfinished question of the session that no process holds is cancelled: it might be one that the provider never
-- answers.  Returns the run and its queue, for agent_internal.claim_runs().  Raises WA003 if the session belongs to
-- another login.
create or replace function agent_internal.ask(_session text, _question text, _options jsonb default '{}')
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
    if not agent.has_scope('post') then
        raise exception 'the token of the caller does not have scope post' using errcode = '42501';
    end if;
    perform agent_internal.check_queue();
    perform agent_internal.end_abandoned_questions();
    insert into agent.session as s (id) values (_session)
    on conflict (tenant, id) do update set asked_at = agent_internal.now() where s.owner = agent.current_principal();
    if not found then
        raise exception 'session "%" belongs to another role', _session using errcode = 'WA003';
    end if;
    insert into agent_internal.queue as q (kind, session_id) values ('question', _session)
    on conflict (tenant, session_id) do update set kind = q.kind
    returning q.id into _queue;
    with replaced as (
        select r.id
          from agent.question q join agent.run r on r.id = q.run_id
         where q.tenant = agent.current_tenant() and q.session_id = _session and q.answer is null and r.queue_id = _queue
           and r.state in ('pending', 'waiting_retry')
         order by r.id
           for no key update of r skip locked
    )
    update agent.run r
       set state = 'cancelled', next_attempt_at = null, finished_at = agent_internal.now(),
           error = jsonb_build_object('reason', 'replaced by another question of the session')
      from replaced p where r.id = p.id;
    insert into agent.run (kind, reason, queue_id, principal, change, max_attempts)
    values ('question', 'question', _queue, agent.current_principal(), '{}', 100)
    returning id into _run;
    insert into agent.question (session_id, text, options, run_id) values (_session, _question, _options, _run)
    returning id into _id;
    return query select _run, _queue, _id;
end;
$$;
comment on function agent_internal.ask(text, text, jsonb) is 'Ask a question in a session of the caller';

-- Delete a session of the caller: its questions, answers and runs with their steps and rows.
--
-- A process that holds one of its questions loses it.  Returns whether the caller has such a session.
create or replace function agent.delete_session(session text)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
begin
    perform 1 from agent.session s
      where s.tenant = agent.current_tenant() and s.id = delete_session.session and s.owner = agent.current_principal()
        for update;
    if not found then
        return false;
    end if;
    delete from agent.run r
     using agent.question q
     where q.tenant = agent.current_tenant() and q.session_id = delete_session.session and q.run_id = r.id;
    delete from agent.session s where s.tenant = agent.current_tenant() and s.id = delete_session.session;
    return true;
end;
$$;
comment on function agent.delete_session(text) is 'Delete a session of the caller with its questions, answers and runs';

create or replace function agent_internal.resume_session(_session text)
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
      from agent_internal.queue q join agent.session s on s.tenant = q.tenant and s.id = q.session_id
     where s.tenant = agent.current_tenant() and s.id = _session and s.owner = agent.current_principal();
    perform agent_internal.expire_leases('question', _queue) where _queue is not null;
    select r.id into _run
      from agent.question q join agent.run r on r.id = q.run_id
     where q.tenant = agent.current_tenant() and q.session_id = _session and r.queue_id = _queue and r.state in ('pending', 'waiting_retry')
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
         where q.tenant = agent.current_tenant() and q.session_id = _session and r.queue_id = _queue and r.state = 'running'
        having count(*) > 0;
end;
$$;
comment on function agent_internal.resume_session(text) is 'Make the unfinished question of a session of the caller claimable';
