"""Shared replies against those who should not have them, and rows that they must not reach."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import orjson
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    value,
)
from tests.helpers.queue import add_runs, claim
from walagent.message import ModelSpec, Text
from walagent.models.limits import ModelLimits
from walagent.models.script import Answer, call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.runs.worker_models import Models
from walagent.store.calls import shared_calls

CAPABILITIES = ("runner", "viewer", "developer", "approver", "asker", "member")
CLOSE = call("update_row", status="closed")


@asynccontextmanager
async def working(
    conn: AsyncConnection, dsn: str, answer: Answer
) -> AsyncIterator[tuple[Daemon, ScriptedModel]]:
    """A worker with one model, whose runs can share replies."""
    spec = ModelSpec("fake", "scripted", "fake", input_price=1.0, output_price=1.0)
    model = ScriptedModel([answer, "done"], spec=spec)
    registry = Models({"fake": spec}, lambda _: model, ModelLimits())
    async with daemon(conn, dsn, registry, parts=("worker",)) as d:
        yield d, model


async def run(d: Daemon, attached: int, number: int, **new: object) -> None:
    """Insert a ticket with its run, and wait until that has ended."""
    await d.conn.execute("insert into support_tickets (id, issue) values (%s, 'same')", [number])
    change = {"op": "insert", "new": {"id": number, "issue": "same", **new}}
    (made, *_) = await add_runs(d.conn, attached, str(number), change=change)
    await run_all(d.conn, "notify walagent_runs")
    await d.until("select agent_internal.is_final(state) from agent.run where id = %s", made)


async def test_a_reused_reply_writes_no_row_but_that_of_its_run(
    conn: AsyncConnection, dsn: str
) -> None:
    """Also if it names the key of the row that it was written for: what is bound is not read."""
    await run_all(conn, DESK)
    spec = "tools=[refund_user], writes=[status], bind=[ticket_id=id], finish=after_call, reuse=1d"
    attached = await attach(conn, spec)
    evil = [call("refund_user", ticket_id=1, amount=7), call("update_row", id=1, status="closed")]
    fair = [call("refund_user", amount=7), CLOSE]

    async with working(conn, dsn, fair) as (d, model):
        await run(d, attached, 1)
        await run(d, attached, 2)
        assert len(model.requests) == 1
    assert await rows(conn, "select ticket_id from refund order by 1") == [(1,), (2,)]
    assert await column(conn, "select id from support_tickets where status = 'closed'") == [1, 2]

    # Stored by whoever could write steps: the reply of the first run names its row.
    parts = [
        {"call": f"c{at}", "name": one.name, "arguments": dict(one.arguments)}
        for at, one in enumerate(evil)
    ]
    await conn.execute(
        "update agent.step set content = content || jsonb_build_object('parts', %s::jsonb)"
        " where run_id = (select min(run_id) from agent.step) and seq = 0",
        [orjson.dumps(parts).decode()],
    )
    async with working(conn, dsn, fair) as (d, _):
        await run(d, attached, 3)
    assert await value(conn, "select count(*) from refund where ticket_id = 1") == 1
    written = "select status from support_tickets where id = 1"
    assert await value(conn, written) == "closed"


async def test_the_model_is_not_shown_the_key(conn: AsyncConnection, dsn: str) -> None:
    """So no reply can hold it; without reuse it is shown."""
    await run_all(conn, DESK)
    for spec, shown in (("name=a, writes=[status], reuse=1d", False), ("name=b", True)):
        attached = await attach(conn, spec)
        async with working(conn, dsn, CLOSE if not shown else "ok") as (d, model):
            await run(d, attached, 4711 + shown)
            parts = [p for m in model.requests[0].messages for p in m.parts]
        text = "".join(part.text for part in parts if isinstance(part, Text))
        assert (str(4711 + shown) in text) is shown


async def test_no_reply_is_shared_across_roles(conn: AsyncConnection, dsn: str) -> None:
    """Two attachments of one agent to one table, with equal rows and other roles."""
    await run_all(conn, DESK)
    made = "select agent.attach('support_tickets', {} name => '{}', writes => '{{status}}'{})"
    async with role(conn) as clerk:
        await run_all(conn, f"grant select, update on support_tickets to {clerk}")
        first = await value(conn, made.format("'fake',", "one", ", reuse => '1 day'"))
        other = f", agent => 'one', run_as => '{clerk}'"
        second = await value(conn, made.format("", "two", other))
        async with working(conn, dsn, CLOSE) as (d, model):
            await run(d, first, 1)
            await run(d, second, 2)
            assert len(model.requests) == 2
            await run(d, first, 3)
            assert len(model.requests) == 2  # of its own role it is shared
        await run_all(conn, "delete from agent.run")
        await run_all(conn, "select agent.detach('one'), agent.detach('two')")


async def test_no_reply_is_shared_across_versions(conn: AsyncConnection, dsn: str) -> None:
    """Although the request is equal: what else has changed, the request does not say."""
    await run_all(conn, DESK)
    attached = await attach(conn, "writes=[status], reuse=1d")
    async with working(conn, dsn, CLOSE) as (d, model):
        await run(d, attached, 1)
        await run_all(conn, "update agent.attachment set max_depth = 2")
        await conn.execute("insert into support_tickets (id, issue) values (2, 'same')")
        change = {"op": "insert", "new": {"id": 2, "issue": "same"}}
        (made, *_) = await add_runs(conn, attached, "2", change=change)
        await conn.execute("update agent.run set attachment_version = 2 where id = %s", [made])
        await run_all(conn, "notify walagent_runs")
        await d.until("select state = 'succeeded' from agent.run where id = %s", made)
        assert len(model.requests) == 2


async def test_no_reply_is_shared_across_tenants(conn: AsyncConnection, dsn: str) -> None:
    """Also of one attachment, whose rows name their tenants."""
    await run_all(conn, DESK)
    await run_all(conn, "select agent.create_tenant('acme')")
    attached = await attach(conn, "writes=[status], reuse=1d")
    async with working(conn, dsn, CLOSE) as (d, model):
        await run(d, attached, 1)
        await conn.execute("insert into support_tickets (id, issue) values (2, 'same')")
        change = {"op": "insert", "new": {"id": 2, "issue": "same"}}
        async with conn.transaction():
            (made, *_) = await add_runs(conn, attached, "2", change=change)
            await conn.execute("update agent.run set tenant = 'acme' where id = %s", [made])
        await run_all(conn, "notify walagent_runs")
        await d.until("select agent_internal.is_final(state) from agent.run where id = %s", made)
        assert len(model.requests) == 2
    tenants = "select tenant from agent_internal.shared_call order by 1"
    assert await column(conn, tenants) == ["acme", "default"]


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("table", ["shared_call", "shared_wait"])
async def test_nobody_but_the_engine_reads_or_writes_what_is_shared(
    conn: AsyncConnection, capability: str, table: str
) -> None:
    """No capability has a privilege on the tables, not even that of the daemon."""
    async with role(conn) as login:
        await run_all(conn, f"select agent.grant_{capability}('{login}')")
        async with as_role(conn, login):
            for statement in (
                f"select * from agent_internal.{table}",
                f"delete from agent_internal.{table}",
                f"insert into agent_internal.{table} (run_id) values (1)",
            ):
                assert (await refused(conn, statement)).sqlstate == "42501"


@pytest.mark.parametrize("capability", [c for c in CAPABILITIES if c != "runner"])
async def test_nobody_but_a_worker_shares_a_call(conn: AsyncConnection, capability: str) -> None:
    """A reply of another run is not to be had by naming a digest."""
    async with role(conn) as login:
        await run_all(conn, f"select agent.grant_{capability}('{login}')")
        async with as_role(conn, login):
            for tried in (
                "agent_internal.share_call(1, 1, '\\x00')",
                "agent_internal.wake_waiting(1)",
                "agent_internal.forget_calls(1)",
            ):
                assert (await refused(conn, f"select {tried}")).sqlstate == "42501"


async def test_the_role_of_the_daemon_shares_by_the_functions_alone(conn: AsyncConnection) -> None:
    """It holds the runs, and sees of the other one what that has shared."""
    await run_all(conn, DESK)
    attached = await attach(conn, "writes=[status], reuse=1d")
    change = {"op": "insert", "new": {"id": 1, "issue": "same"}}
    await add_runs(conn, attached, "1", "2", change=change)
    first, second = await claim(conn)
    async with role(conn) as daemon_login:
        await run_all(conn, f"select agent.grant_runner('{daemon_login}')")
        async with as_role(conn, daemon_login):
            assert await shared_calls.share_call(conn, first, bytes(32)) is None
            shared = await shared_calls.share_call(conn, second, bytes(32))
            await shared_calls.wake_waiting(conn, first.run_id)
            assert not await shared_calls.forget_calls(conn, 10)
    assert shared is not None
    assert (shared.run, shared.content) == (first.run_id, None)
    woken = "select next_attempt_at <= now() from agent.run where id = %s"
    assert await value(conn, woken, second.run_id)


async def test_a_worker_cannot_share_a_run_that_it_does_not_hold(conn: AsyncConnection) -> None:
    """Neither with a lease that is over, nor with that of another run."""
    await run_all(conn, DESK)
    attached = await attach(conn, "writes=[status], reuse=1d")
    await add_runs(conn, attached, "1", change={"op": "insert", "new": {"id": 1}})
    (held,) = await claim(conn)
    tried = f"select agent_internal.share_call({held.run_id}, {held.lease + 1}, '\\x00')"
    assert (await refused(conn, tried)).sqlstate == "WA001"
