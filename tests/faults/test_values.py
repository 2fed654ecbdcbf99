"""Every type, encoding, identity and setting: the same change, whoever decodes it.

Identical WAL is read through copies of one slot: by pgoutput and wal2json with the code under test,
by test_decoding with a parser of the rig's own.
"""

import math
import random
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.conftest import DROP_SLOTS, END_READERS
from tests.faults.rig.decoding import UNSENT, Event, read_events
from tests.faults.rig.stage import Figure
from tests.faults.rig.values import KINDS, TYPES, column_name, columns_sql, literal
from tests.helpers.daemon import daemon
from tests.helpers.database import (
    attach,
    column,
    message_of,
    refused,
    rows,
    run_all,
    session,
    value,
)
from tests.integration.wal.reading import changes, read_to, wal_end
from walagent.domain.change import UNCHANGED, Begin, Change, Commit, Item, Piece
from walagent.models.script import call
from walagent.postgres.connection import TEXT_FORMS
from walagent.store.install.migrate import migrate
from walagent.store.sessions.connections import connect
from walagent.wal.options import Plugin, StreamOptions
from walagent.wal.stream import open_stream

pytestmark = pytest.mark.scenario(11)
PLUGINS = ["pgoutput", pytest.param("wal2json", marks=pytest.mark.wal2json)]

# One table for each way to say which row it was; `grouped` has a key of two columns.
IDENTITIES: Mapping[str, str] = {
    "keyed": "id int primary key, twice int generated always as (id * 2) stored,"
    " serial bigint generated always as identity",
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
            same(told(mine), without_generated(other))
        if "wal2json" in slots:
            theirs = await decoded(conn, dsn, slots["wal2json"], "wal2json")
            assert frames(items) == frames(theirs)
            for mine, other in zip(ours, changes(theirs), strict=True):
                assert (mine.commit_lsn, mine.ordinal) == (other.commit_lsn, other.ordinal)
                same(told(without_what_wal2json_loses(mine)), told(other))
    return len(ours)


def without_generated(event: Event) -> Event:
    """A change without the column that pgoutput leaves out."""
    sides = (
        {n: v for n, v in (row or {}).items() if n != "twice"} for row in (event.new, event.old)
    )
    return Event(event.xid, event.op, event.table, *sides)


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


# Encodings.


@pytest.fixture
async def encoded(request: pytest.FixtureRequest, server: str) -> AsyncIterator[str]:
    """A migrated database of the encoding that the test is called with."""
    name = f"walagent_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            f"create database {name} encoding '{request.param}' template template0"
            " lc_collate 'C' lc_ctype 'C' locale_provider libc".encode()
        )
        dsn = make_conninfo(server, dbname=name)
        async with await connect(dsn) as conn:
            await migrate(conn)
        yield dsn
        admin.execute(END_READERS, [name])
        admin.execute(DROP_SLOTS, [name])
        admin.execute(f"drop database {name} with (force)".encode())


@asynccontextmanager
async def application(dsn: str) -> AsyncIterator[AsyncConnection]:
    """A connection of the application, which reads JSON exactly."""
    async with await connect(dsn) as conn:
        await conn.execute("set search_path = public")
        yield conn


def of(*encodings: str) -> pytest.MarkDecorator:
    """Run a test in a database of each of these encodings."""
    return pytest.mark.parametrize("encoded", encodings, indirect=True)


MODEL = "insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');"


@pytest.mark.few(1)
@of("LATIN1", "EUC_JP", "WIN1252", "UTF8")
@pytest.mark.parametrize("plugin", PLUGINS)
async def test_text_is_text_in_every_encoding(encoded: str, plugin: str) -> None:
    """Of names, values, conditions, prompts and answers: what was written is what is read."""
    async with application(encoded) as conn:
        encoding = await value(conn, "select getdatabaseencoding()")
        word, name = ("日本", "表") if encoding == "EUC_JP" else ("größer £", "Straße")
        await run_all(
            conn,
            f'{MODEL} create table "{name}" (id int primary key, "{word}" text, answer text)',
        )
        answers = [call("update_row", answer=f"{word}!")]
        async with daemon(conn, encoded, answers, plugin=plugin) as d:
            await conn.execute(
                "select agent.attach(%s::regclass, 'fake', name => 'desk', writes => '{answer}',"
                " condition => %s)",
                [f'"{name}"', f"new.\"{word}\" = '{word}'"],
            )
            await run_all(conn, f"insert into \"{name}\" values (1, '{word}'), (2, 'x')")
            assert await d.ended() == [("1", "succeeded", "", None)]
            await d.caught_up()
        assert await rows(conn, f'select id, answer from "{name}" order by 1') == [
            (1, f"{word}!"),
            (2, None),
        ]
        assert (
            await value(conn, "select change -> 'new' ->> %s from agent.run limit 1", word) == word
        )


