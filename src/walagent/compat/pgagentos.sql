-- The schemas aos_* as views and functions over walagent's tables: walagent database pgagentos install.
--
-- Each statement can be executed again.  Functions have the rights of the caller, except where they say so; whose rows are
-- seen is decided by row-level security, as everywhere.
--
-- A tenant that is inserted belongs to the login that inserted it, which is then its admin.  The setting aos.tenant_id, which
-- set_tenant() sets, chooses among the tenants of a login; a tenant that the login does not have is refused.

-- A schema that exists is used only if it belongs to the role that executes this: its owner could exchange what is in it.
do $$
declare
    _schema text;
    _owner  name;
begin
    foreach _schema in array '{aos_auth,aos_meta,aos_persona,aos_skills,aos_core,aos_agent,aos_multi_agent,aos_collab}'::text[] loop
        select pg_get_userbyid(n.nspowner) into _owner from pg_namespace n where n.nspname = _schema;
        if not found then
            execute format('create schema %I', _schema);
        elsif _owner <> current_user then
            raise exception 'schema "%" belongs to role "%", expected "%"', _schema, _owner, current_user using errcode = '42501';
        end if;
        execute format('comment on schema %I is %L', _schema, 'walagent database pgagentos');
    end loop;
end;
$$;

-- Identity.

create table if not exists aos_auth.membership (
    login     name,
    tenant    text collate "C",
    principal name not null,
    primary key (login, tenant),
    foreign key (tenant, principal) references agent.principal on delete cascade
);
comment on table aos_auth.membership is 'Tenants that a login inserted or joined with a token, and who it is in them';
revoke all on aos_auth.membership from public;
-- The digest of the token that a login joined with; NULL: it inserted the tenant.  The right ends with the token.
do $$
begin
    if exists (select from pg_attribute where attrelid = 'aos_auth.membership'::regclass and attname = 'token' and not attisdropped) then
        return;
    end if;
    alter table aos_auth.membership add token bytea references agent.token (digest) on delete cascade;
    -- Of a row that has no token, nobody knows which one it was: who did not insert the tenant joins again.
    delete from aos_auth.membership m
     where not exists (select from agent.role_grant g
                        where g.tenant = m.tenant and g.principal = m.principal and g.role = 'admin' and g.granted_by = m.principal)
        or m.principal <> m.login
           and not exists (select from agent_internal.login l where (l.login, l.taken_by, l.principal) = (m.login, 'login', m.principal));
end;
$$;

-- Stable IDs of what has none: of a persona or agent of a tenant.
create or replace function aos_meta.id_of(_kind text, _tenant text, _name text)
    returns uuid language sql immutable set search_path = pg_catalog, pg_temp
    as $$ select md5(concat_ws('/', _kind, _tenant, _name))::uuid $$;

-- The tenants that the login of the session can act in, as whom, and how far its token goes.  Nothing for code of others.
--
-- With the owner's rights, to which row-level security applies: it looks at each tenant as the principal there.
create or replace function aos_auth.own_tenants()
    returns table (tenant agent.tenant, principal name, scopes text[], until timestamptz)
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _before constant text := coalesce(current_setting('walagent.identity', true), '');
    _each   aos_auth.membership;
    _token  record;
begin
    if agent_internal.in_code() then
        return;
    end if;
    for _each in select m.* from aos_auth.membership m where m.login = session_user loop
        scopes := '{}';
        until := null;
        if _each.token is not null then
            select * into _token from agent_internal.find_token(_each.token);
            continue when _token.principal is null;
            scopes := _token.scopes;
            until := _token.until;
        end if;
        principal := _each.principal;
        perform agent_internal.assume(_each.tenant, principal, scopes, until);
        for tenant in select t.* from agent.tenant t
                       where t.name = _each.tenant and t.active
                         and exists (select from agent.principal p where p.tenant = t.name and p.name = _each.principal and p.active) loop
            return next;
        end loop;
    end loop;
    perform set_config('walagent.identity', _before, true);
end;
$$;

-- Act in a tenant of the session's login until the end of the transaction: the one that is given; or that of a conversation or
-- turn; or that of aos.tenant_id, if it is set; or the only one that the login has.
--
-- With the owner's rights.  An identity from a token is kept.  Code of others, such as a trigger below a statement, enters
-- nothing.  Raises 42501 unless the login is an active principal of it.
create or replace function aos_auth.enter(_tenant uuid default null, _thread uuid default null, _turn bigint default null)
    returns text
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _now   constant text := coalesce(current_setting('walagent.identity', true), '');
    _want  constant text := coalesce(_tenant::text, case when coalesce(_thread::text, _turn::text) is null
                                                         then nullif(current_setting('aos.tenant_id', true), '') end);
    _found record;
