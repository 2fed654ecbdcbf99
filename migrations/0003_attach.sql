-- Attaching agents: the spec language, the checks, the frozen versions, the publication.
--
-- Three ways lead here (agent.attach in two forms, plain DML on agent.attachment, agents.yaml)
-- and all end in the same rows, so the checks are triggers.  The checking trigger runs with the
-- rights of whoever attaches: what that role may not see or call, it cannot attach.  The
-- publishing trigger runs with the rights of the schema's owner, who must own the publication.

-- Let the publications send what we need, and make them where somebody has dropped them.
--
-- Tables of which only inserts are wanted go to `walagent_inserts`, because a table in `walagent`
-- without replica identity would make the application's own UPDATE and DELETE fail.
create function agent_internal.repair_publications()
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not exists (select from pg_publication where pubname = 'walagent') then
        create publication walagent;
    end if;
    if not exists (select from pg_publication where pubname = 'walagent_inserts') then
        create publication walagent_inserts;
    end if;
    alter publication walagent set (publish = 'insert, update, delete, truncate', publish_via_partition_root = true);
    alter publication walagent_inserts set (publish = 'insert', publish_via_partition_root = true);
    if current_setting('server_version_num')::integer >= 180000 then
        execute 'alter publication walagent set (publish_generated_columns = stored)';
        execute 'alter publication walagent_inserts set (publish_generated_columns = stored)';
    end if;
    -- The one table of ours that is published: so the reader learns of an attachment exactly where
    -- its transaction stands among the others.
    if not exists (select from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
                    where p.pubname = 'walagent' and r.prrelid = 'agent.attachment'::regclass) then
        alter publication walagent add table agent.attachment;
    end if;
end;
$$;
create publication walagent;
create publication walagent_inserts;
select agent_internal.repair_publications();

-- How many single-letter edits lie between two words.
create function agent_internal.edit_distance(_a text, _b text)
    returns integer
    language plpgsql
    immutable
as $$
declare
    _row  integer[] := array(select generate_series(0, length(_b)));
    _next integer[];
begin
    for _i in 1 .. length(_a) loop
        _next := array[_i];
        for _j in 1 .. length(_b) loop
            _next := _next || least(
                _row[_j + 1] + 1,
                _next[_j] + 1,
                _row[_j] + (substr(_a, _i, 1) <> substr(_b, _j, 1))::integer
            );
        end loop;
        _row := _next;
    end loop;
    return _row[length(_b) + 1];
end;
$$;

-- " Did you mean ...?  Known: ..." for an error message.
create function agent_internal.suggest(_word text, _known text[])
    returns text
    language sql
    stable
as $$
    select coalesce(
        (select format('did you mean "%s"? ', k)
           from unnest(_known) k
          where agent_internal.edit_distance(lower(left(_word, 40)), lower(left(k, 40))) <= greatest(2, length(_word) / 3)
          order by agent_internal.edit_distance(lower(left(_word, 40)), lower(left(k, 40))), k
          limit 1), '')
        || 'known: ' || coalesce((select string_agg(k, ', ' order by k) from unnest(_known) k), 'none')
$$;

-- Read `key=value, key="quoted, value", key=[a, "b c"]` into a JSON object of strings and arrays
-- of strings.  Quotes and brackets are honoured before commas; inside double quotes \" \\ \n \t
-- are escapes and "" is a quote.  A bare value may hold `=`.
--
-- Raises WA010 with the place and what was expected.
create function agent_internal.parse_spec(_spec text)
    returns jsonb
    language plpgsql
    immutable
as $$
declare
    _out   jsonb := '{}';
    _at    integer := 1;
    _end   integer := length(_spec);
    _key   text;
    _word  text;
    _items jsonb;
    _token record;
begin
    loop
        _at := agent_internal.spec_skip(_spec, _at);
        exit when _at > _end;
        _key := substring(substr(_spec, _at) from '^[A-Za-z_][A-Za-z0-9_]*');
        if _key is null then
            raise exception 'spec: expected a key at character %, found "%"', _at, substr(_spec, _at, 20)
                using errcode = 'WA010', hint = 'a spec reads: model=gpt-4o, system_prompt="...", tools=[a, b]';
        end if;
        if _out ? _key then
            raise exception 'spec: "%" is given twice', _key using errcode = 'WA010';
        end if;
        _at := agent_internal.spec_skip(_spec, _at + length(_key));
        if substr(_spec, _at, 1) <> '=' then
            raise exception 'spec: expected = after "%" at character %', _key, _at using errcode = 'WA010';
        end if;
        _at := agent_internal.spec_skip(_spec, _at + 1);
        if substr(_spec, _at, 1) = '[' then
            _items := '[]';
            _at := agent_internal.spec_skip(_spec, _at + 1);
            while substr(_spec, _at, 1) <> ']' loop
                select * into _token from agent_internal.spec_value(_spec, _at, _key, ',]');
                _items := _items || to_jsonb(_token.value);
                _at := agent_internal.spec_skip(_spec, _token.next);
                if substr(_spec, _at, 1) = ',' then
                    _at := agent_internal.spec_skip(_spec, _at + 1);
                elsif substr(_spec, _at, 1) <> ']' then
                    raise exception 'spec: the list of "%" is not closed with ]', _key using errcode = 'WA010';
                end if;
            end loop;
            _out := _out || jsonb_build_object(_key, _items);
            _at := _at + 1;
        else
            select * into _token from agent_internal.spec_value(_spec, _at, _key, ',');
            _out := _out || jsonb_build_object(_key, _token.value);
            _at := _token.next;
        end if;
        _at := agent_internal.spec_skip(_spec, _at);
        exit when _at > _end;
        if substr(_spec, _at, 1) <> ',' then
            raise exception 'spec: expected a comma after the value of "%" at character %, found "%"',
                _key, _at, substr(_spec, _at, 20) using errcode = 'WA010';
        end if;
        _at := _at + 1;
    end loop;
    return _out;
end;
$$;

create function agent_internal.spec_skip(_spec text, _at integer)
    returns integer
    language sql
    immutable
as $$ select _at + length(substring(substr(_spec, _at) from '^\s*')) $$;

-- One value from *_at* on: quoted, or bare up to one of *_stops*.
--
-- By searching, not letter by letter: a long prompt would take seconds.
create function agent_internal.spec_value(_spec text, _at integer, _key text, _stops text, out value text, out next integer)
    language plpgsql
    immutable
as $$
begin
    if substr(_spec, _at, 1) = '"' then
        value := substring(substr(_spec, _at) from '^"(?:[^"\\]|\\.|"")*"(?!")');
        if value is null then
            raise exception 'spec: the quote that opens the value of "%" at character % is not closed', _key, _at
                using errcode = 'WA010';
        end if;
        next := _at + length(value);
        select coalesce(string_agg(case m[2] when 'n' then E'\n' when 't' then E'\t' else coalesce(m[1], m[2], '"') end, ''
                                   order by n), '')
          into value
          from regexp_matches(substr(value, 2, length(value) - 2), '([^"\\]+)|\\(.)|""', 'g') with ordinality as found (m, n);
        return;
    end if;
    value := substring(substr(_spec, _at) from case _stops when ',' then '^[^,]*' else '^[^],]*' end);
    next := _at + length(value);
    value := regexp_replace(value, '\s+$', '');
    if value = '' then
        raise exception 'spec: "%" has no value at character %', _key, _at using errcode = 'WA010';
    end if;
    if value ~ '["\[\]]' then
        raise exception 'spec: the value of "%" holds a quote or bracket in its middle: %', _key, value
            using errcode = 'WA010', hint = 'put the whole value in double quotes';
    end if;
end;
$$;

-- The JSON Schema of values of a type, as a model is shown it.
create function agent_internal.json_schema_of(_type oid, _typmod integer default -1)
    returns jsonb
    language plpgsql
    stable
as $$
declare
    _t pg_catalog.pg_type;
    _schema jsonb;