@pytest.mark.few(1)
@of("SQL_ASCII")
@pytest.mark.parametrize("plugin", PLUGINS)
async def test_bytes_that_are_no_text_stop_nobody(encoded: str, plugin: str) -> None:
    """A condition sees them as they are, a model and a person as they can be written."""
    async with application(encoded) as conn:
        await run_all(
            conn,
            MODEL + "create table t (id int primary key, name text, doc jsonb, answer text);"
            "create table keyed (name text primary key, answer text)",
        )
        answers = [call("update_row", answer="ü"), "ok"]
        async with daemon(conn, encoded, answers, plugin=plugin) as d:
            for name, condition in CONDITIONS.items():
                await conn.execute(
                    "select agent.attach('t', 'fake', name => %s, condition => %s,"
                    " writes => '{answer}')",
                    [name, condition],
                )
            await attach(conn, "name=all, writes=[answer]", "t")
            await attach(conn, "writes=[answer]", "keyed")
            await run_all(
                conn,
                "insert into t (id, name, doc) values (1, E'caf\\xe9', E'{\"k\": \"\\xff\"}'),"
                " (2, 'café', '{}'), (3, 'plain', null);"
                "insert into keyed values (E'k\\xff'), ('k')",
            )
            await d.until(
                "select count(*) = 9 and bool_and(agent_internal.is_final(state)) from agent.run"
            )
            await d.caught_up()
        assert await value(conn, "select array_agg(answer order by id) from t") == ["ü"] * 3
        assert await rows(conn, "select name = 'k', answer from keyed order by 2") == [
            (True, "ü"),
            (False, None),
        ]
        found = "select key from agent.run_overview where attachment = %s order by key"
        assert {name: await column(conn, found, name) for name in CONDITIONS} == {
            "latin": ["1"],
            "utf8": ["2"],
            "long": ["1"],
            "in json": ["1"],
        }
        shown = await value(
            conn,
            "select change from agent.run_overview o join agent.run r using (id)"
            " where attachment = 'all' and r.key = '1'",
        )
        assert shown["new"]["name"] == "caf\\xe9"
        assert shown["new"]["doc"] == '{"k": "\\xff"}'
        assert shown["stray_bytes"] == ["doc", "name"]
        assert await rows(
            conn, "select key, state::text, error from agent.run_overview where state = 'dead'"
        ) == [
            (
                "k\\xff",
                "dead",
                'column "name" is not valid text: a tool would not find the row',
            )
        ]


CONDITIONS = {
    "latin": "new.name = convert_from('\\x636166e9', 'SQL_ASCII')",
    "utf8": "new.name = 'café'",
    "long": "length(new.name) = 4",
    "in json": "new.doc ->> 'k' = convert_from('\\xff', 'SQL_ASCII')",
}


@pytest.mark.slow
@of("SQL_ASCII")
async def test_what_no_model_could_read_is_refused_or_written_out(encoded: str) -> None:
    """A prompt is refused at attach; a tool's answer is told with its bytes written out."""
    async with application(encoded) as conn:
        await run_all(
            conn,
            MODEL + "create table t (id int primary key);"
            "create function speak() returns text language sql as $$ select E'caf\\xe9' $$;"
            "create function fail() returns text language plpgsql"
            " as $$ begin raise 'no %', E'caf\\xe9'; end $$",
        )
        statement = "select agent.attach('t', E'model=fake, system_prompt=\"caf\\xe9\"')"
        error = await refused(conn, statement, state="WA013")
        assert "not valid UTF-8" in message_of(error)
        answers = [[call("speak"), call("fail")], "ok"]
        async with daemon(conn, encoded, answers) as d:
            await attach(conn, "tools=[speak, fail]", "t")
            await run_all(conn, "insert into t values (1)")
            assert await d.ended() == [("1", "succeeded", "ok", None)]
        said = "select content ->> 'content' from agent.step where kind = 'result' order by seq"
        assert await column(conn, said) == ["caf\\351", "no caf\\351 (SQLSTATE P0001)"]


@pytest.mark.slow
@of("LATIN1")
async def test_a_model_may_say_what_the_database_has_no_letters_for(encoded: str) -> None:
    """Its words are kept with what is missing written out; what a tool would write is refused."""
    async with application(encoded) as conn:
        await run_all(conn, MODEL + "create table t (id int primary key, answer text)")
        answers = [call("update_row", answer="5 €"), call("update_row", answer="5 £"), "done … 🦆"]
        async with daemon(conn, encoded, answers) as d:
            await attach(conn, "writes=[answer], finish=answer", "t")
            await run_all(conn, "insert into t values (1)")
            assert await d.ended() == [("1", "succeeded", r"done \u2026 \U0001f986", None)]
        said = "select content ->> 'content' from agent.step where kind = 'result' order by seq"
        assert await column(conn, said) == [
            r"encoding LATIN1 of the database cannot represent '\u20ac'",
            "updated",
        ]
        assert await rows(conn, "select * from t") == [(1, "5 £")]
        replies = "select content::text from agent.step where kind = 'reply' order by seq"
        assert r"5 \\u20ac" in (await column(conn, replies))[0]


