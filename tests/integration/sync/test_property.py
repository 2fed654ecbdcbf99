"""Random transactions, chunks, evictions, reconnects and restarts: each client ends as the table.

A client follows by long polls, an event stream or the multiplexer, and checks each message: no
insert of a key that it has, no update or delete of one that it lacks, no position that is not
after the one before.
"""

import asyncio
import json
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from itertools import count
from typing import Any
from urllib.parse import urlencode

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection
from websockets.asyncio.client import ClientConnection, connect

from tests.helpers.database import run_all
from tests.helpers.shapes import SECRET, Follower, Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot
from walagent.sync.limits import EngineLimits

TABLE = "create table item (id integer primary key, number integer, text text)"
WRITE = """
insert into item values (%s, %s, %s)
on conflict (id) do update set number = excluded.number, text = excluded.text
"""
MOVE = (
    "update item set id = id + 1000 where id = %s and not exists (select from item where id = %s)"
)
ROUNDS = 4
PARTS = {
    "": lambda _id, _number: True,
    "number > 10": lambda _id, number: number > 10,
    f"id in ({', '.join(map(str, range(0, 1100, 2)))})": lambda id_, _number: id_ % 2 == 0,
}  # of all columns, of one that is not in the key, and of the key alone


class Checked(Follower):
    """A client that checks the positions of what it applies, and counts what changes rows."""

    _last: tuple[str, int, int] = ("", 0, -1)

    def apply(self, message: dict[str, Any]) -> None:
        """Apply a message that is after the one before of this handle."""
        if "lsn" in (headers := message["headers"]):
            place = (self.handle, int(headers["lsn"]), headers["op_position"])
            assert place[0] != self._last[0] or place > self._last, (self._last, message)
            self._last = place
        super().apply(message)


class Streamed(Checked):
    """A client that follows by an event stream, and applies what an `up-to-date` ends."""

    async def step(self, *, live: bool = False) -> None:
        """Read one stream until it ends; or send one request."""
        assert isinstance(self.served, Served)
        if not live:
            return await super().step()
        query = {**self.query, "secret": SECRET, "offset": self.offset, "handle": self.handle}
        query |= {"live": "true", "live_sse": "true"}
        async with self.served.http.stream("GET", self.served.url, params=query) as answer:
            if answer.status_code == httpx.codes.CONFLICT:
                return await super().step()  # it is answered so, too
            waiting = list[dict[str, Any]]()
            async for line in answer.aiter_lines():
                if not line.startswith("data: "):
                    continue
                waiting.append(message := json.loads(line.removeprefix("data: ")))
                if message["headers"].get("control") == "up-to-date":
                    for each in waiting:
                        self.apply(each)
                    self.offset = f"{message['headers']['global_last_seen_lsn']}_0"
                    waiting.clear()
        return None


