-- Teams: people and agents with roles, who discuss, decide by votes, divide tasks and keep what they make.
--
-- A team has a thread, and each discussion is another one: what is said and done are events there.  Tables keep what must be
-- constrained.  Who sees the thread sees the rows.
--
--   WA026   a team, proposal, task or artifact does not exist, or its state does not allow what was asked

create table agent.team (
    tenant      text collate "C" not null default agent.current_tenant() references agent.tenant,
    name        text not null check (name ~ '^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$'),
    thread_id   uuid not null,
    description text not null default '',
    consensus   numeric not null default 0.6 check (consensus > 0 and consensus <= 1),
    max_members integer not null default 10 check (max_members > 0),
    created_by  name not null default agent.current_principal(),
    created_at  timestamptz not null default now(),
    primary key (tenant, name),
    unique (tenant, thread_id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade
);
comment on table agent.team is 'Teams: people and agents with roles and a thread';
comment on column agent.team.tenant is 'Tenant that it belongs to';
comment on column agent.team.name is 'Name in commands';
comment on column agent.team.thread_id is 'Thread of the team';
comment on column agent.team.description is 'Text for people and agents';
comment on column agent.team.consensus is 'Share of the weight of yes and no that accepts a proposal by consensus';
comment on column agent.team.max_members is 'Maximum number of members';
comment on column agent.team.created_by is 'Principal that created it';
comment on column agent.team.created_at is 'Time of creation';

create table agent.team_member (
    tenant    text collate "C" not null default agent.current_tenant(),
    team      text not null,
    thread_id uuid not null,
    principal name not null,
    role      text not null default 'member' check (role in ('leader', 'coordinator', 'member', 'critic', 'advocate', 'observer')),
    weight    numeric not null default 1 check (weight > 0 and weight <= 1000),
    primary key (tenant, team, principal),
    foreign key (tenant, team) references agent.team on delete cascade,
    -- Who leaves the thread leaves the team.
    foreign key (tenant, thread_id, principal) references agent.member on delete cascade
);
comment on table agent.team_member is 'Roles of the members of teams';
comment on column agent.team_member.tenant is 'Tenant of the team';
comment on column agent.team_member.team is 'Team';
comment on column agent.team_member.thread_id is 'Thread of the team';
comment on column agent.team_member.principal is 'Member';
comment on column agent.team_member.role is 'leader (manages the team), coordinator (manages tasks), member, critic, advocate, or observer (has no vote)';
comment on column agent.team_member.weight is 'Weight of its votes';

create table agent.proposal (
    tenant      text collate "C" not null default agent.current_tenant(),
    id          uuid not null default gen_random_uuid(),
    team        text not null,
    thread_id   uuid not null,
    title       text not null check (title <> ''),
    body        text not null default '',
    rule        text not null check (rule in ('consensus', 'majority', 'unanimity')),
    threshold   numeric not null check (threshold > 0 and threshold <= 1),
    quorum      numeric not null check (quorum >= 0 and quorum <= 1),
    deadline    timestamptz,
    state       text not null default 'open' check (state in ('open', 'accepted', 'rejected', 'withdrawn')),
    proposed_by name not null,
    created_at  timestamptz not null default now(),
    decided_at  timestamptz,
    primary key (tenant, id),
    foreign key (tenant, team) references agent.team on delete cascade,
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, proposed_by) references agent.principal,
    constraint decided check ((state = 'open') = (decided_at is null)),
    constraint unanimity_is_all check (rule <> 'unanimity' or threshold = 1 and quorum = 1)
);
create index proposal_due on agent.proposal (deadline) where state = 'open';
create index proposal_of_team on agent.proposal (tenant, team);
create index proposal_of_thread on agent.proposal (tenant, thread_id);
comment on table agent.proposal is 'Proposals of teams, each decided once, by votes';
comment on column agent.proposal.tenant is 'Tenant of the team';
comment on column agent.proposal.id is 'ID of the proposal';
comment on column agent.proposal.team is 'Team that decides';
comment on column agent.proposal.thread_id is 'Thread that its events are in';
comment on column agent.proposal.title is 'What is proposed';
comment on column agent.proposal.body is 'Reasons and details';
comment on column agent.proposal.rule is 'consensus: the share of yes reaches threshold; majority: more yes than no; unanimity: all have voted, nobody no';
comment on column agent.proposal.threshold is 'Share of the weight of yes and no that must be yes';
comment on column agent.proposal.quorum is 'Share of the weight of all voters that must have been cast';
comment on column agent.proposal.deadline is 'When it is decided by the votes there are; NULL: not before the outcome is certain';
comment on column agent.proposal.state is 'open, accepted, rejected or withdrawn';
comment on column agent.proposal.proposed_by is 'Principal that proposed it';
comment on column agent.proposal.created_at is 'Time of the proposal';
comment on column agent.proposal.decided_at is 'Time of the decision';

