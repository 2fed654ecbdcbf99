"""The daemon: reader, workers, health and signals, as the tasks of one group.

To stop, the tasks are cancelled.  That is safe at every await, because all state is in the
database.  Only runs during a model call get time to end.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from walagent.app.audit_heads import log_heads
from walagent.app.collection import keep_collecting
from walagent.app.daemon_health import DaemonHealth
from walagent.app.signals import Signals, handling_signals
from walagent.app.startup import once_reached, opened_once_reached, prepare_process
from walagent.app.systemd import Systemd, Watchdog
from walagent.base import faults
from walagent.base.concurrency import Periodic, first_of
from walagent.base.retries import DATABASE, of, repeat, seconds
from walagent.config import Config, McpServerEntry
from walagent.config.dsn import Logins, Places
from walagent.config.environment import Environment
from walagent.errors import DatabaseLostError, LoginRefusedError
from walagent.guard.read_limits import ReadLimits
from walagent.matching.document import SizeLimits
from walagent.message import ModelSpec
from walagent.models import make_model
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.outbox.slack import Press, SocketMode
from walagent.runs.batch_work import BatchWork
from walagent.runs.tools.query_tool import LIMITS
from walagent.runs.tools.toolbox import Toolbox
from walagent.runs.worker import Worker, WorkerSettings
from walagent.runs.worker_models import Models
from walagent.store import attachments, tools
from walagent.store.errors import translating
from walagent.store.install.owners import restore_owners
from walagent.store.outbox import decide_from_slack
from walagent.store.sessions.connections import Pool, connect, open_pool
from walagent.store.sessions.process_name import process_name
from walagent.store.sessions.tool_connections import ToolConnections, open_tool_connections
from walagent.telemetry import metrics
from walagent.telemetry.log import log
from walagent.tools.python import PythonTool, find_tools
from walagent.workers.host_rules import http_tools
from walagent.workers.outgoing import outgoing, slack_app
from walagent.workers.tool_services import tool_services
from walagent.workers.worker_resources import agent_resources

if TYPE_CHECKING:
    from walagent.app.sync import LiveSync
    from walagent.http.server import Application
    from walagent.mcp.clients import Clients, ToolStatus
    from walagent.replication.reader import Reader


@dataclass(frozen=True, slots=True)
class Hooks:
    """Callbacks of the process that starts the daemon.

    `mount` returns applications by their paths, which take the place of those of the daemon.

    On SIGHUP, `logins` reads the logins again, and `reload` then applies the file.  If one raises,
    the error is logged and the previous state remains.
    """

    on_streaming: Callable[[], None] = lambda: None
    on_listening: Callable[[str, int], None] = lambda _host, _port: None
    mount: Callable[["LiveSync"], Mapping[str, "Application"]] = lambda _sync: {}
    logins: Callable[[], Places] | None = None
    reload: Callable[[], Awaitable[None]] | None = None


async def serve(config: Config, places: Places, hooks: Hooks | None = None) -> None:
    """Run reader and workers until SIGTERM or SIGINT, or until a part fails permanently.

    Raises:
        GapError, PreconditionError, DecodeError, ConfigError: a person must act.
    """
    await _run(config, places, hooks or Hooks(), reading=True)


async def work(config: Config, places: Places, hooks: Hooks | None = None) -> None:
    """Run workers without a reader."""
    await _run(config, places, hooks or Hooks(), reading=False)


async def _run(config: Config, places: Places, hooks: Hooks, *, reading: bool) -> None:
    faults.arm_from_environment()
    prepare_process()
    name = process_name()
    systemd = Systemd.from_environment()
    found = find_tools(config.tools.modules)
    clients = _clients(config)
    specs, key = await once_reached(lambda: _set_up(places, found), config.http)
    logins = Logins(places)
    models = Models(specs, make_model, ModelLimits(LimitSettings(calls=config.workers.slots)))
    async with (
        opened_once_reached(lambda: _connections(config, logins), config.http) as (pool, calls),
        handling_signals() as signals,
    ):
        resources = agent_resources(
            pool,
            _toolbox(config, calls, found, clients),
            models,
            key,
            _size_limits(config),
            tools_dsn=logins.tools_dsn,
            outgoing=outgoing(config, Environment.of_process()),
        )
        own = config.workers
        worker = Worker(WorkerSettings(name, own.slots, own.lease, own.poll, own.drain), resources)
        batches = BatchWork(config.batches, config.workers.lease, pool, models)
        daemon = _Daemon(config, logins, hooks, systemd, worker, models, batches, name, clients)
        if reading:
            daemon.read()
        try:
            await daemon.run(signals)
        finally:
            await worker.leave()  # also releases runs that the reader was about to hand over
            await models.aclose()
            if clients is not None:
                await clients.aclose()


@asynccontextmanager
async def _connections(
    config: Config, logins: Logins
) -> AsyncGenerator[tuple[Pool, ToolConnections]]:
    """Open the worker's pool, and the one for code of others."""
    workers = config.workers
    async with (
        open_pool(
            logins.dsn,
            size=workers.connections,
            application="walagent worker",
            idle=workers.lease,
        ) as pool,
        open_tool_connections(
            pool, logins.dsn, tools_dsn=logins.tools_dsn, idle=workers.lease
        ) as calls,
    ):
        yield pool, calls


