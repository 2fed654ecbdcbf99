"""Batches against those who should see or change nothing of them."""

from dataclasses import replace
from datetime import timedelta

import pytest
from psycopg import AsyncConnection

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
from tests.helpers.queue import NOTHING, add_runs, claim
from walagent.store.calls import batched_calls
from walagent.store.calls.batched_calls import Batch, BatchReply, Waiting

CAPABILITIES = ("viewer", "developer", "approver", "asker", "member")
BATCHES = "update agent.model set provider = 'openai', batch_factor = 0.5 where name = 'fake'"
MINUTE, NOW = timedelta(minutes=1), timedelta(0)
CALL = Waiting(0, None, "fake", "fake", '{"secret": "row"}')
TRIED = (
    "await_batch(1, 1, 0, null, 'fake', 'fake', '{}', 0, 0)",
    "batch_reply(1, 1, 0, 0, 0)",
    "begin_batch(1, 1)",
    "claim_batch('1 minute')",
    "end_batch(1, 1, '', false, false)",
    "end_item(1, 0)",
    "form_batches(1, 1, '0')",
    "hold_batch(1, 1)",
    "postpone_batch(1, 1, 1, null)",
    "prune_batches('0')",
    "store_replies(1, 1, '[]')",
    "submit_batch(1, 1, 'mine', 1)",
    "wake_replied()",
    "release_item(1, 1, 0)",
)


async def waiting(conn: AsyncConnection, runs: int = 1) -> None:
    """Let runs wait for a batch."""
    await run_all(conn, f"{DESK} {BATCHES}")
    attached = await attach(conn, "writes=[status], tier=batch")
    await add_runs(conn, attached, *map(str, range(runs)))
    for held in await claim(conn):
        await batched_calls.await_batch(conn, held, CALL, NOTHING)


async def formed(conn: AsyncConnection) -> Batch:
    """Make a batch of the calls that wait, and claim it."""
    await batched_calls.form_batches(conn, 10, 1 << 20, NOW)
    batch = await batched_calls.claim_batch(conn, MINUTE)
    assert batch is not None
    return batch


@pytest.mark.parametrize("capability", CAPABILITIES)
async def test_nobody_but_a_worker_has_to_do_with_batches(
    conn: AsyncConnection, capability: str
) -> None:
    """Neither by the functions nor in the tables; who sees runs sees that there is one."""
    await waiting(conn)
    await formed(conn)
    async with role(conn) as login:
        await run_all(conn, f"select agent.grant_{capability}('{login}')")
        async with as_role(conn, login):
            for tried in TRIED:
                error = await refused(conn, f"select agent_internal.{tried}")
                assert error.sqlstate == "42501", tried
            read = "select * from agent_internal.batch_item"
            assert (await refused(conn, read)).sqlstate == "42501"
            changed = "update agent.batch set cost = 0"
            assert (await refused(conn, changed)).sqlstate == "42501"
            if capability == "viewer":
                assert await column(conn, "select model from agent.batch") == ["fake"]


async def test_the_role_of_the_daemon_works_on_batches_by_the_functions_alone(
    conn: AsyncConnection,
) -> None:
    """From a claim to the reply; of the items it reads nothing itself."""
    await run_all(conn, f"{DESK} {BATCHES}")
    attached = await attach(conn, "writes=[status], tier=batch")
    budget = "insert into agent.budget (name, period, max_cost) values ('all', 'day', 100)"
    await run_all(conn, budget)
    await add_runs(conn, attached, "1")
    (held,) = await claim(conn)
    async with role(conn) as daemon_login:
        await run_all(conn, f"select agent.grant_runner('{daemon_login}')")
        async with as_role(conn, daemon_login):
            reserve = "select agent_internal.reserve(%s, %s, 0, 'fake', 100, 1)"
            assert await value(conn, reserve, held.run_id, held.lease) is None
            await batched_calls.await_batch(conn, held, replace(CALL, call=0), NOTHING)
            await run_all(conn, "select agent_internal.tick()")
            batch = await formed(conn)
            (call,) = await batched_calls.begin_batch(conn, batch)
            assert call.body == CALL.body
            await batched_calls.submit_batch(conn, batch, "theirs", 0)
            batch = await batched_calls.claim_batch(conn, MINUTE)
            assert batch is not None
            reply = BatchReply(call.custom_id, '{"a": 1}', "", [1, 0, 0, 1], None)
            await batched_calls.store_replies(conn, batch, [reply])
            await batched_calls.end_batch(conn, batch, "")
            await run_all(conn, "select agent_internal.tick()")
            (held,) = await claim(conn)
            found = await batched_calls.batch_reply(conn, held, 0, NOTHING)
            error = await refused(conn, "select * from agent_internal.batch_item")
            assert error.sqlstate == "42501"
    assert await rows(conn, "select reserved_cost, cost from agent.spend") == [(1, 1)]
    assert found is not None
    assert found.answer == '{"a": 1}'


