-- What a node executes, with agents, tools and subgraphs as they are now.
--
-- Args: _as: run_as and search_path; all else is NULL or empty.
-- Raises WA011, WA014, WA021, WA022 or WA025 if a part of it does not exist or cannot be used.
create or replace function agent_internal.resolve_node(_workflow text, _node jsonb, _as agent.attachment)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _kind  constant text := _node ->> 'kind';
    _needs constant text := case _kind when 'tool' then 'tool' when 'function' then 'function' when 'subgraph' then 'workflow'
                                       when 'parallel' then 'branches' end;
    _known constant text[] := '{name,kind,agent,model,prompt,tool,arguments,function,workflow,branches,output,format,type,expires,attempts,interrupt_before,interrupt_after,lets_out}';
    _key    text;
    _agent  agent.agent;
    _sub    agent.workflow_version;
    _tool   jsonb;
    _tools  jsonb;
    _instead jsonb;
begin
    for _key in select jsonb_object_keys(_node) loop
        if _key <> all (_known) then
            raise exception 'invalid key "%"', _key using errcode = 'WA025', hint = agent_internal.suggest(_key, _known);
        end if;
    end loop;
    if _needs is not null and not _node ? _needs then
        raise exception 'a node of kind % requires "%"', _kind, _needs using errcode = 'WA025';
    elsif coalesce(_node ->> 'type', 'review') <> all ('{approval,input,review,escalation}') then
        raise exception 'invalid type "%": expected approval, input, review or escalation', _node ->> 'type' using errcode = 'WA025';
    elsif coalesce(_node ->> 'format', 'text') <> all ('{text,json}') then
        raise exception 'invalid format "%": expected text or json', _node ->> 'format' using errcode = 'WA025';
    elsif jsonb_typeof(coalesce(_node -> 'arguments', '{}')) <> 'object' then
        raise exception 'arguments must be an object' using errcode = 'WA025';
    elsif coalesce((_node ->> 'attempts')::integer, 1) not between 1 and 10 then
        raise exception 'attempts must be from 1 to 10' using errcode = 'WA025';
    end if;
    if (_node ->> 'expires')::interval <= '0' then
        raise exception 'expires must be positive' using errcode = 'WA025';
    end if;
    _node := _node || jsonb_build_object('expires', coalesce(extract(epoch from (_node ->> 'expires')::interval), 604800),
                                         'interrupt_before', coalesce((_node ->> 'interrupt_before')::boolean, false),
                                         'interrupt_after', coalesce((_node ->> 'interrupt_after')::boolean, false),
                                         'attempts', coalesce((_node ->> 'attempts')::integer, 1));
    case _kind
        when 'model' then
            if num_nonnulls(_node -> 'agent', _node -> 'model') <> 1 then
                raise exception 'a node of kind model requires either "agent" or "model"' using errcode = 'WA025';
            elsif _node ? 'model' then
                perform agent_internal.check_model(_node ->> 'model', agent.current_tenant());
                return _node;
            end if;
            select * into _agent from agent.agent g where g.name = _node ->> 'agent' and agent_internal.tenant_of(g) = agent.current_tenant();
            if not found then
                raise exception 'agent "%" does not exist', _node ->> 'agent' using errcode = 'WA025',
                    hint = agent_internal.suggest(_node ->> 'agent', (select array_agg(g.name) from agent.agent g));
            end if;
            _instead := agent_internal.fallback_of(_agent);
            if _agent.fallback is not null then
                perform agent_internal.check_fallback(_agent.model, _agent.fallback, agent.current_tenant());
            end if;
            _agent := agent_internal.effective_agent(_agent);
            perform agent_internal.check_cascade(_agent.cascade, _agent.model, _agent.fallback, _agent.tenant);
            perform agent_internal.check_tier(_agent);
            perform agent_internal.check_model(_agent.model, agent.current_tenant());
            _as.agent := _agent.name;
            select coalesce(jsonb_agg(agent_internal.resolve_tool(t, _as) order by n), '[]') into _tools
              from unnest(_agent.tools) with ordinality as x (t, n);
            _tools := agent_internal.with_approvals(_tools, _agent);
            return _node || jsonb_build_object('agent', to_jsonb(_agent) || jsonb_build_object(
                'agent', _agent.name, 'tools', _tools, 'finish', coalesce(_agent.finish, 'answer')) || _instead);
        when 'tool' then
            if exists (select from agent.tool t where t.name = _node ->> 'tool'
                          and (t.kind = 'builtin' and t.target <> all ('{query,do_nothing}') or t.kind = 'llm' and t.target = '')) then
                raise exception 'tool "%" acts for an agent', _node ->> 'tool' using errcode = 'WA025',
                    hint = 'Use a node of kind model with an agent that has the tool.';
            end if;
            return _node || jsonb_build_object('tool', agent_internal.resolve_tool(_node ->> 'tool', _as));
        when 'function' then
            return _node || jsonb_build_object('function', agent_internal.state_function(_node ->> 'function', 'jsonb', _as));
        when 'subgraph' then
            select v.* into _sub from agent.workflow w join agent.workflow_version v on v.tenant = w.tenant and v.workflow = w.name and v.version = w.version
             where w.tenant = agent.current_tenant() and w.name = _node ->> 'workflow';
            if not found then
                raise exception 'workflow "%" does not exist', _node ->> 'workflow' using errcode = 'WA025';
            elsif _sub.definition -> 'includes' ? _workflow then
                raise exception 'workflow "%" contains workflow "%"', _node ->> 'workflow', _workflow using errcode = 'WA025';
            elsif _sub.run_as <> _as.run_as then
                raise exception 'workflow "%" runs as role "%", not as "%"', _node ->> 'workflow', _sub.run_as, _as.run_as
                    using errcode = 'WA025';
            end if;
            return _node || jsonb_build_object('workflow', _sub.definition);
        else
            return _node;
    end case;
