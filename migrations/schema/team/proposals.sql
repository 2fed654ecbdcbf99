-- What the votes for a proposal say.
--
-- Args: _final: decide by the votes there are, as after the deadline; else only if no further vote can change the outcome.
-- Returns accepted, rejected, or NULL: open.
create or replace function agent_internal.outcome_of(_of agent.proposal, _final boolean)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _yes  numeric;
    _no   numeric;
    _cast numeric;
    _rest numeric;
begin
    select coalesce(sum(v.weight) filter (where v.choice = 'yes'), 0), coalesce(sum(v.weight) filter (where v.choice = 'no'), 0), coalesce(sum(v.weight), 0)
      into _yes, _no, _cast from agent.vote v where v.tenant = _of.tenant and v.proposal_id = _of.id;
    select coalesce(sum(m.weight), 0) into _rest from agent.team_member m
     where m.tenant = _of.tenant and m.team = _of.team and m.role <> 'observer'
       and not exists (select from agent.vote v where v.tenant = m.tenant and v.proposal_id = _of.id and v.principal = m.principal);
    -- The weight of those who have not voted: as if all of them voted no, and as if all voted yes.
    if _cast >= _of.quorum * (_cast + _rest) and agent_internal.accepts(_of, _yes, case when _final then _no else _no + _rest end) then
        return 'accepted';
    elsif _final or _rest = 0 or not agent_internal.accepts(_of, _yes + _rest, _no) then
        return 'rejected';
    end if;
    return null;
end;
$$;

create or replace function agent_internal.accepts(_of agent.proposal, _yes numeric, _no numeric)
    returns boolean
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$ select _yes > 0 and case _of.rule when 'majority' then _yes > _no else _yes >= _of.threshold * (_yes + _no) end $$;

-- Decide a proposal that is locked, if its votes or its deadline say so.  Returns its state.
create or replace function agent_internal.settle_proposal(_of agent.proposal)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _state text;
begin
    if _of.state <> 'open' then
        return _of.state;
    end if;
    _state := agent_internal.outcome_of(_of, coalesce(_of.deadline <= agent_internal.now(), false));
    if _state is null then
        return 'open';
    end if;
    update agent.proposal p set state = _state, decided_at = agent_internal.now() where p.tenant = _of.tenant and p.id = _of.id;
    perform agent_internal.post_team_event(_of.tenant, _of.thread_id, _of.proposed_by, jsonb_build_object(
        'action', 'decided', 'target', 'proposal', 'proposal', _of.id, 'title', _of.title, 'result', _state,
        'votes', (select jsonb_object_agg(x.choice, x.weight) from (
                      select v.choice, sum(v.weight) as weight from agent.vote v
                       where v.tenant = _of.tenant and v.proposal_id = _of.id group by 1) x)));
    return _state;
end;
$$;

-- Decide the proposals whose deadline has passed.  One whose row is locked is left to the transaction that holds it, and to the next tick.
create or replace function agent_internal.settle_due_proposals()
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _of    agent.proposal;
    _count bigint := 0;
begin
    for _of in
        select * from agent.proposal p where p.state = 'open' and p.deadline <= agent_internal.now() order by p.deadline limit 1000
           for update skip locked
    loop
        perform agent_internal.settle_proposal(_of);
        _count := _count + 1;
    end loop;
    return _count;
end;
$$;
comment on function agent_internal.settle_due_proposals() is 'Decide the proposals whose deadline has passed';

-- The proposal, with its team and itself locked, in this order.
create or replace function agent_internal.proposal_for(_id uuid, _roles text[] default null, out me agent.team_member, out proposal agent.proposal)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _team text;
begin
    select p.team into _team from agent.proposal p where p.tenant = agent.current_tenant() and p.id = _id;
    if not found or not exists (select from agent.team_member m where m.tenant = agent.current_tenant() and m.team = _team
                                                                  and m.principal = agent.current_principal()) then
        raise exception 'proposal % does not exist', _id using errcode = 'WA026';
    end if;
    me := agent_internal.team_role(_team, _roles);
    select * into proposal from agent.proposal p where p.tenant = me.tenant and p.id = _id for update;
end;
$$;

