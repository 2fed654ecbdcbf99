-- Tools of a definition: a name is resolved to a registered tool or to a SQL function, and frozen.

-- The function of a name in a search_path, or NULL.  As in a call, a function hides those of later schemas that
-- have the same arguments.
create or replace function agent_internal.find_function(_name text, _path text)
    returns regprocedure
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _schemas name[] := case when _name like '%.%' then array[split_part(_name, '.', 1)] else agent_internal.schemas_of(_path) end;
    _found   regprocedure[];
begin
    select array_agg(f.oid order by f.oid) into _found
      from (select distinct on (p.proargtypes) p.oid::regprocedure as oid
              from pg_proc p join pg_namespace n on n.oid = p.pronamespace
             where p.prokind = 'f' and n.nspname = any (_schemas)
               and p.proname = case when _name like '%.%' then split_part(_name, '.', 2) else _name end
             order by p.proargtypes, array_position(_schemas, n.nspname)) f;
    if cardinality(_found) > 1 then
        raise exception 'tool "%" is ambiguous: %', _name, array_to_string(_found, ', ')
            using errcode = 'WA011', hint = 'Register one of them: insert into agent.tool (name, kind, target) values (..., ''sql'', ''schema.name(types)'')';
    end if;
    if _found is null then
        return null;
    end if;
    return _found[1];
end;
$$;

-- A SQL function as a tool: the call, its arguments and what the model is shown.  Null for an argument with a default is
-- that default.  The search_path is empty, so that the target is printed with its schema.
create or replace function agent_internal.function_tool(_function regprocedure)
    returns jsonb
    language plpgsql
    stable
    set search_path = ''
    set quote_all_identifiers = off
as $$
declare
    _p pg_catalog.pg_proc;
    _names text[] := agent_internal.argument_names(_function);
    _arguments jsonb;
    _properties jsonb;
    _required jsonb;
begin
    select * into _p from pg_catalog.pg_proc where oid = _function;
    select coalesce(jsonb_agg(jsonb_build_object('name', _names[n], 'type', agent_internal.qualified_type(t)) order by n), '[]'),
           coalesce(jsonb_object_agg(_names[n], case when n <= _p.pronargs - _p.pronargdefaults then agent_internal.json_schema_of(t)
                                                     else agent_internal.or_null(agent_internal.json_schema_of(t)) end), '{}'),
           coalesce(jsonb_agg(_names[n] order by n) filter (where n <= _p.pronargs - _p.pronargdefaults), '[]')
      into _arguments, _properties, _required
      from unnest(_p.proargtypes::oid[]) with ordinality as a (t, n);
    return jsonb_build_object(
        'kind', 'sql',
        'target', _function::oid::regprocedure::text,
        'schema', (select nspname from pg_catalog.pg_namespace where oid = _p.pronamespace),
        'function', _p.proname,
        'owner', pg_get_userbyid(_p.proowner),
        'arguments', _arguments,
        'returns_set', _p.proretset,
        'description', coalesce(obj_description(_function, 'pg_proc'), ''),
        'input_schema', jsonb_build_object('type', 'object', 'additionalProperties', false,
                                           'properties', _properties, 'required', _required),
        'effect', case when _p.provolatile = 'v' then 'transactional' else 'read' end);
end;
$$;

-- The name of a tool in requests; providers accept no dots.
create or replace function agent_internal.tool_name(_name text)
    returns text
    language sql
    immutable
return regexp_replace(_name, '[^A-Za-z0-9_]', '_', 'g');

create or replace function agent_internal.drop_arguments(_schema jsonb, _names text[])
    returns jsonb
    language sql
    immutable
begin atomic
    select _schema || jsonb_build_object(
        'properties', coalesce(_schema -> 'properties', '{}') - _names,
        'required', coalesce((select jsonb_agg(r) from jsonb_array_elements_text(_schema -> 'required') r
                               where r <> all (_names)), '[]'));
end;

