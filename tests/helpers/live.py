"""A daemon whose replies can be read as they are written, and browsers that read them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import httpx2 as httpx
import orjson
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DEADLINE, run_all, value
from walagent.console.api import ConsoleApi
from walagent.console.offer import Offer
from walagent.console.replies import ReplyStreams
from walagent.errors import WalagentError
from walagent.http.hosts import hosts_of
from walagent.http.server import listen, serve_on
from walagent.message import Reply, Request
from walagent.models.script import Answer
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.sync.asgi import Receive, Scope, Send

SETUP = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('fake', 'scripted', 'fake', 1, 5);
insert into agent.agent (name, model, system_prompt, tools)
values ('sarah', 'fake', 'You are Sarah.', '{recall}');
select agent.attach_to_threads('sarah');
insert into agent.tenant (name) values ('b');
insert into agent.principal (tenant, name)
values ('default', 'ann'), ('default', 'eve'), ('default', 'vic'), ('b', 'bob');
insert into agent.role_grant (tenant, principal, role, granted_by)
values ('default', 'vic', 'viewer', 'test'), ('b', 'bob', 'admin', 'test');
"""


class Writing(ScriptedModel):
    """A model that writes its first word, and the others when the test lets it."""

    def __init__(self, *answers: Answer) -> None:
        super().__init__(answers)
        self.go = asyncio.Event()
        self.begun = asyncio.Event()

    async def complete(self, request: Request) -> Reply:
        """Answer; with a reader, the first word waits for nothing."""
        if request.on_text is None:
            return await super().complete(request)
        self.begun.set()
        try:
            reply = await super().complete(replace(request, on_text=None))
        except WalagentError as error:
            request.on_text("Well, ")
            await self.go.wait()
            raise error from None
        first, space, rest = reply.text.partition(" ")
        request.on_text(first + space)
        await self.go.wait()
        request.on_text(rest)
        return reply


class Engine:
    """Where connections of the daemon's login come from."""

    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        """Connect."""
        with translating():
            async with await connect(self._dsn, application="walagent sync") as conn:
                yield conn


async def no_shapes(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve no shapes."""
    raise AssertionError(f"it serves no shapes: {scope}, {receive}, {send}")


class Desk:
    """A daemon, a thread of Ann and Sarah, and browsers."""

    def __init__(self, conn: AsyncConnection, daemon: Daemon, url: str, thread: object) -> None:
        self.conn, self.daemon, self.url, self.thread = conn, daemon, url, thread

    async def post(self, text: str = "Hi!") -> None:
        """Post as the operator, which created the thread."""
        await value(self.conn, "select agent.post(%s, %s)", self.thread, text)

    async def reads(self, count: int) -> None:
        """Wait until so many read replies."""
        async with asyncio.timeout(DEADLINE):
            while self.daemon.shop.replies.readers != count:  # noqa: ASYNC110 - announced to nobody
                await asyncio.sleep(0.01)

    @asynccontextmanager
    async def reading(self, token: str, **asked: object) -> AsyncGenerator["Stream"]:
        """Follow replies; they are followed when this begins."""
        headers = {"authorization": f"Bearer {token}"}
        params = {name: str(each) for name, each in (asked or {"thread": self.thread}).items()}
        async with (
            httpx.AsyncClient(base_url=self.url, timeout=DEADLINE) as client,
            client.stream("GET", "/v1/replies", params=params, headers=headers) as answer,
        ):
            stream = Stream(answer)
            if answer.status_code == 200:
                assert await anext(stream.lines) == ": reading"
            yield stream


class Stream:
    """What one browser receives."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.lines = answer.aiter_lines()

    async def next(self) -> dict[str, Any] | None:
        """The next event; None at the end."""
        async for line in self.lines:
            if line.startswith("data: "):
                return orjson.loads(line.removeprefix("data: "))
        return None

    async def until_state(self) -> tuple[str, str]:
        """The text of the reply, and what became of it."""
        text = ""
        while (event := await self.next()) is not None:
            text += event.get("text", "")
            if "state" in event:
                return text, event["state"]
        return text, "ended"


@asynccontextmanager
async def desk(
    conn: AsyncConnection, dsn: str, model: ScriptedModel, checked: float = 60.0
) -> AsyncGenerator[Desk]:
    """Start all of it."""
    await run_all(conn, SETUP)
    async with daemon(conn, dsn, {"fake": model}) as d:
        streams = ReplyStreams(d.shop.replies, checked)
        offer = Offer({}, {}, hosts_of("127.0.0.1", None), "", replies=streams)
        sockets = await listen("127.0.0.1", 0)
        api = ConsoleApi(Engine(dsn), no_shapes, offer)
        task = asyncio.create_task(serve_on(api, sockets))
        thread = await value(conn, "select agent.open_thread('Talk', '{sarah,ann}')")
        yield Desk(conn, d, f"http://127.0.0.1:{sockets[0].getsockname()[1]}", thread)
        task.cancel()
        await asyncio.wait({task})
