"""One tenant, or somebody without a token, takes from others neither console nor links."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from secrets import token_urlsafe
from uuid import uuid4

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE, run_all, session, value
from tests.helpers.live import desk
from tests.helpers.people import token_of
from tests.integration.console.test_api import WRITE, served_at
from walagent.console import acting
from walagent.models.scripted.scripted_model import ScriptedModel

PEOPLE = """
insert into agent.tenant (name) values ('acme'), ('umbra');
insert into agent.principal (tenant, name) values ('acme', 'eve'), ('umbra', 'bob');
"""
THREAD = "00000000-0000-4000-8000-0000000000aa"


def of(token: str, **more: str) -> dict[str, str]:
    """The headers of a program of a principal."""
    return {"authorization": f"Bearer {token}", **WRITE, **more}


async def test_locks_of_a_tenant_are_waited_for_by_its_own_requests(
    conn: AsyncConnection, dsn: str
) -> None:
    """Two at a time, and each for two seconds; the other tenant is answered meanwhile."""
    await run_all(conn, PEOPLE)
    eve = await token_of(conn, "eve", tenant="acme")
    bob = await token_of(conn, "bob", tenant="umbra")
    async with session(dsn) as holder, served_at(dsn) as (_, client):
        async with holder.transaction():
            await holder.execute("select agent.act_as(%s)", [eve])
            await value(holder, "select agent.open_thread('t', '{}', %s)", THREAD)
        async with holder.transaction():
            await holder.execute("select from agent.thread where id = %s for update", [THREAD])
            posts = [
                asyncio.create_task(
                    client.post(
                        "/v1/mutations/console.post",
                        json={"thread": THREAD, "text": "y", "id": str(uuid4())},
                        headers=of(eve),
                        timeout=60,
                    )
                )
                for _ in range(12)
            ]
            for _ in range(20):
                answer = await client.get("/v1/session", headers=of(bob))
                assert answer.status_code == 200
                await asyncio.sleep(0.05)
            assert not all(post.done() for post in posts)
            answered, _ = await asyncio.wait(posts, return_when=asyncio.FIRST_COMPLETED)
            assert {task.result().status_code for task in answered} == {409}
        rest = await asyncio.gather(*posts)
        assert {each.status_code for each in rest} <= {200, 409}


@pytest.mark.slow
async def test_streams_of_replies_of_a_principal_leave_those_of_others(
    conn: AsyncConnection, dsn: str
) -> None:
    """More than its share are refused, in words that say so."""
    await run_all(conn, PEOPLE)
    async with desk(conn, dsn, ScriptedModel(["Hi."])) as d, AsyncExitStack() as stack:
        ann = await token_of(conn, "ann")
        limits = httpx.Limits(max_connections=None)
        client = await stack.enter_async_context(
            httpx.AsyncClient(base_url=d.url, timeout=60, limits=limits)
        )
        params, headers = {"thread": str(d.thread)}, of(ann)
        for _ in range(100):
            stream = client.stream("GET", "/v1/replies", params=params, headers=headers)
            answer = await stack.enter_async_context(stream)
            assert answer.status_code == 200
        refused = await client.get("/v1/replies", params=params, headers=headers)
        assert refused.status_code == 429
        assert "of one principal" in refused.json()["message"]


async def test_no_body_is_read_before_it_is_known_whose_it_is(
    conn: AsyncConnection, dsn: str
) -> None:
    """A request without a valid token is refused while its body is still to come."""
    await run_all(conn, PEOPLE)
    async with served_at(dsn) as (url, _):
        port = int(url.rpartition(":")[2])
        for path in ("mutations/console.post", "ask", "try", "session"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(
                f"POST /v1/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nx-walagent-request: 1\r\n"
                "authorization: Bearer wla_forged\r\ncontent-type: application/json\r\n"
                "content-length: 4000000\r\n\r\n".encode()
                + b'{"token": "'
                + b"a" * 100_000
            )
            async with asyncio.timeout(5):
                status = (await reader.readline()).split()[1]
            assert status in {b"401", b"404", b"413"}, path
            writer.close()


@asynccontextmanager
async def flooded(url: str) -> AsyncGenerator[None]:
    """Somebody sends tokens that nobody has, over many connections, and as fast as they can."""
    done, refused = asyncio.Event(), asyncio.Event()

    async def flood(client: httpx.AsyncClient) -> None:
        while not done.is_set():
            headers = of(f"wla_{token_urlsafe(32)}")
            with suppress(httpx.TransportError):  # an unknown one is the first that is dropped
                answer = await client.get("/v1/session", headers=headers, timeout=60)
                assert answer.status_code in {401, 429}
                refused.set()

    async with httpx.AsyncClient(base_url=url) as client, asyncio.TaskGroup() as group:
        for _ in range(40):
            group.create_task(flood(client))
        async with asyncio.timeout(DEADLINE):
            await refused.wait()
        yield
        done.set()


@pytest.mark.slow
async def test_who_has_no_token_keeps_nobody_out_who_has_one(
    conn: AsyncConnection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with a token that the process has not seen, and with a session or link just made."""
    monkeypatch.setattr(acting, "_KNOWN", 0.1)  # seconds
    await run_all(conn, PEOPLE)
    known, *new = [await token_of(conn, "eve", tenant="acme") for _ in range(3)]
    linked = "select code from agent_internal.make_link(interval '5 min') where %s <> ''"
    async with served_at(dsn) as (url, client):

        async def answered(token: str) -> None:
            answer = await client.get("/v1/session", headers=of(token), timeout=60)
            assert answer.status_code == 200, answer.text

        async def signs_in(**given: str) -> None:
            answer = await client.post("/v1/session", json=given, headers=WRITE, timeout=60)
            assert answer.status_code == 200, answer.text
            answer = await client.get("/v1/session", headers=WRITE, timeout=60)
            assert answer.status_code == 200, answer.text
            client.cookies.clear()

        await answered(known)
        async with flooded(url):
            for token in new:
                await answered(known)
                await signs_in(token=known)
                await answered(token)
                await signs_in(token=token)
                await signs_in(code=await value(conn, linked, token))
