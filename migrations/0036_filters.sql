-- Row filters of publications: the owner of the publications executes them, so they are of PostgreSQL's own types.

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
