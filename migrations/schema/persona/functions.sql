-- The persona of an agent, as of the version that the agent keeps, or the latest; all columns are NULL without one.
--
-- Raises WA021 if there is no such persona, or no such version of it.
create or replace function agent_internal.persona_of(_agent agent.agent)
    returns agent.persona
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant  constant text := _agent.tenant;
    _persona agent.persona;
begin
    if _agent.persona is null then
        return null;
    elsif _agent.persona_version is null then
        select * into _persona from agent.persona p where p.tenant = _tenant and p.name = _agent.persona;
    else
        select p.* into _persona
          from agent.persona_version v, jsonb_populate_record(null::agent.persona, v.definition) p
         where v.tenant = _tenant and v.persona = _agent.persona and v.version = _agent.persona_version;
    end if;
    if _persona.name is null then
        raise exception 'agent "%": persona "%"% does not exist', _agent.name, _agent.persona,
            coalesce(' of version ' || _agent.persona_version, '')
            using errcode = 'WA021',
                  hint = agent_internal.suggest(_agent.persona, (select array_agg(p.name) from agent.persona p where p.tenant = _tenant));
    end if;
    return _persona;
end;
$$;

-- The prompt of a persona: its text, its rules in order, its traits by name.
create or replace function agent_internal.persona_prompt(_persona agent.persona)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select concat_ws(E'\n\n', nullif(_persona.system_prompt, ''),
        (select E'Rules:\n' || string_agg(format('%s. %s', n, r), E'\n' order by n)
           from unnest(_persona.rules) with ordinality as x (r, n)),
        (select E'Traits:\n' || string_agg(format('- %s: %s', t.key, case jsonb_typeof(t.value) when 'string' then t.value #>> '{}'
                                                                     else t.value::text end), E'\n' order by t.key collate "C")
           from jsonb_each(_persona.traits) t))
$$;

-- An agent as its runs use it: with what its persona and its model add.
create or replace function agent_internal.effective_agent(_agent agent.agent)
    returns agent.agent
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _persona constant agent.persona := agent_internal.persona_of(_agent);
begin
    _agent.model := coalesce(_agent.model, _persona.model);
    if _agent.model is null then
        raise exception 'neither agent "%" nor its persona "%" has a model', _agent.name, _persona.name
            using errcode = 'WA014', hint = 'Set the column model of one of them.';
    end if;
    _agent.parameters := coalesce((agent_internal.model_of(_agent.tenant, _agent.model)).parameters, '{}')
                         || coalesce(_persona.parameters, '{}') || _agent.parameters;
    if _persona.name is not null then
        _agent.system_prompt := concat_ws(E'\n\n', nullif(agent_internal.persona_prompt(_persona), ''), nullif(_agent.system_prompt, ''));
        _agent.max_steps := least(_agent.max_steps, _persona.max_steps);
        _agent.max_tokens := least(_agent.max_tokens, _persona.max_tokens);
        _agent.max_cost := least(_agent.max_cost, _persona.max_cost);
        _agent.max_seconds := least(_agent.max_seconds, _persona.max_seconds);
        _agent.max_output_tokens := least(_agent.max_output_tokens, _persona.max_output_tokens);
        _agent.persona_version := _persona.version;
    end if;
    return _agent;
end;
$$;
comment on function agent_internal.effective_agent(agent.agent) is 'An agent with what its persona and its model add';

-- What a definition has of an agent beside prompt, model, tools and limits; an agent that leaves all of it as it is has
-- nothing of it.
create or replace function agent_internal.behavior_of(_agent agent.agent)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'persona', _agent.persona, 'persona_version', _agent.persona_version,
        'requests_per_minute', _agent.requests_per_minute,
        'persona_requests_per_minute', (agent_internal.persona_of(_agent)).requests_per_minute,
        'thinking_visible', nullif(_agent.thinking_visible, true),
        'pause_after_tool', nullif(_agent.pause_after_tool, false), 'tier', nullif(_agent.tier, 'standard'),
        'reuse_seconds', extract(epoch from _agent.reuse), 'rows_per_request', _agent.rows_per_request))
$$;

-- What a definition has of the model that is asked instead of the agent's: parameters of the first model are not sent to it.
create or replace function agent_internal.fallback_of(_agent agent.agent)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when _agent.fallback is null then '{}' else jsonb_build_object(
        'fallback', _agent.fallback,
        'fallback_parameters', coalesce((agent_internal.persona_of(_agent)).parameters, '{}') || _agent.parameters) end
$$;

-- What a definition has of the models that are asked before the agent's own: parameters of persona and agent are sent to them, as to
-- a fall-back.  What the embedded model decides by is kept, so that no later change of its row lowers it.
create or replace function agent_internal.cascade_of(_agent agent.agent)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select case when _agent.cascade = '{}' then '{}' else jsonb_build_object('control', _agent.cascade_control, 'stages', (
        select jsonb_agg(jsonb_build_object('model', s.model, 'parameters', o.given || case when m.provider = 'embedded' then jsonb_build_object(
                   'margin', coalesce((m.parameters || o.given) -> 'margin', '0.8'),  -- planted: margin-not-kept
                   'threshold', coalesce(to_jsonb(s.threshold::numeric), (m.parameters || o.given) -> 'threshold', '0.5')) else '{}' end) order by s.number)
          from agent_internal.stages(_agent.cascade) s
               cross join lateral agent_internal.model_of(_agent.tenant, s.model) m
               cross join lateral (select coalesce((agent_internal.persona_of(_agent)).parameters, '{}') || _agent.parameters as given) o)) end
$$;

-- Tools of a definition, with the approvals that an agent requires.
create or replace function agent_internal.with_approvals(_tools jsonb, _agent agent.agent)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(jsonb_agg(case when _agent.pause_before_tool then t || '{"approval": true}' else t end order by n), '[]')
      from jsonb_array_elements(_tools) with ordinality as x (t, n)
$$;

create or replace function agent.effective_parameters(agent text)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select (agent_internal.effective_agent(g)).parameters from agent.agent g
     where g.name = effective_parameters.agent and g.tenant = coalesce(agent.current_tenant(), 'default')
$$;
comment on function agent.effective_parameters(text) is 'Parameters that are sent with each call of an agent: of its model, its persona and itself';

-- Number a change of a persona, and refuse to remove one that is in use.
create or replace function agent_internal.check_persona()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _user text;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not change personas', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    end if;
    if tg_op <> 'DELETE' and new.model is not null and ((agent_internal.model_of(new.tenant, new.model)).name is null
           or agent_internal.only_embeds(agent_internal.model_of(new.tenant, new.model))) then
        perform agent_internal.check_model(new.model, new.tenant);
    end if;
    if tg_op = 'INSERT' then
        new.version := 1;
        return new;
    elsif tg_op = 'DELETE' or new.name <> old.name or new.tenant <> old.tenant then
        select g.name into _user from agent.agent g where g.persona = old.name and g.tenant = old.tenant limit 1;
        if found then
            raise exception 'persona "%" is used by agent "%"', old.name, _user using errcode = 'WA021';
        end if;
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    new.version := old.version + 1;
    new.updated_at := now();
    return new;
end;
$$;

-- Store a version of a persona, and give its agents, except those that keep another one, a version with it.
create or replace function agent_internal.freeze_persona()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent.persona_version (tenant, persona, version, definition) values (new.tenant, new.name, new.version, to_jsonb(new));
    return null;
end;
$$;

create or replace function agent_internal.touch_agents()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.agent g set version = g.version + 1
     where g.persona = new.name and g.tenant = new.tenant and g.persona_version is null;
    return null;
end;
$$;
