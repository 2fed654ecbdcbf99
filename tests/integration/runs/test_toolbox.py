"""Tool calls on a real server: the effect and the step are one, and nothing else is left behind."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from decimal import Decimal

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.build import run_of
from tests.helpers.database import DESK, attach, column, role, rows, run_all, value
from tests.helpers.queue import add_runs, claim
from walagent.base import faults
from walagent.base.faults import Crash
from walagent.domain.attachment import Attachment
from walagent.domain.run import Claim, Step, StepKind
from walagent.domain.tool_spec import Effect
from walagent.errors import (
    ConflictError,
    LeaseLostError,
    ToolBrokenError,
    ToolFailedError,
)
from walagent.message import Json, ToolCall
from walagent.moves import Call
from walagent.runs.step_log import StepLog
from walagent.runs.tools.toolbox import Toolbox
from walagent.store.errors import translating
from walagent.store.sessions.connections import Pool, open_pool
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.store.tools import register_python_tools
from walagent.tools.python import Function, PythonTool, ToolContext, tool

STEPS = "select kind, content from agent.step order by run_id, seq"


class Bench:
    """A run in our hands, and the toolbox to call its tools with."""

    def __init__(self, pool: Pool, toolbox: Toolbox, held: Claim, attachment: Attachment) -> None:
        self.pool = pool
        self.toolbox = toolbox
        self.held = held
        self.attachment = attachment
        self.log = StepLog(pool, held)

    async def call(self, name: str, /, **arguments: Json) -> Step:
        """Carry a call out; give its last step."""
        return await self.carry_out(ToolCall(f"c{self.log.seq}", name, arguments))

    async def carry_out(self, call: ToolCall, *, again: bool = False) -> Step:
        """Carry a call out; give its last step."""
        found = self.attachment.agent.tool(call.name)
        assert found is not None, call.name
        run = run_of(self.attachment, self.held)
        with translating():
            await self.toolbox.carry_out(run, Call(call, found, again), self.log)
        return self.log.steps[-1]

    async def answer(self, name: str, /, **arguments: Json) -> str:
        """The answer of a call that succeeds."""
        step = await self.call(name, **arguments)
        assert step.content["is_error"] is False, step.content
        return step.content["content"]

    async def error(self, name: str, /, **arguments: Json) -> str:
        """The answer of a call that fails."""
        step = await self.call(name, **arguments)
        assert step.content["is_error"] is True, step.content
        return step.content["content"]


@asynccontextmanager
async def bench(
    conn: AsyncConnection,
    dsn: str,
    spec: str,
    *,
    change: Mapping[str, Json] | None = None,
    python: tuple[Function, ...] = (),
    size: int = 1,
    table: str = "support_tickets",
    path: str = "",
) -> AsyncIterator[Bench]:
    """Attach, claim a run of row 1, and make a toolbox on a pool of *size* connections."""
    made = {declared(function).target: declared(function) for function in python}
    await register_python_tools(conn, made.values())
    if path:
        await run_all(conn, f"set search_path = {path}")
    attached = await attach(conn, spec, table)
    if path:
        await run_all(conn, "reset search_path")
    document = change or {"op": "insert", "new": {"id": 1, "issue": "x"}}
    await add_runs(conn, attached, None, change=document)
    (held,) = await claim(conn)
    definition = await value(
        conn, "select definition from agent.attachment where id = %s", attached
    )
    async with (
        open_pool(dsn, size=size, application="walagent test") as pool,
        open_tool_connections(pool, lambda: dsn) as calls,
    ):
        yield Bench(pool, Toolbox(calls, made), held, Attachment.from_json(definition))


def declared(function: Function) -> PythonTool:
    """What a declaration has made of a function."""
    return function.__walagent_tool__  # type: ignore[attr-defined] # pyright: ignore[reportFunctionMemberAccess]


# What goes in and what comes out.

FUNCTIONS = (
    DESK
    + """
