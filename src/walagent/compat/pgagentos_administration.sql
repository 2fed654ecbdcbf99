-- What administers a tenant, and further names of pgAgentOS; executed after pgagentos.sql.

-- Act in the tenant of the session as an admin, who may change what a view shows.
create or replace function aos_auth.enter_as_admin()
    returns text language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter();
    if not agent.has_role('admin') then
        raise exception 'principal "%" is not an admin of this tenant', agent.current_principal() using errcode = '42501';
    end if;
    return agent.current_tenant();
end;
$$;

-- The name of a principal of the tenant of the session.
create or replace function aos_auth.name_of(principal_id uuid)
    returns name language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _name name;
begin
    perform aos_auth.enter();
    select p.name into _name from agent.principal p where p.tenant = agent.current_tenant() and p.id = name_of.principal_id;
    if not found then
        raise exception 'principal % does not exist', name_of.principal_id using errcode = 'WA020';
    end if;
    return _name;
end;
$$;

-- A token of a principal, which is shown once.
create or replace function aos_auth.create_token(principal_id uuid, label text default '', expires_at timestamptz default null)
    returns text language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _name constant name := aos_auth.name_of(create_token.principal_id);
begin
    return (select t.token from agent.create_token(_name, create_token.label, '{}', create_token.expires_at) t);
end;
$$;

-- Tie the login of the session to the principal of a token, which its owner was given: no admin can tie it without.  The login
-- acts with the scopes of the token, until that expires, is revoked or is deleted.
--
-- With the owner's rights.
create or replace function aos_auth.join_tenant(token text)
    returns uuid
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _before constant text := coalesce(current_setting('walagent.identity', true), '');
    _digest constant bytea := sha256(convert_to(join_tenant.token, 'utf8'));
    _who    record;
    _id     uuid;
begin
    if agent_internal.in_code() then
        raise exception 'code of others cannot tie a login to a principal' using errcode = '42501';
    end if;
    perform agent.act_as(join_tenant.token);
    _who := agent_internal.identity();
    if (select t.purpose from agent.token t where t.digest = _digest) is distinct from 'token' then
        raise exception 'the token of a session or link cannot tie a login' using errcode = '42501',
            hint = 'Ask for one of aos_auth.create_token(), or walagent tenants tokens create.';
    end if;
    insert into aos_auth.membership as m (login, tenant, principal, token) values (session_user, _who.tenant, _who.principal, _digest)
    on conflict (login, tenant) do update set principal = excluded.principal, token = excluded.token where m.token is not null;
    if not found then
        raise exception 'login "%" inserted tenant "%", and acts there without a token', session_user, _who.tenant using errcode = '42501';
    end if;
    select t.id into _id from agent.tenant t where t.name = _who.tenant;
    perform set_config('walagent.identity', _before, true);
    perform set_config('aos.tenant_id', _id::text, false);
    return _id;
end;
$$;

create or replace function aos_auth.insert_role_grant()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform agent.grant_role(aos_auth.name_of(new.principal_id), new.role_key, new.expires_at);
    return new;
end;
$$;
create or replace trigger insert_role_grant instead of insert on aos_auth.role_grant for each row execute function aos_auth.insert_role_grant();

create or replace function aos_auth.change_role_grant()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' or not new.is_active then
        perform agent.revoke_role(aos_auth.name_of(old.principal_id), old.role_key);
        return case tg_op when 'DELETE' then old else new end;
    end if;
    perform agent.grant_role(aos_auth.name_of(old.principal_id), old.role_key, new.expires_at);
    return new;
end;
$$;
create or replace trigger change_role_grant instead of update or delete on aos_auth.role_grant
    for each row execute function aos_auth.change_role_grant();

-- With the owner's rights, as an admin of that tenant.  Its settings say who must approve what: they stay the operator's.
create or replace function aos_auth.update_tenant()
    returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
