"""Conditions, evaluated by PostgreSQL on what the WAL brought."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.sql import Literal

from tests.helpers.build import attachment, change
from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, column, role, rows, run_all, value
from walagent.config import Config
from walagent.domain.attachment import Attachment
from walagent.domain.change import UNCHANGED, Change, Column, Op, Relation, Row
from walagent.domain.run import RunState
from walagent.explain.facts import explain, sentences
from walagent.intake.conditions import Evaluator, open_evaluator
from walagent.intake.new_runs import state_of
from walagent.intake.verdicts import Deferred, Gone, Raised
from walagent.matching.match import Candidates, Match
from walagent.message import Json
from walagent.postgres.lsn import Lsn
from walagent.postgres.text_values import PARSERS, kind_of
from walagent.store.role_reader import RoleReader, RoleStatement

TYPES = """
create type mood as enum ('good', 'bad');
create type place as (street text, no int);
create domain grade as text check (value in ('a', 'b'));
create table things (
    id int primary key, n numeric, f float8, r real, big bigint, truth boolean, body text,
    few varchar(9), padded char(5), day date, at timestamptz, span interval, blob bytea, doc jsonb,
    plain json, mood mood, moods mood[], numbers int[], place place, grade grade, range int4range,
    ip inet, money money, bits bit(3), words text[]
);
"""
# Row 1 has everything, row 2 nothing but a key, row 3 what is awkward.
THINGS = """
insert into things values
    (1, 12345678901234567890.123456789, 0.1, 1.5, 9007199254740993, true, 'Äpfel & 100%',
     'x''y', 'ab', '2026-01-02', '2026-01-02 03:04:05.678+00', '1 day 2 hours', '\\x00ff',
     '{"k": {"a": [1, 2.50]}, "s": "\\"q\\""}', '{"k": 1, "k": 2}', 'good', '{good,bad}',
     '{1,2,null}',
     row('Main "St", 1', 7), 'a', '[1,5)', '10.0.0.1/8', 12.34, '101', '{"a,b","c\\"d",null}'),
    (3, 'NaN', 'Infinity', '-Infinity', -1, false, '', '', '', '0044-03-15 BC', 'infinity', '0',
     '', '[]', '0', 'bad', '{}', '{{1,2},{3,4}}', row(null, null), 'b', 'empty', '::1', -1, '000',
     '{}');
