"""What others made of what agents wrote is found in the WAL, and attributed to the run."""

import asyncio
import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, role, rows, run_all
from walagent.base import faults
from walagent.models.script import call
from walagent.runs.pruning import forget
from walagent.store import ingestion

WRITTEN = "select count(*) >= %s from agent_internal.last_write"
FOUND = (
    "select r.key, c.column_name, c.kind, c.wrote, c.value, c.rows"
    " from agent.correction c join agent.run r on r.id = c.run_id"
    " order by c.commit_lsn, c.ordinal, c.column_name, r.id"
)
SCRIPT = [call("update_row", category="billing", amount=1.5), "done"]


async def corrected(d: Daemon) -> list[tuple[Any, ...]]:
    """What is found when all changes are read."""
    await d.caught_up()
    return list(await rows(d.conn, FOUND))


async def act(conn: AsyncConnection, *statements: str) -> None:
    """Execute each in a transaction of its own."""
    for each in statements:
        await run_all(conn, each)


async def written(d: Daemon, count: int = 1, *, columns: int = 2) -> None:
    """Let an agent write category and amount of so many new rows."""
    await attach(d.conn, "writes=[category, amount], corrections=true")
    await run_all(
        d.conn,
        f"insert into support_tickets (id, issue) select n, 'x' from generate_series(1, {count}) n",
    )
    await d.until(WRITTEN, count * columns)


@pytest.mark.parametrize("identity", ["default", "full"])
async def test_a_change_of_what_an_agent_wrote_is_a_correction(
    conn: AsyncConnection, dsn: str, identity: str
) -> None:
    """Of the column that was changed, once; other columns and other rows are none."""
    await act(conn, DESK, f"alter table support_tickets replica identity {identity}")
    async with daemon(conn, dsn, SCRIPT) as d:
        await written(d)
        await act(
            conn,
            "update support_tickets set issue = 'y', amount = 1.50",
            "insert into support_tickets (id, issue, category) values (99, 'by hand', 'bug')",
            "update support_tickets set category = 'bug' where id = 1",
            "update support_tickets set category = null where id = 1",
        )
        assert await corrected(d) == [("1", "category", "changed", "billing", "bug", 1)]
    assert await rows(
        conn, 'select column_name from agent_internal.last_write where key = \'{"id": "1"}\''
    ) == [("amount",)]


@pytest.mark.parametrize("identity", ["default", "full"])
async def test_what_is_there_after_a_transaction_counts(
    conn: AsyncConnection, dsn: str, identity: str
) -> None:
    """There and back is none; NULL is a value; a deleted row is one of each column."""
    await act(conn, DESK, f"alter table support_tickets replica identity {identity}")
    async with daemon(conn, dsn, SCRIPT) as d:
        await written(d, 4)
        await act(
            conn,
            "begin; update support_tickets set category = 'bug' where id = 1;"
            " update support_tickets set category = 'billing' where id = 1; commit",
            "update support_tickets set category = null where id = 2",
            "delete from support_tickets where id = 3",
            "begin; update support_tickets set category = 'bug' where id = 4;"
            " update support_tickets set amount = 1.50 where id = 4; commit",
        )
        assert await corrected(d) == [
            ("2", "category", "changed", "billing", None, 1),
            ("3", "amount", "deleted", "1.5", None, 1),
            ("3", "category", "deleted", "billing", None, 1),
            ("4", "category", "changed", "billing", "bug", 1),
        ]


async def test_a_row_is_followed_to_its_new_key(conn: AsyncConnection, dsn: str) -> None:
    """Also if many pass their keys on."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await written(d, 3)
        await act(
            conn,
            "begin; update support_tickets set id = id + 10;"
            " update support_tickets set id = id - 9; commit",
            "update support_tickets set category = 'bug' where id = 2",
        )
        found = await corrected(d)
    assert [row[:3] for row in found] == [("1", "category", "changed")]


async def test_a_migration_is_one_entry(conn: AsyncConnection, dsn: str) -> None:
    """It looks like many people, and accuracy leaves it out."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT, slots=20) as d:
        await written(d, 101)
        await run_all(conn, "update support_tickets set category = 'bug'")
        await d.caught_up()
    assert await rows(
        conn, "select kind, column_name, count(*), sum(rows) from agent.correction group by 1, 2"
    ) == [("bulk", "category", 101, 101)]
    assert await rows(
        conn,
        "select column_name, written, corrected, changed_in_bulk from agent.accuracy order by 1",
    ) == [("amount", 101, 0, 0), ("category", 101, 0, 101)]