create table agent.vote (
    tenant      text collate "C" not null default agent.current_tenant(),
    proposal_id uuid not null,
    thread_id   uuid not null,
    principal   name not null,
    choice      text not null check (choice in ('yes', 'no', 'abstain')),
    weight      numeric not null,
    reason      text not null default '',
    cast_at     timestamptz not null default clock_timestamp(),
    primary key (tenant, proposal_id, principal),
    foreign key (tenant, proposal_id) references agent.proposal on delete cascade,
    foreign key (tenant, principal) references agent.principal
);
comment on table agent.vote is 'Votes: one of each member for a proposal, which does not change';
comment on column agent.vote.tenant is 'Tenant of the proposal';
comment on column agent.vote.proposal_id is 'Proposal';
comment on column agent.vote.thread_id is 'Thread of the proposal';
comment on column agent.vote.principal is 'Principal that voted';
comment on column agent.vote.choice is 'yes, no or abstain';
comment on column agent.vote.weight is 'Weight of the member when it voted';
comment on column agent.vote.reason is 'Reason that it gave';
comment on column agent.vote.cast_at is 'Time of the vote';

create table agent.task (
    tenant      text collate "C" not null default agent.current_tenant(),
    id          uuid not null default gen_random_uuid(),
    team        text not null,
    thread_id   uuid not null,
    title       text not null check (title <> ''),
    description text not null default '',
    state       text not null default 'open' check (state in ('open', 'started', 'blocked', 'completed', 'cancelled')),
    assignee    name,
    note        text not null default '',
    due_at      timestamptz,
    created_by  name not null,
    created_at  timestamptz not null default now(),
    updated_at  timestamptz not null default now(),
    primary key (tenant, id),
    foreign key (tenant, team) references agent.team on delete cascade,
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, assignee) references agent.principal
);
create index task_of_team on agent.task (tenant, team, state);
comment on table agent.task is 'Tasks of teams';
comment on column agent.task.tenant is 'Tenant of the team';
comment on column agent.task.id is 'ID of the task';
comment on column agent.task.team is 'Team';
comment on column agent.task.thread_id is 'Thread of the team';
comment on column agent.task.title is 'What is to be done';
comment on column agent.task.description is 'Details';
comment on column agent.task.state is 'open, started, blocked, completed or cancelled';
comment on column agent.task.assignee is 'Member that does it; NULL: nobody yet';
comment on column agent.task.note is 'Latest note, such as what blocks it, or the result';
comment on column agent.task.due_at is 'When it is due';
comment on column agent.task.created_by is 'Principal that created it';
comment on column agent.task.created_at is 'Time of creation';
comment on column agent.task.updated_at is 'Time of the last change';

create table agent.task_need (
    tenant    text collate "C" not null default agent.current_tenant(),
    task_id   uuid not null,
    needs     uuid not null,
    thread_id uuid not null,
    primary key (tenant, task_id, needs),
    foreign key (tenant, task_id) references agent.task on delete cascade,
    foreign key (tenant, needs) references agent.task on delete cascade,
    check (task_id <> needs)
);
comment on table agent.task_need is 'Tasks that must be completed before another can start';
comment on column agent.task_need.tenant is 'Tenant of the tasks';
comment on column agent.task_need.task_id is 'Task that waits';
comment on column agent.task_need.needs is 'Task that must be completed first';
comment on column agent.task_need.thread_id is 'Thread of the team';

create table agent.artifact (
    tenant    text collate "C" not null default agent.current_tenant(),
    team      text not null,
    name      text not null check (name <> ''),
    version   integer not null check (version > 0),
    thread_id uuid not null,
    kind      text not null default 'text/markdown',
    content   text not null,
    made_by   name not null,
    made_at   timestamptz not null default now(),
    primary key (tenant, team, name, version),
    foreign key (tenant, team) references agent.team on delete cascade,
    foreign key (tenant, made_by) references agent.principal,
    constraint holds_no_key check (agent_internal.no_key(content, 'content'))
);
comment on table agent.artifact is 'Versions of what teams make: texts by name, append-only';
comment on column agent.artifact.tenant is 'Tenant of the team';
comment on column agent.artifact.team is 'Team';
comment on column agent.artifact.name is 'Name of the artifact in its team';
comment on column agent.artifact.version is 'Number of the version, from 1';
comment on column agent.artifact.thread_id is 'Thread of the team';
comment on column agent.artifact.kind is 'Media type';
comment on column agent.artifact.content is 'Text of the version';
comment on column agent.artifact.made_by is 'Principal that made the version';
comment on column agent.artifact.made_at is 'Time of its creation';

