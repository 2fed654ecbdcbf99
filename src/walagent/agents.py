"""Talk to agents, and operate their runs, approvals and memory, from Python.

with Agents("postgresql://ada@db.example/shop") as agents:
    thread = agents.open_thread("Questions", ["helper"])
    print(agents.ask(thread, "Which join do I need?")["text"])
"""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Final, Self, TypeVar
from uuid import UUID, uuid4

from psycopg import AsyncConnection

from walagent.blocking import Blocking
from walagent.domain.run import RunState
from walagent.errors import ConfigError, LimitReachedError
from walagent.message import Json
from walagent.store.errors import translating
from walagent.store.people import listings, memories, operator, threads
from walagent.store.people.run_filter import RunFilter
from walagent.store.sessions.acting import identity_of_token
from walagent.store.sessions.connections import connect
from walagent.telemetry.mask import hide

T = TypeVar("T")
Row = Mapping[str, Any]
"""A row by the names of its columns."""

_LOOK: Final = 0.5  # seconds between looks at a thread


class AsyncAgents:
    """Threads, runs, approvals and memory of one database; open it with `async with`.

    It acts as the login, or as the principal of a token; their privileges decide what it may do.
    Each call is a transaction.
    """

    def __init__(self, dsn: str, *, token: str | None = None) -> None:
        """Store the parameters; `async with` connects.

        Args:
            dsn: no other database is used.
            token: of the principal that acts; by default, the login does.
        """
        self._dsn = dsn
        self._identity = identity_of_token(token) if token else None
        if token:
            hide(token)
        self._conn: AsyncConnection[Any] | None = None
        self._using = asyncio.Lock()

    async def __aenter__(self) -> Self:
        """Connect."""
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connection."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connection."""
        conn, self._conn = self._conn, None
        if conn is not None:
            await conn.close()

    # Threads.

    async def threads(self, *, archived: bool = False, limit: int = 100) -> Sequence[Row]:
        """Return the threads of the caller, the latest active first."""
        return await self._run(
            lambda conn: threads.list_threads(conn, archived=archived, limit=limit)
        )

    async def open_thread(self, title: str = "", members: Sequence[str] = ()) -> UUID:
        """Open a thread with agents and people; the caller is a member."""
        given = {"title": title, "members": list(members)}
        return await self._run(lambda conn: threads.call(conn, "open_thread", given))

    async def post(self, thread: UUID, text: str, *, interrupt: bool = False) -> int:
        """Post a text; return the number of its event.

        Args:
            interrupt: cut off what agents are saying, so that they take it in at once.
        """
        given = {"thread": thread, "text": text, "id": uuid4()}
        return await self._run(lambda conn: threads.post(conn, given, interrupt=interrupt))

    async def events(self, thread: UUID, *, after: int = 0, limit: int = 1000) -> Sequence[Row]:
        """Return the latest events of a thread after a number, in order."""
        return await self._run(lambda conn: threads.events(conn, thread, after=after, limit=limit))

    async def ask(self, thread: UUID, text: str, *, seconds: float = 300.0) -> Row:
        """Post a text and wait for the next text of an agent; return its event, with `text`.

        Raises:
            LimitReachedError: there is none after so many seconds; the agent can still answer.
        """
        number = await self.post(thread, text)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for event in await self.events(thread, after=number):
                if event["type"] == "text" and event["author_kind"] == "agent":
                    return {**event, "text": event["data"]["text"]}
            await asyncio.sleep(_LOOK)
        raise LimitReachedError(f"no agent answered in thread {thread} within {seconds:g} s")

    # Runs.

    async def runs(
        self,
        states: Sequence[str] = (),
        *,
        attachment: str | None = None,
        key: str | None = None,
        limit: int = 100,
    ) -> Sequence[Row]:
        """Return runs, the newest first.

        Raises:
            ConfigError: a state does not exist, or the attachment neither exists nor has runs.
        """
        known = [state.value for state in RunState]
        if wrong := [state for state in states if state not in known]:
            raise ConfigError(f'invalid state "{wrong[0]}"', hint=f"Use {', '.join(known)}.")
        wanted = RunFilter(tuple(map(RunState, states)), attachment=attachment, key=key)
        return await self._run(lambda conn: listings.list_runs(conn, wanted, limit=limit))

    async def run(self, run: int) -> Row:
        """Return a run with its steps.

        Raises:
            ConfigError: it does not exist, or the caller cannot see it.
        """
        found = await self._run(lambda conn: listings.show_run(conn, run))
        if found is None:
            raise ConfigError(f"run {run} does not exist, or you cannot see it")
        return found

    async def retry(self, *runs: int, fresh: bool = False) -> None:
        """Requeue failed, dead or cancelled runs: all, or none.

        Args:
            fresh: begin with an empty transcript; a run that wrote or sent something is refused.
        """
        await self._run(lambda conn: operator.retry(conn, runs, fresh=fresh))

    async def fork(  # noqa: PLR0913 - what a fork changes
        self,
        run: int,
        step: int,
        *,
        prompt: str | None = None,
        reply: Json = None,
        arguments: Mapping[str, Json] | None = None,
        newest_version: bool = False,
    ) -> int:
        """Begin a run that goes on from a step of a run that has ended; return its ID.

        Args:
            step: a reply, or a step of a call.
            prompt: the system prompt from there on.
            reply: instead of the model's: a text, or an object with text and calls.
            arguments: of the call, instead of the model's.
            newest_version: go on with the current version of the attachment.
        """
        change = operator.Change(prompt, reply, arguments, newest_version)
        return await self._run(lambda conn: operator.fork(conn, run, step, change))

    async def cancel(self, *runs: int, reason: str | None = None) -> None:
        """Cancel runs: all, or none if one has ended."""
        await self._run(lambda conn: operator.cancel(conn, runs, reason))

    # Approvals.

    async def approvals(self) -> Sequence[Row]:
        """Return the tool calls that wait for a person."""
        return await self._run(listings.list_approvals)

    async def approve(self, approval: int, arguments: Mapping[str, Json] | None = None) -> None:
        """Approve a call, with other arguments if they are given."""
        if arguments is None:
            await self._run(lambda conn: operator.approve(conn, [approval]))
        else:
            await self._run(lambda conn: operator.approve_edited(conn, approval, arguments))

    async def reject(self, approval: int, reason: str | None = None) -> None:
        """Reject a call; the model receives the reason."""
        await self._run(lambda conn: operator.reject(conn, [approval], reason))

    async def answer(self, approval: int, text: str) -> None:
        """Answer the question of an agent."""
        await self._run(lambda conn: operator.answer(conn, approval, text))

    # Memory.

    async def memories(self, agent: str | None = None, *, limit: int = 100) -> Sequence[Row]:
        """Return memories, the latest first."""
        return await self._run(
            lambda conn: memories.list_memories(conn, agent, None, limit, dead=False)
        )

    async def remember(self, agent: str, value: Json, *, key: str | None = None) -> UUID:
        """Store a memory of an agent; a key replaces what was stored under it."""
        fields = {"key": key, "kind": "semantic", "importance": 0.5, "about": None, "expires": None}
        return UUID(await self._run(lambda conn: memories.add_memory(conn, agent, value, fields)))

    async def recall(self, agent: str, query: str, *, limit: int = 5) -> Sequence[Row]:
        """Return what fits a query, best first."""
        return await self._run(lambda conn: memories.recall(conn, agent, query, None, limit))

    async def forget(self, memory: UUID) -> bool:
        """Delete a memory with what it replaced; return whether it existed."""
        return await self._run(lambda conn: memories.forget_memory(conn, str(memory)))

    # Connection.

    async def _run(self, work: Callable[[AsyncConnection[Any]], Coroutine[Any, Any, T]]) -> T:
        async with self._using:
            conn = await self._open()
            with translating():
                async with conn.transaction():
                    return await work(conn)

    async def _open(self) -> AsyncConnection[Any]:
        if self._conn is None or self._conn.closed:
            if not self._dsn:
                raise ConfigError("no database given", hint='Use Agents("postgresql://…").')
            self._conn = await connect(
                self._dsn, application="walagent client", identity=self._identity
            )
        return self._conn


