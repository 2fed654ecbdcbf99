-- Tools: versions, output, retries, who may call them with what, and the check of each call.
--
-- A call is checked when it is made, in the transaction that records it or its intent: the model has made it, the agent has
-- the tool, its version is enabled, the principal for whom the agent acts has a grant, and the policies of the tenant allow
-- it.  All that is unknown or missing refuses.  A refusal is a result that the model receives, and a row of the audit.
--
-- Without rows of agent.role_tool a tenant has no grants to check.

-- Whether arguments are within what is allowed.  A list of values requires the argument: a default is no value of the list.
create or replace function agent_internal.fits_allowed(_allowed jsonb, _arguments jsonb)
    returns boolean
    language sql
    immutable
begin atomic
    select _allowed is null or (
        jsonb_typeof(_arguments) = 'object'
        and not exists (select from jsonb_object_keys(_arguments) k where (_allowed ? k) is not true)
        and not exists (select from jsonb_each(_allowed) a
                         where jsonb_typeof(a.value) = 'array'
                           and not exists (select from jsonb_array_elements(a.value) v where v = _arguments -> a.key)));
end;

create or replace function agent_internal.fits_denied(_denied jsonb, _arguments jsonb)
    returns boolean
    language sql
    immutable
begin atomic
    select jsonb_typeof(_arguments) = 'object'
       and not exists (select from jsonb_each(_denied) d
                        where _arguments ? d.key
                          and (jsonb_typeof(d.value) <> 'array'
                               or exists (select from jsonb_array_elements(d.value) v where v = _arguments -> d.key)));
end;

-- Why a principal may not have a tool called; NULL: it may.
--
-- Args: _named: whether it is a principal; a login of no principal has all roles.
create or replace function agent_internal.grant_refusal(_tenant text, _principal name, _named boolean, _tool text, _arguments jsonb)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _roles text[];
begin
    if not exists (select from agent.role_tool r where r.tenant = _tenant) or _named is false then
        return null;
    end if;
    _roles := array(select g.role from agent.role_grant g join agent.principal p on p.tenant = g.tenant and p.name = g.principal
                     where g.tenant = _tenant and g.principal = _principal and p.active
                       and (g.expires_at is null or g.expires_at > agent_internal.now()));
    if exists (select from agent.role_tool r
                where r.tenant = _tenant and r.role = any (_roles) and r.tool = _tool
                  and agent_internal.fits_denied(r.denied, _arguments) is not true) then
        return format('the arguments of %s are denied for principal "%s"', _tool, _principal);
    elsif 'admin' = any (_roles)
          or exists (select from agent.role_tool r
                      where r.tenant = _tenant and r.role = any (_roles) and r.tool = _tool
                        and agent_internal.fits_allowed(r.allowed, _arguments)) then
        return null;
    elsif exists (select from agent.role_tool r where r.tenant = _tenant and r.role = any (_roles) and r.tool = _tool) then
        return format('the arguments of %s are not allowed for principal "%s"', _tool, _principal);
    end if;
    return format('principal "%s" has no grant for %s', coalesce(_principal, ''), _tool);
end;
$$;

-- For whom the agent of a run acts: the author of the event that woke it, else the principal of the run, else the role that
-- attached it.
create or replace function agent_internal.acting_for(_run agent.run, _definition jsonb, out principal name, out named boolean)
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if _run.change ->> 'schema' = 'agent' and _run.change ->> 'table' = 'event' then
        principal := _run.change #>> '{new,author}';
        named := true;
    elsif _run.principal is not null then  -- with a login of another name, or of none: it acts by a token
        principal := _run.principal;
        named := exists (select from agent.principal p where p.tenant = _run.tenant and p.name = _run.principal);
    else
        select l.principal into principal from agent_internal.login l where (l.login, l.taken_by) = ((_definition ->> 'attached_by')::name, 'login');
        named := found;
        principal := coalesce(principal, _definition ->> 'attached_by');
    end if;
end;
$$;

-- The result of a call that grants refuse, before a person is asked for an approval; NULL: they do not refuse it.
create or replace function agent_internal.refused_by_grants(_run_id bigint, _call_id text, _name text, _arguments jsonb)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _run agent.run;
    _def jsonb;
    _who record;