-- Discussions: threads of a team.
create table agent.discussion (
    tenant     text collate "C" not null default agent.current_tenant(),
    thread_id  uuid not null,
    team       text not null,
    topic      text not null,
    opened_by  name not null,
    opened_at  timestamptz not null default now(),
    primary key (tenant, thread_id),
    foreign key (tenant, thread_id) references agent.thread on delete cascade,
    foreign key (tenant, team) references agent.team on delete cascade
);
create index discussion_of_team on agent.discussion (tenant, team);
comment on table agent.discussion is 'Discussions of teams: threads of their members about a topic';
comment on column agent.discussion.tenant is 'Tenant of the team';
comment on column agent.discussion.thread_id is 'Thread of the discussion';
comment on column agent.discussion.team is 'Team';
comment on column agent.discussion.topic is 'Topic';
comment on column agent.discussion.opened_by is 'Principal that opened it';
comment on column agent.discussion.opened_at is 'Time of its opening';

select agent_internal.isolate(t)
  from unnest('{agent.team, agent.team_member, agent.proposal, agent.vote, agent.task, agent.task_need, agent.artifact, '
              'agent.discussion}'::regclass[]) t;
do $$
declare
    _table text;
begin
    foreach _table in array '{team, team_member, proposal, vote, task, task_need, artifact, discussion}'::text[] loop
        execute format('create policy member on agent.%1$I as restrictive for select using ((select agent_internal.sees_threads()) '
                       'or exists (select from agent_internal.participation p where p.thread_id = %1$I.thread_id))', _table);
    end loop;
end;
$$;

-- The caller's membership of a team, and a lock of the team.
--
-- Args: _roles: what the caller must be; NULL: any member.
-- Raises WA026 if it is no member: for it, the team does not exist; 42501 if its role is another.
create function agent_internal.team_role(_team text, _roles text[] default null)
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
create function agent_internal.post_team_event(_thread uuid, _author name, _data jsonb)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from agent.thread t where t.id = _thread and t.state <> 'archived') then
        perform agent_internal.post_event(_thread, 'system', _author, jsonb_strip_nulls(_data));
    end if;
end;
$$;

-- Create a team.  The caller is its leader; its thread is opened.
--
-- Returns the thread.  Raises WA026 if the name is taken.
create function agent.create_team(
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
    foreach _member in array create_team.members loop
        perform agent.set_team_member(create_team.name, _member);
    end loop;
    return _thread;
end;
$$;
comment on function agent.create_team(text, name[], text, numeric, integer) is 'Create a team; the caller leads it; return its thread';

-- Refuse that a principal leaves the thread of a team, or no longer leads it, if nobody else leads the team, which is locked.
create function agent_internal.keep_leader(_thread uuid, _principal name)
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
create function agent.set_team_member(team text, principal name, role text default 'member', weight numeric default 1)
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
    perform agent_internal.post_team_event(_me.thread_id, _me.principal, jsonb_build_object(
        'action', 'role_given', 'target', 'member', 'member', _new.name, 'role', set_team_member.role));
end;
$$;
comment on function agent.set_team_member(text, name, text, numeric) is 'Add a member to a team, or change its role and weight';

-- Remove a member, as a leader, or leave.
create function agent.remove_team_member(team text, principal name)
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
create function agent.open_discussion(team text, topic text)
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
    perform agent_internal.post_team_event(_me.thread_id, _me.principal, jsonb_build_object(
        'action', 'discussion_opened', 'target', 'discussion', 'thread', _thread, 'topic', open_discussion.topic));
    return _thread;
end;
$$;
comment on function agent.open_discussion(text, text) is 'Open a discussion of a team; return its thread';

-- Post a text that says what it is, what it is about, and whom it is for.
--
-- Args: kind: comment, question, answer, argument, objection, critique, summary or status.  about: ID of an event of the thread,
-- or of a proposal or task.  to: the member that it is for; the others see it, too.
create function agent.comment(thread uuid, "text" text, kind text default 'comment', about uuid default null, "to" name default null)
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
    return agent_internal.post_event(_me.thread_id, 'text', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'text', comment."text", 'kind', comment.kind, 'about', comment.about, 'to', comment."to")));
