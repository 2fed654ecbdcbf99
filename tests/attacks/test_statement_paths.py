"""What walagent writes around a tool's text finds no name on the path of an attachment.

The path is that of whoever attached; others may create functions, operators and types there, and
those would run as the role of the attachment.
"""

from collections.abc import AsyncIterator, Sequence

import pytest
from psycopg import AsyncConnection

from tests.helpers.calls import tool_connection
from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, role, rows, run_all
from tests.helpers.traps import TRAPS, TYPE_TRAPS
from tests.integration.own_worker.rig import desk
from tests.integration.runs.test_toolbox import FUNCTIONS as SHOW
from tests.integration.runs.test_toolbox import SHOWN, bench
from tests.integration.sql.test_policies import decide
from tests.integration.workflows.test_workflows import ended, start
from walagent.message import Json
from walagent.tools.python import ToolContext, tool

EVIL = "evil, pg_catalog, public"
# Tools that find nothing on the path: only what is written around them can be trapped.
TOOLS = (
    SHOW
    + """
alter function show set search_path = pg_catalog, app;
alter function some_rows set search_path = pg_catalog;
create function path_here() returns text language sql
    begin atomic select current_setting('search_path'); end;
create function pairs(out a int, out b text) returns setof record language sql
    begin atomic values (1, 'x'); end;
create type public.key as enum ('a', 'b');
create domain app.code as text;
create table odd (
    word text, kind public.key, at date, span int4range, no numeric(8, 2), bits bit(3),
    short varchar(3), padded char(3), tags text[], doc jsonb, moment timestamptz, raw bytea,
    code app.code, place app.place,
    primary key (word, kind, at, span, no, bits, short, padded, tags, doc, moment, raw, code,
        place)
);
alter table odd add done text, add size bit(3), add name char(5), add whole numeric(4, 1),
    add later interval day to minute, add letter "char", add moods app.mood[];
"""
)
ROW: dict[str, Json] = {
    "word": "x", "kind": "a", "at": "2026-01-01", "span": "[1,3)", "no": "1.50", "bits": "101",
    "short": "abc", "padded": "ab ", "tags": ["x"], "doc": {"a": 1},
    "moment": "2026-01-01 00:00:00+00", "raw": "\\x00", "code": "c",
    "place": "(Main,1)",
}  # fmt: skip
SETS: dict[str, Json] = {
    "done": "yes", "size": "110", "name": "abcde", "whole": "1.5", "later": "1 day",
    "letter": "c", "moods": ["good"],
}  # fmt: skip


@pytest.fixture
async def trapped(conn: AsyncConnection) -> AsyncConnection:
    """A database with traps that nobody has stepped into."""
    await run_all(conn, TRAPS + TYPE_TRAPS)
    return conn


@tool()
async def ask_twice(context: ToolContext) -> str:
    """Read rows of many types, and write."""
    assert context.conn is not None
    found = await context.conn.execute(
        "select d.word, d.kind, d.at, d.span, d.tags, d.doc from public.odd d"
    )
    first = await found.fetchone()
    none = await context.conn.execute("update public.odd set done = 'python'")
    nothing = await context.conn.execute("select from public.odd limit 0")
    return f"{first and first[0]} {none.rowcount} {nothing.rowcount}"


async def test_no_tool_meets_a_trap(
    trapped: AsyncConnection, dsn: str, subtests: pytest.Subtests
) -> None:
    """Functions with arguments of each kind, built-in tools and Python; they do what they did."""
    await run_all(trapped, TOOLS)
    tools = "show, path_here, nothing, row_of_two, some_rows, some_numbers, pairs, ask_twice, query"
    columns = ", ".join(SETS)
    keys = ", ".join(f"{name}" for name in ROW)
    values = ", ".join(f"%({name})s" for name in ROW)
    given = {**ROW, "doc": '{"a": 1}'}
    await trapped.execute(f"insert into odd ({keys}) values ({values})".encode(), given)
    change: dict[str, Json] = {"op": "insert", "new": ROW}
    async with (
        role(trapped, "nologin") as reader,
        bench(
            trapped,
            dsn,
            f"tools=[{tools}], writes=[{columns}], query_as={reader}",
            change=change,
            table="odd",
            python=(ask_twice,),
            path=EVIL,
        ) as b,
    ):
        for arguments, shown in SHOWN:
            with subtests.test(str(arguments)):
                assert shown in await b.answer("show", **arguments)
        for name, arguments, answer in (
            ("nothing", {}, "done"),
            ("row_of_two", {}, '{"a": 1, "b": "x"}'),
            ("some_rows", {"n": 1}, '[{"a": 1, "b": "x"}]'),
            ("some_numbers", {}, '[{"some_numbers": 1}, {"some_numbers": 2}]'),
            ("pairs", {}, '[{"a": 1, "b": "x"}]'),
            ("update_row", SETS, "updated"),
            ("ask_twice", {}, "x 1 0"),
        ):
            with subtests.test(name):
                assert await b.answer(name, **arguments) == answer
        with subtests.test("query"):
            assert "[[1,true]]" in await b.answer("query", sql="select 1, true")
        with subtests.test("the path of the tool"):
            assert await b.answer("path_here") == "evil, pg_catalog, public, pg_temp"
    assert await rows(trapped, f"select {columns} from odd") == [
        (
            "python",
            "110",
            "abcde",
            *(await rows(trapped, "select whole, later, letter, moods from odd"))[0],
        )
    ]