COLUMNS = ("category", "amount", "status")
WRITES: Mapping[str, str | None] = {"category": "billing", "amount": "1.5", "status": "seen"}
VALUES = {
    "category": ("bug", "billing", None),
    "amount": ("1.5", "1.50", "2", None),
    "status": ("open", "seen", "closed"),
}


async def test_a_standby_reads_nothing_of_what_agents_wrote(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who gets the slot reads it once, and finds what comes then."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as first:
        await written(first)
        loaded, load = list[int](), ingestion.last_writes
        monkeypatch.setattr(ingestion, "last_writes", lambda c: loaded.append(1) or load(c))
        async with daemon(conn, dsn, SCRIPT, parts=()) as second:
            starting = asyncio.create_task(second.start_reader())
            await asyncio.sleep(2)
            assert loaded == []
            await first.stop("reader")
            await starting
            assert loaded == [1]
            await run_all(conn, "update support_tickets set category = 'bug' where id = 1")
            found = await corrected(second)
    assert found == [("1", "category", "changed", "billing", "bug", 1)]


UNFINISHED = (
    "select not exists (select from agent.run_overview"
    " where attachment <> 'sentinel' and not agent_internal.is_final(state))"
)


@pytest.mark.parametrize("point", ["intake.committed", "intake.confirmed"])
async def test_a_reader_that_crashes_finds_each_once(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """After the commit of what it found, and the WAL is sent again."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await written(d)
        await d.caught_up()
        with faults.armed(point):
            await run_all(conn, "update support_tickets set category = 'bug' where id = 1")
            await d.dies("reader")
        await d.start_reader()
        assert await corrected(d) == [("1", "category", "changed", "billing", "bug", 1)]


async def test_a_few_in_the_rest_of_a_large_transaction_are_with_the_others(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is ingested in pieces: more than a hundred in one make all of it a migration."""
    monkeypatch.setattr("walagent.intake.intake.SPILL_AFTER", 101)
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT, slots=20) as d:
        await written(d, 104)
        await run_all(
            conn,
            "begin; update support_tickets set category = 'bug' where id < 102;"
            " insert into support_tickets (id, issue)"
            " select n, 'y' from generate_series(200, 310) n;"
            " update support_tickets set category = 'bug' where id = 103; commit",
        )
        await run_all(conn, "update support_tickets set category = 'bug' where id = 104")
        await d.caught_up()
    found = await rows(
        conn,
        "select kind, sum(rows) from agent.correction where column_name = 'category' group by 1"
        " order by 1",
    )
    assert found == [("bulk", 102), ("changed", 1)]


async def test_what_the_agent_cannot_read_any_more_is_not_recorded(
    conn: AsyncConnection, dsn: str
) -> None:
    """Who reads steps would read it."""
    await run_all(conn, DESK)
    async with role(conn) as agent, daemon(conn, dsn, SCRIPT) as d:
        await run_all(
            conn,
            f"grant usage on schema public to {agent}; grant all on support_tickets to {agent}",
        )
        await attach(conn, f"writes=[category, amount], corrections=true, run_as={agent}")
        await run_all(conn, "insert into support_tickets (id, issue) values (1, 'x')")
        await d.until(WRITTEN, 2)
        await run_all(
            conn,
            f"revoke all on support_tickets from {agent};"
            f"grant select (id, issue, status, amount), update on support_tickets to {agent}",
        )
        await run_all(conn, "update support_tickets set category = 'bug', amount = 3")
        await d.caught_up()
        assert await rows(
            conn, "select column_name, wrote, value, omitted from agent.correction order by 1"
        ) == [("amount", "1.5", "3", False), ("category", None, None, True)]
        await run_all(conn, f"drop owned by {agent}")


@pytest.mark.parametrize(
    "ddl",
    [
        (
            "alter table support_tickets rename category to label;"
            " alter table support_tickets add category text"
        ),
        "alter table support_tickets drop category; alter table support_tickets add category text",
    ],
)
async def test_another_column_with_the_name_is_no_correction(
    conn: AsyncConnection, dsn: str, ddl: str
) -> None:
    """The agent never wrote it."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, SCRIPT) as d:
        await written(d)
        await act(conn, ddl, "update support_tickets set category = 'secret'")
        assert await corrected(d) == []


class Model:
    """What must be found, from what is done."""

    def __init__(self) -> None:
        self.rows: dict[int, dict[str, str | None]] = {}
        self.wrote: dict[tuple[int, str], tuple[int, str | None]] = {}  # run's key, and value
        self.found: list[tuple[str, str, str, str | None, str | None]] = []

    def agent_writes(self, key: int) -> None:
        """A run of this row ends."""
        for name, text in WRITES.items():
            if self.rows[key][name] != text:
                self.wrote[key, name] = key, text
                self.rows[key][name] = text

    def commits(self, rows: Mapping[int, tuple[int, dict[str, str | None]]]) -> None:
        """Somebody leaves *rows*, each with the key that it had before."""
        now = {was: (key, row) for key, (was, row) in rows.items()}
        wrote: dict[tuple[int, str], tuple[int, str | None]] = {}
        for (key, name), (of, text) in self.wrote.items():
            if key not in now:
                self.found.append((str(of), name, "deleted", text, None))
                continue
            new_key, row = now[key]
            if row[name] == text or (name == "amount" and row[name] == "1.50"):
                wrote[new_key, name] = of, text
            else:
                self.found.append((str(of), name, "changed", text, row[name]))
        self.wrote = wrote
        self.rows = {key: row for key, (_, row) in rows.items()}


def literal(text: str | None) -> str:
    """A value in SQL."""
    return "null" if text is None else f"'{text}'"


async def somebody_acts(conn: AsyncConnection, model: Model, chance: random.Random) -> None:
    """Commit a random transaction, or roll it back."""
    rows = {key: (key, dict(row)) for key, row in model.rows.items()}
    statements = list[str]()
    for _ in range(chance.randint(1, 4)):
        if not rows:
            break
        key = chance.choice([*rows])
        match chance.randint(0, 9):
            case 0:
                del rows[key]
                statements.append(f"delete from support_tickets where id = {key}")
            case 1:
                new = 1 + max(*rows, key + 1000)
                rows[new] = rows.pop(key)
                statements.append(f"update support_tickets set id = {new} where id = {key}")
            case 2:
                statements.append(f"update support_tickets set issue = 'z' where id = {key}")
            case n:
                name = COLUMNS[n % 3]
                text = rows[key][1][name] = chance.choice(VALUES[name])
                statements.append(
                    f"update support_tickets set {name} = {literal(text)} where id = {key}"
                )
    if chance.random() < 0.15:
        await run_all(conn, f"begin; {';'.join(statements)}; rollback")
        return
    await run_all(conn, f"begin; {';'.join(statements)}; commit")
    model.commits(rows)


@pytest.mark.parametrize(
    ("identity", "seed"),
    [
        ("default", 1),
        ("full", 2),
        *[
            pytest.param(identity, seed, marks=pytest.mark.slow)
            for identity in ("default", "full")
            for seed in range(3, 13)
        ],
    ],
)
async def test_what_is_found_is_what_was_done(
    conn: AsyncConnection, dsn: str, identity: str, seed: int
) -> None:
    """By people between runs, also while nobody reads."""
    chance, model = random.Random(seed), Model()
    await act(conn, DESK, f"alter table support_tickets replica identity {identity}")
    async with daemon(
        conn, dsn, [call("update_row", category="billing", amount=1.5, status="seen"), "done"]
    ) as d:
        await attach(
            conn, "writes=[category, amount, status], on=[update], when=\"new.status = 'do'\""
        )
        await run_all(
            conn, "insert into support_tickets (issue) select 'x' from generate_series(1, 12)"
        )
        model.rows = {n: {"category": None, "amount": None, "status": "open"} for n in range(1, 13)}
        for _ in range(4):
            keys = [key for key in model.rows if chance.random() < 0.6]
            for key in keys:
                await run_all(conn, f"update support_tickets set status = 'do' where id = {key}")
                asked = {**model.rows, key: {**model.rows[key], "status": "do"}}
                model.commits({each: (each, row) for each, row in asked.items()})
            await d.until("select count(*) = 0 from support_tickets where status = 'do'")
            await d.caught_up()
            await d.until(UNFINISHED)
            for key in keys:
                model.agent_writes(key)
            is_away = chance.random() < 0.5
            if is_away:
                await d.caught_up()
                await d.stop("reader")
            for _ in range(chance.randint(1, 8)):
                await somebody_acts(conn, model, chance)
            if is_away:
                await d.start_reader()
        found = await corrected(d)
    assert sorted(map(str, (row[:5] for row in found))) == sorted(map(str, model.found))
    left = await rows(conn, "select key ->> 'id', column_name from agent_internal.last_write")
    assert {(int(key), name) for key, name in left} == model.wrote.keys()


async def test_a_table_without_a_key_cannot_have_corrections(conn: AsyncConnection) -> None:
    """Once its updates are published, those of the application would fail."""
    await run_all(conn, DESK + "create table plain (id bigint)")
    with pytest.raises(psycopg.Error, match="plain has no replica identity"):
        await run_all(conn, "select agent.attach('plain', 'model=fake, corrections=true')")


@pytest.mark.parametrize("spec", ["corrections=true", "on=[insert, update]"])
async def test_a_key_that_is_checked_late_identifies_no_row(
    conn: AsyncConnection, dsn: str, spec: str
) -> None:
    """PostgreSQL would refuse each update of the application."""
    await run_all(conn, DESK + "create table late (id bigint primary key deferrable, text text)")
    with pytest.raises(psycopg.Error, match="late has no replica identity"):
        await run_all(conn, f"select agent.attach('late', 'model=fake, {spec}')")
    await run_all(conn, "create table soon (id bigint primary key, text text)")
    await run_all(conn, f"select agent.attach('soon', 'model=fake, {spec}')")
    async with daemon(conn, dsn, SCRIPT) as d:
        await run_all(
            conn,
            "alter table soon drop constraint soon_pkey, add primary key (id) deferrable;"
            " insert into soon values (1, 'x')",
        )
        await d.until("select paused from agent.attachment where name = 'soon'")
        await d.until(
            "select exists (select from pg_publication_tables"
            " where tablename = 'soon' and pubname = 'walagent_inserts')"
        )
    await run_all(conn, "update soon set text = 'y'")


async def test_updates_are_published_for_corrections_alone(conn: AsyncConnection, dsn: str) -> None:
    """And no more when nobody wants them."""
    await run_all(conn, DESK)
    published = "select pubname from pg_publication_tables where tablename = 'support_tickets'"
    await attach(conn, "writes=[category], name=desk")
    assert await rows(conn, published) == [("walagent_inserts",)]
    await attach(conn, "writes=[category], name=desk, corrections=true, replace=true")
    assert await rows(conn, published) == [("walagent",)]
    await attach(conn, "writes=[category], name=desk, replace=true")
    assert await rows(conn, published) == [("walagent_inserts",)]


async def test_what_was_written_long_ago_is_forgotten(conn: AsyncConnection, dsn: str) -> None:
    """In batches; the reader's locks are not waited for.  Then a change is no correction."""
    await run_all(conn, DESK)
    aged = "update agent_internal.last_write set written_at = written_at - interval '31 days'"
    left = "select key ->> 'id' from agent_internal.last_write order by 1"
    async with daemon(conn, dsn, SCRIPT) as d:
        await written(d, 3)
        await run_all(conn, f"{aged} where key ->> 'id' <> '3'")
        async with await AsyncConnection.connect(dsn) as reader:
            held = "select from agent_internal.last_write where key ->> 'id' = '2' for update"
            await reader.execute(held)
            await forget(conn, timedelta(days=30), batch=1)
            assert await rows(conn, left) == [("2",), ("2",), ("3",), ("3",)]
        await run_all(conn, "update support_tickets set category = 'bug' where id in (1, 3)")
        assert await corrected(d) == [("3", "category", "changed", "billing", "bug", 1)]
