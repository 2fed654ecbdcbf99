"""Backfills: every row that was there, once, while the stream goes on."""

import asyncio
import random
from collections import Counter

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    role,
    rows,
    run_all,
    session,
    value,
)
from walagent.base import faults
from walagent.message import Json

ROWS = (
    "insert into support_tickets (id, status) select n, 's' || n % 2 from generate_series(1, {}) n"
)


async def begin(conn: AsyncConnection, spec: str = "") -> int:
    """Attach with a backfill; no run starts."""
    attached = await attach(conn, f"name=desk, backfill=true, {spec}")
    await value(conn, "select agent.pause('desk')")
    return attached


async def done(d: Daemon) -> list[tuple[Json, ...]]:
    """Wait for the backfill; give (key, reason) of each run."""
    await d.until("select state in ('done', 'failed') from agent.backfill")
    await d.caught_up()
    return await rows(
        d.conn,
        "select key, reason from agent.run_overview where attachment = 'desk' order by id",
    )


async def test_rows_that_were_there_are_worked_once_each(conn: AsyncConnection, dsn: str) -> None:
    """And those that came later by the stream; the progress is shown."""
    await run_all(conn, DESK + ROWS.format(1200))
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await begin(conn)
        await run_all(conn, "insert into support_tickets (id) values (5000), (5001)")
        found = await done(d)
    reasons = dict(found)
    assert len(found) == len(reasons) == 1202
    assert reasons.pop("5000") == reasons.pop("5001") == "change"
    assert set(reasons.values()) == {"backfill"}
    assert await rows(
        conn,
        "select state, rows_done >= 1200, rows_total = rows_done, runs, error,"
        " finished_at > started_at from agent.backfill",
    ) == [("done", True, True, 1200, None, True)]
    assert await value(conn, "select count(*) from agent_internal.backfill_seen") == 0


async def test_runs_of_a_backfill_have_a_lower_priority(conn: AsyncConnection, dsn: str) -> None:
    """A hundred less than those of changes of the same attachment."""
    await run_all(conn, DESK + ROWS.format(3))
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await begin(conn, "priority=5")
        await run_all(conn, "insert into support_tickets (id) values (5000)")
        await done(d)
    assert await rows(
        conn,
        "select reason, array_agg(distinct priority) from agent.run"
        " where change ->> 'table' = 'support_tickets' group by 1 order by 1",
    ) == [("backfill", [-95]), ("change", [5])]


async def test_a_backfilled_row_looks_like_an_inserted_one(conn: AsyncConnection, dsn: str) -> None:
    """Same document, key and ordering key; it has no place in the WAL."""
    await run_all(
        conn,
        DESK + "insert into support_tickets (id, issue, amount) values (1, 'Ä\"', 12.50)",
    )
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await begin(conn)
        await done(d)
        await run_all(
            conn, "insert into support_tickets (id, issue, amount) values (2, 'Ä\"', 12.50)"
        )
        await d.caught_up()
    first, second = await rows(
        conn,
        "select change #- '{new,id}', ordering_key, key, attachment_version, max_attempts"
        " from agent.run"
        " where change ->> 'table' = 'support_tickets' order by id",
    )
    assert first[0] == second[0]
    assert (first[1:], second[1:]) == (("1", "1", 1, 5), ("2", "2", 1, 5))
    assert await rows(conn, "select commit_lsn, generation from agent.run where id = 1") == [
        (None, 0)
    ]


async def test_the_condition_is_asked_for_old_rows_too(conn: AsyncConnection, dsn: str) -> None:
    """A row on which it raises is a dead run, as by the stream; the backfill goes on."""
    await run_all(conn, DESK + ROWS.format(20))
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await begin(conn, 'when="10 / (new.id - 4) > 0"')
        found = await done(d)
    assert [int(key) for key, _ in found] == list(range(4, 15))
    assert await column(conn, "select key from agent.run where state = 'dead'") == ["4"]


async def test_an_empty_table_is_done_at_once(conn: AsyncConnection, dsn: str) -> None:
    """With nothing."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await begin(conn)
        assert await done(d) == []
    assert await rows(conn, "select state, rows_done, runs from agent.backfill") == [("done", 0, 0)]


KEYS = """
create table by_two (a int, b text, c numeric(20, 5), primary key (b, a));
insert into by_two select n % 7, 'x,\\' || n / 7, n from generate_series(1, 600) n;
create table by_uuid (id uuid primary key, t text);
insert into by_uuid select gen_random_uuid(), 'x' from generate_series(1, 600);
create table by_numeric (id numeric primary key);
insert into by_numeric select 12345678901234567890.12345 + n from generate_series(1, 600) n;
create table by_time (id timestamptz primary key);
insert into by_time select '2026-01-01 00:00:00.123456+02'::timestamptz + n * interval '1 us'
  from generate_series(1, 600) n;
