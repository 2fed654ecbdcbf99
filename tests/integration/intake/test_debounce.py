"""Changes that come close together are one run, which lists them all."""

import json
from itertools import chain

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, column, rows, run_all, value
from tests.helpers.queue import claim, finish, ids, set_clock
from tests.helpers.stream import (
    ScriptedStream,
    inserted,
    intake,
    open_checkpoint,
    take,
    transaction,
)
from walagent.domain.attachment import Attachment
from walagent.domain.change import Change
from walagent.message import Text
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store import claiming


async def desk(
    conn: AsyncConnection, spec: str = "debounce=1 minute, ordering_key=[status]"
) -> Attachment:
    """A collecting attachment, and a checkpoint."""
    await run_all(conn, DESK)
    await attach(conn, spec)
    await open_checkpoint(conn)
    return Attachment.from_json(await value(conn, "select definition from agent.attachment"))


def row(on: Attachment, number: int, status: str = "a") -> Change:
    """A ticket comes."""
    return inserted(on, {"id": number, "status": status})


async def test_changes_of_an_ordering_key_join_the_one_that_collects(conn: AsyncConnection) -> None:
    """In commit order, over transactions and batches; other ordering keys collect for
    themselves.
    """
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    await take(
        made,
        stream,
        transaction(100, row(on, 1, "a"), row(on, 2, "b")),
        transaction(200, row(on, 3, "a"), row(on, 4, "a")),
        [*transaction(300, row(on, 5, "a")), *transaction(400, row(on, 6, "b"))],
    )
    assert stream.confirmed == [110, 210, 410]
    assert await claim(conn) == []
    await set_clock(conn, "2 minutes")
    await claiming.tick(conn)
    first, second = await claim(conn)
    assert [change["new"]["id"] for change in first.changes] == [1, 3, 4, 5]
    assert [change["new"]["id"] for change in second.changes] == [2, 6]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_without_an_ordering_key_all_changes_join(conn: AsyncConnection) -> None:
    """One run for the whole table."""
    on = await desk(conn, "debounce=1 minute, ordering_key=[]")
    stream = ScriptedStream()
    made = await intake(conn)
    await take(made, stream, *(transaction(n * 100, row(on, n)) for n in range(1, 6)))
    assert await value(conn, "select count(*) from agent.run") == 1
    assert await value(conn, "select count(*) from agent_internal.merged_change") == 4


async def test_each_change_restarts_the_window_up_to_a_limit(conn: AsyncConnection) -> None:
    """Ten windows after the first change the run goes, however many more there are."""
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    waits = list[float]()
    for n, ahead in enumerate((0, 50, 100, 9 * 60 + 30, 11 * 60), start=1):
        await set_clock(conn, f"{ahead} seconds")
        await take(made, stream, transaction(n * 100, row(on, n, "a")))
        left = "select extract(epoch from not_before - created_at)::float from agent.run"
        waits.append(round(await value(conn, left)))
    assert [abs(wait - expected) <= 2 for wait, expected in zip(
        waits, (60, 110, 160, 600, 600), strict=True
    )] == [True] * 5, waits  # fmt: skip
    await claiming.tick(conn)
    (held,) = await claim(conn)
    assert len(held.changes) == 5


async def test_what_comes_after_the_start_begins_a_new_run(conn: AsyncConnection) -> None:
    """It collects again, and waits for the first one to end."""
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    await take(made, stream, transaction(100, row(on, 1, "a")))
    await set_clock(conn, "2 minutes")
    await claiming.tick(conn)
    (first,) = await claim(conn)
    await take(made, stream, transaction(200, row(on, 2, "a")))
    await set_clock(conn, "4 minutes")
    await run_all(
        conn, "update agent.run set lease_expires_at = 'infinity' where state = 'running'"
    )
    await claiming.tick(conn)
    assert await claim(conn) == []
    await finish(conn, first)
    (second,) = await claim(conn)
    assert [change["new"]["id"] for change in second.changes] == [2]