create schema app;
create type app.mood as enum ('good', 'bad');
create type app.place as (street text, no int);
create domain app.grade as text check (value in ('a', 'b'));
create function show(
    n numeric default 0, b bigint default 0, t text default 't', d date default '2026-01-01',
    truth boolean default true, doc jsonb default '{}', plain json default '1',
    mood app.mood default 'good', place app.place default null, grade app.grade default 'a',
    ns int[] default '{}', ts text[] default '{}', moods app.mood[] default '{}',
    places app.place[] default '{}'
) returns text language sql as $$
    select concat_ws('|', n, b, t, d, truth, doc, plain, mood, place, grade, ns, ts, moods, places)
$$;
create function nothing() returns void language sql as '';
create function null_text() returns text language sql as 'select null::text';
create function row_of_two(out a int, out b text) language sql as $$ select 1, 'x' $$;
create function some_rows(n int) returns table (a int, b text) language sql
    as $$ select g, 'x' from generate_series(1, n) g $$;
create function some_numbers() returns setof int language sql as 'values (1), (2)';
create function long_text() returns text language sql as $$ select repeat('x', 100000) $$;
create function who() returns text language sql as 'select current_user::text';
"""
)
SHOWN = [
    ({}, "0|0|t|2026-01-01|t|{}|1|good|a|{}|{}|{}|{}"),
    ({"n": Decimal("12345678901234567890.123456789")}, "12345678901234567890.123456789|0|t|"),
    ({"n": 0.1}, "0.1|0|"),
    ({"b": 2**62}, f"0|{2**62}|"),
    ({"t": 'it\'s "quoted" $1 %s \\ é'}, '|it\'s "quoted" $1 %s \\ é|'),
    ({"t": 5}, "|5|"),
    ({"t": None}, "0|0|t|2026-01-01|t|"),  # null of an argument with a default is the default
    ({"truth": False}, "|f|"),
    ({"doc": {"a": [1, None]}, "plain": ["x"]}, '|{"a": [1, null]}|["x"]|'),
    ({"doc": "text"}, '|"text"|'),
    ({"mood": "bad", "grade": "b"}, "|bad|b|"),
    ({"place": {"street": 'Main, "St"', "no": 7}}, '|("Main, ""St""",7)|'),
    ({"ns": [1, 2], "ts": ["a,b", 'c"d', None, ""]}, '|{1,2}|{"a,b","c\\"d",NULL,""}|'),
    ({"ns": [[1, 2], [3, 4]]}, "|{{1,2},{3,4}}|"),
    ({"ns": []}, "|{}|"),
    ({"moods": ["good", "bad"]}, "|{good,bad}|"),
    ({"places": [{"street": "x", "no": 1}]}, '|{"(x,1)"}'),
    ({"ns": "{5,6}", "place": "(y,2)"}, "|(y,2)|a|{5,6}|"),  # as a bound column of the WAL comes
]


async def test_arguments_arrive_as_the_types_that_are_declared(
    conn: AsyncConnection, dsn: str, subtests: pytest.Subtests
) -> None:
    """Lists, rows, JSON, enums of other schemas, digits; what is left out keeps its default."""
    await run_all(conn, FUNCTIONS)
    async with bench(conn, dsn, "tools=[show]") as b:
        for arguments, shown in SHOWN:
            with subtests.test(str(arguments)):
                assert shown in await b.answer("show", **arguments)


async def test_results_are_text_that_a_model_can_read(conn: AsyncConnection, dsn: str) -> None:
    """Text as it is, rows as JSON, nothing as "done", and not without end."""
    await run_all(conn, FUNCTIONS)
    tools = "tools=[nothing, null_text, row_of_two, some_rows, some_numbers, long_text, show]"
    async with bench(conn, dsn, tools) as b:
        assert await b.answer("nothing") == "done"
        assert await b.answer("null_text") == "done"
        assert await b.answer("row_of_two") == '{"a": 1, "b": "x"}'
        assert await b.answer("some_rows", n=2) == '[{"a": 1, "b": "x"}, {"a": 2, "b": "x"}]'
        assert await b.answer("some_rows", n=0) == "[]"
        assert (await b.answer("some_rows", n=5000)).count('"a"') == 1000
        assert await b.answer("some_numbers") == '[{"some_numbers": 1}, {"some_numbers": 2}]'
        assert len(await b.answer("long_text")) == 65536


