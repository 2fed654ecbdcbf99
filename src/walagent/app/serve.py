"""The daemon: reader, workers, health and signals, as the tasks of one group.

Stopping is cancelling, and it is right at every await, because what counts is in the database.
Only runs in the middle of a model call are given time to end.
"""

import asyncio
import signal
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import TYPE_CHECKING

from walagent import faults, metrics
from walagent.agent.models import make_model
from walagent.agent.models.limits import Limits, LimitSettings
from walagent.agent.tools.python import PythonTool, find_tools
from walagent.app.resources import agent_resources
from walagent.app.startup import once_reached
from walagent.app.systemd import Systemd, Watchdog
from walagent.backoff import pause_after
from walagent.concurrency import Periodic, first_of
from walagent.config import Config, McpServer
from walagent.config.dsn import Logins, Places
from walagent.config.environment import Environment
from walagent.errors import DatabaseLostError, LoginRefusedError
from walagent.guard.query import ReadLimits
from walagent.log import log
from walagent.matching.document import SizeLimits
from walagent.message import ModelSpec
from walagent.runs.models import Models
from walagent.runs.query_tool import LIMITS
from walagent.runs.toolbox import Toolbox
from walagent.runs.worker import Worker, WorkerSettings
from walagent.store import attachments, tools
from walagent.store.connections import connect, open_pool
from walagent.store.errors import translating
from walagent.store.process_name import process_name

if TYPE_CHECKING:
    from walagent.mcp.clients import Clients, Status
    from walagent.replication.health import ReaderHealth


@dataclass(frozen=True, slots=True)
class Hooks:
    """What whoever starts the daemon wants to hear.

    On SIGHUP `logins` reads anew whom to log in as, and `reload` then applies the file; what they
    raise is logged, and what was before stays.
    """

    on_streaming: Callable[[], None] = lambda: None
    logins: Callable[[], Places] | None = None
    reload: Callable[[], Awaitable[None]] | None = None


async def serve(config: Config, places: Places, hooks: Hooks | None = None) -> None:
    """Run reader and workers until SIGTERM or SIGINT, or until a part fails for good.

    Raises:
        GapError, PreconditionError, DecodeError, ConfigError: a person must act.
    """
    await _run(config, places, hooks or Hooks(), reading=True)


async def work(config: Config, places: Places, hooks: Hooks | None = None) -> None:
    """Run workers alone."""
    await _run(config, places, hooks or Hooks(), reading=False)


async def _run(config: Config, places: Places, hooks: Hooks, *, reading: bool) -> None:
    faults.arm_from_environment()
    name = process_name()
    systemd = Systemd.from_environment()
    found = find_tools(config.tools.modules)
    clients = _clients(config)
    specs, key = await once_reached(lambda: _set_up(places, found))
    logins = Logins(places)
    models = Models(specs, make_model, Limits(LimitSettings(calls=config.workers.slots)))
    async with (
        open_pool(
            logins.dsn,
            size=config.workers.connections,
            application="walagent worker",
            idle=config.workers.lease,
        ) as pool,
        _signals() as signals,
    ):
        toolbox = Toolbox(pool, found, _reading(config), clients)
        resources = agent_resources(pool, toolbox, models, key, _size_limits(config))
        settings = WorkerSettings(
            name,
            config.workers.slots,
            config.workers.lease,
            config.workers.poll,
            config.workers.drain,
        )
        worker = Worker(settings, resources)
        daemon = _Daemon(
            config, logins, hooks, systemd, worker, models, name, clients, reading=reading
        )
        try:
            await daemon.run(signals)
        finally:
            await worker.leave()  # also what the reader was just about to hand over
            await models.aclose()
            if clients is not None:
                await clients.aclose()


async def _set_up(
    places: Places, found: Mapping[str, PythonTool]
) -> tuple[Mapping[str, ModelSpec], bytes]:
    """Register the tools in Python; read the models, and the key that signs our writes."""
    with translating():
        async with await connect(places.dsn, application="walagent setup") as conn:
            await tools.register_python_tools(conn, found.values())
            return await attachments.load_models(conn), await attachments.secret_key(conn)