end;
$$;
comment on function agent.comment(uuid, text, text, uuid, name) is 'Post a text with a kind, about something, for somebody';

-- React to an event, or take a reaction back.  Returns whether this changed something.
create function agent.react(event uuid, reaction text, remove boolean default false)
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
    perform agent_internal.post_event(_on.thread_id, 'system', _me.principal, jsonb_build_object(
        'action', case when react.remove then 'unreacted' else 'reacted' end, 'target', 'event', 'event', _on.id, 'reaction', react.reaction));
    return true;
end;
$$;
comment on function agent.react(uuid, text, boolean) is 'React to an event, or take the reaction back';

-- What the votes for a proposal say.
--
-- Args: _final: decide by the votes there are, as after the deadline; else only if no further vote can change the outcome.
-- Returns accepted, rejected, or NULL: open.
create function agent_internal.outcome_of(_of agent.proposal, _final boolean)
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

create function agent_internal.accepts(_of agent.proposal, _yes numeric, _no numeric)
    returns boolean
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$ select _yes > 0 and case _of.rule when 'majority' then _yes > _no else _yes >= _of.threshold * (_yes + _no) end $$;

-- Decide a proposal that is locked, if its votes or its deadline say so.  Returns its state.
create function agent_internal.settle_proposal(_of agent.proposal)
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
    perform agent_internal.post_team_event(_of.thread_id, _of.proposed_by, jsonb_build_object(
        'action', 'decided', 'target', 'proposal', 'proposal', _of.id, 'title', _of.title, 'result', _state,
        'votes', (select jsonb_object_agg(x.choice, x.weight) from (
                      select v.choice, sum(v.weight) as weight from agent.vote v
                       where v.tenant = _of.tenant and v.proposal_id = _of.id group by 1) x)));
    return _state;
end;
$$;

-- Decide the proposals whose deadline has passed.  One whose row is locked is left to who holds it, and to the next tick.
create function agent_internal.settle_due_proposals()
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
create function agent_internal.proposal_for(_id uuid, _roles text[] default null, out me agent.team_member, out proposal agent.proposal)
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
create function agent.propose(
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
    perform agent_internal.post_event(_new.thread_id, 'system', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'action', 'proposed', 'target', 'proposal', 'proposal', _new.id, 'title', _new.title, 'body', nullif(_new.body, ''), 'rule', _new.rule,
        'deadline', _new.deadline)));
    return _new.id;
end;
$$;
comment on function agent.propose(text, text, text, text, numeric, numeric, timestamptz, uuid) is 'Propose something that a team decides; return the ID';

-- Vote for or against a proposal, as oneself, once.  The proposal is decided as soon as no further vote can change the outcome.
--
-- Returns the state of the proposal.  Raises WA026 if it is decided, its deadline has passed or the caller has voted; 42501 for an observer.
create function agent.vote(proposal uuid, choice text, reason text default '')
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
    perform agent_internal.post_event(_of.thread_id, 'system', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'action', 'voted', 'target', 'proposal', 'proposal', _of.id, 'choice', vote.choice, 'reason', nullif(vote.reason, ''))));
    return agent_internal.settle_proposal(_of);
end;
$$;
comment on function agent.vote(uuid, text, text) is 'Vote on a proposal, once; return its state';

-- Withdraw a proposal, as who proposed it or a leader.
create function agent.withdraw_proposal(proposal uuid)
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
    perform agent_internal.post_team_event(_of.thread_id, _me.principal, jsonb_build_object(
        'action', 'withdrawn', 'target', 'proposal', 'proposal', _of.id, 'title', _of.title));
end;
$$;
comment on function agent.withdraw_proposal(uuid) is 'Withdraw a proposal that is not decided';

-- Tasks.