begin
    select * into _t from pg_catalog.pg_type where oid = _type;
    if _t.typtype = 'd' then
        _schema := agent_internal.json_schema_of(_t.typbasetype, _t.typtypmod);
        return _schema
            || coalesce((select jsonb_build_object('enum', to_jsonb(agent_internal.check_list(pg_get_constraintdef(c.oid))))
                           from pg_catalog.pg_constraint c
                          where c.contypid = _type and agent_internal.check_list(pg_get_constraintdef(c.oid)) is not null
                          order by c.oid limit 1), '{}')
            || coalesce((select jsonb_build_object('description', obj_description(_type, 'pg_type'))
                          where obj_description(_type, 'pg_type') is not null), '{}');
    elsif _t.typtype = 'e' then
        return jsonb_build_object('type', 'string', 'enum',
            (select jsonb_agg(enumlabel order by enumsortorder) from pg_catalog.pg_enum where enumtypid = _type))
            || coalesce((select jsonb_build_object('description', obj_description(_type, 'pg_type'))
                          where obj_description(_type, 'pg_type') is not null), '{}');
    elsif _t.typtype = 'c' then
        return jsonb_build_object('type', 'object', 'additionalProperties', false, 'properties',
            (select coalesce(jsonb_object_agg(attname, agent_internal.json_schema_of(atttypid, atttypmod)), '{}')
               from pg_catalog.pg_attribute
              where attrelid = _t.typrelid and attnum > 0 and not attisdropped));
    elsif _t.typelem <> 0 and _t.typcategory = 'A' then
        return jsonb_build_object('type', 'array', 'items', agent_internal.json_schema_of(_t.typelem));
    end if;
    return case
        when _t.typname in ('int2', 'int4', 'int8', 'oid') then '{"type": "integer"}'::jsonb
        when _t.typname in ('numeric', 'float4', 'float8', 'money') then '{"type": "number"}'
        when _t.typname = 'bool' then '{"type": "boolean"}'
        when _t.typname in ('json', 'jsonb') then '{}'
        when _t.typname = 'uuid' then '{"type": "string", "format": "uuid"}'
        when _t.typname = 'date' then '{"type": "string", "format": "date"}'
        when _t.typname in ('timestamp', 'timestamptz') then '{"type": "string", "format": "date-time"}'
        when _t.typname in ('varchar', 'bpchar') and _typmod > 4
            then jsonb_build_object('type', 'string', 'maxLength', _typmod - 4)
        else '{"type": "string"}'
    end;
end;
$$;
comment on function agent_internal.json_schema_of(oid, integer) is 'The JSON Schema of values of a type: enum labels, CHECK lists, domains, arrays, composites';

-- The values of `CHECK (x IN ('a', 'b'))` as PostgreSQL prints it, also with `OR x IS NULL`; NULL for
-- any other check, for it may allow more than its list, or just the others.
create function agent_internal.check_list(_definition text)
    returns text[]
    language sql
    immutable
as $$
    select array_agg(replace(m[1], '''''', '''') order by n)
      from regexp_matches(
               substring(_definition from '^CHECK \(+(?:[[:alnum:]_$]+|"(?:[^"]|"")+")\)?(?:::[a-z ]+)? = ANY \(+ARRAY\['
                                          '((?:''(?:[^'']|'''')*''::[^],'']+(?:, )?)+)'
                                          '\](?:\)::[a-z ]+\[\])?\)+(?: OR \([^'']+ IS NULL\)+)?$'),
               '''((?:[^'']|'''')*)''::', 'g') with ordinality as found (m, n)
$$;

create function agent_internal.column_schema(_relation regclass, _column name)
    returns jsonb
    language sql
    stable
as $$
    select agent_internal.json_schema_of(a.atttypid, a.atttypmod)
           || coalesce((select jsonb_build_object('enum', to_jsonb(agent_internal.check_list(pg_get_constraintdef(c.oid))))
                          from pg_catalog.pg_constraint c
                         where c.conrelid = a.attrelid and c.contype = 'c' and c.conkey = array[a.attnum]
                           and agent_internal.check_list(pg_get_constraintdef(c.oid)) is not null
                         order by c.oid limit 1), '{}')
           || coalesce((select jsonb_build_object('description', col_description(a.attrelid, a.attnum))
                         where col_description(a.attrelid, a.attnum) is not null), '{}')
      from pg_catalog.pg_attribute a
     where a.attrelid = _relation and a.attname = _column and a.attnum > 0 and not a.attisdropped
$$;

-- The primary key's columns in key order; empty when there is none.
create function agent_internal.key_columns(_relation regclass)
    returns text[]
    language sql
    stable
as $$
    select coalesce(array_agg(a.attname::text order by k.n), '{}')
      from pg_catalog.pg_index i
           cross join lateral unnest(i.indkey::smallint[]) with ordinality as k (attnum, n)
           join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
     where i.indrelid = _relation and i.indisprimary
$$;

-- Whether a text is UTF-8, which a database without an encoding (SQL_ASCII) does not see to.
create function agent_internal.is_utf8(_text text)
    returns boolean
    language plpgsql
    stable
as $$
begin
    if getdatabaseencoding() = 'SQL_ASCII' then
        perform convert_from(convert_to(_text, 'SQL_ASCII'), 'UTF8');
    end if;
    return true;
exception when character_not_in_repertoire or untranslatable_character then
    return false;
end;
$$;

-- The columns of the old row that the WAL carries with an UPDATE or DELETE.
create function agent_internal.identity_columns(_relation regclass)
    returns text[]
    language sql
    stable
as $$
    select coalesce(array_agg(a.attname::text order by a.attnum), '{}')
      from pg_catalog.pg_class c
           join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
     where c.oid = _relation
       and (c.relreplident = 'f'
            or exists (select from pg_catalog.pg_index i
                        where i.indrelid = c.oid and a.attnum = any (i.indkey::smallint[])
                          and (c.relreplident = 'd' and i.indisprimary or c.relreplident = 'i' and i.indisreplident)))
$$;

-- The names of the arguments that a function is called with, in order; '' for one without.
create function agent_internal.argument_names(_function regprocedure)
    returns text[]
    language sql
    stable
as $$
    select array(select coalesce(p.proargnames[n], '')
                   from generate_series(1, coalesce(cardinality(p.proallargtypes), p.pronargs)) n
                  where coalesce(p.proargmodes[n], 'i') in ('i', 'b', 'v')
                  order by n)
      from pg_catalog.pg_proc p where p.oid = _function
$$;

-- The columns that hold JSON, with what they hold: json or jsonb, also where a domain stands between.
create function agent_internal.json_columns(_relation regclass)
    returns jsonb
    language sql
    stable
as $$
    with recursive held (name, type) as (
        select attname, atttypid from pg_catalog.pg_attribute
         where attrelid = _relation and attnum > 0 and not attisdropped
        union all
        select h.name, t.typbasetype from held h join pg_catalog.pg_type t on t.oid = h.type where t.typtype = 'd'
    )
    select coalesce(jsonb_object_agg(name, type::regtype::text), '{}') from held where type in ('json'::regtype, 'jsonb'::regtype)
$$;

-- A SQL function as a tool: where to call it, with what, and what the model is told of it.  Without
-- a search_path, so that every type is written with its schema.
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

