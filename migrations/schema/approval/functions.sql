-- Approvals: which calls wait for a person, who can decide, with which arguments, and links that decide.

-- jsonb prints equal values equally, so the digest does not depend on how the model wrote them.
create or replace function agent_internal.call_digest(_run bigint, _call_id text, _tool text, _arguments jsonb)
    returns text
    language sql
    immutable
begin atomic
    select encode(sha256(convert_to(jsonb_build_array(_run, _call_id, _tool, _arguments)::text, 'utf8')), 'hex');
end;

create or replace function agent_internal.decision_of(_state text)
    returns boolean
    language sql
    immutable
return _state in ('approved', 'rejected', 'expired');

-- Expire approvals.  One that is being decided, or whose run is being cancelled, is left for the next tick.
create or replace function agent_internal.expire_approvals()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    with due as (
        select p.id
          from agent.approval p join agent.run r on r.id = p.run_id
         where p.state = 'pending' and p.expires_at <= agent_internal.now()
         order by p.id for no key update of p, r skip locked
    )
    update agent.approval p set state = 'expired', decided_at = agent_internal.now() from due where p.id = due.id;
end;
$$;
comment on function agent_internal.expire_approvals() is 'Expire approvals';

create or replace function agent_internal.decide(_id bigint, _state text, _reason text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.approval set state = _state, reason = _reason where id = _id;
    if not found then
        raise exception 'approval % does not exist', _id using errcode = 'WA005';
    end if;
end;
$$;

create or replace function agent.approve(id bigint)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.decide(id, 'approved', null) $$;
comment on function agent.approve(bigint) is 'Approve a pending tool call';

create or replace function agent.reject(id bigint, reason text default null)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.decide(id, 'rejected', reason) $$;
comment on function agent.reject(bigint, text) is 'Reject a pending tool call; the model receives the reason';

create or replace function agent.approve_calls(ids bigint[])
    returns bigint
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    select count(*) from (select agent.approve(id) from (select distinct unnest(ids) as id order by 1) i offset 0) done
$$;
comment on function agent.approve_calls(bigint[]) is 'Approve many tool calls, or none if one cannot be approved; return their number';

create or replace function agent.reject_calls(ids bigint[], reason text default null)
    returns bigint
    language sql
    set search_path = pg_catalog, pg_temp
as $$
    select count(*) from (select agent.reject(id, reject_calls.reason)
                            from (select distinct unnest(ids) as id order by 1) i offset 0) done
$$;
comment on function agent.reject_calls(bigint[], text) is 'Reject many tool calls, or none if one cannot be rejected; return their number';

create or replace function agent_internal.risk_rank(_risk text)
    returns integer
    language sql
    immutable
return array_position('{low,medium,high,critical}', coalesce(_risk, 'critical'));

-- Whether the policy of the agent or of its tenant requires an approval of calls of tools with this risk.
create or replace function agent_internal.approves_risk(_risk text, _attachment agent.attachment)
    returns boolean
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(bool_or(agent_internal.risk_rank(_risk) >= agent_internal.risk_rank(p.least)), false)
      from (select agent_internal.tenant_setting('approve_from', _attachment.tenant) #>> '{}'
             union all
            select g.approve_from from agent.agent g
             where g.tenant = _attachment.tenant and g.name = _attachment.agent) as p (least)
     where p.least is not null
$$;

-- A change of the policy creates new versions of the attachments, which say what requires an approval.
create or replace function agent_internal.apply_tenant_policy()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.attachment a set version = version + 1
     where a.tenant = new.name and agent_internal.drift_of(definition) is null;
    return null;
end;
$$;

-- The principals that act as a role: of its login, of its members, which can set it, and itself.  A login of no principal acts
-- under its own name.
create or replace function agent_internal.principals_of(_role name)
    returns setof name
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive acting (oid, name) as (
        select r.oid, r.rolname from pg_roles r where r.rolname = _role
        union
        select r.oid, r.rolname
          from acting a join pg_auth_members m on m.roleid = a.oid join pg_roles r on r.oid = m.member
    ), named (name) as (select a.name from acting a union select _role)  -- it might have been dropped
    select distinct coalesce(l.principal, n.name) from named n left join agent_internal.login l on l.login = n.name and l.taken_by = 'login' order by 1
$$;

-- Who started a run: who asked or wrote the event, otherwise who attached the agent: the principal of the login, and the
-- members of the role, which each of them can set.  And who forked it: what it calls can be what they said.
create or replace function agent_internal.requesters_of(_run agent.run)
    returns name[]
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    with change (document) as (
        select _run.change union all
        select m.change from agent_internal.merged_change m where m.run_id = _run.id
    ), author (name) as (
        select c.document -> 'new' ->> 'author' from change c
         where c.document ->> 'schema' = 'agent' and c.document ->> 'table' = 'event'
        union
        select _run.principal::text
    ), known (names) as (
        select array_agg(a.name::name order by a.name) from author a where a.name is not null
    )
    select coalesce(k.names, array(select r.name from agent.attachment_version v
                                          cross join agent_internal.principals_of((v.definition ->> 'attached_by')::name) r (name)
                                    where v.attachment_id = _run.attachment_id and v.version = _run.attachment_version))
           || array(select distinct (s.content ->> 'by')::name from agent.step s
                     where _run.fork_of is not null and s.run_id = _run.id and s.kind = 'note' and s.content ? 'fork')
      from known k
$$;

create or replace function agent_internal.insert_approval(
    _run agent.run, _call_id text, _tool text, _arguments jsonb, _run_as name, _ttl interval
)
    returns agent.approval
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _agent constant text := (select v.definition ->> 'agent' from agent.attachment_version v
                              where v.attachment_id = _run.attachment_id and v.version = _run.attachment_version);
    _made  constant jsonb := agent_internal.tool_of_run(_run, _tool);
    _new   agent.approval;
begin
    insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at, agent, risk, requested_by, four_eyes)
    values (_run.id, _call_id, _tool, _arguments, agent_internal.call_digest(_run.id, _call_id, _tool, _arguments), _run_as,
            agent_internal.now() + _ttl, _agent,
            -- A function without a row in agent.tool has no risk; the interrupt of a workflow is no tool.
            coalesce(_made ->> 'risk', (agent_internal.tool_of(_run.tenant, _tool)).risk, case when _made is not null then 'critical' end),
            agent_internal.requesters_of(_run),
            coalesce((select g.four_eyes from agent.agent g where g.tenant = _run.tenant and g.name = _agent),
                     agent_internal.tenant_setting('four_eyes', _run.tenant)::boolean, false))
    returning * into _new;
    return _new;
