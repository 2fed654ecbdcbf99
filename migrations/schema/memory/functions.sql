-- Store a memory: merged with an equal one, superseding another one of its key.  One at a time for each agent.
--
-- Raises WA024 if it would replace what a person stored, or reuse its key.
create or replace function agent_internal.store_memory(_new agent.memory)
    returns agent.memory
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old agent.memory;
begin
    insert into agent_internal.memory_lock (tenant, agent) values (_new.tenant, _new.agent) on conflict do nothing;
    perform from agent_internal.memory_lock l where l.tenant = _new.tenant and l.agent = _new.agent for no key update;
    select * into _old from agent.memory m
     where m.tenant = _new.tenant and m.agent = _new.agent and m.kind = _new.kind and m.key is not distinct from _new.key
       and (_new.key is not null or jsonb_hash_extended(m.value, 0) = jsonb_hash_extended(_new.value, 0) and m.value = _new.value)
       and m.thread_id is not distinct from _new.thread_id and m.principal is not distinct from _new.principal
       and m.superseded_by is null and m.retracted_at is null
     limit 1;
    if _old.id is not null and _old.value = _new.value then
        update agent.memory m
           set importance = greatest(m.importance, _new.importance),
               expires_at = case when m.expires_at is null or _new.expires_at is null then null else greatest(m.expires_at, _new.expires_at) end,
               trust = least(m.trust, _new.trust),  -- trusted, if one of them is
               embedding = coalesce(m.embedding, _new.embedding),
               embedding_model = coalesce(m.embedding_model, _new.embedding_model)
         where m.tenant = _old.tenant and m.id = _old.id
        returning * into _new;
        return _new;
    end if;
    _new.id := gen_random_uuid();
    if _old.id is not null then
        perform agent_internal.supersede_memory(_old, _new.id, _new.trust);
    end if;
    insert into agent.memory (tenant, id, agent, kind, key, value, thread_id, principal, importance, trust, expires_at, run_id,
                              event_id, created_by, embedding, embedding_model)
    values (_new.tenant, _new.id, _new.agent, _new.kind, _new.key, _new.value, _new.thread_id, _new.principal, _new.importance,
            _new.trust, _new.expires_at, _new.run_id, _new.event_id, _new.created_by, _new.embedding, _new.embedding_model)
    returning * into _new;
    return _new;
end;
$$;
comment on function agent_internal.store_memory(agent.memory) is 'Store a memory: insert, merge or supersede';

