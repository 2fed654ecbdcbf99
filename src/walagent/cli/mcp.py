"""`mcp`: a server for programs that speak the Model Context Protocol."""

import asyncio
import signal

import click

from walagent import log
from walagent.cli.output import say
from walagent.cli.session import Session, Where, open_session, where_options
from walagent.cli.signals import until_stopped
from walagent.errors import ConfigError


@click.command("mcp")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve streamable HTTP on 127.0.0.1 instead of stdio; 0: any free port.",
)
@click.option("--model", help="Which model plans and answers.")
@where_options
def mcp_(where: Where, port: int | None, model: str | None) -> None:
    """Offer questions, the schema and runs to programs that speak MCP.

    On stdio it ends when its parent closes it.  HTTP needs WALAGENT_MCP_TOKEN.  Tool calls can be
    approved only with WALAGENT_MCP_PERSON_TOKEN, which no model that uses the server may see.
    """
    _check_extra()
    session = open_session(where)
    # Before the SDK, which else writes what callers ask to its own log.
    form = session.config.log.format
    log.configure("json" if form == "auto" else form, session.config.log.level)
    if port is None:
        _serve_stdio(session, model)
    else:
        asyncio.run(_serve_http(session, model, port))


def _check_extra() -> None:
    try:
        import walagent.mcp.server as _  # noqa: F401 - what it needs is an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise ConfigError(
            "walagent mcp needs the MCP SDK, which is not installed",
            hint="pip install 'walagent[mcp]'",
        ) from error


def _serve_stdio(session: Session, model: str | None) -> None:
    from walagent.mcp.access import read_tokens
    from walagent.mcp.server import serve_stdio
    from walagent.mcp.tools import Tools

    tokens = read_tokens(session.environment, http=False)

    async def served() -> None:
        async with session.places() as places:
            await serve_stdio(Tools(places, session.config.ask, model), tokens)

    # The thread that reads stdin cannot be cancelled, so Ctrl-C ends the process itself.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(served())


async def _serve_http(session: Session, model: str | None, port: int) -> None:
    from walagent.mcp.access import read_tokens
    from walagent.mcp.server import serve_http
    from walagent.mcp.tools import Tools

    tokens = read_tokens(session.environment, http=True)

    async def served() -> None:
        async with session.places() as places:
            tools = Tools(places, session.config.ask, model)
            await serve_http(tools, tokens, port, lambda url: say(f"MCP at {url}; Ctrl-C ends"))

    await until_stopped(mcp=served())
