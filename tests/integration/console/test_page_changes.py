"""The change of a run on the console's pages and in `walagent show`: for who could read the row."""

from pathlib import Path
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import run_all, value
from tests.helpers.people import person
from tests.helpers.shapes import Served
from tests.integration.cli.user import User
from tests.integration.console.test_page_failed import FILTERS
from tests.integration.console.test_page_tables import people
from walagent.message import Json

ROW = {"id": 1, "employee": "e1", "amount": 1000}


async def one(served: Served, token: str, name: str, **given: str) -> dict[str, Any]:
    """Return the only row of a query."""
    answer = await served.query(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["rows"]
    return row


async def new(served: Served, token: str, run: str) -> Json:
    """Return the new row of a run's change."""
    return (await one(served, token, "run", run=run))["change"]["new"]


async def run_of(conn: AsyncConnection) -> str:
    """The first run."""
    return str(await value(conn, "select min(id) from agent.run"))


async def found(served: Served, token: str, text: str) -> int:
    """Count the runs that a text is found in, by the list and by its number."""
    filters = dict.fromkeys((*FILTERS, "tenant", "oldest", "before"), "")
    answer = await served.query(token, "console.runs", **filters, q=text, limit="50")
    assert answer.status_code == 200, answer.text
    rows = answer.json()["rows"]
    filters.pop("before")
    counted = await one(served, token, "runs_count", **filters, q=text)
    assert int(counted["count"]) == len(rows)
    return len(rows)


async def test_of_two_viewers_who_can_read_the_table_sees_the_change(
    conn: AsyncConnection, dsn: str
) -> None:
    """The other sees the run, without row, title and prompt, and finds nothing by its texts."""
    async with people(conn, dsn) as (served, vic, login):
        run, bob = await run_of(conn), await person(conn, "bob", "viewer")
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        await run_all(conn, f"grant select on salary to {login}")
        shown = await one(served, vic, "run", run=run)
        assert shown["change"]["new"] == ROW
        assert shown["title"] == "e1"
        assert (await one(served, vic, "row_now", run=run))["row"] == ROW
        assert "e1" in str(await one(served, vic, "run_prompt", run=run))
        assert await found(served, vic, "e1") == 1
        hidden = await one(served, bob, "run", run=run)
        assert hidden["change"]["new"] is None
        assert hidden["change"]["hidden"] == 3
        assert (hidden["relation"], hidden["key"], hidden["state"]) == (
            "public.salary", "1", shown["state"],
        )  # fmt: skip
        assert "e1" not in str(hidden)
        assert (await one(served, bob, "row_now", run=run))["row"] is None
        prompt = await served.query(bob, "console.run_prompt", run=run)
        assert prompt.status_code == 403
        assert "e1" not in prompt.text
        assert await found(served, bob, "e1") == 0
        assert await found(served, bob, "") == 2
        await run_all(conn, f"revoke select on salary from {login}")
        assert await new(served, vic, run) is None


@pytest.mark.slow
async def test_columns_and_policies_of_the_table_count(conn: AsyncConnection, dsn: str) -> None:
    """A column that the login cannot read is left out; a policy cannot judge a row of the past."""
    async with people(conn, dsn) as (served, vic, login):
        run = await run_of(conn)
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        await run_all(conn, f"grant select (id, amount) on salary to {login}")
        shown = await one(served, vic, "run", run=run)
        assert shown["change"]["new"] == {"id": 1, "amount": 1000}
        assert shown["change"]["hidden"] == 1
        assert "e1" not in str(shown)
        assert (await served.query(vic, "console.run_prompt", run=run)).status_code == 403
        assert await found(served, vic, "e1") == 0
        assert await found(served, vic, "employee") == 0
        assert await found(served, vic, "amount") == 2
        await run_all(
            conn,
            "alter table salary enable row level security;"
            "insert into agent.step (run_id, seq, kind, content)"
            f" values ({run}, 0, 'reply', '{{}}')",
        )
        assert await new(served, vic, run) is None


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["approver", "admin"])
async def test_who_decides_on_calls_sees_the_row(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """Without it, nobody could decide; until the role ends."""
    async with people(conn, dsn) as (served, _, _):
        run, token = await run_of(conn), await person(conn, "grace", "viewer", name)
        assert await new(served, token, run) == ROW
        await run_all(
            conn,
            "update agent.role_grant set expires_at = now() - interval '1 s'"
            f" where principal = 'grace' and role = '{name}'",
        )
        assert await new(served, token, run) is None


@pytest.mark.slow
async def test_walagent_show_hides_what_the_login_cannot_read(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """A viewer's login; that of an approver, and the operator, see the row."""
    async with people(conn, dsn) as (_, _, login):
        run = await run_of(conn)
        await run_all(conn, f"select agent.grant_viewer('{login}')")
        user = User(tmp_path, make_conninfo(dsn, user=login))
        hidden = user.types("show", run).worked().out
        assert "e1" not in hidden
        assert "3 columns that this login cannot read" in hidden
        await run_all(conn, f"grant select (employee) on salary to {login}")
        partly = user.types("show", run).worked().out
        assert "e1" in partly
        assert "1000" not in partly
        await run_all(conn, f"select agent.grant_approver('{login}')")
        assert "1000" in user.types("show", run).worked().out
        assert "1000" in User(tmp_path, dsn).types("show", run).worked().out
