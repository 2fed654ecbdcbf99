-- The caller's membership of a team, and a lock of the team.
--
-- Args: _roles: what the caller must be; NULL: any member.
-- Raises WA026 if it is no member: for it, the team does not exist; 42501 if its role is another.
create or replace function agent_internal.team_role(_team text, _roles text[] default null)
    returns agent.team_member
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me agent.team_member;
begin
    perform from agent.team t where t.tenant = agent.current_tenant() and t.name = _team for no key update;
    select * into _me from agent.team_member m
     where m.tenant = agent.current_tenant() and m.team = _team and m.principal = agent.current_principal();
    if not found then
        raise exception 'team "%" does not exist, or "%" is not a member of it', _team, agent.current_principal() using errcode = 'WA026';
    elsif _me.role <> all (_roles) then
        raise exception '"%" is % of team "%"; this needs the role %', _me.principal, _me.role, _team, array_to_string(_roles, ' or ')
            using errcode = '42501';
    end if;
    return _me;
end;
$$;
comment on function agent_internal.team_role(text, text[]) is 'The caller''s membership of a team, which is locked';

-- Append an event to a thread as the caller.  Nothing is appended to one that is archived.
create or replace function agent_internal.post_team_event(_tenant text, _thread uuid, _author name, _data jsonb)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from agent.thread t where t.tenant = _tenant and t.id = _thread and t.state <> 'archived') then
        perform agent_internal.post_event(_tenant, _thread, 'system', _author, jsonb_strip_nulls(_data));
    end if;
end;
$$;

