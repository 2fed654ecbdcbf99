"""Taking changes in: once, durably, from where an attach stands in the WAL."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.build import WHEN
from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, column, rows, run_all, session, value
from tests.helpers.queue import LEASE, claim, finish, one_run
from tests.helpers.stream import (
    ScriptedStream,
    idle,
    inserted,
    intake,
    open_checkpoint,
    progress,
    take,
    transaction,
)
from walagent.base import faults
from walagent.base.faults import Crash
from walagent.domain.attachment import Attachment
from walagent.domain.change import Begin, Change, Commit, Op, Piece
from walagent.domain.run import Claim, RunState
from walagent.errors import FencedError
from walagent.postgres.lsn import Lsn
from walagent.store.ingestion import Start


async def desk(conn: AsyncConnection, spec: str = "") -> Attachment:
    """An attachment, and a checkpoint to write in."""
    await run_all(conn, DESK)
    await attach(conn, spec)
    await open_checkpoint(conn)
    return Attachment.from_json(await value(conn, "select definition from agent.attachment"))


def ids(*numbers: int) -> list[str]:
    """Keys as a run keeps them."""
    return [str(number) for number in numbers]


KEYS = "select key from agent.run order by id"


# What is confirmed.


async def test_a_position_is_confirmed_only_after_everything_before_it_is_committed(
    conn: AsyncConnection, dsn: str
) -> None:
    """Promise 1: at the very moment of each confirmation another session sees runs and
    checkpoint.
    """
    on = await desk(conn)
    seen: list[tuple[int, int, int]] = []

    def look(lsn: Lsn) -> None:
        with psycopg.connect(dsn, autocommit=True) as other:
            row = other.execute(
                "select (select count(*) from agent.run where commit_lsn < %s::pg_lsn),"
                " (select (end_lsn - '0/0')::bigint from agent.checkpoint)",
                [str(lsn)],
            ).fetchone()
        assert row is not None
        seen.append((int(lsn), *row))

    stream = ScriptedStream(look)
    made = await intake(conn)
    await take(
        made,
        stream,
        transaction(100, inserted(on, {"id": 1})),
        [*transaction(200, inserted(on, {"id": 2})), *transaction(210, inserted(on, {"id": 3}))],
        transaction(300),
        [*transaction(400, inserted(on, {"id": 4})), Begin(500, Lsn(500), WHEN)],
    )
    assert seen == [(110, 1, 110), (220, 3, 220), (410, 4, 410)]


async def test_changes_that_start_nothing_write_nothing(conn: AsyncConnection) -> None:
    """Their position is confirmed with the next runs, or with that of an idle stream."""
    await run_all(conn, DESK)
    await conn.execute("select agent.attach('support_tickets', 'fake', condition => 'new.id = 2')")
    await open_checkpoint(conn)
    on = Attachment.from_json(await value(conn, "select definition from agent.attachment"))
    stream = ScriptedStream()
    made = await intake(conn)
    await take(made, stream, transaction(100, inserted(on, {"id": 1})))
    assert (await progress(conn), stream.confirmed, made.settled) == (1, [], 110)
    await take(made, stream, transaction(200, inserted(on, {"id": 2})))
    assert (stream.confirmed, await column(conn, KEYS)) == ([210], ["2"])


async def test_half_a_transaction_is_not_confirmed(conn: AsyncConnection) -> None:
    """Nor is anything of it visible; with its commit it is."""
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    *first, commit = transaction(100, inserted(on, {"id": 1}))
    await take(made, stream, first)
    assert (stream.confirmed, await column(conn, KEYS)) == ([], [])
    await take(made, stream, [commit])
    assert (stream.confirmed, await column(conn, KEYS)) == ([110], ["1"])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("point", "committed"),
    [
        ("intake.runs_inserted", False),
        ("intake.checkpoint_advanced", False),
        ("intake.committed", True),
        ("intake.confirmed", True),
    ],
)
async def test_a_crash_costs_a_repetition_and_nothing_else(
    conn: AsyncConnection,
    dsn: str,
    point: str,
    committed: bool,  # noqa: FBT001
) -> None:
    """Wherever it happens: after a restart each change has one run."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, "name=desk, debounce=1h, ordering_key=[id]")
        await d.caught_up()
        before = await value(conn, "select pg_current_wal_lsn()::text")
        with faults.armed(point):
            await run_all(conn, "insert into support_tickets (id) values (1), (2)")
            await d.dies("reader")
        count = "select count(*) from agent.run_overview where attachment = 'desk'"
        assert await value(conn, count) == (2 if committed else 0)
        if point != "intake.confirmed":  # then closing the stream may still tell the server
            confirmed = "select confirmed_flush_lsn <= %s::pg_lsn from pg_replication_slots"
            assert await value(conn, f"{confirmed} where slot_name = %s", before, d.slot)
        await d.start_reader()
        await d.caught_up()
        assert await value(conn, count) == 2
        assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_change_asks_once_however_often_it_arrives(conn: AsyncConnection) -> None:
    """Promise 2: (attachment, commit LSN, ordinal) is unique, whatever the checkpoint says."""
    on = await desk(conn)
    stream = ScriptedStream()
    batch = [
        *transaction(100, inserted(on, {"id": 1}), inserted(on, {"id": 1})),
        *transaction(100, inserted(on, {"id": 1})),
    ]
    for _ in range(2):
        made = await intake(conn)
        await take(made, stream, batch)
    assert await rows(conn, "select commit_lsn::text, ordinal from agent.run order by id") == [
        ("0/64", 0),
        ("0/64", 1),
    ]
    await open_checkpoint(conn, start=1)
    made = await intake(conn)
    await take(made, stream, transaction(100, inserted(on, {"id": 1})))
    assert await column(conn, "select generation from agent.run order by id") == [1, 1, 2]