# Styles of sessions.


@pytest.mark.slow
async def test_a_constant_means_what_it_meant_to_its_author(
    conn: AsyncConnection, dsn: str
) -> None:
    """Whatever the styles of who attaches, of the database, and of who evaluates."""
    await run_all(
        conn,
        MODEL + "create table t (id int primary key, d date, ts timestamptz, i interval, b bytea);"
        "set datestyle = 'German, DMY'; set intervalstyle = 'sql_standard';"
        "set timezone = 'Asia/Tokyo'; set bytea_output = 'escape'",
    )
    for condition in (
        "new.d = '02.03.2026'",
        "new.ts = '02.03.2026 04:05:06'",
        "new.i = '-1 2:03'",
        "new.b = '\\x0041ff'",
    ):
        await conn.execute(
            "select agent.attach('t', 'fake', name => %s, condition => %s)", [condition, condition]
        )
    await run_all(conn, f"alter database {conn.info.dbname} set datestyle = 'SQL, MDY'")
    await run_all(conn, f"alter database {conn.info.dbname} set intervalstyle = 'iso_8601'")
    async with daemon(conn, dsn, ["ok"]) as d:
        await run_all(
            conn,
            "insert into t values (1, '02.03.2026', '02.03.2026 04:05:06', '-1 2:03', '\\x0041ff'),"
            " (2, '03.02.2026', '03.02.2026 04:05:06', '1 2:03', '\\x0041')",
        )
        await d.caught_up()
        found = await rows(
            conn,
            "select key, count(*) from agent.run_overview"
            " where attachment <> 'sentinel' group by 1",
        )
    assert found == [("1", 4)]


async def test_a_tool_reads_dates_as_its_database_does(conn: AsyncConnection, dsn: str) -> None:
    """Day before month where that is the default; what comes out is always the same form."""
    await run_all(
        conn,
        MODEL + "create table t (id int primary key, d date);"
        "create table booked (d date, lasts interval);"
        "create function book(day text, lasts text) returns text language sql as"
        " $$ insert into booked values (day::date, lasts::interval) returning (d, lasts)::text $$",
    )
    await run_all(conn, f"alter database {conn.info.dbname} set datestyle = 'SQL, DMY'")
    await run_all(conn, f"alter database {conn.info.dbname} set intervalstyle = 'iso_8601'")
    booking = call("book", day="02/03/2026", lasts="P1D")
    answers = [[booking, call("update_row", d="04/05/2026")], booking, "ok"]
    async with daemon(conn, dsn, answers) as d:
        await attach(conn, "writes=[d], tools=[book]", "t")
        await run_all(conn, "insert into t values (1)")
        assert await d.ended() == [("1", "succeeded", "ok", None)]
    assert await rows(conn, "select d from t") == [(date(2026, 5, 4),)]
    assert await rows(conn, "select * from booked") == [(date(2026, 3, 2), timedelta(days=1))] * 2
    said = "select content ->> 'content' from agent.step where kind = 'result' order by seq"
    assert await column(conn, said) == ['(2026-03-02,"1 day")', "updated", '(2026-03-02,"1 day")']


# Columns that the WAL does not carry.


@pytest.mark.slow
async def test_a_generated_column_is_refused_where_it_never_arrives(
    conn: AsyncConnection, dsn: str
) -> None:
    """A condition would see NULL for ever; from version 18 on, the server sends stored ones."""
    await run_all(
        conn,
        MODEL + "create function f(n int) returns void language sql as '';"
        "create table t (id int primary key, n int, twice int generated always as (n * 2) stored)",
    )
    uses = (
        'when="new.twice > 2"',
        "columns=[twice]",
        "ordering_key=[twice]",
        "tools=[f], bind=[n=twice]",
    )
    if conn.info.server_version < 180000:
        for spec in uses:
            error = await refused(conn, "select agent.attach('t', %s)", f"model=fake, {spec}")
            assert 'generated column "twice"' in message_of(error)
        return
    await run_all(conn, "alter table t add thrice int generated always as (n * 3) virtual")
    error = await refused(conn, "select agent.attach('t', 'model=fake, when=\"new.thrice > 2\"')")
    assert 'generated column "thrice"' in message_of(error)
    async with daemon(conn, dsn, ["ok"]) as d:
        for number, spec in enumerate(uses):
            await attach(conn, f"name=a{number}, {spec}", "t")
        await run_all(conn, "insert into t values (1, 1), (2, 2)")
        await d.ended(7)
        assert await column(conn, "select key from agent.run_overview where attachment = 'a0'") == [
            "2"
        ]
