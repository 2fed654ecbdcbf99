-- The queue of a detached attachment stays: its runs are executed, also those of changes that committed before and are
-- ingested later.  If the attachment is paused, its runs are cancelled, except those that are being executed or wait for
-- an approval.  agent_internal.prune_rest() removes the queue.
create or replace function agent_internal.detach_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    update agent_internal.queue set paused = old.paused where id = old.id and paused <> old.paused;
    if old.paused then
        perform agent_internal.cancel_runs(array(select r.id from agent.run r where r.queue_id = old.id));
    end if;
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

-- Let workers look for runs, at commit.
create or replace function agent_internal.wake_workers()
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select pg_notify('walagent_runs', '') $$;

create or replace function agent_internal.notify_workers()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    perform agent_internal.wake_workers();
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

-- How many more runs of a tenant can be executed: NULL: any number; 0 also for one that is disabled or does not exist.
--
-- Args: _lock: claims of one tenant wait for each other no longer than this: the second one takes nothing.
create or replace function agent_internal.room_of(_tenant text, _lock boolean default false)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _max    integer;
    _active boolean;
begin
    if _tenant is null then
        return null;
    end if;
    select t.max_running, t.active into _max, _active from agent.tenant t where t.name = _tenant;
    if _active is not true then
        return 0;
    elsif _max is null then
        return null;
    end if;
    if _lock then
        perform from agent.tenant t where t.name = _tenant for no key update skip locked;
        if not found then
            return 0;
        end if;
    end if;
    return greatest(0, _max - (select count(*) from agent.run r where r.state = 'running' and r.tenant = _tenant));
end;
$$;
comment on function agent_internal.room_of(text, boolean) is 'How many more runs of a tenant can be executed';

-- How many more runs of a tenant can wait in its queues; NULL: any number.
create or replace function agent_internal.queue_room_of(_tenant text)
    returns integer
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set enable_seqscan = off
as $$
declare
    _max constant integer := (select t.max_queued from agent.tenant t where t.name = _tenant);
begin
    if _max is null then
        return null;
    end if;
    return _max - (select count(*) from (
        select from agent.run r
         where r.tenant = _tenant and r.state = 'pending' and r.blocked_by is null and r.not_before is null
           and (select q.tenant = _tenant from agent_internal.queue q where q.id = r.queue_id limit 1)
         limit _max) as waiting);
end;
$$;
comment on function agent_internal.queue_room_of(text) is 'How many more runs of a tenant can wait in its queues';

-- Refuse a person who adds to the queues of its tenant while they are full.  Not locked: of many at once, some more are
-- accepted.  What a tool does belongs to a run that was accepted.  Raises WA028.
create or replace function agent_internal.check_queue()
    returns void
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.is_for_tools() and agent_internal.queue_room_of(agent.current_tenant()) <= 0 then
        raise exception 'the queues of tenant "%" are full', agent.current_tenant() using errcode = 'WA028',
            detail = format('max_queued is %s.', (select t.max_queued from agent.tenant t where t.name = agent.current_tenant())),
            hint = 'Repeat it later, or let the operator raise agent.tenant.max_queued.';
    end if;
end;
$$;
comment on function agent_internal.check_queue() is 'Raise WA028 if the queues of the tenant of the caller are full';

-- The queue of a kind under a name in a tenant, which is created on first use.
create or replace function agent_internal.queue_of(_kind text, _name text, _tenant text default agent.current_tenant())
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _id bigint;
begin
    select q.id into _id from agent_internal.queue q where q.tenant = _tenant and q.kind = _kind and q.name = _name;
    if not found then
        insert into agent_internal.queue as q (tenant, kind, name) values (_tenant, _kind, _name)
        on conflict (tenant, kind, name) where name is not null do update set name = q.name
        returning q.id into _id;
    end if;
    return _id;
end;
$$;
comment on function agent_internal.queue_of(text, text, text) is 'The queue of a kind under a name in a tenant';

-- The queue of an attachment; see attachment/attach.sql.  A claim reads a queue without a lock: while pause and cap change,
-- claims under way are waited for, and others lock the queues.
create or replace function agent_internal.sync_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
begin
    if exists (select from agent_internal.queue l where l.id = new.id and (l.cap, l.paused) is distinct from (new.cap, new.paused)) then
        perform agent_internal.prevent_starts();
        perform agent_internal.wake_workers();
    end if;
    insert into agent_internal.queue (id, kind, attachment_id, cap, paused)
    select id, case when turns ? 'worker' then 'worker'
                    when relation = 'agent.event'::regclass then 'turn' else 'agent' end, id, cap, paused
      from agent.attachment where id = new.id
    on conflict (id) do update set kind = excluded.kind, cap = excluded.cap, paused = excluded.paused;
    perform agent_internal.leave(_entered);
    return null;
end;
$$;
