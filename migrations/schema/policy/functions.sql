create or replace function agent_internal.checked_policy(_op text, old agent.policy, new agent.policy, _schemas name[])
    returns agent.policy
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _hint text;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not change policies', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    elsif not pg_has_role(current_user, new.run_as, 'member') then
        raise exception 'must be a member of role "%" to create a policy that runs as it', new.run_as using errcode = '42501';
    end if;
    if _op = 'INSERT' then
        new.search_path := coalesce(new.search_path, agent_internal.path_of(_schemas));
    end if;
    if _op = 'INSERT' or (new.condition, new.expression, new.search_path, new.run_as)
                         is distinct from (old.condition, old.expression, old.search_path, old.run_as) then
        begin
            select jsonb_build_object('condition', c.compiled, 'expression', e.compiled,
                                      'uses', coalesce(c.uses, '[]') || coalesce(e.uses, '[]')) into new.compiled
              from agent_internal.compiled_expression(new.condition, 'bool', 'call', new.search_path, new.run_as, 'WA022') c
                   cross join agent_internal.compiled_expression(new.expression, 'jsonb', 'call', new.search_path, new.run_as, 'WA022') e;
        exception when syntax_error_or_access_rule_violation or data_exception or sqlstate 'WA022' then
            get stacked diagnostics _hint = pg_exception_hint;
            raise exception 'policy "%": %', new.name, sqlerrm using errcode = 'WA022', hint = _hint;
        end;
    else
        new.compiled := old.compiled;
    end if;
    new.updated_at := now();
    return new;
end;
$$;