end;
$$;

-- Request an approval for one tool call of a run that the caller has locked, release the run until the decision, and
-- notify people.
--
-- Args: _seq: as in agent_internal.insert_step().
create or replace function agent_internal.await_approval(
    _run agent.run, _seq integer, _call_id text, _tool text, _arguments jsonb, _run_as name, _ttl interval,
    _tokens bigint, _cost numeric
)
    returns bigint
    language plpgsql
    set enable_seqscan = off
    set search_path = pg_catalog, pg_temp
as $$
declare
    _new constant agent.approval := agent_internal.insert_approval(_run, _call_id, _tool, _arguments, _run_as, _ttl);
begin
    perform agent_internal.insert_step(_run.id, _seq, 'approval', jsonb_build_object(
        'approval', _new.id, 'call_id', _call_id, 'tool', _tool, 'digest', _new.digest));
    perform agent_internal.park_locked(_run.id, 'waiting_approval', null, true, null, _tokens, _cost);
    perform pg_notify('walagent_approvals', _new.id::text);
    return _new.id;
end;
$$;

-- The same, for a run that the caller holds.
create or replace function agent_internal.ask_approval(
    _run bigint, _lease bigint, _seq integer, _call_id text, _tool text, _arguments jsonb, _run_as name,
    _ttl interval, _tokens bigint, _cost numeric
)
    returns bigint
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    return agent_internal.await_approval((select r from agent.run r where r.id = _run), _seq, _call_id, _tool, _arguments,
                                         _run_as, _ttl, _tokens, _cost);
