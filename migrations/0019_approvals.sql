-- Approvals: tool calls that wait for a person.

create table agent.approval (
    id          bigint primary key generated always as identity,
    run_id      bigint not null references agent.run on delete cascade,
    call_id     text not null,
    tool        text not null,
    arguments   jsonb not null,
    digest      text not null,
    run_as      name not null,
    state       text not null default 'pending'
                    check (state in ('pending', 'approved', 'rejected', 'expired', 'cancelled')),
    asked_at    timestamptz not null default now(),
    expires_at  timestamptz not null,
    decided_by  name,
    decided_at  timestamptz,
    reason      text,
    constraint decided_has_decider check ((state in ('approved', 'rejected')) = (decided_by is not null))
);
-- A call gets another approval only after one that ended without a decision.
create unique index asked_once_per_call on agent.approval (run_id, call_id) where state = 'pending';
create index approval_pending on agent.approval (expires_at) where state = 'pending';
comment on table agent.approval is 'Approvals: each is for one tool call, bound to the digest of its arguments';
comment on column agent.approval.id is 'Approval ID';
comment on column agent.approval.run_id is 'Run that waits';
comment on column agent.approval.call_id is 'ID of the tool call';
comment on column agent.approval.tool is 'Tool that is called';
comment on column agent.approval.arguments is 'Arguments of the call';
comment on column agent.approval.digest is 'Digest of run, call, tool and arguments';
comment on column agent.approval.run_as is 'Role that the tool runs as; it cannot decide';
comment on column agent.approval.state is 'pending, approved, rejected, expired or cancelled';
comment on column agent.approval.asked_at is 'Time of the request';
comment on column agent.approval.expires_at is 'When the request expires';
comment on column agent.approval.decided_by is 'Role that approved or rejected';
comment on column agent.approval.decided_at is 'Time of the decision';
comment on column agent.approval.reason is 'Reason of a rejection';
-- Else each removed run would read all approvals.
create index approval_run on agent.approval (run_id);

-- jsonb prints equal values equally, so the digest does not depend on how the model wrote them.
create function agent_internal.call_digest(_run bigint, _call_id text, _tool text, _arguments jsonb)
    returns text
    language sql
    immutable
as $$
    select encode(sha256(convert_to(jsonb_build_array(_run, _call_id, _tool, _arguments)::text, 'utf8')), 'hex')
$$;

-- Request an approval for one tool call, and release the run until the decision.
create function agent_internal.ask_approval(
    _run bigint, _lease bigint, _seq integer, _call_id text, _tool text, _arguments jsonb, _run_as name,
    _ttl interval, _tokens bigint, _cost numeric
)
    returns bigint
    language plpgsql
as $$
declare
    _digest constant text := agent_internal.call_digest(_run, _call_id, _tool, _arguments);
    _id     bigint;
begin
    insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at)
    values (_run, _call_id, _tool, _arguments, _digest, _run_as, agent_internal.now() + _ttl)
    returning id into _id;
    perform agent_internal.record_step(_run, _lease, _seq, 'approval', jsonb_build_object(
        'approval', _id, 'call_id', _call_id, 'tool', _tool, 'digest', _digest));
    perform agent_internal.park_run(_run, _lease, 'waiting_approval', null, true, null, _tokens, _cost);
    perform pg_notify('walagent_approvals', _id::text);
    return _id;
end;
$$;

create function agent_internal.decision_of(_state text)
    returns boolean
    language sql
    immutable
as $$ select _state in ('approved', 'rejected', 'expired') $$;

-- Check a decision, with the rights of the role that decides.
--
-- The role that the agent runs as cannot decide, nor a login of that role that has set another one.  Approvals end
-- without a decision only if they expire (agent_internal.tick()) or their run is cancelled (agent.cancel(), with the
-- owner's rights).
create function agent_internal.check_decision()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if old.state <> 'pending' then
        raise exception 'approval % is already %', old.id, old.state using errcode = 'WA005';
    end if;
    if to_jsonb(new) - '{state,decided_by,decided_at,reason}'::text[]
       <> to_jsonb(old) - '{state,decided_by,decided_at,reason}'::text[] then
        raise exception 'only state and reason of approval % can be updated', old.id using errcode = 'WA005';
    end if;
    if new.state in ('approved', 'rejected') then
        if old.expires_at <= agent_internal.now() then
            raise exception 'approval % has expired', old.id using errcode = 'WA005';
        end if;
        if exists (select from pg_roles where rolname = old.run_as and rolname in (current_user, session_user) and not rolsuper) then
            raise exception 'role "%" cannot decide calls of an agent that runs as it', old.run_as
                using errcode = 'WA006', hint = 'Let another role with grant_approver decide.';
        end if;
        new.decided_by := agent.current_principal();
        new.decided_at := agent_internal.now();
    elsif new.state = 'expired' and old.expires_at > agent_internal.now()
          or new.state = 'cancelled' and not pg_has_role((select relowner from pg_class where oid = tg_relid), 'member') then
        raise exception 'approval % is still pending', old.id
            using errcode = 'WA005', hint = 'Use agent.approve or agent.reject, or cancel its run with agent.cancel.';
    end if;
    return new;
end;
$$;
create trigger check_decision
    before update on agent.approval
    for each row execute function agent_internal.check_decision();

-- Continue the run after the decision: one step, one transition.
create function agent_internal.continue_decided()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
begin
    select * into _run from agent.run where id = new.run_id for no key update;
    if _run.state <> 'waiting_approval' then
        return null;  -- cancelled meanwhile
    end if;
    perform agent_internal.insert_step(new.run_id, null, 'decision', jsonb_build_object(
        'call_id', new.call_id, 'decision', new.state, 'by', new.decided_by, 'reason', new.reason, 'digest', new.digest));
    update agent.run set state = 'pending' where id = new.run_id;
    return null;
end;
$$;
create trigger continue_decided
    after update of state on agent.approval
    for each row when (agent_internal.decision_of(new.state))
    execute function agent_internal.continue_decided();

-- Expire approvals.  One that is being decided, or whose run is being cancelled, is left for the next tick.
create function agent_internal.expire_approvals()
    returns void
    language plpgsql
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

create function agent_internal.decide(_id bigint, _state text, _reason text)
    returns void
    language plpgsql
as $$
begin
    update agent.approval set state = _state, reason = _reason where id = _id;
    if not found then
        raise exception 'approval % does not exist', _id using errcode = 'WA005';
    end if;
end;
$$;

create function agent.approve(id bigint)
    returns void
    language sql
as $$ select agent_internal.decide(id, 'approved', null) $$;
comment on function agent.approve(bigint) is 'Approve a pending tool call';

create function agent.reject(id bigint, reason text default null)
    returns void
    language sql
as $$ select agent_internal.decide(id, 'rejected', reason) $$;
comment on function agent.reject(bigint, text) is 'Reject a pending tool call; the model receives the reason';
