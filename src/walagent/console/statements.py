"""The statements of queries and mutations: their parameters, and what they return."""

from collections.abc import Mapping
from typing import Any, cast

from psycopg import AsyncClientCursor, AsyncConnection, AsyncCursor
from psycopg.types.string import TextLoader

from walagent.console.declared import Declared
from walagent.console.own import AS_TEXT, check_complete, check_texts, text_of
from walagent.http.exchange import RefusedError
from walagent.message import Json


async def check_role(conn: AsyncConnection[Any], role: str) -> None:
    """Refuse a principal that lacks a role."""
    found = await read_rows(conn, "select agent.has_role(%(role)s) as has", {"role": role})
    if not found[0]["has"]:
        raise RefusedError(
            403,
            f"this needs the role {role}",
            "42501",
            f"An admin can grant it: select agent.grant_role(NAME, '{role}');",
        )


def check_given(declared: Declared, name: str, given: Mapping[str, Json]) -> None:
    """Check the parameters of a mutation; those of a function may have defaults.

    Raises:
        RefusedError: it does not have one that is given, or one is missing.
    """
    if unknown := given.keys() - set(declared.parameters):
        raise RefusedError(400, f'mutation "{name}" has no parameter "{min(unknown)}"')
    if declared.function is None:
        check_complete(name, declared.parameters, given)


async def check_arguments(
    conn: AsyncConnection[Any], function: str, name: str, given: Mapping[str, Json]
) -> None:
    """Check that a function gets the arguments that have no default.

    Raises:
        RefusedError: one is missing.
    """
    found = await read_rows(
        conn,
        "select to_jsonb(p.proargnames[1:p.pronargs - p.pronargdefaults]) as needed"
        " from pg_catalog.pg_proc p"
        " where p.pronamespace = 'agent'::regnamespace and p.proname = %(function)s",
        {"function": function},
    )
    if len(found) == 1:  # of one that does not exist, or has several forms, PostgreSQL says it
        check_complete(name, cast("list[str]", found[0]["needed"] or []), given)


def statement_of(
    declared: Declared, given: Mapping[str, Json]
) -> tuple[str, Mapping[str, str | None]]:
    """Return what a mutation executes, with its values.

    A function of walagent is called by its name.  A statement of the file could reach code of
    others, such as triggers, which could take on the rights of the daemon's login.
    """
    if declared.function is None:
        return declared.text, {each: _text(given.get(each)) for each in declared.parameters}
    arguments = ", ".join(f'"{name}" => %({name})s' for name in given)
    values = {name: None if value is None else _text(value) for name, value in given.items()}
    call = f'agent."{declared.function}"({arguments})'
    return f"select to_jsonb(f) as result from {call} as f", values  # noqa: S608 - names of the file


async def read_rows(
    conn: AsyncConnection[Any], text: str, values: Mapping[str, str | None]
) -> list[dict[str, Json]]:
    """Execute a statement and return its rows by column."""
    cursor = AsyncCursor(conn)
    for name in AS_TEXT:
        cursor.adapters.register_loader(name, TextLoader)
    # Literals, so that the planner knows them: it can use partial indexes then.
    literal = _mogrify(conn, text, values)
    await cursor.execute(literal)
    names = [each.name for each in cursor.description or ()]
    return [dict(zip(names, row, strict=True)) for row in await cursor.fetchall()]


def _mogrify(conn: AsyncConnection[Any], text: str, values: Mapping[str, str | None]) -> bytes:
    check_texts(values)
    return AsyncClientCursor(conn).mogrify(text.encode(), values).encode()


def _text(value: Json) -> str:
    """Return a value as the text of a parameter."""
    return text_of(value) or ""
