"""`walagent database setup` and `ask`: PG Agent's examples, forms of output, and bad input."""

import asyncio
import csv
import io
import json
import re
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from tests.helpers.database import rows, run_all, value
from tests.integration.cli.test_ask import ANSWER, KEY, PLAN, QUESTION, Shell, shell
from tests.integration.cli.user import Ended, User, empty_database
from walagent.ask.analyst_role import make_analyst
from walagent.base.extras import install_hint
from walagent.cli import main
from walagent.errors import PreconditionError
from walagent.testing import FakeProvider, call

SAYS = "Twenty in each country."
ANALYST = "walagent_analyst"
SHOP = """
create table customer (id integer primary key, country text not null);
insert into customer select n, (array['CH', 'DE', 'FR'])[1 + n % 3] from generate_series(1, 60) n;
"""


@pytest.fixture
def shop(server: str) -> Iterator[str]:
    """A database with a shop that knows nothing of us; the analyst is dropped with it."""
    with empty_database(server) as dsn:
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute(SHOP.encode())
        yield dsn
        with psycopg.connect(dsn, autocommit=True) as conn:
            name = sql.Identifier(ANALYST)
            if conn.execute("select 1 from pg_roles where rolname = %s", [ANALYST]).fetchone():
                conn.execute(sql.SQL("drop owned by {0}; drop role {0}").format(name))


