"""`walagent serve mcp`: serve questions and runs to MCP clients."""

import asyncio
import signal

import click

from walagent.base.extras import install_hint
from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.terminal.output import say
from walagent.cli.terminal.signals import until_stopped
from walagent.errors import ConfigError
from walagent.telemetry import log


@click.command("mcp")
@click.option(
    "--http",
    "port",
    type=click.IntRange(0, 65_535),
    metavar="PORT",
    help="Serve streamable HTTP on 127.0.0.1, not stdio; 0 selects a free port.",
)
@click.option("--model", help="Model that plans and answers.")
@where_options
def mcp_(where: Where, port: int | None, model: str | None) -> None:
    """Serve questions, the schema and runs to MCP (Model Context Protocol) clients.

    On stdio, the server exits when stdin is closed.  HTTP requires WALAGENT_MCP_TOKEN.  Decisions
    about tool calls require WALAGENT_MCP_PERSON_TOKEN; keep it away from models that use the
    server.
    """
    _check_extra()
    session = open_session(where)
    # Before the SDK configures its own log, which would contain the questions of callers.
    form = session.config.log.format
    log.configure("json" if form == "auto" else form, session.config.log.level)
    if port is None:
        _serve_stdio(session, model)
    else:
        asyncio.run(_serve_http(session, model, port))


def _check_extra() -> None:
    try:
        import walagent.mcp.server as _  # noqa: F401 - requires an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise ConfigError(
            "walagent serve mcp requires the MCP SDK, which is not installed",
            hint=install_hint("walagent[mcp]"),
        ) from error


def _serve_stdio(session: CliSession, model: str | None) -> None:
    from walagent.mcp.access import read_tokens
    from walagent.mcp.server import serve_stdio
    from walagent.mcp.tools import McpTools

    tokens = read_tokens(session.environment, http=False)

    async def served() -> None:
        async with session.places() as places:
            await serve_stdio(McpTools(places, session.config.ask, model), tokens)

    # The thread that reads stdin cannot be cancelled, so Ctrl-C must end the process.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    asyncio.run(served())


async def _serve_http(session: CliSession, model: str | None, port: int) -> None:
    from walagent.mcp.access import read_tokens
    from walagent.mcp.server import serve_http
    from walagent.mcp.tools import McpTools

    tokens = read_tokens(session.environment, http=True)

    async def served() -> None:
        async with session.places() as places:
            tools = McpTools(places, session.config.ask, model)
            await serve_http(
                tools, tokens, port, lambda url: say(f"MCP at {url}; press Ctrl-C to stop")
            )

    await until_stopped(mcp=served())
