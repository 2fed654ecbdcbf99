"""Many requests for shapes over one WebSocket, and who cannot open one."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from psycopg import AsyncConnection
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.helpers.database import DEADLINE, run_all
from tests.helpers.shapes import SECRET, Follower, Served, serving
from walagent.config import Replication
from walagent.console import multiplex
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.query import NamedQuery

THREADS = NamedQuery("threads", "select id, title from agent.thread", ("id",))
PEOPLE = """
create table item (id integer primary key, text text);
insert into agent.tenant (name) values ('a'), ('b');
insert into agent.principal (tenant, name) values ('a', 'ann'), ('b', 'bob');
"""
POLICY = 1008


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server of a table and a query, and people whose tokens are their names."""
    await run_all(conn, PEOPLE)
    for tenant, name in (("a", "ann"), ("b", "bob")):
        await conn.execute(
            "insert into agent.token (tenant, principal, digest) values (%s, %s, %s)",
            (tenant, name, sha256(name.encode()).digest()),
        )
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn, queries={"threads": THREADS}) as found:
        yield found


def opened(served: Served, token: str = "", **headers: str) -> connect:
    """A socket; with the token of a session as its cookie."""
    if token:
        headers["Cookie"] = f"walagent_session_{served.port}={token}"
    uri = f"ws://127.0.0.1:{served.port}/v1/multiplex"
    return connect(uri, additional_headers=headers)


async def ask(socket: ClientConnection, identifier: int, url: str) -> None:
    """Send a request."""
    await socket.send(json.dumps({"id": identifier, "url": url}))


async def answer(socket: ClientConnection) -> dict[str, Any]:
    """Receive an answer."""
    async with asyncio.timeout(DEADLINE):
        return json.loads(await socket.recv())


async def closing(socket: ClientConnection) -> tuple[int, str]:
    """Wait until the server has closed the socket; return its code and reason."""
    with suppress(ConnectionClosed):
        async with asyncio.timeout(DEADLINE):
            async for _ in socket:
                pass
    return socket.close_code or 0, socket.close_reason or ""


async def post(conn: AsyncConnection, name: str, title: str) -> None:
    """Open a thread as a person."""
    async with conn.transaction():
        await conn.execute("select agent.act_as(%s)", (name,))
        await conn.execute("select agent.open_thread(%s)", (title,))


async def test_each_request_is_answered_as_over_http(conn: AsyncConnection, served: Served) -> None:
    """With its status, its headers of the protocol and its body, when there is something new."""
    client = Follower(served, table="public.item")
    await client.catch_up()
    async with opened(served) as socket:
        live = f"/v1/shape?table=public.item&secret={SECRET}&offset={client.offset}"
        live += f"&handle={client.handle}&live=true"
        await ask(socket, 1, live)
        await ask(socket, 2, f"/v1/shape?table=public.none&secret={SECRET}&offset=-1")
        wrong = await answer(socket)
        assert (wrong["id"], wrong["status"]) == (2, 400)
        await conn.execute("insert into item values (1, 'x')")
        found = await answer(socket)
        assert (found["id"], found["status"]) == (1, 200)
        assert found["headers"]["electric-handle"] == client.handle
        assert json.loads(found["body"])[0]["value"] == {"id": "1", "text": "x"}


