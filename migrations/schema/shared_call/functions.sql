-- Equal first calls of runs share one reply, where the agent says for how long.
--
-- A run that finds no equal call begins one, and asks its model.  Later ones have the reply, or wait until it is there or the
-- run that asks neither holds its lease nor waits for a batch: then the next one asks.  Nothing is written when the reply arrives: it is
-- shared as soon as it is a step.
--
-- Lock order: a run, then a row of shared_call.  A transaction that has locked that row locks no run but with SKIP LOCKED.

-- Reject what would make a shared reply another one than that of an own call: chance, and the key of a row, which the model is
-- not shown.
create or replace function agent_internal.check_reuse(_agent agent.agent, _tools jsonb, _key text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tool     text;
    _argument text;
begin
    if jsonb_typeof(_agent.parameters -> 'temperature') = 'number' and (_agent.parameters ->> 'temperature')::numeric > 0 then
        raise exception 'reuse requires temperature 0, and that of agent "%" is %', _agent.name, _agent.parameters ->> 'temperature'
            using errcode = 'WA014', hint = 'Remove temperature from the parameters of model, persona and agent, or set it to 0.';
    end if;
    select t ->> 'name', k into _tool, _argument
      from jsonb_array_elements(_tools) t cross join unnest(_key) k
     where t -> 'input_schema' -> 'properties' ? k
     limit 1;
    if found then
        raise exception 'reuse: argument "%" of tool "%" has the name of a key column, which the model is not shown', _argument, _tool
            using errcode = 'WA011', hint = format('Bind the argument: bind => ''{"%s": "%s"}''.', _argument, _argument);
    end if;
end;
$$;

-- Whether a reply can be that of other runs: whole, with calls that can be made, and accepted.  Reasoning is left out of a
-- shared reply; where the model is asked again, its provider would miss it.  Not if the request had other rows: a text in one of
-- them could have swayed it.
create or replace function agent_internal.is_shareable(_run bigint, _content jsonb, _definition jsonb)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select _content ->> 'stop' in ('end', 'tool')
           and not _content ? 'rows'
           and not jsonb_path_exists(_content, '$.parts[*] ? (exists (@.call) && @.arguments == null)')
           and (_definition ->> 'finish' = 'after_call' or not jsonb_path_exists(_content, '$.parts[*].thinking'))
           and not exists (select from agent.step s where s.run_id = _run and s.seq = 1 and s.content ? 'correction')
$$;

-- Share the first call of a run that the caller holds.
--
-- What the reply is shared with is not for the caller to say: runs of the same tenant and version of an attachment, which has
-- one role.
--
-- With rows_per_request, no run waits for one that asks: its reply may be one to several rows.
--
-- Args: _digest: of the request, without what differs between equal rows.
-- Returns NULL: ask the model; {"run": ..., "content": ...}: the reply of that run; {"run": ..., "wait": ...}: this run was
-- released until that one has a reply.
-- Raises as agent_internal.fence() does.
create or replace function agent_internal.share_call(_run bigint, _lease bigint, _digest bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _now   constant timestamptz := agent_internal.now();
    _own   agent.run;
    _of    agent.run;
    _call  agent_internal.shared_call;
    _definition jsonb;
    _until timestamptz;
    _scope text;
    _reply jsonb;
    _wait  double precision;
begin
    perform agent_internal.fence(_run, _lease);
    delete from agent_internal.shared_wait w where w.run_id = _run;  -- it looks itself
    select * into _own from agent.run r where r.id = _run;
    select v.definition into _definition from agent.attachment_version v
     where v.attachment_id = _own.attachment_id and v.version = _own.attachment_version;
    _until := _now + make_interval(secs => (_definition ->> 'reuse_seconds')::double precision);
    if _until is null or exists (select from agent.step s where s.run_id = _run) then
        return null;
    end if;
    _scope := concat_ws(' ', _own.attachment_id, _own.attachment_version, _definition ->> 'run_as');  -- planted: reuse-across-roles
    insert into agent_internal.shared_call (tenant, scope, digest, run_id, lease, keep_until)
    values (_own.tenant, _scope, _digest, _run, _lease, _until)
    on conflict do nothing;
    if found then
        return null;
    end if;
    select * into _call from agent_internal.shared_call c
     where c.tenant = _own.tenant and c.scope = _scope and c.digest = _digest for update;
    if not found then
        return null;  -- its run was removed meanwhile
    end if;
    select * into _of from agent.run r where r.id = _call.run_id;
    select s.content into _reply from agent.step s where s.run_id = _call.run_id and s.seq = 0;
    if _call.run_id = _run or _call.keep_until <= _now then
        null;
    elsif found and agent_internal.is_shareable(_call.run_id, _reply, _definition) then
        return jsonb_build_object('run', _call.run_id, 'content', _reply);
    elsif not found and _definition ->> 'rows_per_request' is null and (_of.lease = _call.lease and _of.lease_expires_at is not null or agent_internal.awaits_batch(_of)) then
        _wait := coalesce(greatest(extract(epoch from _of.lease_expires_at - _now), 1), 900) * (1 + random() / 10);
        insert into agent_internal.shared_wait (run_id, of_run, tenant) values (_run, _call.run_id, _own.tenant);
        perform agent_internal.park_locked(
            _run, 'waiting_retry', _wait * interval '1 second', true,
            jsonb_build_object('reason', format('waits for the reply of run %s to an equal call', _call.run_id)), 0, null);
        return jsonb_build_object('run', _call.run_id, 'wait', _wait);
    end if;
    update agent_internal.shared_call c set run_id = _run, lease = _lease, keep_until = _until
     where c.tenant = _own.tenant and c.scope = _scope and c.digest = _digest;
    return null;
end;
$$;
comment on function agent_internal.share_call(bigint, bigint, bytea) is 'Share the first call of a run that the caller holds with equal calls of other runs';

-- Let the runs go on that wait for the reply of a run: all of them if it is there, else the first, which asks for the others.
--
-- Locks the call first: a run that is about to wait has locked it, and is seen here then.  A run that is locked is executed,
-- and looks itself.
create or replace function agent_internal.wake_waiting(_run bigint)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _shared boolean;
    _woken  bigint[];
begin
    perform from agent_internal.shared_call c where c.run_id = _run for update;
    _shared := exists (
        select from agent.step s
               join agent.run r on r.id = s.run_id
               join agent.attachment_version v on v.attachment_id = r.attachment_id and v.version = r.attachment_version
         where s.run_id = _run and s.seq = 0 and agent_internal.is_shareable(_run, s.content, v.definition));
    _woken := array(
        select r.id from agent.run r join agent_internal.shared_wait w on w.run_id = r.id
         where w.of_run = _run and r.state = 'waiting_retry'
         order by r.id limit case when not _shared then 1 end
           for no key update of r skip locked);
    if _shared then
        delete from agent_internal.shared_wait w where w.of_run = _run;
    else
        delete from agent_internal.shared_wait w where w.run_id = any (_woken);
        update agent_internal.shared_wait w set of_run = _woken[1] where w.of_run = _run and _woken <> '{}';
    end if;
    update agent.run set next_attempt_at = agent_internal.now() where id = any (_woken);
    if found then
        perform pg_notify('walagent_runs', '');
    end if;
end;
$$;
comment on function agent_internal.wake_waiting(bigint) is 'Let the runs go on that wait for the reply of a run';

-- Remove calls whose replies are no longer shared.  Returns how many.
create or replace function agent_internal.forget_calls(_batch integer)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _removed integer;
begin
    delete from agent_internal.shared_call c
     where (c.tenant, c.scope, c.digest) in (
               select o.tenant, o.scope, o.digest from agent_internal.shared_call o
                where o.keep_until < agent_internal.now() limit _batch for update skip locked);
    get diagnostics _removed = row_count;
    return _removed;
end;
$$;
comment on function agent_internal.forget_calls(integer) is 'Remove calls whose replies are no longer shared, one batch';
