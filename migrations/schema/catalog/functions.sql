-- What the checks of a definition read from the catalog, and suggestions for misspelled names.

-- A schema that allows null, too.
create or replace function agent_internal.or_null(_schema jsonb)
    returns jsonb
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
    select case
        when not _schema ? 'type' and not _schema ? 'enum' then _schema
        else _schema
             || case when _schema ? 'type' then jsonb_build_object('type', jsonb_build_array(_schema -> 'type', 'null')) else '{}' end
             || case when _schema ? 'enum' then jsonb_build_object('enum', (_schema -> 'enum') || 'null'::jsonb) else '{}' end
    end
$$;
comment on function agent_internal.or_null(jsonb) is 'A JSON Schema that allows null, too';

-- The JSON Schema of values of a type, as a model is shown it.
create or replace function agent_internal.json_schema_of(_type oid, _typmod integer default -1)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
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
            (select coalesce(jsonb_object_agg(attname, agent_internal.or_null(agent_internal.json_schema_of(atttypid, atttypmod))), '{}')
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

create or replace function agent_internal.column_schema(_relation regclass, _column name)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
as $$
    select case when a.attnotnull or t.typnotnull then s.schema else agent_internal.or_null(s.schema) end
      from pg_catalog.pg_attribute a
           join pg_catalog.pg_type t on t.oid = a.atttypid
           cross join lateral (
               select agent_internal.json_schema_of(a.atttypid, a.atttypmod)
                      || coalesce((select jsonb_build_object('enum', to_jsonb(agent_internal.check_list(pg_get_constraintdef(c.oid))))
                                     from pg_catalog.pg_constraint c
                                    where c.conrelid = a.attrelid and c.contype = 'c' and c.conkey = array[a.attnum]
                                      and agent_internal.check_list(pg_get_constraintdef(c.oid)) is not null
                                    order by c.oid limit 1), '{}')
                      || coalesce((select jsonb_build_object('description', col_description(a.attrelid, a.attnum))
                                    where col_description(a.attrelid, a.attnum) is not null), '{}')
           ) as s (schema)
     where a.attrelid = _relation and a.attname = _column and a.attnum > 0 and not a.attisdropped
$$;

-- The columns of the primary key, in key order; empty without one.
create or replace function agent_internal.key_columns(_relation regclass)
    returns text[]
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
    select coalesce(array_agg(a.attname::text order by k.n), '{}')
      from pg_catalog.pg_index i
           cross join lateral unnest(i.indkey::smallint[]) with ordinality as k (attnum, n)
           join pg_catalog.pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
     where i.indrelid = _relation and i.indisprimary);
end;
$$;

-- The table, or a partition of it, whose old rows the WAL does not carry this column of; NULL if there is no such table.  Partitions have
-- replica identities of their own, and a new one does not inherit that of its parent.
create or replace function agent_internal.without_identity(_relation regclass, _column text)
    returns regclass
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select c.oid::regclass
          from (select p.relid from pg_catalog.pg_partition_tree(_relation) p where p.isleaf union select _relation) t
               join pg_catalog.pg_class c on c.oid = t.relid
               left join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attname = _column and not a.attisdropped
         where c.relreplident <> 'f'
           and not exists (select from pg_catalog.pg_index i
                            where i.indrelid = c.oid and a.attnum = any (i.indkey::smallint[])
                              and (c.relreplident = 'd' and i.indisprimary and i.indimmediate or c.relreplident = 'i' and i.indisreplident))
         order by c.oid
         limit 1);
end;
$$;
comment on function agent_internal.without_identity(regclass, text) is 'The table, or a partition of it, whose old rows the WAL does not carry a column of';

-- The columns of the old row that the WAL carries with an UPDATE or DELETE.
create or replace function agent_internal.identity_columns(_relation regclass)
    returns text[]
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select coalesce(array_agg(a.attname::text order by a.attnum), '{}')
      from pg_catalog.pg_attribute a
     where a.attrelid = _relation and a.attnum > 0 and not a.attisdropped
       and agent_internal.without_identity(_relation, a.attname) is null
$$;

