"""`walagent threads talk` on a real terminal: replies appear as they are written, and once."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, run_all, value
from tests.helpers.live import Desk, Writing, desk
from tests.integration.cli.terminal import CTRL_D, Terminal, at_terminal
from tests.integration.cli.user import User
from walagent.models.script import Fault, call, in_turn

TOKENS = "select count(*) from agent.token where label = 'walagent talk' and revoked_at is null"


@asynccontextmanager
async def member(conn: AsyncConnection) -> AsyncGenerator[str]:
    """Create a login that takes part in threads."""
    async with role(conn) as name:
        await run_all(conn, f"select agent.grant_member('{name}')")
        yield name


def _talk(d: Desk, stack: ExitStack, user: User, columns: int = 80) -> Terminal:
    address = urlsplit(d.url).netloc
    arguments = ("talk", str(d.thread), "--http", address)
    return stack.enter_context(at_terminal(user, *arguments, columns=columns))


@pytest.mark.few(1)
@pytest.mark.parametrize("columns", [80, 120, 200])
async def test_a_reply_appears_as_it_is_written(
    conn: AsyncConnection, dsn: str, tmp_path: Path, columns: int
) -> None:
    """In both terminals, before the model has ended, and not again when it is posted."""
    model = Writing("Well, hello there.")
    async with member(conn) as ann, member(conn) as bob, desk(conn, dsn, model) as d:
        with ExitStack() as stack:
            terminals = list[Terminal]()
            for name in (ann, bob):
                user = User(tmp_path, make_conninfo(dsn, user=name))
                terminals.append(_talk(d, stack, user, columns))
                await asyncio.to_thread(terminals[-1].shows, f"* {name} joined")
            await d.reads(2)
            assert await value(conn, TOKENS) == 2
            terminals[0].enters("Hi, I am Ann.")
            for terminal in terminals:
                await asyncio.to_thread(terminal.shows, "sarah: Well, ")
            assert await value(conn, "select count(*) from agent.event where author = 'sarah'") == 0
            await d.post("Bob is late.")
            for terminal in terminals:
                await asyncio.to_thread(terminal.shows, ": Bob is late.")
            model.go.set()
            for terminal in terminals:
                await asyncio.to_thread(terminal.shows, "sarah: hello there.\r\n")
                await asyncio.to_thread(terminal.shows, "sarah: Well, hello there.\r\n")
                terminal.types(CTRL_D)
                assert await asyncio.to_thread(terminal.ends) == 0
                assert terminal.shown.count("hello there.") == 2  # a turn for each of the two posts
        assert await value(conn, TOKENS) == 0


@pytest.mark.slow
async def test_a_reply_that_is_not_posted_is_taken_back(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """One that broke off, and words beside a call."""
    model = Writing(in_turn(Fault(cut=True), ["hm, hm", call("recall", query="x")]), "It is done.")
    model.go.set()
    async with member(conn) as ann, desk(conn, dsn, model) as d:
        with ExitStack() as stack:
            terminal = _talk(d, stack, User(tmp_path, make_conninfo(dsn, user=ann)))
            await d.reads(1)
            await d.post("Hi!")
            await asyncio.to_thread(terminal.shows, "sarah: Well, (taken back)\r\n")
            await asyncio.to_thread(terminal.shows, "sarah: hm, hm (taken back)\r\n")
            await asyncio.to_thread(terminal.shows, "sarah: It is done.\r\n")
            terminal.types(CTRL_D)
            assert await asyncio.to_thread(terminal.ends) == 0
            assert terminal.shown.count("done") == 1


@pytest.mark.slow
async def test_without_a_daemon_there_replies_are_shown_when_they_are_posted(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """As they are if the server is one of another database."""
    model = Writing("Well, hello there.")
    async with member(conn) as ann, desk(conn, dsn, model) as d:
        user = User(tmp_path, make_conninfo(dsn, user=ann))
        with at_terminal(user, "talk", str(d.thread), "--http", "127.0.0.1:1") as terminal:
            await asyncio.to_thread(terminal.shows, f"* {ann} joined")
            terminal.enters("Hi!")
            await asyncio.to_thread(terminal.shows, "sarah: Well, hello there.\r\n")
            terminal.types(CTRL_D)
            assert await asyncio.to_thread(terminal.ends) == 0
            assert not model.begun.is_set()