async def test_bound_arguments_come_from_the_row_with_all_of_their_digits(
    conn: AsyncConnection, dsn: str
) -> None:
    """Through the WAL's document and the queue, as they were."""
    await run_all(
        conn,
        FUNCTIONS
        + "alter table support_tickets add doc jsonb, add tags int[], add place app.place",
    )
    row = {
        "id": 1,
        "amount": Decimal("12345678901234567890.123456789"),
        "doc": {"n": Decimal("0.1234567890123456789")},
        "tags": "{1,2}",
        "place": '("Main, St",7)',
    }
    spec = "tools=[show], bind=[n=amount, doc=doc, ns=tags, place=place]"
    await run_all(conn, "set search_path = app, public")
    attached = await attach(conn, spec)
    await conn.execute(
        "insert into agent.run"
        " (queue_id, attachment_id, attachment_version, commit_lsn, ordinal, change)"
        " select id, id, 1, '0/1', 0, jsonb_build_object('op', 'insert', 'new', '{\"id\": 1,"
        ' "amount": 12345678901234567890.123456789, "doc": {"n": 0.1234567890123456789},'
        ' "tags": "{1,2}", "place": "(\\"Main, St\\",7)"}\'::jsonb)'
        " from agent.attachment where id = %s",
        [attached],
    )
    definition = await value(conn, "select definition from agent.attachment")
    async with (
        open_pool(dsn, size=1, application="walagent test") as pool,
        open_tool_connections(pool, lambda: dsn) as calls,
    ):
        async with pool.connection() as own:
            (held,) = await claim(own)
        assert held.change["new"] == row
        b = Bench(pool, Toolbox(calls, {}), held, Attachment.from_json(definition))
        shown = await b.answer("show", n=999)
    assert shown.startswith("12345678901234567890.123456789|")
    assert '|{"n": 0.1234567890123456789}|' in shown
    assert '|("Main, St",7)|' in shown
    assert "|{1,2}|" in shown


# As whom.


async def test_a_tool_runs_as_the_role_of_its_attachment(conn: AsyncConnection, dsn: str) -> None:
    """What that role may not do fails with its SQLSTATE, and leaves nothing behind."""
    await run_all(
        conn,
        FUNCTIONS + "create function peek() returns text language sql"
        " as 'select key::text from agent_internal.secret'",
    )
    async with role(conn) as name:
        await run_all(conn, f"grant select on support_tickets to {name}")
        async with bench(
            conn, dsn, f"tools=[who, refund_user, peek], writes=[status], run_as={name}"
        ) as b:
            assert await b.answer("who") == name
            for tool_name, arguments in (
                ("refund_user", {"ticket_id": 1}),
                ("update_row", {"status": "x"}),
                ("peek", {}),
            ):
                error = await b.error(tool_name, **arguments)
                assert "permission denied" in error
                assert "(SQLSTATE 42501)" in error
        await value(conn, "select agent.detach('support_tickets')")
    assert await rows(conn, "select * from refund") == []


async def test_names_inside_a_tool_mean_what_they_meant_when_it_was_attached(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its search_path is kept, whatever the worker's own is."""
    await run_all(
        conn,
        "create schema app; set search_path = app, public;" + DESK,
    )
    async with bench(conn, dsn, "tools=[refund_user], writes=[status], bind=[ticket_id=id]") as b:
        assert await b.answer("refund_user") == "refunded"
    assert await column(conn, "select ticket_id from app.refund") == [1]


# When it fails.

FAILING = (
    DESK
    + """
create table parent (id int primary key);
create table child (id int references parent deferrable initially deferred);
create function fails(how text) returns text language plpgsql as $$
begin
    insert into refund values (1, 1);
    case how
        when 'plain' then raise exception 'no money' using detail = 'empty', hint = 'earn some';
        when 'own' then raise exception 'mine' using errcode = 'WA001';
        when 'division' then perform 1 / 0;
        when 'assert' then assert false, 'must not be';
        when 'deferred' then insert into child values (7);
        when 'serialization' then raise exception 'again' using errcode = '40001';
        when 'lock' then raise exception 'busy' using errcode = '55P03';
        when 'sleep' then perform pg_sleep(60);
        else null;
    end case;
    return 'fine';
end $$;
"""
)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("plain", "no money (SQLSTATE P0001); detail: empty; hint: earn some"),
        ("own", "mine (SQLSTATE WA001)"),
        ("division", "division by zero (SQLSTATE 22012)"),
        ("assert", "must not be (SQLSTATE P0004)"),
        ("deferred", "(SQLSTATE 23503)"),
    ],
)
async def test_what_a_tool_raises_is_its_answer_and_its_effect_is_taken_back(
    conn: AsyncConnection, dsn: str, how: str, told: str
) -> None:
    """The model reads it with the SQLSTATE; the run goes on."""
    await run_all(conn, FAILING)
    async with bench(conn, dsn, "tools=[fails]") as b:
        assert told in await b.error("fails", how=how)
        assert await b.answer("fails", how="not") == "fine"
    assert await value(conn, "select count(*) from refund") == 1
    assert await value(conn, "select count(*) from child") == 0
    (first, _) = await rows(conn, STEPS)
    assert first[1]["sqlstate"] in told


