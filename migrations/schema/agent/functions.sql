create or replace function agent_internal.bind_model()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scope constant text := (agent_internal.model_of(new.tenant, new.model)).scope;
begin
    if new.model is not null and _scope is null then
        perform agent_internal.check_model(new.model, new.tenant);
    end if;
    if new.fallback is not null then
        perform agent_internal.check_fallback(new.model, new.fallback, new.tenant);
    end if;
    perform agent_internal.check_cascade(new.cascade, new.model, new.fallback, new.tenant);
    new.model_scope := coalesce(_scope, '');
    return new;
end;
$$;

create or replace function agent_internal.count_version()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_use(old.tenant, old.name);
    new.version := old.version + 1;
    new.updated_at := now();
    return new;
end;
$$;

create or replace function agent_internal.check_deleted_agent()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_use(old.tenant, old.name);
    return old;
end;
$$;

create or replace function agent_internal.touch_attachments()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if coalesce(current_setting('walagent.applying', true), '') <> 'on' then
        -- A broken attachment gets its new version when it is resumed.
        update agent.attachment set version = version + 1 where tenant = new.tenant and agent = new.name and agent_internal.drift_of(definition) is null;
    end if;
    return null;
end;
$$;

create or replace function agent_internal.tenant_of(_agent agent.agent)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select _agent.tenant $$;

-- Check an agent's persona with the rights of the role that changes the agent.
create or replace function agent_internal.check_agent()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.effective_agent(new);
    return new;
end;
$$;

create or replace function agent_internal.check_examples()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _example jsonb;
begin
    for _example in select jsonb_array_elements(new.examples) loop
        perform agent_internal.check_keys(format('agent "%s": examples', new.name), _example, '{text,tool,arguments}');
        if jsonb_typeof(_example -> 'text') is distinct from 'string' or jsonb_typeof(_example -> 'tool') is distinct from 'string'
           or jsonb_typeof(coalesce(_example -> 'arguments', '{}')) <> 'object' then
            raise exception 'agent "%": examples: expected {"text": "...", "tool": "...", "arguments": {...}}', new.name using errcode = 'WA010';
        end if;
    end loop;
    return new;
end;
$$;

-- Who may not change an agent makes no node of a workflow of it: see agent_internal.check_use().
create or replace function agent_internal.check_agents_of_nodes()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.check_use(new.tenant, n ->> 'agent') from jsonb_array_elements(new.source -> 'nodes') n where n ? 'agent';
    return null;
end;
$$;

-- Why an agent does not act under its name, which is cut as those of principals are: a person or a service has it, and the agent would act as that one; NULL: it can.
create or replace function agent_internal.name_refusal(_tenant text, _agent text)
    returns text
    language plpgsql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select format('agent "%s" has the name of a principal of kind %s', _agent, p.kind)
          from agent.principal p where p.tenant = _tenant and p.name = _agent::name and p.kind <> 'agent');
end;
$$;

create or replace function agent_internal.check_name()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _refusal constant text := agent_internal.name_refusal(new.tenant, new.name);
begin
    if octet_length(new.name) > 63 then  -- its principal would be that of another name
        raise exception 'the name of agent "%" has % bytes', new.name, octet_length(new.name)
            using errcode = 'WA013', hint = 'Use at most 63.';
    end if;
    if _refusal is not null then
        raise exception '%', _refusal using errcode = 'WA013', detail = 'Its tools would act as that one.', hint = 'Use another name.';
    end if;
    return new;
end;
$$;

-- The other way round.
create or replace function agent_internal.check_principal_name()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if exists (select from agent.agent g where g.tenant = new.tenant and g.name::name = new.name) then
        raise exception 'agent "%" has the name of the new principal of kind %', new.name, new.kind
            using errcode = 'WA020', detail = 'Its tools would act as that one.', hint = 'Use another name.';
    end if;
    return new;
end;
$$;

create or replace function agent_internal.freeze_agent()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        delete from agent.agent_version v where v.tenant = old.tenant and v.agent = old.name;
        return null;
    end if;
    insert into agent.agent_version (tenant, agent, version, definition)
    values (new.tenant, new.name, new.version, to_jsonb(new) || jsonb_build_object('persona_version', (agent_internal.persona_of(new)).version));
    return null;
end;
$$;

-- Make a version of an agent current again: a new version that equals it, with the persona as it was.
--
-- Returns the number of the new version.  Raises WA021 if there is no such version.
create or replace function agent.rollback(agent text, version integer)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _old     jsonb;
    _new     integer;
    _columns text;
begin
    select v.definition into _old from agent.agent_version v 
     where v.tenant = coalesce(agent.current_tenant(), 'default') and v.agent = rollback.agent and v.version = rollback.version;
    if _old is null then
        raise exception 'agent "%" has no version %', rollback.agent, rollback.version
            using errcode = 'WA021', hint = 'The versions are in agent.agent_version.';
    end if;
    select string_agg(quote_ident(a.attname), ', ') into _columns
      from pg_catalog.pg_attribute a
     where a.attrelid = 'agent.agent'::regclass and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
       and a.attname not in ('tenant', 'name', 'version', 'updated_at');
    execute format(
        'update agent.agent g set (%1$s, version) = (select %1$s, g.version + 1 from jsonb_populate_record(g, $1)) '
        'where g.name = $2 and g.tenant = $3 returning g.version', _columns)
       into _new using _old, rollback.agent, coalesce(agent.current_tenant(), 'default');
    return _new;
end;
$$;
comment on function agent.rollback(text, integer) is 'Make a version of an agent current again, as a new version';

-- Count one request in each of several limits, or in none if one of them is reached.
--
-- No minute, wherever it begins, has more requests than the limit.
--
-- Returns: the seconds until there is room; NULL: counted.
create or replace function agent_internal.take_rate(_tenant text, _names text[], _limits integer[])
    returns double precision
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now  timestamptz;
    _wait interval;
begin
    insert into agent_internal.rate (tenant, name) select _tenant, n from unnest(_names) n order by n on conflict do nothing;
    perform from agent_internal.rate r where r.tenant = _tenant and r.name = any (_names) order by r.name for update;
    _now := agent_internal.now();
    -- A later time is of a statement that began after this one but took the lock first, or from before the clock
    -- was set back: as if it were now.
    update agent_internal.rate r
       set taken = array(select least(t, _now) from unnest(r.taken) t where t > _now - interval '1 minute' order by t)
     where r.tenant = _tenant and r.name = any (_names);
    select max(r.taken[cardinality(r.taken) - l.most + 1] + interval '1 minute' - _now) into _wait
      from unnest(_names, _limits) as l (name, most) join agent_internal.rate r on r.tenant = _tenant and r.name = l.name
     where cardinality(r.taken) >= l.most;
    if _wait is not null then
        return greatest(extract(epoch from _wait), 0.001);
    end if;
    update agent_internal.rate r set taken = r.taken || _now where r.tenant = _tenant and r.name = any (_names);
    return null;
end;
$$;
comment on function agent_internal.take_rate(text, text[], integer[]) is 'Count a request in limits per minute, or return the seconds to wait';

-- The same for a request of a run to its model.
create or replace function agent_internal.take_request(_run bigint, _lease bigint, _names text[], _limits integer[])
    returns double precision
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.fence(_run, _lease);
    return agent_internal.take_rate(
        (select r.tenant from agent.run r where r.id = _run), _names, _limits);
end;
$$;
comment on function agent_internal.take_request(bigint, bigint, text[], integer[]) is 'Count a request of a run to its model in limits per minute';