-- The tool update_row of an attachment: the columns in `writes`, with their types' schemas.
create or replace function agent_internal.update_tool(_attachment agent.attachment)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _properties jsonb;
begin
    if _attachment.writes = '{}' then
        raise exception 'tool "update_row" requires writes'
            using errcode = 'WA011', hint = 'Add writes=[column, ...].';
    end if;
    if agent_internal.key_columns(_attachment.relation) = '{}' then
        raise exception 'tool "update_row" requires a primary key on %', _attachment.relation
            using errcode = 'WA011';
    end if;
    select jsonb_object_agg(w, agent_internal.column_schema(_attachment.relation, w)) into _properties
      from unnest(_attachment.writes) w;
    return jsonb_build_object('kind', 'builtin', 'target', 'update_row', 'effect', 'transactional',
        'input_schema', jsonb_build_object('type', 'object', 'additionalProperties', false,
            'properties', _properties, 'minProperties', 1));
end;
$$;

-- The tool query of an attachment: the SQL of the model, executed by a read-only role.
--
-- The role that attaches must be a member of it, because the agent can show what it reads.
create or replace function agent_internal.query_tool(_name text, _role name)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _could record;
begin
    if not exists (select from pg_catalog.pg_roles where rolname = _role) then
        raise exception 'tool "%": role "%" does not exist', _name, _role
            using errcode = 'WA011',
                  hint = format('Name a role in query_as, or: create role %1$I; grant usage on schema public to %1$I; grant select on all tables in schema public to %1$I', _role);
    elsif not pg_has_role(current_user, _role, 'member') then
        raise exception 'must be a member of role "%" to attach an agent that reads as it', _role
            using errcode = '42501';
    end if;
    select string_agg(w.reason, '; ') as reasons, string_agg(distinct w.fix, '; ') as fixes into _could
      from (select reason, fix from agent_internal.writing_rights(_role) limit 3) w;
    if _could.reasons is not null then
        raise exception 'tool "%": role "%" must be read-only: %', _name, _role, _could.reasons
            using errcode = 'WA011', hint = _could.fixes;
    end if;
    return jsonb_build_object('kind', 'builtin', 'target', 'query', 'effect', 'read', 'role', _role,
        'input_schema', jsonb_build_object('type', 'object', 'additionalProperties', false, 'required', '["sql"]'::jsonb,
            'properties', jsonb_build_object('sql', jsonb_build_object('type', 'string',
                'description', 'One SELECT, VALUES, TABLE or EXPLAIN of PostgreSQL'))));
end;
$$;

-- Each tool once, with an object of arguments, and each bound argument an argument of a tool: the model would set a
-- misspelled one.
create or replace function agent_internal.check_tools(_tools jsonb, _bind jsonb)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _stray text;
begin
    select t ->> 'name' into _stray from jsonb_array_elements(_tools) t group by 1 having count(*) > 1 limit 1;
    if found then
        raise exception 'tool "%" is listed twice', _stray using errcode = 'WA011';
    end if;
    select t ->> 'name' into _stray from jsonb_array_elements(_tools) t where t -> 'input_schema' ->> 'type' is distinct from 'object' limit 1;
    if found then
        raise exception 'tool "%": the type of input_schema must be "object"', _stray
            using errcode = 'WA011', hint = 'Write {"type": "object", "properties": {...}}: the arguments of a call have names.';
    end if;
    select a into _stray
      from jsonb_object_keys(_bind) a
     where not exists (select from jsonb_array_elements(_tools) t where t -> 'bind' ? a)
     limit 1;
    if found then
        raise exception 'bind: no tool has an argument "%"', _stray
            using errcode = 'WA011',
                  hint = agent_internal.suggest(_stray, array(select jsonb_object_keys(t -> 'input_schema' -> 'properties')
                                                       from jsonb_array_elements(_tools) t));
    end if;
end;
$$;