@pytest.mark.few(1)
@pytest.mark.parametrize("how", ["serialization", "lock"])
async def test_what_may_pass_is_no_answer(conn: AsyncConnection, dsn: str, how: str) -> None:
    """The whole step is tried again later; nothing of it is recorded."""
    await run_all(conn, FAILING)
    async with bench(conn, dsn, "tools=[fails]") as b:
        with pytest.raises(ConflictError):
            await b.call("fails", how=how)
        assert await rows(conn, STEPS) == []
        assert await b.answer("fails", how="not") == "fine"
    assert await value(conn, "select count(*) from refund") == 1


async def test_a_tool_that_does_not_end_is_taken_back(conn: AsyncConnection, dsn: str) -> None:
    """After its time the model is told, and the connection is as good as new."""
    await run_all(
        conn,
        FAILING + "insert into agent.tool (name, kind, target, timeout_seconds)"
        " values ('slow', 'sql', 'fails', 1)",
    )
    async with bench(conn, dsn, "tools=[slow, fails]") as b:
        error = await b.error("slow", how="sleep")
        assert error == "slow did not end within 1 s and was rolled back"
        assert await b.answer("fails", how="not") == "fine"
    assert await value(conn, "select count(*) from refund") == 1
    assert await value(
        conn, "select count(*) from pg_stat_activity where query ~ 'pg_sleep' and state = 'active'"
    ) in {0, 1}


# What it leaves behind.

LEAVING = """
create function set_role(name text) returns void language plpgsql as
    $$ begin insert into refund values (1, 1); perform set_config('role', name, false); end $$;
create function leave() returns text language plpgsql as $$
begin
    perform set_config('search_path', 'nowhere', false);
    perform set_config('timezone', 'Asia/Tokyo', false);
    perform set_config('statement_timeout', '1ms', false);
    perform set_config('synchronous_commit', 'off', false);
    perform set_config('my.setting', 'x', false);
    perform pg_advisory_lock(4711);
    create temporary table if not exists refund (ticket_id bigint, amount numeric);
    return 'left';
end $$;
create function look() returns text language sql as $$
    select concat_ws('|', current_user = session_user, current_setting('timezone'),
        current_setting('statement_timeout'), current_setting('synchronous_commit'),
        coalesce(nullif(current_setting('my.setting', true), ''), 'unset'),
        (select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()),
        (select count(*) from pg_class where relnamespace = pg_my_temp_schema()))
$$;
"""


async def test_a_tool_leaves_nothing_in_the_session(conn: AsyncConnection, dsn: str) -> None:
    """The next one on the same connection may be somebody else's."""
    await run_all(conn, DESK + LEAVING)
    async with bench(conn, dsn, "tools=[leave, look, refund_user], bind=[ticket_id=id]") as b:
        before = await b.answer("look")
        assert await b.answer("leave") == "left"
        assert await b.answer("look") == before
        assert before.endswith("|on|unset|0|0")
        assert await b.answer("refund_user") == "refunded"
    assert await value(conn, "select count(*) from public.refund") == 1