-- The names of the input arguments of a function, in order; '' for an unnamed one.
create or replace function agent_internal.argument_names(_function regprocedure)
    returns text[]
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select array(select coalesce(p.proargnames[n], '')
                   from generate_series(1, coalesce(cardinality(p.proallargtypes), p.pronargs)) n
                  where coalesce(p.proargmodes[n], 'i') in ('i', 'b', 'v')
                  order by n)
      from pg_catalog.pg_proc p where p.oid = _function
$$;

-- The JSON columns with their type, json or jsonb, also through domains.
create or replace function agent_internal.json_columns(_relation regclass)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
as $$
    with recursive held (name, type) as (
        select attname, atttypid from pg_catalog.pg_attribute
         where attrelid = _relation and attnum > 0 and not attisdropped
        union all
        select h.name, t.typbasetype from held h join pg_catalog.pg_type t on t.oid = h.type where t.typtype = 'd'
    )
    select coalesce(jsonb_object_agg(name, type::regtype::text), '{}') from held where type in ('json'::regtype, 'jsonb'::regtype)
$$;

-- Whether a text is valid UTF-8, which a SQL_ASCII database does not ensure.
create or replace function agent_internal.is_utf8(_text text)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
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

-- The search_path of the schemas that a caller passes as agent_internal.schemas_of_caller().
--
-- A function whose names mean what they mean for its caller has the body `begin atomic`, which binds its own names when it
-- is created, and passes the schemas on: a function that kept the search_path would call the caller's operators.  The
-- temporary schema of a session is that of another one later.
create or replace function agent_internal.path_of(_schemas name[])
    returns text
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
as $$ select coalesce(string_agg(quote_ident(s), ', ' order by n), '') from unnest(_schemas) with ordinality as x (s, n)
    where s !~ '^pg_temp' $$;

-- The relation of a name in these schemas, or NULL.
create or replace function agent_internal.relation_named(_name text, _schemas name[])
    returns regclass
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
begin
    perform set_config('search_path', agent_internal.path_of(_schemas), true);
    return pg_catalog.to_regclass(_name);
exception when invalid_name then
    return null;  -- of a name that must be quoted; PostgreSQL 15 raises
end;
$$;

-- The schemas of a search_path.
create or replace function agent_internal.schemas_of(_path text)
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

-- The schemas in which names are found that the caller gives.  A session of walagent has no path but pg_catalog, and says in a
-- setting what its login's was.
create or replace function agent_internal.schemas_of_caller()
    returns name[]
    language sql
begin atomic
    select case when coalesce(current_setting('walagent.search_path', true), '') = '' then current_schemas(false)
                else agent_internal.schemas_of(current_setting('walagent.search_path', true)) end;
end;

create or replace function agent_internal.check_columns(_relation regclass, _columns text[], _what text)
    returns void
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
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
        raise exception '%: column "%" of % does not exist', _what, _missing, _relation
            using errcode = 'WA013',
                  hint = agent_internal.suggest(_missing, (select array_agg(attname::text) from pg_catalog.pg_attribute
                                                   where attrelid = _relation and attnum > 0 and not attisdropped));
    end if;
end;
$$;

-- A type as it is written where others can put types of their own on the search_path: with its schema, unless its name is
-- a word of the grammar.  Without a modifier.
create or replace function agent_internal.qualified_type(_type oid)
    returns text
    language plpgsql
    stable
    set search_path = ''
    set quote_all_identifiers = off
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
    select case when t.typnamespace = 'pg_catalog'::regnamespace
                     and f !~ '^(bigint|bit|boolean|character|double|integer|interval|numeric|real|smallint|time|timestamp)([^a-z0-9_]|$)'
                then 'pg_catalog.' || f else f end
      from pg_catalog.pg_type t cross join pg_catalog.format_type(t.oid, -1) f where t.oid = _type);
end;
$$;

