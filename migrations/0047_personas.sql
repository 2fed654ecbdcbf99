-- Personas, the versions of personas and agents, and what an agent's version consists of.
--
-- An agent has a persona, or none.  What a run uses follows from model, persona and agent, in this order:
--
--   model           the agent's, else the persona's
--   parameters      of the model, overridden by those of the persona, overridden by those of the agent
--   prompt          the persona's prompt, rules and traits, then the agent's prompt
--   limits          the lower one of persona and agent
--
-- Each change of a persona or an agent is a version that never changes.  A run is pinned to the version of its attachment,
-- which holds all of this as it was.
--
--   WA021   a persona or a version of an agent does not exist, or is in use

-- Whether a text has what looks like a key of a provider, an access key, a private key or a signed token.
create function agent_internal.has_key(_text text)
    returns boolean
    language sql
    immutable
    parallel safe
as $$
    select _text ~ ('(^|[^A-Za-z0-9])(sk-[A-Za-z0-9_-]{20,}|(AKIA|ASIA)[A-Z0-9]{16}|AIza[A-Za-z0-9_-]{35}|gh[pousr]_[A-Za-z0-9]{36}'
                 || '|github_pat_[A-Za-z0-9_]{22,}|xox[abposr]-[A-Za-z0-9-]{10,}|glpat-[A-Za-z0-9_-]{20}|wla_[A-Za-z0-9_-]{20,})')
        or _text ~ '-----BEGIN [A-Z ]*PRIVATE KEY-----'
        or _text ~ '(^|[^A-Za-z0-9_-])eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}'
$$;

-- For CHECK constraints: true, or an error that names the column and says where keys belong.
create function agent_internal.no_key(_text text, _column text)
    returns boolean
    language plpgsql
    immutable
as $$
begin
    if agent_internal.has_key(_text) then
        raise exception 'column "%" holds what looks like a key or token', _column
            using errcode = '23514',
                  detail = 'Keys are never kept in the database.',
                  hint = 'Set an environment variable or systemd credential of the worker, and store its name: credential of a model, {secret:NAME} in a tool over HTTP.';
    end if;
    return true;
end;
$$;
comment on function agent_internal.no_key(text, text) is 'Whether a text holds no key; raises otherwise, naming the column';

create table agent.persona (
    tenant              text collate "C" not null default agent.current_tenant() references agent.tenant,
    name                text not null check (name <> ''),
    version             integer not null default 1,
    system_prompt       text not null default '',
    traits              jsonb not null default '{}' check (jsonb_typeof(traits) = 'object'),
    rules               text[] not null default '{}' check (array_position(rules, null) is null),
    model               text,
    parameters          jsonb not null default '{}' check (jsonb_typeof(parameters) = 'object'),
    max_steps           integer check (max_steps > 0),
    max_tokens          bigint check (max_tokens > 0),
    max_cost            numeric check (max_cost > 0),
    max_seconds         integer check (max_seconds > 0),
    max_output_tokens   integer check (max_output_tokens > 0),
    requests_per_minute integer check (requests_per_minute between 1 and 6000),
    updated_at          timestamptz not null default now(),
    primary key (tenant, name),
    constraint holds_no_key check (
        agent_internal.no_key(system_prompt, 'system_prompt') and agent_internal.no_key(traits::text, 'traits')
        and agent_internal.no_key(rules::text, 'rules') and agent_internal.no_key(parameters::text, 'parameters'))
);
comment on table agent.persona is 'Personas: who agents are; several agents can share one';
comment on column agent.persona.tenant is 'Tenant that it belongs to';
comment on column agent.persona.name is 'Name that agents use';
comment on column agent.persona.version is 'Incremented by each change';
comment on column agent.persona.system_prompt is 'Instructions for the model, before those of the agent';
comment on column agent.persona.traits is 'Traits by name; part of the prompt';
comment on column agent.persona.rules is 'Rules, in order; part of the prompt';
comment on column agent.persona.model is 'Model of agents that name none';
comment on column agent.persona.parameters is 'Sent with every call; override those of the model, and are overridden by those of the agent';
comment on column agent.persona.max_steps is 'Maximum number of replies of the model in one run; of this limit and the agent''s, the lower applies, and so with all that follow';
comment on column agent.persona.max_tokens is 'Maximum tokens of one run; NULL: no limit';
comment on column agent.persona.max_cost is 'Maximum cost of one run in US dollars; NULL: no limit';
comment on column agent.persona.max_seconds is 'Maximum duration of one run in seconds; NULL: no limit';
comment on column agent.persona.max_output_tokens is 'Maximum output tokens of one call; NULL: no limit';
comment on column agent.persona.requests_per_minute is 'Maximum calls of models in any minute by all agents of the persona together; NULL: no limit';
comment on column agent.persona.updated_at is 'Time of the last change';

