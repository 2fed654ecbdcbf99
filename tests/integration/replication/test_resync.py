"""After a gap: which rows get a run, as the snapshot of the new slot shows them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta

import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

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
from tests.integration.wal.reading import FREE
from walagent.config import Replication
from walagent.config.dsn import Places
from walagent.errors import ConfigError, PreconditionError, SlotBusyError
from walagent.intake.gap_plan import GapPlan
from walagent.intake.recovery import RowRecovery
from walagent.matching.document import SizeLimits
from walagent.replication.bootstrap import ensure_slot
from walagent.replication.resync import resync
from walagent.store.errors import translating
from walagent.store.gaps import GapChoice
from walagent.store.people import listings

BACKFILLED = """
select key from agent.run where reason = 'backfill' order by generation, length(key), key
"""
DATED = DESK + "alter table support_tickets add changed_at {} default {};"
OURS = (
    "select count(*) from pg_replication_slots"
    " where database = current_database() and slot_name = %s"
)


def since(column: str = "changed_at") -> GapChoice:
    """Run on rows that have changed since."""
    return GapChoice("since", column)


async def lose(conn: AsyncConnection) -> None:
    """Drop the slot, as soon as nobody reads it."""
    async with asyncio.timeout(30):
        while not await value(conn, FREE, conn.info.dbname):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await value(conn, "select pg_drop_replication_slot(%s)", conn.info.dbname)


async def make_good(
    conn: AsyncConnection, dsn: str, plan: GapPlan, **more: Callable[..., None]
) -> None:
    """Resync."""
    with translating():
        settings = Replication(slot=conn.info.dbname)
        await resync(conn, Places(dsn, dsn), settings, RowRecovery(dsn, plan), **more)


@asynccontextmanager
async def reading_again(conn: AsyncConnection, dsn: str) -> AsyncIterator[Daemon]:
    """A reader, after the gap."""
    async with daemon(conn, dsn, parts=("reader",)) as d:
        yield d


async def begin(conn: AsyncConnection, dsn: str, *statements: str, spec: str = "name=desk") -> None:
    """Attach, let the reader take *statements* in, stop it and lose the slot."""
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, spec)
        await value(conn, "select agent.pause('desk')")
        for statement in statements:
            await run_all(conn, statement)
        await d.caught_up()
    await lose(conn)


@pytest.mark.few(4)
@pytest.mark.parametrize("zone", ["UTC", "Asia/Kathmandu", "America/St_Johns"])
@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("timestamptz", "now()"),
        ("timestamp", "now()"),
        ("timestamptz(0)", "clock_timestamp()"),
        ("moment", "now()"),
        ("date", "now()"),
    ],
)
async def test_rows_are_found_by_a_column_that_holds_a_time(
    conn: AsyncConnection, dsn: str, kind: str, default: str, zone: str
) -> None:
    """In the database's time zone where the type has none; a day is looked at as a whole."""
    await conn.execute(
        sql.SQL("alter database {} set timezone = {}").format(
            sql.Identifier(conn.info.dbname), sql.Literal(zone)
        )
    )
    async with session(dsn) as own:
        await run_all(own, "create domain moment as timestamptz")
        await run_all(own, DATED.format(kind, default))
        old = "insert into support_tickets (id, changed_at) values (1, now() - interval '3 days')"
        await begin(own, dsn, old, "insert into support_tickets (id) values (2), (3)")
        await run_all(
            own,
            "insert into support_tickets (id) values (4), (5);"
            "insert into support_tickets (id, changed_at) values (6, null), (7, 'infinity');"
            "update support_tickets set issue = 'changed', changed_at = clock_timestamp()"
            " where id = 2",
        )
        await make_good(own, dsn, GapPlan({"desk": since()}))
        assert await column(own, BACKFILLED) == ["2", "4", "5", "7"]
        assert await rows(
            own,
            "select choice, column_name, c.since < found_at, runs, undated"
            "  from agent.gap_choice c join agent.gap g on g.id = gap_id where attachment = 'desk'",
        ) == [("since", "changed_at", True, 4, 1)]


