"""Replies while models write them: who reads them, and what is taken back."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx2 as httpx
import orjson
import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DEADLINE, run_all, value
from tests.helpers.people import token_of
from walagent.agent.models.scripted.model import Answer, Fault, ScriptedModel, call, in_turn
from walagent.console.api import ConsoleApi, Offer
from walagent.console.guard import hosts_of
from walagent.console.replies import ReplyStreams
from walagent.http.server import listen, serve_on
from walagent.message import Reply, Request
from walagent.store.connections import connect
from walagent.store.errors import translating
from walagent.sync.app import Receive, Scope, Send

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
        """Answer; with a reader, after a word."""
        if request.on_text is None:
            return await super().complete(request)
        self.begun.set()
        request.on_text("Well, ")
        await self.go.wait()
        return await super().complete(request)


class _Engine:
    def __init__(self, dsn: str) -> None:
        self._dsn = dsn

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[AsyncConnection[Any]]:
        with translating():
            async with await connect(self._dsn, application="walagent sync") as conn:
                yield conn


async def _nothing(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError(f"it serves no shapes: {scope}, {receive}, {send}")


class Desk:
    """A daemon, a thread of Ann and Sarah, and browsers."""

    def __init__(self, conn: AsyncConnection, daemon: Daemon, url: str, thread: object) -> None:
        self.conn, self.daemon, self.url, self.thread = conn, daemon, url, thread

    async def post(self, text: str = "Hi!") -> None:
        """Post as the operator, which created the thread."""
        await value(self.conn, "select agent.post(%s, %s)", self.thread, text)

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
        api = ConsoleApi(_Engine(dsn), _nothing, offer)
        task = asyncio.create_task(serve_on(api, sockets))
        thread = await value(conn, "select agent.open_thread('Talk', '{sarah,ann}')")
        yield Desk(conn, d, f"http://127.0.0.1:{sockets[0].getsockname()[1]}", thread)
        task.cancel()
        await asyncio.wait({task})


async def test_a_member_reads_a_reply_as_it_is_written(conn: AsyncConnection, dsn: str) -> None:
    """Before it is recorded; also one who comes later, from the begin on; and then it is posted."""
    model = Writing("hello there.")
    async with desk(conn, dsn, model) as d:
        ann, vic = await token_of(conn, "ann"), await token_of(conn, "vic")
        async with d.reading(ann) as first:
            await d.post()
            event = await first.next()
            assert event is not None
            assert (event["agent"], event["text"]) == ("sarah", "Well, ")
            assert await value(conn, "select count(*) from agent.event where author = 'sarah'") == 0
            async with d.reading(vic, run=event["run"]) as second:
                seen = await second.next()
                assert seen is not None
                assert seen["text"] == "Well, "
                model.go.set()
                assert await first.until_state() == ("hello there.", "recorded")
                assert await second.until_state() == ("hello there.", "recorded")
        await d.daemon.ended()
        text = "select data ->> 'text' from agent.event where author = 'sarah'"
        assert await value(conn, text) == "hello there."


async def test_nothing_is_streamed_if_nobody_reads(conn: AsyncConnection, dsn: str) -> None:
    """Neither asked of the provider, nor kept."""
    model = Writing("hello there.", "again.")
    async with desk(conn, dsn, model) as d:
        async with d.reading(await token_of(conn, "ann")):
            pass
        async with asyncio.timeout(DEADLINE):
            while d.daemon.shop.replies.readers:  # noqa: ASYNC110 - announced to nobody
                await asyncio.sleep(0.01)
        await d.post()
        await d.daemon.ended()
        assert [each.on_text for each in model.requests] == [None]


async def test_who_may_not_read(conn: AsyncConnection, dsn: str) -> None:
    """Who is nobody, of another tenant or no member; and nobody under another host."""
    model = Writing("hello there.")
    async with desk(conn, dsn, model) as d:
        ann = await token_of(conn, "ann")
        async with d.reading(ann) as stream:
            await d.post()
            event = await stream.next()
            assert event is not None
            for name, tenant in (("bob", "b"), ("eve", "default")):
                token = await token_of(conn, name, tenant=tenant)
                async with d.reading(token) as refused:
                    assert refused.answer.status_code == 404
            bob = await token_of(conn, "bob", tenant="b")
            async with d.reading(bob, run=event["run"]) as refused:
                assert refused.answer.status_code == 404
            async with d.reading("wla_forged") as refused:
                assert refused.answer.status_code == 401
            for wrong in (
                {"run": "x"}, {"thread": "x"}, {"run": "1", "thread": uuid4()}, {"other": "1"},
                {"run": "9" * 30},
            ):  # fmt: skip
                async with d.reading(ann, **wrong) as refused:
                    assert refused.answer.status_code == 400
            model.go.set()
    async with desk_without_hosts(dsn) as url, httpx.AsyncClient(base_url=url) as client:
        answer = await client.get("/v1/replies?run=1", headers={"host": "evil.example"})
        assert answer.status_code == 403


@asynccontextmanager
async def desk_without_hosts(dsn: str) -> AsyncGenerator[str]:
    """A server alone."""
    sockets = await listen("127.0.0.1", 0)
    api = ConsoleApi(_Engine(dsn), _nothing, Offer({}, {}, hosts_of("127.0.0.1", None), ""))
    task = asyncio.create_task(serve_on(api, sockets))
    yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.parametrize(
    "ends",
    [
        "update agent.token set revoked_at = now() where principal = 'ann'",
        "delete from agent.member where principal = 'ann'",
        "update agent.principal set active = false where name = 'ann'",
    ],
)
async def test_a_right_that_ends_ends_the_stream(
    conn: AsyncConnection, dsn: str, ends: str
) -> None:
    """Within the time between two checks, while the model still writes."""
    model = Writing("what Ann must not read.")
    async with (
        desk(conn, dsn, model, checked=0.2) as d,
        d.reading(await token_of(conn, "ann")) as stream,
    ):
        await d.post()
        assert (await stream.next() or {})["text"] == "Well, "
        await run_all(conn, ends)
        assert await stream.next() is None
        model.go.set()


async def test_what_is_said_beside_a_call_is_taken_back(conn: AsyncConnection, dsn: str) -> None:
    """It is posted nowhere; who reads the run sees it recorded."""
    model = Writing(["let me think", call("recall", query="colors")], "blue.")
    async with desk(conn, dsn, model) as d:
        ann, vic = await token_of(conn, "ann"), await token_of(conn, "vic")
        async with d.reading(ann) as stream:
            await d.post()
            event = await stream.next()
            assert event is not None
            async with d.reading(vic, run=event["run"]) as of_run:
                model.go.set()
                assert await stream.until_state() == ("let me think", "withdrawn")
                assert await stream.until_state() == ("Well, blue.", "recorded")
                assert await of_run.until_state() == ("Well, let me think", "recorded")


async def test_a_reply_that_breaks_off_is_taken_back(conn: AsyncConnection, dsn: str) -> None:
    """The next attempt writes another one; nothing is posted twice."""
    model = Writing(in_turn(Fault(cut=True), "hello there."))
    model.go.set()
    async with (
        desk(conn, dsn, model) as d,
        d.reading(await token_of(conn, "ann")) as stream,
    ):
        await d.post()
        assert await stream.until_state() == ("Well, ", "withdrawn")
        assert await stream.until_state() == ("Well, hello there.", "recorded")
        await d.daemon.ended()
        said = "select count(*) from agent.event where author = 'sarah'"
        assert await value(conn, said) == 1


async def test_a_run_that_is_cancelled_takes_its_reply_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """As does a worker that stops."""
    model = Writing("hello there.")
    async with (
        desk(conn, dsn, model) as d,
        d.reading(await token_of(conn, "ann")) as stream,
    ):
        await d.post()
        event = await stream.next()
        assert event is not None
        await value(conn, "select agent.cancel(%s)", event["run"])
        assert await stream.until_state() == ("", "withdrawn")


async def test_a_reader_that_does_not_read_holds_up_nobody(conn: AsyncConnection, dsn: str) -> None:
    """A client that reads nothing of a long reply costs the run no time, and others read on."""
    words = " ".join(str(number) for number in range(300_000))
    model = ScriptedModel([words])
    async with desk(conn, dsn, model) as d:
        token = await token_of(conn, "ann")
        async with d.reading(token) as slow, d.reading(token) as quick:
            await d.post()
            assert await quick.until_state() == (words, "recorded")
            await d.daemon.ended()
            assert slow.answer.status_code == 200