async def _set_up(
    places: Places, found: Mapping[str, PythonTool]
) -> tuple[Mapping[str, ModelSpec], bytes]:
    """Register the Python tools; read the models and the key that signs origin markers."""
    with translating():
        async with await connect(places.dsn, application="walagent setup") as conn:
            await tools.register_python_tools(conn, found.values())
            await restore_owners(conn)
            return await attachments.load_registry(conn), await attachments.secret_key(conn)


def _toolbox(
    config: Config,
    calls: ToolConnections,
    found: Mapping[str, PythonTool],
    clients: "Clients | None",
) -> Toolbox:
    environment = Environment.of_process()
    return Toolbox(
        calls,
        found,
        _reading(config),
        servers=clients,
        http=http_tools(config, environment),
        services=tool_services(config, environment),
    )


def _reading(config: Config) -> ReadLimits:
    """Return the limits of SQL that models write, those of questions."""
    ask = config.ask
    return replace(LIMITS, rows=min(ask.rows, LIMITS.rows), seconds=ask.seconds, cost=ask.cost)


def _size_limits(config: Config) -> SizeLimits:
    return SizeLimits(config.changes.max_value, config.changes.max_row)


def _clients(config: Config) -> "Clients | None":
    if not config.mcp_servers:
        return None
    from walagent.mcp.clients import make_clients  # noqa: PLC0415 - most files have none

    return make_clients(config, Environment.of_process())


_REGISTRY = 5.0  # seconds between reads of agent.model; a run waits that long for a new row
_TURN = 60.0  # seconds; the reader's loop turns every 5 s and waits at most 20 s for intake


