-- Tools of a definition: a name is resolved to a registered tool or to a SQL function, and frozen.

-- The function of a name in a search_path, or NULL.  As in a call, a function hides those of later schemas that
-- have the same arguments.
create function agent_internal.find_function(_name text, _path text)
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

-- Reject a function that *_run_as* cannot call, or that cannot be called with named arguments.
create function agent_internal.check_function(_name text, _function regprocedure, _run_as name)
    returns void
    language plpgsql
    stable
as $$
begin
    if not has_function_privilege(_run_as, _function, 'execute') then
        raise exception 'tool "%": role "%" lacks EXECUTE on function %', _name, _run_as, _function
            using errcode = 'WA011', hint = format('grant execute on function %s to %I', _function, _run_as);
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

-- A SQL function as a tool: the call, its arguments and what the model is shown.  The search_path is empty, so that
-- each type is printed with its schema.
create function agent_internal.function_tool(_function regprocedure)
    returns jsonb
    language plpgsql
    stable
    set search_path = ''
as $$
declare
    _p pg_catalog.pg_proc;
    _names text[] := agent_internal.argument_names(_function);
    _arguments jsonb;
    _properties jsonb;
    _required jsonb;
begin
    select * into _p from pg_catalog.pg_proc where oid = _function;
    select coalesce(jsonb_agg(jsonb_build_object('name', _names[n], 'type', format_type(t, null)) order by n), '[]'),
           coalesce(jsonb_object_agg(_names[n], agent_internal.json_schema_of(t)), '{}'),
           coalesce(jsonb_agg(_names[n] order by n) filter (where n <= _p.pronargs - _p.pronargdefaults), '[]')
      into _arguments, _properties, _required
      from unnest(_p.proargtypes::oid[]) with ordinality as a (t, n);
    return jsonb_build_object(
        'kind', 'sql',
        'target', _function::oid::regprocedure::text,
        'schema', (select nspname from pg_catalog.pg_namespace where oid = _p.pronamespace),
        'function', _p.proname,
        'arguments', _arguments,
        'returns_set', _p.proretset,
        'description', coalesce(obj_description(_function, 'pg_proc'), ''),
        'input_schema', jsonb_build_object('type', 'object', 'additionalProperties', false,
                                           'properties', _properties, 'required', _required),
        'effect', case when _p.provolatile = 'v' then 'transactional' else 'read' end);
end;
$$;

-- The name of a tool in requests; providers accept no dots.
create function agent_internal.tool_name(_name text)
    returns text
    language sql
    immutable
as $$ select regexp_replace(_name, '[^A-Za-z0-9_]', '_', 'g') $$;

create function agent_internal.drop_arguments(_schema jsonb, _names text[])
    returns jsonb
    language sql
    immutable
as $$
    select _schema || jsonb_build_object(
        'properties', coalesce(_schema -> 'properties', '{}') - _names,
        'required', coalesce((select jsonb_agg(r) from jsonb_array_elements_text(_schema -> 'required') r
                               where r <> all (_names)), '[]'))
$$;

-- The tool update_row of an attachment: the columns in `writes`, with their types' schemas.
create function agent_internal.update_tool(_attachment agent.attachment)
    returns jsonb
    language plpgsql
    stable
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

-- What a role could do beside reading, with the statement that revokes it; no row for a read-only role.
--
-- For a role by name; store/sql/guard_role.sql checks the current role, also in databases without this schema.
create function agent_internal.writing_rights(_role name)
    returns table (reason text, fix text)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive me (oid) as (
        -- The role itself, and those whose rights it has or can assume.
        select oid from pg_roles where rolname = _role
         union
        select m.roleid from me join pg_auth_members m on m.member = me.oid
    ), ours as (
        select oid, nspname from pg_namespace
         where nspname not in ('pg_catalog', 'information_schema') and nspname not like 'pg\_toast%' and nspname not like 'pg\_temp%'
    ), reasons (rank, reason, fix) as (
        select case attribute when 'SUPERUSER' then 0 else 1 end, format('%s has %s', r.rolname, attribute), format('alter role %I nosuperuser nobypassrls noreplication nocreaterole nocreatedb', r.rolname)
          from me join pg_roles r using (oid)
               cross join lateral (values (r.rolsuper, 'SUPERUSER'), (r.rolbypassrls, 'BYPASSRLS'),
                                          (r.rolreplication, 'REPLICATION'), (r.rolcreaterole, 'CREATEROLE'),
                                          (r.rolcreatedb, 'CREATEDB')) as a (given, attribute)
         where given
        union all
        select 2, format('%s is a member of %s', _role, r.rolname), format('revoke %I from %I', r.rolname, _role)
          from me join pg_roles r using (oid)
         where r.rolname in ('pg_write_all_data', 'pg_write_server_files', 'pg_read_server_files', 'pg_execute_server_program',
                             'pg_signal_backend', 'pg_maintain', 'pg_database_owner', 'pg_create_subscription', 'pg_checkpoint')
        union all
        select 3, format('%s owns %s', _role, c.oid::regclass), format('alter table %s owner to ...', c.oid::regclass)
          from pg_class c where c.relowner in (select oid from me) and c.relnamespace in (select oid from ours)
        union all
        select 3, format('%s owns schema %I', _role, o.nspname), format('alter schema %I owner to ...', o.nspname)
          from ours o join pg_namespace n using (oid) where n.nspowner in (select oid from me)
        union all
        select 3, format('%s owns the database', _role), format('use another role than %I', _role)
          from pg_database d where d.datname = current_database() and d.datdba in (select oid from me)
        union all
        select 4, format('%s can write to %s', _role, c.oid::regclass),
               format('revoke insert, update, delete, truncate on %s from %I', c.oid::regclass, _role)
          from pg_class c
         where c.relkind in ('r', 'p', 'v', 'f') and c.relnamespace in (select oid from ours)
           and (has_table_privilege(_role, c.oid, 'insert, update, delete, truncate')
                or has_any_column_privilege(_role, c.oid, 'insert, update'))
        union all
        select 4, format('%s can advance sequence %s', _role, c.oid::regclass),
               format('revoke usage, update on sequence %s from %I', c.oid::regclass, _role)
          from pg_class c
         where c.relnamespace in (select oid from ours)
           and case when c.relkind = 'S' then has_sequence_privilege(_role, c.oid, 'usage, update') end
        union all
        select 5, format('%s has CREATE on schema %I', _role, o.nspname),
               format('revoke create on schema %I from public, %I', o.nspname, _role)
          from ours o where has_schema_privilege(_role, o.oid, 'create')
        union all
        select 5, format('%s has CREATE on the database', _role),
               format('revoke create on database %I from %I', current_database(), _role)
         where has_database_privilege(_role, current_database(), 'create')
        union all
        select 6, format('%s lacks TEMPORARY on the database, which the analysis of statements requires', _role),
               format('grant temporary on database %I to %I', current_database(), _role)
         where not has_database_privilege(_role, current_database(), 'temporary')
    )
    select r.reason, r.fix from reasons r order by r.rank, r.reason