-- Refuse an agent that reads what its rows do not have, is given rows that others write, and can send out without a person: a
-- row could make it send what it reads.  `lets_out` names the tools for which somebody has accepted that.  Of the
-- functions of walagent and of extensions, each that is volatile counts as one: it can send, or make another run send.
create or replace function agent_internal.check_ways_out(_tools jsonb, _lets_out text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _reading text;
    _out     text;
    _word    text;
begin
    select t ->> 'name' into _reading from jsonb_array_elements(_tools) t
     where t ->> 'kind' = 'builtin' and t ->> 'target' = any ('{query,retrieve,read_file}') limit 1;
    if _reading is null then
        return;
    end if;
    select t ->> 'name', case t ->> 'name' when agent_internal.tool_name(f.name) then f.name else t ->> 'name' end into _out, _word
      from jsonb_array_elements(_tools) t cross join lateral format('%s.%s', t ->> 'schema', t ->> 'function') f (name)
     where (t ->> 'kind' = any ('{http,mcp}') or t ->> 'effect' = any ('{idempotent,unsafe}')
            or t ->> 'kind' = 'builtin' and t ->> 'target' = any ('{send_email,send_webhook,web_search}')
            or t ->> 'kind' = 'sql' and t ->> 'effect' <> 'read'
               and (t ->> 'schema' ~ '^agent(_internal|_signed|_call)?$'
                    or exists (select from pg_depend d
                                where d.classid = 'pg_proc'::regclass and d.objid = to_regprocedure(t ->> 'target') and d.deptype = 'e')))
       and not coalesce((t ->> 'approval')::boolean, false)
       and not exists (select from unnest(_lets_out) l where agent_internal.tool_name(l) = t ->> 'name')
     order by 1 limit 1;
    if _out is not null then
        raise exception 'tool "%" can send out what "%" reads, and a row can ask for that: nobody approves its calls', _out, _reading
            using errcode = 'WA011',
                  hint = format('Use approve=[%1$s]; or lets_out=[%1$s] if what "%2$s" reads may leave the database.', _word, _reading);
    end if;
end;
$$;

-- Args: _key: approve or lets_out, of which each word names a tool.
create or replace function agent_internal.check_names(_key text, _words text[], _tools text[])
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _stray text;
begin
    select w into _stray from unnest(_words) w where w <> all (_tools) limit 1;
    if _stray is not null then
        raise exception '%: "%" is not among the tools', _key, _stray
            using errcode = 'WA011', hint = agent_internal.suggest(_stray, _tools);
    end if;
end;
$$;

-- Reject a function that *_run_as* cannot call, or that cannot be called with named arguments.
--
-- Functions of PostgreSQL and of extensions are for people, not for models: they are tools only if agent.tool has them.
-- Those of PostgreSQL that are volatile change the session or the server, read files, or execute SQL from text: never.
create or replace function agent_internal.check_function(_name text, _function regprocedure, _run_as name)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _system  constant boolean := exists (select from pg_catalog.pg_proc p
                                          where p.oid = _function and p.pronamespace in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace));
    _foreign constant boolean := exists (select from pg_catalog.pg_depend d
                                          where d.classid = 'pg_catalog.pg_proc'::regclass and d.objid = _function and d.deptype = 'e');
begin
    if not has_function_privilege(_run_as, _function, 'execute') then
        raise exception 'tool "%": role "%" lacks EXECUTE on function %', _name, _run_as, _function
            using errcode = 'WA011', hint = format('grant execute on function %s to %I', _function, _run_as);
    elsif _system and exists (select from pg_catalog.pg_proc p where p.oid = _function and p.provolatile = 'v') then
        raise exception 'tool "%": volatile function % of PostgreSQL cannot be a tool', _name, _function
            using errcode = 'WA011', hint = 'Write a function of your own that does only what the model needs.';
    elsif (_system or _foreign) and not exists (select from agent.tool t where t.name = _name and t.kind = 'sql') then
        raise exception 'tool "%": % belongs to PostgreSQL or an extension', _name, _function
            using errcode = 'WA011',
                  hint = format('Write a function of your own, or as the owner: insert into agent.tool (name, kind, target) values (%L, ''sql'', %L)',
                                _name, _function);
    elsif (select p.prorettype in ('trigger'::regtype, 'event_trigger'::regtype) from pg_catalog.pg_proc p where p.oid = _function) then
        raise exception 'tool "%": function % is a trigger function', _name, _function
            using errcode = 'WA011', hint = 'Only a trigger can call it. Write a function that returns another type.';
    elsif '' = any (agent_internal.argument_names(_function)) then
        raise exception 'tool "%": function % has an unnamed argument', _name, _function
            using errcode = 'WA011';
    elsif exists (select from pg_catalog.pg_proc p join pg_catalog.pg_type t on t.oid = any (p.proargtypes)
                   where p.oid = _function and (p.provariadic <> 0 or t.typtype = 'p')) then
        raise exception 'tool "%": function % is variadic or polymorphic', _name, _function
            using errcode = 'WA011', hint = 'Use a function with fixed arguments and types.';
    end if;
