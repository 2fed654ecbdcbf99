-- Create a task.  A coordinator or leader can assign it to anybody, others to themselves.
--
-- Args: needs: tasks of the team that must be completed before this one can start.
create or replace function agent.create_task(
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
    perform agent_internal.post_event(_me.tenant, _me.thread_id, 'system', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'action', 'created', 'target', 'task', 'task', _id, 'title', create_task.title, 'to', create_task.assignee)));
    return _id;
end;
$$;
comment on function agent.create_task(text, text, text, name, uuid[], timestamp with time zone) is 'Create a task of a team; return its ID';

create or replace function agent_internal.check_assignee(_me agent.team_member, _assignee name)
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
create or replace function agent_internal.task_for(_id uuid, out me agent.team_member, out task agent.task)
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
create or replace function agent.assign_task(task uuid, assignee name)
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
    perform agent_internal.post_team_event(_of.tenant, _of.thread_id, _me.principal, jsonb_build_object(
        'action', 'assigned', 'target', 'task', 'task', _of.id, 'title', _of.title, 'to', assign_task.assignee));
end;
$$;
comment on function agent.assign_task(uuid, name) is 'Assign a task to a member, or to nobody';

-- Change the state of a task, as its assignee, a leader or a coordinator.
--
-- Args: state: started (from open or blocked; all that it needs is completed), blocked (from open or started), completed (from
--   started), cancelled (a leader or coordinator, or its creator), open (from started or blocked).  note: why, or the result.
create or replace function agent.update_task(task uuid, state text, note text default '')
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
    perform agent_internal.post_team_event(_of.tenant, _of.thread_id, _me.principal, jsonb_build_object(
        'action', update_task.state, 'target', 'task', 'task', _of.id, 'title', _of.title, 'note', nullif(update_task.note, '')));
end;
$$;
comment on function agent.update_task(uuid, text, text) is 'Start, block, complete, cancel or reopen a task';

-- Hand the work in a thread over to another member, with what it must know; and a task that the caller has.
create or replace function agent.hand_over(thread uuid, "to" name, note text, task uuid default null)
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
    perform agent_internal.post_event(_me.tenant, _me.thread_id, 'text', _me.principal, jsonb_strip_nulls(jsonb_build_object(
        'text', hand_over.note, 'kind', 'hand_over', 'to', hand_over."to", 'about', hand_over.task)),
        -- Of an agent: its turn, by which others see that no person wrote it.
        (select r.id from agent.run r
          where r.tenant = _me.tenant and r.kind = 'turn' and r.state = 'running' and r.principal = _me.principal
            and r.ordering_key = _me.thread_id::text order by r.id desc limit 1));
end;
$$;
comment on function agent.hand_over(uuid, name, text, uuid) is 'Hand work over to another member of a thread';

-- Store a version of an artifact.
--
-- Args: expected: the version that this one is based on, 0: none; NULL: the latest, whichever it is.
-- Returns the version.  Raises WA026 if the latest version is another.
create or replace function agent.save_artifact(team text, name text, content text, kind text default 'text/markdown', expected integer default null)
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
    perform agent_internal.post_event(_me.tenant, _me.thread_id, 'system', _me.principal, jsonb_build_object(
        'action', 'saved', 'target', 'artifact', 'name', save_artifact.name, 'version', _latest + 1));
    return _latest + 1;
end;
$$;
comment on function agent.save_artifact(text, text, text, text, integer) is 'Store a version of an artifact; return its number';