begin
    select * into _run from agent.run r where r.id = _run_id;
    select v.definition into _def from agent.attachment_version v
     where v.attachment_id = _run.attachment_id and v.version = _run.attachment_version;
    _who := agent_internal.acting_for(_run, _def);
    return agent_internal.refused_call(_call_id, _name, r)
      from agent_internal.grant_refusal(_run.tenant, _who.principal, _who.named, _name, _arguments) r where r is not null;
end;
$$;

-- Check a call that the worker is about to execute.
--
-- Args: _name, _given: the tool and the arguments that the worker has.  If a model has replied, its reply must have the call; a
--       step of a workflow can call a tool without one.
-- Returns action: allow; deny, with reason; require, a person has to approve; wait, for so many seconds; transform, with the arguments that policies made
--         of it: the worker asks again with those; changed: whether it has.  call: what policies saw.  after: whether policies ask about the result.
create or replace function agent_internal.check_call(_run_id bigint, _call_id text, _name text, _given jsonb)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _identity  constant text := coalesce(current_setting('walagent.identity', true), '');
    _run       agent.run;
    _def       jsonb;
    _made      jsonb;
    _tool      jsonb;
    _tenant    text;
    _who       record;
    _arguments jsonb;
    _call      jsonb;
    _verdict   jsonb;
    _reason    text;
    _other     regprocedure;
    _egress    jsonb;