-- Create a team.  The caller is its leader; its thread is opened.
--
-- Returns the thread.  Raises WA026 if the name is taken.
create or replace function agent.create_team(
    name text, members name[] default '{}', description text default '', consensus numeric default 0.6, max_members integer default 10
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := agent.current_tenant();
    _thread uuid;
    _member name;
begin
    if create_team.consensus is null or create_team.consensus <= 0 or create_team.consensus > 1 then
        raise exception 'invalid consensus %: expected above 0 and up to 1', create_team.consensus using errcode = 'WA026';
    elsif create_team.name !~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$' or create_team.name is null then
        raise exception 'invalid name "%" of a team', create_team.name using errcode = 'WA026',
            hint = 'Use letters, digits, ".", "_" and "-".';
    end if;
    _thread := agent.open_thread(create_team.name);
    insert into agent.team (tenant, name, thread_id, description, consensus, max_members)
    values (_tenant, create_team.name, _thread, create_team.description, create_team.consensus, create_team.max_members)
    on conflict do nothing;
    if not found then
        raise exception 'team "%" exists', create_team.name using errcode = 'WA026';
    end if;
    insert into agent.team_member (tenant, team, thread_id, principal, role)
    values (_tenant, create_team.name, _thread, agent.current_principal(), 'leader');
    foreach _member in array array_remove(coalesce(create_team.members, '{}'), agent.current_principal()) loop
        perform agent.set_team_member(create_team.name, _member);
    end loop;
    return _thread;
end;
$$;
comment on function agent.create_team(text, name[], text, numeric, integer) is 'Create a team; the caller leads it; return its thread';

-- Refuse that a principal leaves the thread of a team, or no longer leads it, if nobody else leads the team, which is locked.
create or replace function agent_internal.keep_leader(_thread uuid, _principal name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _team text;
begin
    select t.name into _team from agent.team t where t.tenant = agent.current_tenant() and t.thread_id = _thread for no key update;
    if exists (select from agent.team_member m where m.tenant = agent.current_tenant() and m.team = _team and m.principal = _principal and m.role = 'leader')
       and not exists (select from agent.team_member m where m.tenant = agent.current_tenant() and m.team = _team and m.principal <> _principal and m.role = 'leader') then
        raise exception 'team "%" would have no leader', _team using errcode = 'WA026',
            hint = 'Give another member the role leader first.';
    end if;
end;
$$;

-- Add a member to a team, or change its role and weight, as a leader.  A new member joins the thread and the discussions.
create or replace function agent.set_team_member(team text, principal name, role text default 'member', weight numeric default 1)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me  constant agent.team_member := agent_internal.team_role(set_team_member.team, '{leader}');
    _new constant agent.principal := agent_internal.participant(set_team_member.principal);
    _of  agent.team;
begin
    if set_team_member.role is null or set_team_member.role <> all ('{leader,coordinator,member,critic,advocate,observer}') then
        raise exception 'invalid role "%": expected leader, coordinator, member, critic, advocate or observer', set_team_member.role
            using errcode = 'WA026';
    elsif set_team_member.weight is null or set_team_member.weight <= 0 or set_team_member.weight > 1000 then
        raise exception 'invalid weight %: expected above 0 and up to 1000', set_team_member.weight using errcode = 'WA026';
    elsif set_team_member.role <> 'leader' then
        perform agent_internal.keep_leader(_me.thread_id, _new.name);
    end if;
    select * into _of from agent.team t where t.tenant = _me.tenant and t.name = _me.team;
    if not exists (select from agent.team_member m where m.tenant = _me.tenant and m.team = _me.team and m.principal = _new.name)
       and (select count(*) from agent.team_member m where m.tenant = _me.tenant and m.team = _me.team) >= _of.max_members then
        raise exception 'team "%" has % members, as many as it can have', _me.team, _of.max_members using errcode = 'WA026';
    end if;
    -- The thread before its members, as who leaves it locks them.
    perform from agent.thread t where t.tenant = _me.tenant and t.id = _me.thread_id for no key update;
    insert into agent.member (tenant, thread_id, principal)
    select _me.tenant, d.thread_id, _new.name
      from (select _me.thread_id union all
            select s.thread_id from agent.discussion s where s.tenant = _me.tenant and s.team = _me.team) as d (thread_id)
    on conflict do nothing;
    insert into agent.team_member as m (tenant, team, thread_id, principal, role, weight)
    values (_me.tenant, _me.team, _me.thread_id, _new.name, set_team_member.role, set_team_member.weight)
    on conflict on constraint team_member_pkey do update set role = excluded.role, weight = excluded.weight;
    perform agent_internal.post_team_event(_me.tenant, _me.thread_id, _me.principal, jsonb_build_object(
        'action', 'role_given', 'target', 'member', 'member', _new.name, 'role', set_team_member.role));
end;
$$;
comment on function agent.set_team_member(text, name, text, numeric) is 'Add a member to a team, or change its role and weight';

-- Remove a member, as a leader, or leave.
create or replace function agent.remove_team_member(team text, principal name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.team_member := agent_internal.team_role(
        remove_team_member.team, case when remove_team_member.principal <> agent.current_principal() then '{leader}'::text[] end);
begin
    if not exists (select from agent.team_member m where m.tenant = _me.tenant and m.team = _me.team and m.principal = remove_team_member.principal) then
        raise exception '"%" is not a member of team "%"', remove_team_member.principal, _me.team using errcode = 'WA026';
    end if;
    perform agent_internal.keep_leader(_me.thread_id, remove_team_member.principal);
    delete from agent.member m
     where m.tenant = _me.tenant and m.principal = remove_team_member.principal
       and m.thread_id in (select _me.thread_id union all
                           select d.thread_id from agent.discussion d where d.tenant = _me.tenant and d.team = _me.team);
end;
$$;
comment on function agent.remove_team_member(text, name) is 'Remove a member from a team, its thread and its discussions; or leave';

-- Open a discussion: a thread with all members of the team.  Returns the thread.
create or replace function agent.open_discussion(team text, topic text)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me     constant agent.team_member := agent_internal.team_role(open_discussion.team);
    _thread uuid;
begin
    if coalesce(open_discussion.topic, '') = '' then
        raise exception 'the topic is empty' using errcode = 'WA026';
    end if;
    _thread := agent.open_thread(open_discussion.topic, array(
        select m.principal from agent.team_member m where m.tenant = _me.tenant and m.team = _me.team and m.principal <> _me.principal));
    insert into agent.discussion (tenant, thread_id, team, topic, opened_by)
    values (_me.tenant, _thread, _me.team, open_discussion.topic, _me.principal);
    perform agent_internal.post_team_event(_me.tenant, _me.thread_id, _me.principal, jsonb_build_object(
        'action', 'discussion_opened', 'target', 'discussion', 'thread', _thread, 'topic', open_discussion.topic));
    return _thread;
end;
$$;
comment on function agent.open_discussion(text, text) is 'Open a discussion of a team; return its thread';

-- Post a text that says what it is, what it is about, and whom it is for.
--
-- Args: kind: comment, question, answer, argument, objection, critique, summary or status.  about: ID of an event of the thread,
-- or of a proposal or task.  to: the member that it is for; the others see it, too.
create or replace function agent.comment(thread uuid, "text" text, kind text default 'comment', about uuid default null, "to" name default null)
    returns agent.event
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(comment.thread);
begin
    if coalesce(comment."text", '') = '' then
        raise exception 'the text is empty' using errcode = 'WA026';
    elsif comment.kind is null or comment.kind <> all ('{comment,question,answer,argument,objection,critique,summary,status}') then
        raise exception 'invalid kind "%": expected comment, question, answer, argument, objection, critique, summary or status', comment.kind
            using errcode = 'WA026';
    elsif comment.about is not null
          and not exists (select from agent.event e where e.tenant = _me.tenant and e.thread_id = _me.thread_id and e.id = comment.about)
          and not exists (select from agent.proposal p where p.tenant = _me.tenant and p.thread_id = _me.thread_id and p.id = comment.about)
          and not exists (select from agent.task t where t.tenant = _me.tenant and t.thread_id = _me.thread_id and t.id = comment.about) then
        raise exception '% is not an event, proposal or task of the thread', comment.about using errcode = 'WA026';
    elsif comment."to" is not null
          and not exists (select from agent.member m where m.tenant = _me.tenant and m.thread_id = _me.thread_id and m.principal = comment."to") then
        raise exception '"%" is not a member of the thread', comment."to" using errcode = 'WA026';
    end if;
    return agent_internal.post_event(_me.tenant, _me.thread_id, 'text', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'text', comment."text", 'kind', comment.kind, 'about', comment.about, 'to', comment."to")));
end;
$$;
comment on function agent.comment(uuid, text, text, uuid, name) is 'Post a text with a kind, about something, for somebody';

-- React to an event, or take a reaction back.  Returns whether this changed something.
create or replace function agent.react(event uuid, reaction text, remove boolean default false)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _on  constant agent.event := agent_internal.event_of(react.event);
    _me  constant agent.member := agent_internal.membership(_on.thread_id);
    _was text;
begin
    if react.reaction is null or react.reaction !~ '^[^[:cntrl:][:space:]]{1,40}$' then
        raise exception 'invalid reaction "%": expected a word or a symbol', react.reaction using errcode = 'WA026';
    end if;
    perform from agent.thread t where t.tenant = _on.tenant and t.id = _on.thread_id for no key update;
    select e.data ->> 'action' into _was from agent.event e
     where e.tenant = _on.tenant and e.thread_id = _on.thread_id and e.number > _on.number and e.type = 'system' and e.author = _me.principal
       and e.data ->> 'action' in ('reacted', 'unreacted') and e.data ->> 'event' = _on.id::text and e.data ->> 'reaction' = react.reaction
     order by e.number desc limit 1;
    if (_was is not distinct from 'reacted') <> react.remove then
        return false;
    end if;
    perform agent_internal.post_event(_on.tenant, _on.thread_id, 'system', _me.principal, jsonb_build_object(
        'action', case when react.remove then 'unreacted' else 'reacted' end, 'target', 'event', 'event', _on.id, 'reaction', react.reaction));
    return true;
end;
$$;
comment on function agent.react(uuid, text, boolean) is 'React to an event, or take the reaction back';

create or replace function agent_internal.builtin_team(_run bigint, _tool text, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scope constant record := agent_internal.acting_scope(_run);
begin
    case _tool
        when 'propose' then
            return jsonb_build_object('proposal', agent.propose(
                team => _arguments ->> 'team', title => _arguments ->> 'title', body => coalesce(_arguments ->> 'body', ''),
                rule => coalesce(_arguments ->> 'rule', 'consensus')));
        when 'vote' then
            return jsonb_build_object('state', agent.vote((_arguments ->> 'proposal')::uuid, _arguments ->> 'choice', coalesce(_arguments ->> 'reason', '')));
        when 'task_update' then
            perform agent.update_task((_arguments ->> 'task')::uuid, _arguments ->> 'state', coalesce(_arguments ->> 'note', ''));
            return jsonb_build_object('state', _arguments ->> 'state');
        when 'hand_over' then
            if _scope.thread_id is null then
                raise exception 'this run has no thread to hand over in' using errcode = 'WA026';
            end if;
            perform agent.hand_over(_scope.thread_id, (_arguments ->> 'to')::name, _arguments ->> 'note', (_arguments ->> 'task')::uuid);
            return jsonb_build_object('to', _arguments ->> 'to');
    end case;
end;
$$;
comment on function agent_internal.builtin_team(bigint, text, jsonb) is 'Call a tool of teams as the agent of a run';
