"""Steps: recorded once, in the transaction of their effects, by who holds the run."""

from itertools import product

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.calls import refund
from tests.helpers.database import DESK, attach, column, refused, rows, run_all, session, value
from tests.helpers.queue import NOTHING, add_runs, claim, finish, one_run
from walagent.domain.run import Claim, RunState, StepKind
from walagent.message import ToolCall
from walagent.store import runs
from walagent.store.runs import NewStep
from walagent.store.sessions.tool_connections import ToolConnection

CALL = ToolCall("c1", "refund_user", {"amount": 7})


async def held_run(conn: AsyncConnection) -> Claim:
    """A run in our hands."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, "tools=[refund_user]"), "a")
    (held,) = await claim(conn)
    return held


def reply(seq: int) -> NewStep:
    """A step as a worker records it."""
    return NewStep(seq, StepKind.REPLY, {"parts": [], "stop": "end"})


async def refused_call(tools: ToolConnection, held: Claim, seq: int = 0, *, state: str) -> None:
    """Call a tool, which must be refused."""
    with pytest.raises(psycopg.Error) as caught:
        await refund(tools, held, seq)
    assert caught.value.sqlstate == state


async def test_a_step_and_its_effects_commit_together(
    conn: AsyncConnection, tools: ToolConnection
) -> None:
    """Promise 3: both are there, or neither; also when the worker dies in between."""
    held = await held_run(conn)
    async with tools.conn.transaction(force_rollback=True):
        await refund(tools, held)
    assert await rows(conn, "select * from refund") == []
    assert await rows(conn, "select * from agent.step") == []
    await refund(tools, held)
    assert await value(conn, "select amount from refund") == 7
    assert await rows(conn, "select seq, kind, content from agent.step") == [
        (
            0,
            "result",
            {"call_id": "c1", "name": "refund_user", "content": "paid", "is_error": False},
        )
    ]


async def test_a_step_that_is_there_takes_the_effect_of_a_second_one_back(
    conn: AsyncConnection, tools: ToolConnection
) -> None:
    """Two workers, or one that comes back: the money is paid once."""
    held = await held_run(conn)
    await refund(tools, held)
    await refused_call(tools, held, state="WA004")
    assert await value(conn, "select count(*) from refund") == 1


async def test_a_step_is_recorded_once(conn: AsyncConnection) -> None:
    """Whoever comes second is told, and does not overwrite it."""
    held = await held_run(conn)
    await runs.record_step(conn, held, reply(0))
    with pytest.raises(psycopg.Error) as caught:
        await runs.record_step(conn, held, NewStep(0, StepKind.NOTE, {}))
    assert caught.value.sqlstate == "WA004"
    with pytest.raises(psycopg.Error) as caught:
        await finish(conn, held, last=reply(0))
    assert caught.value.sqlstate == "WA004"
    assert await column(conn, "select kind from agent.step") == ["reply"]
    assert await one_run(conn, "state::text", held.run_id) == ("running",)


async def test_no_step_is_recorded_after_one_that_is_missing(
    conn: AsyncConnection, tools: ToolConnection
) -> None:
    """A promoted standby may lack the latest steps: what was to follow them is nobody's."""
    held = await held_run(conn)
    record = "select agent_internal.record_step(%s, %s, 1, 'reply', '{}')"
    await refused(conn, record, held.run_id, held.lease, state="WA001")
    await refused_call(tools, held, 1, state="WA001")
    finish = (
        "select agent_internal.finish_with_step(%s, %s, 1, 'reply', '{}', null, null, 1,"
        " 'succeeded', null, null, 0, null)"
    )
    await refused(conn, finish, held.run_id, held.lease, state="WA001")
    assert await rows(conn, "select * from refund") == []
    assert await value(conn, "select state = 'running' from agent.run")


async def test_two_writers_of_one_step_do_not_both_succeed(conn: AsyncConnection, dsn: str) -> None:
    """The second waits for the first, and then finds it done."""
    held = await held_run(conn)
    async with session(dsn) as other:
        await run_all(conn, "begin")
        await runs.record_step(conn, held, reply(0))
        await run_all(other, "set lock_timeout = '100ms'")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            await runs.record_step(other, held, reply(0))
        await run_all(conn, "commit")
        with pytest.raises(psycopg.Error) as caught:
            await runs.record_step(other, held, reply(0))
        assert caught.value.sqlstate == "WA004"