@pytest.mark.parametrize("choice", [since(), GapChoice("all")], ids=str)
async def test_a_rerun_row_looks_like_an_inserted_one(
    conn: AsyncConnection, dsn: str, choice: GapChoice
) -> None:
    """Same document, key and ordering_key, whatever the database's own settings are."""
    for setting in (
        "timezone = 'Asia/Kathmandu'",
        "datestyle = 'ISO, DMY'",
        "bytea_output = escape",
    ):
        name = sql.Identifier(conn.info.dbname).as_string()
        await run_all(conn, f"alter database {name} set {setting}")
    async with session(dsn) as own:
        await run_all(own, DATED.format("timestamptz", "now()"))
        await run_all(own, "alter table support_tickets add raw bytea, add day date")
        await begin(own, dsn)
        insert = (
            "insert into support_tickets (id, issue, amount, raw, day, changed_at)"
            " values ({}, 'Ä\"', 12.50, '\\x00ff', '2026-02-01', '{}')"
        )
        at = "2126-01-01 12:00:00.5+05:45"
        await run_all(own, insert.format(1, at))
        await make_good(own, dsn, GapPlan({"desk": choice}))
        async with reading_again(own, dsn) as d:
            await d.until("select bool_and(state = 'done') from agent.backfill")
            await run_all(own, insert.format(2, at))
            await d.caught_up()
        first, second = await rows(
            own,
            "select change #- '{new,id}', ordering_key, key from agent.run"
            " where change ->> 'table' = 'support_tickets' order by id",
        )
        assert first[0] == second[0]
        assert (first[1:], second[1:]) == (("1", "1"), ("2", "2"))


async def test_conditions_are_asked_of_the_rows_as_the_new_slot_found_them(
    conn: AsyncConnection, dsn: str
) -> None:
    """One that is false starts nothing, one that raises a dead run, as by the stream."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await begin(conn, dsn, spec='name=desk, when="10 / (new.id - 4) > 0"')
    await run_all(conn, "insert into support_tickets (id) select generate_series(1, 20)")
    await make_good(conn, dsn, GapPlan({"desk": since()}))
    assert [int(str(key)) for key in await column(conn, BACKFILLED)] == list(range(4, 15))
    assert await column(conn, "select key from agent.run where state = 'dead'") == ["4"]
    counts = "select state, generation, rows_done, runs from agent.backfill"
    assert await rows(conn, counts) == [("done", 2, 20, 11)]


async def test_a_person_is_informed_before_anything_is_done(
    conn: AsyncConnection, dsn: str
) -> None:
    """A choice that cannot be carried out leaves slot, checkpoint and gap as they are."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await run_all(conn, "create table keyless (at timestamptz)")
    await begin(conn, dsn)
    await attach(conn, "name=keyless", "keyless")
    before = await rows(conn, "select * from agent.checkpoint")
    for name, choice, words in (
        ("nobody", GapChoice("all"), 'attachment "nobody" does not exist'),
        ("desk", since("issue"), 'has no time column "issue"'),
        ("desk", since("nothing"), 'has no time column "nothing"'),
        ("keyless", since("at"), "has no primary key"),
        ("keyless", GapChoice("all"), "has no primary key"),
    ):
        with pytest.raises(ConfigError, match=words):
            await make_good(conn, dsn, GapPlan({name: choice}))
    await run_all(conn, "drop table keyless")
    with pytest.raises(ConfigError, match="table of attachment keyless does not exist"):
        await make_good(conn, dsn, GapPlan({"keyless": GapChoice("all")}))
    assert await rows(conn, "select * from agent.checkpoint") == before
    assert await value(conn, OURS, conn.info.dbname) == 0
    await make_good(conn, dsn, GapPlan({"desk": since()}))


