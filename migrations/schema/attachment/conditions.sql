-- Conditions of a definition: compiled once by PostgreSQL, stored with all names spelled out.
--
-- Conditions are compiled with the rights of the role that wrote them, and of no other.
--
-- To parse a constant is to execute code: the input function of its type, and the checks of a domain.
--
-- Row filters of publications: the owner of the publications executes them, so they are of PostgreSQL's own types.

-- A condition must be one expression, which cannot close the parentheses that it is placed in.
create or replace function agent_internal.is_one_expression(_text text)
    returns boolean
    language plpgsql
    immutable
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _depth integer := 0;
    _bare  text;
    _char  text;
begin
    -- The contents of strings and quoted names are ignored.  An escape string, a dollar quote or a comment could
    -- mislead this, but it precedes what it misleads, and is found.
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

-- The text of a view between *_head* and *_tail*, as PostgreSQL prints it: each name with its schema, each cast explicit.
-- So it has the same meaning in any search_path, and no function that is created later and matches better can
-- replace the one that was checked.
--
-- The text around it is compared, not searched for: the name of a table can contain anything.  Constants are printed
-- in fixed styles, whatever those of the session are.
create or replace function agent_internal.view_text(_view regclass, _head text, _tail text)
    returns text
    language plpgsql
    stable
    set search_path = ''
    set standard_conforming_strings = on
    set datestyle = 'ISO, MDY'
    set intervalstyle = 'postgres'
    set bytea_output = 'hex'
    set extra_float_digits = 3
    set quote_all_identifiers = off
as $$
declare
    _text constant text := pg_get_viewdef(_view);
begin
    if left(_text, length(_head)) <> _head or right(_text, length(_tail)) <> _tail then
        raise exception 'could not parse the view definition of a condition: %', _text using errcode = 'WA012';
    end if;
    return btrim(substr(_text, length(_head) + 1, length(_text) - length(_head) - length(_tail)), E' \n');
end;
$$;

-- The condition of a view over *_relation*.
create or replace function agent_internal.view_condition(_view regclass, _relation regclass, _aliases text[])
    returns text
    language plpgsql
    stable
    set search_path = ''
    set standard_conforming_strings = on
as $$
declare
    _tail constant text := (case when current_setting('server_version_num')::integer < 160000 then '_1' else '' end);
    _text constant text := agent_internal.view_text(
        _view, E' SELECT\n   FROM '
               || (select string_agg(_relation::text || ' ' || a || _tail, E',\n    ' order by n)
                     from unnest(_aliases) with ordinality as x (a, n))
               || E'\n  WHERE', ';');