create trigger audit_change after insert or update or delete on agent.persona
    for each row execute function agent_internal.audit_change('persona', 'name', 'version');

create table agent.persona_version (
    tenant     text collate "C" not null,
    persona    text not null,
    version    integer not null,
    definition jsonb not null,
    made_by    name not null default agent.current_principal(),
    made_at    timestamptz not null default now(),
    primary key (tenant, persona, version),
    foreign key (tenant, persona) references agent.persona on delete cascade
);
comment on table agent.persona_version is 'Versions of personas, which never change';
comment on column agent.persona_version.tenant is 'Tenant of the persona';
comment on column agent.persona_version.persona is 'Persona';
comment on column agent.persona_version.version is 'Number of the version';
comment on column agent.persona_version.definition is 'The row of agent.persona';
comment on column agent.persona_version.made_by is 'Principal that made it';
comment on column agent.persona_version.made_at is 'Time of the change';

alter table agent.agent
    alter model drop not null,
    add persona text,
    add persona_version integer,
    add requests_per_minute integer check (requests_per_minute between 1 and 6000),
    add thinking_visible boolean not null default true,
    add pause_before_tool boolean not null default false,
    add pause_after_tool boolean not null default false,
    add constraint has_model check (num_nonnulls(model, persona) > 0),
    add constraint version_of_persona check (persona_version is null or persona is not null);
alter table agent.agent add constraint holds_no_key check (
    agent_internal.no_key(system_prompt, 'system_prompt') and agent_internal.no_key(parameters::text, 'parameters')
    and agent_internal.no_key(examples::text, 'examples')) not valid;
alter table agent.model add constraint holds_no_key check (
    agent_internal.no_key(base_url, 'base_url') and agent_internal.no_key(credential, 'credential')
    and agent_internal.no_key(parameters::text, 'parameters')) not valid;
alter table agent.tool add constraint holds_no_key check (
    agent_internal.no_key(target, 'target') and agent_internal.no_key(description, 'description')
    and agent_internal.no_key(http::text, 'http')) not valid;
alter table agent.thread add constraint holds_no_key check (agent_internal.no_key(context::text, 'context')) not valid;
comment on column agent.agent.model is 'Model that it calls; NULL: that of its persona';
comment on column agent.agent.persona is 'Persona; NULL: none';
comment on column agent.agent.persona_version is 'Version of the persona that it keeps; NULL: the latest';
comment on column agent.agent.requests_per_minute is 'Maximum calls of models in any minute by all runs of the agent together; a run that would exceed it waits. NULL: no limit';
comment on column agent.agent.thinking_visible is 'Whether the reasoning of the model is recorded in readable form';
comment on column agent.agent.pause_before_tool is 'Whether a run waits for a person before each call';
comment on column agent.agent.pause_after_tool is 'Whether a run waits for a person after each call';

create table agent.agent_version (
    tenant     text collate "C" not null default agent.current_tenant() references agent.tenant,
    agent      text not null,
    version    integer not null,
    definition jsonb not null,
    made_by    name not null default agent.current_principal(),
    made_at    timestamptz not null default now(),
    primary key (tenant, agent, version)
);
comment on table agent.agent_version is 'Versions of agents, which never change; agent.rollback() makes one current again';
comment on column agent.agent_version.tenant is 'Tenant of the agent';
comment on column agent.agent_version.agent is 'Agent';
comment on column agent.agent_version.version is 'Number of the version';
comment on column agent.agent_version.definition is 'The row of agent.agent, with the version of its persona';
comment on column agent.agent_version.made_by is 'Principal that made it';
comment on column agent.agent_version.made_at is 'Time of the change';