"""
EMPTY = "insert into things (id) values (2)"
TYPED: dict[str, list[int]] = {
    "true": [1, 2, 3],
    "new.n > 5": [1, 3],  # NaN is greater than every number
    "new.n is null": [2],
    "not new.n > 5": [],
    "new.n = 12345678901234567890.123456789": [1],
    "new.n = 'NaN'": [3],
    "new.f = 0.1": [1],
    "new.f = 'Infinity' and new.r = '-Infinity'": [3],
    "new.big = 9007199254740993": [1],
    "new.truth": [1],
    "new.truth is not true": [2, 3],
    "new.body like '%100\\%'": [1],
    "new.body = 'Äpfel & 100%'": [1],
    "new.body collate \"C\" < 'a'": [3],
    "upper(new.body) = 'ÄPFEL & 100%'": [1],
    "new.body = ''": [3],
    "new.few = 'x''y'": [1],
    "new.padded = 'ab'": [1],
    "length(new.padded) = 2": [1],
    "new.day = '2026-01-02'": [1],
    "extract(year from new.day) < 0": [3],
    "new.at = '2026-01-02 04:04:05.678+01'": [1],
    "new.at = 'infinity'": [3],
    "new.span = interval '26 hours'": [1],
    "new.blob = '\\x00ff'": [1],
    "new.doc -> 'k' -> 'a' ->> 0 = '1'": [1],
    "(new.doc -> 'k' -> 'a' ->> 1)::numeric = 2.5": [1],
    "new.doc ->> 's' = '\"q\"'": [1],
    "jsonb_typeof(new.doc) = 'object'": [1],
    "jsonb_typeof(new.doc) = 'array' and new.plain::text = '0'": [3],
    "new.plain ->> 'k' = '2'": [1],
    "new.mood = 'good'": [1],
    "new.moods[2] = 'bad'": [1],
    "new.numbers[3] is null and new.numbers[2] = 2": [1],
    "array_ndims(new.numbers) = 2": [3],
    "(new.place).no = 7 and (new.place).street = 'Main \"St\", 1'": [1],
    "new.grade = 'a'": [1],
    "4 <@ new.range": [1],
    "isempty(new.range)": [3],
    "new.ip <<= '10.0.0.0/8'": [1],
    "new.money < 0::money": [3],
    "new.bits = B'101'": [1],
    "new.words[1] = 'a,b' and new.words[2] = 'c\"d'": [1],
    "old.id is null": [1, 2, 3],
    "new is not null": [1, 3],
    "old is null": [1, 2, 3],
    "new is distinct from old": [1, 2, 3],
    "new.body = '{}' or new.body = '{0} %s {condition}'": [],
}


@pytest.fixture
async def evaluator(conn: AsyncConnection[Any]) -> AsyncIterator[Evaluator]:
    """Evaluates conditions as their roles."""
    async with open_evaluator(conn) as made:
        yield made


async def attach_all(
    conn: AsyncConnection, table: str, conditions: dict[str, Json], on: str
) -> None:
    """One attachment for each condition, named after it; none of them starts a run."""
    for condition in conditions:
        await conn.execute(
            "select agent.attach(%s::regclass, 'fake', name => %s, condition => %s, ops => %s)",
            [table, condition, condition, on.split(",")],
        )
        await conn.execute("select agent.pause(%s)", [condition])


async def fired(conn: AsyncConnection) -> dict[str, list[int]]:
    """Which rows each attachment acts on; the ids of dead runs are negative."""
    found: dict[str, list[int]] = {}
    for name, key, state in await rows(
        conn,
        "select attachment, key::int, state::text from agent.run_overview"
        " where attachment <> 'sentinel' order by attachment, abs(key::int)",
    ):
        found.setdefault(name, []).append(-key if state == "dead" else key)
    return found


async def check(d: Daemon, conditions: dict[str, list[int]], subtests: pytest.Subtests) -> None:
    """Compare what fired with what should have."""
    await d.caught_up()
    found = await fired(d.conn)
    for condition, expected in conditions.items():
        with subtests.test(condition):
            assert found.get(condition, []) == expected


@pytest.mark.slow
async def test_a_condition_means_what_it_means_in_a_query(
    conn: AsyncConnection, dsn: str, subtests: pytest.Subtests
) -> None:
    """Every type, NULL, casts, collations, quotes, percent signs and braces."""
    await run_all(conn, DESK + TYPES)
    async with daemon(conn, dsn) as d:
        await attach_all(conn, "things", TYPED, "insert")
        await run_all(conn, f"{EMPTY}; {THINGS}")
        await check(d, TYPED, subtests)
        plain = {
            condition: await column(
                conn,
                f"select new.id from things new, things old where old.id = 2 and ({condition})"
                " order by 1",
            )
            for condition in TYPED
            if "old" not in condition
        }
    assert plain == {name: TYPED[name] for name in plain}


@pytest.mark.wal2json
async def test_the_other_plug_in_brings_the_same_types(
    conn: AsyncConnection, dsn: str, subtests: pytest.Subtests
) -> None:
    """But for the digits and the infinities that it does not keep."""
    lost = ("new.n ", "Infinity", "'infinity'", "new is not null")
    kept = {name: ids for name, ids in TYPED.items() if not any(part in name for part in lost)}
    await run_all(conn, DESK + TYPES)
    async with daemon(conn, dsn, parts=("reader",), plugin="wal2json") as d:
        await attach_all(conn, "things", kept, "insert")
        await run_all(conn, f"{EMPTY}; {THINGS}")
        await check(d, kept, subtests)


async def test_names_with_percent_signs_are_names(conn: AsyncConnection, dsn: str) -> None:
    """Of tables, columns and keys; where rows are evaluated, looked up, backfilled and updated."""
    await run_all(
        conn,
        DESK + 'create table "100%s" ("%id" int primary key, "a%b" text);'
        'alter table "100%s" enable row level security; alter table "100%s" alter "a%b" set storage'
        " external; insert into \"100%s\" values (1, repeat('x', 9000))",
    )
    async with daemon(conn, dsn, ["ok"]) as d:
        await conn.execute(
            "select agent.attach('\"100%%s\"'::regclass, 'fake', name => 'desk', backfill => true,"
            " ops => '{insert,update}', condition => %s)",
            ['length(new."a%b") > 10 and new."a%b" not like \'%y\''],
        )
        await d.ended(1)
        await run_all(conn, 'update "100%s" set "%id" = "%id"')
        assert await d.ended(2) == [("1", "succeeded", "ok", None)] * 2


@pytest.mark.slow
async def test_a_row_on_which_a_condition_raises_is_a_dead_run(
    conn: AsyncConnection, dsn: str
) -> None:
    """With the error; the other rows and the other agents go on, and so does the stream."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn) as d:
        conditions = {"100 / new.amount > 1": None, "true": None}
        await attach_all(conn, "support_tickets", conditions, "insert")
        await run_all(
            conn,
            "insert into support_tickets (id, amount)"
            " values (1, 5), (2, 0), (3, 500), (4, 7), (5, 0), (6, null)",
        )
        await d.caught_up()
        assert await fired(conn) == {
            "100 / new.amount > 1": [1, -2, 4, -5],
            "true": [1, 2, 3, 4, 5, 6],
        }
        dead = await rows(conn, "select error from agent.run where state = 'dead'")
        assert dead[0][0] == {
            "reason": "condition raised an error: division by zero",
            "sqlstate": "22012",
        }
        await run_all(conn, "insert into support_tickets (id, amount) values (7, 1)")
        await d.caught_up()
        assert (await fired(conn))["true"][-1] == 7


