-- Parse `key=value, key="quoted, value", key=[a, "b c"]` into a JSON object of strings and arrays of strings.  Quotes
-- and brackets bind more than commas; in double quotes \" \\ \n \t are escapes and "" is a quote.  An unquoted value
-- can contain `=`.
--
-- Raises WA010 with the position and what was expected.
create or replace function agent_internal.parse_spec(_spec text)
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
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
    if _spec ~ '^\s*\{' then
        begin
            return _spec::jsonb;
        exception when invalid_text_representation then
            raise exception 'invalid spec: it begins as JSON, and is not: %', sqlerrm
                using errcode = 'WA010', hint = 'Write a spec as: model=gpt-4o, system_prompt="...", tools=[a, b]';
        end;
    end if;
    loop
        _at := agent_internal.spec_skip(_spec, _at);
        exit when _at > _end;
        _key := substring(substr(_spec, _at) from '^[A-Za-z_][A-Za-z0-9_]*');
        if _key is null then
            raise exception 'invalid spec: expected a key at character %, found "%"', _at, substr(_spec, _at, 20)
                using errcode = 'WA010', hint = 'Write a spec as: model=gpt-4o, system_prompt="...", tools=[a, b]';
        end if;
        if _out ? _key then
            raise exception 'invalid spec: key "%" is given twice', _key using errcode = 'WA010';
        end if;
        _at := agent_internal.spec_skip(_spec, _at + length(_key));
        if substr(_spec, _at, 1) <> '=' then
            raise exception 'invalid spec: expected = after "%" at character %', _key, _at using errcode = 'WA010';
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
                    raise exception 'invalid spec: list of "%" is not closed with ]', _key using errcode = 'WA010';
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
            raise exception 'invalid spec: expected a comma after the value of "%" at character %, found "%"',
                _key, _at, substr(_spec, _at, 20) using errcode = 'WA010';
        end if;
        _at := _at + 1;
    end loop;
    return _out;
end;
$$;

create or replace function agent_internal.spec_skip(_spec text, _at integer)
    returns integer
    language sql
    immutable
return _at + length(substring(substr(_spec, _at) from '^\s*'));

-- One value from *_at* on: quoted, or unquoted up to one of *_stops*.
--
-- By regular expressions, not by character: a long prompt would take seconds.
create or replace function agent_internal.spec_value(_spec text, _at integer, _key text, _stops text, out value text, out next integer)
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
begin
    if substr(_spec, _at, 1) = '"' then
        value := substring(substr(_spec, _at) from '^"(?:[^"\\]|\\.|"")*"(?!")');
        if value is null then
            raise exception 'invalid spec: quoted value of "%" at character % is not closed', _key, _at
                using errcode = 'WA010';
        end if;
        next := _at + length(value);
        select coalesce(string_agg(case m[2] when 'n' then E'\n' when 't' then E'\t' else coalesce(m[1], m[2], '"') end, ''
                                   order by n), '')
          into value
          from regexp_matches(substr(value, 2, length(value) - 2), '([^"\\]+)|\\(.)|""', 'g') with ordinality as found (m, n);
        return;
    end if;
    if substr(_spec, _at) ~ (case _key when 'when' then '^''[^'']*''\s*(,|$)' else '^''' end) then
        raise exception 'value of "%" at character % is in single quotes', _key, _at
            using errcode = 'WA010', hint = format('Use double quotes: %s="..."', _key);
    end if;
    value := substring(substr(_spec, _at) from case _stops when ',' then '^[^,]*' else '^[^],]*' end);
    next := _at + length(value);
    value := regexp_replace(value, '\s+$', '');
    if value = '' then
        raise exception 'invalid spec: "%" has no value at character %', _key, _at using errcode = 'WA010';
    end if;
    if value ~ '["\[\]]' then
        raise exception 'unquoted value of "%" contains a quote or bracket: %', _key, value
            using errcode = 'WA010', hint = 'Enclose the whole value in double quotes.';
    end if;
end;
$$;

-- The values of a spec, checked and converted to the types of their columns.  A text can stand for each: a list of one, an
-- element of bind as argument=column, a number, a time, JSON.
--
-- Raises WA010 for an unknown key, and for a value of another type.
create or replace function agent_internal.spec_values(_spec jsonb)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
    set quote_all_identifiers = off
as $$
declare
    _known constant text[] := (select array_agg(k.key order by k.key) || '{replace}' from agent_internal.attach_keys() k);
    _given jsonb := '{}';
    _key   record;
    _word  text;
    _hint  text;
