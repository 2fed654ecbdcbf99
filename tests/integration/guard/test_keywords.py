"""What stands for something else than a table or column of the schema is refused with words."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from walagent.errors import StatementRefusedError
from walagent.guard.query import Guard

SCHEMA = """
create table "User" (id integer, "Count" integer, "current_date" date);
create table "order" (id integer, "user" integer, "Session_User" text, total numeric);
create view "System_User" as select 1 as id;
create schema other;
create table other."LocalTime" (id integer);
"""
REFUSED = [
    ("select count(*) from User", 'user is a keyword, not a table; the table is "User"'),
    ('select 1 from "order" o left join USER u on true', 'the table is "User"'),
    ("with u as (select * from user) select count(*) from u", 'the table is "User"'),
    ("select (select count(*) from user)", 'the table is "User"'),
    ("select count(*) from current_role", "current_role is a keyword, not a table"),
    ("select * from localtime", 'the table is other."LocalTime"'),
    ('select user, sum(total) from "order" group by 1', 'the column is "order"."user"'),
    ('select count(distinct o.id) from "order" o where user is null', 'is "o"."user"'),
    ('select session_user from "order"', 'the column is "order"."Session_User"'),
    ('select current_date from "User" u', 'the column is "u"."current_date"'),
    ('with q as (select id as "user" from "order") select user from q', 'the column is "user"'),
    ('select id from "order" order by user', "write current_user"),
    ('select u.count from "User" u', 'the column is "Count"'),
]
HONEST = [
    "select user, current_user, session_user, current_date",
    'select user, id from "User"',
    "select * from current_date as d(day)",
    'select count(*) from "order" where "user" = 1 and current_user is not null',
    'select "user" from "order"',
    "select x.user from (select user) x",
    'select count(u) from "User" u',
    'select count(u."Count"), u."Count" from "User" u group by 2',
    "select count(*) from \"order\" where current_date > date '2024-01-01'",
]


@pytest.fixture
async def guard(conn: AsyncConnection, reader: AsyncConnection) -> Guard:
    """A guard over tables and columns with the names of keywords."""
    await run_all(conn, SCHEMA)
    grant = f"to {reader.info.user}"
    await run_all(conn, f"grant usage on schema other {grant}")
    await run_all(conn, f"grant select on all tables in schema public, other {grant}")
    return Guard(reader)


@pytest.mark.parametrize(("text", "said"), REFUSED)
async def test_a_keyword_that_stands_for_a_name_is_refused(
    guard: Guard, text: str, said: str
) -> None:
    """It would answer with the name of a role, the time or a row, without a note."""
    with pytest.raises(StatementRefusedError) as refused:
        await guard.read(text)
    assert said in str(refused.value)


@pytest.mark.parametrize("text", HONEST)
async def test_a_keyword_that_is_meant_is_not_refused(guard: Guard, text: str) -> None:
    """No column or table has its name, or the name is in quotes."""
    await guard.read(text)


async def test_the_keyword_of_the_connection_is_refused(
    conn: AsyncConnection, guard: Guard
) -> None:
    """PostgreSQL 16 and newer have it."""
    if conn.info.server_version >= 160_000:
        with pytest.raises(StatementRefusedError, match='the table is "System_User"'):
            await guard.read("select count(*) from system_user")