UPDATES: dict[str, list[int]] = {
    "old.status = 'open' and new.status = 'closed'": [1],
    "new.status is distinct from old.status": [1],
    "old.status is null": [],
    "new.issue is distinct from old.issue": [2],
    "old.id <> new.id": [30],
    "length(new.issue) > 9000": [1, 3],
    "length(old.issue) > 9000": [1, 3],
}
DEFAULTS: dict[str, list[int]] = {
    "old.status is null": [1, 2, 3, 30],
    "old.id is null": [1, 2, 3],  # the key is sent only where it changed
    "old.id <> new.id": [30],
    "length(new.issue) > 9000": [1, 3],
    "new.status = 'closed'": [1],
}
CHANGES = """
update support_tickets set status = 'closed' where id = 1;
update support_tickets set issue = 'short' where id = 2;
update support_tickets set amount = 1 where id = 3;
update support_tickets set id = 30, issue = 'x' where id = 3;
"""


@pytest.mark.few(1)
@pytest.mark.parametrize("identity", ["full", "default"])
async def test_updates_are_judged_by_what_the_wal_brings(
    conn: AsyncConnection, dsn: str, identity: str, subtests: pytest.Subtests
) -> None:
    """Full identity: the whole old row.  Default: its key where that changed, and no more.

    A long text that an update did not touch is not in the WAL: it is taken from the old row, or
    from the row as it is now.
    """
    conditions = UPDATES if identity == "full" else DEFAULTS
    await run_all(
        conn,
        DESK
        + "alter table support_tickets alter issue set storage external;"
        + f"alter table support_tickets replica identity {identity};"
        + "insert into support_tickets (id, issue)"
        " select n, repeat('long', 2500) from generate_series(1, 3) n",
    )
    async with daemon(conn, dsn) as d:
        await attach_all(conn, "support_tickets", dict.fromkeys(conditions), "update")
        await run_all(conn, CHANGES.replace("issue = 'x'", "issue = issue"))
        # Row 3 is row 30 already: its value is gone, so nobody can say whether it matches.
        if identity == "default":
            conditions = conditions | {"length(new.issue) > 9000": [1, -3, 30]}
        else:
            conditions = conditions | {
                "length(new.issue) > 9000": [1, 3, 30],
                "length(old.issue) > 9000": [1, 2, 3, 30],
            }
        await check(d, conditions, subtests)


LARGE = """
create table page (id int primary key, a int, big text);
alter table page alter big set storage external;
insert into page select n, 1, repeat('x', 5000) from generate_series(1, 6) n;
"""
# In one transaction each: the value is gone when the condition is evaluated, or was written before.
GONE = """
begin; update page set a = 2 where id = 1; delete from page where id = 1; commit;
begin; update page set a = 2 where id = 2; update page set id = 20 where id = 2; commit;
begin; update page set big = repeat('y', 4500), a = 2 where id = 3;
update page set a = 3 where id = 3; delete from page where id = 3; commit;
begin; insert into page values (7, 1, repeat('z', 6000)); update page set a = 2 where id = 7;
update page set id = 70 where id = 7; delete from page where id = 70; commit;
update page set a = 4 where id = 4;
"""


