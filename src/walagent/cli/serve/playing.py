"""Prepare an example, and serve it until a signal."""

from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import click

from walagent.app.serve import Hooks, serve
from walagent.app.startup import once_reached
from walagent.app.sync import LiveSync
from walagent.cli.serve.serving import prepared
from walagent.cli.session import CliSession
from walagent.cli.terminal.output import clean
from walagent.config.dsn import Places
from walagent.console.files import read_built
from walagent.console.site import ConsoleSite
from walagent.demo.model import ModelChoice
from walagent.example.burn import BurnApp, Folder, policy
from walagent.example.database import create_database, prepare
from walagent.http.hosts import hosts_of
from walagent.http.server import Application
from walagent.telemetry import log


async def play_burn(session: CliSession, model: ModelChoice, assets: Path | None) -> None:
    """Prepare the example Burn, and serve it.

    Args:
        assets: folder of another page than that of the package.
    """
    log.configure("text", "warning")
    if session.choice is not None:
        await _play(session, model, assets)
        return
    async with replace(session, dbname=None).places(create=True) as places:
        await create_database(places.dsn, session.dbname or "")
        await _play(session, model, assets)


def _built_page() -> ConsoleSite:
    status = {"Example": "Burn", "Version": version("walagent")}
    return ConsoleSite(read_built(page="burn/index.html"), lambda: status, policy())


async def _play(session: CliSession, model: ModelChoice, assets: Path | None) -> None:
    waits = {"http", "reader"}  # what is said before the reader streams wakes no agent
    url: list[str] = []

    def ready(part: str) -> None:
        if part in waits:
            waits.remove(part)
            if not waits:
                click.echo(clean(f"Burn: {url[0]}"))

    def listening(host: str, port: int) -> None:
        name = f"[{host}]" if ":" in host else host
        url.append(f"http://{name}:{port}/")
        ready("http")

    def mount(sync: LiveSync) -> Mapping[str, Application]:
        page = _built_page() if assets is None else Folder(assets)
        http = session.config.http
        hosts = hosts_of(http.host, http.public_url, http.hosts)
        secure = http.public_url is not None and http.public_url.startswith("https:")
        app = BurnApp(sync.engine, sync.app, page, hosts, secure=secure)
        return {"/v1": app, "/": app}  # nothing of the console: its pages are not for guests

    async with prepared(session) as places:
        session = await once_reached(
            lambda: _installed(session, places, model), session.config.http
        )
        hooks = Hooks(lambda: ready("reader"), listening, mount)
        await serve(session.config, places, hooks)


async def _installed(session: CliSession, places: Places, model: ModelChoice) -> CliSession:
    async with session.connect(places) as conn:
        await prepare(conn, model)
        return await session.with_slot(conn)