begin
    for _word in select jsonb_object_keys(_spec) loop
        if _word <> all (_known) then
            raise exception 'unknown key "%"', _word using errcode = 'WA010', hint = agent_internal.suggest(_word, _known);
        end if;
    end loop;
    for _key in
        select k.key, k.choices, k.may_be_empty, k.expected, format_type(a.atttypid, null) as type
          from agent_internal.attach_keys() k
               join pg_catalog.pg_attribute a on a.attrelid = format('agent.%I', k.of)::regclass and a.attname = k.column
        union all select 'replace', null, true, 'must be true or false', 'boolean'
    loop
        begin
            _given := _given || jsonb_build_object(_key.key, agent_internal.spec_typed(_key.key, _spec -> _key.key, _key.type, _key.may_be_empty));
        exception when data_exception then
            get stacked diagnostics _hint = pg_exception_hint;
            raise exception '%: %', _key.key, _key.expected using errcode = 'WA010', hint = _hint;
        end;
        select w into _word
          from jsonb_array_elements_text(case jsonb_typeof(_given -> _key.key) when 'array' then _given -> _key.key
                                         else jsonb_build_array(_given -> _key.key) end) w
         where w <> all (_key.choices) limit 1;
        if found then
            raise exception '%: %', _key.key, _key.expected using errcode = 'WA010', hint = agent_internal.suggest(_word, _key.choices);
        end if;
    end loop;
    return _given;
end;
$$;

-- One value of a spec as one of *_type*; NULL stays NULL.  Raises a data exception if it is none.
create or replace function agent_internal.spec_typed(_key text, _value jsonb, _type text, _may_be_empty boolean)
    returns jsonb
    language plpgsql
    stable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _is  constant text := jsonb_typeof(_value);
    _out jsonb;
begin
    if _value is null or _is = 'null' then
        return null;
    elsif _type = 'text[]' and _is = 'array' and _value @> '[null]' then
        raise exception using errcode = '22004', message = 'NULL', hint = 'It has an element that is NULL.';
    elsif _type = 'text[]' and _is = 'string' then
        return agent_internal.spec_typed(_key, jsonb_build_array(_value), _type, _may_be_empty);
    elsif _key = 'on' then
        return lower(_value::text);
    elsif _key = 'bind' and _is <> 'object' then
        return agent_internal.spec_bind(case _is when 'array' then _value else jsonb_build_array(_value) end);
    elsif _type = 'jsonb' or _type = 'text[]' and _is = 'array' then
        return case when _is = 'string' then (_value #>> '{}')::jsonb else _value end;
    elsif _is in ('array', 'object') or _value = '""' and not _may_be_empty then
        raise data_exception;
    end if;
    execute format('select to_jsonb(($1 #>> ''{}'')::%s)', _type) into _out using _value;
    if _type = 'numeric' and jsonb_typeof(_out) = 'string' then
        raise data_exception;  -- NaN and Infinity
    end if;
    return _out;
end;
$$;

-- The columns of an agent or an attachment, for a spec; what is not given has its default.
create or replace function agent_internal.spec_row(_of text, _given jsonb)
    returns jsonb
    language sql
    stable
    set search_path = pg_catalog, pg_temp
as $$
    select jsonb_object_agg(k.column, coalesce(nullif(_given -> k.key, 'null'), k.fallback, case k.key when 'run_as' then to_jsonb(current_user) end))
      from agent_internal.attach_keys() k
     where k.of = _of and (k.key not in ('name', 'agent', 'paused') or k.key = 'paused' and _given ->> k.key is not null)
$$;

-- Change the given keys of an agent; the others keep their values.
--
-- Returns its version.
create or replace function agent_internal.change_agent(_name text, _spec jsonb)
    returns integer
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _row constant jsonb := agent_internal.spec_row('agent', agent_internal.spec_values(_spec));
begin
    perform agent_internal.write_row('agent', _name, (
        select jsonb_object_agg(k.column, _row -> k.column) from agent_internal.attach_keys() k where k.of = 'agent' and _spec ? k.key), '{}');
    return (select g.version from agent.agent g where g.tenant = agent.current_tenant() and g.name = _name);
end;
$$;

create or replace function agent_internal.spec_bind(_pairs jsonb)
    returns jsonb
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
as $$
declare
    _bind jsonb := '{}';
    _pair text;
begin
    for _pair in select jsonb_array_elements_text(_pairs) loop
        if _pair !~ '^[^=]+=[^=]+$' then
            raise data_exception using hint = format('Expected argument=column, found "%s".', _pair);
        end if;
        _bind := _bind || jsonb_build_object(btrim(split_part(_pair, '=', 1)), btrim(split_part(_pair, '=', 2)));
    end loop;
    return _bind;
end;
$$;

-- Attach an agent by a spec: agent.attach('tickets', 'model=gpt-4o, system_prompt="...", tools=[a, b]').
create or replace function agent.attach(target text, spec text)
    returns bigint
    language sql
begin atomic
    select agent_internal.attach(agent_internal.table_named(target, agent_internal.schemas_of_caller()),
                                 agent_internal.parse_spec(spec), agent_internal.schemas_of_caller());
end;
comment on function agent.attach(text, text) is 'Attach an agent to a table, by a spec: agent.attach(''tickets'', ''model=gpt-4o, tools=[a, b]'')';
