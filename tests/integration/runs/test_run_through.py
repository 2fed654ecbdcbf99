"""From an INSERT to the effect of a tool and back: the whole way, on a real server."""

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.daemon import daemon
from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from walagent.models.script import Fault, call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.tools import register_python_tools
from walagent.tools.python import Function, PythonTool, ToolContext, tool


@tool()
async def note(ctx: ToolContext) -> str:
    """Take a note."""
    assert ctx.conn is not None
    await ctx.conn.execute("update support_tickets set status = 'noted'")
    return "noted"


def declared(function: Function) -> PythonTool:
    """What a declaration has made of a function."""
    return function.__walagent_tool__  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]


SCRIPT = [
    ["I will refund it.", call("refund_user", amount=7)],
    call("update_row", category="billing", status="closed"),
    "Refunded and closed.",
]


async def test_a_ticket_is_refunded_and_closed(conn: AsyncConnection, dsn: str) -> None:
    """One row in, one refund, one update of the row, every step recorded, nothing twice."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(
            conn,
            'system_prompt="Be kind.", tools=[refund_user], writes=[category, status],'
            " bind=[ticket_id=id], on=[insert, update]",
        )
        await run_all(conn, "insert into support_tickets (issue) values ('charged twice')")
        assert await d.ended() == [("1", "succeeded", "Refunded and closed.", None)]
        await d.caught_up()
    assert await rows(conn, "select ticket_id, amount from refund") == [(1, 7)]
    assert await rows(conn, "select status, category from support_tickets") == [
        ("closed", "billing")
    ]
    assert await column(conn, "select kind from agent.step order by seq") == [
        "reply",
        "result",
        "reply",
        "result",
        "reply",
    ]
    assert await value(conn, "select count(*) from agent.run where attachment_id = 1") == 1
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_runs_say_where_they_came_from(conn: AsyncConnection, dsn: str) -> None:
    """Position, time, row and version: enough to answer why there is a run."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, ["ok"]) as d:
        attached = await attach(conn, "")
        await run_all(conn, "insert into support_tickets (id, issue) values (42, 'x')")
        await d.ended()
    (found,) = await rows(
        conn,
        "select reason, attachment_id, attachment_version, generation, commit_lsn is not null,"
        " ordinal, committed_at between created_at - interval '1 minute' and created_at,"
        " change, key, ordering_key, cause_run, depth from agent.run",
    )
    shown = {"id": 42, "issue": "x", "status": "open", "category": None, "amount": None}
    document = {"op": "insert", "schema": "public", "table": "support_tickets", "new": shown}
    assert found == ("change", attached, 1, 1, True, 0, True, document, "42", "42", None, 0)


async def test_tokens_and_cost_are_added_up(conn: AsyncConnection, dsn: str) -> None:
    """Of every reply, at the model's prices, on the run and on each step."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, [call("refund_user", ticket_id=1), "ok"]) as d:
        await attach(conn, "tools=[refund_user]")
        await run_all(conn, "insert into support_tickets (issue) values ('x')")
        await d.ended()
    assert await rows(conn, "select tokens, cost::text from agent.run") == [(220, "0.0003")]
    assert await rows(
        conn, "select input_tokens, output_tokens, cost::text from agent.step where kind = 'reply'"
    ) == [(100, 10, "0.00015"), (100, 10, "0.00015")]


@pytest.mark.slow
async def test_a_runner_without_special_rights_runs_everything(
    conn: AsyncConnection, dsn: str
) -> None:
    """It may log in and read the WAL, and is a member of the roles that agents run as: no more.

    Reading, working, a Python tool, an approval, a backfill, a pause.
    """
    await run_all(conn, DESK)
    options = "login replication nosuperuser nocreatedb nocreaterole nobypassrls"
    async with role(conn, options) as runner, role(conn, "nologin") as app:
        await value(conn, "select agent.grant_runner(%s)", runner)
        await run_all(
            conn,
            f"grant {app} to {runner}; grant select, update on support_tickets to {app};"
            f"grant insert on refund to {app};"
            "insert into support_tickets (id, issue) values (1, 'old')",
        )
        login = make_conninfo(dsn, user=runner)
        models = {
            "fake": ScriptedModel([[call("refund_user"), call("note")], "ok"]),
            "unknown": ScriptedModel([Fault(401)]),
        }
        async with session(login) as own:
            await register_python_tools(own, [declared(note)])
        async with daemon(conn, dsn, models, python=[declared(note)], login=login) as d:
            await attach(
                conn,
                f"name=desk, run_as={app}, tools=[refund_user, note], bind=[ticket_id=id],"
                ' approve=[note], writes=[status], when="new.id > 0", backfill=true',
            )
            await run_all(conn, "insert into support_tickets (id, issue) values (2, 'new')")
            await d.until("select count(*) = 2 from agent.pending_approval")
            await value(conn, "select count(agent.approve(id)) from agent.pending_approval")
            found = sorted(await d.ended(2))
            assert found == [(str(n), "succeeded", "ok", None) for n in (1, 2)]
            await run_all(
                conn,
                "insert into agent.model (name, provider, model_id) values ('unknown', 'x', 'x');"
                "select agent.attach('support_tickets', 'model=unknown, name=broken')",
            )
            await run_all(conn, "insert into support_tickets (id, issue) values (-1, 'x')")
            await d.until("select paused from agent.attachment where name = 'broken'")
        assert await rows(conn, "select * from agent.broken_invariant") == []
        assert await value(conn, "select count(*) from refund") == 2
        async with as_role(conn, runner):
            for statement in (
                "update agent.attachment set run_as = current_user",
                "update agent.model set base_url = 'http://elsewhere'",
                "update agent.agent set tools = '{}'",
                "update agent.step set content = '{}'",
                "delete from agent.step",
            ):
                await refused(conn, statement, state="42501")
        await value(conn, "select agent.detach('support_tickets')")


@pytest.mark.slow
async def test_many_rows_are_worked_by_many_slots(conn: AsyncConnection, dsn: str) -> None:
    """Two hundred rows in transactions of every size, each worked exactly once."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await attach(
            conn, "tools=[refund_user], writes=[category, status], bind=[ticket_id=id], on=insert"
        )
        for size in (1, 2, 7, 40, 150):
            await run_all(
                conn,
                f"insert into support_tickets (issue) select 'x' from generate_series(1, {size}) n",
            )
        await d.ended(200)
    assert await rows(conn, "select count(*), count(distinct ticket_id) from refund") == [
        (200, 200)
    ]
    assert await column(conn, "select distinct state::text from agent.run") == ["succeeded"]
    assert await rows(conn, "select * from agent.broken_invariant") == []