-- The types that the columns of a change are read as: for each its type at the change, and its present type and
-- collation (NULL if it was dropped).  For a domain the base type: values can be older than its check.
--
-- Args: _types: from the WAL; 0: unknown.
create or replace function agent_internal.column_types(_relation oid, _names text[], _types oid[])
    returns table (name text, type_then text, type_now text)
    language plpgsql
    stable
    set search_path = ''
    set quote_all_identifiers = off
    set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with recursive wanted (n, name, type, now, attcollation) as (
        select w.n, w.name, coalesce(nullif(w.type, 0), a.atttypid), a.atttypid, a.attcollation
          from unnest(_names, _types) with ordinality as w (name, type, n)
               left join pg_catalog.pg_attribute a
                      on a.attrelid = _relation and a.attname = w.name and a.attnum > 0 and not a.attisdropped
    ), based (n, is_now, type) as (
        select n, false, type from wanted
        union all
        select n, true, now from wanted
        union all
        select b.n, b.is_now, t.typbasetype from based b join pg_catalog.pg_type t on t.oid = b.type where t.typtype = 'd'
    ), base (n, is_now, text) as (
        -- Without the type modifier: reading a value must neither truncate nor pad it.
        select b.n, b.is_now,
               agent_internal.qualified_type(t.oid)
               || case when t.typcollation <> 0 and w.attcollation <> 0 and w.attcollation <> t.typcollation
                       then (select format(' collate %I.%I', s.nspname, c.collname)
                               from pg_catalog.pg_collation c join pg_catalog.pg_namespace s on s.oid = c.collnamespace
                              where c.oid = w.attcollation)
                       else '' end
          from based b
               join pg_catalog.pg_type t on t.oid = b.type and t.typtype <> 'd'
               join wanted w on w.n = b.n
    )
    select w.name,
           coalesce((select b.text from base b where b.n = w.n and not b.is_now), case when w.type is not null then 'pg_catalog.text' end),
           (select b.text from base b where b.n = w.n and b.is_now)
      from wanted w
     order by w.n;
end;
$$;
comment on function agent_internal.column_types(oid, text[], oid[]) is 'The types that the columns of a change are read as when a condition is evaluated';

-- The arguments of a tool over HTTP, from its templates: a string for each placeholder.
create or replace function agent_internal.json_schema_of(_url text, _http jsonb)
    returns jsonb
    language sql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
    with texts (text) as (
        select _url
         union all
        select t #>> '{}' from jsonb_path_query(jsonb_build_array(_http -> 'headers', _http -> 'body'), 'strict $.**') t
         where jsonb_typeof(t) = 'string'
    ), arguments (name) as (
        select distinct m[1]
          from texts, regexp_matches(replace(replace(text, '{{', ''), '}}', ''), '\{([A-Za-z_][A-Za-z0-9_]*)\}', 'g') m
         where m[1] not in ('idempotency_key', 'run_id')
    )
    select jsonb_build_object('type', 'object', 'additionalProperties', false,
               'properties', coalesce(jsonb_object_agg(name, '{"type": "string"}'::jsonb order by name), '{}'),
               'required', coalesce(jsonb_agg(name order by name), '[]'))
      from arguments
$$;

-- Whether nobody can rename or replace what a role owns who cannot act as another role: they are superusers, or can become it.
-- The role pg_database_owner is the owner of the database.
create or replace function agent_internal.is_safe_owner(_owner oid, _role name)
    returns boolean
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set plan_cache_mode = force_generic_plan
as $$
begin
    return (
        select r.rolsuper or agent_internal.may_become(r.oid, _role)
          from pg_roles o
               join pg_roles r on r.oid = case when o.rolname = 'pg_database_owner'
                                               then (select d.datdba from pg_database d where d.datname = current_database()) else o.oid end
         where o.oid = _owner);
end;
$$;
comment on function agent_internal.is_safe_owner(oid, name) is 'Whether what a role owns can be changed only by roles that can act as another one';

-- An extension's schema, quoted; NULL: it is not installed, or somebody could give its name to another schema before what is in it
-- is called.
create or replace function agent_internal.schema_of_extension(_name text)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select quote_ident(n.nspname)
      from pg_extension e
           join pg_namespace n on n.oid = e.extnamespace
           join pg_roles w on w.oid = (select i.nspowner from pg_namespace i where i.nspname = 'agent_internal')
     where e.extname = _name
       and agent_internal.is_safe_owner(e.extowner, w.rolname) and agent_internal.is_safe_owner(n.nspowner, w.rolname)
$$;
