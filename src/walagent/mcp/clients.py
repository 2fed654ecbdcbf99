"""MCP servers of the configuration, as tools of agents: found, registered, carried out.

A server that is down stops nobody: what was registered of it stays, and its calls fail.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from psycopg import AsyncConnection

from walagent.agent.tools.callee import Callee
from walagent.agent.tools.offered import Offered
from walagent.concurrency import Periodic
from walagent.config import Config, McpServer
from walagent.config.environment import Environment
from walagent.errors import ConfigError, ToolFailedError
from walagent.log import log
from walagent.message import Json
from walagent.store.tools import fingerprints, known_tools, register_mcp_tool
from walagent.tool import Effect, Tool, mcp_tool_name

Connection = AsyncConnection[Any]
_AGAIN: Final = 60.0  # seconds until a server that was away is asked again


class Asked(Protocol):
    """A server that can say what it offers."""

    async def offers(self) -> Mapping[str, Offered]:
        """Ask it."""
        ...


class Clients(Protocol):
    """The servers of this process."""

    @property
    def servers(self) -> Mapping[str, Asked]:
        """By name."""
        ...

    def callee(self, tool: Tool) -> Callee:
        """Give what carries a tool out."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


@dataclass(frozen=True, slots=True)
class Status:
    """How an allowed tool stands.

    Args:
        offered: as its server describes it; None where it does not.
        trouble: why it cannot be used; "" where it can.
    """

    server: str
    tool: str
    offered: Offered | None
    trouble: str = ""


def make_clients(config: Config, environment: Environment) -> Clients | None:
    """Make the servers of *config*; none is opened yet.

    Raises:
        ConfigError: the SDK is not installed, or a credential is not there.
    """
    if not config.mcp_servers:
        return None
    try:
        from walagent.agent.tools import mcp, mcp_server  # noqa: PLC0415 - an extra
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != "mcp":
            raise
        raise ConfigError(
            "mcp_servers: the MCP SDK is not installed", hint="pip install 'walagent[mcp]'"
        ) from error
    return mcp.McpServers(
        [
            mcp_server.ServerSpec(
                name,
                entry.command or (),
                entry.url or "",
                _secret(name, entry.token, environment) if entry.token else None,
                {**entry.env, **{n: _secret(name, n, environment) for n in entry.credentials}},
                {
                    tool: mcp_server.Allowed(Effect(each.effect), each.timeout)
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
            f"mcp_servers.{server}: there is no variable or credential called {name}",
            hint=f"set the environment variable {name}, or LoadCredential={name}:… in the unit",
        )
    return value


async def look_at(clients: Clients, name: str, entry: McpServer) -> Sequence[Status]:
    """Ask a server for the tools that the configuration allows.

    Raises:
        ToolFailedError: it cannot be reached.
    """
    offered = await clients.servers[name].offers()
    return [_status(name, tool, offered.get(tool)) for tool in entry.tools]


def _status(server: str, tool: str, offered: Offered | None) -> Status:
    trouble = "its server does not offer it" if offered is None else offered.trouble
    return Status(server, tool, offered, trouble)


async def register(conn: Connection, entry: McpServer, found: Iterable[Status]) -> None:
    """Write tools down that can be used; say of the others why not."""
    for each in found:
        server, tool, offered = each.server, each.tool, each.offered
        if offered is None or each.trouble:
            log.warning("mcp.tool_refused", server=server, tool=tool, reason=each.trouble)
            continue
        now, said = offered.fingerprint, entry.tools[tool].fingerprint
        if await register_mcp_tool(conn, offered, said) != now:
            log.warning("mcp.tool_changed", server=server, tool=tool, fingerprint=now)


def with_named(config: Config) -> Config:
    """Leave out the servers of which no agent of a file has a tool: applying does without them."""
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
        ConfigError: a server is down whose tool nobody has seen yet, or its tool cannot be used.
    """
    named = {tool for agent in config.agents.values() for tool in agent.tools}
    for server, entry in config.mcp_servers.items():
        wanted = {mcp_tool_name(server, tool) for tool in entry.tools} & named
        if not wanted:
            continue
        try:
            found = await look_at(clients, server, entry)
            reason = "it cannot be a tool of an agent"
        except ToolFailedError as error:
            log.warning("mcp.unreachable", server=server, error=error)
            found, reason = (), str(error)
        await register(conn, entry, found)
        if missing := sorted(wanted - await known_tools(conn, wanted)):
            told = "; ".join(
                f"{each.tool}: {each.trouble or 'its fingerprint is another one'}"
                for each in found
                if mcp_tool_name(server, each.tool) in missing
            )
            raise ConfigError(f"mcp_servers.{server}: {missing[0]} is not known: {told or reason}")


async def keep_registered(
    clients: Clients, config: Config, registered: "Registering", pause: float = _AGAIN
) -> None:
    """Register what each server offers, those that are away as soon as they are back."""
    waiting = dict(config.mcp_servers)
    async for _ in Periodic(pause, rest=pause):  # a look at a server that hangs takes a while
        found = await asyncio.gather(
            *(_tried(clients, name, entry) for name, entry in waiting.items())
        )
        for name, statuses in zip(list(waiting), found, strict=True):
            if statuses is not None:
                await registered(waiting.pop(name), statuses)
        if not waiting:
            return


class Registering(Protocol):
    """Writes down what a server offers."""

    async def __call__(self, entry: McpServer, found: Sequence[Status], /) -> None:
        """Do it."""
        ...


async def _tried(clients: Clients, name: str, entry: McpServer) -> Sequence[Status] | None:
    try:
        return await look_at(clients, name, entry)
    except ToolFailedError as error:
        log.warning("mcp.unreachable", server=name, error=error)
        return None


async def list_tools(conn: Connection, config: Config, clients: Clients) -> list[dict[str, Json]]:
    """Say of each tool that the configuration allows how it stands: a row for people."""
    accepted = await fingerprints(conn)
    rows: list[dict[str, Json]] = []
    for server, entry in config.mcp_servers.items():
        try:
            found = await look_at(clients, server, entry)
        except ToolFailedError as error:
            found = [Status(server, tool, None, str(error)) for tool in entry.tools]
        rows.extend(_row(each, entry, accepted) for each in found)
    return rows


def _row(each: Status, entry: McpServer, accepted: Mapping[str, str]) -> dict[str, Json]:
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