begin
    if agent_internal.in_code() or _now <> '' and _now is distinct from current_setting('aos.entered', true) then
        if _want is null or exists (select from agent.tenant t where t.id::text = _want and t.name = agent.current_tenant()) then
            return agent.current_tenant();
        end if;
        raise exception 'principal "%" is not in tenant %', coalesce(agent.current_principal(), ''), _want using errcode = '42501';
    end if;
    for _found in
        select (o.tenant).name as tenant, (o.tenant).id::text as id, o.principal, o.scopes, o.until, count(*) over () as mine
          from aos_auth.own_tenants() o
         order by (o.tenant).id::text = current_setting('aos.tenant_id', true) desc, (o.tenant).created_at, (o.tenant).name
    loop
        continue when _want is not null and _found.id <> _want;
        perform agent_internal.assume(_found.tenant, _found.principal, _found.scopes, _found.until);
        perform set_config('aos.entered', current_setting('walagent.identity'), true);
        if _want is not null
           or exists (select from agent.thread t where t.tenant = _found.tenant and t.id = _thread)
           or exists (select from agent.run r where r.tenant = _found.tenant and r.id = _turn)
           or _thread is null and _turn is null and _found.mine = 1 then
            return _found.tenant;
        end if;
        perform set_config('walagent.identity', _now, true);
    end loop;
    if _want is not null and not exists (select from agent.tenant t where t.id::text = _want and t.name = agent.current_tenant()) then
        raise exception '"%" is not in tenant %', agent.current_principal(), _want
            using errcode = '42501', hint = 'The tenants of this login: select tenant_id, name from aos_auth.tenant.';
    end if;
    return agent.current_tenant();
end;
$$;

create or replace function aos_auth.set_tenant(tenant_id uuid)
    returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter(set_tenant.tenant_id);
    perform pg_catalog.set_config('aos.tenant_id', set_tenant.tenant_id::text, false);
end;
$$;

create or replace function aos_auth.current_tenant()
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return (select t.id from agent.tenant t where t.name = agent.current_tenant()); end; $$;

create or replace function aos_auth.current_principal()
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    return (select p.id from agent.principal p where p.tenant = agent.current_tenant() and p.name = agent.current_principal());
end;
$$;

create or replace function aos_auth.is_admin()
    returns boolean language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return agent.has_role('admin'); end; $$;

-- With the owner's rights: the caller's tenants.
create or replace function aos_auth.tenants()
    returns setof agent.tenant language sql volatile security definer set search_path = pg_catalog, pg_temp
as $$
    select t.* from agent.tenant t where t.name = agent.current_tenant()
    union all
    select (o.tenant).* from aos_auth.own_tenants() o where (o.tenant).name is distinct from agent.current_tenant()
$$;
create or replace view aos_auth.tenant with (security_invoker) as
    select t.id as tenant_id, t.name, t.display_name, t.active as is_active, t.settings, t.created_at from aos_auth.tenants() t;

-- Create a tenant, of which the caller becomes the admin.  With the owner's rights: as the first principal of the tenant.
create or replace function aos_auth.insert_tenant()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _me constant record := agent_internal.identity();
begin
    if coalesce(current_setting('walagent.identity', true), '') <> ''
       or not agent_internal.is_operator() and (not _me.named or _me.tenant <> 'default' or not agent.has_role('admin')) then
        raise exception '"%" may not create tenants', _me.principal
            using errcode = '42501', hint = 'Use the login of a principal that is an admin of the tenant default, or walagent tenants add.';
    end if;
    new.tenant_id := coalesce(new.tenant_id, gen_random_uuid());
    perform agent_internal.assume(new.name, _me.principal);
    insert into agent.tenant (name, id, display_name, settings)
    values (new.name, new.tenant_id, coalesce(new.display_name, ''), coalesce(new.settings, '{}'));
    insert into agent.principal (tenant, name) values (new.name, _me.principal);
    insert into agent.role_grant (tenant, principal, role, granted_by) values (new.name, _me.principal, 'admin', _me.principal);
    insert into aos_auth.membership (login, tenant, principal) values (session_user, new.name, _me.principal);
    perform set_config('walagent.identity', '', true);
    perform set_config('aos.tenant_id', new.tenant_id::text, false);
    return new;
