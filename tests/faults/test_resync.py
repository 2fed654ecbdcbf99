"""After a gap: its rows are worked once each, as people chose, beside a stream that goes on."""

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.commands import answers, types
from tests.faults.rig.processes import Daemon, pause, running
from tests.faults.rig.stage import ATTACH, Figure, Place, make_ready
from tests.faults.rig.waiting import fetch, until

pytestmark = pytest.mark.scenario(5)

# As applications have it.  The agents' own writes move it, too.
DATED = """
alter table item add column updated_at timestamptz not null default now();
create function touch() returns trigger language plpgsql as $$
begin
    new.updated_at := now();
    return new;
end;
$$;
create trigger touch before update on item for each row execute function touch();
"""
NOTHING_LEFT = """
select not exists (select from agent.run where not agent_internal.is_final(state))
   and not exists (select from agent.backfill where state in ('pending', 'running'))
"""
# All that the writer committed by now has come by the stream, or is older than the slot.
INGESTED = """
select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where slot_name = %s
"""
FREE = "select not active from pg_replication_slots where slot_name = %s"


class Application:
    """Inserts, changes and deletes rows of `item`, each version noted in `written`."""

    def __init__(self, dsn: str, chance: random.Random) -> None:
        self._dsn = dsn
        self._chance = chance
        self._ids = 0
        self._alive: list[int] = []
        self.deleted: set[int] = set()
        self.changes = 0

    async def write(self, conn: AsyncConnection, count: int) -> None:
        """Make *count* transactions of one to three changes."""
        for _n in range(count):
            async with conn.transaction():
                for _m in range(self._chance.randint(1, 3)):
                    await self._change(conn)

    async def _change(self, conn: AsyncConnection) -> None:
        kind = self._chance.choice("iiuuud") if len(self._alive) > 5 else "i"
        self.changes += 1
        if kind == "i":
            await self.insert(conn)
            return
        item = self._chance.choice(self._alive)
        if kind == "d":
            await conn.execute("delete from item where id = %s", [item])
            self._alive.remove(item)
            self.deleted.add(item)
            return
        await conn.execute(
            "with new as (update item set version = version + 1 where id = %s returning *)"
            " insert into written (item, version) select id, version from new",
            [item],
        )

    async def insert(self, conn: AsyncConnection) -> int:
        """Insert the next row."""
        self._ids += 1
        await conn.execute("insert into item (id, version) values (%s, 1)", [self._ids])
        await conn.execute("insert into written (item, version) values (%s, 1)", [self._ids])
        self._alive.append(self._ids)
        return self._ids

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[None]:
        """Go on writing until the block ends."""
        stop = asyncio.Event()

        async def go_on() -> None:
            async with await AsyncConnection.connect(self._dsn, autocommit=True) as conn:
                while not stop.is_set():
                    await self.write(conn, 1)
                    await pause(self._chance.uniform(0, 0.02))

        task = asyncio.create_task(go_on())
        try:
            yield
        finally:
            stop.set()
            await task


@dataclass(slots=True)
class Item:
    """What the runs of one row were about: its versions."""

    written: list[int] = field(default_factory=list[int])
    before: list[int] = field(default_factory=list[int])  # by the first slot
    rerun: list[int] = field(default_factory=list[int])
    after: list[int] = field(default_factory=list[int])  # by the second

    @property
    def missed(self) -> list[int]:
        """Versions that neither slot has brought."""
        return sorted({*self.written} - {*self.before} - {*self.after})


async def items(conn: AsyncConnection) -> Mapping[int, Item]:
    """Everything that was written, and what came of it, asked in SQL."""
    found: dict[int, Item] = defaultdict(Item)
    for item, version in await fetch(conn, "select item, version from written order by seq"):
        found[item].written.append(version)
    runs = """
        select (change -> 'new' ->> 'id')::bigint, (change -> 'new' ->> 'version')::integer,
               case when reason = 'backfill' then 'rerun' when generation = 1 then 'before'
                    else 'after' end
          from agent.run where state = 'succeeded' order by id"""
    for item, version, when in await fetch(conn, runs):
        getattr(found[item], when).append(version)
    return found


