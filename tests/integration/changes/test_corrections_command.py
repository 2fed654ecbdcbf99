"""The commands that say whether agents were right."""

from pathlib import Path

import yaml
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, role, run_all
from tests.integration.cli.user import User
from walagent.models.script import call

SCRIPT = [call("update_row", category="bug", status="closed"), "done"]


async def _corrected(conn: AsyncConnection, dsn: str) -> None:
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(conn, "writes=[category, status], name=desk, corrections=true")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x'), (8, 'y')")
        await d.until("select count(*) = 4 from agent_internal.last_write")
        await run_all(conn, "update support_tickets set category = 'billing' where id = 7")
        await run_all(conn, "delete from support_tickets where id = 8")
        await d.caught_up()


async def test_corrections_are_listed_and_counted(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """By agent, run, column and time; as table and as JSON."""
    await _corrected(conn, dsn)
    user = User(tmp_path, dsn)
    every = user.types("runs", "corrections", "--json").worked().json
    assert [
        (row["key"], row["column"], row["kind"], row["wrote"], row["value"]) for row in every
    ] == [
        ("8", "category", "deleted", "bug", None),
        ("8", "status", "deleted", "closed", None),
        ("7", "category", "changed", "bug", "billing"),
    ]
    for options, count in {
        ("--column", "category"): 2,
        ("--agent", every[0]["agent"]): 3,
        ("--run", str(every[2]["run"])): 1,
        ("--since", "1h"): 3,
        ("--since", "2099-01-01"): 0,
        ("--limit", "1"): 1,
    }.items():
        found = user.types("runs", "corrections", "--json", *options).worked().json
        assert len(found) == count, options
    shown = user.types("runs", "corrections").worked().out
    assert "billing" in shown
    assert user.types("runs", "corrections", "--since", "tomorrow").code == 2

    (category, status) = user.types("agents", "accuracy", "--json").worked().json
    assert (category["column"], category["written"], category["corrected"]) == ("category", 2, 2)
    assert (status["column"], status["corrected"], status["accuracy"]) == ("status", 1, 0.5)
    assert "0.5000" in user.types("agents", "accuracy", "--since", "7d").worked().out
    assert user.types("agents", "accuracy", "--since", "2999-01-01").worked().err.strip() == (
        "nothing was written"
    )


async def test_what_people_corrected_is_proposed_as_examples(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With what the run saw, what is right, and the rest of what it wrote; as YAML."""
    await _corrected(conn, dsn)
    user = User(tmp_path, dsn)
    (found,) = user.types("agents", "examples", "desk", "--json").worked().json
    example = {
        "text": "x",
        "tool": "update_row",
        "arguments": {"category": "billing", "status": "closed"},
    }
    assert {name: found[name] for name in example} == example
    assert found["key"] == "7"
    assert yaml.safe_load(user.types("agents", "examples", "desk").worked().out) == {
        "examples": [example]
    }
    await run_all(conn, "delete from agent.correction")
    assert 'corrected what "desk" wrote' in user.types("agents", "examples", "desk").worked().err


async def test_who_cannot_read_the_table_sees_no_value(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A viewer sees that a column was corrected; the values as far as its login can read them."""
    await _corrected(conn, dsn)
    async with role(conn) as viewer:
        await run_all(
            conn,
            f"select agent.grant_viewer('{viewer}'); grant usage on schema public to {viewer};"
            f"grant select (status) on support_tickets to {viewer}",
        )
        user = User(tmp_path, make_conninfo(dsn, user=viewer))
        found = user.types("runs", "corrections", "--json").worked().json
        await run_all(conn, f"drop owned by {viewer}")
    assert {(row["column"], row["wrote"], row["value"]) for row in found} == {
        ("category", None, None),
        ("status", "closed", None),
    }
