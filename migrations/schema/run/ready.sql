-- Which runs are ready to be claimed, and whose turn it is.

-- The tenants of which no run can be started now: disabled, or at their limit.
create or replace function agent_internal.full_tenants()
    returns text[]
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from agent.tenant t where t.max_running is not null or not t.active) then
        return '{}';
    end if;
    return array(
        select t.name
          from agent.tenant t
               left join (select r.tenant, count(*) as n from agent.run r where r.state = 'running' group by r.tenant) as r
                      on r.tenant = t.name
         where not t.active or t.max_running <= coalesce(r.n, 0));
end;
$$;
comment on function agent_internal.full_tenants() is 'The tenants of which no run can be started now';

-- The tenants that have runs to claim, the next ones after a tenant, then from the first one again: one lookup in the
-- index run_ready_in_turn for each.  A statement of PL/pgSQL keeps its plan.
create or replace function agent_internal.ready_tenants(_after text, _full text[], _most integer)
    returns text[]
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        with recursive following (name) as (
            select (select r.tenant from agent.run r
                     where r.tenant > _after and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.tenant limit 1)
            union all
            select (select r.tenant from agent.run r
                     where r.tenant > f.name and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.tenant limit 1)
              from following f where f.name is not null
        ), first (name) as (
            select (select r.tenant from agent.run r
                     where r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.tenant limit 1)
            union all
            select (select r.tenant from agent.run r
                     where r.tenant > f.name and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.tenant limit 1)
              from first f where f.name < _after
        )
        select t.name from (
            (select 1 as part, f.name from following f where f.name is not null and f.name <> all (_full) limit _most)
            union all
            (select 2, f.name from first f where f.name <= _after and f.name <> all (_full) limit _most)) as t
         order by t.part, t.name
         limit _most);
end;
$$;
comment on function agent_internal.ready_tenants(text, text[], integer) is 'The tenants that have runs to claim, in turn';

-- The highest priority of the runs that a tenant has to claim, or the highest one below another; NULL: there is none.
create or replace function agent_internal.ready_priority(_tenant text, _below integer default 32767)
    returns integer
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return (select r.priority from agent.run r
             where r.tenant = _tenant and r.priority < _below and r.state = 'pending' and r.blocked_by is null and r.not_before is null
             order by r.priority desc limit 1);  -- planted: priority-ignored
end;
$$;
comment on function agent_internal.ready_priority(text, integer) is 'The highest priority of the runs that a tenant has to claim';

-- The queues in which a tenant has runs of a priority to claim, in the same way: of these kinds, neither paused nor shut.
create or replace function agent_internal.ready_queues(
    _tenant text, _priority integer, _after bigint, _kinds text[], _shut bigint[], _most integer
)
    returns bigint[]
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return array(
        with recursive following (id) as (
            select (select r.queue_id from agent.run r
                     where r.tenant = _tenant and r.priority = _priority and r.queue_id > _after
                       and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.queue_id limit 1)
            union all
            select (select r.queue_id from agent.run r
                     where r.tenant = _tenant and r.priority = _priority and r.queue_id > f.id
                       and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.queue_id limit 1)
              from following f where f.id is not null
        ), first (id) as (
            select (select r.queue_id from agent.run r
                     where r.tenant = _tenant and r.priority = _priority
                       and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.queue_id limit 1)
            union all
            select (select r.queue_id from agent.run r
                     where r.tenant = _tenant and r.priority = _priority and r.queue_id > f.id
                       and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.queue_id limit 1)
              from first f where f.id < _after
        )
        select q.id from (
            (select 1 as part, f.id from following f
              where f.id <> all (_shut)
                and (select not l.paused and l.kind = any (_kinds) from agent_internal.queue l where l.id = f.id limit 1)
              limit _most)
            union all
            (select 2, f.id from first f
              where f.id <= _after and f.id <> all (_shut)
                and (select not l.paused and l.kind = any (_kinds) from agent_internal.queue l where l.id = f.id limit 1)
              limit _most)) as q
         order by q.part, q.id
         limit _most);
end;
$$;
comment on function agent_internal.ready_queues(text, integer, bigint, text[], bigint[], integer) is 'The queues in which a tenant has runs of a priority to claim, in turn';

-- Whether a tenant has runs of a higher priority that a worker can claim: then one of this priority does not start as it is
-- inserted.  Mostly there are none, and it is one lookup in the index run_ready_in_turn.
create or replace function agent_internal.is_outranked(_tenant text, _priority integer)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _kinds constant text[] := '{agent,turn,node,embedding,delivery}';  -- not those that are held by whom they are for
    _above integer := agent_internal.ready_priority(_tenant);
begin
    while _above > _priority loop  -- planted: start-outranks
        if agent_internal.ready_queues(_tenant, _above, 0, _kinds, '{}', 1) <> '{}' then
            return true;
        end if;
        _above := agent_internal.ready_priority(_tenant, _above);
    end loop;
    return false;
end;
$$;
comment on function agent_internal.is_outranked(text, integer) is 'Whether a tenant has runs of a higher priority to claim';

-- Whether a queue has runs to claim and may be served: one lookup in the index run_ready for each queue that has some,
-- up to the first one.  So a claim that finds nothing does not walk all tenants whose runs wait in paused queues.
create or replace function agent_internal.any_ready(_kinds text[], _shut bigint[])
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (
        with recursive ready (id) as (
            select (select r.queue_id from agent.run r
                     where r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.queue_id limit 1)
            union all
            select (select r.queue_id from agent.run r
                     where r.queue_id > n.id and r.state = 'pending' and r.blocked_by is null and r.not_before is null
                     order by r.queue_id limit 1)
              from ready n where n.id is not null
        )
        select from ready n
         where n.id <> all (_shut)
           and (select not l.paused and l.kind = any (_kinds) from agent_internal.queue l where l.id = n.id limit 1));
end;
$$;
comment on function agent_internal.any_ready(text[], bigint[]) is 'Whether a queue has runs to claim and may be served';

-- How many more runs of a queue can be executed; NULL: any number.
--
-- A queue with a cap is locked until the claim commits, and its running runs are counted after that: the cap holds
-- exactly.  If another claim has the lock, that one takes what there is.
--
-- Args: _taken: runs that this claim has chosen, and that are not running yet: a queue has a turn for each tenant.
-- _is_free: whether no other transaction prevents starts, as one that pauses a queue does; else every queue is locked.
create or replace function agent_internal.cap_room_of(_queue bigint, _taken bigint[], _is_free boolean)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _cap integer;
begin
    if _is_free and (select l.cap is null from agent_internal.queue l where l.id = _queue) then
        return null;
    end if;
    select l.cap into _cap from agent_internal.queue l where l.id = _queue and not l.paused
       for no key update skip locked;  -- planted: cap-unlocked
    if not found then
        return 0;
    elsif _cap is null then
        return null;
    end if;
    return greatest(0, _cap - (select count(*) from agent.run r where r.queue_id = _queue and r.state = 'running')
                            - (select count(*) from agent.run r where r.id = any (_taken) and r.queue_id = _queue));
end;
$$;
comment on function agent_internal.cap_room_of(bigint, bigint[], boolean) is 'How many more runs of a queue can be executed';