def model(dsn: str, url: str) -> None:
    """Register a model."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "insert into agent.model (name, provider, model_id, base_url, credential)"
            " values ('m', 'openai', 'm', %s, %s)",
            [url, KEY],
        )


@pytest.mark.slow
async def test_the_examples_of_pg_agent_work(shop: str, tmp_path: Path) -> None:
    """Set up, index, ask in either pattern, and chat: on a database that was only just made."""
    async with FakeProvider([lambda _: next(replies)] * 50) as fake:
        replies = iter([PLAN, ANSWER] * 5)
        user = User(tmp_path, shop, {KEY: fake.key})
        user.writes("ask: {model: m}\n")

        def types(*words: str, stdin: str = "") -> str:
            ended = user.types(*words, stdin=stdin).worked()
            return ended.out + ended.err

        def works() -> None:
            can_read = f"role {ANALYST} can read"
            assert can_read in types("database", "setup")
            assert can_read not in types("database", "setup"), "the role exists and is not changed"
            assert "1 tables, 2 columns" in types("knowledge", "index")
            model(shop, str(fake.spec("openai").base_url))
            assert SAYS in types("ask", QUESTION)
            said = types("ask", "--index", QUESTION, "--pattern", "SEQUENTIAL", "-v")
            assert "schema index: 1 tables" in said
            assert "plan: Count them." in said
            assert "schema index" in types("--index", "-v", "ask", QUESTION)
            assert SAYS in types("ask", QUESTION, "--pattern", "PARALLEL", "--retries", "1")
            chat = ["chat", "--session", "monday", "--redis", "redis://localhost:6379"]
            assert SAYS in types(*chat, stdin=f"{QUESTION}\nexit\n")

        await asyncio.to_thread(works)


@pytest.mark.slow
def test_asking_alone_needs_no_slot(shop: str, tmp_path: Path) -> None:
    """None is made that nobody would read; and where none can be had, the role is there."""
    user = User(tmp_path, shop, {})
    with closing(socket.socket()) as nobody:
        nobody.bind(("127.0.0.1", 0))
        elsewhere = f"host=127.0.0.1 port={nobody.getsockname()[1]} dbname=x"
        ended = user.types("database", "setup", "--replication-dsn", elsewhere)
    assert ended.code == 1
    assert f"role {ANALYST} can read" in ended.err
    assert "1 tables, 2 columns" in user.types("knowledge", "index").worked().err
    assert "walagent run" not in user.types("database", "setup", "--no-slot").worked().err
    with psycopg.connect(shop) as conn:
        slots = "select count(*) from pg_replication_slots where database = current_database()"
        assert conn.execute(slots).fetchone() == (0,)


async def test_a_login_without_createrole_is_shown_what_an_administrator_types(
    conn: AsyncConnection, dsn: str
) -> None:
    """And nothing is made."""
    await run_all(conn, "create role plain login")
    try:
        async with await AsyncConnection.connect(
            make_conninfo(dsn, user="plain"), autocommit=True
        ) as plain:
            with pytest.raises(PreconditionError, match="plain may make no roles") as caught:
                await make_analyst(plain, "not_there_yet", None)
        assert caught.value.hint.endswith("grant not_there_yet to plain;")
        gone = "select count(*) from pg_roles where rolname = 'not_there_yet'"
        assert await value(conn, gone) == 0
    finally:
        await run_all(conn, "drop role plain")


async def test_a_role_of_another_database_gets_its_grants_here(
    conn: AsyncConnection, dsn: str
) -> None:
    """Roles are of the cluster, grants of a database; one that can read is not changed."""
    role = f"analyst_{conn.info.dbname}"
    await run_all(
        conn, f"create role {role}; create table note (x int); create table other (x int)"
    )
    may = "select " + ", ".join(
        f"has_table_privilege('{role}', '{each}', 'select')" for each in ("note", "other")
    )
    try:
        assert await make_analyst(conn, role, None)
        assert await rows(conn, may) == [(True, True)]
        await run_all(conn, f"revoke select on other from {role}")
        assert not await make_analyst(conn, role, None)
        assert await rows(conn, may) == [(True, False)]
        await run_all(conn, f"revoke select on note from {role}; create role plain_{role} login")
        async with await AsyncConnection.connect(
            make_conninfo(dsn, user=f"plain_{role}"), autocommit=True
        ) as plain:
            with pytest.raises(PreconditionError, match="can read nothing") as caught:
                await make_analyst(plain, role, None)
        assert f'grant select on all tables in schema "public" to "{role}";' in caught.value.hint
    finally:
        await run_all(conn, f"drop owned by {role}; drop role {role}; drop role plain_{role}")


# What is printed.


@pytest.mark.slow
async def test_csv_is_nothing_but_rows(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """It can go into a file as it is; the words are on stderr."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        ended = (await on.types("ask", QUESTION, "--output", "csv")).worked()
        rows = list(csv.reader(io.StringIO(ended.out)))
        assert rows == [["country", "n"], ["CH", "20"], ["DE", "20"], ["FR", "20"]]
        assert SAYS in ended.err


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("outcome", "status"), [("clarify", "clarify"), ("refuse", "refused"), ("steps", "error")]
)
async def test_json_says_what_became_of_a_question(
    conn: AsyncConnection, dsn: str, tmp_path: Path, outcome: str, status: str
) -> None:
    """What the planner asks back, or why there is no answer; only no answer is a failure."""
    step = {"id": "a", "type": "SQL", "description": "", "tool_input": {"query": "select nope"}}
    reply = call("plan", reasoning="", outcome=outcome, reply="Which year?", steps=[step])
    async with shell(conn, dsn, tmp_path, [reply]) as on:
        ended = await on.types("ask", QUESTION, "--json", "--retries", "0")
        assert ended.json["status"] == status
        assert ended.code == (1 if status == "error" else 0)
        assert ("Which year?" if status != "error" else "42703") in ended.json["answer"]