@pytest.mark.slow
async def test_a_socket_stays_open_while_a_request_waits(
    conn: AsyncConnection, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time for a request to arrive does not limit it: the request was the upgrade."""
    monkeypatch.setattr("walagent.http.limits.REQUEST_SECONDS", 0.3)
    client = Follower(served, path="threads", token="ann")
    await client.catch_up()
    async with opened(served, "ann") as socket:
        url = f"/v1/shapes/threads?offset={client.offset}&handle={client.handle}&live=true"
        await ask(socket, 1, url)
        await asyncio.sleep(1)
        await post(conn, "ann", "new")
        assert "new" in (await answer(socket))["body"]


async def test_a_socket_has_the_principal_of_its_cookie_or_token(
    conn: AsyncConnection, served: Served
) -> None:
    """No byte of another tenant; a token is sent first, and cannot be changed."""
    await post(conn, "ann", "of a")
    await post(conn, "bob", "of b")
    first = "/v1/shapes/threads?offset=-1"
    for token, title in (("ann", "of a"), ("bob", "of b")):
        async with opened(served, token) as socket:
            await ask(socket, 1, first)
            rows = json.loads((await answer(socket))["body"])
            assert [each["value"]["title"] for each in rows if "value" in each] == [title]
            await socket.send('{"token": "ann"}')
            assert (await closing(socket))[0] == POLICY
    async with opened(served) as socket:
        await socket.send('{"token": "bob"}')
        await ask(socket, 1, first)
        assert "of b" in (await answer(socket))["body"]


async def test_thirty_shapes_share_one_socket(conn: AsyncConnection, served: Served) -> None:
    """All wait at once, and one change answers all."""
    client = Follower(served, path="threads", token="ann")
    await client.catch_up()
    async with opened(served, "ann") as socket:
        for n in range(30):
            url = f"/v1/shapes/threads?offset={client.offset}&handle={client.handle}&live=true"
            await ask(socket, n, url)
        await post(conn, "ann", "new")
        answers = [await answer(socket) for _ in range(30)]
    assert sorted(each["id"] for each in answers) == list(range(30))
    assert all("new" in each["body"] for each in answers)


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_another_site_opens_no_socket_with_a_cookie(
    served: Served, headers: dict[str, str]
) -> None:
    """A browser sends the cookie with an upgrade whatever page asks for it."""
    with pytest.raises(InvalidStatus) as caught:
        async with opened(served, "ann", **headers):
            pass
    assert caught.value.response.status_code == 403


async def test_no_socket_opens_under_a_name_of_somebody_else(served: Served) -> None:
    """A name can be made to point to this machine."""
    uri, headers = (
        f"ws://evil.example:{served.port}/v1/multiplex",
        {"Cookie": f"walagent_session_{served.port}=ann"},
    )
    with pytest.raises(InvalidStatus) as caught:
        async with connect(uri, host="127.0.0.1", port=served.port, additional_headers=headers):
            pass
    assert caught.value.response.status_code == 403


@pytest.mark.parametrize("path", ["/v1/shapes/threads", "/v1/queries/x", "/", "/healthz"])
async def test_other_routes_have_no_sockets(served: Served, path: str) -> None:
    """They are refused before they are opened, and nothing is logged as an error."""
    with pytest.raises(InvalidStatus):
        async with connect(f"ws://127.0.0.1:{served.port}{path}"):
            pass


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "message",
    [
        "nonsense",
        "[]",
        "null",
        b"\x00",
        '{"id": 1}',
        '{"id": "1", "url": "/v1/shapes/threads?offset=-1"}',
        '{"id": 1, "url": "/v1/session"}',
        '{"id": 1, "url": "/v1/mutations/console.cancel"}',
        '{"id": 1, "url": "/v1/shapes-of-others?offset=-1"}',
        '{"id": 1, "url": "http://[evil"}',
        '{"id": 1, "method": "DELETE"}',
    ],
    ids=str,
)
async def test_what_is_no_request_for_a_shape_ends_the_socket(
    served: Served, message: str | bytes
) -> None:
    """It is no way around the guard of other routes."""
    async with opened(served, "ann") as socket:
        await socket.send(message)
        code, reason = await closing(socket)
    assert code == POLICY
    assert "expected" in reason


async def test_a_socket_has_a_limit(served: Served) -> None:
    """Of requests at once, and of the size of what is sent."""
    client = Follower(served, path="threads", token="ann")
    await client.catch_up()
    live = f"/v1/shapes/threads?offset={client.offset}&handle={client.handle}&live=true"
    async with opened(served, "ann") as socket:
        for n in range(multiplex.MOST + 1):
            await ask(socket, n, live)
        assert await closing(socket) == (POLICY, "expected at most 100 requests at once")
    async with opened(served, "ann") as socket:
        await ask(socket, 1, "/v1/shapes/threads?x=" + "x" * 70_000)
        assert (await closing(socket))[0] == 1009


@pytest.mark.slow
async def test_a_request_can_be_cancelled(conn: AsyncConnection, served: Served) -> None:
    """It is not answered, and its number is free again."""
    client = Follower(served, path="threads", token="ann")
    await client.catch_up()
    live = f"/v1/shapes/threads?offset={client.offset}&handle={client.handle}&live=true"
    async with opened(served, "ann") as socket:
        await ask(socket, 1, live)
        await socket.send('{"id": 1, "cancel": true}')
        await socket.send('{"id": 2, "cancel": true}')  # there is none
        await asyncio.sleep(0.2)
        await ask(socket, 1, live)
        await post(conn, "ann", "new")
        assert (await answer(socket))["id"] == 1
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.5):
                await socket.recv()


@pytest.mark.slow
async def test_a_token_that_is_revoked_ends_the_socket(
    conn: AsyncConnection, served: Served
) -> None:
    """The request under way ends; the next one is refused, and the socket is closed."""
    client = Follower(served, path="threads", token="ann")
    await client.catch_up()
    live = f"/v1/shapes/threads?offset={client.offset}&handle={client.handle}&live=true"
    async with opened(served, "ann") as socket:
        await ask(socket, 1, live)
        await asyncio.sleep(0.2)
        await conn.execute("update agent.token set revoked_at = now()")
        status, number = 200, 1
        while status != 401:
            status, number = (await answer(socket))["status"], number + 1
            if status != 401:
                await ask(socket, number, live)
        assert await closing(socket) == (POLICY, "a request was refused")


@pytest.mark.slow
async def test_who_asks_for_nothing_is_sent_away(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sooner, and without a word, if nothing is known of them."""
    monkeypatch.setattr(multiplex, "_UNKNOWN", 0.1)
    monkeypatch.setattr(multiplex, "_IDLE", 0.5)
    async with opened(served) as socket:
        assert await closing(socket) == (1006, "")
    async with opened(served, "ann") as socket:
        await ask(socket, 1, "/v1/shapes/threads?offset=-1")
        assert (await answer(socket))["status"] == 200
        assert await closing(socket) == (1001, "nothing was asked for")


async def test_an_answer_that_is_too_large_is_fetched_over_http(
    conn: AsyncConnection, served: Served
) -> None:
    """A socket holds no more than its limit for each request."""
    await conn.execute("insert into item values (1, repeat('x', 2000000))")
    async with opened(served) as socket:
        await ask(socket, 1, f"/v1/shape?table=public.item&secret={SECRET}&offset=-1")
        found = await answer(socket)
    assert (found["status"], found["body"]) == (413, "")