async def test_quiet_positions_are_confirmed_when_the_server_asks(conn: AsyncConnection) -> None:
    """A server that wants to shut down waits for it; otherwise nothing is written for nothing."""
    await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    await take(made, stream, transaction(100), [idle(500)])
    assert stream.confirmed == []
    assert await progress(conn) == 1
    await take(made, stream, [idle(900, asked=True)])
    assert stream.confirmed == [900]
    assert await progress(conn) == 900


async def test_a_quiet_position_is_written_down_after_a_while(conn: AsyncConnection) -> None:
    """WAL of tables that nobody watches does not pile up: sixteen megabytes are enough."""
    await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    await take(made, stream, [idle(17 << 20)])
    assert stream.confirmed == [17 << 20]


async def test_an_idle_mark_inside_a_transaction_is_not_a_position(conn: AsyncConnection) -> None:
    """The server's place is beyond the commit that is still to come."""
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    begin, piece, commit = transaction(100, inserted(on, {"id": 1}))
    await take(made, stream, [begin, idle(9000, asked=True), piece], [commit])
    assert stream.confirmed == [110]


async def test_a_reader_that_was_overtaken_writes_nothing(conn: AsyncConnection, dsn: str) -> None:
    """It was frozen, and another one took the checkpoint over."""
    on = await desk(conn)
    stream = ScriptedStream()
    old = await intake(conn)
    async with session(dsn) as other:
        newer = ScriptedStream()
        new = await intake(other)
        for batch in (
            transaction(100, inserted(on, {"id": 1})),
            [idle(1000, asked=True)],
        ):
            with pytest.raises(FencedError):
                await take(old, stream, batch)
        assert (await column(conn, KEYS), await progress(conn), stream.confirmed) == ([], 1, [])
        await take(new, newer, transaction(100, inserted(on, {"id": 1})))
    assert await column(conn, KEYS) == ["1"]


async def test_the_checkpoint_does_not_go_backwards(conn: AsyncConnection) -> None:
    """A position before the one that is written down is refused."""
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    await take(made, stream, transaction(500, inserted(on, {"id": 1})))
    await run_all(conn, "update agent.checkpoint set end_lsn = '0/FFFF'")
    with pytest.raises(FencedError):
        await take(made, stream, transaction(600, inserted(on, {"id": 2})))
    assert await column(conn, KEYS) == ["1"]


# Runs that start as they are inserted.


class Hands:
    """A worker with free slots; implements `intake.Starter`."""

    def __init__(self, room: int = 100, rooms: Mapping[int, int] | None = None) -> None:
        self.room = room
        self.rooms = rooms or {}
        self.held: list[Claim] = []

    def offer(self) -> Start | None:
        """Say what it could take now."""
        return Start("w1", LEASE, self.room, self.rooms) if self.room else None

    def start(self, claims: Sequence[Claim]) -> None:
        """Take runs."""
        self.held.extend(claims)


