"""The rule that PostgreSQL stores for a statement that has run, and the catalog's facts for it."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import Final

from psycopg import sql

from walagent.ask.fanout.joins import constants, every, numbers, relations
from walagent.ask.fanout.levels import Filter, LevelFacts
from walagent.ask.fanout.rule import Item, read_rule
from walagent.guard.literals import split_literals
from walagent.guard.parsing import rule_of, typed
from walagent.guard.query import Connection, Guard
from walagent.guard.statement import read_statement
from walagent.postgres.connection import OWN_PATH
from walagent.postgres.pgtypes import FIRST_OF_USERS
from walagent.store.queries import query

SECONDS: Final = 2  # for one look at the data
LOOKED_AT: Final = 100_000  # rows of a table that are looked at
_LONGEST: Final = 1_000_000  # characters of a rule; a longer one would hold all others up
_OPERATORS: Final = {
    "=": sql.SQL("="),
    "<>": sql.SQL("<>"),
    "<": sql.SQL("<"),
    "<=": sql.SQL("<="),
    ">": sql.SQL(">"),
    ">=": sql.SQL(">="),
    "is null": sql.SQL("is null"),
    "is not null": sql.SQL("is not null"),
}

Names = dict[int, tuple[str, str, dict[int, str]]]  # schema, name and columns of a relation


@asynccontextmanager
async def undone(conn: Connection, mode: str) -> AsyncGenerator[None]:
    """Open a transaction that is always rolled back, and that takes no time to speak of."""
    await conn.execute(f"begin transaction {mode}".encode())
    try:
        await conn.execute(
            "select set_config('search_path', %s, true),"
            " set_config('statement_timeout', %s, true), set_config('lock_timeout', %s, true),"
            " set_config('standard_conforming_strings', 'on', true),"
            " set_config('row_security', 'on', true),"
            " set_config('client_min_messages', 'error', true)",
            [OWN_PATH["search_path"], f"{SECONDS}s", f"{SECONDS}s"],
        )
        yield
    finally:
        if not conn.closed:
            await conn.rollback()


async def read_stored(conn: Connection, text: str, path: str) -> Sequence[Item]:
    """Let PostgreSQL make a rule of the statement on its search path, as the guard did.

    A literal of a type of others is a text in it, for it is not converted.
    """
    template = split_literals(read_statement(text).text)
    _, rule = await rule_of(conn, await typed(conn, template, path), path)
    return await asyncio.to_thread(_read, rule) if len(rule) <= _LONGEST else ()


def _read(rule: str) -> Sequence[Item]:
    read = read_rule(rule)
    for item in every(read):
        arg = item.item("arg")
        if (
            item.kind == "COERCEVIAIO"
            and arg is not None
            and arg.kind == "CONST"
            and item.number("resulttype") >= FIRST_OF_USERS
        ):
            item.kind, item.fields = arg.kind, arg.fields
    return read


async def read_facts(conn: Connection, rule: Sequence[Item]) -> tuple[LevelFacts, Names]:
    """Ask the catalog about what the rule mentions."""
    asked = {
        "relations": list(relations(rule)),
        "operators": list(numbers(rule, "opno")),
        "functions": list(numbers(rule, "aggfnoid")),
        "values": list(constants(rule)),
    }
    cursor = await conn.execute(query("guard_joins"), asked)
    names: Names = {}
    keys: dict[int, list[frozenset[int]]] = {}
    operators: dict[int, str] = {}
    totals: dict[int, str] = {}
    labels: dict[tuple[int, int], str] = {}
    filled: dict[int, frozenset[int]] = {}
    for kind, oid, schema, name, columns, unique in await cursor.fetchall():
        match kind:
            case "relation":
                names[oid] = schema, name, {int(n): column for n, column in columns.items()}
                keys[oid] = [frozenset(key) for key in unique]
            case "filled":
                filled[oid] = frozenset(columns)
            case "operator":
                operators[oid] = name
            case "total":
                totals[oid] = name
            case _:
                labels[unique, oid] = name
    return LevelFacts(keys, operators, totals, labels, filled), names


def condition(each: Filter, columns: Mapping[int, str]) -> sql.Composable:
    """Write a condition on a column as SQL."""
    column, operator = sql.Identifier(columns[each.column]), _OPERATORS[each.operator]
    value = sql.SQL("") if each.value is None else sql.Literal(each.value)
    return sql.SQL("{} {} {}").format(column, operator, value)


async def holds(guard: Guard, asked: sql.Composable) -> bool:
    """Return whether the data say yes; call it in a read-only transaction."""
    text = sql.SQL("select ({})::text").format(asked).as_string(guard.conn)
    async with aclosing(replace(guard, search_path=OWN_PATH["search_path"]).stream(text)) as found:
        return [row async for row in found] == [("true",)]