begin
    select * into _run from agent.run r where r.id = _run_id;
    _tenant := _run.tenant;
    select v.definition into _def from agent.attachment_version v
     where v.attachment_id = _run.attachment_id and v.version = _run.attachment_version;
    if _run.kind = 'node' then  -- a call of the workflow itself, or of the agent of a node
        _def := agent_internal.workflow_tools(_run);
        _made := coalesce((select p from agent.step s cross join jsonb_array_elements(s.content -> 'parts') p
                            where s.run_id = _run_id and s.kind = 'reply' and p ->> 'call' = _call_id order by s.seq desc limit 1),
                          jsonb_build_object('name', _name, 'arguments', _given));
    else
        select s.content into _made from agent.step s where s.run_id = _run_id and s.kind = 'reply' order by s.seq desc limit 1;
        if found then
            _made := (select p from jsonb_array_elements(_made -> 'parts') p where p ->> 'call' = _call_id limit 1);
        else
            _made := jsonb_build_object('name', _name, 'arguments', _given);
        end if;
    end if;
    if _made is null or _made ->> 'name' is distinct from _name or jsonb_typeof(_made -> 'arguments') is distinct from 'object' then
        return jsonb_build_object('action', 'deny', 'reason', 'the model has not made this call');
    end if;
    select t into _tool from jsonb_array_elements(_def -> 'tools') t where t ->> 'name' = _made ->> 'name' limit 1;
    if _tool is null then
        return jsonb_build_object('action', 'deny', 'reason', format('the agent does not have the tool "%s"', _made ->> 'name'));
    end if;
    _arguments := _made -> 'arguments';
    if _given is distinct from _arguments and agent_internal.is_approved(_run_id, _call_id, _made ->> 'name', _given) then
        _arguments := _given;  -- a person has changed and approved them
    end if;
    if _tool ? 'version'
       and not exists (select from agent.tool_version v
                        where v.scope = coalesce(_tool ->> 'scope', '') and v.tool = _made ->> 'name' and v.version = (_tool ->> 'version')::integer and v.enabled) then
        return jsonb_build_object('action', 'deny', 'reason', format('version %s of %s is disabled', _tool ->> 'version', _made ->> 'name'));
    end if;
    if _tool ->> 'kind' = 'sql' then
        _reason := agent_internal.exchanged_function(_tool);
        if _reason is not null then
            raise exception '%', _reason using errcode = 'WA009';
        end if;
        _other := agent_internal.ambiguous_function(_tool, array(select jsonb_object_keys(
            agent_internal.meant_arguments(_tool, _arguments) || coalesce(_tool -> 'bind', '{}'))));
        if _other is not null then
            return jsonb_build_object('action', 'deny', 'reason', format(
                'a call without all arguments could mean function %s, too: it must be dropped or renamed', _other));
        end if;
    end if;
    perform agent_internal.assume_agent(_tenant, _def ->> 'agent');
    _who := agent_internal.acting_for(_run, _def);
    _reason := coalesce(agent_internal.name_refusal(_tenant, _def ->> 'agent'),
                        agent_internal.grant_refusal(_tenant, _who.principal, _who.named, _made ->> 'name', _arguments));
    if _reason is not null then
        _verdict := jsonb_build_object('action', 'deny', 'reason', _reason);
    elsif _tool ->> 'kind' = 'http' then
        _egress := agent_internal.check_egress(_run.tenant, _tool ->> 'target', _tool #>> '{http,method}',
                                               jsonb_build_object('run', _run_id, 'agent', _def -> 'agent', 'tool', _made -> 'name'));
        if _egress ->> 'action' = 'require' and agent_internal.is_approved(_run_id, _call_id, _made ->> 'name', _arguments) then
            _egress := _egress || '{"action": "allow"}';
        end if;
        if _egress ->> 'action' <> 'allow' then
            _verdict := _egress;
        end if;
    end if;
    if _verdict is not null then
        null;
    elsif exists (select from agent.policy p where p.tenant = _tenant and p.point = 'tool' and p.enabled) then
        _call := jsonb_build_object(
            'tenant', _tenant, 'run', _run_id, 'agent', _def -> 'agent', 'persona', _def -> 'persona', 'principal', _who.principal,
            'attachment', _def -> 'name', 'tool', _made -> 'name', 'kind', _tool -> 'kind', 'effect', _tool -> 'effect',
            'risk', _tool -> 'risk', 'arguments', _arguments);
        _verdict := agent_internal.decide_policy('tool', 'before', _call, _tenant);
        if _verdict ->> 'action' = 'require' and agent_internal.is_approved(_run_id, _call_id, _made ->> 'name', _arguments) then
            _verdict := _verdict || '{"action": "allow"}';
        end if;
        _call := _verdict -> 'call';
        if _verdict ->> 'action' = 'allow' then
            if jsonb_typeof(_call -> 'arguments') is distinct from 'object' then
                _verdict := jsonb_build_object('action', 'deny', 'reason', 'a policy left no arguments');
            elsif _call -> 'arguments' is distinct from _given or _call -> 'arguments' is distinct from _arguments then
                -- Grants and people have seen other arguments.
                _reason := agent_internal.grant_refusal(_tenant, _who.principal, _who.named, _made ->> 'name', _call -> 'arguments');
                if _reason is not null then
                    _verdict := jsonb_build_object('action', 'deny', 'reason', _reason);
                elsif exists (select from agent.approval a where a.run_id = _run_id and a.call_id = _call_id and a.state = 'approved') then
                    _verdict := jsonb_build_object('action', 'deny', 'reason', 'a policy changes the arguments that a person has approved');
                end if;
            end if;
            if _verdict ->> 'action' = 'allow' and _call -> 'arguments' is distinct from _given then
                _verdict := jsonb_build_object('action', 'transform', 'arguments', _call -> 'arguments');
            end if;
        end if;
        _verdict := _verdict || jsonb_build_object('call', _call, 'after', exists (
            select from agent.policy p where p.tenant = _tenant and p.point = 'tool' and p.phase <> 'before' and p.enabled));
    elsif _given is distinct from _arguments then
        _verdict := jsonb_build_object('action', 'transform', 'arguments', _arguments);
    end if;
    perform set_config('walagent.identity', _identity, true);
    return coalesce(_verdict, '{"action": "allow"}') || jsonb_build_object(
        'changed', _given is distinct from _made -> 'arguments', 'max_bytes', _egress -> 'max_bytes');
end;
$$;

create or replace function agent_internal.is_approved(_run bigint, _call_id text, _tool text, _arguments jsonb)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    return exists (select from agent.approval a
                    where a.run_id = _run and a.call_id = _call_id and a.state = 'approved'
                      and coalesce(a.edited_digest, a.digest) = agent_internal.call_digest(_run, _call_id, _tool, _arguments));
end;
$$;

-- What the model receives instead of the result of a refused call.
create or replace function agent_internal.refused_call(_call_id text, _name text, _reason text)
    returns jsonb
    language sql
    immutable