-- Create a task.  A coordinator or leader can assign it to anybody, others to themselves.
--
-- Args: needs: tasks of the team that must be completed before this one can start.
create function agent.create_task(
    team text, title text, description text default '', assignee name default null, needs uuid[] default '{}', due_at timestamptz default null
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.team_member := agent_internal.team_role(create_task.team, '{leader,coordinator,member,critic,advocate}');
    _id uuid;
begin
    if coalesce(create_task.title, '') = '' then
        raise exception 'the title is empty' using errcode = 'WA026';
    end if;
    perform agent_internal.check_assignee(_me, create_task.assignee);
    insert into agent.task (tenant, team, thread_id, title, description, assignee, due_at, created_by)
    values (_me.tenant, _me.team, _me.thread_id, create_task.title, coalesce(create_task.description, ''), create_task.assignee,
            create_task.due_at, _me.principal)
    returning id into _id;
    -- Only tasks that exist can be needed, and needs never change: so no task waits for itself.
    insert into agent.task_need (tenant, task_id, needs, thread_id)
    select t.tenant, _id, t.id, t.thread_id from agent.task t where t.tenant = _me.tenant and t.team = _me.team and t.id = any (create_task.needs);
    if (select count(*) from agent.task_need n where n.tenant = _me.tenant and n.task_id = _id)
       <> (select count(distinct u) from unnest(create_task.needs) u) then
        raise exception 'a task that is needed does not exist in team "%"', _me.team using errcode = 'WA026';
    end if;
    perform agent_internal.post_event(_me.thread_id, 'system', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'action', 'created', 'target', 'task', 'task', _id, 'title', create_task.title, 'to', create_task.assignee)));
    return _id;
end;
$$;
comment on function agent.create_task(text, text, text, name, uuid[], timestamptz) is 'Create a task of a team; return its ID';

create function agent_internal.check_assignee(_me agent.team_member, _assignee name)
    returns void
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _assignee is null then
        return;
    elsif not exists (select from agent.team_member m where m.tenant = _me.tenant and m.team = _me.team and m.principal = _assignee
                                                        and m.role <> 'observer') then
        raise exception '"%" is not a member of team "%" that works', _assignee, _me.team using errcode = 'WA026';
    elsif _assignee <> _me.principal and _me.role not in ('leader', 'coordinator') then
        raise exception 'only a leader or coordinator assigns tasks to others' using errcode = '42501';
    end if;
end;
$$;

-- A task of a team of the caller, with its team and itself locked, in this order.
create function agent_internal.task_for(_id uuid, out me agent.team_member, out task agent.task)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _team text;
begin
    select t.team into _team from agent.task t where t.tenant = agent.current_tenant() and t.id = _id;
    if not found or not exists (select from agent.team_member m where m.tenant = agent.current_tenant() and m.team = _team
                                                                  and m.principal = agent.current_principal()) then
        raise exception 'task % does not exist', _id using errcode = 'WA026';
    end if;
    me := agent_internal.team_role(_team, '{leader,coordinator,member,critic,advocate}');
    select * into task from agent.task t where t.tenant = me.tenant and t.id = _id for update;
end;
$$;