end;
$$;

-- Only the owner registers SQL functions as tools; the runner registers those of its processes.  Trials, shadows and retries call
-- a SQL function and roll it back: one that acts outside the database must not be one.
create or replace function agent_internal.check_tool()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if (new.kind in ('sql', 'builtin') or tg_op = 'UPDATE' and old.kind in ('sql', 'builtin'))
       and not pg_has_role((select relowner from pg_class where oid = tg_relid), 'member') then
        raise exception 'only the owner of agent.tool may register tools of kind "%"', new.kind using errcode = '42501';
    elsif new.kind = 'sql' and new.effect in ('idempotent', 'unsafe') then
        raise exception 'tool "%": the effect of a SQL function is read or transactional, by its volatility, not %', new.name, new.effect
            using errcode = 'WA011',
                  hint = 'A call is rolled back and repeated. Let what acts outside the database be a tool of kind http, mcp or python.';
    end if;
    return new;
end;
$$;

-- Reject a schema that a person wrote with words that JSON Schema does not have.  Those of MCP servers and of Python are made
-- by programs.
create or replace function agent_internal.check_schemas()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if new.input_schema is not null then
        perform agent_internal.check_json_schema(format('tool "%s": input_schema', new.name), new.input_schema);
    end if;
    if new.output_schema is not null then
        perform agent_internal.check_json_schema(format('tool "%s": output_schema', new.name), new.output_schema);
    end if;
    return new;
end;
$$;

-- Reject a tool over HTTP that no worker could call.  The host is literal: no argument chooses where a request goes.
create or replace function agent_internal.check_http_tool()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _known constant text[] := '{method,headers,body,idempotency_header,max_bytes}';
    _method text;
    _word   text;
begin
    select k into _word from jsonb_object_keys(new.http) k where k <> all (_known) limit 1;
    if found then
        raise exception 'tool "%": http: unknown key "%"', new.name, _word
            using errcode = 'WA011', hint = agent_internal.suggest(_word, _known);
    end if;
    if new.target !~ '^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][^\s#\\]*)?$' then
        raise exception 'tool "%": invalid URL: expected http:// or https://, a host without placeholders, and a path', new.name
            using errcode = 'WA011';
    end if;
    new.http := jsonb_build_object('method', 'POST') || new.http;
    _method := new.http ->> 'method';
    if _method is null or _method not in ('GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE') then
        raise exception 'tool "%": http: invalid method "%"', new.name, _method
            using errcode = 'WA011', hint = 'Use GET, HEAD, POST, PUT, PATCH or DELETE.';
    elsif jsonb_typeof(coalesce(new.http -> 'headers', '{}')) <> 'object'
          or exists (select from jsonb_each(coalesce(new.http -> 'headers', '{}')) h
                      where jsonb_typeof(h.value) <> 'string' or h.value #>> '{}' ~ '[[:cntrl:]]'
                         or h.key !~ '^[A-Za-z0-9-]+$'
                         or lower(h.key) in ('host', 'content-length', 'transfer-encoding', 'connection')) then
        raise exception 'tool "%": http: headers must be an object of strings, without Host, Content-Length, Transfer-Encoding and Connection',
            new.name using errcode = 'WA011';
    elsif coalesce(new.http ->> 'idempotency_header', 'x') !~ '^[A-Za-z0-9-]+$'
          or lower(new.http ->> 'idempotency_header') in ('host', 'content-length', 'transfer-encoding', 'connection')
          or jsonb_typeof(coalesce(new.http -> 'max_bytes', '1')) <> 'number'
          or coalesce((new.http ->> 'max_bytes')::numeric, 1) not between 1 and 1048576 then
        raise exception 'tool "%": http: idempotency_header must be a header''s name, and max_bytes a number up to 1048576',
            new.name using errcode = 'WA011';
    end if;
    -- transactional is the default of the column, and nothing outside the database is.
    if new.effect = 'transactional' then
        new.effect := case when _method in ('GET', 'HEAD', 'PUT', 'DELETE') then 'idempotent' else 'unsafe' end;
    elsif new.effect = 'read' then
        raise exception 'tool "%": the effect of a tool over HTTP is idempotent or unsafe', new.name using errcode = 'WA011';
    end if;
    select a into _word
      from jsonb_object_keys(agent_internal.json_schema_of(new.target, new.http) -> 'properties') a
     where new.input_schema is not null and not coalesce(new.input_schema -> 'properties', '{}') ? a
     limit 1;
    if found then
        raise exception 'tool "%": placeholder "%" is not among the properties of input_schema', new.name, _word
            using errcode = 'WA011';
    end if;
    return new;