-- The schemas of a search_path.
create function agent_internal.schemas_of(_path text)
    returns name[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _schemas name[];
begin
    perform set_config('search_path', _path, true);
    _schemas := pg_catalog.current_schemas(false);
    return _schemas;
end;
$$;

-- The function that a name means on a search_path, or NULL.  Only functions of the first schema that
-- has one with these arguments count, as when it is called.
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
            using errcode = 'WA011', hint = 'register the one you mean: insert into agent.tool (name, kind, target) values (..., ''sql'', ''schema.name(types)'')';
    end if;
    if _found is null then
        return null;
    end if;
    return _found[1];
end;
$$;

-- Refuse a function that *_run_as* may not call, or that cannot be called by the names of arguments.
create function agent_internal.check_function(_name text, _function regprocedure, _run_as name)
    returns void
    language plpgsql
    stable
as $$
begin
    if not has_function_privilege(_run_as, _function, 'execute') then
        raise exception 'tool "%": role "%" may not execute %', _name, _run_as, _function
            using errcode = 'WA011', hint = format('grant execute on function %s to %I', _function, _run_as);
    elsif '' = any (agent_internal.argument_names(_function)) then
        raise exception 'tool "%": every argument of % needs a name, for the model to know it by', _name, _function
            using errcode = 'WA011';
    elsif exists (select from pg_catalog.pg_proc p join pg_catalog.pg_type t on t.oid = any (p.proargtypes)
                   where p.oid = _function and (p.provariadic <> 0 or t.typtype = 'p')) then
        raise exception 'tool "%": % takes arguments of any type or number, and a model must be told which', _name, _function
            using errcode = 'WA011';
    end if;
end;
$$;

-- The name by which a model knows a tool; providers take no dots.
create function agent_internal.tool_name(_name text)
    returns text
    language sql
    immutable
as $$ select regexp_replace(_name, '[^A-Za-z0-9_]', '_', 'g') $$;

-- One tool of an attachment, frozen: registered in agent.tool, or a SQL function of that name.
--
-- Raises WA011 for a name that is neither, an argument bound to nothing, a column that is not there.
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
        raise exception 'the tool "%" is disabled', _name
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
            raise exception 'there is no tool "%"', _name
                using errcode = 'WA011',
                      hint = 'a tool is a row of agent.tool or a function on your search_path; '
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

    -- Bound arguments leave the schema: the model neither sees nor chooses them.
    select coalesce(jsonb_object_agg(b.key, b.value), '{}')
      into _bind
      from jsonb_each_text(coalesce(_row.bind, '{}') || _attachment.bind) b
     where _tool -> 'input_schema' -> 'properties' ? b.key;
    for _key in select value from jsonb_each_text(_bind) loop
        if not exists (select from pg_catalog.pg_attribute
                        where attrelid = _attachment.relation and attname = _key and attnum > 0 and not attisdropped) then
            raise exception 'tool "%": bind names column "%", which % does not have', _name, _key, _attachment.relation
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
        raise exception 'the tool update_row needs to know which columns it may write'
            using errcode = 'WA011', hint = 'give writes=[column, ...]';
    end if;
    if agent_internal.key_columns(_attachment.relation) = '{}' then
        raise exception 'the tool update_row needs a primary key on %, to find the row again', _attachment.relation
            using errcode = 'WA011';
    end if;
    select jsonb_object_agg(w, agent_internal.column_schema(_attachment.relation, w)) into _properties
      from unnest(_attachment.writes) w;
    return jsonb_build_object('kind', 'builtin', 'target', 'update_row', 'effect', 'transactional',
        'input_schema', jsonb_build_object('type', 'object', 'additionalProperties', false,
            'properties', _properties, 'minProperties', 1));
end;
$$;

-- What a role could do beside reading, and how to take that from it; no row where there is nothing.
--
-- It asks about a role by name what store/sql/guard_role.sql asks about the present one, in databases
-- that have nothing of ours, too.
create function agent_internal.writing_rights(_role name)
    returns table (reason text, mend text)
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    with recursive me (oid) as (
        -- The role itself, and those whose rights it has or may take on.
        select oid from pg_roles where rolname = _role
         union
        select m.roleid from me join pg_auth_members m on m.member = me.oid
    ), ours as (
        select oid, nspname from pg_namespace
         where nspname not in ('pg_catalog', 'information_schema') and nspname not like 'pg\_toast%' and nspname not like 'pg\_temp%'
    ), reasons (rank, reason, mend) as (
        select 1, format('%s is %s', r.rolname, attribute), format('alter role %I nosuperuser nobypassrls noreplication nocreaterole nocreatedb', r.rolname)
          from me join pg_roles r using (oid)
               cross join lateral (values (r.rolsuper, 'a superuser'), (r.rolbypassrls, 'free of row level security (BYPASSRLS)'),
                                          (r.rolreplication, 'allowed to replicate'), (r.rolcreaterole, 'allowed to make roles'),
                                          (r.rolcreatedb, 'allowed to make databases')) as a (given, attribute)
         where given
        union all
        select 2, format('%s may act as %s', _role, r.rolname), format('revoke %I from %I', r.rolname, _role)
          from me join pg_roles r using (oid)
         where r.rolname in ('pg_write_all_data', 'pg_write_server_files', 'pg_read_server_files', 'pg_execute_server_program',
                             'pg_signal_backend', 'pg_maintain', 'pg_database_owner', 'pg_create_subscription', 'pg_checkpoint')
        union all
        select 3, format('%s owns %s', _role, c.oid::regclass), format('alter table %s owner to ...', c.oid::regclass)
          from pg_class c where c.relowner in (select oid from me) and c.relnamespace in (select oid from ours)
        union all
        select 3, format('%s owns the schema %I', _role, o.nspname), format('alter schema %I owner to ...', o.nspname)
          from ours o join pg_namespace n using (oid) where n.nspowner in (select oid from me)
        union all
        select 3, format('%s owns the database', _role), format('name another role than %I', _role)
          from pg_database d where d.datname = current_database() and d.datdba in (select oid from me)
        union all
        select 4, format('%s may write to %s', _role, c.oid::regclass),
               format('revoke insert, update, delete, truncate on %s from %I', c.oid::regclass, _role)
          from pg_class c
         where c.relkind in ('r', 'p', 'v', 'f') and c.relnamespace in (select oid from ours)
           and (has_table_privilege(_role, c.oid, 'insert, update, delete, truncate')
                or has_any_column_privilege(_role, c.oid, 'insert, update'))
        union all
        select 4, format('%s may move the sequence %s', _role, c.oid::regclass),
               format('revoke usage, update on sequence %s from %I', c.oid::regclass, _role)
          from pg_class c
         where c.relnamespace in (select oid from ours)
           and case when c.relkind = 'S' then has_sequence_privilege(_role, c.oid, 'usage, update') end
        union all
        select 5, format('%s may make objects in the schema %I', _role, o.nspname),
               format('revoke create on schema %I from public, %I', o.nspname, _role)
          from ours o where has_schema_privilege(_role, o.oid, 'create')
        union all
        select 5, format('%s may make schemas in the database', _role),
               format('revoke create on database %I from %I', current_database(), _role)
         where has_database_privilege(_role, current_database(), 'create')
        union all
        select 6, format('%s may not make the temporary view that a statement is analysed in', _role),
               format('grant temporary on database %I to %I', current_database(), _role)
         where not has_database_privilege(_role, current_database(), 'temporary')
    )
    select r.reason, r.mend from reasons r order by r.rank, r.reason
$$;
comment on function agent_internal.writing_rights(name) is 'What a role could do beside reading; none of it may be, for SQL that a model wrote';

-- The tool query of an attachment: SQL that the model writes, with the rights of a role that can read
-- and nothing else.
--
-- Whoever attaches must be a member of that role: the agent shows what it reads.
create function agent_internal.query_tool(_name text, _role name)
    returns jsonb
    language plpgsql
    stable
as $$
declare
    _could record;
begin
    if not exists (select from pg_catalog.pg_roles where rolname = _role) then
        raise exception 'tool "%": there is no role "%" for it to read as', _name, _role
            using errcode = 'WA011',
                  hint = format('name one in query_as, or: create role %1$I; grant usage on schema public to %1$I; grant select on all tables in schema public to %1$I', _role);
    elsif not pg_has_role(current_user, _role, 'member') then
        raise exception 'you are not a member of role "%" and cannot attach an agent that reads as it', _role
            using errcode = '42501';
    end if;
    select string_agg(w.reason, '; ') as reasons, string_agg(distinct w.mend, '; ') as mends into _could
      from (select reason, mend from agent_internal.writing_rights(_role) limit 3) w;
    if _could.reasons is not null then
        raise exception 'tool "%": role "%" is not one for SQL that a model writes: %', _name, _role, _could.reasons
            using errcode = 'WA011', hint = _could.mends;
    end if;
    return jsonb_build_object('kind', 'builtin', 'target', 'query', 'effect', 'read', 'role', _role,
        'input_schema', jsonb_build_object('type', 'object', 'additionalProperties', false, 'required', '["sql"]'::jsonb,
            'properties', jsonb_build_object('sql', jsonb_build_object('type', 'string',
                'description', 'One SELECT, VALUES, TABLE or EXPLAIN of PostgreSQL'))));
end;
$$;

-- A condition must be one expression: no way out of the parentheses it will be put in.
create function agent_internal.is_one_expression(_text text)
    returns boolean
    language plpgsql
    immutable
as $$
declare
    _depth integer := 0;
    _bare  text;
    _char  text;
begin
    -- What strings and quoted names hold is not looked at.  An escape string, a dollar quote or a
    -- comment could mislead this, but it stands before all that it misleads, and is seen.
    _bare := regexp_replace(_text, '''(?:[^'']|'''')*''|"(?:[^"]|"")*"', E'\x01', 'g');
    if _bare ~ '[;''"$]' or _bare ~* '\me\x01' or strpos(_bare, '--') > 0 or strpos(_bare, '/*') > 0 then
        return false;
    end if;
    foreach _char in array regexp_split_to_array(_bare, '') loop
        _depth := _depth + case _char when '(' then 1 when ')' then -1 else 0 end;
        if _depth < 0 then
            return false;
        end if;
    end loop;
    return _depth = 0;
end;
$$;

-- The condition of a view over *_relation*, as PostgreSQL writes it back: each name with its schema,
-- each cast spelled out.  So it means the same on any search_path, and no function that is made
-- later and fits better can take the place of the one that was checked.
--
-- The text before it is compared, not searched for: a table's name may hold whatever its owner likes.
-- Constants are written as whoever reads the text back reads them, whatever the styles of the session.
create function agent_internal.view_condition(_view regclass, _relation regclass, _aliases text[])
    returns text
    language plpgsql
    stable
    set search_path = ''
    set datestyle = 'ISO, MDY'
    set intervalstyle = 'postgres'
    set bytea_output = 'hex'
    set extra_float_digits = 3
    set quote_all_identifiers = off
as $$
declare
    _text text := pg_get_viewdef(_view);
    _tail constant text := (case when current_setting('server_version_num')::integer < 160000 then '_1' else '' end);
    _head text := E' SELECT\n   FROM '
                  || (select string_agg(_relation::text || ' ' || a || _tail, E',\n    ' order by n)
                        from unnest(_aliases) with ordinality as x (a, n))
                  || E'\n  WHERE';
begin
    if left(_text, length(_head)) <> _head then
        raise exception 'the condition cannot be read back from %', _text using errcode = 'WA012';
    end if;
    _text := btrim(substr(_text, length(_head) + 1), E' \n;');
    if _tail = '' then
        return _text;
    end if;
    -- Before version 16 every view knows a NEW and an OLD of its own, and ours are printed as new_1, old_1.
    return (select string_agg(coalesce(m[1], m[2] || '.', m[3]), '' order by n)
              from regexp_matches(_text, '(''(?:[^'']|'''')*''|"(?:[^"]|"")*")|\m(new|old)_1\.|(.)', 'g')
                   with ordinality as found (m, n));
end;
$$;

-- Compile a condition by making a view of it, look at what PostgreSQL understood, and drop it.
--
-- Returns the columns it reads, those that it reads of the old row, whether it reads a row as a whole,
-- and its text with all names spelled out: that is what is evaluated later.  Raises PostgreSQL's own
-- error for what does not compile, and WA012 for what would not give the same answer each time it is
-- asked: subqueries, volatile functions, a row's place in the table, columns that the WAL does not
-- carry, and functions and domains that are neither PostgreSQL's nor an extension's (they could
-- change role in the middle of the reader's evaluation).
create function agent_internal.compile_condition(
    _relation regclass, _condition text, _path text,
    out columns text[], out old_columns text[], out whole_row boolean, out compiled text
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _statement constant text := format('create temporary view walagent_condition as select from %s as new, %s as old where (%s)',
                                       _relation, _relation, _condition);
    -- Before version 16 every view knows a NEW and an OLD of its own, before ours.
    _old constant integer := case when current_setting('server_version_num')::integer < 160000 then 4 else 2 end;
    _rule     record;
    _function record;
begin
    if not agent_internal.is_one_expression(_condition) then
        raise exception 'the condition is not one plain expression: %', left(_condition, 200)
            using errcode = 'WA012', hint = 'no comments, no dollar quotes, no E-strings, no semicolons, balanced parentheses';
    end if;
    begin
        perform set_config('search_path', _path, true);
        execute _statement;
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    exception when insufficient_privilege then
        raise exception 'the condition cannot be checked: %', sqlerrm
            using errcode = 'WA012', hint = format('grant temporary on database %I to %I', current_database(), current_user);
    end;
    select r.oid, r.ev_action::text as tree into _rule
      from pg_catalog.pg_rewrite r where r.ev_class = 'pg_temp.walagent_condition'::regclass;
    if _rule.tree like '%{SUBLINK%' then
        raise exception 'a condition may not hold a subquery: its answer must depend on the row alone'
            using errcode = 'WA012';
    elsif _rule.tree like '%{COERCETODOMAIN%' then
        raise exception 'a condition may not cast to a domain: its check could be any function' using errcode = 'WA012';
    elsif _rule.tree ~ ':varattno -' then
        raise exception 'a condition may not read ctid, xmin or tableoid: the WAL does not carry them'
            using errcode = 'WA012';
    end if;
    for _function in
        select distinct p.oid::regprocedure as name, p.provolatile, p.pronamespace = 'pg_catalog'::regnamespace
               or exists (select from pg_catalog.pg_depend d
                           where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
                  and (select rolsuper from pg_catalog.pg_roles o where o.oid = p.proowner) as trusted
          from regexp_matches(_rule.tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') as m
               join pg_catalog.pg_proc p on p.oid = m[1]::oid
    loop
        if _function.provolatile = 'v' or not _function.trusted or _function.name::text ~ '^(pg_|.*_to_xml)' then
            raise exception 'a condition may not call %: only stable functions of PostgreSQL and of extensions', _function.name
                using errcode = 'WA012';
        end if;
    end loop;
    for _function in
        select o.oid::regoperator as name
          from regexp_matches(_rule.tree, ':opno (\d+)', 'g') as m
               join pg_catalog.pg_operator o on o.oid = m[1]::oid
         where o.oprnamespace <> 'pg_catalog'::regnamespace
           and not exists (select from pg_catalog.pg_depend d
                            where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
    loop
        raise exception 'a condition may not use the operator %: only those of PostgreSQL and of extensions', _function.name
            using errcode = 'WA012';
    end loop;
    select coalesce(array_agg(distinct a.attname::text), '{}') into columns
      from pg_catalog.pg_depend d
           join pg_catalog.pg_attribute a on a.attrelid = d.refobjid and a.attnum = d.refobjsubid
     where d.classid = 'pg_rewrite'::regclass and d.objid = _rule.oid
       and d.refobjid = _relation and d.refobjsubid > 0;
    select coalesce(array_agg(distinct a.attname::text), '{}') into old_columns
      from regexp_matches(_rule.tree, ':varno (\d+) :varattno (\d+)', 'g') as m
           join pg_catalog.pg_attribute a on a.attrelid = _relation and a.attnum = m[2]::smallint
     where m[1]::integer = _old and m[2] <> '0';
    whole_row := _rule.tree ~ ':varattno 0 ';
    compiled := agent_internal.view_condition('pg_temp.walagent_condition', _relation, '{new,old}');
    drop view pg_temp.walagent_condition;
    perform agent_internal.check_streamed(_relation, columns, 'the condition', 'WA012');
end;
$$;

-- Refuse columns that are never in the WAL: generated ones, but for stored ones from version 18 on.
create function agent_internal.check_streamed(_relation regclass, _columns text[], _what text, _state text default 'WA013')
    returns void
    language plpgsql
    stable
as $$
declare
    _absent text;
begin
    select attname into _absent
      from pg_catalog.pg_attribute
     where attrelid = _relation and attname = any (_columns) and not attisdropped and attgenerated <> ''
       and (attgenerated = 'v' or current_setting('server_version_num')::integer < 180000)
     limit 1;
    if found then
        raise exception '% needs the generated column "%" of %, which the WAL does not carry', _what, _absent, _relation
            using errcode = _state, hint = 'use the columns that it is made of';
    end if;
end;
$$;

-- The condition as a row filter of a publication, or NULL where it cannot be one.
--
-- A filter runs inside the walsender, where an error would end the stream for ever.  So only what
-- cannot raise becomes one: comparisons, boolean logic and null tests over the new row's columns
-- and constants, with functions that PostgreSQL itself calls leakproof.
--
-- Args: _condition: as agent_internal.compile_condition() has spelled it out.
create function agent_internal.row_filter(_relation regclass, _condition text)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set datestyle = 'ISO, MDY'
    set intervalstyle = 'postgres'
    set standard_conforming_strings = on
as $$
declare
    _tree text;
    _text text;
begin
    begin
        execute format('create temporary view walagent_filter as select from %s as new where (%s)', _relation, _condition);
    exception when others then
        return null;  -- it reads the old row
    end;
    select r.ev_action::text into _tree from pg_catalog.pg_rewrite r where r.ev_class = 'pg_temp.walagent_filter'::regclass;
    _text := agent_internal.view_condition('pg_temp.walagent_filter', _relation, '{new}');
    drop view pg_temp.walagent_filter;
    _tree := split_part(split_part(_tree, ' :quals ', 2), ' :merge', 1);
    if _tree = ''
       or exists (select from regexp_matches(_tree, '\{([A-Z]+)', 'g') m
                   where m[1] <> all ('{OPEXPR,SCALARARRAYOPEXPR,BOOLEXPR,NULLTEST,BOOLEANTEST,VAR,CONST,RELABELTYPE,ARRAYEXPR}'))
       or exists (select from regexp_matches(_tree, ':(?:funcid|opfuncid) (\d+)', 'g') m
                         join pg_catalog.pg_proc p on p.oid = m[1]::oid
                   where not p.proleakproof and m[1] <> '0') then
        return null;
    end if;
    -- Before version 16, PostgreSQL writes new.status even where there is only one table.
    return (select string_agg(coalesce(m[1], m[2], ''), '' order by n)
              from regexp_matches(_text, '(''(?:[^'']|'''')*''|"(?:[^"]|"")*")|\mnew\.|(.)', 'g') with ordinality as t (m, n));
end;
$$;

create function agent_internal.check_columns(_relation regclass, _columns text[], _what text)
    returns void
    language plpgsql
    stable
as $$
declare
    _missing text;
begin
    select c into _missing
      from unnest(_columns) c
     where not exists (select from pg_catalog.pg_attribute
                        where attrelid = _relation and attname = c and attnum > 0 and not attisdropped)
     limit 1;
    if _missing is not null then
        raise exception '% names column "%", which % does not have', _what, _missing, _relation
            using errcode = 'WA013',
                  hint = agent_internal.suggest(_missing, (select array_agg(attname::text) from pg_catalog.pg_attribute
                                                   where attrelid = _relation and attnum > 0 and not attisdropped));
    end if;
end;
$$;

-- Refuse tables that cannot be followed, or that following would break for the application.
create function agent_internal.check_relation(_relation regclass, _ops text[])
    returns void
    language plpgsql
    stable
as $$
declare
    _c   pg_catalog.pg_class;
    _kin regclass;
begin
    select * into _c from pg_catalog.pg_class where oid = _relation;
    if _c.oid is null then
        raise exception 'there is no table with oid %', _relation::oid::bigint using errcode = 'WA013';
    elsif _c.relkind not in ('r', 'p') then
        raise exception '% is not a table: only tables are written to the WAL row by row', _relation using errcode = 'WA013';
    elsif _c.relpersistence <> 'p' then
        raise exception '% is % and not written to the WAL', _relation,
            case _c.relpersistence when 'u' then 'unlogged' else 'temporary' end using errcode = 'WA013';
    elsif _c.relnamespace in ('agent'::regnamespace, 'agent_internal'::regnamespace, 'pg_catalog'::regnamespace) then
        raise exception '% is a table of the system: an agent there would feed on itself', _relation using errcode = 'WA013';
    end if;
    select a.relation into _kin
      from agent.attachment a
     where a.relation <> _relation
       and (a.relation in (select relid from pg_partition_ancestors(_relation) p (relid))
            or _relation in (select relid from pg_partition_ancestors(a.relation) p (relid)));
    if found then
        raise exception '% is attached to, and the changes of partitions are told as their parent''s', _kin
            using errcode = 'WA013', hint = 'attach to the parent alone, with a condition';
    end if;
    if _ops = '{insert}' then
        return;
    end if;
    -- All but inserts are published together: also where only truncates are wanted.
    if _c.relreplident = 'n'
       or _c.relreplident = 'd' and agent_internal.key_columns(_relation) = '{}'
       or _c.relreplident = 'i' and not exists (select from pg_catalog.pg_index where indrelid = _relation and indisreplident) then
        raise exception '% has no replica identity: publishing its updates would make the application''s own UPDATE and DELETE fail', _relation
            using errcode = 'WA013', hint = format('alter table %s add primary key (...), or: alter table %s replica identity full', _relation, _relation);
    end if;
    if _c.relreplident = 'f' and exists (select from pg_catalog.pg_attribute
                                          where attrelid = _relation and attgenerated = 'v' and not attisdropped) then
        raise exception '% has replica identity full and a virtual generated column: publishing it would make the application''s UPDATE fail', _relation
            using errcode = 'WA013', hint = 'make the column stored, or use the primary key as replica identity';
    end if;
end;
$$;

-- What the agent is shown, the role that it runs as must be allowed to see, and what its tools are
-- given of the row.  The WAL itself knows no privileges.
create function agent_internal.check_visibility(_relation regclass, _columns text[], _run_as name)
    returns void
    language plpgsql
    stable
as $$
declare
    _hidden text;
begin
    select a.attname into _hidden
      from pg_catalog.pg_attribute a
     where a.attrelid = _relation and a.attnum > 0 and not a.attisdropped
       and (_columns is null or a.attname = any (_columns) or a.attname = any (agent_internal.key_columns(_relation)))
       and not has_column_privilege(_run_as, _relation, a.attnum, 'select')
     limit 1;
    if _hidden is not null then
        raise exception 'role "%" may not read column "%" of %, and would be shown it', _run_as, _hidden, _relation
            using errcode = '42501',
                  hint = format('grant select on %s to %I, or name the columns to be shown in columns=[...]', _relation, _run_as);
    end if;
end;
$$;

-- Whether the current role may change what *_attached_by* attached: that role, its members, and who
-- owns this schema.  The role may have been dropped.
create function agent_internal.may_change(_attached_by name)
    returns boolean
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select exists (select from pg_catalog.pg_roles where rolname = _attached_by and pg_has_role(oid, 'member'))
           or exists (select from pg_catalog.pg_class
                       where oid = 'agent.attachment'::regclass and pg_has_role(relowner, 'member'))
$$;

-- Check one attachment with the rights of whoever attaches, and fill in what follows from it.
--
-- `definition` is set here and nowhere else: whatever a statement puts there is overwritten.
--
-- Nothing is called here but by its full name, and no operator is used: the search_path is still that
-- of whoever attaches, who may have put functions and operators of their own before PostgreSQL's.
create function agent_internal.check_attachment()
    returns trigger
    language plpgsql
as $$
begin
    new := agent_internal.checked_attachment(tg_op, old, new, pg_catalog.current_schemas(false));
    return new;
end;
$$;

create function agent_internal.checked_attachment(_op text, old agent.attachment, new agent.attachment, _schemas name[])
    returns agent.attachment
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _same boolean := false;
begin
    if _op = 'UPDATE' then
        new.id := old.id;
        new.attached_by := old.attached_by;
        new.attached_at := old.attached_at;
        if not agent_internal.may_change(old.attached_by) then
            raise exception 'attachment "%" belongs to role "%"', old.name, old.attached_by using errcode = '42501';
        end if;
        -- Pausing changes neither what is matched nor what a run does: no new version.  Resuming looks
        -- at the ground anew: what has changed beneath the attachment is refused now, or taken over.
        _same := to_jsonb(new) - '{paused,paused_reason,definition}'::text[]
                 = to_jsonb(old) - '{paused,paused_reason,definition}'::text[];
        if _same and (new.paused or not old.paused) then
            new.definition := old.definition;
            return new;
        end if;
        if new.relation = old.relation and not exists (select from pg_catalog.pg_class where oid = new.relation) then
            raise exception '%, which attachment "%" was on', agent_internal.drop_message(old.definition), old.name
                using errcode = 'WA013', hint = agent_internal.reattach_message(old);
        end if;
        new.version := old.version + case when _same then 0 else 1 end;
        -- A file names its table, and a table of that name may be a new one: nobody adopts it unasked.
        if new.relation <> old.relation and not old.paused
           and not exists (select from pg_catalog.pg_class where oid = old.relation) then
            new.paused := true;
            new.paused_reason := agent_internal.drop_message(old.definition) || '; resuming takes that';
        end if;
    else
        new.attached_by := current_user;
        new.attached_at := now();
        new.version := 1;
        new.search_path := coalesce(new.search_path, (select string_agg(quote_ident(s), ', ' order by n)
                                                        from unnest(_schemas) with ordinality as x (s, n)), '');
    end if;
    if not pg_has_role(current_user, new.run_as, 'member') then
        raise exception 'you are not a member of role "%" and cannot attach an agent that runs as it', new.run_as
            using errcode = '42501';
    end if;
    perform agent_internal.check_relation(new.relation, new.ops);
    perform agent_internal.check_columns(new.relation, new.columns, 'columns');
    perform agent_internal.check_visibility(
        new.relation,
        case when new.columns is not null then new.columns || array(select value from jsonb_each_text(new.bind)) end,
        new.run_as);
    perform agent_internal.check_columns(new.relation, new.writes, 'writes');
    perform agent_internal.check_columns(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, agent_internal.key_columns(new.relation), 'the primary key');
    perform agent_internal.check_streamed(new.relation, new.columns, 'columns');
    perform agent_internal.check_streamed(new.relation, new.ordering_key, 'ordering_key');
    perform agent_internal.check_streamed(new.relation, array(select value from jsonb_each_text(new.bind)), 'bind');
    if new.backfill and agent_internal.key_columns(new.relation) = '{}' then
        raise exception 'backfill needs a primary key on %', new.relation using errcode = 'WA013';
    end if;
    new.definition := agent_internal.define(new);
    if not agent_internal.is_utf8(new.definition::text) then
        raise exception 'attachment "%" holds bytes that are no UTF-8, and no model could read them', new.name
            using errcode = 'WA013', hint = 'set client_encoding to what the client writes in, or write UTF-8';
    end if;
    if _same and new.definition <> old.definition then
        new.version := old.version + 1;
        new.definition := new.definition || jsonb_build_object('version', new.version);
    end if;
    return new;
end;
$$;
create trigger check_attachment
    before insert or update on agent.attachment
    for each row execute function agent_internal.check_attachment();

-- Everything a run needs to know, as it is now.
create function agent_internal.define(_attachment agent.attachment)
    returns jsonb
    language plpgsql
as $$
declare
    _agent agent.agent;
    _tools jsonb;
    _names text[];
    _used  text[] := '{}';
    _old   text[] := '{}';
    _whole boolean := false;
    _compiled text;
    _filter text;
begin
    select * into _agent from agent.agent where name = _attachment.agent;
    if found then
        perform agent_internal.check_model(_agent.model);
    end if;
    if _attachment.condition is not null then
        select columns, old_columns, whole_row, compiled into _used, _old, _whole, _compiled
          from agent_internal.compile_condition(_attachment.relation, _attachment.condition, _attachment.search_path);
    end if;
    if _attachment.server_filter then
        _filter := agent_internal.row_filter(_attachment.relation, _compiled);
        if _filter is null or _attachment.ops <> '{insert}' then
            raise exception 'server_filter needs a condition of plain comparisons on the new row, and the operation insert alone'
                using errcode = 'WA012', hint = 'without server_filter the condition is evaluated when the row has arrived, and may be anything';
        end if;
    end if;
    _names := _agent.tools;
    if _attachment.writes <> '{}' and not 'update_row' = any (_names) then
        _names := _names || '{update_row}';
    end if;
    select coalesce(jsonb_agg(agent_internal.resolve_tool(t, _attachment) order by n), '[]') into _tools
      from unnest(_names) with ordinality as x (t, n);
    if _agent.tool_choice not in ('auto', 'required') and not _agent.tool_choice = any (_names) then
        raise exception 'tool_choice is "%", which is not among the tools', _agent.tool_choice
            using errcode = 'WA011', hint = agent_internal.suggest(_agent.tool_choice, _names || '{auto,required}');
    end if;
    perform agent_internal.check_approve(_attachment.approve, _names);
    perform agent_internal.check_tools(_tools, _attachment.bind);
    return to_jsonb(_attachment) - '{paused,paused_reason,attached_at,source,definition}'::text[] || jsonb_build_object(
        'relation_oid', _attachment.relation::oid::bigint,
        'schema', (select nspname from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
                    where c.oid = _attachment.relation),
        'table', (select relname from pg_catalog.pg_class where oid = _attachment.relation),
        'key_columns', agent_internal.key_columns(_attachment.relation),
        'condition', _compiled, 'condition_columns', _used, 'whole_row', _whole,
        -- What it reads of the old row, and the WAL carries: without that its answer would be another.
        'old_columns', array(select unnest(_old) intersect select unnest(agent_internal.identity_columns(_attachment.relation)) order by 1),
        'json_columns', agent_internal.json_columns(_attachment.relation),
        'row_filter', _filter,
        'debounce_seconds', extract(epoch from _attachment.debounce),
        'approval_seconds', extract(epoch from _attachment.approval_ttl),
        'agent_version', _agent.version,
        'model', _agent.model, 'system_prompt', _agent.system_prompt, 'tools', _tools,
        'tool_choice', agent_internal.tool_name(_agent.tool_choice), 'examples', _agent.examples, 'parameters', _agent.parameters,
        'max_steps', _agent.max_steps, 'max_tokens', _agent.max_tokens, 'max_cost', _agent.max_cost,
        'max_seconds', _agent.max_seconds, 'max_attempts', _agent.max_attempts,
        'max_output_tokens', _agent.max_output_tokens);
end;
$$;

create function agent_internal.check_model(_name text)
    returns void
    language plpgsql
    stable
as $$
begin
    if not exists (select from agent.model where name = _name and enabled) then
        raise exception 'there is no model "%"', _name
            using errcode = 'WA014',
                  hint = agent_internal.suggest(_name, (select array_agg(name) from agent.model where enabled));
    end if;
end;
$$;

-- Each tool once, and each bound argument an argument of one: a misspelled one would stay the model's.
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
        raise exception 'the tool "%" is named twice', _stray using errcode = 'WA011';
    end if;
    select a into _stray
      from jsonb_object_keys(_bind) a
     where not exists (select from jsonb_array_elements(_tools) t where t -> 'bind' ? a)
     limit 1;
    if found then
        raise exception 'bind names argument "%", which no tool has', _stray
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
        raise exception 'approve names "%", which is not among the tools', _stray
            using errcode = 'WA011', hint = agent_internal.suggest(_stray, _tools);
    end if;
end;
$$;

-- Keep the new version, and bring the publication in step.  With the rights of the schema's
-- owner; nobody else may execute it, so it can serve no other table than ours.
create function agent_internal.freeze_attachment()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
declare
    _lost text;
begin
    if tg_op = 'INSERT' or new.version <> old.version then
        insert into agent.attachment_version (attachment_id, version, definition)
        values (new.id, new.version, new.definition);
    end if;
    if tg_op = 'INSERT' and new.backfill then
        insert into agent.backfill (attachment_id, version) values (new.id, new.version);
    end if;
    if tg_op = 'UPDATE' and (new.version <> old.version or old.paused and not new.paused) then
        perform agent_internal.repin_runs(new.id, new.version);
    end if;
    -- Not to pause: that must wait for nobody.
    if tg_op = 'INSERT' or new.version <> old.version then
        perform agent_internal.publish_relation(new.relation);
    end if;
    if tg_op = 'UPDATE' and old.relation <> new.relation then
        perform agent_internal.publish_relation(old.relation);
    end if;
    if not new.paused and (tg_op = 'INSERT' or new.version <> old.version or old.paused) then
        _lost := agent_internal.drift_of(new.definition);
        if _lost is not null then
            raise exception '%', _lost using errcode = 'WA013';
        end if;
    end if;
    return null;
end;
$$;
create trigger freeze_attachment
    after insert or update on agent.attachment
    for each row execute function agent_internal.freeze_attachment();

-- The queue follows as the transaction commits: a person's may stay open for long, and every claim and
-- every intake needs the queue.
create function agent_internal.sync_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    insert into agent_internal.queue (id, kind, attachment_id, cap, paused)
    select id, 'agent', id, cap, paused from agent.attachment where id = new.id
    on conflict (id) do update set cap = excluded.cap, paused = excluded.paused, queued = true;
    return null;
end;
$$;
create constraint trigger sync_queue
    after insert or update on agent.attachment
    deferrable initially deferred
    for each row execute function agent_internal.sync_queue();

create function agent_internal.check_detach()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    if not agent_internal.may_change(old.attached_by) then
        raise exception 'attachment "%" belongs to role "%"', old.name, old.attached_by using errcode = '42501';
    end if;
    return old;
end;
$$;
create trigger check_detach
    before delete on agent.attachment
    for each row execute function agent_internal.check_detach();

create function agent_internal.delete_attachment_state()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
    set lock_timeout = '10s'
as $$
begin
    delete from agent.backfill where attachment_id = old.id;
    perform agent_internal.publish_relation(old.relation);
    return null;
end;
$$;
create trigger forget_attachment
    after delete on agent.attachment
    for each row execute function agent_internal.delete_attachment_state();

create function agent_internal.delete_queue()
    returns trigger
    language plpgsql
    security definer
    set search_path = pg_catalog, pg_temp
as $$
begin
    delete from agent_internal.queue where attachment_id = old.id;
    return null;
end;
$$;
create constraint trigger delete_queue
    after delete on agent.attachment
    deferrable initially deferred
    for each row execute function agent_internal.delete_queue();

create function agent_internal.refuse_truncate()
    returns trigger
    language plpgsql
as $$
begin
    raise exception 'use delete from agent.attachment: a truncate would leave its tables published';
end;
$$;
create trigger refuse_truncate
    before truncate on agent.attachment
    for each statement execute function agent_internal.refuse_truncate();

-- Put the relation into the publication that its attachments need, or take it out.
--
-- Called by the triggers above, with the owner's rights.  Adding a table takes a SHARE lock on it
-- until the attaching transaction ends: it waits for transactions that are writing to the table.
-- So each of them has either committed before the attach, or writes after it, and "what commits
-- later fires" is exact.
create function agent_internal.publish_relation(_relation regclass)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set datestyle = 'ISO, MDY'
    set intervalstyle = 'postgres'
as $$
declare
    _wanted text;
    _filter text;
    _now    record;
begin
    if not exists (select from pg_class where oid = _relation) then
        return;  -- dropped meanwhile; its publication went with it
    end if;
    select case when bool_or(ops && '{update,delete,truncate}') then 'walagent'
                when count(*) > 0 then 'walagent_inserts' end,
           -- A filter must let through what any attachment wants, and a backfill wants every row.
           case when bool_and(server_filter and not backfill)
                then string_agg(distinct format('(%s)', definition ->> 'row_filter'), ' or ') end
      into _wanted, _filter
      from agent.attachment where relation = _relation;
    if _wanted = 'walagent' then
        _filter := null;  -- a filter would turn updates that cross it into inserts and deletes
    end if;
    select p.pubname as name, r.oid as entry, r.prqual is not null as filtered
      into _now
      from pg_publication_rel r join pg_publication p on p.oid = r.prpubid
     where r.prrelid = _relation and p.pubname in ('walagent', 'walagent_inserts');
    if _wanted is null then
        delete from agent_internal.published where relation = _relation;
    end if;
    if _wanted is not distinct from _now.name and _filter is null and not coalesce(_now.filtered, false) then
        return;
    end if;
    if _wanted is not null then
        execute format('lock table only %s in share mode', _relation);
    end if;
    if _now.name is not null then
        execute format('alter publication %I drop table only %s', _now.name, _relation);
    end if;
    if _wanted is not null then
        begin
            execute format('alter publication %I add table only %s', _wanted, _relation)
                    || coalesce(' where (' || _filter || ')', '');
        exception when feature_not_supported or invalid_object_definition or wrong_object_type then
            -- PostgreSQL takes less as a filter than as a condition; it is evaluated later all the same.
            execute format('alter publication %I add table only %s', _wanted, _relation);
        end;
    end if;
    perform agent_internal.record_published(_relation, _now.entry);
exception
    when lock_not_available then
        raise exception '% is busy: attaching waits until no transaction writes to it, and 10 s were not enough', _relation
            using errcode = '55P03', hint = 'select pid, xact_start, query from pg_stat_activity where xact_start is not null order by 2';
    when insufficient_privilege then
        raise exception 'the role "%" owns walagent''s publications but not %, and PostgreSQL lets only a table''s owner publish it', current_user, _relation
            using errcode = '42501',
                  hint = format('grant %I to %I', (select pg_get_userbyid(relowner) from pg_class where oid = _relation), current_user);
end;
$$;

-- An agent's change is a new version of each of its attachments.
create function agent_internal.touch_attachments()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
begin
    update agent.attachment set version = version + 1 where agent = new.name;
    return null;
end;
$$;
create function agent_internal.count_version()
    returns trigger
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _other agent.attachment;
begin
    select * into _other from agent.attachment a where a.agent = old.name and not agent_internal.may_change(a.attached_by) limit 1;
    if found then
        raise exception 'agent "%" works in attachment "%", which belongs to role "%"', old.name, _other.name, _other.attached_by
            using errcode = '42501';
    end if;
    new.version := old.version + 1;
    new.updated_at := now();
    return new;
end;
$$;
create trigger count_version
    before update on agent.agent
    for each row when (old.* is distinct from new.*) execute function agent_internal.count_version();
create trigger touch_attachments
    after update on agent.agent
    for each row when (old.* is distinct from new.*) execute function agent_internal.touch_attachments();

create function agent.pause(_name text, _reason text default null)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment set paused = true, paused_reason = _reason where name = _name;
    if not found then
        raise exception 'there is no attachment "%"', _name
            using errcode = 'WA013', hint = agent_internal.suggest(_name, (select array_agg(name) from agent.attachment));
    end if;
end;
$$;
comment on function agent.pause(text, text) is 'Let an attachment start no more runs; changes are still ingested';

create function agent.resume(_name text)
    returns void
    language plpgsql
as $$
begin
    update agent.attachment set paused = false, paused_reason = null where name = _name;
    if not found then
        raise exception 'there is no attachment "%"', _name
            using errcode = 'WA013', hint = agent_internal.suggest(_name, (select array_agg(name) from agent.attachment));
    end if;
    perform pg_notify('walagent_runs', '');
end;
$$;
comment on function agent.resume(text) is 'Let a paused attachment start runs again, if its table, role and tools still allow it';

-- The argument may be an attachment's name or a table's: all attachments of the table go then.
create function agent.detach(_target text)
    returns integer
    language plpgsql
as $$
declare
    _count integer;
begin
    delete from agent.attachment where name = _target;
    get diagnostics _count = row_count;
    if _count = 0 and to_regclass(_target) is not null then
        delete from agent.attachment where relation = to_regclass(_target);
        get diagnostics _count = row_count;
    end if;
    if _count = 0 then
        raise exception 'nothing is attached under the name "%", nor to a table of that name', _target
            using errcode = 'WA013', hint = agent_internal.suggest(_target, (select array_agg(name) from agent.attachment));
    end if;
    return _count;
end;
$$;
comment on function agent.detach(text) is 'End an attachment, or all attachments of a table; runs that exist go on';

-- Attach an agent, with named arguments.  Makes or changes the agent called `agent_name`
-- (default: the attachment's name) unless an existing one is named without a model.
create function agent.attach(
    target        regclass,
    model         text,
    system_prompt text default '',
    tools         text[] default '{}',
    name          text default null,
    ops           text[] default '{insert}',
    condition     text default null,
    columns       text[] default null,
    writes        text[] default '{}',
    bind          jsonb default '{}',
    approve       text[] default '{}',
    run_as        name default current_user,
    ordering_key      text[] default null,
    debounce      interval default null,
    cap           integer default null,
    backfill      boolean default false,
    server_filter boolean default false,
    examples      jsonb default '[]',
    parameters    jsonb default '{}',
    tool_choice   text default 'auto',
    max_depth     integer default 3,
    max_steps     integer default 20,
    max_tokens    bigint default null,
    max_cost      numeric default null,
    max_seconds   integer default 600,
    max_attempts  integer default 5,
    query_as      name default null
)
    returns bigint
    language plpgsql
as $$
#variable_conflict use_column
declare
    _name text := coalesce(attach.name, (select relname from pg_catalog.pg_class where oid = attach.target));
    _id   bigint;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    perform agent_internal.check_model(attach.model);
    if exists (select from agent.attachment a where a.name = _name) then
        raise exception 'there is an attachment "%" already', _name
            using errcode = 'WA013', hint = 'give this one another name, or agent.detach the old one first';
    end if;
    insert into agent.agent (name, model, system_prompt, tools, tool_choice, examples, parameters,
                             max_steps, max_tokens, max_cost, max_seconds, max_attempts)
    values (_name, attach.model, attach.system_prompt, attach.tools, attach.tool_choice, attach.examples, attach.parameters,
            attach.max_steps, attach.max_tokens, attach.max_cost, attach.max_seconds, attach.max_attempts)
    on conflict (name) do update
       set model = excluded.model, system_prompt = excluded.system_prompt, tools = excluded.tools,
           tool_choice = excluded.tool_choice, examples = excluded.examples, parameters = excluded.parameters, max_steps = excluded.max_steps,
           max_tokens = excluded.max_tokens, max_cost = excluded.max_cost,
           max_seconds = excluded.max_seconds, max_attempts = excluded.max_attempts;
    insert into agent.attachment (name, agent, relation, ops, condition, columns, writes, bind, approve,
                                  run_as, query_as, ordering_key, debounce, cap, backfill, server_filter, max_depth)
    values (_name, _name, attach.target, attach.ops, attach.condition, attach.columns, attach.writes, attach.bind,
            attach.approve, attach.run_as, attach.query_as, attach.ordering_key, attach.debounce, attach.cap, attach.backfill, attach.server_filter, attach.max_depth)
    returning id into _id;
    return _id;
exception when others then
    -- Raised again from here: psql would print every function on the way.
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    if _detail <> '' and _hint <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail, hint = _hint;
    elsif _detail <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail;
    elsif _hint <> '' then
        raise exception using errcode = _state, message = _message, hint = _hint;
    end if;
    raise exception using errcode = _state, message = _message;
end;
$$;

-- Attach an agent by a spec: agent.attach('tickets', 'model=gpt-4o, system_prompt="...", tools=[a, b]').
--
-- Raises WA010 (spec), WA011 (tool), WA012 (condition), WA013 (table, column, name), WA014 (model).
create function agent.attach(target text, spec text)
    returns bigint
    language plpgsql
as $$
declare
    _known constant text[] := '{model,system_prompt,tools,name,on,when,columns,writes,bind,approve,run_as,query_as,ordering_key,'
        'debounce,cap,backfill,server_filter,tool_choice,max_depth,max_steps,max_tokens,max_cost,max_seconds,max_attempts}';
    _lists constant text[] := '{tools,on,columns,writes,bind,approve,ordering_key}';
    _spec  jsonb;
    _table regclass := to_regclass(target);
    _key   text;
    _state   text;
    _message text;
    _detail  text;
    _hint    text;
begin
    _spec := agent_internal.parse_spec(spec);
    if _table is null then
        raise exception 'there is no table "%"', target
            using errcode = 'WA013',
                  hint = agent_internal.suggest(target, (select array_agg(relname::text) from pg_catalog.pg_class
                                                 where relkind in ('r', 'p') and pg_table_is_visible(oid)
                                                   and relnamespace <> 'pg_catalog'::regnamespace));
    end if;
    for _key in select jsonb_object_keys(_spec) loop
        if _key <> all (_known) then
            raise exception 'spec: there is no key "%"', _key using errcode = 'WA010', hint = agent_internal.suggest(_key, _known);
        elsif jsonb_typeof(_spec -> _key) = 'array' and _key <> all (_lists) then
            raise exception 'spec: "%" takes one value, not a list', _key using errcode = 'WA010';
        elsif jsonb_typeof(_spec -> _key) = 'string' and _key = any (_lists) then
            _spec := _spec || jsonb_build_object(_key, jsonb_build_array(_spec -> _key));
        end if;
    end loop;
    if not _spec ? 'model' then
        raise exception 'spec: "model" is missing' using errcode = 'WA010', hint = 'model=gpt-4o, for instance';
    end if;
    return agent.attach(
        target        => _table,
        model         => _spec ->> 'model',
        system_prompt => coalesce(_spec ->> 'system_prompt', ''),
        tools         => agent_internal.spec_list(_spec, 'tools', '{}'),
        name          => _spec ->> 'name',
        ops           => agent_internal.spec_ops(agent_internal.spec_list(_spec, 'on', '{insert}')),
        condition     => _spec ->> 'when',
        columns       => agent_internal.spec_list(_spec, 'columns', null),
        writes        => agent_internal.spec_list(_spec, 'writes', '{}'),
        bind          => agent_internal.spec_bind(agent_internal.spec_list(_spec, 'bind', '{}')),
        approve       => agent_internal.spec_list(_spec, 'approve', '{}'),
        run_as        => coalesce(_spec ->> 'run_as', current_user)::name,
        query_as      => (_spec ->> 'query_as')::name,
        ordering_key      => agent_internal.spec_list(_spec, 'ordering_key', null),
        debounce      => agent_internal.spec_cast(_spec, 'debounce', 'interval', null)::interval,
        cap           => agent_internal.spec_cast(_spec, 'cap', 'integer', null)::integer,
        backfill      => agent_internal.spec_cast(_spec, 'backfill', 'boolean', 'false')::boolean,
        server_filter => agent_internal.spec_cast(_spec, 'server_filter', 'boolean', 'false')::boolean,
        tool_choice   => coalesce(_spec ->> 'tool_choice', 'auto'),
        max_depth     => agent_internal.spec_cast(_spec, 'max_depth', 'integer', '3')::integer,
        max_steps     => agent_internal.spec_cast(_spec, 'max_steps', 'integer', '20')::integer,
        max_tokens    => agent_internal.spec_cast(_spec, 'max_tokens', 'bigint', null)::bigint,
        max_cost      => agent_internal.spec_cast(_spec, 'max_cost', 'numeric', null)::numeric,
        max_seconds   => agent_internal.spec_cast(_spec, 'max_seconds', 'integer', '600')::integer,
        max_attempts  => agent_internal.spec_cast(_spec, 'max_attempts', 'integer', '5')::integer);
exception when others then
    -- Raised again from here: psql would print every function on the way.
    get stacked diagnostics _state = returned_sqlstate, _message = message_text,
                            _detail = pg_exception_detail, _hint = pg_exception_hint;
    if _detail <> '' and _hint <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail, hint = _hint;
    elsif _detail <> '' then
        raise exception using errcode = _state, message = _message, detail = _detail;
    elsif _hint <> '' then
        raise exception using errcode = _state, message = _message, hint = _hint;
    end if;
    raise exception using errcode = _state, message = _message;
end;
$$;
comment on function agent.attach(text, text) is 'Attach an agent to a table: agent.attach(''tickets'', ''model=gpt-4o, system_prompt="...", tools=[a, b]'')';

create function agent_internal.spec_list(_spec jsonb, _key text, _default text[])
    returns text[]
    language sql
    immutable
as $$ select case when _spec ? _key then array(select jsonb_array_elements_text(_spec -> _key)) else _default end $$;

create function agent_internal.spec_ops(_ops text[])
    returns text[]
    language plpgsql
    immutable
as $$
declare
    _op text;
begin
    foreach _op in array _ops loop
        if lower(_op) <> all ('{insert,update,delete,truncate}') then
            raise exception 'spec: on names "%"', _op
                using errcode = 'WA010', hint = agent_internal.suggest(_op, '{insert,update,delete,truncate}');
        end if;
    end loop;
    return array(select lower(o) from unnest(_ops) o);
end;
$$;

create function agent_internal.spec_bind(_pairs text[])
    returns jsonb
    language plpgsql
    immutable
as $$
declare
    _bind jsonb := '{}';
    _pair text;
begin
    foreach _pair in array _pairs loop
        if _pair !~ '^[^=]+=[^=]+$' then
            raise exception 'spec: bind takes argument=column pairs, not "%"', _pair using errcode = 'WA010';
        end if;
        _bind := _bind || jsonb_build_object(btrim(split_part(_pair, '=', 1)), btrim(split_part(_pair, '=', 2)));
    end loop;
    return _bind;
end;
$$;

create function agent_internal.spec_cast(_spec jsonb, _key text, _type text, _default text)
    returns text
    language plpgsql
    stable
as $$
begin
    if _spec ? _key then
        execute format('select %L::%s', _spec ->> _key, _type);
        return _spec ->> _key;
    end if;
    return _default;
exception when data_exception then
    raise exception 'spec: "%" is not %: %', _key,
        case _type when 'interval' then 'a time like 5s or 2 minutes' when 'boolean' then 'true or false' else 'a number' end,
        _spec ->> _key using errcode = 'WA010';
end;
$$;
