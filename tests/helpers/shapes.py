"""A server of shapes beside a real reader, and a client that follows the protocol."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol

import httpx2 as httpx
from prometheus_client import CollectorRegistry
from psycopg import AsyncConnection

from tests.helpers.database import DEADLINE
from walagent.app.console import make_api
from walagent.app.sinks import DaemonSinks
from walagent.config import Config, Replication
from walagent.config.dsn import Logins, Places
from walagent.config.sections import Http, MutationEntry
from walagent.console.own import Own
from walagent.console.reasons import PageReasons
from walagent.http.routes import build_app
from walagent.http.server import listen, serve_on
from walagent.replication.attempt import Following
from walagent.replication.fan_out import FanOut
from walagent.replication.reader import Reader
from walagent.sync.app import ShapeApp, SyncSettings
from walagent.sync.engine import ShapeEngine
from walagent.sync.limits import EngineLimits
from walagent.sync.principals import TokenCheck
from walagent.sync.query import NamedQuery

SECRET = "a-secret-of-the-tests"


class Served:
    """A running server: where it answers, and its engine."""

    def __init__(
        self,
        port: int,
        engine: ShapeEngine,
        http: httpx.AsyncClient,
        tasks: list[asyncio.Task[None]],
    ) -> None:
        self.url = f"http://127.0.0.1:{port}/v1/shape"
        self.port = port
        self.engine = engine
        self.http = http
        self._tasks = tasks

    async def stop(self) -> None:
        """Stop all of it, as a process does that ends."""
        await self.engine.aclose()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)

    async def mutate(self, token: str, name: str, /, **values: object) -> httpx.Response:
        """Write as a person."""
        headers = {"authorization": f"Bearer {token}", "x-walagent-request": "1"}
        url = f"http://127.0.0.1:{self.port}/v1/mutations/{name}"
        return await self.http.post(url, json=values, headers=headers)

    async def query(self, token: str, name: str, /, **values: str) -> httpx.Response:
        """Read a named query once, as a person."""
        headers = {"authorization": f"Bearer {token}"}
        url = f"http://127.0.0.1:{self.port}/v1/queries/{name}"
        return await self.http.get(url, params=values, headers=headers)

    async def get(self, *, path: str = "", token: str = "", **query: str) -> httpx.Response:
        """Request a shape with the secret, or a named one with a token."""
        if path:
            headers = {"authorization": f"Bearer {token}"} if token else {}
            return await self.http.get(f"{self.url}s/{path}", params=query, headers=headers)
        return await self.http.get(self.url, params={"secret": SECRET, **query})


@asynccontextmanager
async def serving(
    conn: AsyncConnection,
    dsn: str,
    *,
    tables: frozenset[str] = frozenset({"*"}),
    limits: EngineLimits | None = None,
    hold: float = 2.0,
    stream: float = 3.0,
    keep_alive: float = 21.0,
    port: int = 0,
    queries: Mapping[str, NamedQuery] | None = None,
    mutations: Mapping[str, MutationEntry] | None = None,
    public: bool = False,
) -> AsyncIterator[Served]:
    """Run a reader and a server of shapes."""
    logins, streaming, fan_out = Logins(Places(dsn, dsn)), asyncio.Event(), FanOut()
    sinks = DaemonSinks(logins.dsn, fan_out=fan_out)
    reader = Reader(
        Following(logins, Replication(slot=conn.info.dbname), sinks.open, "t", streaming.set)
    )
    engine = ShapeEngine(logins.dsn, fan_out, limits)
    settings = SyncSettings(
        tables,
        queries or {},
        SECRET,
        public=public,
        hold=hold,
        stream=stream,
        keep_alive=keep_alive,
        ahead=1.0,
    )
    app = ShapeApp(engine, settings, TokenCheck(engine.connection))
    own = Own(engine, queries or {})
    reasons = PageReasons(logins, Config(replication=Replication(slot=conn.info.dbname)))
    api = make_api(engine, app, Http(), mutations=mutations or {}, own=own, reasons=reasons)
    mounted = {"/v1": api}  # as the daemon mounts it
    served = build_app(reader.health, CollectorRegistry(), mounted=mounted)
    sockets = await listen("127.0.0.1", port)
    port = sockets[0].getsockname()[1]
    tasks = [
        asyncio.create_task(reader.run()),
        asyncio.create_task(engine.run()),
        asyncio.create_task(serve_on(served, sockets)),
    ]
    try:
        async with asyncio.timeout(DEADLINE):
            started = asyncio.create_task(streaming.wait())
            await asyncio.wait([started, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                if task.done():
                    task.result()
        async with httpx.AsyncClient(timeout=DEADLINE) as http:
            served = Served(port, engine, http, tasks)
            yield served
    finally:
        await Served(port, engine, httpx.AsyncClient(), tasks).stop()


class Server(Protocol):
    """What answers requests for shapes."""

    async def get(self, *, path: str = "", token: str = "", **query: str) -> httpx.Response:
        """Request a shape with the secret, or a named one with a token."""
        ...


class Follower:
    """A client of one shape: its rows by key, as the messages make them."""

    def __init__(self, served: Server, **query: str) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.messages: list[dict[str, Any]] = []
        self.refetches = 0
        self.offset, self.handle, self.cursor = "-1", "", ""
        self.is_up_to_date = False
        self.served = served  # another can take its place
        self.query = query

    async def step(self, *, live: bool = False) -> None:
        """Send one request, and apply its answer."""
        query = {**self.query, "offset": self.offset}
        if self.handle and self.offset != "-1":
            query["handle"] = self.handle
        if live:
            query |= {"live": "true", "cursor": self.cursor}
        answer = await self.served.get(**query)
        if answer.status_code == 409:
            self.refetches += 1
            self.rows.clear()
            self.offset, self.handle = "-1", ""
            self.is_up_to_date = False
            return
        answer.raise_for_status()
        self.offset, self.handle = (
            answer.headers["electric-offset"],
            answer.headers["electric-handle"],
        )
        self.cursor = answer.headers.get("electric-cursor", "")
        self.is_up_to_date = "electric-up-to-date" in answer.headers
        for message in answer.json():
            self.apply(message)

    async def catch_up(self) -> None:
        """Request until the answer is up to date."""
        self.is_up_to_date = False
        while not self.is_up_to_date:
            await self.step()

    async def until(self, rows: Mapping[str, Mapping[str, Any]], within: float = DEADLINE) -> None:
        """Follow live until it has these rows."""
        try:
            async with asyncio.timeout(within):
                while self.rows != rows:
                    await self.step(live=self.is_up_to_date)
        except TimeoutError:
            different = [
                (k, self.rows.get(k), rows.get(k))
                for k in {*self.rows, *rows}
                if self.rows.get(k) != rows.get(k)
            ]
            assert not different, (len(different), different[:3])
            raise

    def apply(self, message: dict[str, Any]) -> None:
        """Apply one message as the public client does."""
        self.messages.append(message)
        headers = message["headers"]
        match headers.get("operation"):
            case "insert":
                assert message["key"] not in self.rows, message
                self.rows[message["key"]] = message["value"]
            case "update":
                self.rows[message["key"]] = {**self.rows[message["key"]], **message["value"]}
            case "delete":
                del self.rows[message["key"]]
            case _:
                assert headers["control"] in {"up-to-date", "snapshot-end"}