-- Assign a task to a member; to NULL: to nobody.  A leader or coordinator assigns any task; a member takes one of nobody.
create function agent.assign_task(task uuid, assignee name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found constant record := agent_internal.task_for(assign_task.task);
    _me    constant agent.team_member := _found.me;
    _of    constant agent.task := _found.task;
begin
    if _of.state in ('completed', 'cancelled') then
        raise exception 'task % is %', _of.id, _of.state using errcode = 'WA026';
    elsif _me.role not in ('leader', 'coordinator') and coalesce(_of.assignee, _me.principal) <> _me.principal then
        raise exception 'task % is assigned to "%"', _of.id, _of.assignee using errcode = '42501';
    end if;
    perform agent_internal.check_assignee(_me, assign_task.assignee);
    update agent.task t set assignee = assign_task.assignee, updated_at = agent_internal.now() where t.tenant = _of.tenant and t.id = _of.id;
    perform agent_internal.post_team_event(_of.thread_id, _me.principal, jsonb_build_object(
        'action', 'assigned', 'target', 'task', 'task', _of.id, 'title', _of.title, 'to', assign_task.assignee));
end;
$$;
comment on function agent.assign_task(uuid, name) is 'Assign a task to a member, or to nobody';

-- Change the state of a task, as its assignee, a leader or a coordinator.
--
-- Args: state: started (from open or blocked; all that it needs is completed), blocked (from open or started), completed (from
--   started), cancelled (a leader or coordinator, or its creator), open (from started or blocked).  note: why, or the result.
create function agent.update_task(task uuid, state text, note text default '')
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found  constant record := agent_internal.task_for(update_task.task);
    _me     constant agent.team_member := _found.me;
    _of     constant agent.task := _found.task;
    _leads  constant boolean := _me.role in ('leader', 'coordinator');
    _before text;
begin
    if update_task.state is null or update_task.state <> all ('{open,started,blocked,completed,cancelled}') then
        raise exception 'invalid state "%": expected open, started, blocked, completed or cancelled', update_task.state using errcode = 'WA026';
    elsif not _leads and _of.assignee is distinct from _me.principal
          and not (update_task.state = 'cancelled' and _of.created_by = _me.principal)
          and not (update_task.state = 'started' and _of.assignee is null) then
        raise exception 'task % is not assigned to "%"', _of.id, _me.principal using errcode = '42501';
    elsif (_of.state, update_task.state) not in (('open', 'started'), ('open', 'blocked'), ('started', 'blocked'), ('blocked', 'started'),
              ('blocked', 'open'), ('started', 'open'), ('started', 'completed'), ('open', 'cancelled'), ('started', 'cancelled'), ('blocked', 'cancelled')) then
        raise exception 'task % is %, and cannot become %', _of.id, _of.state, update_task.state using errcode = 'WA026';
    end if;
    if update_task.state = 'started' then
        select string_agg(format('"%s" is %s', t.title, t.state), ', ') into _before
          from agent.task_need n join agent.task t on t.tenant = n.tenant and t.id = n.needs
         where n.tenant = _of.tenant and n.task_id = _of.id and t.state <> 'completed';
        if _before is not null then
            raise exception 'task % cannot start: %', _of.id, _before using errcode = 'WA026';
        end if;
    end if;
    update agent.task t
       set state = update_task.state, note = coalesce(update_task.note, ''), updated_at = agent_internal.now(),
           assignee = coalesce(t.assignee, case when update_task.state = 'started' then _me.principal end)
     where t.tenant = _of.tenant and t.id = _of.id;
    perform agent_internal.post_team_event(_of.thread_id, _me.principal, jsonb_build_object(
        'action', update_task.state, 'target', 'task', 'task', _of.id, 'title', _of.title, 'note', nullif(update_task.note, '')));
end;
$$;
comment on function agent.update_task(uuid, text, text) is 'Start, block, complete, cancel or reopen a task';

-- Hand the work in a thread over to another member, with what it must know; and a task that the caller has.
create function agent.hand_over(thread uuid, "to" name, note text, task uuid default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me    constant agent.member := agent_internal.membership(hand_over.thread);
    _found record;
    _of    agent.task;
begin
    if hand_over."to" is null or hand_over."to" = _me.principal
       or not exists (select from agent.member m where m.tenant = _me.tenant and m.thread_id = _me.thread_id and m.principal = hand_over."to") then
        raise exception '"%" is not another member of the thread', hand_over."to" using errcode = 'WA026';
    elsif coalesce(hand_over.note, '') = '' then
        raise exception 'the note is empty' using errcode = 'WA026';
    end if;
    if hand_over.task is not null then
        _found := agent_internal.task_for(hand_over.task);
        _of := _found.task;
        if _of.assignee is distinct from _me.principal then
            raise exception 'task % is not assigned to "%"', _of.id, _me.principal using errcode = '42501';
        elsif _of.state in ('completed', 'cancelled') then
            raise exception 'task % is %', _of.id, _of.state using errcode = 'WA026';
        elsif not exists (select from agent.team_member m where m.tenant = _of.tenant and m.team = _of.team and m.principal = hand_over."to"
                                                            and m.role <> 'observer') then
            raise exception '"%" is not a member of team "%" that works', hand_over."to", _of.team using errcode = 'WA026';
        end if;
        update agent.task t set assignee = hand_over."to", updated_at = agent_internal.now() where t.tenant = _of.tenant and t.id = _of.id;
    end if;
    perform agent_internal.post_event(_me.thread_id, 'text', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'text', hand_over.note, 'kind', 'hand_over', 'to', hand_over."to", 'about', hand_over.task)));
end;
$$;
comment on function agent.hand_over(uuid, name, text, uuid) is 'Hand work over to another member of a thread';

-- Store a version of an artifact.
--
-- Args: expected: the version that this one is based on, 0: none; NULL: the latest, whichever it is.
-- Returns the version.  Raises WA026 if the latest version is another.
create function agent.save_artifact(team text, name text, content text, kind text default 'text/markdown', expected integer default null)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me     constant agent.team_member := agent_internal.team_role(save_artifact.team, '{leader,coordinator,member,critic,advocate}');
    _latest integer;
