-- Parse `key=value, key="quoted, value", key=[a, "b c"]` into a JSON object of strings and arrays of strings.  Quotes
-- and brackets bind more than commas; in double quotes \" \\ \n \t are escapes and "" is a quote.  An unquoted value
-- can contain `=`.
--
-- Raises WA010 with the position and what was expected.
create or replace function agent_internal.parse_spec(_spec text)
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
as $$ select _at + length(substring(substr(_spec, _at) from '^\s*')) $$;

-- One value from *_at* on: quoted, or unquoted up to one of *_stops*.
--
-- By regular expressions, not by character: a long prompt would take seconds.
create or replace function agent_internal.spec_value(_spec text, _at integer, _key text, _stops text, out value text, out next integer)
    language plpgsql
    immutable
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

create or replace function agent_internal.spec_list(_spec jsonb, _key text, _default text[])
    returns text[]
    language sql
    immutable
as $$ select case when _spec ? _key then array(select jsonb_array_elements_text(_spec -> _key)) else _default end $$;

create or replace function agent_internal.spec_ops(_ops text[])
    returns text[]
    language plpgsql
    immutable
as $$
declare
    _op text;
begin
    foreach _op in array _ops loop
        if lower(_op) <> all ('{insert,update,delete,truncate}') then
            raise exception 'invalid operation "%" in "on"', _op
                using errcode = 'WA010', hint = agent_internal.suggest(_op, '{insert,update,delete,truncate}');
        end if;
    end loop;
    return array(select lower(o) from unnest(_ops) o);
end;
$$;

create or replace function agent_internal.spec_bind(_pairs text[])
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
            raise exception 'invalid element of "bind": expected argument=column, found "%"', _pair using errcode = 'WA010';
        end if;
        _bind := _bind || jsonb_build_object(btrim(split_part(_pair, '=', 1)), btrim(split_part(_pair, '=', 2)));
    end loop;
    return _bind;
end;
$$;

create or replace function agent_internal.spec_cast(_spec jsonb, _key text, _type text, _default text)
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
    raise exception 'invalid value of "%": expected %, found "%"', _key,
        case _type when 'interval' then 'an interval such as 5s or 2 minutes' when 'boolean' then 'true or false' else 'a number' end,
        _spec ->> _key using errcode = 'WA010';
end;
$$;