begin atomic
    select jsonb_build_object('call_id', _call_id, 'name', _name, 'is_error', true, 'denied', _reason,
                              'content', format('this call is not allowed: %s', _reason));
end;

-- The result of a call, as policies leave it.
--
-- Raises WA022 if a policy denies the result.
create or replace function agent_internal.checked_result(_checked jsonb, _content jsonb)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _verdict jsonb;
begin
    if (_checked -> 'after')::boolean is not true then
        return _content;
    end if;
    _verdict := agent_internal.decide_policy(
        'tool', case when (_content -> 'is_error')::boolean then 'error' else 'after' end,
        _checked -> 'call' || jsonb_build_object('result', _content -> 'content'), _checked #>> '{call,tenant}');
    if _verdict ->> 'action' <> 'allow' then
        raise exception 'this result is not allowed: %', _verdict ->> 'reason' using errcode = 'WA022';
    elsif jsonb_typeof(_verdict #> '{call,result}') is distinct from 'string' then
        raise exception 'this result is not allowed: a policy left no text' using errcode = 'WA022';
    end if;
    return _content || jsonb_build_object('content', _verdict #> '{call,result}');
end;
$$;

-- An error of a tool, as policies leave it; one that they deny says only that.
create or replace function agent_internal.checked_error(_checked jsonb, _content jsonb)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    return agent_internal.checked_result(_checked, _content);
exception when sqlstate 'WA022' then
    return _content || jsonb_build_object('content', sqlerrm, 'sqlstate', 'WA022', 'denied', sqlerrm);
end;
$$;

-- Check a call whose effect is not in the transaction of a signed function, and record its intent.
--
-- Args: _request: signed: run, lease, seq, call, name, arguments; intent: whether it acts outside the database;
--       again: whether the intent is recorded already.
-- Returns what agent_internal.check_call() does, and content: the result of a refused call, which is recorded;
--         key: the idempotency key.
create or replace function agent_signed.admit_call(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call    constant jsonb := agent_internal.signed(_request, _signature);
    _run     constant bigint := _call -> 'run';
    _id      constant text := _call ->> 'call';
    _verdict jsonb;
    _content jsonb;
    _key     text;
begin
    perform agent_internal.lock_run(_run, (_call -> 'lease')::bigint);
    _verdict := agent_internal.check_call(_run, _id, _call ->> 'name', _call -> 'arguments');
    if _verdict ->> 'action' = 'deny' then
        _content := agent_internal.refused_call(_id, _call ->> 'name', _verdict ->> 'reason');
        perform agent_internal.insert_step(_run, (_call -> 'seq')::integer, 'result', _content);
        return _verdict || jsonb_build_object('content', _content);
    elsif _verdict ->> 'action' = 'allow' and (_call -> 'intent')::boolean then
        _key := agent_internal.begin_call(_run, (_call -> 'lease')::bigint, (_call -> 'seq')::integer, _id, _call ->> 'name',
                                          (_call -> 'again')::boolean);
        return _verdict || jsonb_build_object('key', _key);
    end if;
    return _verdict;
end;
$$;
comment on function agent_signed.admit_call(text, bytea) is 'Check a tool call, and record its intent or its refusal';

-- What policies say about the result of a call that was admitted.
--
-- Args: _request: signed: checked: the result of agent_signed.admit_call() or agent_signed.open_step(); content.
-- Raises WA022 if a policy denies the result.
create or replace function agent_signed.check_result(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _call constant jsonb := agent_internal.signed(_request, _signature);
begin
    return agent_internal.checked_result(_call -> 'checked', _call -> 'content');
end;
$$;
comment on function agent_signed.check_result(text, bytea) is 'What policies say about the result of a call';

-- A refusal is recorded in the audit, in the transaction of the step that has it.
create or replace function agent_internal.audit_refusal()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _entered constant boolean := agent_internal.enter();
    _identity constant text := coalesce(current_setting('walagent.identity', true), '');
    _run      agent.run;
    _agent    text;
begin
    select * into _run from agent.run r where r.id = new.run_id;
    select v.definition ->> 'agent' into _agent from agent.attachment_version v
     where v.attachment_id = _run.attachment_id and v.version = _run.attachment_version;
    perform agent_internal.assume_agent(_run.tenant, _agent);
    perform agent_internal.audit('tool.refused', coalesce(new.content ->> 'name', ''), jsonb_build_object(
        'run', new.run_id, 'call', new.content -> 'call_id', 'reason', new.content -> 'denied'), _run.tenant);
    perform set_config('walagent.identity', _identity, true);
    perform agent_internal.leave(_entered);
    return null;
end;
$$;

-- The arguments of a registered tool, and of the functions of this name; NULL: nothing says which, as for update_row.
create or replace function agent_internal.arguments_of_tool(_tenant text, _name text)
    returns text[]
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with schema (s) as (
        select coalesce(t.input_schema, case t.kind when 'http' then agent_internal.json_schema_of(t.target, t.http) end)
          from agent_internal.tool_of(_tenant, _name) t
        union all
        select agent_internal.function_tool(p.oid) -> 'input_schema' from pg_proc p
         where p.prokind = 'f' and p.pronamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace)
           and p.proname = any (array(select _name union
                                      select split_part(split_part(t.target, '(', 1), '.', -1) from agent_internal.tool_of(_tenant, _name) t
                                       where t.kind = 'sql'))
    )
    select case when coalesce(bool_and(coalesce(s -> 'additionalProperties', 'false') = 'false'), false)
                then array_agg(distinct k) filter (where k is not null) end
      from schema left join lateral jsonb_object_keys(s -> 'properties') k on true
     where s is not null
$$;

-- The names, as models use them, of registered tools, of functions of the application, and of what agents of the tenant have.
create or replace function agent_internal.names_of_tools(_tenant text)
    returns text[]
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select array_agg(name order by name) from (
        select t.name from agent.tool t where t.scope in ('', _tenant)
        union
        select agent_internal.tool_name(f.name)
          from pg_proc p join pg_namespace n on n.oid = p.pronamespace
               cross join lateral unnest(array[p.proname::text, format('%s.%s', n.nspname, p.proname)]) f (name)
         where p.prokind = 'f' and (n.nspname, f.name) is distinct from ('agent', p.proname) and n.nspname !~ '^(pg_|information_schema$|agent_(internal|call|signed)$)'
           and not exists (select from pg_depend d where d.objid = p.oid and d.deptype = 'e')
        union
        select agent_internal.tool_name(t.name) from agent.agent a cross join unnest(a.tools) t (name) where a.tenant = _tenant) known (name)
$$;

-- The grants of a tenant are changed by its admins, and by logins of no principal whose role could have made them all: one
-- more allows more, and none allow all.
create or replace function agent_internal.check_role_tool()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := case tg_op when 'DELETE' then old.tenant else new.tenant end;
    _known  text[];
    _names  text[];
    _other  name;
begin
    if not agent.has_role('admin') then
        raise exception 'principal "%" may not change grants', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role admin.';
    end if;
    if not (agent_internal.identity()).named then
        select r.made_by into _other from agent.role_tool r
         where r.tenant in (_tenant, old.tenant) and not agent_internal.may_overrule(r.made_by) limit 1;
        if found or tg_op <> 'DELETE' and not agent_internal.may_overrule(new.made_by) then
            raise exception 'must be a member of role "%" to change the grants of tenant "%"', coalesce(_other, new.made_by), _tenant
                using errcode = '42501', hint = 'A principal with the role admin may, too.';
        end if;
    end if;
    if tg_op <> 'DELETE' then
        _names := agent_internal.names_of_tools(new.tenant);
        if new.tool <> all (_names) then
            raise exception 'there is no tool "%"', new.tool using errcode = 'WA010', hint = agent_internal.suggest(new.tool, _names)
                || ' Tools over HTTP and MCP are known after walagent apply, those in Python after walagent run.';
        end if;
        _known := agent_internal.arguments_of_tool(new.tenant, new.tool);
    end if;
    if _known is not null then
        perform agent_internal.check_keys('allowed', coalesce(new.allowed, '{}'), _known);
        perform agent_internal.check_keys('denied', new.denied, _known);
    end if;
    return coalesce(new, old);
end;
$$;