-- Propose something that a team decides by votes.
--
-- Args: rule: consensus (threshold; default: the team's), majority or unanimity.  quorum: the share that must vote.
--   deadline: when it is decided by the votes there are.  thread: the team's, or one of its discussions.
-- Returns the ID.
create or replace function agent.propose(
    team text, title text, body text default '', rule text default 'consensus', threshold numeric default null, quorum numeric default null,
    deadline timestamptz default null, thread uuid default null
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me  constant agent.team_member := agent_internal.team_role(propose.team, '{leader,coordinator,member,critic,advocate}');
    _new agent.proposal;
begin
    if propose.rule is null or propose.rule <> all ('{consensus,majority,unanimity}') then
        raise exception 'invalid rule "%": expected consensus, majority or unanimity', propose.rule using errcode = 'WA026';
    elsif propose.threshold is not null and propose.rule <> 'consensus' then
        raise exception 'only rule consensus has a threshold' using errcode = 'WA026';
    elsif propose.quorum is not null and propose.rule = 'unanimity' then
        raise exception 'rule unanimity has no quorum: all must vote' using errcode = 'WA026';
    elsif propose.threshold <= 0 or propose.threshold > 1 or propose.quorum < 0 or propose.quorum > 1 then
        raise exception 'invalid threshold or quorum: expected a share up to 1' using errcode = 'WA026';
    elsif propose.deadline <= agent_internal.now() then
        raise exception 'the deadline % has passed', propose.deadline using errcode = 'WA026';
    elsif coalesce(propose.title, '') = '' then
        raise exception 'the title is empty' using errcode = 'WA026';
    elsif propose.thread <> _me.thread_id
          and not exists (select from agent.discussion d where d.tenant = _me.tenant and d.team = _me.team and d.thread_id = propose.thread) then
        raise exception 'thread % is not of team "%"', propose.thread, _me.team using errcode = 'WA026';
    end if;
    insert into agent.proposal (tenant, team, thread_id, title, body, rule, threshold, quorum, deadline, proposed_by)
    select _me.tenant, _me.team, coalesce(propose.thread, _me.thread_id), propose.title, coalesce(propose.body, ''), propose.rule,
           case propose.rule when 'unanimity' then 1 when 'majority' then 0.5 else coalesce(propose.threshold, t.consensus) end,
           case propose.rule when 'unanimity' then 1 else coalesce(propose.quorum, 0.5) end, propose.deadline, _me.principal
      from agent.team t where t.tenant = _me.tenant and t.name = _me.team
    returning * into _new;
    perform agent_internal.post_event(_new.tenant, _new.thread_id, 'system', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'action', 'proposed', 'target', 'proposal', 'proposal', _new.id, 'title', _new.title, 'body', nullif(_new.body, ''), 'rule', _new.rule,
        'deadline', _new.deadline)));
    return _new.id;
end;
$$;
comment on function agent.propose(text, text, text, text, numeric, numeric, timestamp with time zone, uuid) is 'Propose something that a team decides; return the ID';

-- Vote for or against a proposal, as oneself, once.  The proposal is decided as soon as no further vote can change the outcome.
--
-- Returns the state of the proposal.  Raises WA026 if it is decided, its deadline has passed or the caller has voted; 42501 for an observer.
create or replace function agent.vote(proposal uuid, choice text, reason text default '')
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found constant record := agent_internal.proposal_for(vote.proposal, '{leader,coordinator,member,critic,advocate}');
    _me    constant agent.team_member := _found.me;
    _of    constant agent.proposal := _found.proposal;
begin
    if vote.choice is null or vote.choice <> all ('{yes,no,abstain}') then
        raise exception 'invalid choice "%": expected yes, no or abstain', vote.choice using errcode = 'WA026';
    elsif _of.state <> 'open' then
        raise exception 'proposal % is %', _of.id, _of.state using errcode = 'WA026';
    elsif _of.deadline <= agent_internal.now() then
        raise exception 'the deadline of proposal % has passed', _of.id using errcode = 'WA026';
    end if;
    insert into agent.vote (tenant, proposal_id, thread_id, principal, choice, weight, reason)
    values (_of.tenant, _of.id, _of.thread_id, _me.principal, vote.choice, _me.weight, coalesce(vote.reason, ''))
    on conflict do nothing;
    if not found then
        raise exception '"%" has voted on proposal %', _me.principal, _of.id using errcode = 'WA026';
    end if;
    perform agent_internal.post_event(_of.tenant, _of.thread_id, 'system', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'action', 'voted', 'target', 'proposal', 'proposal', _of.id, 'choice', vote.choice, 'reason', nullif(vote.reason, ''))));
    return agent_internal.settle_proposal(_of);
end;
$$;
comment on function agent.vote(uuid, text, text) is 'Vote on a proposal, once; return its state';

-- Withdraw a proposal, as who proposed it or a leader.
create or replace function agent.withdraw_proposal(proposal uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found constant record := agent_internal.proposal_for(withdraw_proposal.proposal);
    _me    constant agent.team_member := _found.me;
    _of    constant agent.proposal := _found.proposal;
begin
    if _of.proposed_by <> _me.principal and _me.role <> 'leader' then
        raise exception 'only "%" or a leader can withdraw proposal %', _of.proposed_by, _of.id using errcode = '42501';
    elsif _of.state <> 'open' then
        raise exception 'proposal % is %', _of.id, _of.state using errcode = 'WA026';
    end if;
    update agent.proposal p set state = 'withdrawn', decided_at = agent_internal.now() where p.tenant = _of.tenant and p.id = _of.id;
    perform agent_internal.post_team_event(_of.tenant, _of.thread_id, _me.principal, jsonb_build_object(
        'action', 'withdrawn', 'target', 'proposal', 'proposal', _of.id, 'title', _of.title));
end;
$$;
comment on function agent.withdraw_proposal(uuid) is 'Withdraw a proposal that is not decided';
