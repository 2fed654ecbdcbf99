"""The commands that show what agents changed."""

from asyncio import to_thread
from pathlib import Path

from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, column, role, run_all, value
from tests.integration.cli.user import User
from walagent.models.script import call

SCRIPT = [call("update_row", category="bug", status="closed"), "done"]


async def _changed(conn: AsyncConnection, dsn: str) -> None:
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(conn, "writes=[category, status], name=desk")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x'), (8, 'y')")
        await d.ended(2)
        await d.until("select count(*) = 2 from agent.row_change")


async def test_changes_are_listed_by_agent_table_key_column_and_time(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Each option alone selects, and two together both."""
    await _changed(conn, dsn)
    user = User(tmp_path, dsn)
    every = user.types("changes", "--json").worked().json
    assert {(row["key"], row["op"], row["tool"]) for row in every} == {
        ("7", "update", "update_row"),
        ("8", "update", "update_row"),
    }
    run = await value(conn, "select min(id) from agent.run")
    agent = await value(conn, "select agent from agent.attachment where name = 'desk'")
    for options, count in {
        ("--key", "7"): 1,
        ("--key", "70"): 0,
        ("--run", str(run)): 1,
        ("--agent", str(agent)): 2,
        ("--table", "support_tickets"): 2,
        ("--table", "public.support_tickets", "--key", "8"): 1,
        ("--column", "status"): 2,
        ("--column", "issue"): 0,
        ("--since", "1h"): 2,
        ("--since", "2099-01-01"): 0,
        ("--limit", "1"): 1,
    }.items():
        assert len(user.types("changes", "--json", *options).worked().json) == count, options
    shown = user.types("show", str(run)).worked().out
    assert f"changed 1 row: walagent changes --run {run}" in shown
    assert "closed" in user.types("changes", "--run", str(run)).worked().out
    assert user.types("changes", "--since", "tomorrow").code == 2


async def test_values_are_shown_to_who_can_read_them(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A viewer sees that a row was changed, and of it the columns that its login can select."""
    await _changed(conn, dsn)
    async with role(conn) as viewer:
        await run_all(
            conn,
            f"select agent.grant_viewer('{viewer}'); grant usage on schema public to {viewer};"
            f"grant select (status) on support_tickets to {viewer}",
        )
        user = User(tmp_path, make_conninfo(dsn, user=viewer))
        found = user.types("changes", "--key", "7", "--json").worked().json
        await run_all(conn, f"drop owned by {viewer}")
    assert [(row["before"], row["after"]) for row in found] == [
        ({"status": "open"}, {"status": "closed"})
    ]


async def test_runs_are_taken_back_by_number_and_by_agent(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The latest first, with the outcome of each row; code 1 if something was left."""
    await run_all(conn, DESK)
    user = User(tmp_path, dsn)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(conn, "writes=[category, status], name=desk")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x'), (8, 'y')")
        await d.ended(2)
        await d.until("select count(*) = 2 from agent.row_change")
        agent = str(await value(conn, "select agent from agent.attachment where name = 'desk'"))
        dry = await to_thread(user.types, "revert", "1", "--dry-run", "--json")
        (tried,) = dry.worked().json
        assert (tried["done"], [row["outcome"] for row in tried["rows"]]) == (True, ["restored"])
        assert await column(conn, "select status from support_tickets") == ["closed", "closed"]
        await run_all(conn, "update support_tickets set status = 'paid' where id = 8")
        every = ("revert", "--agent", agent, "--version", "1", "--since", "1h")
        unconfirmed = await to_thread(user.types, *every)
        assert (unconfirmed.code, "--yes" in unconfirmed.err) == (2, True)
        ended = await to_thread(user.types, *every, "--yes", "--json")
        assert ended.code == 1
        assert {row["key"]: row["outcome"] for each in ended.json for row in each["rows"]} == {
            "7": "restored",
            "8": "refused",
        }
        assert await column(conn, "select status from support_tickets order by id") == [
            "open",
            "paid",
        ]
        again = await to_thread(user.types, "revert", "1")
        assert (again.code, "was reverted by run" in again.err) == (2, True)
        shown = await to_thread(user.types, "show", str(tried["revert"]))
        assert "update of public.support_tickets 7: restored" in shown.worked().out
        left = await to_thread(user.types, "revert", "2")
        assert (left.code, "changed since" in left.out + left.err) == (1, True)


def test_bad_input_is_refused(dsn: str, tmp_path: Path) -> None:
    """Runs or options, not both; a version is that of an agent."""
    user = User(tmp_path, dsn)
    for words in (
        ["revert"],
        ["revert", "1", "--agent", "x"],
        ["revert", "--version", "1"],
        ["revert", "99"],
        ["revert", "x"],
    ):
        assert user.types(*words).code == 2, words
    nothing = ["--since", "2999-01-01", "--yes", "--json"]
    assert user.types("revert", *nothing).worked().json == []
