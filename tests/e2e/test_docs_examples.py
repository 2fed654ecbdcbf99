"""What the documentation shows is run: statements, their results, and commands."""

import asyncio
import os
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self
from urllib.parse import quote

import psycopg
import pytest
from psycopg import AsyncConnection, AsyncCursor, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow

from tests.docs_pages import ROOT, Block, blocks, code, pages, rows, section
from tests.servers import run_server
from walagent.store.errors import translated
from walagent.testing import FakeProvider, call

HOST = "db.example"  # stands for the test server wherever a page connects to it
OWN_DATABASE = "<!-- begins with an empty database called "  # a page's wish, up to the next blank
PATIENCE = 90.0

# What stands in for a page's language model answers.
ESCALATE = (
    call("escalate_to_human", ticket_id=1, category="bug"),
    "It crashes on launch, so a person will look at it.",
)

PLAYED = [page for page in pages() if any(block.runs for block in blocks(page))]


@pytest.fixture(scope="module")
def place(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server of the pages' own: they name roles, databases and slots as a reader would."""
    with run_server(str(request.config.getoption("--server"))) as dsn:
        yield dsn


@pytest.fixture
def stage(page: Path, place: str, request: pytest.FixtureRequest) -> Iterator[str]:
    """The page's database: a migrated one, or an empty one of the name that it asks for."""
    _, asked, rest = page.read_text("utf-8").partition(OWN_DATABASE)
    if not asked:
        yield request.getfixturevalue("dsn")
        return
    name = rest.split()[0]
    with psycopg.connect(place, autocommit=True) as admin:
        if (
            "create extension vector" in page.read_text("utf-8")
            and not admin.execute(
                "select 1 from pg_available_extensions where name = 'vector'"
            ).fetchone()
        ):
            pytest.skip("the server has no pgvector")
        roles = _roles(admin)
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        try:
            yield make_conninfo(place, dbname=name)
        finally:
            admin.execute(_END_READERS, [name])
            admin.execute(_DROP_SLOTS, [name])
            admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))
            for role in _roles(admin) - roles:
                # What it may do with settings belongs to the server, and stays otherwise.
                admin.execute(
                    sql.SQL("drop owned by {0}; drop role {0}").format(sql.Identifier(role))
                )


def _roles(admin: psycopg.Connection) -> set[str]:
    return {name for (name,) in admin.execute("select rolname from pg_roles")}


_END_READERS = """
select pg_terminate_backend(active_pid, 5000)
  from pg_replication_slots where database = %s and active
"""
_DROP_SLOTS = (
    "select pg_drop_replication_slot(slot_name) from pg_replication_slots where database = %s"
)


@pytest.mark.parametrize("page", PLAYED, ids=lambda page: str(page.relative_to(ROOT)))
async def test_a_page_can_be_followed_from_top_to_bottom(
    page: Path, stage: str, tmp_path: Path
) -> None:
    """Each example does what stands below it, in the order of the page."""
    async with FakeProvider(ESCALATE) as provider, _Player(stage, tmp_path, provider) as player:
        await player.play(blocks(page))


async def test_a_page_runs_this_checkout(dsn: str, tmp_path: Path) -> None:
    """Commands of a page, and the modules that they load, import no other one."""
    page, checkout = ROOT / "README.md", str(ROOT / "src" / "walagent" / "__init__.py")
    command = "$ python -c 'import walagent; print(walagent.__file__)'"
    played = (
        Block(page, 1, ("console", "run"), command),
        Block(page, 2, ("text", "result"), checkout),
    )
    async with FakeProvider() as provider, _Player(dsn, tmp_path, provider) as player:
        await player.play(played)


async def test_the_states_are_drawn_as_the_database_allows_them(conn: AsyncConnection) -> None:
    """Every arrow of the picture is allowed, and every allowed transition is drawn."""
    (drawing,) = blocks(ROOT / "docs" / "concepts.md", "mermaid")
    drawn = set(re.findall(r"^ *(\w+) --> (\w+)", drawing.text, re.MULTILINE))
    cursor = await conn.execute(
        "select f::text, t::text from unnest(enum_range(null::agent.run_state)) f,"
        " unnest(enum_range(null::agent.run_state)) t where agent_internal.may_follow(f, t)"
    )
    assert drawn == set(await cursor.fetchall())


async def test_each_sqlstate_becomes_the_class_that_is_documented(conn: AsyncConnection) -> None:
    """Who reads errors.md knows what a program of theirs will catch."""
    for name, kind, _ in rows(section(ROOT / "docs" / "reference" / "errors.md", "SQLSTATEs")):
        (state,) = code(name)
        with pytest.raises(psycopg.Error) as raised:
            await conn.execute(
                f"do $$ begin raise exception 'x' using errcode = '{state}'; end $$".encode()
            )
        assert [type(translated(raised.value)).__name__] == code(kind), state