end;
$$;

-- A function of the state, as a tool: one argument of type jsonb, and a result of *_result*.
create or replace function agent_internal.state_function(_name text, _result regtype, _as agent.attachment)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _function constant regprocedure := agent_internal.find_function(_name, _as.search_path);
    _tool     jsonb;
begin
    if _function is null then
        raise exception 'function "%" does not exist', _name using errcode = 'WA025';
    end if;
    perform agent_internal.check_function(_name, _function, _as.run_as);
    _tool := agent_internal.function_tool(_function);
    if _tool #>> '{arguments,0,type}' is distinct from 'pg_catalog.jsonb' or jsonb_array_length(_tool -> 'arguments') <> 1
       or (select p.prorettype <> _result or p.proretset from pg_proc p where p.oid = _function) then
        raise exception 'function "%" must have one argument of type jsonb and return %', _name, _result using errcode = 'WA025';
    end if;
    return _tool || jsonb_build_object('name', agent_internal.tool_name(_name), 'bind', '{}'::jsonb, 'approval', false, 'timeout', 30);
end;
$$;

-- The condition of an edge, as agent_internal.compiled_expression() returns it.
create or replace function agent_internal.edge_condition(_edge jsonb, _as agent.attachment, out compiled text, out uses jsonb)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _condition text := _edge ->> 'condition';
    _tool      jsonb;
begin
    if _edge ? 'function' then
        if _condition is not null then
            raise exception 'an edge has either a condition or a function' using errcode = 'WA025';
        end if;
        _tool := agent_internal.state_function(_edge ->> 'function', 'boolean', _as);
        _condition := format('%I.%I(state)', _tool ->> 'schema', _tool ->> 'function');
    end if;
    select c.compiled, c.uses into compiled, uses
      from agent_internal.compiled_expression(_condition, 'bool', 'state', _as.search_path, _as.run_as, 'WA025') c;
end;
$$;

-- What is wrong with a workflow.
--
-- Args: _source: {"nodes", "edges", "entry", "exits"}.
-- Returns severity: error or warning; code; node: NULL: the workflow; message.
create or replace function agent_internal.check_workflow(_workflow text, _source jsonb, _as agent.attachment)
    returns table (severity text, code text, node text, message text)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
#variable_conflict use_column
declare
    _kinds constant text[] := '{model,tool,router,function,human,parallel,subgraph}';
    _of_edges constant text[] := '{from,to,condition,function,label,priority}';
    _names text[] := array(select x ->> 'name' from jsonb_array_elements(_source -> 'nodes') x);
    _exits constant text[] := array(select jsonb_array_elements_text(_source -> 'exits'));
    _entry constant text := _source ->> 'entry';
    _each  jsonb;
    _name  text;
    _hint  text;