async def test_a_tool_cannot_stay_somebody_else(conn: AsyncConnection, dsn: str) -> None:
    """PostgreSQL refuses to set another role, or none, where a tool is executed."""
    await run_all(conn, DESK + LEAVING)
    async with role(conn) as name, role(conn) as other:
        await run_all(
            conn,
            f"grant select on support_tickets to {name}; grant insert on refund to {name};"
            f"grant {other} to {name}",
        )
        async with bench(conn, dsn, f"tools=[set_role, look], run_as={name}") as b:
            for left in (other, "none"):
                error = await b.error("set_role", name=left)
                assert 'cannot set parameter "role"' in error
            assert (await b.answer("look")).startswith("f|")
        await value(conn, "select agent.detach('support_tickets')")
    assert await value(conn, "select count(*) from refund") == 0


# update_row.

ROWS = (
    DESK
    + """
create schema app;
create type app.mood as enum ('good', 'bad');
create table app.things (
    a numeric, b text, n numeric, mood app.mood, doc jsonb, tags text[], untouched text default 'u',
    primary key (a, b)
);
insert into app.things (a, b) values (12345678901234567890.5, 'x''"y'), (1, 'x');
"""
)


async def test_update_row_writes_the_row_that_the_change_was_about(
    conn: AsyncConnection, dsn: str
) -> None:
    """Found by its key, to the last digit; typed; and no other column, no other row."""
    await run_all(conn, ROWS)
    change = {"op": "insert", "new": {"a": Decimal("12345678901234567890.5"), "b": "x'\"y"}}
    await conn.execute(
        "select agent.attach('app.things'::regclass, 'fake', name => 'support_tickets',"
        " writes => '{n,mood,doc,tags}')"
    )
    attached = await value(conn, "select id from agent.attachment")
    definition = await value(conn, "select definition from agent.attachment")
    await conn.execute(
        "insert into agent.run"
        " (queue_id, attachment_id, attachment_version, commit_lsn, ordinal, change)"
        ' select id, id, 1, \'0/1\', 0, \'{"op": "insert", "new":'
        ' {"a": 12345678901234567890.5, "b": "x\'\'\\"y"}}\' from agent.attachment where id = %s',
        [attached],
    )
    async with (
        open_pool(dsn, size=1, application="walagent test") as pool,
        open_tool_connections(pool, lambda: dsn) as calls,
    ):
        async with pool.connection() as own:
            (held,) = await claim(own)
        assert held.change == change
        b = Bench(pool, Toolbox(calls, {}), held, Attachment.from_json(definition))
        told = await b.answer(
            "update_row", n=1.5, mood="bad", doc={"a": [1]}, tags=["p", "q,r"], untouched="hacked"
        )
        assert told == "updated"
        assert "invalid input value for enum" in await b.error("update_row", mood="so-so")
        await run_all(conn, "delete from app.things where a > 2")
        assert "row does not exist" in await b.error("update_row", n=2)
    assert await rows(conn, "select a, n, untouched from app.things") == [(1, None, "u")]


async def test_a_row_without_a_key_is_not_updated(conn: AsyncConnection, dsn: str) -> None:
    """A truncate is about no row: the model is told."""
    await run_all(conn, DESK)
    async with bench(conn, dsn, "writes=[status]", change={"op": "truncate"}) as b:
        assert "does not say which row it was" in await b.error("update_row", status="x")


async def test_do_nothing_does_nothing(conn: AsyncConnection, dsn: str) -> None:
    """And says so."""
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[do_nothing]") as b:
        assert await b.answer("do_nothing") == "ok"


# Python.

called: list[str] = []


