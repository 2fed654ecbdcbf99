"""Detaching: what becomes of the runs that exist, and of changes that committed before."""

from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, refused, rows, run_all, value
from tests.helpers.queue import NOTHING, add_runs, claim, finish, ids, states
from walagent.domain.run import RunState
from walagent.store import runs

DETACH = "select agent.detach('support_tickets')"
SHOWN = "select attachment, state::text, error from agent.run_overview order by id"
QUEUES = "select id from agent_internal.queue where attachment_id is not null"


async def test_runs_of_a_detached_attachment_are_executed(conn: AsyncConnection) -> None:
    """Those that wait, and those of changes that the reader ingests later; then a retry of one."""
    await run_all(conn, DESK)
    attachment = await attach(conn, "")
    first = await add_runs(conn, attachment, "a", "b")
    await value(conn, DETACH)
    late = await add_runs(conn, attachment, "c")
    held = await claim(conn)
    assert ids(held) == first + late
    for each in held:
        await finish(conn, each, RunState.FAILED)
    await value(conn, "select agent.retry(%s)", first[0])
    assert ids(await claim(conn)) == first[:1]
    assert {name for name, *_ in await rows(conn, SHOWN)} == {"support_tickets"}


async def test_detaching_a_paused_attachment_cancels_what_has_not_begun(
    conn: AsyncConnection,
) -> None:
    """With the reason; what is being executed ends, and nothing else starts."""
    await run_all(conn, DESK)
    attachment = await attach(conn, "")
    await add_runs(conn, attachment, "a", "a", "b", "c")
    (one, other) = await claim(conn, 2)
    await runs.park_run(conn, other, RunState.WAITING_RETRY, delay=60, spent=NOTHING)
    async with conn.transaction():
        await run_all(conn, "select agent.pause('support_tickets')")
        await value(conn, DETACH)
    assert await states(conn) == ["running", "cancelled", "cancelled", "cancelled"]
    await finish(conn, one)
    assert await rows(conn, SHOWN) == [
        ("support_tickets", "succeeded", None),
        *[("support_tickets", "cancelled", "attachment was detached while paused")] * 3,
    ]
    await refused(conn, "select agent.retry(%s)", other.run_id, state="WA003")
    await add_runs(conn, attachment, "late")
    assert await claim(conn) == []
    await value(conn, "select agent_internal.cancel_detached()")
    assert (await states(conn))[-1] == "cancelled"
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_queue_is_removed_after_its_runs(conn: AsyncConnection) -> None:
    """Not while the reader might still insert some: until it has ingested the detach."""
    await run_all(conn, DESK)
    attachment = await attach(conn, "")
    await add_runs(conn, attachment, "a")
    await value(conn, DETACH)
    for held in await claim(conn):
        await finish(conn, held)
    for statement in (
        "delete from agent.run",
        "update agent.attachment_version set active_from = '0/1', active_until = '0/2'",
    ):
        await run_all(conn, "select agent_internal.prune_rest('1 day')")
        assert await column(conn, QUEUES) == [attachment]
        await run_all(conn, statement)
    await run_all(conn, "select agent_internal.prune_rest('1 day')")
    assert await column(conn, QUEUES) == []


async def test_an_agent_goes_with_its_last_attachment(conn: AsyncConnection) -> None:
    """The one that attaching created; another attachment of it keeps it."""
    await run_all(conn, DESK)
    await conn.execute("select agent.attach('support_tickets', 'model=fake, name=desk')")
    await conn.execute(
        "insert into agent.attachment (name, agent, relation) values"
        " ('second', 'desk', 'support_tickets')"
    )
    await conn.execute("insert into agent.agent (name, model) values ('kept', 'fake')")
    agents = "select name from agent.agent order by name"
    await conn.execute("select agent.detach('desk')")
    assert await column(conn, agents) == ["desk", "kept"]
    await conn.execute("select agent.detach('support_tickets')")
    assert await column(conn, agents) == ["desk", "kept"]
    await conn.execute("select agent.attach('support_tickets', 'model=fake, name=desk')")
    await conn.execute("select agent.detach('desk')")
    assert await column(conn, agents) == ["kept"]