async def test_a_run_can_start_as_it_is_inserted(conn: AsyncConnection) -> None:
    """What the worker is given is what a claim would have given it."""
    on = await desk(conn)
    await claim(conn)  # nothing waits
    stream, hands = ScriptedStream(), Hands()
    made = await intake(conn, starter=hands)
    await take(made, stream, transaction(100, inserted(on, {"id": 1, "amount": Decimal("0.1")})))
    (held,) = hands.held
    assert (held.run_id, held.lease, held.attempt, held.steps) == (1, 1, 1, ())
    assert held.change == {
        "op": "insert",
        "schema": "public",
        "table": "support_tickets",
        "new": {"id": 1, "amount": 0.1},
    }
    assert await one_run(conn, "state::text, worker, lease, attempt", 1) == ("running", "w1", 1, 1)
    assert await claim(conn) == []
    await finish(conn, held)


async def test_only_the_first_of_an_ordering_key_starts_and_only_while_there_is_room(
    conn: AsyncConnection,
) -> None:
    """The others wait in the queue, and are claimed in order."""
    on = await desk(conn, "ordering_key=[status]")
    await claim(conn)
    stream, hands = ScriptedStream(), Hands(room=2)
    made = await intake(conn, starter=hands)
    ordering_keys = ("a", "a", "b", "c", "a")
    rows_in = [
        inserted(on, {"id": n, "status": ordering_key})
        for n, ordering_key in enumerate(ordering_keys, 1)
    ]
    await take(made, stream, transaction(100, *rows_in))
    assert [held.key for held in hands.held] == ["1", "3"]
    assert [held.key for held in await claim(conn)] == ["4"]
    await take(made, stream, transaction(200, inserted(on, {"id": 6, "status": "b"})))
    assert len(hands.held) == 2
    await finish(conn, hands.held[0])
    assert [held.key for held in await claim(conn)] == ["2"]


async def test_no_more_runs_start_than_their_model_has_room_for(conn: AsyncConnection) -> None:
    """One that would only wait for its provider waits in the queue instead."""
    on = await desk(conn)
    await claim(conn)
    stream, hands = ScriptedStream(), Hands(rooms={on.id: 1})
    made = await intake(conn, starter=hands)
    await take(made, stream, transaction(100, *(inserted(on, {"id": n}) for n in (1, 2, 3))))
    assert [held.key for held in hands.held] == ["1"]
    hands.rooms = {on.id: 0}
    await take(made, stream, transaction(200, inserted(on, {"id": 4})))
    assert len(hands.held) == 1
    assert [held.key for held in await claim(conn)] == ["2", "3", "4"]


@pytest.mark.parametrize(
    "waits",
    [
        "select agent.pause('support_tickets')",
        "update agent.attachment set cap = 5",
    ],
)
async def test_a_run_that_would_pass_others_by_waits(conn: AsyncConnection, waits: str) -> None:
    """Paused or capped: it takes its turn."""
    on = await desk(conn)
    await claim(conn)
    await run_all(conn, waits)
    stream, hands = ScriptedStream(), Hands()
    made = await intake(conn, starter=hands)
    await take(made, stream, transaction(100, inserted(on, {"id": 1})))
    assert hands.held == []
    assert await column(conn, "select state::text from agent.run") == ["pending"]


async def test_a_run_does_not_start_beside_one_that_is_just_being_retried(
    conn: AsyncConnection, dsn: str
) -> None:
    """The retry is not committed yet; when it is, both are in one ordering_key, in their order."""
    on = await desk(conn)
    await claim(conn)
    stream, hands = ScriptedStream(), Hands()
    made = await intake(conn, starter=hands)
    await take(made, stream, transaction(100, inserted(on, {"id": 1})))
    await finish(conn, hands.held.pop(), RunState.FAILED, error={"reason": "x"})
    async with session(dsn) as person:
        await run_all(person, "begin; select agent.retry(1)")
        await take(made, stream, transaction(200, inserted(on, {"id": 1})))
        await run_all(person, "commit")
    assert hands.held == []
    assert [held.run_id for held in await claim(conn)] == [1]


# Large transactions.