@pytest.mark.parametrize(
    "plugin", ["pgoutput", pytest.param("wal2json", marks=pytest.mark.wal2json)]
)
async def test_a_value_that_is_gone_is_no_null(
    conn: AsyncConnection, dsn: str, plugin: str
) -> None:
    """Neither a match nor its absence is silent: a run says so, and `why` shows it.

    A value that the same transaction wrote is known.
    """
    await run_all(conn, DESK + LARGE)
    async with daemon(conn, dsn, parts=("reader",), plugin=plugin) as d:
        conditions = ("new.big is null", "length(new.big) > 4000", "new.a = 4")
        await attach_all(conn, "page", dict.fromkeys(conditions), "insert,update")
        await run_all(conn, GONE)
        await d.caught_up()
        # Row 20 is there when it is evaluated; what happened to it before needs no lookup.
        assert await fired(conn) == {
            "new.big is null": [-1, -2],
            "length(new.big) > 4000": [-1, -2, 3, 3, 4, 7, 7, 20, 70],
            "new.a = 4": [4],
        }
        (reason, state) = (
            await rows(
                conn,
                "select distinct error ->> 'reason', error ->> 'sqlstate' from agent.run"
                " where state = 'dead'",
            )
        )[0]
        assert '"big"' in reason
        assert "could not be evaluated" in reason
        assert state == "02000"
        told = [*sentences(await explain(conn, Config(), "page", "1"))]
        assert any("could not be evaluated" in line for line in told)


async def test_deletes_are_judged_by_their_old_row(conn: AsyncConnection, dsn: str) -> None:
    """The new one is NULL in all of its columns."""
    await run_all(
        conn,
        DESK + "alter table support_tickets replica identity full;"
        "insert into support_tickets (id, status) values (1, 'open'), (2, 'closed')",
    )
    async with daemon(conn, dsn) as d:
        conditions = {"old.status = 'open'": [1], "new.status = 'open'": [], "new is null": [1, 2]}
        await attach_all(conn, "support_tickets", dict.fromkeys(conditions), "delete")
        await run_all(conn, "delete from support_tickets")
        await d.caught_up()
        assert await fired(conn) == {"old.status = 'open'": [1], "new is null": [1, 2]}


async def test_only_updates_of_watched_columns_count(conn: AsyncConnection, dsn: str) -> None:
    """`columns` names them; where the old row is known, an update that changes none is passed over.

    Where it is not, it may have changed one.
    """
    await run_all(
        conn,
        DESK + "create table by_key (id int primary key, a text, b text);"
        "create table by_row (id int primary key, a text, b text);"
        "alter table by_row replica identity full;"
        "insert into by_key values (1, 'a', 'b'); insert into by_row values (1, 'a', 'b')",
    )
    async with daemon(conn, dsn) as d:
        for table in ("by_key", "by_row"):
            await attach(conn, f"name={table}, on=[update], columns=[a]", table)
            await value(conn, "select agent.pause(%s)", table)
            for changed in ("b = 'x'", "a = 'a'", "a = 'y'"):
                await run_all(conn, f"update {table} set {changed}")
        await d.caught_up()
        found = await rows(
            conn,
            "select attachment, r.change -> 'new' from agent.run_overview o join agent.run r"
            " using (id) where attachment <> 'sentinel' order by id",
        )
    assert found == [
        ("by_key", {"id": 1, "a": "a"}),
        ("by_key", {"id": 1, "a": "a"}),
        ("by_key", {"id": 1, "a": "y"}),
        ("by_row", {"id": 1, "a": "y"}),
    ]


# The evaluate alone.


async def of_table(conn: AsyncConnection, **changes: Json) -> Attachment:
    """An attachment to support_tickets that nobody has checked."""
    oid = await value(conn, "select 'support_tickets'::regclass::oid::bigint")
    me = await value(conn, "select current_user")
    plain = {"relation_oid": oid, "table": "support_tickets", "run_as": me, "model": "fake"}
    plain["whole_row"] = True  # nobody has looked at what it reads
    return attachment(**(plain | changes))


