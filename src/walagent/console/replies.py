"""Send replies while models write them, as server-sent events.

    GET /v1/replies?run=NUMBER       those of a run
    GET /v1/replies?thread=ID        those that will be posted in a thread

    data: {"reply": 7, "run": 12, "agent": "sarah", "text": "Hello "}
    data: {"reply": 7, "run": 12, "agent": "sarah", "state": "recorded"}

The text continues what was sent of the same reply.  States: "recorded" (the rows have the reply),
"withdrawn" (what was written counts for nothing), "begun again" (the text starts again).  After a
disconnect, a client forgets what was not recorded.
"""

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final
from uuid import UUID

import orjson
from psycopg import AsyncConnection

from walagent.base.concurrency import first_of
from walagent.domain.tenant import Actor
from walagent.errors import WalagentError
from walagent.http.exchange import RefusedError
from walagent.http.shares import NOBODY, Shares
from walagent.runs.live_replies import LiveReplies, Reader, changes_of
from walagent.sync.asgi import Receive, Send

_CHECKED: Final = 60.0  # seconds between checks of the reader's rights
_QUIET: Final = 15.0  # seconds without an event until a comment is sent
_DIGITS: Final = 19  # of an int8
_HEADERS: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
]


class ReplyStreams:
    """The streams of a process.

    Args:
        checked: seconds between checks of the reader's rights.
    """

    def __init__(self, replies: LiveReplies, checked: float = _CHECKED) -> None:
        self._replies = replies
        self._checked = checked
        self._places = Shares("streams of replies", 1000, of_tenant=500, of_principal=100)

    async def send(
        self,
        reader: Reader,
        check: Callable[[], Awaitable[None]],
        receive: Receive,
        send: Send,
        who: Actor = NOBODY,
    ) -> None:
        """Send what *reader* reads until the client disconnects, or may no longer read it.

        Args:
            check: raises an error if the client may not read it.
            who: the client.

        Raises:
            RefusedError: too many streams are open.
            WalagentError, RefusedError: of the first check.
        """
        with self._places.now(who):
            await check()
            with self._replies.reading(reader):
                await first_of(sent=self._follow(reader, check, send), gone=disconnected(receive))
            await send({"type": "http.response.body", "body": b""})

    async def _follow(
        self, reader: Reader, check: Callable[[], Awaitable[None]], send: Send
    ) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        await send({"type": "http.response.body", "body": b": reading\n\n", "more_body": True})
        checked = time.monotonic()
        async for changes in changes_of(reader, min(_QUIET, self._checked)):
            if time.monotonic() - checked > self._checked:
                try:
                    await check()
                except (WalagentError, RefusedError):
                    return  # the client asks again, and is answered why
                checked = time.monotonic()
            events = b"".join(b"data: " + orjson.dumps(each) + b"\n\n" for each in changes)
            body = events or b": waiting\n\n"
            await send({"type": "http.response.body", "body": body, "more_body": True})


def reader_of(query: Mapping[str, str]) -> Reader:
    """Return who reads what a request names.

    Raises:
        RefusedError: it names neither a run nor a thread, or both.
    """
    run, thread = query.get("run", ""), query.get("thread", "")
    if bool(run) != bool(thread):
        if run.isascii() and run.isdigit() and len(run) < _DIGITS:
            return Reader(run_id=int(run))
        try:
            return Reader(thread=UUID(thread))
        except ValueError:
            pass
    raise RefusedError(400, 'expected the number of a run in "run", or an ID in "thread"')


async def check_reader(conn: AsyncConnection, reader: Reader) -> None:
    """Check that the principal of this transaction may read it.

    Raises:
        RefusedError: it does not exist, or is hidden from the principal.
    """
    if reader.run_id is not None:
        # As of its steps, which say more than the run.
        cursor = await conn.execute(
            "select from agent.run r where r.id = %s"
            " and (agent_internal.sees_runs() or r.principal = agent.current_principal())",
            [reader.run_id],
        )
        what = f"run {reader.run_id}"
    else:
        cursor = await conn.execute("select from agent.thread where id = %s", [reader.thread])
        what = f"thread {reader.thread}"
    if not cursor.rowcount:
        raise RefusedError(404, f"{what} does not exist, or you may not see it")


async def disconnected(receive: Receive) -> None:
    """Wait until the client is gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
