-- Sessions: a question replaces the unfinished one before it, and a session can be deleted.

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
    on conflict (tenant, session_id) do update set queued = true
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

-- Delete a session of the caller: its questions, answers and runs with their steps and rows.
--
-- A process that holds one of its questions loses it.  Returns whether the caller has such a session.
create function agent.delete_session(session text)
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
revoke all on function agent.delete_session(text) from public;
select agent_internal.grant_as('agent.delete_session(text)', 'agent_internal.ask(text, text, jsonb)');
