"""Replies while models write them: who reads them, and what is taken back."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from uuid import uuid4

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all, value
from tests.helpers.live import Engine, Writing, desk, no_shapes
from tests.helpers.people import token_of
from walagent.console.api import ConsoleApi
from walagent.console.offer import Offer
from walagent.http.hosts import hosts_of
from walagent.http.server import listen, serve_on
from walagent.models.script import Fault, call, in_turn
from walagent.models.scripted.scripted_model import ScriptedModel


@pytest.mark.slow
async def test_a_member_reads_a_reply_as_it_is_written(conn: AsyncConnection, dsn: str) -> None:
    """Before it is recorded; also one who comes later, from the begin on; and then it is posted."""
    model = Writing("Well, hello there.")
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
        assert await value(conn, text) == "Well, hello there."


async def test_nothing_is_streamed_if_nobody_reads(conn: AsyncConnection, dsn: str) -> None:
    """Neither asked of the provider, nor kept."""
    model = Writing("Well, hello there.")
    async with desk(conn, dsn, model) as d:
        async with d.reading(await token_of(conn, "ann")):
            pass
        await d.reads(0)
        await d.post()
        await d.daemon.ended()
        assert not model.begun.is_set()


@pytest.mark.slow
async def test_who_may_not_read(conn: AsyncConnection, dsn: str) -> None:
    """Who is nobody, of another tenant or no member; and nobody under another host."""
    model = Writing("Well, hello there.")
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
            for name in ("ann", "eve"):  # no viewers: what was said beside calls is not for them
                token = await token_of(conn, name)
                async with d.reading(token, run=event["run"]) as refused:
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
    api = ConsoleApi(Engine(dsn), no_shapes, Offer({}, {}, hosts_of("127.0.0.1", None), ""))
    task = asyncio.create_task(serve_on(api, sockets))
    yield f"http://127.0.0.1:{sockets[0].getsockname()[1]}"
    task.cancel()
    await asyncio.wait({task})


@pytest.mark.slow
@pytest.mark.few(1)
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
    model = Writing("Well, what Ann must not read.")
    async with (
        desk(conn, dsn, model, checked=0.2) as d,
        d.reading(await token_of(conn, "ann")) as stream,
    ):
        await d.post()
        assert (await stream.next() or {})["text"] == "Well, "
        await run_all(conn, ends)
        assert await stream.next() is None
        model.go.set()


@pytest.mark.slow
async def test_what_is_said_beside_a_call_is_taken_back(conn: AsyncConnection, dsn: str) -> None:
    """It is posted nowhere; who reads the run sees it recorded."""
    model = Writing(["Well, let me think", call("recall", query="colors")], "Well, blue.")
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


@pytest.mark.slow
async def test_a_reply_that_breaks_off_is_taken_back(conn: AsyncConnection, dsn: str) -> None:
    """The next attempt writes another one; nothing is posted twice."""
    model = Writing(in_turn(Fault(cut=True), "Well, hello there."))
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


@pytest.mark.slow
async def test_a_run_that_is_cancelled_takes_its_reply_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """As does a worker that stops."""
    model = Writing("Well, hello there.")
    async with (
        desk(conn, dsn, model) as d,
        d.reading(await token_of(conn, "ann")) as stream,
    ):
        await d.post()
        event = await stream.next()
        assert event is not None
        await value(conn, "select agent.cancel(%s)", event["run"])
        assert await stream.until_state() == ("", "withdrawn")


@pytest.mark.slow
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