begin
    if _tail = '' then
        return _text;
    end if;
    -- Before version 16 every view has a NEW and an OLD of its own, and those of the condition are printed as
    -- new_1 and old_1.
    return (select string_agg(coalesce(m[1], m[2] || '.', m[3]), '' order by n)
              from regexp_matches(_text, '(''(?:[^'']|'''')*''|"(?:[^"]|"")*")|\m(new|old)_1\.|(.)', 'g')
                   with ordinality as found (m, n));
end;
$$;

-- Compile a condition: create a view of it, inspect what PostgreSQL has parsed, and drop the view.
--
-- Returns the columns that it reads, those of the old row, whether it reads a whole row, and its text with all
-- names qualified, which is what is evaluated later.  Raises the error of PostgreSQL for what does not compile, and
-- WA012 for what could give different results for one change: subqueries, volatile functions, settings of the session (many
-- attachments share one), system columns,
-- columns that are not in the WAL, and functions and domains that belong neither to PostgreSQL nor to an extension
-- (they could set another role during the evaluation); also in the types of constants.
create or replace function agent_internal.compile_condition(
    _relation regclass, _condition text, _path text,
    out columns text[], out old_columns text[], out whole_row boolean, out compiled text
)
    language plpgsql
    set search_path = pg_catalog, pg_temp
    set standard_conforming_strings = on
as $$
declare
    _query  constant text := format('select from %s as new, %s as old where (', _relation, _relation);
    -- Before version 16 every view has a NEW and an OLD of its own, before those of the condition.
    _old constant integer := case when current_setting('server_version_num')::integer < 160000 then 4 else 2 end;
    _rule   record;
    _typed  text;
    _column text;
    _code   text;
begin
    if not agent_internal.is_one_expression(_condition) then
        raise exception 'condition is not a single expression: %', left(_condition, 200)
            using errcode = 'WA012', hint = 'Remove comments, dollar quotes, E strings and semicolons, and balance the parentheses.';
    end if;
    begin
        _typed := agent_internal.with_typed_constants(_query, _condition, ')', _path, 'WA012');
        perform set_config('search_path', _path, true);
        execute pg_catalog.concat('create temporary view walagent_condition as ', _query, _typed, ')');
        perform pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true);
    exception when ambiguous_column then
        _column := substring(sqlerrm from '"([^"]+)"');
        raise exception 'condition: column "%" is ambiguous', _column
            using errcode = '42702', hint = format('Write new.%1$I, or old.%1$I for the value before the change.', _column);
    when syntax_error or datatype_mismatch or invalid_text_representation or undefined_function or undefined_table or undefined_object
         or grouping_error or windowing_error or invalid_datetime_format or datetime_field_overflow or numeric_value_out_of_range then
        raise exception 'condition "%": %', left(_condition, 200), replace(sqlerrm, 'argument of WHERE', 'it')
            using errcode = sqlstate, hint = 'Write an expression of type boolean that reads new and old, such as new.status = ''open''.';
    when insufficient_privilege then
        raise exception 'could not check the condition: %', sqlerrm
            using errcode = 'WA012', hint = format('grant temporary on database %I to %I', current_database(), current_user);
    end;
    select r.oid, r.ev_action::text as tree into _rule
      from pg_catalog.pg_rewrite r where r.ev_class = 'pg_temp.walagent_condition'::regclass;
    if not exists (select from pg_catalog.pg_depend d
                    where d.classid = 'pg_rewrite'::regclass and d.objid = _rule.oid
                      and d.refclassid = 'pg_class'::regclass and d.refobjid = _relation) then
        raise exception 'another table was given the name of % meanwhile', _relation using errcode = 'WA012', hint = 'Try again.';
    elsif _rule.tree like '%{SUBLINK%' then
        raise exception 'cannot use a subquery in a condition'
            using errcode = 'WA012', detail = 'A condition depends only on new and old.';
    elsif _rule.tree like '%{COERCETODOMAIN%' then
        raise exception 'cannot cast to a domain in a condition'
            using errcode = 'WA012', detail = 'The check of a domain can call any function.';
    elsif _rule.tree ~ ':varattno -' then
        raise exception 'cannot use a system column in a condition'
            using errcode = 'WA012', detail = 'System columns are not in the WAL.';
    end if;
    _code := agent_internal.code_in_tree(_rule.tree);
    if _code is not null then
        raise exception 'cannot % in a condition', _code
            using errcode = 'WA012', hint = 'Use a non-volatile function or operator of PostgreSQL or an extension.';
    end if;
    -- A cast from text reads it with the input function of the type; and so does what makes a value of JSON.
    select agent_internal.code_of_types(array_agg(coalesce(m[1], m[2])::oid)) into _code
      from regexp_matches(_rule.tree, ':(?:typid (\d+)|resulttype (\d+) :resultcollid)', 'g') m;
    if _code is not null then
        raise exception 'cannot cast to % in a condition', split_part(_code, E'\n', 1)
            using errcode = 'WA012', detail = split_part(_code, E'\n', 2);
    end if;
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

-- The condition as a row filter of a publication, or NULL if it cannot be one.
--
-- A filter is evaluated in the walsender, where an error would block the stream permanently.  So only what cannot
-- raise is used: comparisons, boolean logic and null tests of columns of the new row and constants, with functions
-- that PostgreSQL marks as leakproof.
--
-- The owner of the publications parses the filter, and a literal of a domain, or of an array or row of one, executes
-- the domain's check.  So all types, operators and functions must be those that initdb creates: their OIDs are below
-- 16384.
--
-- Args: _condition: as returned by agent_internal.compile_condition().
create or replace function agent_internal.row_filter(_relation regclass, _condition text)
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
       or exists (select from regexp_matches(_tree, ':(?:consttype|vartype|opresulttype|resulttype|array_typeid|element_typeid|opno) (\d+)', 'g') m
                   where m[1]::bigint >= 16384)
       or exists (select from regexp_matches(_tree, ':(?:funcid|opfuncid) (\d+)', 'g') m
                         join pg_catalog.pg_proc p on p.oid = m[1]::oid
                   where (not p.proleakproof or p.oid >= 16384) and m[1] <> '0') then
        return null;
    end if;
    -- Before version 16, PostgreSQL prints new.status even if there is only one table.
    return (select string_agg(coalesce(m[1], m[2], ''), '' order by n)
              from regexp_matches(_text, '(''(?:[^'']|'''')*''|"(?:[^"]|"")*")|\mnew\.|(.)', 'g') with ordinality as t (m, n));
end;
$$;
