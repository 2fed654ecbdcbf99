"""walagent's reader with live sync and, if asked, intake: serves every table over HTTP."""

import argparse
import asyncio

from prometheus_client import CollectorRegistry

from bench.ours.parts import REPLICATION, write_log
from walagent.app.sinks import DaemonSinks
from walagent.config.dsn import Logins, Places
from walagent.http.routes import build_app
from walagent.http.server import listen, serve_on
from walagent.replication.attempt import Following
from walagent.replication.fan_out import FanOut
from walagent.replication.reader import Reader
from walagent.sync.app import ShapeApp, SyncSettings
from walagent.sync.engine import ShapeEngine

_SECRET = "bench"  # noqa: S105 - of a server that lives for a measurement


def main() -> None:
    """Serve until the process is ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    options = parser.parse_args()
    write_log()
    asyncio.run(_serve(options.url))


async def _serve(url: str) -> None:
    logins, fan_out, streaming = Logins(Places(url, url)), FanOut(), asyncio.Event()
    sinks = DaemonSinks(logins.dsn, fan_out=fan_out)
    reader = Reader(Following(logins, REPLICATION, sinks.open, "bench", streaming.set))
    engine = ShapeEngine(logins.dsn, fan_out)
    settings = SyncSettings(frozenset({"*"}), secret=_SECRET, stream=600.0)
    app = ShapeApp(engine, settings)
    sockets = await listen("127.0.0.1", 0)
    async with asyncio.TaskGroup() as group:
        group.create_task(reader.run())
        group.create_task(engine.run())
        mounted = {"/v1": app}
        served = build_app(reader.health, CollectorRegistry(), mounted=mounted)
        group.create_task(serve_on(served, sockets))
        await streaming.wait()
        print(sockets[0].getsockname()[1], flush=True)


if __name__ == "__main__":
    main()