begin
    if coalesce(save_artifact.name, '') = '' or save_artifact.content is null then
        raise exception 'an artifact has a name and a content' using errcode = 'WA026';
    end if;
    select coalesce(max(a.version), 0) into _latest from agent.artifact a
     where a.tenant = _me.tenant and a.team = _me.team and a.name = save_artifact.name;
    if save_artifact.expected <> _latest then
        raise exception 'artifact "%" has version %, not %', save_artifact.name, _latest, save_artifact.expected using errcode = 'WA026',
            hint = 'Read the latest version, and merge.';
    end if;
    insert into agent.artifact (tenant, team, name, version, thread_id, kind, content, made_by)
    values (_me.tenant, _me.team, save_artifact.name, _latest + 1, _me.thread_id, coalesce(save_artifact.kind, 'text/markdown'),
            save_artifact.content, _me.principal);
    perform agent_internal.post_event(_me.thread_id, 'system', _me.principal, jsonb_build_object(
        'action', 'saved', 'target', 'artifact', 'name', save_artifact.name, 'version', _latest + 1));
    return _latest + 1;
end;
$$;
comment on function agent.save_artifact(text, text, text, text, integer) is 'Store a version of an artifact; return its number';

-- Views.

create view agent.proposal_overview with (security_invoker = on) as
    select p.tenant, p.team, p.id, p.title, p.state, p.rule, p.deadline, p.proposed_by, p.created_at, p.decided_at,
           coalesce(v.yes, 0) as yes, coalesce(v.no, 0) as no, coalesce(v.abstain, 0) as abstain, coalesce(v.votes, 0) as votes,
           (select count(*) from agent.team_member m where m.tenant = p.tenant and m.team = p.team and m.role <> 'observer') as voters
      from agent.proposal p
           left join lateral (
               select sum(x.weight) filter (where x.choice = 'yes') as yes, sum(x.weight) filter (where x.choice = 'no') as no,
                      sum(x.weight) filter (where x.choice = 'abstain') as abstain, count(*) as votes
                 from agent.vote x where x.tenant = p.tenant and x.proposal_id = p.id) v on true;
comment on view agent.proposal_overview is 'Proposals with the weight of their votes';
comment on column agent.proposal_overview.tenant is 'Tenant of the team';
comment on column agent.proposal_overview.team is 'Team that decides';
comment on column agent.proposal_overview.id is 'ID of the proposal';
comment on column agent.proposal_overview.title is 'What is proposed';
comment on column agent.proposal_overview.state is 'open, accepted, rejected or withdrawn';
comment on column agent.proposal_overview.rule is 'consensus, majority or unanimity';
comment on column agent.proposal_overview.deadline is 'When it is decided by the votes there are';
comment on column agent.proposal_overview.proposed_by is 'Principal that proposed it';
comment on column agent.proposal_overview.created_at is 'Time of the proposal';
comment on column agent.proposal_overview.decided_at is 'Time of the decision';
comment on column agent.proposal_overview.yes is 'Weight of yes';
comment on column agent.proposal_overview.no is 'Weight of no';
comment on column agent.proposal_overview.abstain is 'Weight of abstentions';
comment on column agent.proposal_overview.votes is 'Number of votes';
comment on column agent.proposal_overview.voters is 'Number of members that can vote';

create view agent.pending_message with (security_invoker = on) as
    select m.tenant, m.principal, e.thread_id, e.number, e.id, e.author, e.data ->> 'kind' as kind, e.data ->> 'to' as "to", e.data ->> 'text' as text, e.created_at
      from agent.member m
           join agent.principal p on p.tenant = m.tenant and p.name = m.principal and p.kind = 'agent'
           join agent.event e on e.tenant = m.tenant and e.thread_id = m.thread_id and e.number > m.seen
     where e.type = 'text' and e.author <> m.principal and coalesce(e.data ->> 'to', m.principal) = m.principal;
comment on view agent.pending_message is 'Messages that no turn of an agent has taken up: for all members of a thread, or for this agent';
comment on column agent.pending_message.tenant is 'Tenant of the thread';
comment on column agent.pending_message.principal is 'Agent that they are for';
comment on column agent.pending_message.thread_id is 'Thread';
comment on column agent.pending_message.number is 'Number of the event';
comment on column agent.pending_message.id is 'ID of the event';
comment on column agent.pending_message.author is 'Principal that wrote it';
comment on column agent.pending_message.kind is 'Kind that its author gave: comment, question, hand_over and so on; NULL: none';
comment on column agent.pending_message."to" is 'Member that it is for; NULL: all';
comment on column agent.pending_message.text is 'Text';
comment on column agent.pending_message.created_at is 'Time of the message';

