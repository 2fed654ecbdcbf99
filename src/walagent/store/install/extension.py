"""The schema as an extension of PostgreSQL: what `create extension pg_agent` executes.  Pure.

The extension only creates the schema.  At its end it has no objects: those of an extension are not
dumped, and their rows would be lost with the next restore.
"""

from collections.abc import Mapping
from typing import Final

from walagent.postgres.quoting import quote_text
from walagent.store.install.files import SchemaFiles
from walagent.store.queries import query

NAME: Final = "pg_agent"

_CONTROL: Final = """\
# {name}: written by walagent database extension install
comment = 'LLM agents on row changes: the schema of walagent {version}, which a daemon works'
default_version = '{version}'
relocatable = false
superuser = false
"""
_CODE: Final = """\
insert into agent_internal.code_object (object) select object from (
{query}
) as d (object, definition)"""
_SCRIPT: Final = """\
-- The schema of walagent {version}.  After create extension: walagent init, and walagent run.
do $walagent$
declare
    _member text;
begin
    if to_regclass('agent_internal.migration') is not null then
        raise notice 'the schema agent exists; walagent database migrate upgrades it';
        return;
    elsif to_regnamespace('agent') is not null then
        raise exception 'schema "agent" exists, but walagent did not create it';
    end if;
    set local search_path = pg_catalog, pg_temp;
    set local check_function_bodies = off;
    execute $walagent_schema$
{schema}
    $walagent_schema$;
    -- Objects of an extension are not dumped.  A table leaves with its types.
    loop
        select format('%s %s', o.type, o.identity) into _member
          from pg_depend d
               join pg_extension e on d.refclassid = 'pg_extension'::regclass and d.refobjid = e.oid
               cross join lateral pg_identify_object(d.classid, d.objid, d.objsubid) o
         where d.deptype = 'e' and e.extname = '{name}'
         order by o.type = 'type', o.identity like '%[]' limit 1;
        exit when not found;
        execute 'alter extension {name} drop ' || _member;
    end loop;
end;
$walagent$;
"""


def extension_files(files: SchemaFiles, version: str) -> Mapping[str, str]:
    """Return the control file and the script by their names."""
    applied = ",\n".join(
        f"({', '.join(map(quote_text, (file.name, file.digest, version)))})"
        for file in files.recorded
    )
    parts = [
        *(file.script.decode() for file in files.schema),
        query("close_schema"),
        query("check_functions"),
        f"insert into agent_internal.migration (name, sha256, version) values\n{applied}",
        _CODE.format(query=query("defined_code")),
        "select agent_internal.restrict_definers()",
    ]
    schema = "\n".join(f"{part}\n;" for part in parts)
    return {
        f"{NAME}.control": _CONTROL.format(name=NAME, version=version),
        f"{NAME}--{version}.sql": _SCRIPT.format(name=NAME, version=version, schema=schema),
    }