create table "By ""Name" ("Id %" text primary key);
insert into "By ""Name" select 'ä' || n from generate_series(1, 600) n;
"""


@pytest.mark.few(2)
@pytest.mark.parametrize("table", ["by_two", "by_uuid", "by_numeric", "by_time", '"By ""Name"'])
async def test_a_key_of_any_kind_is_gone_through_in_its_order(
    conn: AsyncConnection, dsn: str, table: str
) -> None:
    """Over the edge of a chunk, no row twice and none left out."""
    await run_all(conn, DESK + KEYS)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await conn.execute(
            "select agent.attach(%s::regclass, 'fake', name => 'desk', backfill => true)", [table]
        )
        await value(conn, "select agent.pause('desk')")
        found = await done(d)
    assert len(found) == len(set(found)) == 600


@pytest.mark.few(1)
@pytest.mark.parametrize("restart", [False, True], ids=["undisturbed", "restarted"])
async def test_the_count_is_exact_while_others_write(
    conn: AsyncConnection,
    dsn: str,
    restart: bool,  # noqa: FBT001
) -> None:
    """Four writers insert, update and delete; the reader may crash in the middle.

    Every row that existed at the attach and still did when the backfill came to it has one run;
    every row inserted since has one by the stream; none has two.
    """
    await run_all(conn, DESK + ROWS.format(2500))
    chance = random.Random(7)
    stop, added = asyncio.Event(), list[int]()
    deleted = set[int]()

    async def write(own: AsyncConnection, start: int) -> None:
        number = start
        while not stop.is_set():
            number += 1
            added.append(number)
            await own.execute("insert into support_tickets (id) values (%s)", [number])
            touched, gone = chance.randint(1, 2500), chance.randint(1, 2500)
            deleted.add(gone)
            await own.execute("update support_tickets set amount = 1 where id = %s", [touched])
            await own.execute("delete from support_tickets where id = %s", [gone])
            await asyncio.sleep(0.002)

    async with (
        daemon(conn, dsn, parts=("reader",)) as d,
        session(dsn) as one,
        session(dsn) as two,
        asyncio.TaskGroup() as writers,
    ):
        await d.caught_up()
        for own, start in ((one, 100_000), (two, 200_000)):
            writers.create_task(write(own, start))
        try:
            await begin(conn)
            if restart:
                with faults.armed("intake.committed", skip=6):
                    await d.dies("reader")
                await d.start_reader()
            await d.until("select state = 'done' from agent.backfill")
        finally:
            stop.set()
        found = await done(d)
    counts = Counter(int(key) for key, _ in found)
    assert max(counts.values()) == 1
    kept = set(range(1, 2501)) - deleted
    assert kept <= counts.keys()
    backfilled = {int(key) for key, reason in found if reason == "backfill"}
    streamed = {int(key) for key, reason in found if reason == "change"}
    assert backfilled | streamed >= set(added) | kept
    assert streamed <= set(added)
    assert len(backfilled) == await value(conn, "select runs from agent.backfill")


async def test_a_backfill_sees_what_its_agent_may_see(conn: AsyncConnection, dsn: str) -> None:
    """Row security holds for it: other rows are not shown."""
    await run_all(
        conn,
        DESK + ROWS.format(10) + ";alter table support_tickets enable row level security;"
        "create policy half on support_tickets using (status = 's1')",
    )
    async with role(conn) as name:
        await run_all(conn, f"grant select on support_tickets to {name}")
        async with daemon(conn, dsn, parts=("reader",)) as d:
            await begin(conn, f"run_as={name}")
            found = await done(d)
            await value(conn, "select agent.detach('desk')")
    assert [int(key) for key, _ in found] == [1, 3, 5, 7, 9]


async def test_a_backfill_that_fails_fails_alone(conn: AsyncConnection, dsn: str) -> None:
    """With its reason; the stream, and other backfills, go on."""
    await run_all(conn, DESK + ROWS.format(10) + ";create table notes (id int primary key);"
                  "insert into notes values (1)")  # fmt: skip
    async with role(conn) as name:
        await run_all(conn, f"grant select on support_tickets to {name}")
        async with daemon(conn, dsn, parts=("reader",)) as d:
            await d.caught_up()
            async with conn.transaction():
                await begin(conn, f"run_as={name}")
                await run_all(conn, f"revoke select on support_tickets from {name}")
                await attach(conn, "name=notes, backfill=true", "notes")
                await value(conn, "select agent.pause('notes')")
            await d.until(
                "select count(*) = 2 from agent.backfill where state in ('done', 'failed')"
            )
            await run_all(conn, "insert into support_tickets (id) values (50)")
            await d.caught_up()
            shown = "select attachment, key, reason from agent.run_overview where attachment"
            assert await rows(conn, f"{shown} <> 'sentinel' order by id") == [
                ("notes", "1", "backfill"),
                ("desk", "50", "change"),
            ]
            await value(conn, "select agent.detach('desk')")
    states = await column(conn, "select state from agent.backfill")
    assert states == ["done"]


async def test_why_a_backfill_failed_can_be_read(conn: AsyncConnection, dsn: str) -> None:
    """By whoever attached it, too."""
    await run_all(conn, DESK + ROWS.format(10))
    async with role(conn) as name, role(conn) as dev:
        await value(conn, "select agent.grant_developer(%s)", dev)
        await run_all(conn, f"grant select on support_tickets to {name}")
        async with daemon(conn, dsn, parts=("reader",)) as d:
            await d.caught_up()
            async with conn.transaction():
                await begin(conn, f"run_as={name}")
                await run_all(conn, f"revoke select on support_tickets from {name}")
            await d.until("select state = 'failed' from agent.backfill")
            async with as_role(conn, dev):
                error = await value(conn, "select error from agent.backfill")
            assert "permission denied" in error
            await value(conn, "select agent.detach('desk')")


@pytest.mark.slow
async def test_detaching_ends_a_backfill(conn: AsyncConnection, dsn: str) -> None:
    """Its runs stay; what it had to remember goes."""
    await run_all(conn, DESK + ROWS.format(3000))
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await begin(conn)
        await d.until("select rows_done > 0 from agent.backfill")
        await value(conn, "select agent.detach('desk')")
        await d.caught_up()
        assert await value(conn, "select count(*) from agent.backfill") == 0
        await attach(conn, "name=again, backfill=true")
        await value(conn, "select agent.pause('again')")
        await d.until("select state = 'done' from agent.backfill")
    again = "select count(*) from agent.run_overview where attachment = 'again'"
    assert await value(conn, again) == 3000
    assert await value(conn, "select count(*) from agent_internal.backfill_seen") == 0
