"""A literal of a condition is not read whose type others can change after it was judged.

The guard reads none at all.  To read one of an array, range or row, PostgreSQL converts each part:
its owner adds a CHECK to a domain, or such an attribute to a composite type, between the look and
the conversion.
"""

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from psycopg import AsyncConnection, errors

from tests.helpers.database import DESK, attach, role, run_all, value
from walagent.errors import StatementRefusedError
from walagent.guard.analysis import Allowlist, analyze
from walagent.guard.literals import split_literals
from walagent.guard.parsing import typed

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
CODE = """
create sequence theirs.trace;
create function theirs.evil(text) returns boolean language plpgsql immutable as
    $$ begin perform nextval('theirs.trace'); return true; end $$;
alter domain theirs.tag add check (theirs.evil(value)) not valid;
alter type theirs.pair add attribute c theirs.tag;
"""
FIXED = ("one = 'a'", "plain = '{a}'", "id = '1'", "id = 1", "plain[1] = 'x'")


@pytest.fixture
async def owner(conn: AsyncConnection) -> AsyncIterator[str]:
    """Who owns the types, which have no code yet."""
    async with role(conn) as name:
        await run_all(conn, DESK + TYPES.format(name))
        yield name
        await run_all(conn, "drop table item; drop schema theirs cascade")


@pytest.mark.parametrize("where", CHANGEABLE)
async def test_a_condition_with_such_a_literal_is_refused(
    conn: AsyncConnection, owner: str, where: str
) -> None:
    """Before it is read."""
    condition = where.replace("span", "new.span") if "span" in where else f"new.{where}"
    with pytest.raises(errors.Error, match="in a condition"):
        await attach(conn, f'when="{condition}"', "item")
    assert owner


@pytest.mark.parametrize("where", [*CHANGEABLE, *FIXED])
async def test_a_statement_is_read_without_its_literals(
    conn: AsyncConnection, owner: str, where: str
) -> None:
    """Whatever its owner can add to the type, the guard converts none to it."""
    await run_all(conn, CODE)
    template = split_literals(f"select id from item where {where}")
    async with conn.transaction(force_rollback=True):
        before = await value(conn, "select last_value from theirs.trace")
        with suppress(StatementRefusedError):
            await analyze(conn, template, Allowlist(), "public")
        async with conn.transaction():
            await typed(conn, template, "public")
        assert await value(conn, "select last_value from theirs.trace") == before


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


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("condition", "compiled"),
    [
        ("new.n <@ '[1,2]'::theirs.span", "('[1,2]'::text)::theirs.span"),
        ("new.n <@ cast('[1,2]' as theirs.span)", "('[1,2]'::text)::theirs.span"),
        ("new.n <@ theirs.span('[1,2]')", "('[1,2]'::text)::theirs.span"),
        ("new.s = 'open'::theirs.state", "('open'::text)::theirs.state"),
        ("new.s = 'open'", "('open'::text)::theirs.state"),
        ("new.s::text = 'open'", "= 'open'::text"),
        ("new.body > date('2026-01-02')::text", "'2026-01-02'::date"),
    ],
)
async def test_what_others_could_exchange_by_name_reads_no_constant(
    conn: AsyncConnection, condition: str, compiled: str
) -> None:
    """Another type could get the name between two looks; a text is cast later, as the agent."""
    async with role(conn) as owner:
        await run_all(conn, DESK + NAMED.format(owner))
        try:
            attached = await attach(conn, f'when="{condition}"', "item")
            text = "select definition ->> 'condition' from agent.attachment where id = %s"
            assert compiled in str(await value(conn, text, attached))
        finally:
            await run_all(conn, "drop table item; drop schema theirs cascade")