def is_once(item: Item) -> bool:
    """Whether each change has at most one run, and the slots have left out one stretch at most."""
    both = [*item.before, *item.after]
    stretch = list(range(item.missed[0], item.missed[-1] + 1)) if item.missed else []
    return (
        len(set(both)) == len(both)
        and item.before == sorted(item.before)
        and (item.after == sorted(item.after) and item.missed == stretch)
    )


async def effects_are_once(conn: AsyncConnection) -> None:
    """Every run has had its effects, once each."""
    wrong = await fetch(
        conn,
        """
        select *
          from (select (change -> 'new' ->> 'id')::bigint as item,
                       (change -> 'new' ->> 'version')::integer as version, count(*) as n
                  from agent.run group by 1, 2) r
               cross join unnest('{sql,python}'::text[]) as tool
               full join (select tool, item, version, count(*) as n from effect group by 1, 2, 3) e
               using (tool, item, version)
         where r.n is distinct from e.n limit 20""",
    )
    assert not wrong, wrong


@pytest.fixture
async def scene(place: Place, chance: random.Random) -> tuple[Place, Application]:
    """Attached, and nothing written yet."""
    await make_ready(place, attach=DATED + ATTACH)
    return place, Application(place.dsn, chance)


async def lose_the_slot(place: Place) -> None:
    """Drop it by hand, once nobody reads it."""
    await until(place.conn, FREE, place.slot)
    await place.conn.execute("select pg_drop_replication_slot(%s)", [place.slot])


async def all_is_in(place: Place, daemon: Daemon) -> None:
    """Wait until the stream has brought everything, and every run has ended."""
    row = await (await place.conn.execute("select pg_current_wal_insert_lsn()::text")).fetchone()
    assert row is not None
    await place.conn.execute("select pg_logical_emit_message(true, 'test', 'now')")
    await until(place.conn, INGESTED, row[0], place.slot, alive=daemon.is_alive)
    await until(place.conn, NOTHING_LEFT, alive=daemon.is_alive)


async def stopped_with_a_gap(place: Place) -> None:
    """See that a daemon ends with 3, and says what to do."""
    with running(Daemon(place, name="-stopped")) as daemon:
        assert await daemon.ended() == 3
        assert "walagent wal resync" in daemon.said
    ((reason, since),) = await fetch(
        place.conn, "select reason, since is not null from agent.gap where resolved_at is null"
    )
    assert reason == f'slot "{place.slot}" does not exist'
    assert since


async def before_the_gap(place: Place, app: Application) -> None:
    """Changes that are ingested; some of their runs are worked only in the gap."""
    with running(Daemon(place)) as daemon:
        await daemon.has_said("reader.streaming")
        await app.write(place.conn, 20)
        await all_is_in(place, daemon)
        await place.conn.execute("select agent.pause('item')")
        await app.write(place.conn, 5)
        await place.conn.execute("select pg_logical_emit_message(true, 'test', 'now')")
        taken = "select count(*) > 0 from agent.run where state = 'pending'"
        await until(place.conn, taken, alive=daemon.is_alive)
        row = await (await place.conn.execute("select pg_current_wal_lsn()::text")).fetchone()
        assert row is not None
        await until(place.conn, INGESTED, row[0], place.slot, alive=daemon.is_alive)
    await lose_the_slot(place)


async def work_on(place: Place) -> None:
    """Let a worker end what is pending, while nobody reads: its writes move `updated_at`."""
    await place.conn.execute("select agent.resume('item')")
    with running(Daemon(place, name="-worker", command="serve worker")) as worker:
        await until(place.conn, NOTHING_LEFT, alive=worker.is_alive)


async def the_gap(place: Place, app: Application) -> None:
    """Changes that nobody reads; one transaction had begun before the slot was lost."""
    async with await AsyncConnection.connect(place.dsn) as late:
        await late.execute("select now()")  # its changes will bear this time
        await before_the_gap(place, app)
        await app.write(place.conn, 10)
        await app.insert(late)
        await late.commit()
    await work_on(place)
    await app.write(place.conn, 10)