@pytest.mark.slow
async def test_a_large_transaction_is_all_or_nothing(conn: AsyncConnection, dsn: str) -> None:
    """Twelve thousand rows go in piece by piece; a crash in the middle leaves none of them."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, "name=desk, when=new.id % 2 = 0")
        await value(conn, "select agent.pause('desk')")
        await d.caught_up()
        count = "select count(*) from agent.run_overview where attachment = 'desk'"
        with faults.armed("intake.runs_inserted", skip=1):
            await run_all(
                conn, "insert into support_tickets (id) select n from generate_series(1, 12000) n"
            )
            await d.dies("reader")
        assert await value(conn, count) == 0
        await d.start_reader()
        await d.caught_up()
        assert await value(conn, count) == 6000
        found = await rows(
            conn,
            "select count(distinct ordinal), min(ordinal), max(ordinal), count(distinct commit_lsn)"
            " from agent.run_overview where attachment = 'desk'",
        )
        assert found == [(6000, 1, 11999, 1)]


@pytest.mark.slow
async def test_nobody_sees_half_of_a_large_transaction(conn: AsyncConnection, dsn: str) -> None:
    """Its pieces wait in one transaction of the checkpoint's for their commit."""
    on = await desk(conn)
    stream = ScriptedStream()
    begin, _, commit = transaction(100, inserted(on, {"id": 0}))
    relation = inserted(on, {}).relation
    pieces = [
        Piece([Change(Lsn(100), n * 3000 + m, Op.INSERT, relation, {"id": n * 3000 + m}, None)
               for m in range(3000)])
        for n in range(4)
    ]  # fmt: skip
    async with session(dsn) as own:
        made = await intake(own)
        await take(made, stream, transaction(50, inserted(on, {"id": -1})), [begin])
        for piece in pieces:
            await take(made, stream, [piece])
            assert await value(conn, "select count(*) from agent.run") == 1
        assert stream.confirmed == [60]
        await take(made, stream, [commit])
    assert stream.confirmed == [60, 110]
    assert await value(conn, "select count(*) from agent.run") == 12001


# Attaching stands in the WAL.

ATTACH = "select agent.attach('support_tickets', 'model=fake, name=desk')"


async def one_by_one(conn: AsyncConnection, statements: str) -> None:
    """Run statements each for itself: together they would be one transaction."""
    for statement in statements.split(";"):
        await run_all(conn, statement)


async def acted_on(d: Daemon, statements: str) -> list[str]:
    """Run statements one by one; give the keys on which the agent called desk acts."""
    await one_by_one(d.conn, statements)
    await d.caught_up()
    return await keys(d.conn)


async def keys(conn: AsyncConnection, name: str = "desk") -> list[str]:
    """The rows on which an agent acts, also where it is gone."""
    return await column(
        conn,
        "select key from agent.run where change ->> 'table' = 'support_tickets'"
        " and attachment_id in (select attachment_id from agent.attachment_version"
        "                        where definition ->> 'name' = %s) order by id",
        name,
    )


@pytest.mark.parametrize("known", [False, True], ids=["new table", "published table"])
async def test_attaching_is_one_moment_in_the_wal(
    conn: AsyncConnection,
    dsn: str,
    known: bool,  # noqa: FBT001
) -> None:
    """What was committed before it does not fire, what is committed later does.

    In its own transaction, what comes before it does not, and what comes after it does.
    """
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        if known:
            await attach(conn, "name=other")
            await value(conn, "select agent.pause('other')")
        found = await acted_on(
            d,
            "insert into support_tickets (id) values (1); begin;"
            "insert into support_tickets (id) values (2);"
            f"{ATTACH}; insert into support_tickets (id) values (3); commit;"
            "insert into support_tickets (id) values (4)",
        )
        assert found == ids(3, 4)
        if known:
            assert await keys(conn, "other") == ids(1, 2, 3, 4)


async def test_detaching_is_one_moment_in_the_wal(conn: AsyncConnection, dsn: str) -> None:
    """The other way round."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        found = await acted_on(
            d,
            f"{ATTACH}; insert into support_tickets (id) values (1); begin;"
            "insert into support_tickets (id) values (2); select agent.detach('desk');"
            "insert into support_tickets (id) values (3); commit;"
            "insert into support_tickets (id) values (4)",
        )
        assert found == ids(1, 2)


async def test_a_new_version_is_one_moment_in_the_wal(conn: AsyncConnection, dsn: str) -> None:
    """Each change is evaluated and worked by the version that stood when it was made."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        found = await acted_on(
            d,
            f"{ATTACH}; insert into support_tickets (id) values (1); begin;"
            "insert into support_tickets (id) values (2);"
            "update agent.attachment set condition = 'new.id % 2 = 0' where name = 'desk';"
            "insert into support_tickets (id) values (3), (4);"
            "update agent.agent set system_prompt = 'x' where name = 'desk'; commit;"
            "insert into support_tickets (id) values (5), (6)",
        )
        assert found == ids(1, 2, 4, 6)
        versions = "select attachment_version from agent.run where change ->> 'table' <> 'sentinel'"
        assert await column(conn, f"{versions} order by id") == [1, 1, 2, 3]