@dataclass(slots=True)
class _Daemon:
    """The parts, and the order in which they stop."""

    config: Config
    logins: Logins
    hooks: Hooks
    systemd: Systemd
    worker: Worker
    models: Models
    batches: BatchWork
    name: str
    clients: "Clients | None"
    reader: "Reader | None" = None
    sync: "LiveSync | None" = None
    health: DaemonHealth = field(init=False)

    def __post_init__(self) -> None:
        """Report the health of the parts."""
        self.health = DaemonHealth(self.worker)

    def read(self) -> None:
        """Read the WAL, too."""
        from walagent.app.reading import make_reader  # noqa: PLC0415 - not needed by a worker
        from walagent.replication.fan_out import FanOut  # noqa: PLC0415

        fan_out = FanOut()
        if self.config.http.enabled:
            from walagent.app.sync import make_sync  # noqa: PLC0415 - not needed without HTTP
            from walagent.http.signed_tokens import find_identity  # noqa: PLC0415 - as above

            self.sync = make_sync(
                self.config.sync, self.logins, fan_out, find_identity(self.config.identity)
            )
        self.reader = make_reader(
            self.config,
            self.logins,
            self.worker,
            _size_limits(self.config),
            self.name,
            self._streaming,
            fan_out,
        )
        self.health = replace(self.health, reader=self.reader.health)

    async def run(self, signals: Signals) -> None:
        """Start all parts; return when they have ended after a stop signal."""
        async with asyncio.TaskGroup() as group:
            working = group.create_task(self._keep_working(), name="worker")
            parts = [
                group.create_task(coroutine, name=name)
                for name, coroutine in (
                    ("reader", self.reader.run() if self.reader else None),
                    ("http", self._http() if self.config.http.enabled else None),
                    ("watchdog", Watchdog(self.systemd, self._turning, self.health).run()),
                    ("reload", self._reloads(signals)),
                    ("registry", self._follow_registry()),
                    ("batches", self.batches.keep_working()),
                    ("audit", log_heads(self.logins.dsn, self.config.audit.head_every)),
                    ("garbage", keep_collecting()),
                    ("problems", self.health.problems.watch(self.logins.dsn)),
                    ("slack", self._slack() if slack_app(self.config).app_token else None),
                    ("sync", self.sync.engine.run() if self.sync else None),
                    ("shapes", self.sync.judge() if self.sync else None),
                    ("mcp", self._register_mcp(self.clients) if self.clients else None),
                )
                if coroutine is not None
            ]
            if self.reader is None:
                self._streaming()
            await signals.stop.wait()
            log.info("daemon.stopping", runs=self.worker.active)
            self.systemd.notify("STOPPING=1")
            self.worker.stop()
            for part in (each for each in parts if each.get_name() == "reader"):
                part.cancel()
            await first_of(drained=asyncio.wait({working}), second_signal=signals.again.wait())
            for part in (*parts, working):
                part.cancel()

    def _streaming(self) -> None:
        self.systemd.notify("READY=1", "STATUS=streaming")
        self.hooks.on_streaming()

    def _turning(self) -> bool:
        """Whether the loops of all parts have turned lately; if not, systemd restarts the daemon.

        Reconnecting to a lost database counts as turning: a restart would not help, and after ten
        restarts systemd gives up.
        """
        now, workers = time.monotonic(), self.config.workers
        reader = self.reader is None or now - self.reader.health.turned_at < _TURN
        return reader and now - self.worker.turned_at < 3 * workers.lease + workers.poll + 30

    async def _http(self) -> None:
        from walagent.http.hosts import hosts_of  # noqa: PLC0415 - it is optional
        from walagent.http.links import Links  # noqa: PLC0415 - it is optional
        from walagent.http.routes import build_app  # noqa: PLC0415
        from walagent.http.server import serve_http  # noqa: PLC0415

        http = self.config.http
        mounted: dict[str, Application] = {}
        if http.public_url is not None:
            links = Links(self.logins.dsn, http.public_url)
            mounted |= {links.path: links.app}
        if self.sync is not None:
            from walagent.app.console import make_api, make_console  # noqa: PLC0415 - optional
            from walagent.app.sync import own_queries  # noqa: PLC0415
            from walagent.console.own import Own  # noqa: PLC0415
            from walagent.console.questions import PageQuestions  # noqa: PLC0415
            from walagent.console.reasons import PageReasons  # noqa: PLC0415
            from walagent.console.trials import PageTrials  # noqa: PLC0415
            from walagent.http.signed_tokens import find_identity  # noqa: PLC0415

            mounted["/v1"] = make_api(
                self.sync.engine,
                self.sync.app,
                http,
                find_identity(self.config.identity),
                self.config.sync.mutations,
                replies=self.worker.replies,
                own=Own(self.sync.engine, own_queries(self.config.sync)),
                questions=PageQuestions(self.logins, self.config.ask),
                trials=PageTrials(self.logins, self.config),
                reasons=PageReasons(self.logins, self.config),
            )
            mounted["/"] = make_console(self.health, http.ready_after)
            mounted.update(self.hooks.mount(self.sync))
        app = build_app(
            self.health,
            metrics.registry,
            max_progress_age=http.ready_after,
            mounted=mounted,
            hosts=hosts_of(http.host, http.public_url, http.hosts),
        )
        # Under systemd a configured port is what probes ask.
        fixed = self.systemd.address and self.reader and "port" in http.model_fields_set
        await serve_http(app, http.host, http.port, self.hooks.on_listening, fixed=bool(fixed))

    async def _slack(self) -> None:
        """Receive pressed buttons; if the database is unavailable, a person presses again."""

        async def decide(press: Press) -> str | None:
            with translating():
                async with await connect(self.logins.dsn(), application="walagent slack") as conn:
                    return await decide_from_slack(
                        conn, press.user, press.approval, press.digest, approve=press.approve
                    )

        await SocketMode(slack_app(self.config), Environment.of_process().find, decide).run()

    async def _keep_working(self) -> None:
        """Run the worker; after the database was lost, again with backoff."""
        failures = 0
        while True:
            try:
                await self.worker.run()
            except* DatabaseLostError as group:
                failures += 1
                self.worker.trouble = str(group.exceptions[0])
                log.warning("worker.waiting", error=group.exceptions[0])
                await asyncio.sleep(seconds(DATABASE, failures))
            else:
                return

    async def _reloads(self, signals: Signals) -> None:
        while True:
            await signals.reload.wait()
            signals.reload.clear()
            with self.systemd.reloading():
                await self._reload()

    async def _reload(self) -> None:
        """Apply the file and read the registry again; an invalid file changes nothing."""
        try:
            if self.hooks.logins is not None and self.logins.renew(self.hooks.logins()):
                log.info("credentials.changed")
            if self.reader is not None:
                self.reader.hurry()
            if self.hooks.reload is not None:
                await self.hooks.reload()
            with translating():
                async with await connect(self.logins.dsn(), application="walagent setup") as conn:
                    specs = await attachments.load_registry(conn)
            self.models.reload(specs, again=True)
        except Exception as error:  # noqa: BLE001 - the daemon continues with the previous state
            log.error("config.refused", error=error)
            return
        self.worker.wake()
        log.info("config.reloaded", models=len(specs))

    async def _follow_registry(self) -> None:
        """Poll the registry: a changed row of agent.model takes effect without a restart."""
        async for _ in Periodic(_REGISTRY):
            with suppress(DatabaseLostError, LoginRefusedError):  # the worker logs them
                await self._read_registry()

    async def _register_mcp(self, clients: "Clients") -> None:
        """Register the tools of MCP servers, without blocking other parts."""
        from walagent.mcp.clients import keep_registered, register  # noqa: PLC0415 - see _clients

        async def registered(entry: McpServerEntry, found: "Sequence[ToolStatus]") -> None:
            async def stored() -> None:
                with translating():
                    async with await connect(
                        self.logins.dsn(), application="walagent setup"
                    ) as conn:
                        await register(conn, entry, found)

            await repeat(stored, of(DatabaseLostError, LoginRefusedError))

        await keep_registered(clients, self.config, registered)

    async def _read_registry(self) -> None:
        async with await connect(self.logins.dsn(), application="walagent registry") as conn:
            async for _ in self.reader.wal.turns(_REGISTRY) if self.reader else Periodic(_REGISTRY):
                with translating():
                    specs = await attachments.load_registry(conn)
                if changed := self.models.reload(specs):
                    log.info("models.changed", models=changed)
                    self.worker.wake()
                await self.models.close_retired()
