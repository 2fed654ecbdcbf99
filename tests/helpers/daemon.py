"""A reader and a worker of one database in this process, with scripted models.

Both are what the daemon runs; only the model is not asked over the network.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager, suppress

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict

from tests.helpers.database import DEADLINE, rows, run_all, value
from walagent.app.sinks import DaemonSinks
from walagent.base.faults import Crash
from walagent.config import Replication
from walagent.config.dsn import Logins, Places
from walagent.intake.settings import IntakeSettings
from walagent.message import Json
from walagent.models.script import Answer
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.replication.attempt import Following
from walagent.replication.reader import Reader
from walagent.runs.resources import Resources
from walagent.runs.tools.builtin_tools import Services
from walagent.runs.tools.toolbox import Toolbox
from walagent.runs.worker import Worker, WorkerSettings
from walagent.runs.worker_models import Models as Registry
from walagent.store import attachments, claiming
from walagent.store import tools as registered
from walagent.store.sessions.connections import open_pool
from walagent.store.sessions.tool_connections import ensure_login, open_tool_connections
from walagent.tools.callee import Servers
from walagent.tools.python import PythonTool
from walagent.workers.worker_resources import agent_resources

Models = Mapping[str, ScriptedModel]
_SENTINEL = """
create table if not exists sentinel (n bigint primary key generated always as identity);
"""
# Its runs are never executed; a model of embeddings would be refused.
_WATCHED = """
insert into agent.model (name, provider, model_id) select 'sentinel', 'scripted', 'sentinel'
 where exists (select from agent.model where name = 'fake' and dimensions is not null);
select agent.attach('sentinel', name => 'sentinel', model => (
    select name from agent.model where name in ('fake', 'sentinel') order by name desc limit 1));
