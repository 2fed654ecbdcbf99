"""Limits of agents and personas: requests per minute, pauses, and what is recorded of reasoning."""

import asyncio

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, column, rows, run_all, session, value
from walagent.message import Reply, Stop, Text, Thinking
from walagent.models.script import Answer, call

PAY: tuple[Answer, ...] = (call("refund_user", ticket_id=1), "Done.")
PAID = "select count(*) from refund"


async def test_requests_per_minute_hold_for_all_runs(conn: AsyncConnection, dsn: str) -> None:
    """A run that would exceed the limit waits, and no attempt counts."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, ["ok"] * 9) as d:
        await attach(conn, "")
        await run_all(
            conn,
            "update agent.agent set requests_per_minute = 3;"
            "insert into support_tickets (issue) select 'x' from generate_series(1, 5)",
        )
        await d.until(
            "select count(*) filter (where state = 'succeeded') = 3"
            " and count(*) filter (where state = 'waiting_retry') = 2 from agent.run"
        )
        found = await rows(
            conn,
            "select attempt, next_attempt_at - now() between '40 s' and '70 s',"
            " error ->> 'reason' from agent.run where state = 'waiting_retry' limit 1",
        )
    assert found == [(0, True, 'requests_per_minute of "agent support_tickets" reached')]
    assert await value(conn, "select count(*) from agent.step where kind = 'reply'") == 3


@pytest.mark.slow
async def test_a_limit_of_a_persona_is_shared(conn: AsyncConnection, dsn: str) -> None:
    """By its agents; if it is reached, the limit of the agent is not used up."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        "insert into agent.persona (name, requests_per_minute) values ('clerk', 2);"
        "create table other (id int primary key)",
    )
    async with daemon(conn, dsn, ["ok"] * 9) as d:
        await attach(conn, "")
        await attach(conn, "", "other")
        await run_all(
            conn,
            "update agent.agent set persona = 'clerk', requests_per_minute = 100;"
            "insert into support_tickets (issue) values ('x'), ('y');"
            "insert into other values (1), (2)",
        )
        await d.until(
            "select count(*) filter (where state = 'succeeded') = 2"
            " and count(*) filter (where state = 'waiting_retry') = 2 from agent.run"
        )
    used = "select sum(cardinality(taken)) from agent_internal.rate where name like 'agent %'"
    assert await value(conn, used) == 2


async def test_no_minute_has_more_than_the_limit(conn: AsyncConnection, dsn: str) -> None:
    """Also of fifty at once, from as many sessions."""
    take = "select agent_internal.take_rate('default', '{x}', '{7}')"

    async def one() -> float | None:
        async with session(dsn) as other:
            return await value(other, take)

    waits = await asyncio.gather(*(one() for _ in range(50)))
    assert sum(wait is None for wait in waits) == 7
    assert all(wait is None or 0 < wait <= 60 for wait in waits)


async def test_a_clock_that_was_set_back_costs_a_minute_at_most(conn: AsyncConnection) -> None:
    """Requests that were counted at a later time are counted still."""
    await value(conn, "select agent_internal.take_rate('default', '{x}', '{1}')")
    await conn.execute("update agent_internal.rate set taken = array[now() + interval '1 hour']")
    wait = await value(conn, "select agent_internal.take_rate('default', '{x}', '{1}')")
    assert wait is not None
    assert 59 < wait <= 60


@pytest.mark.few(1)
@pytest.mark.parametrize("way", ["agent.approve(id)", "agent.resume_run(run_id)"])
async def test_a_run_pauses_before_a_call(conn: AsyncConnection, dsn: str, way: str) -> None:
    """Until a person continues it."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, list(PAY)) as d:
        await attach(conn, "tools=[refund_user]")
        await run_all(
            conn,
            "update agent.agent set pause_before_tool = true;"
            "insert into support_tickets (id, issue) values (1, 'x')",
        )
        await d.until("select exists (select from agent.pending_approval)")
        assert await value(conn, PAID) == 0
        await run_all(conn, f"select {way} from agent.approval")
        await d.ended()
    assert await value(conn, PAID) == 1


@pytest.mark.parametrize("continued", ["approve", "reject"])
async def test_a_run_pauses_after_a_call(conn: AsyncConnection, dsn: str, continued: str) -> None:
    """The effect has happened; rejected, the run ends."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, list(PAY)) as d:
        await attach(conn, "tools=[refund_user]")
        await run_all(
            conn,
            "update agent.agent set pause_after_tool = true;"
            "insert into support_tickets (id, issue) values (1, 'x')",
        )
        await d.until("select exists (select from agent.pending_approval)")
        assert await value(conn, PAID) == 1
        await run_all(conn, f"select agent.{continued}(id) from agent.approval")
        ((_, state, _, error),) = await d.ended()
    assert state == ("succeeded" if continued == "approve" else "failed")
    assert continued == "approve" or "stopped after refund_user" in str(error)
    assert await value(conn, PAID) == 1


@pytest.mark.parametrize("visible", ["true", "false"])
async def test_reasoning_is_recorded_where_it_may_be_seen(
    conn: AsyncConnection, dsn: str, visible: str
) -> None:
    """What only the provider can read stays: it is sent back."""
    thinking = Thinking("scripted", {"thinking": "hidden words", "signature": "s1"})
    plain = Thinking("scripted", "other hidden words")
    reply = Reply((thinking, plain, Text("Done.")), Stop.END)
    await run_all(conn, DESK)
    async with daemon(conn, dsn, [reply]) as d:
        await attach(conn, "")
        await run_all(
            conn,
            f"update agent.agent set thinking_visible = {visible};"
            "insert into support_tickets (issue) values ('x')",
        )
        await d.ended()
    (content,) = await column(conn, "select content::text from agent.step where kind = 'reply'")
    assert ("hidden words" in content) is (visible == "true")
    assert "s1" in content