async def test_nothing_is_recorded_for_a_run_that_is_to_be_cancelled(
    conn: AsyncConnection, tools: ToolConnection
) -> None:
    """Its worker learns of it with its next write, and the write does not happen."""
    held = await held_run(conn)
    assert await value(conn, "select agent.cancel(%s)", held.run_id) == "running"
    for write in (
        runs.record_step(conn, held, reply(0)),
        runs.park_run(conn, held, RunState.WAITING_RETRY, spent=NOTHING),
        finish(conn, held, RunState.FAILED),
        runs.ask_approval(conn, held, 0, CALL, "somebody", 60, NOTHING),
    ):
        with pytest.raises(psycopg.Error) as caught:
            await write
        assert caught.value.sqlstate == "WA002"
    await refused_call(tools, held, state="WA002")
    assert await value(conn, "select count(*) from refund") == 0
    assert await value(conn, "select count(*) from agent.step") == 0


STATES = [state.value for state in RunState]
ALLOWED = {
    "pending": {"running", "cancelled", "dead", "skipped"},
    "running": {
        "pending", "waiting_approval", "waiting_retry", "needs_review",
        "succeeded", "failed", "dead", "cancelled", "skipped",
    },
    "waiting_approval": {"pending", "cancelled", "failed"},
    "waiting_retry": {"pending", "cancelled", "dead"},
    "needs_review": {"pending", "cancelled", "failed"},
    "failed": {"pending"},
    "dead": {"pending"},
    "cancelled": {"pending"},
    "succeeded": set[str](),
    "skipped": set[str](),
}  # fmt: skip
# What the columns beside the state have to be for it.
FITTING = """
update agent.run
   set state = %(state)s::agent.run_state,
       lease_expires_at = case when %(state)s = 'running' then now() end,
       next_attempt_at = case when %(state)s = 'waiting_retry' then now() end,
       finished_at = case when agent_internal.is_final(%(state)s::agent.run_state) then now() end
"""


async def test_a_run_goes_only_from_one_state_to_the_next(conn: AsyncConnection) -> None:
    """Every pair of states: allowed as the documentation says, or refused by the database."""
    held = await held_run(conn)
    for old, new in product(STATES, STATES):
        async with conn.transaction(force_rollback=True):
            await run_all(conn, "alter table agent.run disable trigger user")
            await conn.execute(FITTING, {"state": old})
            await run_all(conn, "alter table agent.run enable trigger user")
            if new == old or new in ALLOWED[old]:
                await conn.execute(FITTING, {"state": new})
                continue
            with pytest.raises(psycopg.Error) as caught:
                async with conn.transaction():
                    await conn.execute(FITTING, {"state": new})
            assert caught.value.sqlstate == "WA003", (old, new)
    assert await one_run(conn, "state::text", held.run_id) == ("running",)


@pytest.mark.parametrize(
    "columns",
    [
        "state = 'running', lease_expires_at = null",
        "state = 'pending'",
        "state = 'waiting_retry', lease_expires_at = null",
        "state = 'succeeded', lease_expires_at = null",
        "state = 'succeeded', finished_at = now()",
        "state = 'pending', lease_expires_at = null, next_attempt_at = now()",
        "state = 'pending', lease_expires_at = null, finished_at = now()",
        "commit_lsn = null",
        "reason = 'whim'",
        "reason = 'backfill'",
    ],
)
async def test_the_columns_of_a_run_fit_its_state(conn: AsyncConnection, columns: str) -> None:
    """No statement leaves a lease without a worker, or an end without a time."""
    await held_run(conn)
    await refused(conn, f"update agent.run set {columns}", state="23514")


async def test_a_step_has_a_kind_that_is_known(conn: AsyncConnection) -> None:
    """And a number from 0 on."""
    held = await held_run(conn)
    for values in ("0, 'thought', '{}'", "-1, 'reply', '{}'"):
        await refused(
            conn,
            f"insert into agent.step (run_id, seq, kind, content) values ({held.run_id}, {values})",
            state="23514",
        )