end;
$$;

create or replace function agent_internal.resolve_tool(_name text, _attachment agent.attachment)
    returns jsonb
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row      agent.tool;
    _tool     jsonb;
    _function regprocedure;
    _bind     jsonb;
    _key      text;
begin
    _row := agent_internal.tool_of(_attachment.tenant, _name);
    if not _row.enabled then
        raise exception 'tool "%" is disabled', _name
            using errcode = 'WA011', hint = format('update agent.tool set enabled = true where name = %L', _name);
    elsif _row.kind = 'builtin' and _row.target = 'update_row' then
        _tool := agent_internal.update_tool(_attachment);
    elsif _row.kind = 'builtin' and _row.target = 'query' then
        _tool := agent_internal.query_tool(_name, coalesce(_attachment.query_as, 'walagent_analyst'));
    elsif _row.kind = 'http' then
        _tool := jsonb_build_object('http', _row.http, 'input_schema', agent_internal.json_schema_of(_row.target, _row.http));
    elsif _row.kind in ('builtin', 'python', 'mcp', 'llm') then
        _tool := jsonb_build_object('input_schema', '{"type": "object", "properties": {}, "additionalProperties": false}'::jsonb);
    else
        if _row.kind = 'sql' and _row.target like '%(%)' then
            perform set_config('search_path', _attachment.search_path, true);
            _function := pg_catalog.to_regprocedure(_row.target);
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        end if;
        if _function is null then
            _function := agent_internal.find_function(coalesce(_row.target, _name), _attachment.search_path);
        end if;
        if _function is null and _row.target is not null then
            raise exception 'function "%" of tool "%" does not exist', _row.target, _name
                using errcode = 'WA011',
                      hint = 'agent.tool.target is a name, or a signature such as "f(integer, text)", with the schema unless it is in the search_path.';
        elsif _function is null then
            raise exception 'tool "%" does not exist', _name
                using errcode = 'WA011',
                      hint = coalesce((select case p.prokind when 'p' then 'It is a procedure: a tool is a function. '
                                                             else 'It is an aggregate or window function, which cannot be a tool. ' end
                                         from pg_catalog.pg_proc p
                                        where p.proname = _name and p.prokind <> 'f'
                                          and p.pronamespace = any (array(select to_regnamespace(quote_ident(n))::oid
                                                                            from unnest(agent_internal.schemas_of(_attachment.search_path)) n)) limit 1), '')
                             || 'A tool is a row of agent.tool or a function in the search_path. '
                             || coalesce(substring(agent_internal.suggest(_name, array(
                                    select proname::text from pg_catalog.pg_proc
                                     where prokind = 'f' and prorettype not in ('trigger'::regtype, 'event_trigger'::regtype)
                                       and pronamespace = any (array(select to_regnamespace(quote_ident(n))::oid
                                                                       from unnest(agent_internal.schemas_of(_attachment.search_path)) n))))
                                    from '^Did you mean "[^"]*"[?] '), '')
                             || agent_internal.suggest(_name, (select array_agg(distinct name) from agent.tool where enabled and (tenant is null or tenant = _attachment.tenant)));
        end if;
        perform agent_internal.check_function(_name, _function, _attachment.run_as);
        _tool := agent_internal.function_tool(_function);
    end if;
    if _row.name is not null then
        _tool := _tool || jsonb_strip_nulls(jsonb_build_object(
            'kind', _row.kind, 'target', case when _row.kind = 'sql' then null else _row.target end,
            'description', nullif(_row.description, ''), 'input_schema', _row.input_schema,
            'effect', case when _row.kind = 'sql' then _tool ->> 'effect' else _row.effect end,
            'fingerprint', _row.fingerprint, 'risk', _row.risk, 'version', _row.version, 'scope', to_jsonb(_row) ->> 'scope', 'llm', nullif(to_jsonb(_row) -> 'llm', 'null'),
            'output_schema', _row.output_schema, 'retries', _row.retries, 'retry_seconds', _row.retry_seconds,
            'timeout', _row.timeout_seconds));
    end if;

    select k into _key from jsonb_object_keys(coalesce(_row.bind, '{}')) k
     where not coalesce(_tool -> 'input_schema' -> 'properties', '{}') ? k limit 1;
    if _key is not null then
        raise exception 'tool "%": bind: it has no argument "%"', _name, _key
            using errcode = 'WA011',
                  hint = agent_internal.suggest(_key, array(select jsonb_object_keys(coalesce(_tool -> 'input_schema' -> 'properties', '{}'))));
    end if;

    -- Bound arguments are removed from the schema: the model neither sees nor sets them.
    select coalesce(jsonb_object_agg(b.key, b.value), '{}')
      into _bind
      from jsonb_each_text(coalesce(_row.bind, '{}') || _attachment.bind) b
     where _tool -> 'input_schema' -> 'properties' ? b.key;
    for _key in select value from jsonb_each_text(_bind) loop
        if not exists (select from pg_catalog.pg_attribute
                        where attrelid = _attachment.relation and attname = _key and attnum > 0 and not attisdropped) then
            raise exception 'tool "%": bind: column "%" of % does not exist', _name, _key, _attachment.relation
                using errcode = 'WA011';
        end if;
    end loop;
    return jsonb_build_object('timeout', 30) || _tool || jsonb_build_object(
        'name', agent_internal.tool_name(_name),
        'bind', _bind,
        'approval', coalesce(_row.approval, false) or _name = any (_attachment.approve)
                    or agent_internal.approves_risk(_row.risk, _attachment),
        'input_schema', agent_internal.drop_arguments(_tool -> 'input_schema', array(select jsonb_object_keys(_bind))));