async def test_a_worker_takes_no_reply_of_a_run_that_it_does_not_hold(
    conn: AsyncConnection,
) -> None:
    """Neither with a lease that is over, nor for a run that waits."""
    await waiting(conn)
    for lease in (0, 1, 2):
        error = await refused(conn, f"select agent_internal.batch_reply(1, {lease}, 0, 0, 0)")
        assert error.sqlstate == "WA001"
        tried = f"await_batch(1, {lease}, 1, null, 'fake', 'fake', '{{}}', 0, 0)"
        assert (await refused(conn, f"select agent_internal.{tried}")).sqlstate == "WA001"


async def test_a_process_that_lost_a_batch_changes_nothing_of_it(conn: AsyncConnection) -> None:
    """Whatever it read meanwhile; the batch is that of the process that has claimed it since."""
    await waiting(conn, 2)
    lost = await formed(conn)
    await run_all(conn, "update agent.batch set lease_expires_at = now() - interval '1 s'")
    batch = await batched_calls.claim_batch(conn, MINUTE)
    assert batch is not None
    assert batch.lease == lost.lease + 1
    for tried in (
        "begin_batch(1, {0})",
        "submit_batch(1, {0}, 'mine', 1)",
        "postpone_batch(1, {0}, 1, null)",
        "store_replies(1, {0}, '[]')",
        "end_batch(1, {0}, '', false, true)",
        "hold_batch(1, {0}, '1 hour')",
    ):
        error = await refused(conn, f"select agent_internal.{tried.format(lost.lease)}")
        assert error.sqlstate == "WA001", tried
    assert await rows(conn, "select state, provider_id from agent.batch") == [("forming", None)]


async def test_a_prompt_is_kept_until_the_provider_has_it(conn: AsyncConnection) -> None:
    """And no longer; what is submitted is in no other relation."""
    await waiting(conn)
    kept = "select count(*) from agent_internal.batch_item where body::text like '%secret%'"
    assert await value(conn, kept) == 1
    batch = await formed(conn)
    await batched_calls.begin_batch(conn, batch)
    assert await value(conn, kept) == 1
    await batched_calls.submit_batch(conn, batch, "theirs", 0)
    assert await value(conn, kept) == 0
    assert await column(conn, "select * from agent.step") == []


async def test_results_of_another_database_are_not_taken(conn: AsyncConnection) -> None:
    """Nor lines without a name that this batch has given."""
    await waiting(conn, 2)
    batch = await formed(conn)
    calls = await batched_calls.begin_batch(conn, batch)
    names = [
        "x" + calls[0].custom_id,
        calls[0].custom_id.replace("-", "--", 1),
        "",
        "1-0",
        "' or true --",
    ]
    replies = [BatchReply(name, "{}", "", [1, 0, 0, 1], None) for name in names]
    await batched_calls.store_replies(conn, batch, replies)
    assert await column(conn, "select distinct state from agent_internal.batch_item") == ["waiting"]
    assert await rows(conn, "select answered, unused, cost from agent.batch") == [(0, 0, None)]