@pytest.mark.slow
async def test_plans_are_compared_and_it_is_said(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """`--candidates`, from stdin, with a picture of what came of it."""
    async with shell(conn, dsn, tmp_path, [PLAN, PLAN, PLAN, ANSWER]) as on:
        typed = ["ask", "-", "--candidates", "3", "--plot", "chart.png", "-v"]
        ended = await asyncio.to_thread(on.user.types, *typed, stdin=f"{QUESTION}\n")
        ended.worked()
        assert "plans: 3 of 3 plans came to this" in ended.err
        assert "3: [a] 3 rows" in ended.err
        assert "4 model calls" in ended.err
        assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
        assert await value(conn, "select text from agent.question") == QUESTION
        candidates = "select (options -> 'candidates')::integer from agent.question"
        assert await value(conn, candidates) == 3


@pytest.mark.slow
async def test_a_plot_on_the_terminal_needs_no_name(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """What follows `--plot` and is no picture is the question."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        ended = (await on.types("ask", "--plot", QUESTION)).worked()
        assert re.search(r"^CH │█+ 20$", ended.out, re.MULTILINE)


@pytest.mark.slow
async def test_what_cannot_be_drawn_says_so(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The answer is there; the file is not, and that is a failure."""
    one = {"id": "a", "type": "SQL", "description": "", "tool_input": {"query": "select 60 as n"}}
    plan = call("plan", reasoning="", steps=[one])
    async with shell(conn, dsn, tmp_path, [plan, ANSWER]) as on:
        ended = await on.types("ask", QUESTION, "--plot", "chart.png")
        assert ended.code == 1
        assert SAYS in ended.out
        assert "no chart" in ended.err
        assert not (tmp_path / "chart.png").exists()


@pytest.mark.slow
async def test_a_picture_needs_its_library_before_anybody_is_asked(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Named with what installs it; so is a folder that is not there."""
    hidden = "import sys; sys.modules['matplotlib'] = None; sys.modules['plotille'] = None"
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "sitecustomize.py").write_text(hidden)
    async with shell(conn, dsn, tmp_path, []) as on:
        path = f"{tmp_path / 'lib'}:{on.user.environment['PYTHONPATH']}"

        def without(*chart: str) -> str:
            ended = on.user.types("ask", QUESTION, "--plot", *chart, PYTHONPATH=path)
            assert ended.code == 3
            return ended.err

        said = await asyncio.to_thread(without, "x.png")
        assert install_hint("walagent[plot]") in said
        assert install_hint("walagent[ask]") in await asyncio.to_thread(without)
        ended = await on.types("ask", QUESTION, "--plot", "nowhere/x.png")
        assert (ended.code, on.provider.received) == (2, [])
        assert "directory" in ended.err


# Bad input.


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ((), "Missing argument 'QUESTION'"),
        (("Why?", "--pattern", "sideways"), "'sideways' is not one of"),
        (("Why?", "--retries", "-1"), "-1 is not in the range 0<=x<=10"),
        (("Why?", "--candidates", "6"), "6 is not in the range 1<=x<=5"),
        (("Why?", "--output", "xml"), "'xml' is not one of"),
        (("Why?", "--plot", "chart.gif"), "does not end in .png"),
        (("Why?", "--nonsense"), "No such option"),
    ],
)
def test_what_cannot_be_typed_is_named(typed: tuple[str, ...], says: str) -> None:
    """With exit code 2, and without a database."""
    ended = CliRunner().invoke(main, ["ask", *typed])
    assert ended.exit_code == 2
    assert says in ended.stderr


@pytest.mark.parametrize(
    ("question", "says"),
    [
        ("", "the question is empty"),
        ("x" * 1_000_000, "longer than 20,000 characters"),
        ("x" * 30_000, "the question has 30,000 characters; 20,000 are allowed"),
        ("a\0b", "the question has bytes"),
    ],
)
def test_what_is_no_question_is_named(question: str, says: str) -> None:
    """With exit code 2, as JSON too, and before a database is looked for."""
    ended = CliRunner().invoke(main, ["ask", "-", "--json"], input=question)
    assert ended.exit_code == 2
    assert says in ended.stderr
    found = json.loads(ended.stdout)
    assert found["status"] == "error"
    assert says in found["answer"]


def test_a_megabyte_is_no_question(tmp_path: Path) -> None:
    """Typed as a person would."""
    ended = User(tmp_path, None).types("ask", "-", stdin="x" * 1_000_000)
    assert (ended.code, ended.out) == (2, "")
    assert "20,000" in ended.err


@pytest.mark.parametrize("typed", [("ask", QUESTION), ("chat",)])
def test_a_session_that_can_have_no_name_is_named(typed: tuple[str, ...]) -> None:
    """With exit code 2, before a database is looked for."""
    for name in ("", "x" * 201):
        ended = CliRunner().invoke(main, [*typed, "--session", name])
        assert ended.exit_code == 2
        assert "a session's name has 1 to 200 characters" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("typed", [("ask", QUESTION), ("index",), ("chat",)])
def test_a_database_that_is_not_there_is_named_at_once(
    tmp_path: Path, typed: tuple[str, ...]
) -> None:
    """In one line, with exit code 1: it may be there later."""
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        port = taken.getsockname()[1]
    dsn = f"postgresql://postgres:hunter22@127.0.0.1:{port}/x"
    ended = User(tmp_path, dsn).types(*typed)
    assert ended.code == 1
    assert f"port {port} failed: Connection refused" in ended.err
    assert ended.err.count("Connection refused") == 1
    assert "hunter22" not in ended.err
    assert "pool" not in ended.err, "what goes on trying is not begun"


@pytest.mark.slow
async def test_a_session_that_cannot_be_gone_on_with_is_named(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With exit code 2."""
    async with shell(conn, dsn, tmp_path, []) as on:
        await run_all(conn, "insert into agent.session (id, owner) values ('x', 'somebody')")
        ended = await on.types("ask", QUESTION, "--session", "x")
        assert (ended.code, on.provider.received) == (2, [])
        assert 'session "x" belongs to another role' in ended.err


@pytest.mark.slow
async def test_a_missing_key_is_named(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """With exit code 3; a wrong key likewise, and the question waits for its session."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        ended = await _types(on, key="")
        assert ended.code == 3
        assert KEY in ended.err
        ended = await _types(on, key="wrong")
        assert ended.code == 3
        assert "401" in ended.err
        assert SAYS in (await _types(on, key=on.provider.key)).worked().out
        assert await value(conn, "select count(*) from agent.question") == 1


async def _types(on: Shell, *, key: str) -> Ended:
    typed = ["ask", QUESTION, "--session", "monday", "--json"]
    return await asyncio.to_thread(lambda: on.user.types(*typed, **{KEY: key}))


@pytest.mark.slow
async def test_a_provider_that_is_down_is_named_and_the_question_waits(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With exit code 3, and what to type when it is back; then it is answered once."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        url = await value(conn, "select base_url from agent.model")
        with closing(socket.create_server(("127.0.0.1", 0))) as taken:
            port = taken.getsockname()[1]  # nobody accepts; closed at once, nobody listens
        await conn.execute("update agent.model set base_url = %s", [f"http://127.0.0.1:{port}/v1"])
        ended = await on.types("ask", QUESTION)
        assert ended.code == 3
        (session,) = re.findall(r"--session (ask-\w+)", ended.err)
        await conn.execute("update agent.model set base_url = %s", [url])
        assert SAYS in (await on.types("ask", QUESTION, "--session", session)).worked().out
        assert await value(conn, "select count(*) from agent.question") == 1


@pytest.mark.slow
async def test_where_there_are_many_models_a_person_says_which(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With exit code 3, and how; one that nobody registered is a wrong name."""
    async with shell(conn, dsn, tmp_path, []) as on:
        await run_all(
            conn,
            "insert into agent.model (name, provider, model_id) values ('n', 'openai', 'n')",
        )
        on.user.writes(f"OPENAI_API_KEY={on.provider.key}-other\n", ".env")
        ended = await on.types("ask", QUESTION)
        assert ended.code == 3
        assert "no model selected: 2 are registered" in ended.err
        assert "--model NAME" in ended.err
        ended = await on.types("ask", QUESTION, "--model", "nobody")
        assert ended.code == 2
        assert 'model "nobody" does not exist' in ended.err


@pytest.mark.slow
async def test_a_login_that_could_write_is_no_analyst(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With exit code 3, naming what it could do; `index` says so, too."""
    async with shell(conn, dsn, tmp_path, []) as on:
        on.user.writes("ask: {role: postgres}\n")
        for typed in (("ask", QUESTION), ("index",)):
            ended = await on.types(*typed)
            assert ended.code == 3
            assert "postgres has SUPERUSER" in ended.err
            assert "create role analyst" in ended.err


@pytest.mark.slow
async def test_the_index_needs_no_model(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """It can be made before anybody has a key."""
    async with shell(conn, dsn, tmp_path, []) as on:
        await run_all(conn, "delete from agent.model")
        found = (await on.types("knowledge", "index", "--json")).worked().json
        assert found["tables"] > 5
        assert set(found) == {"tables", "columns", "sampled", "changed"}