async def test_a_change_that_arrives_again_joins_nothing_twice(conn: AsyncConnection) -> None:
    """The second net: neither the first change of a run, nor one that joined it, comes again.

    Whether the run still collects or has started.
    """
    on = await desk(conn)
    stream = ScriptedStream()
    batch = [
        *transaction(100, row(on, 1, "a")),
        *transaction(200, row(on, 2, "a")),
    ]
    count = (
        "select (select count(*) from agent.run), (select count(*) from"
        " agent_internal.merged_change)"
    )
    for _ in range(2):
        await run_all(conn, "update agent.checkpoint set end_lsn = '0/1'")
        await take(await intake(conn), stream, batch)
        assert await rows(conn, count) == [(1, 1)]
    await set_clock(conn, "2 minutes")
    await claiming.tick(conn)
    assert len(ids(await claim(conn))) == 1
    await run_all(conn, "update agent.checkpoint set end_lsn = '0/1'")
    await take(await intake(conn), stream, batch)
    assert await rows(conn, count) == [(1, 1)]
    await run_all(conn, "update agent.checkpoint set end_lsn = '0/1'")
    more = transaction(300, row(on, 3, "a"))
    await take(await intake(conn), stream, [*more, *batch])
    assert await rows(conn, count) == [(2, 1)]
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_dead_change_collects_nothing(conn: AsyncConnection) -> None:
    """A row on which the condition raises is a run of its own, at once."""
    on = await desk(conn, 'debounce=1 minute, ordering_key=[], when="1 / new.id > 0"')
    stream = ScriptedStream()
    made = await intake(conn)
    await take(
        made,
        stream,
        transaction(100, row(on, 0)),
        transaction(200, row(on, 1)),
    )
    assert await column(conn, "select state::text from agent.run order by id") == [
        "dead",
        "pending",
    ]


async def test_the_model_is_shown_every_change(conn: AsyncConnection, dsn: str) -> None:
    """Through reader and worker: one run, one request, all rows in order."""
    await run_all(conn, DESK)
    model = ScriptedModel(["ok"])
    async with daemon(conn, dsn, {"fake": model}) as d:
        await attach(conn, "debounce=300ms, ordering_key=[status]")
        for n in range(1, 6):
            await conn.execute("insert into support_tickets (id) values (%s)", [n])
        assert await d.ended() == [("1", "succeeded", "ok", None)]
    (request,) = model.requests
    (part,) = request.messages[0].parts
    assert isinstance(part, Text)
    shown = json.loads(part.text.split("\n")[1])
    assert [change["new"]["id"] for change in shown] == [1, 2, 3, 4, 5]


@pytest.mark.slow
async def test_a_run_collects_no_more_than_a_model_or_a_claim_can_hold(
    conn: AsyncConnection,
) -> None:
    """By their number and by their size; what comes then collects in another run."""
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    small = [row(on, n, "a") for n in range(1, 1301)]
    large = [
        inserted(on, {"id": n, "status": "b", "issue": f"{n:06}" + "x" * 250_000})
        for n in range(2001, 2041)
    ]
    await take(made, stream, transaction(100, *small), transaction(200, *large))
    await set_clock(conn, "2 minutes")
    await claiming.tick(conn)
    seen = dict[str, list[list[int]]]()
    while claims := await claim(conn):
        for held in claims:
            numbers = [change["new"]["id"] for change in held.changes]
            seen.setdefault(held.change["new"]["status"], []).append(numbers)
            await finish(conn, held)
        await claiming.tick(conn)
    assert [len(numbers) for numbers in seen["a"]] == [1001, 299]
    assert [*chain(*seen["a"])] == list(range(1, 1301))
    assert all(len(numbers) < 20 for numbers in seen["b"])
    assert [*chain(*seen["b"])] == list(range(2001, 2041))


async def test_what_is_bound_is_the_last_change(conn: AsyncConnection, dsn: str) -> None:
    """The agent acts on what is there after the burst, also where other rows began it."""
    await run_all(
        conn,
        DESK + "create function note(id bigint, status text) returns void language sql as"
        " 'insert into refund values ($1, length($2))'",
    )
    model = ScriptedModel([call("note"), call("update_row", category="bug"), "Done."])
    async with daemon(conn, dsn, {"fake": model}) as d:
        await attach(
            conn,
            "on=[insert, update], tools=[note], bind=[id=id, status=status], writes=[category],"
            " debounce=300 ms, ordering_key=[]",
        )
        await run_all(conn, "insert into support_tickets values (1, 'x', 'a'), (2, 'y', 'a')")
        await run_all(conn, "update support_tickets set status = 'abc' where id = 1")
        await run_all(conn, "update support_tickets set status = 'abcdef' where id = 2")
        await d.ended()
    assert await rows(conn, "select ticket_id, amount::int from refund") == [(2, 6)]
    assert await column(conn, "select category from support_tickets order by id") == [None, "bug"]
