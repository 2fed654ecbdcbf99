"""Look-alikes of what is in pg_catalog: who finds names in schema evil first meets them.

Each operator, function and aggregate with its arguments, each view, and a domain for each type.
"""

from pathlib import Path
from typing import Final

# Who meets one goes on; that it was met is in the server's log, as code of `owned_table`.
NOTED_TRAPS: Final = Path(__file__).with_suffix(".sql").read_text()
_NOTE: Final = "raise warning 'OWNED trap % as % ESCAPED', _name, current_user;"
# They raise EVIL1.
TRAPS: Final = NOTED_TRAPS.replace(_NOTE, "raise exception '%', _name using errcode = 'EVIL1';")
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
