"""`agent.complete` lets a model complete the rows of a query, in a new table."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, role, rows, run_all, value
from walagent.models.script import call

TICKETS = """
insert into support_tickets (issue, status) values ('a', 'closed'), ('b', 'open'), ('c', 'closed');
"""
CLOSED = "select id as ticket_id, issue from support_tickets where status = ''closed'' order by id"
COMPLETE = (
    f"select agent.complete('summaries', '{CLOSED}', system_prompt => 'Summarise.',"
    " model => 'fake'%s)"
)

RUNS = """
select r.key, count(*) from agent.run r join agent.attachment a on a.id = r.attachment_id
 where a.name = 'summaries_completion' group by 1 order by 1
"""


async def test_each_row_of_the_query_is_completed_once(conn: AsyncConnection, dsn: str) -> None:
    """Also one that is inserted later; the table of the query may change."""
    await run_all(conn, DESK + TICKETS)
    async with daemon(conn, dsn, [call("update_row", completion="Short.")]) as d:
        await run_all(conn, COMPLETE % "")
        await d.ended(2, attachment="summaries_completion")
        await run_all(conn, "insert into summaries (ticket_id, issue) values (9, 'z')")
        await run_all(conn, "update support_tickets set issue = 'other'")
        await d.ended(3, attachment="summaries_completion")
        await d.caught_up()
    assert await rows(conn, "select * from summaries order by row_id") == [
        (1, "a", 1, "Short."),
        (3, "c", 2, "Short."),
        (9, "z", 3, "Short."),
    ]
    assert await rows(conn, RUNS) == [("1", 1), ("2", 1), ("3", 1)]


async def test_rows_that_were_inserted_in_its_transaction_are_completed_once(
    conn: AsyncConnection, dsn: str
) -> None:
    """Those of the query are, too: the attachment is there from the commit on."""
    await run_all(conn, DESK + TICKETS)
    async with daemon(conn, dsn, [call("update_row", completion="Short.")]) as d:
        async with conn.transaction():
            await run_all(conn, COMPLETE % "")
            await run_all(conn, "insert into summaries (ticket_id, issue) values (9, 'z')")
        await d.ended(3, attachment="summaries_completion")
        await d.caught_up()
    assert await rows(conn, RUNS) == [("1", 1), ("2", 1), ("3", 1)]


async def test_names_mean_what_they_mean_for_the_caller(conn: AsyncConnection) -> None:
    """Those of tables, functions and types; the answer fits the types."""
    await run_all(conn, DESK + TICKETS)
    await run_all(
        conn,
        """
        create schema "The desk";
        set search_path = "The desk", public;
        create type mood as enum ('good', 'bad');
        create function lower(text) returns text language sql return 'own';
        select agent.complete('"The desk"."Moods"',
            'select "The desk".lower(issue) as "Issue" from support_tickets -- all; ', 'Mood?',
            writes => '{"mood": "mood", "Sure": "numeric(3,2)"}', model => 'fake');
        """,
    )
    assert await rows(
        conn, 'select "Issue", row_id, mood, "Sure" from "Moods" order by 2 limit 1'
    ) == [("own", 1, None, None)]
    assert await rows(
        conn, "select name, relation::text, columns, writes from agent.attachment"
    ) == [("Moods_Sure_mood", '"Moods"', ["Issue"], ["Sure", "mood"])]
    assert (
        await value(
            conn, "select format_type(atttypid, atttypmod) from pg_attribute where attname = 'Sure'"
        )
        == "numeric(3,2)"
    )


@pytest.mark.parametrize(
    ("arguments", "state", "words"),
    [
        ("'', 'select 1 as x', 'P'", "WA010", "target: must not be empty"),
        ("'t', ' ', 'P'", "WA010", "query: must not be empty"),
        ("'t', null, 'P'", "WA010", "query: must not be empty"),
        ("'t', 'select 1 as x', 'P', writes => '[]'", "WA010", "writes: expected types"),
        ("'t', 'select 1 as x', 'P', writes => '{\"y\": 1}'", "WA010", "writes: expected types"),
        ("'t', 'select 1 as x', 'P', writes => '{\"y\": \"txt\"}'", "WA010", 'type "txt"'),
        ("'t', 'select 1 as x', 'P', writes => '{\"y\": \"text, add z int\"}'", "42601", "add z"),
        ("'t', 'select 1 as x', 'P', writes => '{\"x\": \"text\"}'", "42701", '"x"'),
        ("'t', 'select 1 as row_id', 'P'", "42701", "row_id"),
        ("'t', 'delete from refund', 'P'", "42601", "from"),
        ("'support_tickets', 'select 1 as x', 'P'", "42P07", "already exists"),
        ("'t', 'select 1 as x', 'P', priority => 9999", "WA010", "priority"),
    ],
)
async def test_what_cannot_be_completed_is_refused(
    conn: AsyncConnection, arguments: str, state: str, words: str
) -> None:
    """And no table is left."""
    await run_all(conn, DESK)
    before = await value(conn, "select count(*) from pg_class")
    with pytest.raises(psycopg.Error) as found:
        await run_all(conn, f"select agent.complete({arguments}, model => 'fake')")
    assert (found.value.sqlstate, words in str(found.value)) == (state, True), found.value
    assert await value(conn, "select count(*) from pg_class") == before
    assert await value(conn, "select count(*) from agent.attachment") == 0


async def test_the_query_is_executed_with_the_rights_of_the_caller(conn: AsyncConnection) -> None:
    """The function adds no right of its own."""
    await run_all(conn, DESK + TICKETS)
    async with role(conn) as user:
        await run_all(conn, f"select agent.grant_developer('{user}'); set role {user}")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await run_all(conn, COMPLETE % "")
        await run_all(conn, "reset role")