class Multiplexed:
    """One socket for the requests of many clients."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = count(1)
        self._waiting: dict[int, asyncio.Future[httpx.Response]] = {}

    async def get(self, *, path: str = "", token: str = "", **query: str) -> httpx.Response:
        """Request a shape with the secret; cancel the request if this is cancelled."""
        assert not path
        assert not token
        number = next(self._ids)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        url = f"/v1/shape?{urlencode({'secret': SECRET, **query})}"
        await self._socket.send(json.dumps({"id": number, "url": url}))
        try:
            return await self._waiting[number]
        except asyncio.CancelledError:
            await self._socket.send(json.dumps({"id": number, "cancel": True}))
            raise
        finally:
            del self._waiting[number]

    async def read(self) -> None:
        """Give each answer to the request that waits for it."""
        async for text in self._socket:
            found = json.loads(text)
            if (future := self._waiting.get(found["id"])) and not future.done():
                request = httpx.Request("GET", "http://127.0.0.1/v1/shape")
                future.set_result(
                    httpx.Response(
                        found["status"],
                        headers=found["headers"],
                        content=found["body"].encode(),
                        request=request,
                    )
                )


@asynccontextmanager
async def multiplexed(served: Served) -> AsyncIterator[Multiplexed]:
    """Open a socket."""
    async with connect(f"ws://127.0.0.1:{served.port}/v1/multiplex") as socket:
        found = Multiplexed(socket)
        reading = asyncio.create_task(found.read())
        try:
            yield found
        finally:
            reading.cancel()


async def write(conn: AsyncConnection, chance: random.Random) -> None:
    """Commit one random transaction, or roll it back."""
    with suppress(_UndoneError):
        async with conn.transaction():
            for _ in range(chance.randint(1, 6)):
                key = chance.randint(1, 80)
                match chance.randint(0, 9):
                    case 0 | 1:
                        await conn.execute("delete from item where id = %s", (key,))
                    case 2:
                        await conn.execute(MOVE, (key, key + 1000))
                    case 3:
                        await conn.execute("delete from item where id > 1000")
                    case _:
                        text = "x" * chance.choice((1, 100, 4000))
                        await conn.execute(WRITE, (key, chance.randint(0, 20), text))
            if chance.random() < 0.01:
                await conn.execute("truncate item")
            if chance.random() < 0.1:
                raise _UndoneError


class _UndoneError(Exception):
    """The transaction is rolled back."""


async def follow(
    client: Checked, chance: random.Random, deleting: Served, calm: asyncio.Event
) -> None:
    """Follow; until it is calm, leave some requests before they are answered, and end shapes."""
    while True:
        with suppress(TimeoutError):
            patience = 60.0 if calm.is_set() else chance.choice((0.01, 0.1, 5.0))
            async with asyncio.timeout(patience):
                await client.step(live=client.is_up_to_date)
        if chance.random() < 0.02 and client.handle and not calm.is_set():
            query = {**client.query, "secret": SECRET, "handle": client.handle}
            await deleting.http.delete(deleting.url, params=query)


def has_followed(client: Checked) -> bool:
    """Whether it has received a change, and not only rows of snapshots."""
    return any("lsn" in message["headers"] for message in client.messages)


async def ended(tasks: list[asyncio.Task[None]], seconds: float) -> set[asyncio.Task[None]]:
    """Wait until one fails, and no longer than *seconds*; return those that have ended."""
    done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
    return done


async def followed(
    clients: list[Checked], tasks: list[asyncio.Task[None]], calm: asyncio.Event
) -> set[asyncio.Task[None]]:
    """Wait until each client has received a change: on a busy machine it may have snapshots alone.

    Nobody leaves or ends anything meanwhile: where each answer takes longer than a client waits, it
    would not get further.  Returns tasks that have failed.
    """
    calm.set()
    async with asyncio.timeout(60):
        while not all(has_followed(each) for each in clients):
            if done := await ended(tasks, 0.5):
                return done
    return set()


async def end_as_table(clients: list[Checked], conn: AsyncConnection) -> None:
    """Wait until each client has the rows that it follows."""
    rows = await (await conn.execute("select id, number, text from item")).fetchall()
    for client in clients:
        await client.until(
            {
                f'"public"."item"/"{key}"': {"id": str(key), "number": str(value), "text": text}
                for key, value, text in rows
                if PARTS[client.query.get("where", "")](key, value)
            }
        )


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
async def test_every_client_ends_as_the_table(conn: AsyncConnection, dsn: str, seed: int) -> None:
    """By each way to follow, of all rows and of those that conditions select."""
    chance = random.Random(seed)
    await run_all(conn, TABLE)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    queries = [{"table": "item", **({"where": part} if part else {})} for part in PARTS]
    ways = (Checked, Streamed, Checked)  # the last one: over the multiplexer
    clients: list[Checked] = []
    calm = asyncio.Event()

    async def writing() -> None:
        async with await AsyncConnection.connect(dsn, autocommit=True) as own:
            while True:
                await write(own, chance)
                await asyncio.sleep(chance.random() / (2 if calm.is_set() else 50))

    writer: asyncio.Task[None] | None = None
    for number in range(ROUNDS):
        size = chance.choice((200, 5_000, 100_000))
        limits = EngineLimits(
            chunk_bytes=size, log_bytes=chance.choice((20_000, 200_000, 64 << 20))
        )
        async with serving(conn, dsn, limits=limits) as served, multiplexed(served) as socket:
            if not clients:
                clients = [way(served, **query) for way in ways for query in queries]
            for index, client in enumerate(clients):
                client.served = socket if index >= 2 * len(queries) else served
            writer = writer or asyncio.create_task(writing())
            tasks = [asyncio.create_task(follow(each, chance, served, calm)) for each in clients]
            done = await ended([writer, *tasks], 3.0)
            if number == ROUNDS - 1:
                done = done or await followed(clients, [writer, *tasks], calm)
            for each in (*done, *tasks):
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for each in done:
                each.result()
            if number == ROUNDS - 1:
                writer.cancel()
                await asyncio.wait([writer])
                await end_as_table(clients, conn)
    assert all(each.refetches for each in clients)
    assert all(has_followed(each) for each in clients)