end;
$$;
create or replace trigger insert_tenant instead of insert on aos_auth.tenant for each row execute function aos_auth.insert_tenant();

create or replace function aos_auth.principals()
    returns setof agent.principal language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return query select p.* from agent.principal p where p.tenant = agent.current_tenant(); end; $$;
create or replace view aos_auth.principal with (security_invoker) as
    select p.id as principal_id, (select t.id from agent.tenant t where t.name = p.tenant) as tenant_id, p.kind as principal_type,
           p.login as db_role_name, p.display_name, p.email, p.active as is_active, p.metadata, p.created_at, p.name
      from aos_auth.principals() p;
create or replace function aos_auth.insert_principal()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter(new.tenant_id);
    new.name := coalesce(new.name, nullif(new.display_name, '')::name);
    new.principal_id := agent.create_principal(new.name, coalesce(new.principal_type, 'user'), new.db_role_name,
                                               coalesce(new.display_name, ''), new.email);
    return new;
end;
$$;
create or replace trigger insert_principal instead of insert on aos_auth.principal for each row execute function aos_auth.insert_principal();

-- Models.  model_id is the name in agent.model.

create or replace function aos_meta.models()
    returns setof agent.model language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return query select m.* from agent.model m; end; $$;
create or replace view aos_meta.llm_model_registry with (security_invoker) as
    select m.name as model_id, m.provider, m.model_id as model_name, m.name as display_name, m.context_window, m.max_output_tokens,
           m.parameters as default_params, m.base_url as endpoint_template, m.credential as api_key_env_var, m.enabled as is_active,
           s.successor
      from aos_meta.models() m
           left join (values ('gpt-4o', 'gpt-6.2-sol'), ('gpt-4o-mini', 'gpt-6.2-sol'), ('o1', 'gpt-6.2-sol'), ('o3-mini', 'gpt-6.2-sol'),
                             ('claude-3-5-sonnet-20241022', 'claude-sonnet-5-5'), ('claude-3-5-haiku-20241022', 'claude-haiku-5-5')
                     ) as s (name, successor) using (name);

-- Personas.

create or replace function aos_persona.personas()
    returns setof agent.persona language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return query select p.* from agent.persona p where p.tenant = agent.current_tenant(); end; $$;
create or replace view aos_persona.persona with (security_invoker) as
    select aos_meta.id_of('persona', p.tenant, p.name) as persona_id, (select t.id from agent.tenant t where t.name = p.tenant) as tenant_id,
           p.name, p.system_prompt, p.traits, to_jsonb(p.rules) as rules, p.model as model_id, p.parameters as override_params,
           p.max_output_tokens as max_tokens_per_request, p.requests_per_minute as max_requests_per_minute, p.version
      from aos_persona.personas() p;
