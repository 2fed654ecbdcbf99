"""`walagent agents tools mcp`: list the configured tools of MCP servers and their state."""

import asyncio

import click

from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.terminal.output import json_option
from walagent.cli.terminal.table import print_rows
from walagent.mcp.clients import list_tools, make_clients
from walagent.message import Json
from walagent.telemetry import log


@click.command("mcp")
@json_option()
@where_options
def mcp_(where: Where, *, as_json: bool) -> None:
    """List the tools of MCP servers that the configuration file allows, and their state.

    --json adds description and input schema: the fingerprint in the file accepts these.
    """
    session = open_session(where)
    log.configure("text", "warning")
    rows = asyncio.run(_listed(session))
    columns = ["tool", "server", "state", "effect", "fingerprint"]
    if as_json:
        columns += ["description", "input_schema"]
    empty = "no MCP servers; add them to agents.yaml"
    print_rows(rows, columns, as_json=as_json, empty=empty)


async def _listed(session: CliSession) -> list[dict[str, Json]]:
    clients = make_clients(session.config, session.environment)
    if clients is None:
        return []
    try:
        async with session.connection() as conn:
            return await list_tools(conn, session.config, clients)
    finally:
        await clients.aclose()