@tool()
async def pay(ctx: ToolContext, how: str = "") -> object:  # noqa: C901, PLR0912 - ways to stumble
    """Pay, and then perhaps stumble."""
    assert ctx.conn is not None
    await ctx.conn.execute("insert into refund values (1, 1)")
    match how:
        case "become":
            await ctx.conn.execute("set role none")
        case "types":
            query = "select 1, 1.50, %s::text, null::date, timestamptz '2026-01-01Z', '{1}'::int[]"
            found = await (await ctx.conn.execute(query, ['a "b", (c\\)'])).fetchall()
            return repr(found)
        case "told":
            raise ToolFailedError("no money")
        case "sql":
            await ctx.conn.execute("select 1 / 0")
        case "bug":
            raise KeyError(how)
        case "deferred":
            await ctx.conn.execute("insert into child values (7)")
        case "sleep":
            await asyncio.sleep(60)
        case "leave":
            await ctx.conn.execute("set timezone = 'Asia/Tokyo'")
            await ctx.conn.execute("create temporary table scratch (id int)")
        case "begin":
            await ctx.conn.execute("commit")
            await ctx.conn.execute("begin")
        case "clever":
            await ctx.conn.execute("commit; begin; savepoint _pg3_1; savepoint _pg3_2")
        case "commit" | "rollback":
            await ctx.conn.execute(how.encode())
        case "polite":
            await ctx.conn.commit()
        case "who":
            row = await (await ctx.conn.execute("select current_user::text")).fetchone()
            return row and row[0]
        case "json":
            return {"a": [1, Decimal("1.5")]}
        case "nul":
            return "a\x00b"
        case "long":
            return "x" * 100_000
        case _:
            pass
    return "paid"


@tool(effect=Effect.IDEMPOTENT)
async def post(ctx: ToolContext, how: str = "") -> str:
    """Post it somewhere."""
    assert ctx.conn is None
    called.append(ctx.idempotency_key)
    if how == "told":
        raise ToolFailedError("they said no")
    if how == "bug":
        raise KeyError(how)
    if how == "sleep":
        await asyncio.sleep(60)
    return "posted"


@tool(effect=Effect.UNSAFE)
async def transfer(ctx: ToolContext, how: str = "") -> str:
    """Transfer money, which cannot be taken back."""
    called.append(ctx.idempotency_key)
    if how == "sleep":
        await asyncio.sleep(60)
    return "transferred"


PYTHON = (pay, post, transfer)


async def test_a_python_tool_commits_with_its_step(conn: AsyncConnection, dsn: str) -> None:
    """A crash before the commit leaves neither; after it, both."""
    await run_all(conn, FAILING)
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON) as b:
        for point in ("tool.done", "tool.recorded"):
            with faults.armed(point), pytest.raises(Crash):
                await b.call("pay")
            assert await rows(conn, STEPS) == []
            assert await rows(conn, "select * from refund") == []
        assert await b.answer("pay") == "paid"
    assert await value(conn, "select count(*) from refund") == 1


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("told", "no money"),
        ("sql", "division by zero (SQLSTATE 22012)"),
        ("deferred", "(SQLSTATE 23503)"),
    ],
)
async def test_what_a_python_tool_says_no_to_is_taken_back(
    conn: AsyncConnection, dsn: str, how: str, told: str
) -> None:
    """And told to the model."""
    await run_all(conn, FAILING)
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON) as b:
        assert told in await b.error("pay", how=how)
        assert await rows(conn, "select * from refund") == []
        assert await b.answer("pay") == "paid"


@pytest.mark.parametrize("how", ["commit", "rollback", "begin", "clever"])
async def test_a_python_tool_cannot_end_its_steps_transaction(
    conn: AsyncConnection, dsn: str, how: str
) -> None:
    """PostgreSQL refuses it where statements of a tool are executed; the model is told."""
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON) as b:
        assert "0A000" in await b.error("pay", how=how)
        assert await rows(conn, "select * from refund") == []
        assert await b.answer("pay") == "paid"
    assert await value(conn, "select count(*) from refund") == 1


async def test_a_python_tool_that_asks_to_commit_is_refused(
    conn: AsyncConnection, dsn: str
) -> None:
    """The driver knows better, and the model is told."""
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON) as b:
        assert "commit" in await b.error("pay", how="polite")
        assert await rows(conn, "select * from refund") == []
        assert await b.answer("pay") == "paid"


