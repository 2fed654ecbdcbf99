-- The constants of an expression: what reading them would execute.
--
-- PostgreSQL reads a constant when it parses the expression, with the rights of the caller: it calls the input function of
-- the type, which for an array, row or range of a domain executes the checks of the domain.  So an expression is prepared
-- with parameters for its constants first, which tells their types and reads nothing.  Names can mean something else a moment
-- later, so each constant is then written with the type that it has: src/walagent/guard/parsing.py does the same for the
-- statements of models.

-- The strings of an expression, and what is before, between and after them.  A string of a type that the grammar names, as in
-- interval '1 day', is not one of them.  What is mistaken here does not compile: it is a syntax error, or a type that does not
-- exist.
--
-- Args: _expression: for which agent_internal.is_one_expression() is true.
create or replace function agent_internal.split_constants(_expression text, out parts text[], out constants text[])
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    -- Words after which an expression starts: what precedes another string is its type.
    _before constant text[] := '{all,and,any,asymmetric,between,both,by,case,collate,content,default,distinct,document,else,escape,except,'
        'from,for,having,ilike,in,intersect,is,key,leading,like,limit,not,of,offset,on,or,over,passing,placing,select,similar,some,'
        'symmetric,then,to,trailing,union,using,value,values,variadic,when,where,zone}';
    -- Words that end a type of the grammar: never one of a user, unless qualified.
    _types constant text[] := '{bigint,bit,boolean,char,character,dec,decimal,float,int,integer,interval,nchar,numeric,precision,real,smallint,'
        'time,timestamp,varchar}';
    _out   text := '';         -- since the last constant
    _type  text;
    _token text;
    _seen  text[] := '{}';     -- the tokens before
    _at    integer[] := '{}';  -- where they start
    _last  integer;
    _first integer;
begin
    parts := '{}';
    constants := '{}';
    for _token in
        -- As in PostgreSQL's scan.l, where each character beyond ASCII is a letter.  The longest alternative matches.
        select m[1] from regexp_matches(_expression,
            '([ \t\n\r\f\v]+|[bBxXnN]''[^'']*''|(?:[uU]&)?''(?:[^'']|'''')*''(?:[ \t\f\v]*[\n\r][ \t\n\r\f\v]*''(?:[^'']|'''')*'')*|(?:[uU]&)?"(?:[^"]|"")*"'
            '|[^\x01-\x40\x5b-\x5e\x60\x7b-\x7f][^\x01-\x23\x25-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]*|.)', 'g') m
    loop
        if _token ~ '^[ \t\n\r\f\v]' then
            _out := _out || _token;
            continue;
        elsif _token ~ '^[nN]''' and _seen[cardinality(_seen)] = '.' then
            raise exception 'expected a name: %', left(_token, 100) using errcode = '42601';  -- PostgreSQL reads nchar '...'
        elsif _token ~ '^([uU]&)?''' then
            _last := cardinality(_seen);
            if _seen[_last] = ')' then  -- a precision: timestamp(3) '...'
                _last := coalesce((select max(n) from unnest(_seen) with ordinality x (t, n) where t = '('), 0) - 1;
            end if;
            if not coalesce(case
                    when _seen[_last] = '(' then _seen[_last - 1] = 'extract' and _seen[_last - 2] is distinct from '.'
                    when _seen[_last] = 'varying' then _seen[_last - 1] in ('bit', 'char', 'character', 'nchar')
                    when _seen[_last] = 'zone' then _seen[_last - 1] = 'time' and _seen[_last - 2] in ('with', 'without')
                    else _seen[_last] = any (_types) and _seen[_last - 1] is distinct from '.' end, false) then
                _last := cardinality(_seen);
                _type := null;
                if _seen[_last] ~ '^([^\x01-\x40\x5b-\x5e\x60\x7b-\x7f]|")' and _seen[_last] <> all (_before) then
                    _first := _last;
                    while _seen[_first - 1] = '.' and _seen[_first - 2] ~ '^([^\x01-\x40\x5b-\x5e\x60\x7b-\x7f]|")' loop
                        _first := _first - 2;
                    end loop;
                    _type := substr(_out, _at[_first]);
                    _out := left(_out, _at[_first] - 1);
                end if;
                parts := parts || concat(_out, case when _type is null then ' ' else ' cast(' end);
                constants := constants || _token;
                _out := case when _type is null then ' ' else format(' as %s) ', _type) end;
                _seen := _seen || ' '::text;  -- no name, and no word
                _at := _at || 1;
                continue;
            end if;
        end if;
        -- As the parser: of letters beyond ASCII, none becomes another.
        _seen := _seen || case when _token ~ '"' then _token else lower(_token collate "C") end;
        _at := _at || length(_out) + 1;
        _out := _out || _token;
    end loop;
    parts := parts || _out;