$$;
comment on function agent_internal.writing_rights(name) is 'What a role could do beside reading, with a fix; no row for a role that can execute the SQL of a model';

-- The tool query of an attachment: the SQL of the model, executed by a read-only role.
--
-- The role that attaches must be a member of it, because the agent can show what it reads.
create function agent_internal.query_tool(_name text, _role name)
    returns jsonb
    language plpgsql
    stable
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

-- One tool of an attachment, frozen: a row of agent.tool, or a SQL function of that name.
--
-- Raises WA011 if the name is neither, or a bound column does not exist.
create function agent_internal.resolve_tool(_name text, _attachment agent.attachment)
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
    select * into _row from agent.tool where name = _name;
    if not _row.enabled then
        raise exception 'tool "%" is disabled', _name
            using errcode = 'WA011', hint = format('update agent.tool set enabled = true where name = %L', _name);
    elsif _row.kind = 'builtin' and _row.target = 'update_row' then
        _tool := agent_internal.update_tool(_attachment);
    elsif _row.kind = 'builtin' and _row.target = 'query' then
        _tool := agent_internal.query_tool(_name, coalesce(_attachment.query_as, 'walagent_analyst'));
    elsif _row.kind in ('builtin', 'python', 'mcp') then
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
        if _function is null then
            raise exception 'tool "%" does not exist', _name
                using errcode = 'WA011',
                      hint = 'A tool is a row of agent.tool or a function in the search_path. '
                             || agent_internal.suggest(_name, (select array_agg(name) from agent.tool where enabled));
        end if;
        perform agent_internal.check_function(_name, _function, _attachment.run_as);
        _tool := agent_internal.function_tool(_function);
    end if;
    if _row.name is not null then
        _tool := _tool || jsonb_strip_nulls(jsonb_build_object(
            'kind', _row.kind, 'target', case when _row.kind = 'sql' then null else _row.target end,
            'description', nullif(_row.description, ''), 'input_schema', _row.input_schema,
            'effect', case when _row.kind = 'sql' then _tool ->> 'effect' else _row.effect end,
            'fingerprint', _row.fingerprint,
            'timeout', _row.timeout_seconds));
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
        'approval', coalesce(_row.approval, false) or _name = any (_attachment.approve),
        'input_schema', agent_internal.drop_arguments(_tool -> 'input_schema', array(select jsonb_object_keys(_bind))));
end;
$$;

-- Each tool once, and each bound argument an argument of a tool: the model would set a misspelled one.
create function agent_internal.check_tools(_tools jsonb, _bind jsonb)
    returns void
    language plpgsql
    stable
as $$
declare
    _stray text;
begin
    select t ->> 'name' into _stray from jsonb_array_elements(_tools) t group by 1 having count(*) > 1 limit 1;
    if found then
        raise exception 'tool "%" is listed twice', _stray using errcode = 'WA011';
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

create function agent_internal.check_approve(_approve text[], _tools text[])
    returns void
    language plpgsql
    stable
as $$
declare
    _stray text;
begin
    select a into _stray from unnest(_approve) a where a <> all (_tools) limit 1;
    if _stray is not null then
        raise exception 'approve: "%" is not among the tools', _stray
            using errcode = 'WA011', hint = agent_internal.suggest(_stray, _tools);
    end if;
end;
$$;