async def test_an_outside_tool_with_a_broken_database_of_its_own_is_tried_again(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its errors say nothing about ours: not that we lost it, nor that our grants are gone."""
    await run_all(conn, DESK)

    @tool(effect=Effect.IDEMPOTENT)
    async def ask_elsewhere(_ctx: ToolContext) -> str:
        """Ask another database."""
        async with await AsyncConnection.connect(dsn) as other:
            await other.execute("select * from nowhere")
        return "asked"

    async with bench(conn, dsn, "tools=[ask_elsewhere]", python=(ask_elsewhere,)) as b:
        with pytest.raises(ToolBrokenError, match=r"nowhere.*\(SQLSTATE 42P01\)"):
            await b.call("ask_elsewhere")
    assert [kind for kind, _ in await rows(conn, STEPS)] == ["intent"]


async def test_a_bug_in_a_python_tool_is_nobodys_answer(conn: AsyncConnection, dsn: str) -> None:
    """The step is tried again, with nothing recorded."""
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON) as b:
        with pytest.raises(KeyError):
            await b.call("pay", how="bug")
        assert await rows(conn, STEPS) == []
        assert await rows(conn, "select * from refund") == []


async def test_a_python_tool_receives_values_of_their_types(
    conn: AsyncConnection, dsn: str
) -> None:
    """As on a connection of psycopg's."""
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON) as b:
        shown = await b.answer("pay", how="types")
        assert shown.startswith(
            "[(1, Decimal('1.50'), 'a \"b\", (c\\\\)', None, datetime.datetime(2026"
        )
        assert shown.endswith(", [1])]")
        assert 'cannot set parameter "role"' in await b.error("pay", how="become")


async def test_a_python_tool_runs_as_the_role_and_leaves_nothing(
    conn: AsyncConnection, dsn: str
) -> None:
    """Role, settings and temporary tables are as before."""
    await run_all(conn, DESK + LEAVING)
    async with role(conn) as name:
        await run_all(
            conn, f"grant select on support_tickets to {name}; grant insert on refund to {name}"
        )
        spec = f"tools=[pay, look], run_as={name}"
        async with bench(conn, dsn, spec, python=PYTHON) as b:
            before = await b.answer("look")
            assert await b.answer("pay", how="who") == name
            await b.call("pay", how="leave")
            assert await b.answer("look") == before
        await value(conn, "select agent.detach('support_tickets')")


async def test_results_of_python_tools_are_text(conn: AsyncConnection, dsn: str) -> None:
    """JSON for what is none; no byte that PostgreSQL refuses; not without end."""
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON) as b:
        assert await b.answer("pay", how="json") == '{"a":[1,"1.5"]}'
        assert await b.answer("pay", how="nul") == "a\N{REPLACEMENT CHARACTER}b"
        assert len(await b.answer("pay", how="long")) == 65536


async def test_a_python_tool_that_does_not_end_is_taken_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """Where it works in the database, nothing has happened."""
    await run_all(conn, DESK)
    await register_python_tools(conn, [declared(pay)])
    await run_all(conn, "update agent.tool set timeout_seconds = 1 where name = 'pay'")
    async with bench(conn, dsn, "tools=[pay]", python=PYTHON, size=2) as b:
        assert "did not end within 1 s and was rolled back" in await b.error("pay", how="sleep")
        assert await rows(conn, "select * from refund") == []
        assert await b.answer("pay") == "paid"


async def test_a_tool_that_is_not_installed_here_says_so(conn: AsyncConnection, dsn: str) -> None:
    """It was registered by a worker that is gone."""
    await run_all(conn, DESK)
    await register_python_tools(conn, [declared(pay), declared(post)])
    async with bench(conn, dsn, "tools=[pay, post]") as b:
        assert "is not installed on this worker" in await b.error("pay")
        assert "is not installed on this worker" in await b.error("post")


# Outside of the database.


async def test_an_outside_call_is_announced_before_and_answered_after(
    conn: AsyncConnection, dsn: str
) -> None:
    """The intent is durable before anything happens; its key is of this call alone."""
    called.clear()
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[post]", python=PYTHON) as b:
        assert await b.answer("post") == "posted"
        assert await b.error("post", how="told") == "they said no"
    kinds = [kind for kind, _ in await rows(conn, STEPS)]
    assert kinds == ["intent", "result", "intent", "result"]
    key = await value(conn, "select content ->> 'idempotency_key' from agent.step where seq = 0")
    database = await value(conn, "select id from agent_internal.database")
    assert called[0] == key == f"walagent-{database}-1-c0"
    assert called[1] != key