class _Player:
    """Follows one page."""

    def __init__(self, dsn: str, folder: Path, provider: FakeProvider) -> None:
        self._dsn = dsn
        self._folder = folder
        self._given = conninfo_to_dict(dsn)
        self._drained: list[asyncio.Task[bytes]] = []
        self._daemons: list[asyncio.subprocess.Process] = []
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PG")},
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT / "src"),
            "WALAGENT_HOME": str(folder / "home"),
            "OPENAI_API_KEY": "fake-key",
            "OPENAI_BASE_URL": f"http://127.0.0.1:{provider.port}/v1",
        }
        (folder / "config").symlink_to(ROOT / "config")

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """End the daemons that the page has started."""
        for daemon in self._daemons:
            if daemon.returncode is None:
                daemon.terminate()
            await asyncio.wait_for(daemon.wait(), 30)

    async def play(self, page: Sequence[Block]) -> None:
        """Do what each block says, and compare what comes of it."""
        shown: str | None = None
        for block, following in zip(page, [*page[1:], None], strict=True):
            match block.language:
                case "sql" if following is not None and "waits" in block.words:
                    shown = await self._wait_for(following.text, block)
                case "sql" if block.runs:
                    shown = await self._run_sql(block)
                case "console" if block.runs:
                    shown = await self._run_commands(block)
                case "text" if "result" in block.words:
                    assert _fits(shown, block.text), f"{block}: {shown}"
                case _ if name := block.option("file"):
                    (self._folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (self._folder / name).write_text(block.text)
                case _:
                    pass

    # SQL.

    async def _run_sql(self, block: Block) -> str:
        user = block.option("as") or str(self._given["user"])
        async with await AsyncConnection.connect(self._dsn, autocommit=True, user=user) as conn:
            cursor = conn.cursor()
            if not (expected := block.option("fails")):
                await cursor.execute(block.text.encode())
                return await _last_result(cursor)
            with pytest.raises(psycopg.Error) as raised:
                await cursor.execute(block.text.encode())
            assert raised.value.sqlstate == expected, f"{block}: {raised.value}"
            return _as_psql_says(raised.value)

    async def _wait_for(self, wanted: str, block: Block) -> str:
        """Ask until the answer is *wanted*; what a daemon does takes its time."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while not _fits(shown := await self._run_sql(block), wanted):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(0.1)
        return shown

    # Commands.

    async def _run_commands(self, block: Block) -> str:
        shown = ""
        for command in _commands(block.text):
            if set_ := re.fullmatch(r"export (\w+)=(\S+)", command):
                self._environ[set_[1]] = self._here(set_[2])
            elif command.endswith(" &"):
                await self._start(command.removesuffix(" &"))
            else:
                shown = await self._finish(command, block)
        return shown

    async def _start(self, command: str) -> None:
        """Start a daemon, and wait until it reads the stream."""
        daemon = await self._spawn(f"exec {command}", stderr=asyncio.subprocess.PIPE)
        self._daemons.append(daemon)
        assert daemon.stderr is not None
        async with asyncio.timeout(PATIENCE):
            said = b""
            while b"reader.streaming" not in said:
                line = await daemon.stderr.readline()
                assert line, said.decode()
                said += line
        self._drained.append(asyncio.create_task(daemon.stderr.read()))  # or its log blocks it

    async def _finish(self, command: str, block: Block) -> str:
        process = await self._spawn(
            command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
        )
        async with asyncio.timeout(PATIENCE):
            out, said = await process.communicate()
        code = int(block.option("exits") or 0)
        assert process.returncode == code, f"{block}: {command}\n{said.decode()}"
        return (out + said).decode().rstrip()

    async def _spawn(
        self, command: str, *, stdout: int | None = None, stderr: int | None = None
    ) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_shell(
            self._here(command),
            cwd=self._folder,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )

    def _here(self, text: str) -> str:
        """Put the test server in the place of the page's."""
        place = f"{quote(str(self._given['host']), safe='')}:{self._given.get('port', 5432)}"
        return text.replace(HOST, place)


def _commands(text: str) -> Iterator[str]:
    """The lines after `$ `, each with what follows a backslash."""
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("$ "):
            command = line.removeprefix("$ ")
            while command.endswith("\\"):
                command = command.removesuffix("\\") + next(lines).removeprefix("> ").strip()
            yield command


async def _last_result(cursor: AsyncCursor[TupleRow]) -> str:
    """The rows of the last statement, much as psql prints them."""
    while cursor.nextset():
        pass
    if cursor.description is None:
        return cursor.statusmessage or ""
    names = [column.name for column in cursor.description]
    result = cursor.pgresult
    assert result is not None
    lines = [
        [(result.get_value(row, n) or b"").decode() for n in range(len(names))]
        for row in range(result.ntuples)
    ]
    return "\n".join(" | ".join(line) for line in [names, ["---"], *lines])


def _fits(shown: str | None, wanted: str) -> bool:
    """Whether what was shown is what a page shows, where … is what differs between databases."""
    patterns = [".+".join(map(re.escape, line.split("…"))) for line in _bare(wanted)]
    lines = _bare(shown)
    return len(lines) == len(patterns) and all(map(re.fullmatch, patterns, lines))


def _bare(shown: str | None) -> list[str]:
    """Lines without what only makes a table look like one."""
    return [
        "---" if set(line) <= {"-", "+"} else re.sub(r" *\| *", "|", line.rstrip())
        for line in (shown or "").splitlines()
    ]


def _as_psql_says(error: psycopg.Error) -> str:
    """An error as psql prints it."""
    lines = [f"ERROR:  {error.diag.message_primary}"]
    if error.diag.message_hint:
        lines.append(f"HINT:  {error.diag.message_hint}")
    return "\n".join(lines)