class Agents(Blocking[AsyncAgents]):
    """The same as `AsyncAgents`, for programs without an event loop; open it with `with`."""

    def __init__(self, dsn: str, *, token: str | None = None) -> None:
        """Store the parameters, which are those of `AsyncAgents`."""
        super().__init__(AsyncAgents(dsn, token=token))

    def threads(self, *, archived: bool = False, limit: int = 100) -> Sequence[Row]:
        """Return the threads of the caller; see `AsyncAgents.threads`."""
        return self._run(self._client.threads(archived=archived, limit=limit))

    def open_thread(self, title: str = "", members: Sequence[str] = ()) -> UUID:
        """Open a thread; see `AsyncAgents.open_thread`."""
        return self._run(self._client.open_thread(title, members))

    def post(self, thread: UUID, text: str, *, interrupt: bool = False) -> int:
        """Post a text; return the number of its event; see `AsyncAgents.post`."""
        return self._run(self._client.post(thread, text, interrupt=interrupt))

    def events(self, thread: UUID, *, after: int = 0, limit: int = 1000) -> Sequence[Row]:
        """Return the latest events of a thread; see `AsyncAgents.events`."""
        return self._run(self._client.events(thread, after=after, limit=limit))

    def ask(self, thread: UUID, text: str, *, seconds: float = 300.0) -> Row:
        """Post a text and wait for an answer; see `AsyncAgents.ask`."""
        return self._run(self._client.ask(thread, text, seconds=seconds))

    def runs(
        self,
        states: Sequence[str] = (),
        *,
        attachment: str | None = None,
        key: str | None = None,
        limit: int = 100,
    ) -> Sequence[Row]:
        """Return runs, the newest first; see `AsyncAgents.runs`."""
        return self._run(self._client.runs(states, attachment=attachment, key=key, limit=limit))

    def run(self, run: int) -> Row:
        """Return a run with its steps; see `AsyncAgents.run`."""
        return self._run(self._client.run(run))

    def retry(self, *runs: int, fresh: bool = False) -> None:
        """Requeue failed, dead or cancelled runs: all, or none; see `AsyncAgents.retry`."""
        self._run(self._client.retry(*runs, fresh=fresh))

    def fork(  # noqa: PLR0913 - as above
        self,
        run: int,
        step: int,
        *,
        prompt: str | None = None,
        reply: Json = None,
        arguments: Mapping[str, Json] | None = None,
        newest_version: bool = False,
    ) -> int:
        """Begin a run that goes on from a step of another one; see `AsyncAgents.fork`."""
        return self._run(
            self._client.fork(
                run,
                step,
                prompt=prompt,
                reply=reply,
                arguments=arguments,
                newest_version=newest_version,
            )
        )

    def cancel(self, *runs: int, reason: str | None = None) -> None:
        """Cancel runs: all, or none if one has ended."""
        self._run(self._client.cancel(*runs, reason=reason))

    def approvals(self) -> Sequence[Row]:
        """Return the tool calls that wait for a person."""
        return self._run(self._client.approvals())

    def approve(self, approval: int, arguments: Mapping[str, Json] | None = None) -> None:
        """Approve a call, with other arguments if they are given."""
        self._run(self._client.approve(approval, arguments))

    def reject(self, approval: int, reason: str | None = None) -> None:
        """Reject a call; the model receives the reason."""
        self._run(self._client.reject(approval, reason))

    def answer(self, approval: int, text: str) -> None:
        """Answer the question of an agent."""
        self._run(self._client.answer(approval, text))

    def memories(self, agent: str | None = None, *, limit: int = 100) -> Sequence[Row]:
        """Return memories, the latest first."""
        return self._run(self._client.memories(agent, limit=limit))

    def remember(self, agent: str, value: Json, *, key: str | None = None) -> UUID:
        """Store a memory of an agent; see `AsyncAgents.remember`."""
        return self._run(self._client.remember(agent, value, key=key))

    def recall(self, agent: str, query: str, *, limit: int = 5) -> Sequence[Row]:
        """Return what fits a query, best first."""
        return self._run(self._client.recall(agent, query, limit=limit))

    def forget(self, memory: UUID) -> bool:
        """Delete a memory with what it replaced; return whether it existed."""
        return self._run(self._client.forget(memory))


__all__: Sequence[str] = ["Agents", "AsyncAgents"]