async def test_rows_are_read_as_the_agents_role(conn: AsyncConnection, dsn: str) -> None:
    """What it may not see starts nothing; a table that it may not read is told of at first."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    async with role(conn) as reader:
        await run_all(
            conn,
            f"grant select on support_tickets to {reader};"
            " alter table support_tickets enable row level security;"
            f" create policy odd on support_tickets to {reader} using (id % 2 = 1)",
        )
        await begin(conn, dsn, spec=f"name=desk, run_as={reader}")
        await run_all(conn, "insert into support_tickets (id) select generate_series(1, 5)")
        await run_all(conn, f"revoke select on support_tickets from {reader}")
        with pytest.raises(PreconditionError, match="permission denied"):
            await make_good(conn, dsn, GapPlan({"desk": since()}))
        assert await value(conn, OURS, conn.info.dbname) == 0
        await run_all(conn, f"grant select on support_tickets to {reader}")
        await make_good(conn, dsn, GapPlan({"desk": since()}))
        assert await column(conn, BACKFILLED) == ["1", "3", "5"]
        await run_all(conn, "select agent.detach('desk')")


async def test_an_older_backfill_and_a_resync_share_the_rows(
    conn: AsyncConnection, dsn: str
) -> None:
    """What one has brought, the other leaves alone; one of all rows takes an older one's place."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await run_all(conn, "update pg_class set reltuples = 0 where false")
    await run_all(
        conn,
        "insert into support_tickets (id, changed_at)"
        " select n, now() - interval '1 day' from generate_series(1, 10) n",
    )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    await attach(conn, "name=desk, backfill=true")
    await value(conn, "select agent.pause('desk')")
    await lose(conn)
    await run_all(conn, "insert into support_tickets (id) values (11), (12)")
    await make_good(conn, dsn, GapPlan({"desk": since()}))
    assert await column(conn, BACKFILLED) == ["11", "12"]
    async with reading_again(conn, dsn) as d:
        await run_all(conn, "insert into support_tickets (id) values (13)")
        await d.until("select state = 'done' from agent.backfill where generation = 0")
        await d.caught_up()
    runs = (
        "select key, reason, generation from agent.run where reason = 'backfill'"
        " order by length(key), key"
    )
    found = await rows(conn, runs)
    expected = [(str(n), "backfill", 0) for n in range(1, 11)]
    assert found == [*expected, ("11", "backfill", 2), ("12", "backfill", 2)]
    assert await value(conn, "select count(*) from agent_internal.backfill_seen") == 0


async def test_all_rows_take_the_place_of_an_older_backfill(
    conn: AsyncConnection, dsn: str
) -> None:
    """Each row that is there has one run of it; rows that come after have theirs by the stream."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await run_all(conn, "insert into support_tickets (id) select generate_series(1, 10)")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    await attach(conn, "name=desk, backfill=true")
    await value(conn, "select agent.pause('desk')")
    await lose(conn)
    await make_good(conn, dsn, GapPlan({"desk": GapChoice("all")}))
    await make_good(conn, dsn, GapPlan({"desk": GapChoice("all")}))
    async with reading_again(conn, dsn) as d:
        await run_all(conn, "insert into support_tickets (id) values (11)")
        await d.until("select state = 'done' from agent.backfill where generation = 3")
        await d.caught_up()
    states = "select generation, state from agent.backfill order by 1"
    assert await rows(conn, states) == [(0, "replaced"), (2, "replaced"), (3, "done")]
    assert len(await column(conn, BACKFILLED)) == 10
    listed = [each for each in await listings.list_agents(conn) if each["attachment"] == "desk"]
    assert [each["backfill"] for each in listed] == ["done"]
    listed = await listings.list_backfills(conn)
    assert [(each["after"], each["state"]) for each in listed] == [
        ("attach", "replaced"),
        ("gap", "replaced"),
        ("gap", "done"),
    ]
    assert await column(conn, "select distinct generation from agent.run where key = '11'") == [3]


@pytest.mark.slow
async def test_attachments_of_the_meantime_come_by_the_new_slot(
    conn: AsyncConnection, dsn: str
) -> None:
    """Made, changed and ended while the slot is being made: in effect from their own commit on."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await begin(conn, dsn)
    async with session(dsn) as slow, session(dsn) as other:
        await slow.execute("begin")
        await slow.execute("create table later (id int primary key)")
        await slow.execute("insert into later values (0)")
        told = asyncio.Event()

        def waiting(_: object) -> None:
            told.set()

        making = asyncio.create_task(make_good(conn, dsn, GapPlan(), waiting=waiting))
        await told.wait()
        await slow.execute("select agent.attach('later', 'model=fake, name=later')")
        await slow.commit()
        await making
        versions = (
            "select attachment_id, active_from is not null from agent.attachment_version"
            " join agent.attachment a on a.id = attachment_id where a.name = 'later'"
        )
        # The slot waited for it, so it is older than the slot; what it wrote is, too.
        assert [each[1] for each in await rows(other, versions)] == [True]
        async with reading_again(conn, dsn) as d:
            await run_all(conn, "insert into later values (1)")
            await d.caught_up()
        keys = "select key from agent.run_overview where attachment = 'later'"
        assert await column(conn, keys) == ["1"]