def insert(row: Row, on: Attachment) -> Match:
    """An inserted row that an attachment may act on."""
    relation = Relation(on.target.relation_oid, on.target.schema, on.target.table)
    return Match(on, change(Op.INSERT, row, relation=relation), None)


@pytest.mark.slow
async def test_a_few_bad_rows_among_many_are_found(
    conn: AsyncConnection, evaluator: Evaluator
) -> None:
    """Each of them, and no other, in the order of the changes."""
    await run_all(conn, DESK)
    on = await of_table(conn, condition="100 / new.amount > 1")
    bad = {0, 77, 500, 501, 799}
    matches = [insert({"id": n, "amount": 0 if n in bad else 5}, on) for n in range(800)]
    verdicts = await evaluator.evaluate(matches)
    assert [isinstance(verdict, Raised) for verdict in verdicts] == [n in bad for n in range(800)]
    assert [v.match if isinstance(v, Raised) else v for v in verdicts] == matches


class Counting(RoleReader):
    """Counts what it executes."""

    reads = 0

    async def read(self, statement: RoleStatement) -> str | None:
        """Execute it."""
        self.reads += 1
        return await super().read(statement)


@pytest.mark.slow
async def test_the_conditions_of_a_table_are_one_statement(conn: AsyncConnection) -> None:
    """Of all agents and tenants with one role; what cannot be together is looked for by halves."""
    await run_all(conn, DESK)
    reader = Counting(conn)
    evaluator = Evaluator(conn, reader)
    plain = {"whole_row": False, "condition_columns": ("id",)}
    many = [
        await of_table(
            conn, **plain | {"id": n, "tenant": f"t{n % 3}", "condition": f"new.id % 7 = {n % 8}"}
        )
        for n in range(300)
    ]
    relation = insert({}, many[0]).change.relation
    changes = [change(Op.INSERT, {"id": n, "amount": 0}, relation=relation) for n in range(20)]
    candidates = [Candidates(on, changes, None) for on in many]

    async def agree() -> int:
        """Evaluate all, compare with one by one, and return how often was asked for all."""
        reader.reads = 0
        together = await evaluator.evaluate_all(candidates)
        reads = reader.reads
        alone = [(await evaluator.evaluate_all([one]))[0] for one in candidates]
        assert together == alone
        return reads

    assert await agree() == 1
    candidates[10:10] = [Candidates(many[3], changes[:5], None)]
    candidates.append(Candidates(many[250], changes[15:], None))
    raising = await of_table(conn, **plain | {"id": 900, "condition": "1 / (new.id - 3) > 0"})
    candidates[100:100] = [Candidates(raising, changes[2:5], None)]
    whole = await of_table(conn, id=901, condition="new.amount = 0")
    candidates.append(Candidates(whole, changes, None))
    assert await agree() < 40
    await reader.aclose()


class Hurried(Counting):
    """Gives each statement half a second."""

    async def read(self, statement: RoleStatement) -> str | None:
        """Execute it."""
        return await super().read(replace(statement, timeout="500ms"))


@pytest.mark.slow
async def test_what_takes_too_long_again_and_again_is_left(conn: AsyncConnection) -> None:
    """Code of the owner of a type or table may sleep, and each row would cost the whole limit."""
    await run_all(conn, DESK)
    slow = "(select pg_sleep(60 + new.id)) is null"
    on = await of_table(conn, condition=slow, whole_row=False, condition_columns=("id",))
    relation = insert({}, on).change.relation
    changes = [change(Op.INSERT, {"id": n}, relation=relation) for n in range(30)]
    reader = Hurried(conn)
    evaluator = Evaluator(conn, reader)
    (verdicts,) = await evaluator.evaluate_all([Candidates(on, changes, None)])
    assert {type(each) for each in verdicts} == {Deferred}
    assert len(verdicts) == 30
    assert reader.reads < 12
    await reader.aclose()


@pytest.mark.slow
async def test_statements_of_many_conditions_are_bounded(
    conn: AsyncConnection, evaluator: Evaluator
) -> None:
    """What was dropped is composed again."""
    await run_all(conn, DESK)
    columns = {"whole_row": False, "condition_columns": ["id"], "condition": "new.id = 1"}
    many = [await of_table(conn, id=n, **columns) for n in range(1, 1101)]
    for attachments in (many, many[:3]):
        matches = [insert({"id": n}, on) for on in attachments for n in (0, 1)]
        assert await evaluator.evaluate(matches) == matches[1::2]
    assert len(evaluator._statements) == 1000  # noqa: SLF001