begin
    if _names = '{}' then
        return query select 'error', 'no_nodes', null::text, 'a workflow requires a node';
        return;
    end if;
    return query select 'error', 'duplicate_node', n, format('two nodes have the name "%s"', n)
                   from unnest(_names) n group by n having count(*) > 1;
    for _each in select * from jsonb_array_elements(_source -> 'nodes') loop
        _name := _each ->> 'name';
        if _name is null or _name !~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$' then
            return query select 'error', 'invalid_node', _name, format('invalid name "%s" of a node', _name);
        elsif _each ->> 'kind' is null or _each ->> 'kind' <> all (_kinds) then
            return query select 'error', 'invalid_node', _name, format('invalid kind "%s": expected one of %s', _each ->> 'kind', array_to_string(_kinds, ', '));
        else
            begin
                perform agent_internal.resolve_node(_workflow, _each, _as);
            exception when sqlstate 'WA011' or sqlstate 'WA014' or sqlstate 'WA021' or sqlstate 'WA022' or sqlstate 'WA025' or data_exception then
                get stacked diagnostics _hint = pg_exception_hint;
                return query select 'error', case when sqlstate = 'WA014' then 'unknown_model'
                                                  when sqlstate in ('WA011', 'WA022') then 'unknown_tool'
                                                  when sqlerrm like 'agent %' then 'unknown_agent'
                                                  when sqlerrm like 'function %' then 'unknown_function'
                                                  when sqlerrm like 'workflow % contains %' then 'subgraph_cycle'
                                                  when sqlerrm like 'workflow %' then 'unknown_workflow'
                                                  else 'invalid_node' end, _name, sqlerrm || coalesce(format(' (%s)', nullif(rtrim(_hint, '.'), '')), '');
            end;
        end if;
    end loop;
    if _entry is null or _entry <> all (_names) then
        return query select 'error', 'missing_entry', null::text, format('entry "%s" is not a node', _entry);
    end if;
    return query select 'error', 'unknown_exit', e, format('exit "%s" is not a node', e) from unnest(_exits) e where e <> all (_names);
    return query
        select 'error', 'second_start', '__start__', 'two edges lead from __start__'
          from jsonb_array_elements(_source -> 'edges') e where e ->> 'from' = '__start__' having count(*) > 1;
    for _each in select * from jsonb_array_elements(_source -> 'edges') loop
        for _name in select u from unnest(array[_each ->> 'from', _each ->> 'to']) with ordinality as x (u, n)
                      where u is null or u <> all (_names) and u <> case n when 1 then '__start__' else '__end__' end loop
            return query select 'error', 'dangling_edge', _each ->> 'from',
                format('edge from "%s" to "%s": "%s" is not a node', _each ->> 'from', _each ->> 'to', _name);
        end loop;
        begin
            for _name in select jsonb_object_keys(_each) loop
                if _name <> all (_of_edges) then
                    raise exception 'invalid key "%"', _name using errcode = 'WA025', hint = agent_internal.suggest(_name, _of_edges);
                end if;
            end loop;
            perform from agent_internal.edge_condition(_each, _as);
            if _each ->> 'from' = '__start__' and (_each ? 'condition' or _each ? 'function') then
                raise exception 'the edge from __start__ cannot have a condition' using errcode = 'WA025', hint = 'Begin with a router.';
            end if;
        exception when sqlstate 'WA011' or sqlstate 'WA025' or data_exception or syntax_error_or_access_rule_violation then
            get stacked diagnostics _hint = pg_exception_hint;
            return query select 'error', 'invalid_condition', _each ->> 'from',
                format('edge from "%s" to "%s": %s', _each ->> 'from', _each ->> 'to', sqlerrm || coalesce(format(' (%s)', nullif(rtrim(_hint, '.'), '')), ''));
        end;
    end loop;
    return query
        select 'error', 'invalid_branch', x ->> 'name',
               case when k ->> 'kind' is null then format('branch "%s" is not a node', b)
                    when k ->> 'kind' <> all ('{model,tool,function}') then format('branch "%s" is of kind %s: expected model, tool or function', b, k ->> 'kind')
                    else format('branch "%s" has edges, or is the entry or an exit', b) end
          from jsonb_array_elements(_source -> 'nodes') x
               cross join jsonb_array_elements_text(case jsonb_typeof(x -> 'branches') when 'array' then x -> 'branches' end) b
               left join jsonb_array_elements(_source -> 'nodes') k on k ->> 'name' = b
         where x ->> 'kind' = 'parallel'
           and (k ->> 'kind' is null or k ->> 'kind' <> all ('{model,tool,function}') or b = _entry or b = any (_exits)
                or exists (select from jsonb_array_elements(_source -> 'edges') e where b in (e ->> 'from', e ->> 'to')));
    return query
        with recursive edge as (
            select e ->> 'from' as a, e ->> 'to' as b, e ? 'condition' or e ? 'function' as conditional from jsonb_array_elements(_source -> 'edges') e
        ), branch as (
            select x ->> 'name' as a, b
              from jsonb_array_elements(_source -> 'nodes') x
                   cross join jsonb_array_elements_text(case jsonb_typeof(x -> 'branches') when 'array' then x -> 'branches' end) b
        ), reached (name) as (
            select _entry
            union
            select x.b from reached r join (select a, b from edge union all select a, b from branch) x on x.a = r.name
        ), ending (name) as (
            select n from unnest(_names) n
             where n = any (_exits) or not exists (select from edge e where e.a = n) or exists (select from edge e where e.a = n and e.b = '__end__')
            union
            select e.a from ending d join edge e on e.b = d.name
        )
        select 'error', 'cycle_without_exit', n, format('no end can be reached from node "%s"', n)
          from unnest(_names) n where n in (select name from reached) and n not in (select name from ending)
        union all
        select 'warning', 'unreachable_node', n, format('node "%s" cannot be reached', n)
          from unnest(_names) n where n not in (select name from reached where name is not null)
        union all
        select 'warning', 'dead_end', n, format('the workflow ends after node "%s", which has no edges and is not an exit', n)
          from unnest(_names) n
         where _exits <> '{}' and n <> all (_exits) and n not in (select a from edge where a is not null) and n not in (select b from branch)
        union all
        select 'warning', 'extra_edge', e.a, format('only the first of the edges from node "%s" without a condition applies', e.a)
          from edge e where not e.conditional group by e.a having count(*) > 1;