create view agent.reaction with (security_invoker = on) as
    select x.tenant, x.thread_id, x.event_id, x.principal, x.reaction, x.created_at
      from (select distinct on (e.tenant, e.data ->> 'event', e.author, e.data ->> 'reaction')
                   e.tenant, e.thread_id, (e.data ->> 'event')::uuid as event_id, e.author as principal, e.data ->> 'reaction' as reaction,
                   e.data ->> 'action' as action, e.created_at
              from agent.event e
             where e.type = 'system' and e.data ->> 'action' in ('reacted', 'unreacted') and e.data ->> 'target' = 'event'
             order by e.tenant, e.data ->> 'event', e.author, e.data ->> 'reaction', e.number desc) x
     where x.action = 'reacted';
comment on view agent.reaction is 'Reactions to events that were not taken back';
comment on column agent.reaction.tenant is 'Tenant of the thread';
comment on column agent.reaction.thread_id is 'Thread';
comment on column agent.reaction.event_id is 'Event that it is about';
comment on column agent.reaction.principal is 'Principal that reacted';
comment on column agent.reaction.reaction is 'Word or symbol';
comment on column agent.reaction.created_at is 'Time of the reaction';

-- Built-in tools: the agent of the run acts as itself, with what a member of the team may do.

create function agent_internal.builtin_team(_run bigint, _tool text, _arguments jsonb)
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

insert into agent.tool (name, kind, target, description, effect, input_schema) values
    ('propose', 'builtin', 'propose', 'Propose something that your team decides by votes. Returns the ID of the proposal.', 'transactional', '{
        "type": "object", "additionalProperties": false, "required": ["team", "title"], "properties": {
            "team": {"type": "string", "minLength": 1, "maxLength": 63},
            "title": {"type": "string", "minLength": 1, "maxLength": 200},
            "body": {"type": "string", "maxLength": 8000, "description": "Reasons and details"},
            "rule": {"enum": ["consensus", "majority", "unanimity"]}}}'),
    ('vote', 'builtin', 'vote', 'Vote on a proposal of your team, once.', 'transactional', '{
        "type": "object", "additionalProperties": false, "required": ["proposal", "choice"], "properties": {
            "proposal": {"type": "string", "format": "uuid", "description": "ID of the proposal"},
            "choice": {"enum": ["yes", "no", "abstain"]},
            "reason": {"type": "string", "maxLength": 4000}}}'),
    ('task_update', 'builtin', 'task_update', 'Start, block, complete or reopen a task that is assigned to you.', 'transactional', '{
        "type": "object", "additionalProperties": false, "required": ["task", "state"], "properties": {
            "task": {"type": "string", "format": "uuid", "description": "ID of the task"},
            "state": {"enum": ["open", "started", "blocked", "completed"]},
            "note": {"type": "string", "maxLength": 4000, "description": "What blocks it, or the result"}}}'),
    ('hand_over', 'builtin', 'hand_over', 'Hand the work in this thread over to another member, with what it must know.', 'transactional', '{
        "type": "object", "additionalProperties": false, "required": ["to", "note"], "properties": {
            "to": {"type": "string", "minLength": 1, "maxLength": 63, "description": "Name of the member"},
            "note": {"type": "string", "minLength": 1, "maxLength": 8000},
            "task": {"type": "string", "format": "uuid", "description": "ID of a task of yours that goes with it"}}}')
on conflict do nothing;

revoke all on agent.team, agent.team_member, agent.proposal, agent.vote, agent.task, agent.task_need, agent.artifact, agent.discussion,
    agent.proposal_overview, agent.pending_message, agent.reaction from public;
revoke all on all functions in schema agent, agent_internal from public;
select agent_internal.permit(c, 'select on agent.team, agent.team_member, agent.proposal, agent.vote, agent.task, agent.task_need, '
                                'agent.artifact, agent.discussion, agent.proposal_overview, agent.pending_message, agent.reaction')
  from unnest('{viewer, member}'::text[]) c;
select agent_internal.permit('member',
    'execute on function agent.create_team(text, name[], text, numeric, integer), agent.set_team_member(text, name, text, numeric), '
    'agent.remove_team_member(text, name), agent.open_discussion(text, text), agent.comment(uuid, text, text, uuid, name), '
    'agent.react(uuid, text, boolean), agent.propose(text, text, text, text, numeric, numeric, timestamptz, uuid), agent.vote(uuid, text, text), '
    'agent.withdraw_proposal(uuid), agent.create_task(text, text, text, name, uuid[], timestamptz), agent.assign_task(uuid, name), '
    'agent.update_task(uuid, text, text), agent.hand_over(uuid, name, text, uuid), '
    'agent.save_artifact(text, text, text, text, integer)');
select agent_internal.permit('runner', 'execute on function agent_internal.builtin_team(bigint, text, jsonb), agent_internal.settle_due_proposals()');