create or replace function aos_persona.insert_persona()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter(new.tenant_id);
    insert into agent.persona (tenant, name, system_prompt, traits, rules, model, parameters, max_output_tokens, requests_per_minute)
    values (agent.current_tenant(), new.name, coalesce(new.system_prompt, ''), coalesce(new.traits, '{}'),
            array(select r #>> '{}' from jsonb_array_elements(coalesce(new.rules, '[]')) r), new.model_id,
            coalesce(new.override_params, '{}'), new.max_tokens_per_request, new.max_requests_per_minute);
    new.persona_id := aos_meta.id_of('persona', agent.current_tenant(), new.name);
    return new;
end;
$$;
create or replace trigger insert_persona instead of insert on aos_persona.persona for each row execute function aos_persona.insert_persona();

create or replace function aos_persona.get_effective_params(persona_id uuid)
    returns jsonb language sql
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce((select m.default_params from aos_meta.llm_model_registry m where m.model_id = p.model_id limit 1), '{}') || p.override_params
      from aos_persona.persona p where p.persona_id = $1
$$;

-- Skills.

create or replace function aos_skills.tools()
    returns setof agent.tool language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return query select t.* from agent.tool t; end; $$;
create or replace view aos_skills.skill with (security_invoker) as
    select t.name as skill_key, t.name, t.description, t.kind as category, t.risk as risk_level, t.input_schema, t.enabled as is_active
      from aos_skills.tools() t;

-- Whether a tool can be called for a principal.  What is unknown cannot.
create or replace function aos_skills.can_use_skill(principal_id uuid, skill_key text)
    returns boolean language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _who agent.principal;
begin
    perform aos_auth.enter();
    select * into _who from agent.principal p where p.tenant = agent.current_tenant() and p.id = can_use_skill.principal_id and p.active;
    return found and exists (select from agent.tool t where t.name = can_use_skill.skill_key and t.enabled)
       and aos_skills.is_granted(_who.name, can_use_skill.skill_key);
end;
$$;
-- With the owner's rights, for a principal of the caller's tenant.
create or replace function aos_skills.is_granted(_principal name, _tool text)
    returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    return agent_internal.grant_refusal(agent.current_tenant(), _principal, true, _tool, '{}') is null;
end;
$$;

-- Agents and conversations.

create or replace function aos_agent.agents()
    returns setof agent.agent language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return query select g.* from agent.agent g where g.tenant = agent.current_tenant(); end; $$;
create or replace view aos_agent.agent with (security_invoker) as
    select aos_meta.id_of('agent', g.tenant, g.name) as agent_id, (select t.id from agent.tenant t where t.name = g.tenant) as tenant_id,
           g.name, case when g.persona is not null then aos_meta.id_of('persona', g.tenant, g.persona) end as persona_id, g.tools,
           jsonb_build_object('max_iterations', g.max_steps, 'max_tokens_per_turn', g.max_tokens, 'thinking_visible', g.thinking_visible,
                              'pause_before_tool', g.pause_before_tool, 'pause_after_tool', g.pause_after_tool,
                              'auto_approve_tools', g.approve_from is distinct from 'low') as config
      from aos_agent.agents() g;

create or replace function aos_agent.check_config(config jsonb)
    returns void language plpgsql immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known   constant text[] := '{max_iterations,max_tokens_per_turn,thinking_visible,pause_before_tool,pause_after_tool,auto_approve_tools}';
    _unknown text;
begin
    select k into _unknown from jsonb_object_keys(coalesce(config, '{}')) k where k <> all (_known) order by k limit 1;
    if found then
        raise exception 'unknown key "%" of config', _unknown
            using errcode = '22023', hint = format('Known: %s.', array_to_string(_known, ', '));
    end if;
end;
$$;

-- Its turns are worked by the principal that inserts it.  Without tools, it has those that only read, and a memory.  Calls of
-- a high risk wait for a person; with auto_approve_tools false, all calls do.
create or replace function aos_agent.inserted_agent(new aos_agent.agent, _schemas name[])
    returns aos_agent.agent language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _persona text;
begin
    perform aos_auth.enter(new.tenant_id);
    perform aos_agent.check_config(new.config);
    select p.name into _persona from aos_persona.persona p where p.persona_id = new.persona_id;
    if not found then
        raise exception 'persona % does not exist', new.persona_id using errcode = 'WA021';
    end if;
    insert into agent.agent (tenant, name, persona, tools, max_steps, max_tokens, thinking_visible, pause_before_tool, pause_after_tool,
                             approve_from)
    values (agent.current_tenant(), new.name, _persona, coalesce(new.tools, '{web_search,retrieve,remember,recall}'),
            coalesce((new.config -> 'max_iterations')::integer, 10), (new.config -> 'max_tokens_per_turn')::bigint,
            coalesce((new.config -> 'thinking_visible')::boolean, true), coalesce((new.config -> 'pause_before_tool')::boolean, false),
            coalesce((new.config -> 'pause_after_tool')::boolean, false),
            case when (new.config -> 'auto_approve_tools')::boolean is false then 'low' else 'high' end);
    -- As pgAgentOS does: its agents search the web and their documents.
    perform set_config('search_path', agent_internal.path_of(_schemas), true);
    perform agent.attach_worker(new.name, lets_out => '{web_search}');
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    new.agent_id := aos_meta.id_of('agent', agent.current_tenant(), new.name);
    return new;
end;
$$;

create or replace function aos_agent.insert_agent()
    returns trigger language plpgsql
as $$
begin
    new := aos_agent.inserted_agent(new, agent_internal.schemas_of_caller());
    return new;
end;
$$;
create or replace trigger insert_agent instead of insert on aos_agent.agent for each row execute function aos_agent.insert_agent();

create or replace function aos_agent.threads()
    returns setof agent.thread language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return query select t.* from agent.thread t where t.tenant = agent.current_tenant(); end; $$;
create or replace view aos_agent.conversation with (security_invoker) as
    select t.id as conversation_id, a.agent_id, (select x.id from agent.tenant x where x.name = t.tenant) as tenant_id, t.title,
           t.state as status, t.summary, t.context, t.created_at
      from aos_agent.threads() t
           left join lateral (select aos_meta.id_of('agent', m.tenant, m.principal) as agent_id
                                from agent.member m join agent.principal p on p.tenant = m.tenant and p.name = m.principal
                               where m.tenant = t.tenant and m.thread_id = t.id and p.kind = 'agent'
                               order by m.joined_at, p.name limit 1) a on true;
create or replace function aos_agent.insert_conversation()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _agent text;
begin
    perform aos_auth.enter(new.tenant_id);
    select a.name into _agent from aos_agent.agent a where a.agent_id = new.agent_id;
    if not found then
        raise exception 'agent % does not exist', new.agent_id using errcode = 'WA021';
    end if;
    new.conversation_id := agent.open_thread(coalesce(new.title, ''), array[_agent]::name[], coalesce(new.conversation_id, gen_random_uuid()));
    return new;
end;
$$;
create or replace trigger insert_conversation instead of insert on aos_agent.conversation
    for each row execute function aos_agent.insert_conversation();

-- The loop; see agent.start_turn() and what follows it.

create or replace function aos_agent.add_user_message(conversation_id uuid, message text)
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); return agent.add_user_message($1, $2); end; $$;