end;
$$;

create or replace function agent_internal.tool_of(_tenant text, _name text)
    returns agent.tool
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select t from agent.tool t
     where t.name = _name and t.scope in ('', _tenant)
     order by t.scope desc limit 1
$$;
comment on function agent_internal.tool_of(text, text) is 'The tool of a name for a tenant: its own, or the shared one';

create or replace function agent_internal.count_tool_version()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    new.version := case
        when tg_op = 'INSERT' then 1
        when to_jsonb(old) - '{enabled,version,scope}'::text[] = to_jsonb(new) - '{enabled,version,scope}'::text[] then old.version
        else old.version + 1 end;
    return new;
end;
$$;

create or replace function agent_internal.freeze_tool()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    if tg_op = 'DELETE' then
        delete from agent.tool_version v where v.scope = old.scope and v.tool = old.name;
        return null;
    end if;
    insert into agent.tool_version (tenant, tool, version, definition)
    values (new.tenant, new.name, new.version, to_jsonb(new));
    return null;
end;
$$;

-- Disable or enable a version of a tool, or all of them; then it can be attached no more, or again.
create or replace function agent_internal.set_enabled(_tool text, _version integer, _enabled boolean)
    returns void
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
declare
    _scope constant text := (agent_internal.tool_of(agent.current_tenant(), _tool)).scope;
