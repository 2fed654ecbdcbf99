"""Every type, encoding, identity and setting: the same change, whoever decodes it.

Identical WAL is read through copies of one slot: by pgoutput and wal2json with the code under test,
by test_decoding with a parser of the rig's own.
"""

import math
import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.faults.rig.decoding import UNSENT, Event, read_events
from tests.faults.rig.stage import Figure
from tests.faults.rig.values import KINDS, TYPES, column_name, columns_sql, literal
from tests.helpers.database import column, run_all, session, value
from tests.integration.wal_reading import changes, read_to, wal_end
from walagent.change import UNCHANGED, Begin, Change, Commit, Item, Piece
from walagent.wal.connection import TEXT_FORMS
from walagent.wal.options import Plugin, StreamOptions
from walagent.wal.stream import open_stream

pytestmark = pytest.mark.scenario(11)

# One table for each way to say which row it was; `grouped` has a key of two columns.
IDENTITIES: Mapping[str, str] = {
    "keyed": "id int primary key",
    "grouped": "id int, part text default 'p', primary key (part, id)",
    "indexed": "id int not null, constraint indexed_id unique (id)",
    "whole": "id int",
    "appended": "id int",
}
AFTER = """
alter table indexed replica identity using index indexed_id;
alter table whole replica identity full;
"""
# Of the database, for every session to come but those that ask for other forms.
HOSTILE = (
    "datestyle = 'German'",
    "intervalstyle = 'sql_standard'",
    "timezone = 'Asia/Tokyo'",
    "bytea_output = 'escape'",
    "extra_float_digits = -15",
    "quote_all_identifiers = on",
    "search_path = 'nowhere'",
)
EVENTS = 120  # in the fast test


def scene() -> str:
    """The tables, each with a column of every type, and one that is large."""
    tables = "".join(
        f"create table {name} ({key}, {columns_sql()}, large text);"
        f"alter table {name} alter large set storage external;"
        for name, key in IDENTITIES.items()
    )
    return TYPES + tables + AFTER


class Life:
    """Random changes of the tables, as SQL."""

    def __init__(self, chance: random.Random, absent: Collection[str] = ()) -> None:
        self._chance = chance
        self._absent = absent
        self._ids: dict[str, list[int]] = {name: [] for name in IDENTITIES}
        self._next = 0

    def statement(self) -> str:
        """One change."""
        table = self._chance.choice(list(IDENTITIES))
        ids = self._ids[table]
        kinds = ["insert"] * 3
        if ids and table != "appended":  # which is published for its inserts alone
            kinds += ["update"] * 4 + ["key", "delete"]
        kind = self._chance.choice(kinds)
        if kind == "insert":
            return self._insert(table)
        chosen = self._chance.choice(ids)
        if kind == "delete":
            ids.remove(chosen)
            return f"delete from {table} where id = {chosen}"
        if kind == "key":
            self._next += 1
            ids[ids.index(chosen)] = self._next
            return f"update {table} set id = {self._next} where id = {chosen}"
        return f"update {table} set {self._assignments()} where id = {chosen}"

    def _insert(self, table: str) -> str:
        self._next += 1
        self._ids[table].append(self._next)
        values = ", ".join(literal(kind, self._chance, self._absent) for kind in KINDS)
        names = ", ".join(map(column_name, range(len(KINDS))))
        large = "repeat('x''', 2000)" if self._chance.random() < 0.5 else "null"
        return f"insert into {table} (id, {names}, large) values ({self._next}, {values}, {large})"

    def _assignments(self) -> str:
        chosen = self._chance.sample(range(len(KINDS)), self._chance.randint(1, 5))
        values = [literal(KINDS[n], self._chance, self._absent) for n in chosen]
        return ", ".join(
            f"{column_name(n)} = {given}" for n, given in zip(chosen, values, strict=True)
        )


async def absent_types(conn: AsyncConnection) -> set[str]:
    """Types that this server has no values of."""
    try:
        await conn.execute("select '<a/>'::xml")
    except psycopg.errors.FeatureNotSupported:
        return {"xml"}
    return set()


async def live(conn: AsyncConnection, chance: random.Random, events: int) -> None:
    """Let *events* changes happen, in transactions of a few, and one TRUNCATE of two tables."""
    life = Life(chance, await absent_types(conn))
    while events > 0:
        async with conn.transaction(force_rollback=chance.random() < 0.05):
            for _ in range(chance.randint(1, 9)):
                await conn.execute(life.statement().encode())
                events -= 1
    await conn.execute("truncate keyed, whole")


# Reading the same WAL three times.


@asynccontextmanager
async def copies(conn: AsyncConnection, dsn: str) -> AsyncIterator[Mapping[str, str]]:
    """Slots at one position, by plug-in, once the tables are published."""
    await run_all(
        conn,
        "create publication pub for table keyed, grouped, indexed, whole;"
        "create publication pub_inserts for table appended with (publish = 'insert')",
    )
    base = f"{conn.info.dbname}_test_decoding"
    await value(conn, "select pg_create_logical_replication_slot(%s, 'test_decoding')", base)
    slots = {"test_decoding": base}
    for plugin in ("pgoutput", "wal2json"):
        name = f"{conn.info.dbname}_{plugin}"
        try:
            await value(
                conn,
                "select pg_copy_logical_replication_slot(%s, %s, false, %s)",
                base,
                name,
                plugin,
            )
        except (psycopg.errors.InsufficientPrivilege, psycopg.errors.UndefinedFile):
            continue
        slots[plugin] = name
    yield slots