end;
$$;

-- What a parsed expression calls that is volatile, or belongs neither to PostgreSQL nor to an extension; NULL: nothing.
-- Some functions of PostgreSQL look at the session or execute SQL from text.
--
-- Args: _of_check: it is the check of a domain, which is executed as the reader of a value, and on a path of somebody else:
--   functions of extensions find names by it, text becomes a value of any type, and JSON is made by casts of the types' owners.
create or replace function agent_internal.code_in_tree(_tree text, _of_check boolean default false)
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
    select format('call %s', p.oid::regprocedure)
      from regexp_matches(_tree, ':(?:funcid|opfuncid|aggfnoid|winfnoid) (\d+)', 'g') m
           join pg_proc p on p.oid = m[1]::oid
     where p.provolatile = 'v' or p.oid::regprocedure::text ~ '^(pg_|current_setting|.*_to_xml)'
        or p.pronamespace <> 'pg_catalog'::regnamespace
           and not (exists (select from pg_depend d where d.classid = 'pg_proc'::regclass and d.objid = p.oid and d.deptype = 'e')
                    and (select rolsuper from pg_roles o where o.oid = p.proowner))
        or _of_check and (p.pronamespace <> 'pg_catalog'::regnamespace or p.proname ~ 'json'
                          or p.proargtypes::oid[] && array['cstring'::regtype::oid, 'internal'::regtype::oid])
    union all
    select format('use operator %s', o.oid::regoperator)
      from regexp_matches(_tree, ':opno (\d+)', 'g') m
           join pg_operator o on o.oid = m[1]::oid
     where o.oprnamespace <> 'pg_catalog'::regnamespace
       and not exists (select from pg_depend d where d.classid = 'pg_operator'::regclass and d.objid = o.oid and d.deptype = 'e')
     limit 1
$$;

-- One of some types whose input function executes code of others, and a second line that tells which; NULL: none.
--
-- That is the check of a domain, in the type or in what it is built on: only superusers create other functions of types.
create or replace function agent_internal.code_of_types(_types oid[])
    returns text
    language sql
    stable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
    with recursive part (type, oid) as (
        select t, t from unnest(_types) t
        union
        select p.type, x.oid
          from part p
               join pg_type t on t.oid = p.oid
               cross join lateral (
                   select t.typelem
                   union all
                   select t.typbasetype
                   union all
                   select a.atttypid from pg_attribute a where a.attrelid = t.typrelid and a.attnum > 0 and not a.attisdropped
                   union all
                   select r.rngsubtype from pg_range r where r.rngtypid = t.oid
                   union all
                   select r.rngtypid from pg_range r where r.rngmultitypid = t.oid
                   union all
                   -- Also what the check casts to.
                   select d.refobjid
                     from pg_constraint c
                          join pg_depend d on d.classid = 'pg_constraint'::regclass and d.objid = c.oid and d.refclassid = 'pg_type'::regclass
                    where c.contypid = t.oid) x (oid)
         where x.oid <> 0
    )
    select format(E'%s\nTo read a value, PostgreSQL would %s for %s.', p.type::regtype, f.code, p.oid::regtype)
      from part p
           join pg_constraint c on c.contypid = p.oid and c.contype = 'c'
           cross join lateral agent_internal.code_in_tree(c.conbin::text, true) f (code)
     where f.code is not null
     union all
    -- It can be changed before the constant is read.
    select format(E'%s\nTo read a value, PostgreSQL would execute what "%s" can add to %s.', p.type::regtype, o.rolname, p.oid::regtype)
      from part p
           join pg_type t on t.oid = p.oid and (t.typtype = 'c' or t.typtype = 'd' and p.oid <> p.type)
           join pg_roles o on o.oid = t.typowner
     where not o.rolsuper and not agent_internal.may_become(o.oid, session_user)
     limit 1
$$;