@pytest.mark.slow
async def test_rows_that_changed_in_the_gap_are_worked_once_each(
    scene: tuple[Place, Application],
) -> None:
    """As they were when the new slot began; all others by the stream, and none twice."""
    place, app = scene
    await the_gap(place, app)
    await stopped_with_a_gap(place)
    done = await types(
        place, "wal", "resync", "--attachment", "item=since:updated_at", "--yes", "--json"
    )
    (made,) = done.worked().json["attachments"]
    with running(Daemon(place)) as daemon:
        await app.write(place.conn, 10)
        await all_is_in(place, daemon)
    found = await items(place.conn)
    assert all(is_once(item) for item in found.values()), found
    for number, item in found.items():
        gone = number in app.deleted and not item.rerun
        assert gone or item.rerun == item.missed[-1:], (number, item)
    assert made["runs"] == sum(len(item.rerun) for item in found.values()) > 0
    await effects_are_once(place.conn)
    assert (await types(place, "wal", "check")).worked().out == ""
    ((choice, column, runs, chosen_by),) = await fetch(
        place.conn, "select choice, column_name, runs, chosen_by from agent.gap_choice"
    )
    assert (choice, column, runs) == ("since", "updated_at", made["runs"])
    assert chosen_by == place.conn.info.user


@pytest.mark.slow
@pytest.mark.parametrize("choice", ["since:updated_at", "all", "skip"])
async def test_a_gap_is_made_good_while_the_application_writes_on(
    scene: tuple[Place, Application], choice: str, figure: Figure
) -> None:
    """Before, during and after the making of the slot: no row is left out, none is doubled."""
    place, app = scene
    await before_the_gap(place, app)
    async with app.writing():
        await work_on(place)
        await stopped_with_a_gap(place)
        done = await types(place, "wal", "resync", "--default", choice, "--yes", "--json")
        done.worked()
        with running(Daemon(place)) as daemon:
            await daemon.has_said("reader.streaming")
            begun = app.changes
            while app.changes < begun + 200:
                daemon.is_alive()
                await pause(0.05)
    with running(Daemon(place)) as daemon:
        await all_is_in(place, daemon)
    found = await items(place.conn)
    assert all(is_once(item) for item in found.values()), found
    for number, item in found.items():
        check_choice(choice, item, gone=number in app.deleted)
    reruns = sum(len(item.rerun) for item in found.values())
    assert (reruns > 0) == (choice != "skip")
    figure(f"rows of the gap worked, {choice}", reruns)
    await effects_are_once(place.conn)
    (await types(place, "wal", "check")).worked()


def check_choice(choice: str, item: Item, *, gone: bool) -> None:
    """See that the rows of a gap were worked as it was chosen."""
    match choice:
        case "skip":
            assert not item.rerun
        case "all":  # every row that was there, as it was when it was come to
            there = item.after[:1] != [1]
            assert len(item.rerun) == there or (gone and not item.rerun), item
        case _:
            assert item.rerun == item.missed[-1:] or (gone and not item.rerun), item


async def test_a_person_is_asked_for_each_attachment(scene: tuple[Place, Application]) -> None:
    """On a terminal; a wrong answer is asked again, and who chose what is kept."""
    place, app = scene
    await app.write(place.conn, 10)
    await place.conn.execute(
        "create table keyless (note text); alter table keyless replica identity full;"
        " select agent.attach('keyless', 'model=script, name=other')"
    )
    await place.conn.execute("select pg_drop_replication_slot(%s)", [place.slot])
    screen = await answers(
        place,
        "wal",
        "resync",
        to=[
            (
                "item on public.item (insert, update): skip, all, since:updated_at [skip]:",
                "since:note",
            ),
            ('has no time column "note"', ""),
            ("other on public.keyless (insert): skip [skip]:", "all"),
            ("has no primary key", "skip"),
            ("Create a new slot? [y/N]:", "y"),
        ],
    )
    assert "created slot" in screen
    chosen = "select attachment, choice from agent.gap_choice order by 1"
    assert await fetch(place.conn, chosen) == [("item", "skip"), ("other", "skip")]
    gaps = "select resolved_by = session_user, resolution from agent.gap"
    ((by_us, resolution),) = await fetch(place.conn, gaps)
    assert by_us
    assert resolution.startswith("a new slot starts at")