begin
    if aos_auth.enter(old.tenant_id) is distinct from old.name or not agent.has_role('admin') then
        raise exception 'principal "%" is not an admin of tenant "%"', agent.current_principal(), old.name using errcode = '42501';
    elsif (new.tenant_id, new.name, new.is_active, new.settings) is distinct from (old.tenant_id, old.name, old.is_active, old.settings) then
        raise exception 'only the display name of a tenant can be changed here' using errcode = '42501',
            hint = 'The operator changes its settings: update agent.tenant.';
    end if;
    update agent.tenant t set display_name = new.display_name where t.id = old.tenant_id;
    return new;
end;
$$;
create or replace trigger update_tenant instead of update on aos_auth.tenant for each row execute function aos_auth.update_tenant();

create or replace function aos_auth.update_principal()
    returns trigger language plpgsql security definer set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := aos_auth.enter_as_admin();
begin
    if new.db_role_name is distinct from old.db_role_name then
        raise exception 'only the operator ties a principal to a login' using errcode = '42501',
            hint = 'Create a token: select aos_auth.create_token(principal_id). With it, the login runs: select aos_auth.join_tenant(token).';
    elsif new.is_active and not old.is_active then
        perform agent.enable_principal(old.name);
    elsif old.is_active and not new.is_active then
        perform agent.disable_principal(old.name);
    end if;
    update agent.principal p set display_name = new.display_name, email = new.email, metadata = new.metadata
     where p.tenant = _tenant and p.name = old.name;
    return new;
end;
$$;
create or replace trigger update_principal instead of update on aos_auth.principal for each row execute function aos_auth.update_principal();