create function agent_internal.tenant_of(_agent agent.agent)
    returns text
    language sql
    stable
as $$ select _agent.tenant $$;

-- The persona of an agent, as of the version that the agent keeps, or the latest; all columns are NULL without one.
--
-- Raises WA021 if there is no such persona, or no such version of it.
create function agent_internal.persona_of(_agent agent.agent)
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
create function agent_internal.persona_prompt(_persona agent.persona)
    returns text
    language sql
    stable
as $$
    select concat_ws(E'\n\n', nullif(_persona.system_prompt, ''),
        (select E'Rules:\n' || string_agg(format('%s. %s', n, r), E'\n' order by n)
           from unnest(_persona.rules) with ordinality as x (r, n)),
        (select E'Traits:\n' || string_agg(format('- %s: %s', t.key, case jsonb_typeof(t.value) when 'string' then t.value #>> '{}'
                                                                     else t.value::text end), E'\n' order by t.key collate "C")
           from jsonb_each(_persona.traits) t))
$$;

-- An agent as its runs use it: with what its persona and its model add.
create function agent_internal.effective_agent(_agent agent.agent)
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
create function agent_internal.behavior_of(_agent agent.agent)
    returns jsonb
    language sql
    stable
as $$
    select jsonb_strip_nulls(jsonb_build_object(
        'persona', _agent.persona, 'persona_version', _agent.persona_version,
        'requests_per_minute', _agent.requests_per_minute,
        'persona_requests_per_minute', (agent_internal.persona_of(_agent)).requests_per_minute,
        'thinking_visible', nullif(_agent.thinking_visible, true),
        'pause_after_tool', nullif(_agent.pause_after_tool, false)))
$$;

-- Tools of a definition, with the approvals that an agent requires.
create function agent_internal.with_approvals(_tools jsonb, _agent agent.agent)
    returns jsonb
    language sql
    stable
as $$
    select coalesce(jsonb_agg(case when _agent.pause_before_tool then t || '{"approval": true}' else t end order by n), '[]')
      from jsonb_array_elements(_tools) with ordinality as x (t, n)
$$;

create function agent.effective_parameters(agent text)
    returns jsonb
    language sql
    stable
as $$
    select (agent_internal.effective_agent(g)).parameters from agent.agent g
     where g.name = effective_parameters.agent and g.tenant = coalesce(agent.current_tenant(), 'default')
$$;
comment on function agent.effective_parameters(text) is 'Parameters that are sent with each call of an agent: of its model, its persona and itself';

-- Number a change of a persona, and refuse to remove one that is in use.
create function agent_internal.check_persona()
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
create trigger check_persona before insert or delete on agent.persona
    for each row execute function agent_internal.check_persona();
create trigger check_change before update on agent.persona
    for each row when (old.* is distinct from new.*) execute function agent_internal.check_persona();

-- Store a version of a persona, and give its agents, except those that keep another one, a version with it.
create function agent_internal.freeze_persona()
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
create trigger freeze_persona after insert on agent.persona
    for each row execute function agent_internal.freeze_persona();
create trigger freeze_change after update on agent.persona
    for each row when (old.version <> new.version) execute function agent_internal.freeze_persona();

create function agent_internal.touch_agents()
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
create trigger touch_agents after update on agent.persona
    for each row when (old.version <> new.version) execute function agent_internal.touch_agents();

-- Check an agent's persona with the rights of the role that changes the agent.
create function agent_internal.check_agent()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent_internal.effective_agent(new);
    return new;
end;
$$;
create trigger check_agent before insert or update on agent.agent
    for each row when (new.persona is not null) execute function agent_internal.check_agent();

create function agent_internal.freeze_agent()
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
create trigger freeze_agent after insert or delete on agent.agent
    for each row execute function agent_internal.freeze_agent();
create trigger freeze_change after update on agent.agent
    for each row when (old.version <> new.version) execute function agent_internal.freeze_agent();