create or replace function aos_agent.start_turn(conversation_id uuid)
    returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); return agent.start_turn($1); end; $$;

create or replace function aos_agent.send_message(conversation_id uuid, message text)
    returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); perform agent.add_user_message($1, $2); return agent.start_turn($1); end; $$;

create or replace function aos_agent.run_turn(turn_id bigint)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, null, $1); return agent.run_turn($1); end; $$;

create or replace function aos_agent.process_tool_call(turn_id bigint, tool text, arguments jsonb)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, null, $1); return agent.process_tool_call($1, $2, $3); end; $$;

create or replace function aos_agent.record_tool_result(turn_id bigint, tool text, result jsonb)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, null, $1); return agent.record_tool_result($1, $2, $3); end; $$;

create or replace function aos_agent.finish_turn(turn_id bigint, message text)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, null, $1); return agent.finish_turn($1, $2); end; $$;

-- step_id is an ID in agent.pending_approval.
create or replace function aos_agent.approve_step(step_id bigint, approved boolean default true, note text default null)
    returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    if not has_function_privilege('agent.approve(bigint)', 'execute') then
        raise exception 'role "%" may not decide calls', current_user
            using errcode = '42501', hint = format('Run as the operator: select agent.grant_approver(%L);', session_user);
    end if;
    if approved then
        perform agent.approve(step_id);
    else
        perform agent.reject(step_id, note);
    end if;
end;
$$;

create or replace function aos_agent.pause_conversation(conversation_id uuid)
    returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); perform agent.pause_thread($1); end; $$;

create or replace function aos_agent.resume_conversation(conversation_id uuid)
    returns void language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); perform agent.resume_thread($1); end; $$;

-- The event with the answer of a turn.
create or replace function aos_agent.answer_of(_turn bigint)
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _id uuid;
begin
    perform aos_auth.enter(null, null, $1);
    select e.id into _id from agent.event e
     where e.tenant = agent.current_tenant() and e.run_id = _turn and e.type = 'text' order by e.number desc limit 1;
    if not found then
        raise exception 'turn % has no answer', _turn using errcode = 'WA027';
    end if;
    return _id;
end;
$$;

create or replace function aos_agent.rate_turn(turn_id bigint, rating integer, aspects jsonb default '{}', comment text default '')
    returns uuid language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent.rate(aos_agent.answer_of($1), $2, $3, $4) $$;

create or replace function aos_agent.flag_issue(turn_id bigint, severity text, description text default '')
    returns uuid language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent.flag(aos_agent.answer_of($1), $2, $3) $$;

create or replace function aos_agent.get_conversation_history(conversation_id uuid, include_steps boolean default false)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter(null, $1);
    return (select coalesce(jsonb_agg(jsonb_build_object(
                       'number', e.number, 'type', e.type, 'author', e.author, 'data', e.data, 'turn_id', e.run_id, 'created_at', e.created_at)
                   order by e.number), '[]')
              from agent.event e
             where e.tenant = agent.current_tenant() and e.thread_id = get_conversation_history.conversation_id
               and (e.type = 'text' or include_steps));
end;
$$;

-- Memory and log.

create or replace function aos_core.store_memory(agent_id uuid, key text, value jsonb, memory_type text default 'semantic')
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    return agent.remember((select a.name from aos_agent.agent a where a.agent_id = store_memory.agent_id), store_memory.value,
                          key => store_memory.key, kind => store_memory.memory_type);
end;
$$;

