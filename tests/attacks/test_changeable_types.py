"""A literal is not read whose type others can change after it was judged.

To read one of an array, range or row, PostgreSQL converts each part: its owner adds a CHECK to a
domain, or such an attribute to a composite type, between the look and the conversion.
"""

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection, errors

from tests.helpers.database import DESK, attach, role, run_all
from walagent.errors import StatementRefusedError
from walagent.guard.analysis import Allowlist, check_literals
from walagent.guard.statement import Statement

TYPES = """
create schema theirs;
create domain theirs.tag as text;
create domain theirs.tags as theirs.tag[];
create type theirs.pair as (a int, b text);
create type theirs.span as range (subtype = theirs.tag);
alter type theirs.pair owner to {0};
alter domain theirs.tag owner to {0};
grant usage on schema theirs to public;
create table item (id int primary key, tags theirs.tag[], more theirs.tags, pair theirs.pair,
    span theirs.span, one theirs.tag, plain text[]);
"""
CHANGEABLE = ("tags = '{a}'", "more = '{a}'", "pair = '(1,x)'::theirs.pair", "'[a,b)' = span")
FIXED = ("one = 'a'", "plain = '{a}'", "id = '1'", "id = 1", "plain[1] = 'x'")


@pytest.fixture
async def owner(conn: AsyncConnection) -> AsyncIterator[str]:
    """Who owns the types, which have no code yet."""
    async with role(conn) as name:
        await run_all(conn, DESK + TYPES.format(name))
        yield name
        await run_all(conn, "drop table item; drop schema theirs cascade")


async def _judged(conn: AsyncConnection, where: str) -> None:
    statement = Statement(f"select id from item where {where}")
    async with conn.transaction():
        await conn.execute("set transaction read only")
        await check_literals(conn, statement, Allowlist(), "public")


@pytest.mark.parametrize("where", CHANGEABLE)
async def test_a_statement_or_condition_with_such_a_literal_is_refused(
    conn: AsyncConnection, owner: str, where: str
) -> None:
    """Before it is read; with the name of who could change the type."""
    with pytest.raises(StatementRefusedError, match=owner):
        await _judged(conn, where)
    condition = where.replace("span", "new.span") if "span" in where else f"new.{where}"
    with pytest.raises(errors.Error, match="in a condition"):
        await attach(conn, f'when="{condition}"', "item")


@pytest.mark.parametrize("where", FIXED)
@pytest.mark.usefixtures("owner")
async def test_others_are_read(conn: AsyncConnection, where: str) -> None:
    """Also of a domain itself, which is converted without its check."""
    await _judged(conn, where)


@pytest.mark.parametrize("more", ["alter role {0} superuser", "grant {1} to {0}"])
async def test_who_may_act_as_the_login_has_nothing_to_gain(
    conn: AsyncConnection, owner: str, more: str
) -> None:
    """Nor has a superuser."""
    await run_all(conn, more.format(owner, conn.info.user))
    for where in CHANGEABLE:
        await _judged(conn, where)


async def test_a_literal_of_the_row_of_a_table_is_refused(conn: AsyncConnection) -> None:
    """Also if nobody else has a type of another kind: a column of one can be added."""
    async with role(conn) as name:
        await run_all(conn, f"{DESK}; create table item (id int primary key, plain text)")
        await run_all(conn, f"create table hers (a int); alter table hers owner to {name}")
        try:
            with pytest.raises(StatementRefusedError, match=name):
                await _judged(conn, "row(1) = '(1)'::hers")
            await _judged(conn, "plain = 'x'")
        finally:
            await run_all(conn, "drop table item, hers")


NAMED = """
create schema theirs authorization {0};
set role {0};
grant usage on schema theirs to public;
create type theirs.span as range (subtype = int);
create type theirs.state as enum ('open', 'done');
create function theirs.likes(text) returns boolean language sql immutable return true;
reset role;
create table item (id int primary key, n int, s theirs.state, body text);
"""


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("new.n <@ '[1,2]'::theirs.span", True),
        ("new.n <@ cast('[1,2]' as theirs.span)", True),
        ("new.s = 'open'::theirs.state", True),
        ("theirs.likes('x')", True),
        ("new.s = 'open'", False),
        ("new.s::text = 'open'", False),
    ],
)
async def test_what_others_could_exchange_by_name_stands_beside_no_constant(
    conn: AsyncConnection, condition: str, *, refused: bool
) -> None:
    """Another type gets the name between two looks, and its code reads the constant."""
    async with role(conn) as owner:
        await run_all(conn, DESK + NAMED.format(owner))
        try:
            if refused:
                with pytest.raises(errors.Error, match=f'"{owner}" could exchange'):
                    await attach(conn, f'when="{condition}"', "item")
            else:
                await attach(conn, f'when="{condition}"', "item")
        finally:
            await run_all(conn, "drop table item; drop schema theirs cascade")