insert into agent.agent_version (tenant, agent, version, definition) select g.tenant, g.name, g.version, to_jsonb(g) from agent.agent g;

-- Make a version of an agent current again: a new version that equals it, with the persona as it was.
--
-- Returns the number of the new version.  Raises WA021 if there is no such version.
create function agent.rollback(agent text, version integer)
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

-- Requests of the last minute, by what limits them: an agent, a persona, or a target of egress.
create table agent_internal.rate (
    tenant text collate "C" not null references agent.tenant on delete cascade,
    name   text not null,
    taken  timestamptz[] not null default '{}',
    primary key (tenant, name)
);
comment on table agent_internal.rate is 'Times of the requests that limits per minute count, oldest first';

-- Count one request in each of several limits, or in none if one of them is reached.
--
-- No minute, wherever it begins, has more requests than the limit.
--
-- Returns: the seconds until there is room; NULL: counted.
create function agent_internal.take_rate(_tenant text, _names text[], _limits integer[])
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
create function agent_internal.take_request(_run bigint, _lease bigint, _names text[], _limits integer[])
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

-- Continue a run that waits for a person before or after a call: approve what it waits for.
--
-- Returns the number of calls.  Raises WA003 if it waits for none.
create function agent.resume_run(run_id bigint)
    returns integer
    language plpgsql
as $$
declare
    _ids constant bigint[] := array(select a.id from agent.approval a
                                     where a.run_id = resume_run.run_id and a.state = 'pending' order by a.id);
begin
    if _ids = '{}' then
        raise exception 'run % does not wait for a person', resume_run.run_id using errcode = 'WA003';
    end if;
    perform agent.approve(i) from unnest(_ids) i;
    return cardinality(_ids);
end;
$$;
comment on function agent.resume_run(bigint) is 'Continue a run that waits for a person before or after a call';

select agent_internal.isolate(t) from unnest('{agent.persona, agent.persona_version, agent.agent_version}'::regclass[]) t;
create trigger require_developer before insert or update or delete on agent.persona
    for each statement execute function agent_internal.require_developer();
revoke all on agent.persona, agent.persona_version, agent.agent_version from public;
revoke all on function agent_internal.has_key(text), agent_internal.no_key(text, text), agent_internal.tenant_of(agent.agent),     agent_internal.persona_of(agent.agent), agent_internal.persona_prompt(agent.persona), agent_internal.effective_agent(agent.agent),
    agent_internal.behavior_of(agent.agent), agent_internal.with_approvals(jsonb, agent.agent),
    agent.effective_parameters(text), agent_internal.check_persona(), agent_internal.freeze_persona(), agent_internal.touch_agents(),
    agent_internal.check_agent(), agent_internal.freeze_agent(), agent.rollback(text, integer), agent_internal.take_rate(text, text[], integer[]),
    agent_internal.take_request(bigint, bigint, text[], integer[]), agent.resume_run(bigint) from public;
select agent_internal.isolate('agent_internal.rate');
revoke all on agent_internal.rate from public;
-- A role that writes a row needs the functions of its constraints.
select agent_internal.permit(c, 'execute on function agent_internal.has_key(text), agent_internal.no_key(text, text)')
  from unnest('{runner, developer, member}'::text[]) c;
select agent_internal.permit(c, 'select on agent.persona, agent.persona_version, agent.agent_version',
                                'execute on function agent_internal.tenant_of(agent.agent), agent_internal.persona_of(agent.agent), '
                                'agent_internal.persona_prompt(agent.persona), agent_internal.effective_agent(agent.agent), '
                                'agent_internal.behavior_of(agent.agent), agent_internal.with_approvals(jsonb, agent.agent), '
                                'agent.effective_parameters(text)',
                                'execute on function agent_internal.suggest(text, text[]), agent_internal.edit_distance(text, text)')
  from unnest('{viewer, developer}'::text[]) c;
select agent_internal.permit('developer', 'insert, update, delete on agent.persona',
                             'execute on function agent.rollback(text, integer)');
select agent_internal.permit('runner', 'execute on function agent_internal.take_request(bigint, bigint, text[], integer[])');
select agent_internal.permit('approver', 'execute on function agent.resume_run(bigint)');