-- The types that PostgreSQL gives the constants of an expression, of which it reads none; one that could be of any is text.
--
-- Args: _head, _tail: of the query around it; _parts: of the expression, between its constants; _path: where its names are found.
create or replace function agent_internal.types_of_constants(_head text, _parts text[], _tail text, _path text)
    returns oid[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
    set transform_null_equals = off
as $$
declare
    _count constant integer := cardinality(_parts) - 1;
    _text  constant text := (select string_agg(concat(p, case when n <= _count then '$' || n end), '' order by n)
                               from unnest(_parts) with ordinality as x (p, n));
    _types text[] := array_fill('pg_catalog.unknown'::text, array[_count]);
    _which integer;
    _found oid[];
begin
    if exists (select from pg_prepared_statements where name = 'walagent_condition') then
        deallocate walagent_condition;  -- of a call that was interrupted, for no error takes it back
    end if;
    loop
        begin
            perform set_config('search_path', _path, true);
            execute concat('prepare walagent_condition (', array_to_string(_types, ', '), ') as ', _head, _text, _tail);
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
            exit;
        exception when indeterminate_datatype then
            _which := substring(sqlerrm from '[$](\d+)');
            if _types[_which] is distinct from 'pg_catalog.unknown' then
                raise;
            end if;
            _types[_which] := 'pg_catalog.text';
        end;
    end loop;
    select parameter_types::oid[] into _found from pg_prepared_statements where name = 'walagent_condition';
    deallocate walagent_condition;
    return _found;
end;
$$;

-- The parts of an expression with cast('x' as date) for date('x'), which is what it means; with a parameter it would be a call.
create or replace function agent_internal.with_casts(_parts text[], _path text)
    returns text[]
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _name constant text := '(?:[^\x01-\x40\x5b-\x5e\x60\x7b-\x7f][^\x01-\x23\x25-\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f]*|"(?:[^"]|"")*")';
    _called text;
    _type   regtype;
begin
    for _n in 1 .. cardinality(_parts) - 1 loop
        _called := substring(_parts[_n] from format('((?:%1$s\s*[.]\s*)*%1$s)\s*[(]\s*$', _name));
        continue when _called is null or _parts[_n + 1] !~ '^\s*[)]';
        begin
            perform set_config('search_path', _path, true);
            _type := pg_catalog.to_regtype(_called);
            perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
        exception when others then
            _type := null;  -- a word of the grammar
        end;
        if exists (select from pg_type t where t.oid = _type and t.typrelid = 0) then
            _parts[_n] := regexp_replace(left(_parts[_n], length(rtrim(_parts[_n], E' \t\n\r\f\v')) - 1), '\s*$', '');
            _parts[_n] := concat(left(_parts[_n], length(_parts[_n]) - length(_called)), ' cast(');
            _parts[_n + 1] := regexp_replace(_parts[_n + 1], '^\s*[)]', replace(format(' as %s)', _called), '\', '\\'));
        end if;
    end loop;
    return _parts;
end;
$$;

-- An expression whose constants have types, so that there is none to find when it is parsed.
--
-- A constant is read as one of a type of PostgreSQL, or one that only superusers and who can act as the caller could exchange for
-- another one.  To any other type, a text is cast, which is not executed before the expression is.
--
-- Args: _head, _tail: of the query around it; _path: where its names are found.
-- Raises *_state* if to read a constant would execute code of others, and the error of PostgreSQL for what does not compile.
create or replace function agent_internal.with_typed_constants(_head text, _expression text, _tail text, _path text, _state text)
    returns text
    language plpgsql
    set search_path = pg_catalog, pg_temp
as $$
declare
    _split constant record := agent_internal.split_constants(_expression);
    _parts constant text[] := agent_internal.with_casts(_split.parts, _path);
    _types oid[];
    _code  text;
begin
    if _split.constants = '{}' then
        return _expression;
    end if;
    _types := agent_internal.types_of_constants(_head, _parts, _tail, _path);
    with recursive base (type, oid) as (
        select t, t from unnest(_types) t
        union
        select b.type, t.typbasetype from base b join pg_type t on t.oid = b.oid and t.typtype = 'd'
    )
    -- The check of a domain itself is executed with the expression.
    select agent_internal.code_of_types(array_agg(b.oid)) into _code
      from base b join pg_type t on t.oid = b.oid and t.typtype <> 'd';
    if _code is not null then
        raise exception 'cannot use a constant of type % in a condition', split_part(_code, E'\n', 1)
            using errcode = _state, detail = split_part(_code, E'\n', 2), hint = 'Compare what it is built of.';
    end if;
    return (
        select string_agg(concat(x.part, case when x.type is not null then format(
                   case when t.typnamespace = 'pg_catalog'::regnamespace
                             or t.typtype <> 'd' and agent_internal.is_safe_owner(t.typowner, session_user)
                                and agent_internal.is_safe_owner(s.nspowner, session_user)
                        then 'cast(%s as %I.%I)' else 'cast(cast(%s as pg_catalog.text) as %I.%I)' end,
                   x.constant, s.nspname, t.typname) end), '' order by x.n)
          from unnest(_parts, _split.constants, _types) with ordinality as x (part, constant, type, n)
               left join pg_type t on t.oid = x.type
               left join pg_namespace s on s.oid = t.typnamespace);
end;
$$;
