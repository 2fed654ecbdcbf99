"""`walagent threads talk`: take part in a thread from a terminal."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from uuid import UUID, uuid4

import click
import orjson

from walagent.base.concurrency import Periodic
from walagent.cli.session import CliSession, Where, http_option, open_session, where_options
from walagent.cli.start.console import base_of
from walagent.cli.terminal.output import cell, clean, say
from walagent.cli.threads.talk_replies import Writing, follow_replies
from walagent.cli.threads.threads import event_lines
from walagent.config.dsn import Places
from walagent.errors import WalagentError
from walagent.store.errors import translating
from walagent.store.people import threads
from walagent.store.people.listings import Connection
from walagent.store.people.threads import Row

_POLL = 0.3  # seconds between looks for new events
_WAITING_FOR_PEOPLE = frozenset({"waiting_approval", "needs_review"})
_QUIET = 3.0  # seconds without events or turns after which a piped conversation has ended
_READABLE = 0.5  # seconds for which a call is shown before it can be decided
_ANSWERS = frozenset({"y", "yes", "n", "no"})
_HELP = "/answer TEXT, /members, /facts, /leave, /quit; anything else is posted"


@click.command("talk")
@click.argument("thread", type=click.UUID, required=False)
@click.option("--agent", "agents", multiple=True, help="Open a thread with this agent; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print each event as a line of JSON.")
@where_options
@http_option
def talk_(where: Where, thread: UUID | None, agents: Sequence[str], *, as_json: bool) -> None:
    """Take part in a thread: new events appear, and what you type is posted.

    A call that needs approval is shown, and the next line, y or n, decides it.  At the end of the
    input, the command waits until nothing has happened for 3 s; Ctrl-D ends it at once.

    On a terminal, replies appear as they are written, if walagent run serves HTTP there.
    """
    if (thread is None) == (not agents):
        raise click.UsageError("name a thread, or agents with --agent")
    asyncio.run(_talk(open_session(where), Conversation(as_json=as_json), thread, agents))


@dataclass(slots=True)
class Conversation:
    """What this terminal has shown, and the calls that it asks about."""

    as_json: bool = False
    thread: UUID = field(default_factory=uuid4)
    shown: int = 0
    asking: list[Row] = field(default_factory=list[Row])
    asked: dict[int, float] = field(default_factory=dict[int, float])  # when it was shown
    open: set[int] = field(default_factory=set[int])
    busy: tuple[str, ...] = ()
    active: bool = False
    changed_at: float = field(default_factory=time.monotonic)
    writing: Writing = field(default_factory=Writing)
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    @asynccontextmanager
    async def transaction(self, conn: Connection) -> AsyncGenerator[None]:
        """One transaction."""
        with translating():
            async with conn.transaction():
                yield

    async def look(self, conn: Connection) -> None:
        """Print what is new."""
        async with self.looking:
            await self._look(conn)

    async def _look(self, conn: Connection) -> None:
        async with self.transaction(conn):
            events = await threads.events(conn, self.thread, after=self.shown)
            approvals = await threads.pending_approvals(conn, self.thread)
            turns = await threads.active_turns(conn, self.thread)
            gone = self.open - {call["id"] for call in approvals}
            decided: Sequence[Row] = await threads.decided(conn, gone) if gone else ()
        for call in decided:
            say(clean(f"{call['decided_by']} {call['state']} {call['tool']}"))
        for event in events:
            self._print(event)
            self.shown = event["number"]
        self.asking = list(approvals)
        self.open = {call["id"] for call in approvals}
        for call in approvals[:1]:  # one at a time: y decides the one that was asked about last
            if call["id"] not in self.asked:
                self.writing.end_line()
                self.asked[call["id"]] = time.monotonic()
                say(clean(_asked(call)))
        self.active = any(turn["state"] not in _WAITING_FOR_PEOPLE for turn in turns)
        if events or self.active:
            self.changed_at = time.monotonic()
        busy = tuple(sorted({turn["agent"] for turn in turns if turn["state"] == "running"}))
        if busy != self.busy:
            self.busy = busy
            if busy and sys.stderr.isatty():
                say(clean(f"({', '.join(busy)} …)"))

    def _print(self, event: Row) -> None:
        if self.as_json:
            click.echo(orjson.dumps(event, default=str).decode())
        elif not _is_noise(event) and not self._has_shown(event):
            self.writing.end_line()
            for line in event_lines(event):
                click.echo(line)

    def _has_shown(self, event: Row) -> bool:
        text = event["data"].get("text")
        return event["type"] == "text" and self.writing.has_shown(event["author"], text)

    async def take(self, conn: Connection, line: str) -> bool:
        """Carry out a typed line; return whether to continue."""
        try:
            async with self.transaction(conn):
                return await self._take(conn, line)
        except WalagentError as error:
            say(f"error: {error}")
            return True

    async def _decide(self, conn: Connection, approval: int, line: str) -> bool:
        """Decide or answer what an agent waits for; return whether the line did.

        What was typed before the call could be read decides nothing.
        """
        if time.monotonic() - self.asked[approval] < _READABLE:
            if line.lower() in _ANSWERS or line.startswith("/answer "):
                say("this call has just been shown; answer again")
                return True
            return False
        if line.startswith("/answer "):
            await threads.answer(conn, approval, line.removeprefix("/answer "))
        elif line.lower() in _ANSWERS:
            await threads.decide(conn, approval, approved=line.lower().startswith("y"))
        else:
            return False
        return True

    async def _take(self, conn: Connection, line: str) -> bool:
        if self.asking and await self._decide(conn, self.asking[0]["id"], line):
            return True
        match line:
            case "":
                pass
            case "/quit" | "/exit":
                return False
            case "/leave":
                await threads.call(conn, "leave_thread", {"thread": self.thread})
                return False
            case "/members":
                for row in await threads.members(conn, self.thread):
                    say(clean(f"{row['principal']} ({row['kind']}, {row['role']})"))
            case "/facts":
                for row in await threads.facts(conn, self.thread):
                    say(clean(f"{row['subject']} {row['predicate']} {row['object']}"))
            case _ if line.startswith("/"):
                say(_HELP)
            case _:
                # With an ID, a post whose answer was lost can be repeated.
                given = {"thread": self.thread, "text": line, "id": uuid4()}
                await threads.post(conn, given)
        return True

    @property
    def is_quiet(self) -> bool:
        """Whether no agent takes its turn, and nothing happened for a while."""
        return not self.active and time.monotonic() - self.changed_at > _QUIET


def _is_noise(event: Row) -> bool:
    return event["type"] == "tool_use" and event["data"].get("name") == "do_nothing"


async def _talk(
    session: CliSession, talk: Conversation, thread: UUID | None, agents: Sequence[str]
) -> None:
    async with session.places() as places, session.connect(places) as conn:
        async with talk.transaction(conn):
            if thread is None:
                title = f"Talk with {', '.join(agents)}"
                given = {"title": title, "members": list(agents)}
                talk.thread = await threads.call(conn, "open_thread", given)
                say(f"thread {talk.thread}")
            else:
                talk.thread = thread
                await threads.call(conn, "join_thread", {"thread": thread})
        async with _reading(session, conn, talk):
            await _converse(session, places, conn, talk)


async def _converse(
    session: CliSession, places: Places, conn: Connection, talk: Conversation
) -> None:
    """Follow the thread on one connection, and post on another."""

    async def follow() -> None:
        async for _ in Periodic(_POLL):
            await talk.look(conn)
            if at_end.is_set() and talk.is_quiet:
                return

    at_end = asyncio.Event()

    async with session.connect(places) as writing, asyncio.TaskGroup() as tasks:
        following = tasks.create_task(follow(), name="follow")
        while line := await asyncio.to_thread(sys.stdin.readline):
            if not await talk.take(writing, line.strip()):
                break
        else:
            if not sys.stdin.isatty():  # Ctrl-D leaves as /quit does
                talk.changed_at = time.monotonic()
                at_end.set()
                await following
        following.cancel()
    await talk.look(conn)


@asynccontextmanager
async def _reading(
    session: CliSession, conn: Connection, talk: Conversation
) -> AsyncGenerator[None]:
    """Show replies as they are written meanwhile, on a terminal."""
    http = session.config.http
    if talk.as_json or not sys.stdout.isatty() or not http.enabled:
        yield
        return
    async with _token(session, conn, talk) as token:
        following = follow_replies(
            base_of(http), token, talk.thread, talk.writing, lambda: talk.look(conn)
        )
        task = asyncio.create_task(following, name="replies")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})


@asynccontextmanager
async def _token(session: CliSession, conn: Connection, talk: Conversation) -> AsyncGenerator[str]:
    """Give the token of the session, or one of its login that can read, until this ends."""
    if session.token is not None:
        yield session.token
        return
    async with talk.transaction(conn):
        number, token = await threads.create_reading_token(conn)
    try:
        yield token
    finally:
        async with talk.transaction(conn):
            await threads.revoke_token(conn, number)


def _asked(call: Row) -> str:
    """Return the line that asks for a decision, or for the answer to a question."""
    if call["tool"] == "ask_human":
        return f"{call['agent']} asks: {call['arguments'].get('question')}  (/answer TEXT)"
    given = ", ".join(f"{name}={cell(value)}" for name, value in call["arguments"].items())
    return f"{call['agent']} asks to call {call['tool']}({given}); approve? y/n"