create or replace function aos_core.recall_memory(agent_id uuid, query text default null, max_results integer default 5)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    return (select coalesce(jsonb_agg(to_jsonb(r)), '[]')
              from agent.recall((select a.name from aos_agent.agent a where a.agent_id = recall_memory.agent_id), recall_memory.query,
                                k => recall_memory.max_results) r);
end;
$$;

-- A row of the audit, as the caller.  With the owner's rights: the audit has no other way in.
create or replace function aos_core.log_event(event_type text, payload jsonb default '{}')
    returns void language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    if agent.current_tenant() is null or event_type !~ '^[a-z][a-z0-9_.]{0,62}$' then
        raise exception 'invalid event type "%"', event_type using errcode = '22023';
    end if;
    perform agent_internal.audit('aos.' || event_type, '', log_event.payload, agent.current_tenant());
end;
$$;

create or replace function aos_core.runs()
    returns setof agent.run language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return query select r.* from agent.run r where r.tenant = agent.current_tenant(); end; $$;
create or replace view aos_core.run with (security_invoker) as
    select r.id as run_id,
           case r.state when 'pending' then 'pending' when 'succeeded' then 'completed' when 'cancelled' then 'cancelled' when 'skipped' then 'cancelled'
                        when 'failed' then 'failed' when 'dead' then 'failed' when 'waiting_approval' then 'interrupted'
                        when 'needs_review' then 'interrupted' else 'running' end as status, r.kind, r.principal, r.result as output, r.error, r.tokens as total_tokens_used,
           r.cost as total_cost_usd, r.created_at, r.started_at, r.finished_at
      from aos_core.runs() r;

-- What is read alone: each view is a function that acts in the tenant of the session and then reads.
do $do$
declare
    _each record;
