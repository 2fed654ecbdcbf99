"""The MCP servers of the configuration: list, register and call their tools.

If a server is unavailable, its registered tools remain, and calls of them fail.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.base.extras import install_hint
from walagent.config import Config, McpServerEntry
from walagent.config.environment import Environment
from walagent.domain.tool_spec import Effect, Tool, mcp_tool_name
from walagent.errors import ConfigError, ToolFailedError
from walagent.message import Json
from walagent.store.tools import fingerprints, known_tools, register_mcp_tool
from walagent.telemetry.log import log
from walagent.tools.callee import Callee
from walagent.tools.mcp_offers import Offered

Connection = AsyncConnection[Any]
_RETRY: Final = 60.0  # seconds between attempts to reach a server


class ToolServer(Protocol):
    """A server that lists its tools."""

    async def offers(self) -> Mapping[str, Offered]:
        """List its tools by name."""
        ...


class Clients(Protocol):
    """The connections of this process to MCP servers."""

    @property
    def servers(self) -> Mapping[str, ToolServer]:
        """The servers by name."""
        ...

    def callee(self, tool: Tool) -> Callee:
        """Return the object that calls *tool*."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class ToolStatus:
    """The state of an allowed tool.

    Args:
        offered: its server's description; None if the server does not offer it.
        trouble: why it cannot be used; "" if it can.
    """

    server: str
    tool: str
    offered: Offered | None
    trouble: str = ""


def make_clients(config: Config, environment: Environment) -> Clients | None:
    """Create the clients of the servers in *config*, without connecting.

    Raises:
        ConfigError: the SDK is not installed, or a credential is not set.
    """
    if not config.mcp_servers:
        return None
    try:
        from walagent.tools import mcp, mcp_connection  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise ConfigError(
            "mcp_servers: the MCP SDK is not installed", hint=install_hint("walagent[mcp]")
        ) from error
    return mcp.McpServers(
        [
            mcp_connection.ServerSpec(
                name,
                entry.command or (),
                entry.url or "",
                _secret(name, entry.token, environment) if entry.token else None,
                {**entry.env, **{n: _secret(name, n, environment) for n in entry.credentials}},
                {
                    tool: mcp_connection.AllowedTool(Effect(each.effect), each.timeout)
                    for tool, each in entry.tools.items()
                },
                entry.connect,
                entry.max_result,
            )
            for name, entry in config.mcp_servers.items()
        ]
    )


def _secret(server: str, name: str, environment: Environment) -> str:
    if (value := environment.find(name)) is None:
        raise ConfigError(
            f"mcp_servers.{server}: variable or credential {name} is not set",
            hint=f"Set the environment variable {name}, or load it as a systemd credential.",
        )
    return value


async def look_at(clients: Clients, name: str, entry: McpServerEntry) -> Sequence[ToolStatus]:
    """Return the state of the tools that the configuration allows of a server.

    Raises:
        ToolFailedError: the server is unreachable.
    """
    offered = await clients.servers[name].offers()
    return [_status(name, tool, offered.get(tool)) for tool in entry.tools]


def _status(server: str, tool: str, offered: Offered | None) -> ToolStatus:
    trouble = "not offered by the server" if offered is None else offered.trouble
    return ToolStatus(server, tool, offered, trouble)


async def register(conn: Connection, entry: McpServerEntry, found: Iterable[ToolStatus]) -> None:
    """Register the usable tools; log why the others are not usable."""
    for each in found:
        server, tool, offered = each.server, each.tool, each.offered
        if offered is None or each.trouble:
            log.warning("mcp.tool_refused", server=server, tool=tool, reason=each.trouble)
            continue
        now, said = offered.fingerprint, entry.tools[tool].fingerprint
        if await register_mcp_tool(conn, offered, said) != now:
            log.warning("mcp.tool_changed", server=server, tool=tool, fingerprint=now)


def with_named(config: Config) -> Config:
    """Drop the servers whose tools no agent of the file uses: apply does not contact them."""
    named = {tool for agent in config.agents.values() for tool in agent.tools}
    servers = {
        name: entry
        for name, entry in config.mcp_servers.items()
        if any(mcp_tool_name(name, tool) in named for tool in entry.tools)
    }
    return config.model_copy(update={"mcp_servers": servers})


async def register_named(conn: Connection, config: Config, clients: Clients) -> None:
    """Register the tools that the agents of a file name, so that attaching finds them.

    Raises:
        ConfigError: a tool is not registered and its server is unreachable or does not offer it.
    """
    named = {tool for agent in config.agents.values() for tool in agent.tools}
    for server, entry in config.mcp_servers.items():
        wanted = {mcp_tool_name(server, tool) for tool in entry.tools} & named
        if not wanted:
            continue
        try:
            found = await look_at(clients, server, entry)
            reason = "an agent cannot use it"
        except ToolFailedError as error:
            log.warning("mcp.unreachable", server=server, error=error)
            found, reason = (), str(error)
        await register(conn, entry, found)
        if missing := sorted(wanted - await known_tools(conn, wanted)):
            reasons = "; ".join(
                f"{each.tool}: {each.trouble or 'its fingerprint differs from the configured one'}"
                for each in found
                if mcp_tool_name(server, each.tool) in missing
            )
            raise ConfigError(
                f"mcp_servers.{server}: tool {missing[0]} is not available: {reasons or reason}"
            )


async def keep_registered(
    clients: Clients, config: Config, registered: "Registering", pause: float = _RETRY
) -> None:
    """Register the tools of each server, retrying until all servers were reached."""
    waiting = dict(config.mcp_servers)
    async for _ in Periodic(pause, rest=pause):  # a hanging server takes a while
        found = await asyncio.gather(
            *(_tried(clients, name, entry) for name, entry in waiting.items())
        )
        for name, statuses in zip(list(waiting), found, strict=True):
            if statuses is not None:
                await registered(waiting.pop(name), statuses)
        if not waiting:
            return


class Registering(Protocol):
    """Registers the tools of a server."""

    async def __call__(self, entry: McpServerEntry, found: Sequence[ToolStatus], /) -> None:
        """Register *found*."""
        ...


async def _tried(clients: Clients, name: str, entry: McpServerEntry) -> Sequence[ToolStatus] | None:
    try:
        return await look_at(clients, name, entry)
    except ToolFailedError as error:
        log.warning("mcp.unreachable", server=name, error=error)
        return None


async def list_tools(conn: Connection, config: Config, clients: Clients) -> list[dict[str, Json]]:
    """Return one row for each tool that the configuration allows, with its state."""
    accepted = await fingerprints(conn)
    rows: list[dict[str, Json]] = []
    for server, entry in config.mcp_servers.items():
        try:
            found = await look_at(clients, server, entry)
        except ToolFailedError as error:
            found = [ToolStatus(server, tool, None, str(error)) for tool in entry.tools]
        rows.extend(_row(each, entry, accepted) for each in found)
    return rows


def _row(each: ToolStatus, entry: McpServerEntry, accepted: Mapping[str, str]) -> dict[str, Json]:
    name, offered = mcp_tool_name(each.server, each.tool), each.offered
    now = offered.fingerprint if offered else None
    state = "new" if name not in accepted else "accepted" if accepted[name] == now else "changed"
    return {
        "tool": name,
        "server": each.server,
        "state": each.trouble or state,
        "effect": entry.tools[each.tool].effect,
        "fingerprint": now,
        "description": offered.description if offered else None,
        "input_schema": dict(offered.input_schema) if offered else None,
    }