create or replace function agent_internal.supersede_memory(_old agent.memory, _by uuid, _trust text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _old.trust = 'trusted' and _trust = 'untrusted' then
        raise exception 'memory "%" was stored by a person', coalesce(_old.key, _old.id::text)
            using errcode = 'WA024', hint = 'An agent cannot replace it; use another key, or let a person correct it.';
    end if;
    update agent.memory m set superseded_by = _by where m.tenant = _old.tenant and m.id = _old.id;
end;
$$;

-- Store what an agent is to recall, as the caller.  Returns the ID: of the memory that it was merged with, if there is one.
create or replace function agent.remember(
    agent name, value jsonb, key text default null, kind text default 'semantic', importance double precision default 0.5,
    expires_at timestamptz default null, thread_id uuid default null, principal name default null, event_id uuid default null,
    embedding double precision[] default null, embedding_model text default null
)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _new agent.memory;
begin
    if not agent.has_role('developer') then
        raise exception 'storing memories requires the role developer' using errcode = '42501';
    end if;
    _new.tenant := agent.current_tenant();
    if remember.principal is not null
       and not exists (select from agent.principal p where p.tenant = _new.tenant and p.name = remember.principal) then
        raise exception 'principal "%" does not exist', remember.principal using errcode = 'WA024',
            hint = agent_internal.suggest(remember.principal, array(select p.name::text from agent.principal p where p.tenant = _new.tenant));
    end if;
    _new.agent := remember.agent;
    _new.kind := remember.kind;
    _new.key := remember.key;
    _new.value := remember.value;
    _new.importance := remember.importance;
    _new.trust := 'trusted';
    _new.expires_at := remember.expires_at;
    _new.thread_id := remember.thread_id;
    _new.principal := remember.principal;
    _new.event_id := remember.event_id;
    _new.created_by := agent.current_principal();
    _new.embedding := remember.embedding;
    _new.embedding_model := remember.embedding_model;
    return (agent_internal.store_memory(_new)).id;
end;
$$;
comment on function agent.remember(name, jsonb, text, text, double precision, timestamp with time zone, uuid, name, uuid, double precision[], text) is 'Store a memory of an agent; returns its ID';

-- Replace a memory by another value; returns the ID of the new one.
create or replace function agent.correct(memory uuid, value jsonb)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _old constant agent.memory := agent_internal.live_memory(correct.memory);
    _new agent.memory := _old;
begin
    if _old.value = correct.value then
        return _old.id;
    end if;
    _new.id := gen_random_uuid();
    perform agent_internal.supersede_memory(_old, _new.id, 'trusted');
    insert into agent.memory (tenant, id, agent, kind, key, value, thread_id, principal, importance, trust, expires_at, event_id, created_by)
    values (_old.tenant, _new.id, _old.agent, _old.kind, _old.key, correct.value, _old.thread_id, _old.principal, _old.importance,
            'trusted', _old.expires_at, _old.event_id, agent.current_principal());
    return _new.id;
end;
$$;
comment on function agent.correct(uuid, jsonb) is 'Replace a memory; returns the ID of the one that is recalled from now on';

create or replace function agent.dispute(memory uuid, disputed boolean default true)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _memory constant agent.memory := agent_internal.live_memory(dispute.memory);
begin
    update agent.memory m set disputed = dispute.disputed where m.tenant = _memory.tenant and m.id = _memory.id;
end;
$$;
comment on function agent.dispute(uuid, boolean) is 'Mark a memory as contradicted: its score is halved';

create or replace function agent.retract(memory uuid)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _memory constant agent.memory := agent_internal.live_memory(retract.memory);
begin
    update agent.memory m set retracted_at = agent_internal.now() where m.tenant = _memory.tenant and m.id = _memory.id;
end;
$$;
comment on function agent.retract(uuid) is 'Withdraw a memory: it is no longer recalled, and is removed with the retention';

-- Delete a memory and what it replaced.
create or replace function agent.forget(memory uuid)
    returns boolean
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent.has_role('developer') then
        raise exception 'deleting memories requires the role developer' using errcode = '42501';
    end if;
    delete from agent.memory m where m.id = forget.memory and m.tenant = agent.current_tenant();
    return found;
end;
$$;
comment on function agent.forget(uuid) is 'Delete a memory and those that it replaced; whether it existed';

-- Delete what is never recalled again: expired now, replaced or withdrawn before *keep*.
create or replace function agent.prune_memory(keep interval default '30 days')
    returns bigint
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _count bigint;
begin
    if not agent.has_role('developer') then
        raise exception 'deleting memories requires the role developer' using errcode = '42501';
    end if;
    delete from agent.memory m
     where m.expires_at <= agent_internal.now()
        or m.retracted_at <= agent_internal.now() - keep
        or exists (select from agent.memory n
                    where n.tenant = m.tenant and n.id = m.superseded_by and n.created_at <= agent_internal.now() - keep);
    get diagnostics _count = row_count;
    return _count;
end;
$$;
comment on function agent.prune_memory(interval) is 'Delete memories that are expired, or were replaced or retracted longer than this ago';

create or replace function agent_internal.builtin_remember(_run bigint, _arguments jsonb)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scope constant record := agent_internal.acting_scope(_run);
    _new   agent.memory;
begin
    _new.tenant := _scope.tenant;
    _new.agent := _scope.agent;
    _new.kind := coalesce(_arguments ->> 'kind', 'semantic');
    _new.key := nullif(_arguments ->> 'key', '');
    _new.value := _arguments -> 'value';
    _new.importance := coalesce((_arguments ->> 'importance')::double precision, 0.5);
    _new.trust := 'untrusted';
    _new.expires_at := agent_internal.now() + make_interval(days => (_arguments ->> 'expires_in_days')::integer);
    _new.thread_id := case when _new.kind in ('conversation', 'working') or (_arguments -> 'only_here')::boolean then _scope.thread_id end;
    _new.principal := (_arguments ->> 'about')::name;
    _new.run_id := _run;
    _new.event_id := (select e.id from agent.run r join agent.event e
                                    on e.tenant = _scope.tenant and e.thread_id = _scope.thread_id
                                   and e.id = (r.change #>> '{new,id}')::uuid
                       where r.id = _run and _scope.thread_id is not null);
    _new.created_by := _scope.agent;
    _new.embedding := (select array_agg(v::double precision order by n)
                         from jsonb_array_elements_text(nullif(_arguments -> 'embedding', 'null')) with ordinality as e (v, n));
    _new.embedding_model := case when _new.embedding is not null then _arguments ->> 'embedding_model' end;
    if _new.principal is not null
       and not exists (select from agent.principal p where p.tenant = _new.tenant and p.name = _new.principal) then
        raise exception 'principal "%" does not exist', _new.principal using errcode = 'WA024';
    end if;
    _new := agent_internal.store_memory(_new);
    return jsonb_build_object('id', _new.id);
end;
$$;
