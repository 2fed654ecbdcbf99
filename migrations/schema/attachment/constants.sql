-- The constants of an expression: what reading them would execute.
--
-- PostgreSQL reads a constant when it parses the expression, with the rights of the caller: it calls the input function of
-- the type, which for an array, row or range of a domain executes the checks of the domain.  So an expression is parsed
-- with NULL for its constants first, which tells their types and reads nothing.  src/walagent/guard/literals.py does the same for the
-- statements of models.

-- An expression with NULL in place of its strings.  A string of a type that the grammar names, as in interval '1 day', is
-- kept.  What is mistaken here does not compile: it is a syntax error, or a type that does not exist.
--
-- Args: _expression: for which agent_internal.is_one_expression() is true.
create or replace function agent_internal.without_constants(_expression text)
    returns text
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
    -- PostgreSQL compares nothing with a plain NULL; a collation is discarded, and keeps the comparison.
    _null constant text := case when _expression ~* '\mdistinct\s+from\M' then ' (null collate pg_catalog."C") ' else ' null ' end;
    _out   text := '';
    _token text;
    _seen  text[] := '{}';     -- the tokens before
    _at    integer[] := '{}';  -- where they start
    _last  integer;
    _first integer;
begin
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
                _token := _null;
                if _seen[_last] ~ '^([^\x01-\x40\x5b-\x5e\x60\x7b-\x7f]|")' and _seen[_last] <> all (_before) then
                    _first := _last;
                    while _seen[_first - 1] = '.' and _seen[_first - 2] ~ '^([^\x01-\x40\x5b-\x5e\x60\x7b-\x7f]|")' loop
                        _first := _first - 2;
                    end loop;
                    _token := format(' cast(null as %s) ', substr(_out, _at[_first]));
                    _out := left(_out, _at[_first] - 1);
                end if;
            end if;
        end if;
        -- As the parser: of letters beyond ASCII, none becomes another.
        _seen := _seen || case when _token ~ '"' then _token else lower(_token collate "C") end;
        _at := _at || length(_out) + 1;
        _out := _out || _token;
    end loop;
    return _out;
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

-- Check the constants of an expression before anybody parses it.
--
-- Args: _head, _tail: of the statement around it, which creates the view walagent_condition; _path: where its names are found.
-- Raises *_state* if to read a constant would execute code of others, and the error of PostgreSQL for what does not compile.
create or replace function agent_internal.check_constants(_head text, _expression text, _tail text, _path text, _state text)
    returns void
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
    set transform_null_equals = off
as $$
declare
    _bare constant text := agent_internal.without_constants(_expression);
    _rule text;
    _code text;
begin
    perform set_config('search_path', _path, true);
    execute concat(_head, _bare, _tail);
    perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    select r.ev_action::text into _rule from pg_rewrite r where r.ev_class = 'pg_temp.walagent_condition'::regclass;
    drop view pg_temp.walagent_condition;
    select agent_internal.code_of_types(array_agg(distinct m[1]::oid)) into _code
      from regexp_matches(_rule, ':consttype (\d+)', 'g') m;
    if _code is not null then
        raise exception 'cannot use a constant of type % in a condition', split_part(_code, E'\n', 1)
            using errcode = _state, detail = split_part(_code, E'\n', 2), hint = 'Compare what it is built of.';
    elsif _bare = _expression then
        return;
    end if;
    -- When the constants are read, the names are looked up again: a type or function of others can have been exchanged for another one.
    select format(E'%s\n"%s" could exchange it for another one while the constants are read.', n.what, o.rolname) into _code
      from (select p.oid::regprocedure::text, p.proowner
              from pg_proc p
             where _state = 'WA012'  -- edges of workflows call functions of their role's
               and p.oid >= 16384 and p.oid in (select m[1]::oid from regexp_matches(_rule, ':(?:op)?funcid (\d+)', 'g') m)
            union all
            select t.oid::regtype::text, t.typowner
              from pg_type t
             where t.oid >= 16384 and _bare ~* '::|\mcast\M'  -- else the types are those of columns
               and t.oid in (select m[1]::oid from regexp_matches(_rule, ':consttype (\d+)', 'g') m)) n (what, owner)
           join pg_roles o on o.oid = n.owner
     where not o.rolsuper and not agent_internal.may_become(o.oid, session_user)
     limit 1;
    if found then
        raise exception 'cannot use constants beside % in a condition', split_part(_code, E'\n', 1)
            using errcode = _state, detail = split_part(_code, E'\n', 2),
                  hint = 'Compare with text: its text form, or a column of a type of PostgreSQL.';
    end if;
end;
$$;