end;
$$;

-- Whether the caller is an agent.
create or replace function agent_internal.is_agent()
    returns boolean
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from agent.principal p
                    where p.tenant = agent.current_tenant() and p.name = agent.current_principal() and p.kind = 'agent')
$$;

-- Check a decision, with the rights of the role that decides.
--
-- Only roles with grant_approver decide, and of principals those with the role approver.  The agent cannot, nor can the
-- role that it runs as, a login of that role that has set another one, or a principal of that login by a token; nor, with
-- four_eyes, who started the run.  Code of others, such as a trigger of a table that a person writes, decides nothing.
-- Approvals end without a decision only if they expire (agent_internal.tick()) or their run is cancelled (agent.cancel(),
-- with the owner's rights).
create or replace function agent_internal.check_decision()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant name := agent.current_principal();
begin
    if old.state <> 'pending' then
        raise exception 'approval % is already %', old.id, old.state using errcode = 'WA005';
    end if;
    if to_jsonb(new) - '{state,decided_by,decided_at,reason,edited,edited_digest}'::text[]
       <> to_jsonb(old) - '{state,decided_by,decided_at,reason,edited,edited_digest}'::text[] then
        raise exception 'only state, reason and edited of approval % can be updated', old.id using errcode = 'WA005';
    end if;
    new.edited_digest := null;
    if new.state in ('approved', 'rejected') then
        if not has_function_privilege('agent.approve(bigint)', 'execute') then
            raise exception 'role "%" may not decide approvals', current_user
                using errcode = '42501', hint = format('Run select agent.grant_approver(%L).', current_user);
        elsif agent_internal.in_code() then
            raise exception 'code of others decides no approvals' using errcode = '42501', hint = 'Decide in a statement of your own.';
        elsif _me is null or not agent.has_role('approver') then
            raise exception 'principal "%" may not decide approvals', coalesce(_me, '') using errcode = '42501',
                hint = 'An admin can grant it the role approver.';
        end if;
        if old.expires_at <= agent_internal.now() then
            raise exception 'approval % has expired', old.id using errcode = 'WA005';
        end if;
        if exists (select from pg_roles where rolname = old.run_as and rolname in (current_user, session_user, agent_internal.own_login()) and not rolsuper) then
            raise exception 'role "%" cannot decide calls of an agent that runs as it', old.run_as
                using errcode = 'WA006', hint = 'Let another role with grant_approver decide.';
        elsif agent_internal.is_agent() then
            raise exception 'agent "%" cannot decide calls of agents', _me
                using errcode = 'WA006', hint = 'Let a person decide.';
        elsif old.four_eyes and _me = any (old.requested_by) then
            raise exception 'principal "%" started run % and cannot decide its calls', _me, old.run_id
                using errcode = 'WA006', hint = 'Let another approver decide.';
        end if;
        if new.edited is not null then
            perform agent_internal.check_edit(old, new.edited);
            new.edited_digest := agent_internal.call_digest(old.run_id, old.call_id, old.tool, new.edited);
        end if;
        new.decided_by := _me;
        new.decided_at := agent_internal.now();
    elsif new.state = 'expired' and old.expires_at > agent_internal.now()
          or new.state = 'cancelled' and not pg_has_role((select relowner from pg_class where oid = tg_relid), 'member') then
        raise exception 'approval % is still pending', old.id
            using errcode = 'WA005', hint = 'Use agent.approve or agent.reject, or cancel its run with agent.cancel.';
    elsif new.state = 'pending' and new.edited is not null then
        raise exception 'arguments of approval % are edited by the decision', old.id
            using errcode = 'WA005', hint = 'Use agent.approve(id, arguments).';
    end if;
    return new;
end;
$$;

-- Reject edited arguments that the tool cannot have.  The worker checks them against the whole schema before it calls.
create or replace function agent_internal.check_edit(_approval agent.approval, _arguments jsonb)
    returns void
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tool   jsonb;
    _schema jsonb;
    _wrong  text;
begin
    if jsonb_typeof(_arguments) <> 'object' then
        raise exception 'edited arguments of approval % are not a JSON object', _approval.id using errcode = 'WA005';
    end if;
    select agent_internal.tool_of_run(r, _approval.tool) into _tool from agent.run r where r.id = _approval.run_id;
    _schema := _tool -> 'input_schema';
    _wrong := (select string_agg(format('"%s"', k), ', ' order by k) from jsonb_object_keys(_arguments) k
                where _tool -> 'bind' ? k
                   or _schema -> 'additionalProperties' = 'false' and not coalesce(_schema -> 'properties' ? k, false));
    if _wrong is not null then
        raise exception 'tool "%" has no argument %', _approval.tool, _wrong using errcode = 'WA005';
    end if;
    _wrong := (select string_agg(format('"%s"', k), ', ') from jsonb_array_elements_text(_schema -> 'required') k
                where not _arguments ? k);
    if _wrong is not null then
        raise exception 'tool "%" requires the argument %', _approval.tool, _wrong using errcode = 'WA005';
    end if;
end;
$$;

-- Continue the run after the decision: one step, one transition.
create or replace function agent_internal.continue_decided()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run   agent.run;
    _edits constant jsonb := case when new.edited is null then '{}'
        else jsonb_build_object('edited', new.edited, 'digest', new.edited_digest, 'requested_digest', new.digest) end;
begin
    perform agent_internal.audit(
        'approval.' || new.state, new.id::text,
        jsonb_build_object('run', new.run_id, 'agent', new.agent, 'tool', new.tool, 'digest', coalesce(new.edited_digest, new.digest),
                           'requested_digest', case when new.edited is not null then new.digest end),
        new.tenant);
    select * into _run from agent.run where id = new.run_id for no key update;
    if _run.state <> 'waiting_approval' then
        return null;  -- cancelled meanwhile
    end if;
    perform agent_internal.insert_step(new.run_id, null, 'decision', jsonb_build_object(
        'call_id', new.call_id, 'decision', new.state, 'by', new.decided_by, 'reason', new.reason, 'digest', new.digest) || _edits);
    update agent.run set state = 'pending' where id = new.run_id;
    return null;
end;
$$;

-- An overload, not a default: agent.approve(bigint) is what the privileges of an approver are known by.
create or replace function agent.approve(id bigint, arguments jsonb)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.approval a
       set state = 'approved', edited = case when a.arguments <> approve.arguments then approve.arguments end
     where a.id = approve.id;
    if not found then
        raise exception 'approval % does not exist', approve.id using errcode = 'WA005';
    end if;
end;
$$;
comment on function agent.approve(bigint, jsonb) is 'Approve a pending tool call with other arguments; the model is shown them';

-- Answer the question of an agent; its run continues.
--
-- Raises WA005 if there is no such question or it is decided, WA006 and 42501 as agent.approve() does.
create or replace function agent.answer(id bigint, text text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from agent.approval p join agent.tool t on t.name = p.tool and t.kind = 'builtin' and t.target = 'ask_human'
                    where p.id = answer.id) then
        raise exception 'approval % is not a question', answer.id
            using errcode = 'WA005', hint = 'Use agent.approve or agent.reject.';
    elsif btrim(coalesce(answer.text, '')) = '' then
        raise exception 'the answer is empty' using errcode = 'WA005';
    end if;
    perform agent_internal.decide(answer.id, 'approved', answer.text);
end;
$$;
comment on function agent.answer(bigint, text) is 'Answer a question of an agent (ask_human); its run continues';