async def test_a_resync_that_fails_leaves_no_slot_and_an_open_gap(
    conn: AsyncConnection, dsn: str
) -> None:
    """Whatever it was: then it is done again."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await begin(conn, dsn)
    await run_all(conn, "insert into support_tickets (id) values (1)")
    await run_all(
        conn,
        "create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'not today'; end $$;"
        "create trigger refuse before insert on agent.gap_choice execute function refuse()",
    )
    before = await rows(conn, "select * from agent.checkpoint")
    with pytest.raises(ConfigError, match="not today"):
        await make_good(conn, dsn, GapPlan({"desk": since()}))
    assert await rows(conn, "select * from agent.checkpoint") == before
    assert await value(conn, OURS, conn.info.dbname) == 0
    assert await column(conn, BACKFILLED) == []
    await run_all(conn, "drop trigger refuse on agent.gap_choice")
    await make_good(conn, dsn, GapPlan({"desk": since()}))
    assert await column(conn, BACKFILLED) == ["1"]


async def test_a_slot_that_is_read_is_left_alone(conn: AsyncConnection, dsn: str) -> None:
    """Whoever reads it has nothing lost."""
    async with daemon(conn, dsn, parts=("reader",)):
        with pytest.raises(SlotBusyError, match="is active for PID"):
            await make_good(conn, dsn, GapPlan())


@pytest.mark.parametrize(("overlap", "found"), [(10, []), (120, ["1000"])])
async def test_a_wider_overlap_finds_longer_transactions(
    conn: AsyncConnection, dsn: str, overlap: int, found: list[str]
) -> None:
    """One that began an hour before the gap; and rows that were ingested stay what they are."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await begin(
        conn,
        dsn,
        "insert into support_tickets (id, changed_at)"
        " select n, clock_timestamp() - n * interval '1 minute' from generate_series(1, 100) n",
    )
    late = (
        "insert into support_tickets (id, changed_at)"
        " values (1000, clock_timestamp() - interval '1 hour')"
    )
    await run_all(conn, late)
    await make_good(conn, dsn, GapPlan({"desk": since()}, timedelta(minutes=overlap)))
    assert await column(conn, BACKFILLED) == found