-- Whether a role may change what another has decided: its members, and who could change this function.
create or replace function agent_internal.overrules(_role name, _other name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(bool_or(pg_has_role(w.oid, r.oid, 'member')), false)
      from pg_roles w cross join pg_roles r
     where w.rolname = _role
       and (r.rolname = _other or r.oid = (select n.nspowner from pg_namespace n where n.nspname = 'agent_internal'))
$$;

-- The same for the caller.
create or replace function agent_internal.may_overrule(_role name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.overrules(current_user, _role) $$;

-- Who deletes a policy could have changed it.
create or replace function agent_internal.keep_policy()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.may_overrule(old.run_as) then
        raise exception 'must be a member of role "%" to change or delete its policy "%"', old.run_as, old.name using errcode = '42501';
    end if;
    return case tg_op when 'DELETE' then old else new end;
end;
$$;

-- The roles that made the egress rules of tenants, also for a caller whose token does not read.
create or replace function agent_internal.makers_of_rules(_tenants text[])
    returns setof name
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$ select distinct r.made_by from agent.egress_rule r where r.tenant = any (_tenants) $$;

-- Egress rules of a tenant are changed by roles that could have made them all: one more allows more, and none allow all.
create or replace function agent_internal.keep_egress_rules()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _tenant constant text := case tg_op when 'DELETE' then old.tenant else new.tenant end;
    _other  name;
begin
    select m into _other from agent_internal.makers_of_rules(array[_tenant, old.tenant]) m
     where not agent_internal.may_overrule(m) limit 1;
    if found or tg_op <> 'DELETE' and not agent_internal.may_overrule(new.made_by) then
        raise exception 'must be a member of role "%" to change the egress rules of tenant "%"', coalesce(_other, new.made_by), _tenant
            using errcode = '42501';
    end if;
    return case tg_op when 'DELETE' then old else new end;
end;
$$;

-- Functions are called by their qualified name, and no operator is used: the search_path is still that of the caller.
create or replace function agent_internal.check_policy()
    returns trigger
    language plpgsql
as $$
begin
    new := agent_internal.checked_policy(tg_op, old, new, agent_internal.schemas_of_caller());
    return new;
end;
$$;

-- Evaluate the condition or the expression of a policy over a call.
--
-- What it does is rolled back: settings, cursors, rows.  Raises what the expression raises, and WA016 if its role has no
-- trampoline.
create or replace function agent_internal.evaluate(_policy agent.policy, _part text, _call jsonb)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _through constant text := agent_internal.trampoline_of(_policy.run_as);
    _value   text;
    _done    boolean := false;
begin
    -- One that was made since agent_internal.refuse_strangers() was called.
    if coalesce(current_setting('walagent.own_session', true), '') <> ''
       and agent_internal.is_safe_owner((select r.oid from pg_roles r where r.rolname = _policy.run_as), session_user) is not true
       and _policy.run_as <> (select pg_get_userbyid(n.nspowner) from pg_namespace n where n.nspname = 'agent_internal') then
        raise exception 'policy "%" is not evaluated in a session of "%": it is not that of "%"', _policy.name, session_user, _policy.run_as
            using errcode = 'WA022';
    end if;
    begin
        perform set_config('transaction_read_only', 'on', true);
        _value := agent_internal.go_through(
            _through, format(E'select (\n%s\n)::pg_catalog.text from (select $1 as call) as s', _policy.compiled ->> _part), _call, null,
            concat_ws(', ', nullif(_policy.search_path, ''), 'pg_temp'), false, false);
        _done := true;
        raise exception 'evaluated';
    exception when others or assert_failure then
        if not _done then
            raise;
        end if;
    end;
    return _value;
end;
$$;

-- What the policies of a tenant decide about a call.
--
-- Args: _call: what is about to happen, or has: see docs/tools.md.
--       _tenant: NULL: that of the caller.
-- Returns: action: allow, deny, require (a person has to approve); reason, policy: of that action, NULL if no policy has allowed it;
--          call: as changed by policies.
-- A policy that allows ends the policies that its role could change, and not those of a stronger one.  One that transforms
-- changes only what is carried out; if it has, all that deny or require, and those that transform and that its role could not
-- change, are asked once more about the call that it became: a later policy undoes what an earlier one decided about no call.
-- Raises WA016 if the role of a policy has no trampoline: the worker makes it, and asks again.
create or replace function agent_internal.decide_policy(_point text, _phase text, _call jsonb, _tenant text default null)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _identity constant text := coalesce(current_setting('walagent.identity', true), '');
    _carried  constant text := case when _point = 'node' then 'state' when _phase = 'before' then 'arguments' else 'result' end;
    _given    constant jsonb := _call;
    _policy   agent.policy;
    _verdict  jsonb := jsonb_build_object('action', 'allow', 'reason', null, 'policy', null);
    _found    jsonb;
    _applies  boolean;
    _reason   text;
    _other    text;
    _state    text;
    _allowed  name[];  -- roles of the policies that have allowed it: those that one of them could change are asked no more
    _changes  agent.policy[] := '{}';  -- those that have changed the call
    _raised   text[] := '{}';
begin
    _tenant := coalesce(_tenant, agent.current_tenant());
    if _tenant is null or _call is null then
        return jsonb_build_object('action', 'deny', 'reason', 'the tenant of the call is unknown', 'policy', null, 'call', _call);
    end if;
    if agent.current_tenant() is distinct from _tenant then
        perform agent_internal.assume_agent(_tenant, _call ->> 'agent');
    end if;
    for _again in 0..1 loop
        exit when _again = 1 and (_call = _given or _verdict ->> 'action' = 'deny');
        _allowed := '{}';
        if _verdict ->> 'action' = 'allow' then
            _verdict := _verdict || '{"policy": null}';
        end if;
        for _policy in
            select * from agent.policy p
             where p.tenant = _tenant and p.point = _point and p.phase = _phase and p.enabled
             order by p.priority, p.name
        loop
            continue when exists (select from unnest(_allowed) a where agent_internal.overrules(a, _policy.run_as));
            continue when _again = 1 and _policy.action = 'transform' and not exists (
                select from unnest(_changes) c
                 where (c.priority, c.name) > (_policy.priority, _policy.name) and not agent_internal.overrules(c.run_as, _policy.run_as));
            _reason := coalesce(nullif(_policy.message, ''), format('policy "%s"', _policy.name));
            begin
                _other := case when _policy.compiled -> 'uses' <> '[]' then agent_internal.exchanged_name(_policy.compiled -> 'uses') end;
                _applies := case when _other is null then true end;
                if _other is not null then
                    _reason := format('%s; if that may be, create policy "%s" again', _other, _policy.name);
                elsif _policy.condition is not null then
                    _applies := agent_internal.evaluate(_policy, 'condition', _call)::boolean;
                end if;
                if _applies and _policy.action = 'transform' then
                    _found := agent_internal.evaluate(_policy, 'expression', _call)::jsonb;
                    if jsonb_typeof(_found) is distinct from 'object' then
                        _applies := null;
                    end if;
                end if;
                if _applies is null and _other is null then
                    _reason := format('policy "%s" returned NULL', _policy.name);
                end if;
            exception when others or assert_failure then
                get stacked diagnostics _state = returned_sqlstate;
                if _state ~ '^(08|40|53|57P|55P03|WA016)' then
                    raise;
                end if;
                _applies := null;
                _reason := format('policy "%s" failed (SQLSTATE %s)', _policy.name, _state);
            end;
            if _applies and _policy.action = 'transform' then
                _found := _call - _carried
                          || case when _found ? _carried then jsonb_build_object(_carried, _found -> _carried) else '{}' end;
                if _again = 1 and _found <> _call then
                    _applies := null;
                    _reason := format('a later policy changes what policy "%s" has made of it', _policy.name);
                elsif _found <> _call then
                    _call := _found;
                    _changes := _changes || _policy;
                end if;
            end if;
            if _applies is null or _applies and _policy.action = 'deny' then
                _verdict := jsonb_build_object('action', 'deny', 'reason', _reason, 'policy', _policy.name);
                exit;
            elsif not _applies then
                continue;
            end if;
            case _policy.action
                when 'allow' then
                    if _verdict ->> 'action' = 'allow' then
                        _verdict := _verdict || jsonb_build_object('policy', _policy.name);
                    end if;
                    _allowed := _allowed || _policy.run_as;
                when 'transform' then null;
                else
                    _verdict := jsonb_build_object('action', 'require', 'reason', _reason, 'policy', _policy.name);
                    if _policy.action = 'escalate' and _policy.name <> all (_raised) then
                        _raised := _raised || _policy.name;
                        perform agent_internal.audit('policy.escalated', _policy.name, jsonb_build_object(
                            'point', _point, 'phase', _phase,
                            'run', _call -> 'run', 'agent', _call -> 'agent', 'tool', _call -> 'tool'), _tenant);
                    end if;
            end case;
        end loop;
    end loop;
    perform set_config('walagent.identity', _identity, true);
    return _verdict || jsonb_build_object('call', _call);
end;
$$;
comment on function agent_internal.decide_policy(text, text, jsonb, text) is 'What the policies of a tenant decide about a call';

-- The same for a worker, on a connection for code of others.
--
-- Args: _request: signed: point, phase, call, tenant.
create or replace function agent_signed.decide_policy(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _asked constant jsonb := agent_internal.signed(_request, _signature);
begin
    return agent_internal.decide_policy(_asked ->> 'point', _asked ->> 'phase', _asked -> 'call', _asked ->> 'tenant');
end;
$$;
comment on function agent_signed.decide_policy(text, bytea) is 'What the policies of a tenant decide about a call, for a worker';

-- Create the trampolines of the policies' roles, as the worker.  A role that it cannot become gets none, and its policies
-- deny.
create or replace function agent_internal.make_policy_trampolines()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _role name;
begin
    for _role in select distinct p.run_as from agent.policy p where p.enabled order by 1 loop
        begin
            perform agent_internal.make_trampoline(_role);
        exception when sqlstate 'WA008' or sqlstate 'WA016' then
            raise warning 'policies of role "%" cannot be evaluated: %', _role, sqlerrm;
        end;
    end loop;
end;
$$;
comment on function agent_internal.make_policy_trampolines() is 'Create the functions as which policies are evaluated';

-- Whether a request may be sent, by the rules and policies of a tenant; it is then counted.
--
-- The worker also requires that its own configuration allows the host, and that the address is public: no row here allows more.
-- A policy opens a target without a rule, or lets a person do so, if its role could change the rules.
--
-- Args: _about: what else policies see.
-- Returns action: allow, with max_bytes; deny or require, with reason; wait, with seconds, until there is room in the limit.
create or replace function agent_internal.check_egress(_tenant text, _url text, _method text, _about jsonb default '{}')
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _parts   constant text[] := regexp_match(_url, '^(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::([0-9]{1,5}))?([/?].*)?$');
    _scheme  constant text := _parts[1];
    _host    constant text := rtrim(lower(_parts[2]), '.');
    _port    constant integer := coalesce(_parts[3]::integer, case _parts[1] when 'https' then 443 else 80 end);
    _named   constant text := format('%s://%s:%s', _scheme, _host, _port);
    _rule    agent.egress_rule;
    _ruled   constant boolean := exists (select from agent.egress_rule r where r.tenant = _tenant);
    _verdict jsonb;
    _wait    double precision;
begin
    if _parts is null or _method is null or _tenant is null then
        return jsonb_build_object('action', 'deny', 'reason', 'the target of the request is not a plain URL');
    end if;
    select * into _rule from agent.egress_rule r
     where r.tenant = _tenant and r.scheme = _scheme and r.host = _host and r.port = _port and upper(_method) = any (r.methods);
    _verdict := agent_internal.decide_policy('egress', 'before', _about || jsonb_build_object(
        'scheme', _scheme, 'host', _host, 'port', _port, 'method', upper(_method), 'listed', _rule.host is not null), _tenant);
    if _verdict ->> 'action' <> 'deny' and _ruled and _rule.host is null and not exists (
           select from agent.policy p
            where p.tenant = _tenant and p.name = _verdict ->> 'policy'
              and not exists (select from agent.egress_rule r
                               where r.tenant = _tenant and not agent_internal.overrules(p.run_as, r.made_by))) then
        return jsonb_build_object('action', 'deny', 'reason', format('%s %s is not among the egress rules', upper(_method), _named));
    elsif _verdict ->> 'action' <> 'allow' then
        return _verdict - 'call';
    end if;
    if _rule.host is not null then
        _wait := agent_internal.take_rate(_tenant, array['egress ' || _named], array[_rule.requests_per_minute]);
        if _wait is not null then
            return jsonb_build_object('action', 'wait', 'seconds', _wait, 'reason', format('requests_per_minute of %s reached', _named));
        end if;
    end if;
    return jsonb_build_object('action', 'allow', 'max_bytes', _rule.max_bytes);
end;
$$;
comment on function agent_internal.check_egress(text, text, text, jsonb) is 'Whether a request may be sent, by the rules and policies of a tenant';

create or replace function agent_signed.check_egress(_request text, _signature bytea)
    returns jsonb
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _asked constant jsonb := agent_internal.signed(_request, _signature);
begin
    return agent_internal.check_egress(_asked ->> 'tenant', _asked ->> 'url', _asked ->> 'method', _asked -> 'about');
end;
$$;
comment on function agent_signed.check_egress(text, bytea) is 'Whether a request may be sent, for a worker';