begin
    if not agent.has_role('developer') then
        raise exception 'principal "%" may not change tools', agent.current_principal()
            using errcode = '42501', hint = 'A principal needs the role developer.';
    end if;
    if _scope = '' and not agent_internal.all_tenants() then
        raise exception 'tool "%" is shared by all tenants', _tool
            using errcode = '42501', hint = 'The owner of the schema changes it; grants and policies refuse its calls in one tenant.';
    end if;
    update agent.tool_version v set enabled = _enabled
     where v.scope = _scope and v.tool = _tool and (_version is null or v.version = _version);
    if not found then
        raise exception 'tool "%"% does not exist', _tool, coalesce(' of version ' || _version, '')
            using errcode = 'WA022', hint = agent_internal.suggest(_tool, (
                select array_agg(t.name) from agent.tool t where t.tenant is null or t.tenant = agent.current_tenant()));
    end if;
    if _version is null or _enabled then
        update agent.tool t set enabled = _enabled
         where t.scope = _scope and t.name = _tool and (_version is null or t.version = _version);
    end if;
    perform agent_internal.audit(case when _enabled then 'tool.enabled' else 'tool.disabled' end, _tool,
                                 jsonb_build_object('version', _version));
end;
$$;

create or replace function agent.disable_tool(tool text, version integer default null)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_enabled(tool, version, false) $$;
comment on function agent.disable_tool(text, integer) is 'Refuse the calls of a version of a tool, or of all; also those of runs in progress';

create or replace function agent.enable_tool(tool text, version integer default null)
    returns void
    language sql
    set search_path = pg_catalog, pg_temp
as $$ select agent_internal.set_enabled(tool, version, true) $$;
comment on function agent.enable_tool(text, integer) is 'Allow the calls of a version of a tool, or of all, again';

create or replace function agent_internal.check_llm_tool()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _known constant text[] := '{system,max_tokens}';
    _key   text;
begin
    select k into _key from jsonb_object_keys(new.llm) k where k <> all (_known) limit 1;
    if found then
        raise exception 'tool "%": invalid key "%" of llm', new.name, _key using errcode = 'WA011', hint = agent_internal.suggest(_key, _known);
    elsif jsonb_typeof(coalesce(new.llm -> 'system', '""')) <> 'string' then
        raise exception 'tool "%": llm.system must be a text', new.name using errcode = 'WA011';
    elsif jsonb_typeof(coalesce(new.llm -> 'max_tokens', '1')) <> 'number' or (new.llm ->> 'max_tokens')::numeric not between 1 and 100000 then
        raise exception 'tool "%": llm.max_tokens must be from 1 to 100,000', new.name using errcode = 'WA011';
    elsif new.target <> '' and not exists (select from agent.model m where m.name = new.target) then
        raise exception 'tool "%": model "%" does not exist', new.name, new.target using errcode = 'WA011';
    elsif exists (select from agent.model m where m.name = new.target and agent_internal.only_embeds(m)) then
        raise exception 'tool "%": model "%" makes embeddings, and answers nothing', new.name, new.target
            using errcode = 'WA011', hint = 'Use a model without dimensions: walagent agents models lists them.';
    end if;
    return new;
end;
$$;

-- A tool of a run, as its version defines it.
create or replace function agent_internal.tool_of_run(_run agent.run, _tool text)
    returns jsonb
    language sql
    stable
    security definer
    set search_path = pg_catalog, pg_temp
as $$
    select t.tool
      from agent.attachment_version v cross join jsonb_array_elements(v.definition -> 'tools') as t (tool)
     where v.attachment_id = _run.attachment_id and v.version = _run.attachment_version and t.tool ->> 'name' = _tool
$$;