async def test_as_much_of_a_row_is_kept_as_of_others(conn: AsyncConnection, dsn: str) -> None:
    """As the configuration says."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await begin(conn, dsn)
    await run_all(conn, "insert into support_tickets (id, issue) values (1, repeat('x', 20000))")
    await make_good(conn, dsn, GapPlan({"desk": since()}, limits=SizeLimits(10_000, 20_000)))
    kept = (
        "select length(change #>> '{new,issue}'), change -> 'truncated' from agent.run"
        " where reason = 'backfill'"
    )
    assert await rows(conn, kept) == [(10_000, {"issue": 20_000})]


@pytest.mark.wal2json
async def test_wal2json_is_resynced_alike(conn: AsyncConnection, dsn: str) -> None:
    """It knows no publications, and its slot has a snapshot, too."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    settings = Replication(slot=conn.info.dbname, plugin="wal2json")
    async with daemon(conn, dsn, parts=("reader",), plugin="wal2json") as d:
        await attach(conn, "name=desk")
        await value(conn, "select agent.pause('desk')")
        await run_all(conn, "insert into support_tickets (id) values (1)")
        await d.caught_up()
    await lose(conn)
    await run_all(conn, "drop publication walagent_inserts")
    await run_all(conn, "insert into support_tickets (id) values (2)")
    await resync(conn, Places(dsn, dsn), settings, RowRecovery(dsn, GapPlan({"desk": since()})))
    assert await column(conn, BACKFILLED) == ["2"]
    async with daemon(conn, dsn, parts=("reader",), plugin="wal2json") as d:
        await run_all(conn, "insert into support_tickets (id) values (3)")
        await d.caught_up()
    assert await column(conn, "select key from agent.run where attachment_id = 1 order by id") == [
        "1",
        "2",
        "3",
    ]


async def test_a_login_that_is_not_the_owner_fixes_no_publication(
    conn: AsyncConnection, dsn: str
) -> None:
    """It is told before the slot is dropped; the owner can."""
    await run_all(conn, DATED.format("timestamptz", "now()"))
    await begin(conn, dsn)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    await run_all(conn, "alter publication walagent_inserts drop table support_tickets")
    async with role(conn, "login replication") as runner:
        await value(conn, "select agent.grant_runner(%s)", runner)
        await run_all(conn, f"grant create on database {conn.info.dbname} to {runner}")
        async with session(dsn, user=runner) as own:
            with pytest.raises(PreconditionError, match="was removed from publication"):
                await make_good(own, make_conninfo(dsn, user=runner), GapPlan())
        async with as_role(conn, runner):
            assert len(await listings.list_gaps(conn)) == 0
    await make_good(conn, dsn, GapPlan())
    assert await column(conn, "select agent_internal.publication_trouble()") == []


THREADS = """
insert into agent.agent (name, model, system_prompt) values ('bot', 'fake', 'You are a bot.');
select agent.attach_to_threads('bot');
"""
OPEN = "select agent.open_thread(%s, '{bot}')"
POST = "select agent.post(%s, %s)"
TEXTS = """
select t.title, e.author = 'bot', e.data ->> 'text'
  from agent.event e join agent.thread t on t.id = e.thread_id
 where e.type = 'text' order by t.title, e.number
"""


@pytest.mark.slow
async def test_an_agent_in_threads_answers_what_was_posted_in_the_gap(
    conn: AsyncConnection, dsn: str
) -> None:
    """Once in each thread, whatever is chosen for tables; and where nothing is open, not at all."""
    await run_all(conn, DESK + THREADS)
    async with daemon(conn, dsn, ["First."]) as d:
        open_, done = [await value(conn, OPEN, title) for title in ("open", "done")]
        for thread in (open_, done):
            await value(conn, POST, thread, "before")
        await d.ended(2)
    await lose(conn)
    for text in ("one", "two"):
        await value(conn, POST, open_, text)
    for choice in (GapChoice("all"), since("created_at")):
        with pytest.raises(ConfigError, match="takes a turn where it has not answered"):
            await make_good(conn, dsn, GapPlan({"bot": choice}))
    await make_good(conn, dsn, GapPlan())
    recorded = "select attachment, choice, runs from agent.gap_choice"
    assert await rows(conn, recorded) == [("bot", "turns", 1)]
    made = "select kind, principal, state::text from agent.run where reason = 'backfill'"
    assert await rows(conn, made) == [("turn", "bot", "pending")]
    async with daemon(conn, dsn, ["Second."]) as d:
        await d.ended(3)
        await d.caught_up()
    assert await rows(conn, TEXTS) == [
        ("done", False, "before"), ("done", True, "First."),
        ("open", False, "before"), ("open", True, "First."),
        ("open", False, "one"), ("open", False, "two"), ("open", True, "Second."),
    ]  # fmt: skip
