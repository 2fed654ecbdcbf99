"""A process that serves live rows, and nothing else: a temporary slot, shapes, HTTP.

Any number of them can serve the same database.  None has state that another needs: a client that
comes from another process has a handle that this one does not know, and fetches again.
"""

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress

from psycopg.errors import InsufficientPrivilege

from walagent.app.collection import keep_collecting
from walagent.app.console import make_api
from walagent.app.startup import once_reached, prepare_process
from walagent.app.sync import make_sync, own_queries
from walagent.app.systemd import Systemd
from walagent.config import Config
from walagent.config.dsn import Logins, Places
from walagent.console.own import Own
from walagent.errors import ConfigError
from walagent.http.hosts import hosts_of
from walagent.http.routes import build_app
from walagent.http.server import listen, serve_on
from walagent.http.signed_tokens import find_identity
from walagent.replication.fan_out import FanOut
from walagent.replication.temporary_reader import Source, TemporaryReader
from walagent.store.errors import translating
from walagent.store.install.owners import restore_owners
from walagent.store.sessions.connections import connect
from walagent.telemetry import metrics
from walagent.telemetry.log import log


async def serve_sync(config: Config, places: Places, read_logins: Callable[[], Places]) -> None:
    """Serve live rows until cancelled.

    Args:
        read_logins: reads the logins again, on SIGHUP.

    Raises:
        PreconditionError: the server, or a login, does not meet the requirements.
        ConfigError: the address is in use, or a secret is not set.
    """
    prepare_process()
    http = config.http
    if not http.enabled:
        raise ConfigError("http is off, expected an address", hint="Use --http HOST:PORT.")
    systemd, logins, fan_out = Systemd.from_environment(), Logins(places), FanOut()
    await once_reached(lambda: _check_owners(places), http)
    source = Source(
        logins,
        config.replication,
        config.sync.max_retained,
        lambda: _say_ready(systemd),
    )
    reader = TemporaryReader(source, fan_out)
    find = find_identity(config.identity)
    sync = make_sync(
        config.sync, logins, fan_out, find, is_followed=lambda: reader.health.streaming
    )
    own = Own(sync.engine, own_queries(config.sync))
    api = make_api(sync.engine, sync.app, http, find, config.sync.mutations, own=own)
    app = build_app(
        reader.health,
        metrics.registry,
        max_progress_age=http.ready_after,
        mounted={"/v1": api},
        hosts=hosts_of(http.host, http.public_url, http.hosts),
    )
    sockets = await listen(http.host, http.port)  # no client is sent to the next port
    try:
        async with _renewing(logins, read_logins, reader), asyncio.TaskGroup() as group:
            group.create_task(reader.run(), name="reader")
            group.create_task(sync.engine.run(), name="sync")
            group.create_task(sync.judge(), name="shapes")
            group.create_task(keep_collecting(), name="garbage")
            group.create_task(serve_on(app, sockets), name="http")
    finally:
        systemd.notify("STOPPING=1")


async def _check_owners(places: Places) -> None:
    """Refuse to serve if tenants are not kept apart, where this login can know it."""
    with translating(), suppress(InsufficientPrivilege):
        async with await connect(places.dsn, application="walagent setup") as conn:
            await restore_owners(conn)


def _say_ready(systemd: Systemd) -> None:
    systemd.notify("READY=1", "STATUS=streaming")


@asynccontextmanager
async def _renewing(
    logins: Logins, read: Callable[[], Places], reader: TemporaryReader
) -> AsyncGenerator[None]:
    """Read the logins again on SIGHUP; if that fails, the former ones stay."""

    def renew() -> None:
        try:
            if logins.renew(read()):
                log.info("credentials.changed")
        except Exception as error:  # noqa: BLE001 - the process continues with the previous state
            log.error("config.refused", error=error)
        reader.hurry()

    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGHUP, renew)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGHUP)