async def test_a_condition_can_neither_write_nor_look_beyond_its_role(
    conn: AsyncConnection,
    evaluator: Evaluator,
) -> None:
    """Even one that attach would have refused: the evaluate does not rest on that check alone."""
    await run_all(
        conn, DESK + "create sequence counter; grant usage on sequence counter to public;"
    )
    async with role(conn) as name:
        await run_all(conn, f"grant select on support_tickets to {name}")
        for condition, state in (
            ("nextval('public.counter') > 0", "25006"),
            ("exists (select from public.refund)", "42501"),
            ("exists (select from agent_internal.secret)", "42501"),
            ("pg_read_file('/etc/hostname') <> ''", "42501"),
            ("refund_user(1) = ''", "42883"),
            ("pg_sleep(60) is null", "57014"),
        ):
            if state == "57014":
                continue  # ten seconds; the time limit is looked at in the source
            on = await of_table(conn, condition=condition, run_as=name)
            (verdict,) = await evaluator.evaluate([insert({"id": 1}, on)])
            assert isinstance(verdict, Raised | Deferred), condition
            told = verdict.sqlstate if isinstance(verdict, Raised) else verdict.reason
            assert state in told, (condition, verdict)
        assert await value(conn, "select current_user <> %s", name)
    assert await value(conn, "select is_called from counter") is False


async def test_a_present_row_that_the_role_may_not_see_is_not_looked_at(
    conn: AsyncConnection,
    evaluator: Evaluator,
) -> None:
    """Row security holds for the value that the WAL did not bring."""
    await run_all(
        conn,
        DESK + "alter table support_tickets enable row level security;"
        "create policy mine on support_tickets using (status = 'mine');"
        "insert into support_tickets (id, status, issue)"
        " values (1, 'mine', 'secret'), (2, 'theirs', 'secret')",
    )
    async with role(conn) as name:
        await run_all(conn, f"grant select on support_tickets to {name}")
        on = await of_table(
            conn, condition="new.issue = 'secret'", condition_columns=("issue",), run_as=name
        )
        matches = [
            Match(on, Change(Lsn(1), n, Op.UPDATE, Relation(0, "public", "support_tickets"),
                             {"id": n, "issue": UNCHANGED}, None), None)
            for n in (1, 2, 3)
        ]  # fmt: skip
        seen, hidden, gone = await evaluator.evaluate(matches)
        assert (seen, hidden, gone) == (
            matches[0],
            Gone(matches[1], hidden=True),
            Gone(matches[2], hidden=True),
        )
        assert state_of(hidden)[0] is RunState.SKIPPED


async def test_without_conditions_nobody_is_asked(
    conn: AsyncConnection, evaluator: Evaluator
) -> None:
    """Every match is kept, and the database hears nothing."""
    await run_all(conn, DESK)
    on = await of_table(conn)
    matches = [insert({"id": n}, on) for n in range(3)]
    await conn.close()
    assert await evaluator.evaluate(matches) == matches