end;
$$;

create or replace function agent_internal.executing_as(_run_as name, _path text)
    returns agent.attachment
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _as agent.attachment;
begin
    _as.run_as := _run_as;
    _as.search_path := _path;
    _as.bind := '{}';
    _as.approve := '{}';
    _as.writes := '{}';
    return _as;
end;
$$;

-- The tools of nodes, also of workflows in them.  One before whose node a person decides, or whose node lets out what others
-- read, counts as approved.
create or replace function agent_internal.tools_of_nodes(_nodes jsonb)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive node (n) as (
        select e.value from jsonb_each(_nodes) e
        union all
        select e.value from node cross join lateral jsonb_each(node.n #> '{workflow,nodes}') e where node.n ->> 'kind' = 'subgraph'
    )
    select coalesce(jsonb_agg(t.tool || case
                when (node.n -> 'lets_out') = 'true' or node.n ->> 'kind' = 'tool' and (node.n -> 'interrupt_before') = 'true'
                then '{"approval": true}' else '{}' end::jsonb), '[]')
      from node cross join lateral (
               select node.n -> 'tool' where node.n ->> 'kind' = 'tool'
               union all
               select jsonb_array_elements(node.n #> '{agent,tools}') where node.n ->> 'kind' = 'model' and node.n ? 'agent') t (tool)
$$;

-- Check and resolve a new version, with the rights of the role that creates it.
create or replace function agent_internal.defined_workflow(_new agent.workflow_version, _schemas name[])
    returns agent.workflow_version
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _source  constant jsonb := jsonb_build_object('nodes', '[]'::jsonb, 'edges', '[]'::jsonb, 'exits', '[]'::jsonb) || _new.source;
    _as      agent.attachment;
    _other   name;
    _wrong   record;
    _nodes   jsonb;
    _edges   jsonb;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not create workflows', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    elsif not pg_has_role(current_user, _new.run_as, 'member') then
        raise exception 'must be a member of role "%" to create a workflow that runs as it', _new.run_as using errcode = '42501';
    end if;
    select v.run_as into _other
      from agent.workflow w join agent.workflow_version v on v.tenant = w.tenant and v.workflow = w.name and v.version = w.version
     where w.tenant = _new.tenant and w.name = _new.workflow and not agent_internal.may_change(v.run_as);
    if found then
        raise exception 'must be a member of role "%" to change workflow "%", which runs as it', _other, _new.workflow using errcode = '42501';
    end if;
    _new.search_path := agent_internal.path_of(_schemas);
    _as := agent_internal.executing_as(_new.run_as, _new.search_path);
    _new.entry := coalesce(_source ->> 'entry', (select e ->> 'to' from jsonb_array_elements(_source -> 'edges') e where e ->> 'from' = '__start__' limit 1),
                           _source #>> '{nodes,0,name}');
    _new.exits := array(select jsonb_array_elements_text(_source -> 'exits'));
    select string_agg(format('%s: %s', w.code, w.message), '; ') as text, count(*) as count into _wrong
      from agent_internal.check_workflow(_new.workflow, _source || jsonb_build_object('entry', _new.entry), _as) w where w.severity = 'error';
    if _wrong.count > 0 then
        raise exception 'workflow "%" is not valid: %', _new.workflow, _wrong.text using errcode = 'WA025';
    end if;
    select jsonb_object_agg(n ->> 'name', agent_internal.resolve_node(_new.workflow, n, _as)) into _nodes
      from jsonb_array_elements(_source -> 'nodes') n;
    begin
        perform agent_internal.check_ways_out(agent_internal.tools_of_nodes(_nodes), '{}');
    exception when sqlstate 'WA011' then
        raise exception 'workflow "%": %', _new.workflow, sqlerrm
            using errcode = 'WA025', hint = 'Set interrupt_before on the node of the tool; or lets_out if what is read may leave the database.';
    end;
    select coalesce(jsonb_object_agg(g.a, g.edges), '{}') into _edges
      from (select e ->> 'from' as a, jsonb_agg(jsonb_strip_nulls(jsonb_build_object(
                       'to', e ->> 'to', 'label', e ->> 'label', 'condition', c.compiled, 'uses', nullif(c.uses, '[]')))
                       order by (e ? 'condition' or e ? 'function') desc, coalesce((e ->> 'priority')::integer, 100), n) as edges
              from jsonb_array_elements(_source -> 'edges') with ordinality as x (e, n)
                   cross join agent_internal.edge_condition(e, _as) c
             where e ->> 'from' <> '__start__' group by 1) g;
    _new.version := agent_internal.next_workflow_version(_new.workflow, coalesce(_source ->> 'description', ''));
    _new.made_by := coalesce(agent.current_principal(), session_user);
    _new.definition := jsonb_build_object(
        'name', _new.workflow, 'version', _new.version, 'nodes', _nodes, 'edges', _edges, 'entry', _new.entry, 'exits', to_jsonb(_new.exits),
        'max_steps', _new.max_steps, 'timeout', extract(epoch from _new.timeout), 'run_as', _new.run_as, 'search_path', _new.search_path,
        'includes', (select to_jsonb(array_agg(distinct i))
                       from (select _new.workflow as i union all
                             select jsonb_array_elements_text(n.value #> '{workflow,includes}')
                               from jsonb_each(_nodes) n where n.value ->> 'kind' = 'subgraph') x));
    return _new;
end;
$$;

-- Lock a workflow, or create it, and return the number of its next version.
create or replace function agent_internal.next_workflow_version(_name text, _description text)
    returns integer
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _version integer;
begin
    perform agent_internal.check_role('developer');
    insert into agent.workflow as w (name, version, description) values (_name, 1, _description)
    on conflict (tenant, name) do update set version = w.version + 1, description = excluded.description, updated_at = now()
    returning w.version into _version;
    return _version;
end;
$$;

-- Functions are called by their qualified name, and no operator is used: the search_path is still that of the caller.
create or replace function agent_internal.define_workflow()
    returns trigger
    language plpgsql
as $$
begin
    new := agent_internal.defined_workflow(new, agent_internal.schemas_of_caller());
    return new;
end;
$$;

create or replace function agent_internal.list_workflow_parts()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent.workflow_node (tenant, workflow, version, name, kind, settings)
    select new.tenant, new.workflow, new.version, n ->> 'name', n ->> 'kind', n - '{name,kind}'::text[]
      from jsonb_array_elements(new.source -> 'nodes') n;
    insert into agent.workflow_edge (tenant, workflow, version, number, from_node, to_node, condition, label, priority)
    select new.tenant, new.workflow, new.version, x.n, e ->> 'from', e ->> 'to', coalesce(e ->> 'condition', (e ->> 'function') || '(state)'),
           coalesce(e ->> 'label', ''), coalesce((e ->> 'priority')::integer, 100)
      from jsonb_array_elements(new.source -> 'edges') with ordinality as x (e, n) where e ->> 'from' <> '__start__';
    perform agent_internal.audit('workflow.created', new.workflow, jsonb_build_object('version', new.version, 'run_as', new.run_as), new.tenant);
    return null;
end;
$$;

-- Create a workflow, or a new version of it.
--
-- Args: nodes: [{"name", "kind", ...}]; edges: [{"from", "to", "condition" or "function", "label", "priority"}].
--   entry: NULL: where the edge from __start__ leads, or the first node.
--   exits: nodes after which it ends if none of their edges applies; it also ends after nodes without edges.
-- Returns the version.
-- Raises WA025, with everything that is wrong, and 42501 if the caller may not create workflows or is not a member of run_as.
create or replace function agent.create_workflow(
    name text, nodes jsonb, edges jsonb default '[]', entry text default null, exits text[] default '{}',
    max_steps integer default 100, timeout interval default '7 days', description text default '', run_as name default current_user
)
    returns integer
    language sql
begin atomic
    insert into agent.workflow_version (workflow, source, max_steps, timeout, run_as)
    values (create_workflow.name,
            jsonb_strip_nulls(jsonb_build_object(
                'nodes', create_workflow.nodes, 'edges', create_workflow.edges, 'entry', create_workflow.entry,
                'exits', create_workflow.exits, 'description', create_workflow.description)),
            create_workflow.max_steps, create_workflow.timeout, create_workflow.run_as)
    returning version;
end;
comment on function agent.create_workflow(text, jsonb, jsonb, text, text[], integer, interval, text, name) is 'Create a workflow, or a new version of it';

create or replace function agent_internal.workflow_named(_name text)
    returns agent.workflow_version
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _found agent.workflow_version;
begin
    select v.* into _found
      from agent.workflow w join agent.workflow_version v on v.tenant = w.tenant and v.workflow = w.name and v.version = w.version
     where w.tenant = agent.current_tenant() and w.name = _name;
    if not found then
        raise exception 'workflow "%" does not exist', _name using errcode = 'WA025',
            hint = agent_internal.suggest(_name, (select array_agg(w.name) from agent.workflow w where w.tenant = agent.current_tenant()));
    end if;
    return _found;
end;
$$;

-- What is wrong with the newest version of a workflow, as of now: tools and agents might have changed since.
create or replace function agent.validate_workflow(name text)
    returns table (severity text, code text, node text, message text)
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _of constant agent.workflow_version := agent_internal.workflow_named(validate_workflow.name);
begin
    return query select * from agent_internal.check_workflow(
        validate_workflow.name, pg_catalog.jsonb_build_object('edges', '[]'::pg_catalog.jsonb, 'exits', '[]'::pg_catalog.jsonb) operator(pg_catalog.||) _of.source
                                operator(pg_catalog.||) pg_catalog.jsonb_build_object('entry', _of.entry),
        agent_internal.executing_as(_of.run_as, _of.search_path));
end;
$$;
comment on function agent.validate_workflow(text) is 'What is wrong with a workflow: severity, code, node and message';

-- A workflow in the DOT language of Graphviz.
create or replace function agent.workflow_dot(name text)
    returns text
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _of constant agent.workflow_version := agent_internal.workflow_named(workflow_dot.name);
begin
    return format(E'digraph %s {\n  __start__ [shape=circle, label=""];\n', agent_internal.dot_quote(workflow_dot.name))
        || coalesce((select string_agg(format(E'  %s [shape=%s];\n', agent_internal.dot_quote(n.name),
                         case n.kind when 'router' then 'diamond' when 'human' then 'hexagon' when 'parallel' then 'parallelogram'
                                     when 'subgraph' then 'box3d' else 'box' end), '' order by n.name)
                       from agent.workflow_node n where n.tenant = _of.tenant and n.workflow = _of.workflow and n.version = _of.version), '')
        || format(E'  __start__ -> %s;\n', agent_internal.dot_quote(_of.entry))
        || coalesce((select string_agg(format(E'  %s -> %s%s;\n', agent_internal.dot_quote(e.from_node), agent_internal.dot_quote(e.to_node),
                         coalesce(' [label=' || agent_internal.dot_quote(coalesce(nullif(e.label, ''), e.condition)) || ']', '')), '' order by e.number)
                       from agent.workflow_edge e where e.tenant = _of.tenant and e.workflow = _of.workflow and e.version = _of.version), '')
        || coalesce((select string_agg(format(E'  %s -> %s [style=dashed];\n', agent_internal.dot_quote(n.name), agent_internal.dot_quote(b)), '' order by n.name, b)
                       from agent.workflow_node n cross join jsonb_array_elements_text(n.settings -> 'branches') b
                      where n.kind = 'parallel' and n.tenant = _of.tenant and n.workflow = _of.workflow and n.version = _of.version), '')
        || '}';
end;
$$;
comment on function agent.workflow_dot(text) is 'A workflow in the DOT language of Graphviz';

create or replace function agent_internal.dot_quote(_text text)
    returns text
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$ select '"' || replace(replace(replace(_text, '\', '\\'), '"', '\"'), E'\n', '\n') || '"' $$;

-- Raise 42501 unless the caller can become the role that a workflow runs as.
create or replace function agent_internal.check_workflow_owner(_of agent.workflow_version)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.is_operator() and not agent_internal.own_login_may_become(_of.run_as) then
        raise exception '"%" cannot become role "%", as which workflow "%" runs', coalesce(agent.current_principal(), ''), _of.run_as, _of.workflow
            using errcode = '42501', hint = format('Connect as a login that is a member of %I, or as the owner of the schema.', _of.run_as);
    end if;
end;
$$;

-- Remove a workflow.  Raises WA025 if runs of it have not ended.
create or replace function agent.drop_workflow(name text)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _of    constant agent.workflow_version := agent_internal.workflow_named(drop_workflow.name);
    _count bigint;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not drop workflows', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    end if;
    perform agent_internal.check_workflow_owner(_of);
    perform from agent.workflow w where w.tenant = _of.tenant and w.name = _of.workflow for update;
    select count(*) into _count from agent.run r
     where r.kind = 'node' and not agent_internal.is_final(r.state)
       and r.change #>> '{new,tenant}' = _of.tenant and r.change #>> '{new,workflow}' = _of.workflow;
    if _count > 0 then
        raise exception 'workflow "%" has % unfinished runs', _of.workflow, _count using errcode = 'WA025', hint = 'Cancel them first.';
    end if;
    delete from agent.workflow w where w.tenant = _of.tenant and w.name = _of.workflow;
    perform agent_internal.audit('workflow.dropped', _of.workflow, '{}', _of.tenant);
end;
$$;
comment on function agent.drop_workflow(text) is 'Remove a workflow that has no unfinished runs';

-- The definition of a run's version.
create or replace function agent_internal.workflow_definition(_tenant text, _workflow text, _version integer)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select v.definition from agent.workflow_version v
     where v.tenant = _tenant and v.workflow = _workflow and v.version = _version
$$;
comment on function agent_internal.workflow_definition(text, text, integer) is 'What the runs of a version of a workflow execute';

-- The tools of a run, with the name of its workflow, as agent_internal.check_call() reads those of an agent.
create or replace function agent_internal.workflow_tools(_run agent.run)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with node (made) as (
        select n.value
          from agent.workflow_version v
               cross join jsonb_path_query(v.definition, '$.**.nodes') g (nodes)
               cross join jsonb_each(case jsonb_typeof(g.nodes) when 'object' then g.nodes else '{}' end) n
         where v.tenant = _run.change #>> '{new,tenant}' and v.workflow = _run.change #>> '{new,workflow}'
           and v.version = (_run.change #>> '{new,version}')::integer
    ), tool (made) as (
        select coalesce(n.made -> 'tool', n.made -> 'function') from node n where n.made ->> 'kind' in ('tool', 'function')
        union
        select t from node n cross join jsonb_array_elements(n.made #> '{agent,tools}') t
         where n.made ->> 'kind' = 'model' and n.made ? 'agent'
    )
    select jsonb_build_object('name', _run.change #> '{new,workflow}', 'tools', coalesce(jsonb_agg(t.made), '[]')) from tool t
$$;
