"""`mcp-tools`: what the MCP servers of the file offer to agents, and what of it is accepted."""

import asyncio

import click

from walagent.cli.output import json_option, print_rows
from walagent.cli.session import Session, Where, open_session, where_options
from walagent.mcp.clients import list_tools, make_clients
from walagent.message import Json


@click.command("mcp-tools")
@json_option()
@where_options
def mcp_tools_(where: Where, *, as_json: bool) -> None:
    """List the tools that the file allows of MCP servers, and how each stands.

    --json also has the description and the schema: what you accept with the fingerprint.
    """
    session = open_session(where)
    rows = asyncio.run(_listed(session))
    columns = ["tool", "server", "state", "effect", "fingerprint"]
    if as_json:
        columns += ["description", "input_schema"]
    print_rows(rows, columns, as_json=as_json, empty="no MCP servers: add them to agents.yaml")


async def _listed(session: Session) -> list[dict[str, Json]]:
    clients = make_clients(session.config, session.environment)
    if clients is None:
        return []
    try:
        async with session.connection() as conn:
            return await list_tools(conn, session.config, clients)
    finally:
        await clients.aclose()