async def test_what_is_rolled_back_was_never_there(conn: AsyncConnection, dsn: str) -> None:
    """Neither an attach nor a detach nor a row; also to a savepoint."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        found = await acted_on(
            d,
            f"begin; {ATTACH}; insert into support_tickets (id) values (1); rollback;"
            "insert into support_tickets (id) values (2);"
            f"{ATTACH}; begin; select agent.detach('desk'); rollback;"
            "begin; insert into support_tickets (id) values (3); savepoint a;"
            "select agent.detach('desk'); insert into support_tickets (id) values (4);"
            "rollback to a; insert into support_tickets (id) values (5); commit",
        )
        assert found == ids(3, 5)


@pytest.mark.parametrize("point", ["intake.runs_inserted", "intake.committed"])
async def test_the_same_wal_read_again_finds_the_same_attachments(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """A crash before the confirmation: what is in the database by now changes nothing."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await d.caught_up()
        with faults.armed(point):
            await one_by_one(
                conn,
                "insert into support_tickets (id) values (1);"
                f"begin; insert into support_tickets (id) values (2); {ATTACH};"
                "insert into support_tickets (id) values (3); commit;"
                "insert into support_tickets (id) values (4)",
            )
            await d.dies("reader")
        await one_by_one(
            conn,
            "insert into support_tickets (id) values (5); select agent.detach('desk');"
            "insert into support_tickets (id) values (6)",
        )
        await d.start_reader()
        await d.caught_up()
        assert await keys(conn) == ids(3, 4, 5)
        effects = "select active_from is not null, active_until is not null from"
        assert await rows(
            conn,
            f"{effects} agent.attachment_version where definition ->> 'name' = 'desk'",
        ) == [(True, True)]


async def test_what_was_attached_before_the_first_reader_is_in_effect(
    conn: AsyncConnection, dsn: str
) -> None:
    """From where its slot begins."""
    await run_all(conn, DESK)
    await one_by_one(conn, f"{ATTACH}; insert into support_tickets (id) values (1)")
    async with daemon(conn, dsn, parts=("reader",)) as d:
        assert await acted_on(d, "insert into support_tickets (id) values (2)") == ids(2)