async def decoded(conn: AsyncConnection, dsn: str, slot: str, plugin: Plugin) -> list[Item]:
    """All transactions, by the code under test."""
    options = StreamOptions(slot, plugin, publications=("pub", "pub_inserts"))
    if plugin == "wal2json":
        options = StreamOptions(slot, plugin, tables=tuple(("public", name) for name in IDENTITIES))
    end = await wal_end(conn)
    async with open_stream(dsn, options) as stream:
        return await read_to(stream, end)


def frames(items: Sequence[Item]) -> list[Begin | Commit]:
    """The begins and commits of transactions that changed something."""
    found: list[Begin | Commit] = []
    for number, item in enumerate(items):
        if isinstance(item, Begin) and isinstance(items[number + 1], Piece):
            found += [item, next(it for it in items[number:] if isinstance(it, Commit))]
    return found


async def printed(dsn: str, slot: str) -> list[Event]:
    """All changes of the tables, as test_decoding prints them."""
    forms = TEXT_FORMS | {"quote_all_identifiers": "off", "search_path": "pg_catalog"}
    words = " ".join(f"-c {name}={word}" for name, word in forms.items())
    async with session(dsn, options=words) as conn:
        lines = await column(
            conn,
            "select data from"
            " pg_logical_slot_peek_changes(%s, null, null, 'skip-empty-xacts', '1')",
            slot,
        )
    tables = {f"public.{name}" for name in IDENTITIES}
    return [event for event in read_events(lines) if event.table in tables]


def told(change: Change) -> Event:
    """A change of ours in the form of what test_decoding prints."""
    new = change.new
    if new is not None:
        new = {name: UNSENT if each is UNCHANGED else each for name, each in new.items()}
    old = change.old
    if old is not None:
        old = {name: each for name, each in old.items() if each is not None}
    table = f"{change.relation.schema}.{change.relation.name}"
    return Event(change.xid, change.op.value, table, new, old)


def same(one: Event, other: Event) -> None:
    """Compare more closely than `==`, to which 1.50 is 1.5, True is 1, and NaN nothing."""
    assert (one.xid, one.op, one.table) == (other.xid, other.op, other.table)
    for mine, theirs in ((one.new, other.new), (one.old, other.old)):
        left, right = _exact(mine), _exact(theirs)
        assert left.keys() == right.keys(), (one, left.keys() ^ right.keys())
        different = {name: (left[name], right[name]) for name in left if left[name] != right[name]}
        assert not different, (one.op, one.table, different)


def _exact(row: Mapping[str, Any] | None) -> Mapping[str, str]:
    return {name: f"{type(v).__name__} {v!r}" for name, v in (row or {}).items()}


async def test_the_same_wal_tells_the_same_changes(
    conn: AsyncConnection, dsn: str, chance: random.Random
) -> None:
    """By pgoutput, by wal2json where there is one, and by a parser that knows nothing of ours."""
    await compare(conn, dsn, chance, EVENTS)


@pytest.mark.slow
@pytest.mark.parametrize("life", ["one", "another", "a third"])
async def test_the_same_wal_tells_the_same_changes_for_long(
    conn: AsyncConnection, dsn: str, chance: random.Random, life: str, figure: Figure
) -> None:
    """The same with more of them; the name makes another seed."""
    events = await compare(conn, dsn, chance, 1500)
    figure("events compared", events)
    figure("column types compared", len(KINDS))


async def compare(conn: AsyncConnection, dsn: str, chance: random.Random, events: int) -> int:
    """Let changes happen and read them with every plug-in; give how many were compared."""
    await run_all(conn, scene())
    for setting in HOSTILE:
        await conn.execute(f"alter database {conn.info.dbname} set {setting}".encode())
    async with copies(conn, dsn) as slots:
        await live(conn, chance, events)
        items = await decoded(conn, dsn, slots["pgoutput"], "pgoutput")
        ours = changes(items)
        others = await printed(dsn, slots["test_decoding"])
        assert len(ours) >= events // 2
        for mine, other in zip(ours, others, strict=True):
            same(told(mine), other)
        if "wal2json" in slots:
            theirs = await decoded(conn, dsn, slots["wal2json"], "wal2json")
            assert frames(items) == frames(theirs)
            for mine, other in zip(ours, changes(theirs), strict=True):
                assert (mine.commit_lsn, mine.ordinal) == (other.commit_lsn, other.ordinal)
                same(told(without_what_wal2json_loses(mine)), told(other))
    return len(ours)


# What wal2json cannot write down: numbers that JSON has no form for.  Nothing else.
LOST = {"numeric", "real", "double precision"}


def without_what_wal2json_loses(change: Change) -> Change:
    """A change as wal2json can tell it."""
    lossy = {
        column.name
        for column in change.relation.columns
        if column.type_name.partition("(")[0] in LOST
    }

    def kept(row: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        if row is None:
            return None
        return {
            name: None if name in lossy and _is_no_json(each) else each
            for name, each in row.items()
        }

    return replace(change, new=kept(change.new), old=kept(change.old))


def _is_no_json(value: object) -> bool:
    return isinstance(value, float | Decimal) and not math.isfinite(value)