_TYPES = {
    "bigint": ["1", "-9223372036854775808"],
    "numeric": ["1.00", "1.0", "NaN", "-Infinity", "1e-40", "12345678901234567890.123456789"],
    "double precision": ["0.1", "-0", "NaN", "Infinity", "5e-324"],
    "real": ["0.1", "3.4028235e38"],
    "boolean": ["t", "f"],
    "text": ["", "a", 'say "hi"', "back\\slash", "{a,b}", "NULL", "ünïcode", "line\nbreak", "\x01"],
    "character(5)": ["ab", ""],
    "varchar(3)": ["abc"],
    "json": ['{"a": 1,  "a": 2}', '"x"', "null"],
    "jsonb": ['{"b": [1, "2"]}', "null"],
    "integer[]": ["{1,NULL,3}", "{}", "{{1,2},{3,4}}"],
    "text[]": ['{"a,b","c\\\\d",NULL}'],
    "date": ["2026-02-03", "infinity", "0044-03-15 BC"],
    "timestamptz": ["2026-02-03 04:05:06.789+00"],
    "interval": ["1 year 2 mons 3 days 04:05:06.7"],
    "bytea": [r"\x00ff5c22"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "int4range": ["[1,5)", "empty"],
    "inet": ["10.0.0.1/24"],
    '"char"': ["a"],
    "name": ["n"],
    "box": ["(1,1),(0,0)"],
    "mood": ["so, so", "glad"],
    "spot": ['(1,"a ""b"" \\\\")'],
    "small": ["3"],
}
_SHAPES = """
    create type mood as enum ('so, so', 'glad');
    create type spot as (x integer, note text);
    create domain small as integer check (value < 10);
"""


@pytest.mark.few(8)
@pytest.mark.parametrize("kind", _TYPES)
async def test_both_ways_of_asking_find_the_same(conn: AsyncConnection, kind: str) -> None:
    """By columns and by documents: whatever the type, its values are what they were."""
    await run_all(conn, _SHAPES + f"create table both_ways (id bigint primary key, v {kind})")
    oid = await value(conn, "select 'both_ways'::regclass::oid::bigint")
    type_oid = await value(conn, "select atttypid::bigint from pg_attribute"
                           " where attrelid = 'both_ways'::regclass and attname = 'v'")  # fmt: skip
    columns = (Column("id", 20, "bigint", in_key=True), Column("v", type_oid, kind, in_key=False))
    relation = Relation(oid, "public", "both_ways", columns)
    printed = [await value(conn, f"select %s::{kind}::text", text) for text in _TYPES[kind]]  # pyright: ignore[reportArgumentType]
    parse = PARSERS[kind_of(type_oid)]
    values = [*(parse("t" if v == "true" else "f" if v == "false" else v) for v in printed), None]
    changes = [
        change(Op.INSERT, {"id": n, "v": v}, relation=relation) for n, v in enumerate(values)
    ]
    me = await value(conn, "select current_user")
    reader = RoleReader(conn)
    for text in (*printed, None):
        same = "new.v is null" if text is None else f"new.v::text = {Literal(text).as_string(conn)}"
        on = attachment(
            relation_oid=oid, table="both_ways", run_as=me, model="fake",
            condition=f"({same})", condition_columns=("v",),
        )  # fmt: skip
        evaluator = Evaluator(conn, reader)
        (quick,) = await evaluator.ask_by_columns([on], changes) or [None]
        careful = await evaluator.look_closer([Match(on, one, None) for one in changes])
        assert quick == [shown == text for shown in (*printed, None)]
        # A document has no form for a minus zero, nor for a JSON null beside NULL.
        assert quick == careful or {"-0", "null"} & set(printed)
    await reader.aclose()


async def test_a_cast_from_text_that_somebody_made_is_not_used(
    conn: AsyncConnection, evaluator: Evaluator
) -> None:
    """It may read what a type prints as something else."""
    await run_all(
        conn,
        DESK + "create type odd as (x integer);"
        "create function read_odd(text) returns odd language sql as 'select row(0)::odd';"
        "create cast (text as odd) with function read_odd(text);",
    )
    on = await of_table(conn, condition="new.id = 1", whole_row=False, condition_columns=("id",))
    matches = [insert({"id": n}, on) for n in (1, 2)]
    assert await evaluator.ask_by_columns([on], [match.change for match in matches]) is None
    assert await evaluator.evaluate(matches) == matches[:1]


async def test_an_error_among_equal_rows_is_found_in_each_of_them(
    conn: AsyncConnection, evaluator: Evaluator
) -> None:
    """Rows that look the same to the condition are asked about once, and none is forgotten."""
    await run_all(conn, DESK)
    on = await of_table(
        conn, condition="100 / new.amount > 1", whole_row=False, condition_columns=("amount",)
    )
    amounts = [5, 0, 500, 5, 0]
    matches = [insert({"id": n, "amount": amount}, on) for n, amount in enumerate(amounts)]
    good = [match for match in matches if match.change.new["amount"]]  # pyright: ignore[reportOptionalSubscript]
    assert await evaluator.evaluate(good) == [matches[0], matches[3]]
    verdicts = await evaluator.evaluate(matches)
    assert [v.match.change.ordinal if isinstance(v, Raised) else v for v in verdicts] == [
        matches[0], 0, matches[3], 0
    ]  # fmt: skip
