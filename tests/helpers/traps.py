"""Look-alikes of what is in pg_catalog: who finds names in schema evil first meets them.

Each operator, function and aggregate with its arguments, and a domain for each type; all raise
EVIL1.
"""

from typing import Final

TRAPS: Final = """
create schema evil;
grant usage on schema evil to public;
create function pg_temp.t(oid) returns text language sql as 'select format_type($1, null)';
do $do$
declare
    _one record;
begin
    for _one in
        select 'op_' || o.oid as name, oprresult as result, '' as of,
               concat_ws(', ', pg_temp.t(nullif(oprleft, 0)), pg_temp.t(oprright)) as arguments,
               format('create operator evil.%s (procedure = evil.op_%s%s, rightarg = %s)', oprname,
                      o.oid, ', leftarg = ' || pg_temp.t(nullif(oprleft, 0)), pg_temp.t(oprright))
                   as operator
          from pg_operator o where oprnamespace = 'pg_catalog'::regnamespace
        union all
        select proname, prorettype, case when proretset then 'setof' else '' end,
               (select string_agg(pg_temp.t(t), ', ' order by n)
                  from unnest(proargtypes::oid[]) with ordinality x (t, n)), 'select 1'
          from pg_proc p
         where pronamespace = 'pg_catalog'::regnamespace and prokind in ('f', 'a')
           and provariadic = 0
    loop
        begin
            execute format('create function evil.%I(%s) returns %s %s language plpgsql as '
                           '$$ begin raise exception %L using errcode = ''EVIL1''; end $$',
                           _one.name, _one.arguments, _one.of, pg_temp.t(_one.result), _one.name);
            execute _one.operator;
        exception when others then
            continue;  -- of types that no other function can have
        end;
    end loop;
end
$do$;
"""
# Beside these, functions cannot be created in the schema: they would have its types.
TYPE_TRAPS: Final = """
create function evil.is_a_type() returns boolean language plpgsql
    as $$ begin raise exception 'a type' using errcode = 'EVIL1'; end $$;
do $do$
declare
    _one record;
begin
    for _one in select t.typname, format_type(t.oid, -1) as name from pg_type t
                 where t.typnamespace = 'pg_catalog'::regnamespace and t.typtype in ('b', 'r')
                   and t.typcategory <> 'A' and t.typname !~ '^(pg|reg)' loop
        execute format('create domain evil.%I as %s check (evil.is_a_type())',
                       _one.typname, _one.name);
    end loop;
end
$do$;
"""
