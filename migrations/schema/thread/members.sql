-- The caller's membership of a thread.
--
-- Raises WA019 if it has none: what a principal is no member of does not exist for it.
create or replace function agent_internal.membership(_thread uuid)
    returns agent.member
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _member agent.member;
begin
    select * into _member
      from agent.member m
     where m.tenant = agent.current_tenant() and m.thread_id = _thread and m.principal = agent.current_principal();
    if not found then
        raise exception 'thread % does not exist, or "%" is not a member of it', _thread, agent.current_principal()
            using errcode = 'WA019';
    end if;
    return _member;
end;
$$;
comment on function agent_internal.membership(uuid) is 'The caller''s membership of a thread';

-- Raise 42501 unless the caller is an owner of the thread, or an admin of its tenant.
create or replace function agent_internal.check_owner(_thread uuid)
    returns void
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from agent.member m
                    where m.tenant = agent.current_tenant() and m.thread_id = _thread
                      and m.principal = agent.current_principal() and m.role = 'owner')
       and not ((agent_internal.identity()).named and agent.has_role('admin'))
       and not agent_internal.all_tenants() then
        perform agent_internal.membership(_thread);
        raise exception 'only an owner of the thread or an admin can do this' using errcode = '42501';
    end if;
end;
$$;
comment on function agent_internal.check_owner(uuid) is 'Check that the caller can manage a thread';

-- The events joined and left are written where members are inserted and deleted, so neither is without the other.  The
-- members with which a thread is opened are part of its creation.
create or replace function agent_internal.keep_members()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _by name := agent.current_principal();
begin
    if tg_op = 'INSERT' then
        insert into agent_internal.participation (tenant, principal, thread_id) values (new.tenant, new.principal, new.thread_id);
        if exists (select from agent.thread t where t.tenant = new.tenant and t.id = new.thread_id and t.last_number > 0) then
            perform agent_internal.post_event(new.tenant, new.thread_id, 'system', new.principal, jsonb_strip_nulls(jsonb_build_object(
                'action', 'joined', 'target', 'thread', 'by', nullif(_by, new.principal))));
        end if;
        return new;
    end if;
    -- A thread that is deleted takes its members with it.
    if exists (select from agent.thread t where t.tenant = old.tenant and t.id = old.thread_id) then
        perform agent_internal.cancel_turns(old.tenant, old.thread_id, old.principal);
        perform agent_internal.post_event(old.tenant, old.thread_id, 'system', old.principal, jsonb_strip_nulls(jsonb_build_object(
            'action', 'left', 'target', 'thread', 'by', nullif(_by, old.principal))));
    end if;
    return old;
end;
$$;

-- Join a thread whose ID the caller knows.  Who joins is a member: roles are given by owners.
--
-- Args: id: of the membership, chosen by the caller; who is a member already keeps its ID.
-- Raises WA019 if the thread does not exist, or the ID is of another membership.
create or replace function agent.join_thread(thread uuid, role text default 'member', id uuid default null)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.principal := agent_internal.participant(agent.current_principal());
begin
    if join_thread.role <> 'member' then
        raise exception 'cannot join as "%": an owner of the thread gives roles', join_thread.role using errcode = '42501',
            hint = 'Join as a member.';
    end if;
    if exists (select from agent.member m where m.tenant = _me.tenant and m.thread_id = join_thread.thread and m.principal = _me.name) then
        return;
    end if;
    -- Without a target of the conflict: policies hide from the caller what it would be.
    insert into agent.member (tenant, thread_id, principal, id)
    values (_me.tenant, join_thread.thread, _me.name, coalesce(join_thread.id, gen_random_uuid()))
    on conflict do nothing;
    if not found then
        raise exception 'the ID % is taken', join_thread.id using errcode = 'WA019';
    end if;
exception when foreign_key_violation then
    raise exception 'thread % does not exist', join_thread.thread using errcode = 'WA019';
end;
$$;
comment on function agent.join_thread(uuid, text, uuid) is 'Join a thread as a member';

create or replace function agent.leave_thread(thread uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant agent.member := agent_internal.membership(leave_thread.thread);
begin
    perform agent.remove_member(_me.thread_id, _me.principal);
end;
$$;
comment on function agent.leave_thread(uuid) is 'Leave a thread; of an agent, its turns are cancelled';

-- Any member can add members; only an owner gives another role.  For a principal that is a member, its role is changed.
create or replace function agent.add_member(thread uuid, principal name, role text default 'member')
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _new constant agent.principal := agent_internal.participant(add_member.principal);
    _was text;
begin
    select m.role into _was from agent.member m
     where m.tenant = _new.tenant and m.thread_id = add_member.thread and m.principal = _new.name;
    if add_member.role <> 'member' or _was <> 'member' then
        perform agent_internal.check_owner(add_member.thread);
    elsif not agent_internal.all_tenants() then
        perform agent_internal.membership(add_member.thread);
    end if;
    insert into agent.member as m (tenant, thread_id, principal, role)
    values (_new.tenant, add_member.thread, _new.name, add_member.role)
    on conflict on constraint member_pkey do update set role = excluded.role where m.role <> excluded.role;
end;
$$;
comment on function agent.add_member(uuid, name, text) is 'Add a person or an agent to a thread, or change its role';

create or replace function agent.remove_member(thread uuid, principal name)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if remove_member.principal <> agent.current_principal() then
        perform agent_internal.check_owner(remove_member.thread);
    end if;
    perform agent_internal.keep_leader(remove_member.thread, remove_member.principal);
    delete from agent.member m
     where m.tenant = agent.current_tenant() and m.thread_id = remove_member.thread and m.principal = remove_member.principal;
    if not found then
        raise exception '"%" is not a member of the thread', remove_member.principal using errcode = 'WA019';
    end if;
end;
$$;
comment on function agent.remove_member(uuid, name) is 'Remove a member from a thread; of an agent, its turns are cancelled';