async def test_a_call_that_an_earlier_version_began_keeps_its_key(
    conn: AsyncConnection, dsn: str
) -> None:
    """The key of the recorded intent is sent again, whatever a new one would be."""
    called.clear()
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[post]", python=PYTHON) as b:
        with faults.armed("tool.started"), pytest.raises(Crash):
            await b.call("post")
        await run_all(
            conn,
            'update agent.step set content = content || \'{"idempotency_key": "walagent-1-c0"}\'',
        )
        b.log.append(Step(0, StepKind.INTENT, {}))
        await b.carry_out(ToolCall("c0", "post", {}), again=True)
    assert called == ["walagent-1-c0"]


@pytest.mark.parametrize("name", ["post", "transfer"])
async def test_a_worker_that_was_frozen_before_a_call_checks_its_lease_again(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Meanwhile another worker has the run, and a person may have said that nothing happened."""
    called.clear()
    await run_all(conn, DESK)
    async with bench(conn, dsn, f"tools=[{name}]", python=PYTHON) as b:
        later = time.monotonic() + 3600

        def freeze() -> None:
            with psycopg.connect(dsn, autocommit=True) as other:
                other.execute("update agent.run set lease = lease + 1")
            monkeypatch.setattr("walagent.runs.tools.steps._clock", lambda: later)

        with faults.armed("tool.started", mode=freeze), pytest.raises(LeaseLostError):
            await b.call(name)
    assert called == []


@pytest.mark.parametrize("point", ["tool.started", "tool.done"])
async def test_a_lost_idempotent_call_is_made_again_with_the_same_key(
    conn: AsyncConnection, dsn: str, point: str
) -> None:
    """Before or after it acted: nobody knows, and it does no harm."""
    called.clear()
    await run_all(conn, DESK)
    async with bench(conn, dsn, "tools=[post]", python=PYTHON) as b:
        with faults.armed(point), pytest.raises(Crash):
            await b.call("post")
        assert [kind for kind, _ in await rows(conn, STEPS)] == ["intent"]
        b.log.append(Step(0, StepKind.INTENT, {}))
        step = await b.carry_out(ToolCall("c0", "post", {}), again=True)
    assert step.content["content"] == "posted"
    assert len(set(called)) == 1
    assert [kind for kind, _ in await rows(conn, STEPS)] == ["intent", "result"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["post", "transfer"])
async def test_an_outside_call_that_does_not_end_has_an_unknown_outcome(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """Only its intent is recorded: what happens next is decided by its effect class."""
    called.clear()
    await run_all(conn, DESK)
    await register_python_tools(conn, [declared(post), declared(transfer)])
    await run_all(conn, "update agent.tool set timeout_seconds = 1 where kind = 'python'")
    async with bench(conn, dsn, f"tools=[{name}]", python=PYTHON) as b:
        step = await b.call(name, how="sleep")
        assert step.kind == "intent"
        assert [kind for kind, _ in await rows(conn, STEPS)] == ["intent"]
        if name == "post":
            step = await b.carry_out(ToolCall("c0", "post", {"how": "sleep"}), again=True)
            assert "it may have acted" in step.content["content"]
    assert len(called) == (2 if name == "post" else 1)


async def test_no_connection_is_held_while_an_outside_tool_works(
    conn: AsyncConnection, dsn: str
) -> None:
    """A pool of one connection is enough for two that wait for each other."""
    await run_all(conn, DESK)
    met = asyncio.Barrier(2)

    @tool(effect=Effect.IDEMPOTENT)
    async def meet(_ctx: ToolContext) -> str:
        """Meet another call."""
        async with asyncio.timeout(10):
            await met.wait()
        return "met"

    async with bench(conn, dsn, "tools=[meet], ordering_key=[]", python=(meet,)) as b:
        await add_runs(conn, b.held.attachment_id, None)
        (other,) = await claim(conn)
        second = Bench(b.pool, b.toolbox, other, b.attachment)
        assert await asyncio.gather(b.answer("meet"), second.answer("meet")) == ["met", "met"]