create or replace function aos_persona.update_persona()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter(old.tenant_id);
    update agent.persona p
       set system_prompt = new.system_prompt, traits = new.traits, rules = array(select r #>> '{}' from jsonb_array_elements(new.rules) r),
           model = new.model_id, parameters = new.override_params, max_output_tokens = new.max_tokens_per_request,
           requests_per_minute = new.max_requests_per_minute
     where p.tenant = agent.current_tenant() and p.name = old.name;
    return new;
end;
$$;
create or replace trigger update_persona instead of update on aos_persona.persona for each row execute function aos_persona.update_persona();

create or replace function aos_agent.update_agent()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _persona text;
begin
    perform aos_auth.enter(old.tenant_id);
    perform aos_agent.check_config(new.config);
    select p.name into _persona from aos_persona.persona p where p.persona_id = new.persona_id;
    update agent.agent g
       set persona = _persona, tools = new.tools, max_steps = coalesce((new.config -> 'max_iterations')::integer, 10),
           max_tokens = nullif(new.config -> 'max_tokens_per_turn', 'null')::bigint,
           thinking_visible = coalesce((new.config -> 'thinking_visible')::boolean, true),
           pause_before_tool = coalesce((new.config -> 'pause_before_tool')::boolean, false),
           pause_after_tool = coalesce((new.config -> 'pause_after_tool')::boolean, false),
           approve_from = case when (new.config -> 'auto_approve_tools')::boolean is false then 'low' else 'high' end
     where g.tenant = agent.current_tenant() and g.name = old.name;
    return new;
end;
$$;
create or replace trigger update_agent instead of update on aos_agent.agent for each row execute function aos_agent.update_agent();

create or replace function aos_agent.update_conversation()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if new.status is distinct from old.status and new.status = 'paused' then
        perform aos_agent.pause_conversation(old.conversation_id);
    elsif new.status is distinct from old.status and new.status = 'active' then
        perform aos_agent.resume_conversation(old.conversation_id);
    elsif new is distinct from old then
        raise exception 'only the status of a conversation can be changed, to paused or active' using errcode = '0A000';
    end if;
    return new;
end;
$$;
create or replace trigger update_conversation instead of update on aos_agent.conversation
    for each row execute function aos_agent.update_conversation();

create or replace function aos_skills.refuse_skill()
    returns trigger language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    raise exception 'skills are registered by the operator' using errcode = '42501',
        hint = 'As the operator: insert into agent.tool (name, kind, target, ...), or update agent.tool.';
end;
$$;
create or replace trigger refuse_skill instead of insert or update or delete on aos_skills.skill for each row execute function aos_skills.refuse_skill();

-- These triggers act as who executes the statement: see agent_internal.own_triggers().
do $$
declare
    _view text;
begin
    foreach _view in array '{aos_auth.tenant,aos_auth.principal,aos_auth.role_grant,aos_persona.persona,aos_agent.agent,aos_agent.conversation}'::text[] loop
        execute format('create or replace trigger enter before insert or update or delete on %s for each statement execute function agent_internal.enter_trigger()', _view);
        execute format('create or replace trigger leave after insert or update or delete on %s for each statement execute function agent_internal.leave_trigger()', _view);
    end loop;
end;
$$;

-- Further names.

create or replace function aos_agent.create_agent(name text, persona_id uuid default null, tools text[] default null, config jsonb default null)
    returns uuid language sql
begin atomic
    insert into aos_agent.agent (name, persona_id, tools, config) values ($1, $2, $3, $4) returning agent_id;
end;

create or replace function aos_agent.start_conversation(agent_id uuid, title text default '')
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _id uuid;
begin
    insert into aos_agent.conversation (agent_id, title) values ($1, $2) returning conversation_id into _id;
    return _id;
end;
$$;

create or replace function aos_agent.complete_turn(turn_id bigint, message text)
    returns jsonb language sql
    set search_path = pg_catalog, pg_temp
as $$ select aos_agent.finish_turn($1, $2) $$;

-- The thread of a turn.
create or replace function aos_agent.conversation_of(_turn bigint)
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _thread uuid;
begin
    perform aos_auth.enter(null, null, _turn);
    select (r.change #>> '{new,thread_id}')::uuid into _thread from agent.run r where r.id = _turn and r.kind = 'turn';
    if _thread is null then
        raise exception 'turn % does not exist', _turn using errcode = 'WA027';
    end if;
    return _thread;
end;
$$;

create or replace function aos_agent.record_thinking(turn_id bigint, content text)
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin return agent.observe(aos_agent.conversation_of($1), $2); end; $$;

create or replace function aos_agent.record_step(turn_id bigint, step_type text, content jsonb)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    case step_type
        when 'think' then return to_jsonb(aos_agent.record_thinking($1, coalesce(content ->> 'text', content #>> '{}')));
        when 'tool_call' then return aos_agent.process_tool_call($1, content ->> 'tool', coalesce(content -> 'arguments', '{}'));
        when 'tool_result' then return aos_agent.record_tool_result($1, content ->> 'tool', content -> 'result');
        when 'respond' then return aos_agent.finish_turn($1, coalesce(content ->> 'text', content #>> '{}'));
        else raise exception 'invalid type of step "%": expected think, tool_call, tool_result or respond', step_type using errcode = '22023';
    end case;
end;
$$;

create or replace function aos_agent.bulk_approve_tools(turn_id bigint, approved boolean default true, note text default null)
    returns integer language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _step  bigint;
    _count integer := 0;
begin
    perform aos_auth.enter(null, null, $1);
    for _step in select p.id from agent.pending_approval p where p.run_id = $1 order by p.id loop
        perform aos_agent.approve_step(_step, $2, $3);
        _count := _count + 1;
    end loop;
    return _count;
end;
$$;

create or replace function aos_agent.inject_message(conversation_id uuid, message text, message_type text default 'context')
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); return (agent.inject($1, $2, $3)).id; end; $$;

create or replace function aos_agent.override_response(turn_id bigint, message text)
    returns uuid language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent.override_response(aos_agent.answer_of($1), $2) $$;

create or replace function aos_agent.add_observation(conversation_id uuid, content text)
    returns uuid language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(null, $1); return agent.observe($1, $2); end; $$;

create or replace function aos_agent.get_turn_state(turn_id bigint)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter(null, null, $1);
    return (select to_jsonb(t) || jsonb_build_object(
                       'steps', (select coalesce(jsonb_agg(to_jsonb(s) order by s.step_number), '[]') from aos_agent.step s where s.turn_id = $1),
                       'pending', (select coalesce(jsonb_agg(to_jsonb(p) order by p.since), '[]') from aos_agent.pending_approvals p where p.run_id = $1))
              from aos_agent.turn t where t.turn_id = $1);
end;
$$;

create or replace function aos_persona.get_persona_config(persona_id uuid)
    returns jsonb language sql
    set search_path = pg_catalog, pg_temp
as $$
    select jsonb_build_object(
               'system_prompt', p.system_prompt, 'traits', p.traits, 'rules', p.rules,
               'model', (select jsonb_build_object('provider', m.provider, 'model_name', m.model_name, 'context_window', m.context_window,
                                                   'endpoint', m.endpoint_template)
                           from aos_meta.llm_model_registry m where m.model_id = p.model_id limit 1),
               'effective_params', aos_persona.get_effective_params(p.persona_id),
               'limits', jsonb_build_object('max_tokens_per_request', p.max_tokens_per_request, 'max_requests_per_minute', p.max_requests_per_minute))
      from aos_persona.persona p where p.persona_id = $1
$$;

create or replace function aos_skills.get_skill_impl(skill_key text, version integer default null)
    returns jsonb language sql
    set search_path = pg_catalog, pg_temp
as $$
    select to_jsonb(i) from aos_skills.skill_impl i
     where i.skill_key = $1 and i.enabled and ($2 is null or i.version = $2) order by i.version desc limit 1
$$;

create or replace function aos_core.get_run_summary(run_id bigint)
    returns jsonb language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter(null, null, $1);
    return (select to_jsonb(r) || jsonb_build_object('total_steps', (select count(*) from agent.step s where s.run_id = $1))
              from aos_core.run r where r.run_id = $1);
end;
$$;

create or replace function aos_core.prune_expired_memory()
    returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$ begin perform aos_auth.enter(); return agent.prune_memory(); end; $$;

-- How many runs of a tenant ended before *days* days.  Retention deletes them: that is the operator's.
create or replace function aos_core.cleanup_old_runs(tenant_id uuid default null, days integer default 30, "delete" boolean default false)
    returns bigint language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform aos_auth.enter($1);
    if $3 then
        raise exception 'runs are deleted by retention' using errcode = '0A000',
            hint = 'As the operator: set retention.runs in agents.yaml, or select agent.prune(interval ''30 days'').';
    end if;
    return (select count(*) from agent.run r where r.tenant = agent.current_tenant() and r.finished_at < now() - make_interval(days => $2));
end;
$$;

-- They are for members, as agent.grant_member() makes them: what a login may do beyond that, its own grants say.
delete from agent_internal.privilege where object ~ '^aos_';
insert into agent_internal.privilege (kind, object, privilege, capabilities)
select 'schema', n.nspname, 'usage', array['member'] from pg_namespace n where n.nspname ~ '^aos_'
union all
select 'table', format('%I.%I', n.nspname, c.relname), 'select, insert, update, delete', array['member']
  from pg_class c join pg_namespace n on n.oid = c.relnamespace where n.nspname ~ '^aos_' and c.relkind = 'v'
union all
select 'function', p.oid::regprocedure::text, 'execute', array['member']
  from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname ~ '^aos_' and p.prorettype <> 'trigger'::regtype;
do $$
declare
    _statement text;
begin
    for _statement in
        select format('revoke all on %s %s from public', p.kind, p.object) from agent_internal.privilege p where p.object ~ '^aos_'
        union all
        select format('grant %s on %s %s to %I', p.privilege, p.kind, p.object, h.role)
          from agent_internal.privilege p cross join agent_internal.present_holders() h
         where p.object ~ '^aos_' and h.capability = 'member'
    loop
        execute _statement;
    end loop;
end;
$$;
