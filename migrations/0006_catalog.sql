-- What the checks of a definition read from the catalog, and suggestions for misspelled names.

-- The edit distance of two words.
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

-- A hint: 'Did you mean "..."? Known: ...'.
create function agent_internal.suggest(_word text, _known text[])
    returns text
    language sql
    stable
as $$
    select coalesce(
        (select format('Did you mean "%s"? ', k)
           from unnest(_known) k
          where agent_internal.edit_distance(lower(left(_word, 40)), lower(left(k, 40))) <= greatest(2, length(_word) / 3)
          order by agent_internal.edit_distance(lower(left(_word, 40)), lower(left(k, 40))), k
          limit 1), '')
        || 'Known: ' || coalesce((select string_agg(k, ', ' order by k) from unnest(_known) k), 'none') || '.'
$$;

-- The values of `CHECK (x IN ('a', 'b'))` as PostgreSQL prints it, also with `OR x IS NULL`; NULL for any other
-- check, which can allow more than the list, or its complement.
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

-- The columns of the primary key, in key order; empty without one.
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

-- The names of the input arguments of a function, in order; '' for an unnamed one.
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

-- The JSON columns with their type, json or jsonb, also through domains.
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

-- Whether a text is valid UTF-8, which a SQL_ASCII database does not ensure.
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