async def test_changes_made_while_nobody_read_are_ingested_later(
    conn: AsyncConnection, dsn: str
) -> None:
    """Attaching, too, works while the reader is away."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await d.caught_up()
        await d.stop("reader")
        await one_by_one(
            conn,
            f"insert into support_tickets (id) values (1); {ATTACH};"
            "insert into support_tickets (id) values (2)",
        )
        await d.start_reader()
        await d.caught_up()
        assert await keys(conn) == ids(2)


# What is a change.


async def test_every_operation_is_reported_with_what_the_wal_knows(
    conn: AsyncConnection, dsn: str
) -> None:
    """Insert, update with and without the key, delete, truncate."""
    await run_all(conn, "create table notes (id int primary key, body text);" + DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, "name=desk, on=[insert, update, delete, truncate]", "notes")
        await value(conn, "select agent.pause('desk')")
        for statement in (
            "insert into notes values (1, 'a')",
            "update notes set body = 'b'",
            "update notes set id = 2",
            "delete from notes",
            "insert into notes values (3, null)",
            "truncate notes",
        ):
            await run_all(conn, statement)
        await d.caught_up()
    found = await rows(
        conn,
        "select change ->> 'op', change -> 'new', change -> 'old', key, ordering_key from agent.run"
        " where change ->> 'table' = 'notes' order by id",
    )
    assert found == [
        ("insert", {"id": 1, "body": "a"}, None, "1", "1"),
        ("update", {"id": 1, "body": "b"}, None, "1", "1"),
        ("update", {"id": 2, "body": "b"}, {"id": 1}, "2", "1"),
        ("delete", None, {"id": 2}, "2", "2"),
        ("insert", {"id": 3, "body": None}, None, "3", "3"),
        ("truncate", None, None, None, r"\N"),
    ]


async def test_a_table_of_the_same_name_is_another_table(conn: AsyncConnection, dsn: str) -> None:
    """Dropped and made again, it has no agent."""
    await run_all(conn, "create table notes (id int primary key);" + DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, "name=old", "notes")
        await value(conn, "select agent.pause('old')")
        await one_by_one(
            conn,
            "insert into notes values (1); drop table notes;"
            "create table notes (id int primary key)",
        )
        await attach(conn, "name=new", "notes")
        await value(conn, "select agent.pause('new')")
        await run_all(conn, "insert into notes values (2)")
        await d.caught_up()
        found = await rows(
            conn,
            "select attachment, key from agent.run_overview where attachment <> 'sentinel'"
            " order by id",
        )
        assert found == [("old", "1"), ("new", "2")]


async def test_changes_of_partitions_are_their_parents(conn: AsyncConnection, dsn: str) -> None:
    """Whatever partition a row is in, or moves to."""
    await run_all(
        conn,
        DESK + "create table parts (id int primary key, t text) partition by range (id);"
        "create table parts_1 partition of parts for values from (0) to (10);"
        "create table parts_2 partition of parts for values from (10) to (20)",
    )
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, "name=desk, on=[insert, update, delete]", "parts")
        await value(conn, "select agent.pause('desk')")
        await run_all(
            conn,
            "insert into parts values (1, 'a'), (11, 'b'); insert into parts_1 values (2, 'c');"
            "update parts set t = 'x' where id = 1; update parts set id = 12 where id = 2",
        )
        await d.caught_up()
    found = await rows(
        conn,
        "select op, relation, key from agent.run_overview where attachment = 'desk' order by id",
    )
    assert {relation for _, relation, _ in found} == {"public.parts"}
    assert [(op, key) for op, _, key in found] == [
        ("insert", "1"),
        ("insert", "11"),
        ("insert", "2"),
        ("update", "1"),
        ("delete", "2"),
        ("insert", "12"),
    ]


async def test_a_table_that_moves_between_publications_loses_nothing(
    conn: AsyncConnection, dsn: str
) -> None:
    """Back and forth while rows come in: each row once, whichever publication carried it."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        found = await acted_on(
            d,
            f"{ATTACH}; insert into support_tickets (id) values (1);"
            "select agent.attach('support_tickets', 'model=fake, name=second, on=update');"
            "insert into support_tickets (id) values (2);"
            "begin; insert into support_tickets (id) values (3); select agent.detach('second');"
            "insert into support_tickets (id) values (4); commit;"
            "insert into support_tickets (id) values (5)",
        )
        assert found == ids(1, 2, 3, 4, 5)


@pytest.mark.wal2json
async def test_the_other_plug_in_starts_the_same_runs(conn: AsyncConnection, dsn: str) -> None:
    """wal2json, with an attachment that is made while the stream is open."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",), plugin="wal2json") as d:
        found = await acted_on(
            d,
            f"insert into support_tickets (id) values (1); {ATTACH};"
            "insert into support_tickets (id) values (2)",
        )
        assert found == ids(2)


@pytest.mark.wal2json
async def test_many_attached_tables_cost_one_connection(conn: AsyncConnection, dsn: str) -> None:
    """wal2json takes its tables at the start of a stream: it is opened once for all of them."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, parts=("reader",), plugin="wal2json") as d:
        await d.caught_up()
        opened = await value(conn, "select epoch from agent.checkpoint")
        scripts = (
            f"create table t{n} (id int primary key); insert into t{n} values (1);"
            f"begin; select agent.attach('t{n}', 'model=fake, name=t{n}');"
            f"insert into t{n} values (2); commit;"
            f"insert into t{n} values (3)"
            for n in range(30)
        )
        await run_all(conn, ";".join(scripts))
        await d.caught_up()
        # One or two; more on a machine that pauses between the tables.
        assert await value(conn, "select epoch from agent.checkpoint") - opened <= 10
        found = "select attachment, key from agent.run_overview where attachment <> 'sentinel'"
        expected = [(f"t{n}", key) for n in range(30) for key in "23"]
        assert sorted(await rows(conn, found)) == sorted(expected)


async def test_a_crash_is_not_tidied_up_after(conn: AsyncConnection) -> None:
    """The points really fire: a test that arms one and sees nothing would prove nothing."""
    on = await desk(conn)
    stream = ScriptedStream()
    made = await intake(conn)
    with faults.armed("intake.committed"), pytest.raises(Crash):
        await take(made, stream, transaction(100, inserted(on, {"id": 1})))
    assert stream.confirmed == []
    assert isinstance(transaction(1)[-1], Commit)