begin
    for _each in
        select * from (values
            ('aos_agent.turn', $$select r.id as turn_id, (r.change #>> '{new,thread_id}')::uuid as conversation_id,
                                        row_number() over (partition by r.ordering_key order by r.id) as turn_number,
                                        (select e.data ->> 'text' from agent.event e
                                          where e.tenant = r.tenant and e.thread_id::text = r.change #>> '{new,thread_id}'
                                            and e.number = (r.change #>> '{new,number}')::bigint) as user_message,
                                        (select e.data ->> 'text' from agent.event e where e.tenant = r.tenant and e.run_id = r.id and e.type = 'text'
                                          order by e.number desc limit 1) as assistant_message,
                                        case r.state when 'succeeded' then 'completed' when 'cancelled' then 'cancelled' when 'skipped' then 'cancelled'
                                                     when 'failed' then 'failed' when 'dead' then 'failed'
                                                     when 'waiting_approval' then 'waiting_human' when 'needs_review' then 'waiting_human'
                                                     else 'processing' end as status,
                                        r.tokens as total_tokens, r.cost as total_cost_usd,
                                        round(extract(epoch from r.finished_at - r.started_at) * 1000)::bigint as duration_ms,
                                        r.created_at as started_at, r.finished_at as completed_at
                                   from agent.run r where r.kind = 'turn'$$),
            ('aos_agent.step', $$select s.run_id as turn_id, s.seq as step_number,
                                        case when s.kind = 'reply' and s.content @? '$.parts[*].call' then 'tool_call' when s.kind = 'reply' then 'respond'
                                             when s.kind = 'result' then 'tool_result' when s.kind in ('approval', 'decision') then 'pause'
                                             when s.kind = 'error' then 'error' when s.kind = 'intent' then 'tool_call' else 'think' end as step_type,
                                        s.content, s.recorded_at as created_at
                                   from agent.step s join agent.run r on r.id = s.run_id where r.kind = 'turn'$$),
            ('aos_agent.live_activity', 'select * from agent.live_activity'),
            ('aos_agent.pending_approvals', $$select * from agent.tool_call_queue where waits_for = 'awaiting_approval'$$),
            ('aos_agent.conversation_timeline', 'select * from agent.conversation_timeline'),
            ('aos_agent.agent_stats', 'select * from agent.agent_stats'),
            ('aos_agent.dashboard_overview', 'select * from agent.dashboard'),
            ('aos_agent.realtime_steps', 'select s.* from agent.step s order by s.recorded_at desc limit 100'),
            ('aos_agent.tool_call_queue', 'select * from agent.tool_call_queue'),
            ('aos_agent.thinking_trace', 'select * from agent.thinking_trace'),
            ('aos_agent.error_log', 'select * from agent.error_log'),
            ('aos_agent.observation', $$select o.id as observation_id, o.thread_id as conversation_id, o.event_id, o.type as observation_type, o.severity,
                                               o.rating, o.aspects, o.content, o.author as created_by, o.created_at from agent.observation o$$),
            ('aos_agent.memory', $$select m.id as memory_id, aos_meta.id_of('agent', m.tenant, m.agent::text) as agent_id, m.kind as memory_type, m.key, m.value,
                                          m.importance, m.access_count, m.expires_at, m.created_at
                                     from agent.memory m where m.superseded_by is null and m.retracted_at is null$$),
            ('aos_core.session_memory', $$select m.id as memory_id, m.thread_id as conversation_id, m.kind as memory_type, m.key, m.value, m.expires_at, m.created_at
                                            from agent.memory m where m.thread_id is not null and m.superseded_by is null and m.retracted_at is null$$),
            ('aos_core.skill_execution', $$select s.run_id, s.seq as step_number, s.content ->> 'name' as skill_key, s.content ->> 'call_id' as call_id,
                                                  s.content -> 'content' as output,
                                                  case when (s.content ->> 'is_error')::boolean then 'failed' else 'completed' end as status,
                                                  s.recorded_at as created_at
                                             from agent.step s where s.kind = 'result'$$),
            ('aos_skills.skill_impl', $$select t.name as skill_key, t.version, t.kind as impl_type, t.target as impl_ref, t.timeout_seconds * 1000 as http_timeout_ms,
                                               t.retries as retry_count, t.retry_seconds * 1000 as retry_delay_ms, t.enabled from agent.tool t$$),
            ('aos_skills.role_skill', $$select r.role as role_key, r.tool as skill_key, r.allowed as allowed_params, r.denied as denied_params
                                          from agent.role_tool r where r.tenant = agent.current_tenant()$$),
            ('aos_auth.role_grant', $$select p.id as principal_id, g.role as role_key, g.granted_by, g.granted_at, g.expires_at,
                                             g.expires_at is null or g.expires_at > now() as is_active
                                        from agent.role_grant g join agent.principal p on p.tenant = g.tenant and p.name = g.principal
                                       where g.tenant = agent.current_tenant()$$),
            ('aos_core.event_log', $$select row_number() over (order by e.created_at, e.event_type, e.run_id, e.number) as event_id, e.created_at,
                                            e.event_type, e.node_name, e.actor, e.payload, e.run_id
                                       from (select a.number, a.at as created_at, a.action as event_type, a.object as node_name,
                                                    a.principal as actor, a.detail as payload, null::bigint as run_id
                                               from agent.audit a
                                              union all
                                             select null, x.at, x.event, w.actor, w.actor, x.payload, r.id
                                               from agent.run r
                                                    left join agent.attachment a on a.tenant = r.tenant and a.id = r.attachment_id
                                                    cross join lateral (select coalesce(r.principal, a.agent::name)) as w (actor)
                                                    cross join lateral (values
                                                        (r.started_at, 'run_started', jsonb_build_object('kind', r.kind, 'attempt', r.attempt)),
                                                        (r.finished_at,
                                                         'run_' || case r.state when 'succeeded' then 'completed' else r.state::text end,
                                                         jsonb_strip_nulls(jsonb_build_object('kind', r.kind, 'tokens', r.tokens, 'cost', r.cost,
                                                                                              'error', r.error)))) as x (at, event, payload)
                                              where r.tenant = agent.current_tenant() and x.at is not null) e$$),
            ('aos_multi_agent.team', $$select aos_meta.id_of('team', t.tenant, t.name) as team_id, t.name, t.description,
                                              t.consensus as consensus_threshold, t.max_members, t.thread_id as conversation_id, t.created_by, t.created_at
                                         from agent.team t$$),
            ('aos_multi_agent.team_member', $$select aos_meta.id_of('team', m.tenant, m.team) as team_id, p.id as principal_id, m.principal as name, m.role,
                                                     m.weight
                                                from agent.team_member m join agent.principal p on p.tenant = m.tenant and p.name = m.principal$$),
            ('aos_multi_agent.discussion', $$select d.thread_id as discussion_id, aos_meta.id_of('team', d.tenant, d.team) as team_id, d.topic,
                                                    d.opened_by as started_by, d.opened_at as started_at from agent.discussion d$$),
            ('aos_multi_agent.agent_message', $$select e.id as message_id, e.thread_id as discussion_id, e.author as sender,
                                                       coalesce(e.data ->> 'kind', e.type) as message_type, e.data ->> 'text' as content, e.created_at
                                                  from agent.event e join agent.discussion d on d.tenant = e.tenant and d.thread_id = e.thread_id$$),
            ('aos_multi_agent.proposal', $$select p.id as proposal_id, aos_meta.id_of('team', p.tenant, p.team) as team_id, p.title, p.state as status,
                                                  p.yes, p.no, p.abstain, p.votes, p.voters, p.proposed_by, p.deadline, p.created_at, p.decided_at
                                             from agent.proposal_overview p$$),
            ('aos_multi_agent.vote', $$select v.proposal_id, v.principal as voter, v.choice as vote, v.reason, v.weight from agent.vote v$$),
            ('aos_multi_agent.artifact', $$select aos_meta.id_of('team', a.tenant, a.team) as team_id, a.name, a.version, a.kind as artifact_type, a.content,
                                                  a.made_by as created_by, a.made_at as created_at from agent.artifact a$$),
            ('aos_collab.task', $$select t.id as task_id, aos_meta.id_of('team', t.tenant, t.team) as team_id, t.title, t.description, t.state as status,
                                         t.assignee as assigned_to, t.due_at, t.created_by, t.created_at, t.updated_at from agent.task t$$)
        ) as v (name, query)
    loop
        execute format('drop view if exists %s', _each.name);
        execute format('drop function if exists %s_rows()', _each.name);
        execute format('create temporary view aos_shape as %s', _each.query);
        execute format('create function %s_rows() returns table (%s) language plpgsql set search_path = pg_catalog, pg_temp as $f$ #variable_conflict use_column'
                       || E'\nbegin perform aos_auth.enter(); return query %s; end; $f$', _each.name,
                       (select string_agg(format('%I %s', a.attname, format_type(a.atttypid, a.atttypmod)), ', ' order by a.attnum)
                          from pg_attribute a where a.attrelid = 'pg_temp.aos_shape'::regclass and a.attnum > 0), _each.query);
        execute 'drop view aos_shape';
        execute format('create view %1$s with (security_invoker) as select * from %1$s_rows()', _each.name);
    end loop;
end;
$do$;

create or replace function aos_agent.get_agent_analytics(days integer default 7)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    return (select coalesce(jsonb_agg(to_jsonb(a)), '[]') from agent.agent_analytics(days) a);
end;
$$;

create or replace function aos_agent.get_hourly_activity()
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    return (select coalesce(jsonb_agg(to_jsonb(h) order by h.hour), '[]') from agent.hourly_activity h);
end;
$$;

-- Teams.  A team is named by its ID there, and by its name here.

create or replace function aos_multi_agent.name_of(team_id uuid)
    returns text language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _name text;
begin
    select t.name into _name from aos_multi_agent.team t where t.team_id = name_of.team_id;
    if not found then
        raise exception 'team % does not exist, or you are not a member of it', name_of.team_id using errcode = 'WA026';
    end if;
    return _name;
end;
$$;

create or replace function aos_multi_agent.create_team(name text, members name[] default '{}', description text default '')
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    perform agent.create_team($1, $2, $3);
    return aos_meta.id_of('team', agent.current_tenant(), $1);
end;
$$;

create or replace function aos_multi_agent.start_discussion(team_id uuid, topic text)
    returns uuid language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent.open_discussion(aos_multi_agent.name_of($1), $2) $$;

create or replace function aos_multi_agent.send_agent_message(discussion_id uuid, content text, message_type text default 'comment')
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); return (agent.comment($1, $2, $3)).id; end; $$;

create or replace function aos_multi_agent.create_proposal(team_id uuid, title text, description text default '')
    returns uuid language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent.propose(aos_multi_agent.name_of($1), $2, $3) $$;

create or replace function aos_multi_agent.cast_vote(proposal_id uuid, vote text, reason text default '')
    returns text language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return agent.vote($1, $2, $3); end; $$;

create or replace function aos_multi_agent.get_pending_messages_for_agent(agent_id uuid)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    return (select coalesce(jsonb_agg(to_jsonb(m) order by m.created_at), '[]') from agent.pending_message m
             where m.principal = (select a.name from aos_agent.agent a where a.agent_id = get_pending_messages_for_agent.agent_id));
end;
$$;

create or replace function aos_collab.create_task(team_id uuid, title text, description text default '', assigned_to name default null)
    returns uuid language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent.create_task(aos_multi_agent.name_of($1), $2, $3, $4) $$;

create or replace function aos_collab.add_comment(conversation_id uuid, content text)
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); return (agent.comment($1, $2)).id; end; $$;