select agent.pause('sentinel');
"""


class Daemon:
    """What runs, and ways to stop, crash and restart its parts."""

    def __init__(
        self, conn: AsyncConnection, dsn: str, shop: Resources, *, login: str, plugin: str
    ) -> None:
        self.conn = conn
        self.shop = shop
        self.worker: Worker | None = None
        self.reader: Reader | None = None
        self.slot = str(conninfo_to_dict(dsn)["dbname"])
        self._dsn = login
        self._plugin = plugin
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._started = 0

    async def start_reader(self) -> None:
        """Start a reader and wait until it reads."""
        self._started += 1
        settings = Replication(slot=self.slot, plugin=self._plugin)  # pyright: ignore[reportArgumentType]
        streaming = asyncio.Event()
        logins = Logins(Places(self._dsn, self._dsn))
        sinks = DaemonSinks(logins.dsn, IntakeSettings(starter=self.worker, on_runs=self._wake))
        self.reader = Reader(
            Following(logins, settings, sinks.open, f"r{self._started}", streaming.set)
        )
        self._tasks["reader"] = asyncio.create_task(self.reader.run(), name="reader")
        await self._either(streaming.wait())

    async def start_worker(self, **settings: Json) -> None:
        """Start a worker."""
        self._started += 1
        plain = {"poll": 0.2, "slots": 20, **settings}
        self.worker = Worker(WorkerSettings(f"w{self._started}", **plain), self.shop)
        self._tasks["worker"] = asyncio.create_task(self.worker.run(), name="worker")

    async def stop(self, *parts: str) -> None:
        """Stop parts as a signal does: the reader is cancelled, the worker lets its runs end."""
        for part in parts:
            task = self._tasks.pop(part, None)
            if task is None:
                continue
            if part == "worker" and self.worker is not None and not task.done():
                self.worker.stop()
                self.worker = None
                await asyncio.wait([task], timeout=DEADLINE)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def dies(self, *parts: str) -> str:
        """Wait until one of these parts has crashed at the armed point; return which."""
        tasks = {self._tasks[part]: part for part in parts}
        done, _ = await asyncio.wait(tasks, timeout=DEADLINE, return_when=asyncio.FIRST_COMPLETED)
        assert done, f"the {' and the '.join(parts)} goes on"
        task = done.pop()
        part = tasks[task]
        del self._tasks[part]
        error = task.exception()
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        assert isinstance(error, Crash), error
        if part == "worker":
            self.worker = None
        return part

    async def expire_leases(self) -> None:
        """Let the leases of dead workers run out."""
        await run_all(
            self.conn,
            "update agent.run set lease_expires_at = agent_internal.now() - interval '1 s'"
            " where state = 'running'",
        )
        await claiming.tick(self.conn)

    async def until(self, query: str, *parameters: object) -> None:
        """Wait until *query* gives true; fail at once when a part has failed."""
        async with asyncio.timeout(DEADLINE):
            while not await value(self.conn, query, *parameters):
                self.check()
                await asyncio.sleep(0.01)

    async def ended(self, count: int = 1, *, attachment: str = "%") -> list[tuple[Json, ...]]:
        """Wait until *count* runs have ended; give all runs as (key, state, result, error)."""
        await self.until(
            "select count(*) >= %s from agent.run r left join agent.attachment a"
            " on a.id = r.attachment_id where agent_internal.is_final(r.state)"
            " and coalesce(a.name, '') like %s and a.name is distinct from 'sentinel'",
            count,
            attachment,
        )
        return await self.runs()

    async def runs(self) -> list[tuple[Json, ...]]:
        """All runs as (key, state, result, error), in order."""
        return await rows(
            self.conn,
            "select key, state::text, result, error from agent.run_overview"
            " where attachment is distinct from 'sentinel' order by id",
        )

    async def caught_up(self) -> None:
        """Wait until everything that is committed now has been ingested."""
        await run_all(self.conn, _SENTINEL)
        if not await value(
            self.conn, "select exists (select from agent.attachment where name = 'sentinel')"
        ):
            await run_all(self.conn, _WATCHED)
        key = await value(self.conn, "insert into sentinel default values returning n::text")
        await self.until(
            "select exists (select from agent.run_overview"
            " where attachment = 'sentinel' and key = %s)",
            key,
        )

    def _wake(self) -> None:
        if self.worker is not None:
            self.worker.wake()

    def check(self) -> None:
        """Fail when a part has failed."""
        for task in self._tasks.values():
            if task.done():
                task.result()

    async def _either(self, waiting: Json) -> None:
        """Wait for something, or for a part to fail."""
        waiter = asyncio.ensure_future(waiting)
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait([waiter, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
        if not waiter.done():
            waiter.cancel()
            self.check()


@asynccontextmanager
async def daemon(
    conn: AsyncConnection,
    dsn: str,
    answers: Iterable[Answer] | Models | Registry = (),
    *,
    python: Iterable[PythonTool] = (),
    servers: Servers | None = None,
    http: Servers | None = None,
    services: Services | None = None,
    parts: tuple[str, ...] = ("worker", "reader"),
    login: str = "",
    plugin: str = "pgoutput",
    **settings: Json,
) -> AsyncIterator[Daemon]:
    """Start a reader and a worker; stop them at the end.

    Args:
        answers: of the one model, or models by name, or by name and tenant.
        python: tools written in Python; they are registered.
        servers: MCP servers, whose tools are registered already.
        http: calls tools over HTTP.
        services: what built-in tools use.
        parts: what to start at once.
        login: a connection string for both, where it is not the superuser's.
        settings: of the worker.
    """
    if isinstance(answers, Registry):
        models = answers
    else:
        named = answers if isinstance(answers, Mapping) else {"fake": ScriptedModel(answers)}
        models = named.__getitem__
    found = {tool.target: tool for tool in python}
    await registered.register_python_tools(conn, found.values())
    key = await attachments.secret_key(conn)
    await ensure_login(conn)  # the worker's login might not be allowed to
    async with (
        open_pool(login or dsn, size=10, application="walagent test") as pool,
        open_tool_connections(pool, lambda: login or dsn) as calls,
    ):
        toolbox = Toolbox(calls, found, servers=servers, http=http, services=services)
        shop = agent_resources(pool, toolbox, models, key)
        made = Daemon(conn, dsn, shop, login=login or dsn, plugin=plugin)
        try:
            if "worker" in parts:
                await made.start_worker(**settings)
            if "reader" in parts:
                await made.start_reader()
            yield made
            made.check()  # a part that failed unseen fails the test
        finally:
            with suppress(BaseException):
                await made.stop("reader", "worker")


def slot_is_free(dsn: str, slot: str) -> bool:
    """Whether nobody reads from a slot."""
    with psycopg.connect(dsn, autocommit=True) as sync:
        row = sync.execute(
            "select not active from pg_replication_slots where slot_name = %s", [slot]
        ).fetchone()
    return row is None or bool(row[0])
