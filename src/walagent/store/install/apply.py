"""Apply the files of the schema to a database, and record them."""

import re
from collections.abc import Generator, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any, Final

from psycopg import AsyncConnection, Error
from psycopg.errors import InvalidFunctionDefinition, InvalidTableDefinition
from psycopg.types.json import Jsonb

from walagent.errors import PreconditionError
from walagent.store.install.files import SchemaFile, SchemaFiles
from walagent.store.install.lock import lock_tables
from walagent.store.install.plan import Applied, Plan
from walagent.store.queries import query

Connection = AsyncConnection[Any]

# Another signature or other columns: the object must be dropped first.
_OTHER_SHAPE: Final = (InvalidFunctionDefinition, InvalidTableDefinition)
_DEFINES: Final = re.compile(r"^create or replace (function|view) ([\w.]+)", re.MULTILINE)
# $$ … $$, or the lines of begin atomic … end.
_BODY: Final = re.compile(r"(\$\$.*?\$\$|^begin atomic$.*?^end(?=;))", re.DOTALL | re.MULTILINE)


async def read_applied(conn: Connection) -> dict[str, Applied] | None:
    """Return the files that a database has; None if its schema `agent` is somebody else's.

    Raises:
        PreconditionError: an unreleased version created the schema.
    """
    row = await (await conn.execute(query("find_schema"))).fetchone()
    has_schema, has_list, is_unreleased = row or (False, False, False)
    if is_unreleased:
        raise PreconditionError(
            'schema "agent" was created by an unreleased version and cannot be upgraded',
            hint="Save the rows that you need with pg_dump --data-only --schema agent, run"
            " walagent database uninstall and walagent init, and attach the agents again.",
        )
    if not has_list:
        return None if has_schema else {}
    cursor = await conn.execute("select name, sha256, version from agent_internal.migration")
    return {name: Applied(digest, version) async for name, digest, version in cursor}


async def apply_plan(conn: Connection, files: SchemaFiles, plan: Plan, version: str) -> None:
    """Bring the schema up to date, in the caller's transaction.

    Raises:
        psycopg.Error: raised by a file, whose name is a note of the error.
    """
    # Names that are not qualified are PostgreSQL's: a function in another schema could be a trap.
    await conn.execute("set local search_path = pg_catalog, pg_temp")
    # Functions, views and tables refer to each other.
    await conn.execute("set local check_function_bodies = off")
    if plan.is_new:
        for file in files.schema:
            with _named(file):
                await conn.execute(file.script)
        foreign = set[str]()
        await conn.execute(query("close_schema"))
    else:
        foreign = await _upgrade(conn, files, plan)
    await conn.execute(query("check_functions"))
    await _record(conn, files, plan, version, foreign)
    await conn.execute("select agent_internal.restrict_definers()")


async def _record(
    conn: Connection, files: SchemaFiles, plan: Plan, version: str, foreign: AbstractSet[str]
) -> None:
    """Store what the database has now: files, and the objects that code defines."""
    await conn.execute(
        "delete from agent_internal.migration where name = any (%s)", [list(plan.removed)]
    )
    await conn.execute("delete from agent_internal.code_object")
    cursor = conn.cursor()
    await cursor.executemany(
        "insert into agent_internal.migration (name, sha256, version) values (%s, %s, %s)"
        " on conflict (name) do update set sha256 = excluded.sha256, version = excluded.version,"
        " applied_at = now()",
        [(file.name, file.digest, version) for file in files.recorded],
    )
    await cursor.executemany(
        "insert into agent_internal.code_object (object) values (%s)",
        [(name,) for name in await _defined(conn) if name not in foreign],
    )


@contextmanager
def _named(file: SchemaFile) -> Generator[None]:
    """Note the name of a file in the errors of its statements."""
    try:
        yield
    except Error as error:
        error.add_note(file.name)
        raise


async def _upgrade(conn: Connection, files: SchemaFiles, plan: Plan) -> AbstractSet[str]:
    """Change state, then replace code; return what others have defined in the schemas."""
    await lock_tables(conn)
    await conn.execute("select agent_internal.lock_grants()")
    (privileges,) = await (await conn.execute(query("list_privileges"))).fetchone() or (None,)
    before = await _defined(conn)
    cursor = await conn.execute("select object from agent_internal.code_object")
    ours = {name for (name,) in await cursor.fetchall()}
    for upgrade in plan.upgrades:
        with _named(upgrade):
            await conn.execute(upgrade.script)
    await _replace_code(conn, files.code, {name: before[name] for name in before if name in ours})
    await conn.execute(query("close_schema"))
    cursor = await conn.execute(query("restore_privileges"), {"privileges": Jsonb(privileges)})
    for (statement,) in await cursor.fetchall():
        await conn.execute(statement)
    return before.keys() - ours


async def _replace_code(
    conn: Connection, code: Sequence[SchemaFile], before: Mapping[str, str]
) -> None:
    """Execute all code, and drop the functions, views and policies that it no longer has."""
    await conn.execute(query("drop_triggers"))
    for name in before:
        if name.startswith("policy "):  # PostgreSQL cannot replace one
            await conn.execute(f"drop {name}".encode())
    await conn.execute("delete from agent_internal.privilege where object !~ '^aos_'")
    await conn.execute("delete from agent_internal.owner_function")
    for file in code:
        with _named(file):
            try:
                async with conn.transaction():
                    await conn.execute(file.script)
            except _OTHER_SHAPE:
                for statement in _statements(file.script.decode()):
                    await _replace(conn, statement, before)
    for name in await _unchanged(conn, before):
        await conn.execute(f"drop {name}".encode())


async def _replace(conn: Connection, statement: str, before: Mapping[str, str]) -> None:
    """Execute one statement; if what it defines has another shape, drop that first.

    What was granted on it is granted again.
    """
    try:
        async with conn.transaction():
            await conn.execute(statement.encode())
        return
    except _OTHER_SHAPE:
        named = _DEFINES.search(statement)
        if named is None:
            raise
    grants = list[str]()
    for name in await _unchanged(conn, before):
        if name.split("(")[0] == f"{named[1]} {named[2]}":
            cursor = await conn.execute(query("list_grants"), {"object": name})
            grants += [grant for (grant,) in await cursor.fetchall()]
            await conn.execute(f"drop {name}".encode())
    await conn.execute(statement.encode())
    for grant in grants:
        await conn.execute(grant.encode())


async def _defined(conn: Connection) -> dict[str, str]:
    cursor = await conn.execute(query("defined_code"))
    return {name: definition async for name, definition in cursor}


async def _unchanged(conn: Connection, before: Mapping[str, str]) -> list[str]:
    """Return the functions and views that are as they were *before*."""
    now = await _defined(conn)
    return [name for name, definition in now.items() if before.get(name) == definition]


def _statements(script: str) -> Iterator[str]:
    """Split a file of ours: a statement ends with its line, outside of the bodies of functions."""
    statement = ""
    for number, part in enumerate(_BODY.split(script)):
        if number % 2:
            statement += part
            continue
        *ended, rest = part.split(";\n")
        for each in ended:
            yield statement + each
            statement = ""
        statement += rest
    if statement.strip():
        yield statement