async def test_no_part_of_a_workflow_meets_a_trap(trapped: AsyncConnection, dsn: str) -> None:
    """Tools, functions of the state, and the conditions and functions of edges."""
    conn = trapped
    await run_all(
        conn,
        """
        create function counted(state jsonb) returns jsonb language sql
            begin atomic select jsonb_build_object('n', 1); end;
        create function some_numbers() returns int language sql begin atomic select 1; end;
        create function go(state jsonb) returns boolean language sql begin atomic select true; end;
        """,
    )
    async with daemon(conn, dsn, {}, parts=("worker",)) as d:
        await run_all(conn, f"set search_path = {EVIL}")
        await conn.execute(
            """select agent.create_workflow('w',
            '[{"name": "a", "kind": "function", "function": "counted"},
              {"name": "b", "kind": "tool", "tool": "some_numbers"},
              {"name": "c", "kind": "router"}, {"name": "d", "kind": "router"}]',
            '[{"from": "a", "to": "b", "condition": "state is not null"},
              {"from": "b", "to": "c", "function": "go"},
              {"from": "c", "to": "d"}]')"""
        )
        await run_all(conn, "reset search_path")
        run = await start(conn)
        assert await ended(d, run) == "succeeded", await rows(conn, "table agent.step")


async def test_no_policy_meets_a_trap(trapped: AsyncConnection) -> None:
    """Its condition and its expression are its own; the rest is ours."""
    conn = trapped
    await run_all(conn, "select agent_internal.make_trampoline(current_user::name)")
    await run_all(conn, f"set search_path = {EVIL}")
    await run_all(
        conn,
        "insert into agent.policy (name, point, action, condition)"
        " values ('p', 'tool', 'deny', 'call is not null')",
    )
    await run_all(conn, "reset search_path")
    assert (await decide(conn, {"tool": "pay"}))[0] == "deny"


async def test_no_turn_of_a_program_meets_a_trap(trapped: AsyncConnection, dsn: str) -> None:
    """A tool that is called over SQL."""
    conn = trapped
    async with desk(conn, dsn) as d:
        await run_all(
            conn,
            "create or replace function add_note(text text) returns text language sql"
            " begin atomic select 'noted ' || add_note.text; end;"
            f"update agent.attachment set search_path = '{EVIL}'",
        )
        turn = await d.start("Hello?")
        done = await d.call("process_tool_call", turn, "add_note", b'{"text": "x"}')
        assert (done["status"], done["result"]) == ("done", "noted x")


# Who may create in a schema of the path, behind pg_catalog, writes what fits better.

LOG = """
create table public.log (who text, what text);
grant insert on public.log to public;
grant create, usage on schema public to {mallory};
set role {mallory};
"""
BETTER = """
create function public.to_jsonb(text) returns jsonb language plpgsql as $$ begin
  insert into public.log values (current_user, 'to_jsonb'); return pg_catalog.to_jsonb($1);
end $$;
create function public.app(text[], text) returns text[] language plpgsql as $$ begin
  insert into public.log values (current_user, '||'); return pg_catalog.array_append($1, $2);
end $$;
create operator public.|| (leftarg = text[], rightarg = text, function = public.app);
create function public.json_build_object(text, text[], text, bigint[], text, text[], text, bigint)
    returns json language plpgsql as $$ begin
  insert into public.log values (current_user, 'json_build_object'); return '{}'; end $$;
create function public.same(bigint, bigint) returns boolean language plpgsql as $$ begin
  insert into public.log values (current_user, '='); return true; end $$;
reset role;
"""


@pytest.fixture
async def mallory(conn: AsyncConnection) -> AsyncIterator[str]:
    """Somebody who may create in schema public, and has."""
    async with role(conn) as name:
        await run_all(conn, LOG.format(mallory=name) + BETTER)
        yield name


async def logged(conn: AsyncConnection) -> Sequence[tuple[Json, ...]]:
    """What of mallory's was called."""
    return await rows(conn, "table public.log")


@pytest.mark.usefixtures("mallory")
async def test_nothing_that_fits_better_is_called_around_a_tool(
    conn: AsyncConnection, dsn: str
) -> None:
    """A function whose result is a text, and update_row, on the default path."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        "create function refund(ticket_id bigint) returns text language sql"
        " begin atomic select 'refunded'; end",
    )
    await run_all(conn, "insert into support_tickets (issue) values ('x')")
    async with bench(conn, dsn, "tools=[refund], writes=[status]") as b:
        assert await b.answer("refund", ticket_id=1) == "refunded"
        assert await b.answer("update_row", status="done") == "updated"
    assert await logged(conn) == []


async def test_nothing_that_fits_better_is_called_around_a_tool_over_sql(
    conn: AsyncConnection, dsn: str, mallory: str
) -> None:
    """The same for a program that works its turns itself, where mallory may act as it."""
    async with desk(conn, dsn) as d:
        await run_all(conn, f"grant {d.names[0]} to {mallory}")
        turn = await d.start("Hello?")
        done = await d.call("process_tool_call", turn, "add_note", b'{"text": "x"}')
        assert done["result"] == "noted x"
    assert await logged(conn) == []


@pytest.mark.usefixtures("mallory")
async def test_nothing_that_fits_better_is_called_for_rows(conn: AsyncConnection, dsn: str) -> None:
    """What a statement gives is made into rows by a function that has the path of the statement."""
    request: dict[str, Json] = {
        "run_as": conn.info.user, "sql": "select 1 as a, 'x'::text as b", "arguments": None,
        "path": '"$user", public, pg_temp', "rows": True,
    }  # fmt: skip
    async with (
        tool_connection(conn, dsn) as tools,
        tools.transaction(force_rollback=True) as transaction,
    ):
        found = await transaction.call("read_as", request)
        assert '"rows" : ["(1,x)"]' in str(found)
    assert await logged(conn) == []