def _reading(config: Config) -> ReadLimits:
    """Bound what models read with their own SQL as questions are bounded."""
    ask = config.ask
    return replace(LIMITS, rows=min(ask.rows, LIMITS.rows), seconds=ask.seconds, cost=ask.cost)


def _size_limits(config: Config) -> SizeLimits:
    return SizeLimits(config.changes.max_value, config.changes.max_row)


def _clients(config: Config) -> "Clients | None":
    if not config.mcp_servers:
        return None
    from walagent.mcp.clients import make_clients  # noqa: PLC0415 - few have such servers

    return make_clients(config, Environment.of_process())


_REGISTRY = 5.0  # seconds between two looks at agent.model; a run waits that long for a new row
_TURN = 60.0  # seconds; the reader turns every 5, and waits at most 20 for its own side


class _Daemon:
    """The parts, and the order in which they stop."""

    def __init__(  # noqa: PLR0913, PLR0917 - the composition root
        self,
        config: Config,
        logins: Logins,
        hooks: Hooks,
        systemd: Systemd,
        worker: Worker,
        models: Models,
        name: str,
        clients: "Clients | None",
        *,
        reading: bool,
    ) -> None:
        self._config = config
        self._clients = clients
        self._logins = logins
        self._hooks = hooks
        self._systemd = systemd
        self._worker = worker
        self._models = models
        self._reader = None
        if reading:
            from walagent.app.reading import make_reader  # noqa: PLC0415 - not for a worker alone

            limits = _size_limits(config)
            self._reader = make_reader(config, logins, worker, limits, name, self._streaming)
        self._health = _Health(worker, self._reader.health if self._reader else None)

    async def run(self, signals: "_Signals") -> None:
        """Start everything; return when a signal has asked to stop and all has ended."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self._keep_working(), name="worker")
            parts = [
                group.create_task(coroutine, name=name)
                for name, coroutine in (
                    ("reader", self._reader.run() if self._reader else None),
                    ("http", self._http() if self._config.http.enabled else None),
                    ("watchdog", Watchdog(self._systemd, self._turning, self._health).run()),
                    ("reload", self._reloads(signals)),
                    ("registry", self._follow_registry()),
                    ("mcp", self._register_mcp(self._clients) if self._clients else None),
                )
                if coroutine is not None
            ]
            if self._reader is None:
                self._streaming()
            await signals.stop.wait()
            log.info("daemon.stopping", runs=self._worker.active)
            self._systemd.notify("STOPPING=1")
            self._worker.stop()
            for part in parts:
                if part.get_name() == "reader":
                    part.cancel()
            await first_of(drained=asyncio.wait({working}), second_signal=signals.again.wait())
            for part in (*parts, working):
                part.cancel()

    def _streaming(self) -> None:
        self._systemd.notify("READY=1", "STATUS=streaming")
        self._hooks.on_streaming()

    def _turning(self) -> bool:
        """Whether the parts have turned lately; the watchdog starves if not.

        Where the database is gone, to ask for it again is all that can be done: a restart would
        not bring it back, and ten of them would be the end.
        """
        now, workers = time.monotonic(), self._config.workers
        reader = self._reader is None or now - self._reader.health.turned_at < _TURN
        return reader and now - self._worker.turned_at < 3 * workers.lease + workers.poll + 30

    async def _http(self) -> None:
        from walagent.http.routes import build_app  # noqa: PLC0415 - it can be switched off
        from walagent.http.server import serve_http  # noqa: PLC0415

        http = self._config.http
        app = build_app(self._health, metrics.registry, max_progress_age=http.ready_after)
        await serve_http(app, http.host, http.port)

    async def _keep_working(self) -> None:
        """Work; when the database is lost, again a little later."""
        failures = 0
        while True:
            try:
                await self._worker.run()
            except* DatabaseLostError as group:
                failures += 1
                self._worker.trouble = str(group.exceptions[0])
                log.warning("worker.waiting", error=group.exceptions[0])
                await asyncio.sleep(pause_after(failures))
            else:
                return

    async def _reloads(self, signals: "_Signals") -> None:
        while True:
            await signals.reload.wait()
            signals.reload.clear()
            with self._systemd.reloading():
                await self._reload()

    async def _reload(self) -> None:
        """Apply the file again and look at the registry again; a bad file changes nothing."""
        try:
            if self._hooks.logins is not None and self._logins.renew(self._hooks.logins()):
                log.info("credentials.changed")
            if self._reader is not None:
                self._reader.hurry()
            if self._hooks.reload is not None:
                await self._hooks.reload()
            with translating():
                async with await connect(self._logins.dsn(), application="walagent setup") as conn:
                    specs = await attachments.load_models(conn)
        except Exception as error:  # noqa: BLE001 - the daemon lives on with what it has
            log.error("config.refused", error=error)
            return
        self._models.reload(specs)
        self._worker.wake()
        log.info("config.reloaded", models=len(specs))

    async def _follow_registry(self) -> None:
        """Read the registry now and then: a row of agent.model needs no restart to count."""
        async for _ in Periodic(_REGISTRY):
            with suppress(DatabaseLostError, LoginRefusedError):  # the worker reports them
                await self._read_registry()

    async def _register_mcp(self, clients: "Clients") -> None:
        """Register what MCP servers offer; neither they nor the database hold anything up."""
        from walagent.mcp.clients import keep_registered, register  # noqa: PLC0415 - see _clients

        async def registered(entry: McpServer, found: "Sequence[Status]") -> None:
            for attempt in count(1):
                try:
                    with translating():
                        async with await connect(
                            self._logins.dsn(), application="walagent setup"
                        ) as conn:
                            await register(conn, entry, found)
                            return
                except (DatabaseLostError, LoginRefusedError):
                    await asyncio.sleep(pause_after(attempt))

        await keep_registered(clients, self._config, registered)

    async def _read_registry(self) -> None:
        async with await connect(self._logins.dsn(), application="walagent registry") as conn:
            async for _ in Periodic(_REGISTRY):
                with translating():
                    specs = await attachments.load_models(conn)
                if changed := self._models.reload(specs):
                    log.info("models.changed", models=changed)
                    self._worker.wake()
                await self._models.close_retired()


@dataclass(frozen=True, slots=True)
class _Health:
    """How the parts are doing: the reader, where there is one, and the worker."""

    worker: Worker
    reader: "ReaderHealth | None"

    @property
    def streaming(self) -> bool:
        """Whether the stream is open; nobody misses it in a process that only works."""
        return self.reader is None or self.reader.streaming

    @property
    def progress_age(self) -> float:
        """Seconds since the stream told us something, or since the last heartbeat."""
        if self.reader is not None:
            return self.reader.progress_age
        return asyncio.get_running_loop().time() - self.worker.beat_at

    @property
    def lag_bytes(self) -> int:
        """WAL that the server has and our checkpoint has not."""
        return 0 if self.reader is None else self.reader.lag_bytes

    @property
    def retained_bytes(self) -> int:
        """WAL that the server keeps for the slot."""
        return 0 if self.reader is None else self.reader.retained_bytes

    @property
    def warnings(self) -> Sequence[str]:
        """What a person should know although the parts do their work."""
        return () if self.reader is None else self.reader.warnings

    @property
    def reasons(self) -> Sequence[str]:
        """What keeps the parts from their work."""
        reasons = list(self.reader.reasons) if self.reader is not None else []
        if self.worker.trouble:
            reasons.append(f"the worker waits: {self.worker.trouble}")
        return reasons


@dataclass(frozen=True, slots=True)
class _Signals:
    stop: asyncio.Event
    again: asyncio.Event
    reload: asyncio.Event

    def asked_to_stop(self) -> None:
        (self.again if self.stop.is_set() else self.stop).set()


@asynccontextmanager
async def _signals() -> AsyncGenerator[_Signals]:
    """The first SIGTERM or SIGINT stops, the second interrupts; SIGHUP reloads."""
    signals = _Signals(asyncio.Event(), asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, signals.asked_to_stop)
    loop.add_signal_handler(signal.SIGINT, signals.asked_to_stop)
    loop.add_signal_handler(signal.SIGHUP, signals.reload.set)
    try:
        yield signals
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.remove_signal_handler(number)
