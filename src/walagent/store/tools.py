"""Register tools of the workers, so that attach specifications in SQL can name them."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.domain.tool_spec import Effect
from walagent.message import Json
from walagent.store.queries import query

Connection = AsyncConnection[Any]


class DescribedTool(Protocol):
    """A tool as described by its Python function."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def target(self) -> str: ...  # noqa: D102
    @property
    def description(self) -> str: ...  # noqa: D102
    @property
    def input_schema(self) -> Mapping[str, Json]: ...  # noqa: D102
    @property
    def effect(self) -> Effect: ...  # noqa: D102


async def register_python_tools(conn: Connection, found: Iterable[DescribedTool]) -> None:
    """Register tools or update their descriptions; none is removed.

    An operator's choices (approval, risk, timeout, bound arguments) are kept.
    """
    for tool in found:
        row = {
            "kind": "python",
            "target": tool.target,
            "description": tool.description,
            "input_schema": tool.input_schema,
            "effect": tool.effect.value,
        }
        if not await _is_registered(conn, tool.name, row):
            given = {"name": tool.name, "row": Jsonb(row)}
            await conn.execute(query("register_python_tool"), given)


async def register_http_tool(conn: Connection, name: str, fields: Mapping[str, Json]) -> bool:
    """Register a tool over HTTP, or update it; return false if *name* is another tool's."""
    if await _is_registered(conn, name, {"kind": "http", "source": "file", **fields}):
        return True
    found = await conn.execute(query("register_http_tool"), {"name": name, "fields": Jsonb(fields)})
    return await found.fetchone() is not None


async def _is_registered(conn: Connection, name: str, row: Mapping[str, object]) -> bool:
    """Tell whether nothing is to be written, so that who applies needs no right to write tools."""
    found = await conn.execute(query("registered_tool"), {"name": name, "row": Jsonb(row)})
    return await found.fetchone() is not None


async def attachments_with(conn: Connection, tool: str) -> list[str]:
    """Return the attachments that have a tool over HTTP."""
    found = await conn.execute(query("attachments_with_tool"), {"tool": tool})
    return [name for (name,) in await found.fetchall()]


async def drop_http_tool(conn: Connection, name: str) -> None:
    """Remove a tool that a file registered."""
    await conn.execute(query("drop_http_tool"), {"name": name})


class PinnedTool(DescribedTool, Protocol):
    """A tool as described by its MCP server."""

    @property
    def timeout(self) -> float: ...  # noqa: D102
    @property
    def fingerprint(self) -> str: ...  # noqa: D102


async def register_mcp_tool(conn: Connection, tool: PinnedTool, accepted: str | None) -> str:
    """Register a tool of an MCP server; its accepted form is kept until *accepted* changes it.

    Effect and timeout follow the configuration.

    Returns:
        The fingerprint that is accepted now.
    """
    own: dict[str, object] = {
        "target": tool.target,
        "effect": tool.effect.value,
        "timeout_seconds": max(1, round(tool.timeout)),
    }
    form: dict[str, object] = {
        "description": tool.description,
        "input_schema": tool.input_schema,
        "fingerprint": tool.fingerprint,
    }
    kept = own | ({"kind": "mcp"} if accepted != tool.fingerprint else {"kind": "mcp", **form})
    if await _is_registered(conn, tool.name, kept):
        return (await fingerprints(conn))[tool.name]
    given = {"name": tool.name, "row": Jsonb(own | form), "accepted": accepted}
    found = await conn.execute(query("register_mcp_tool"), given)
    row = await found.fetchone()
    return row[0] if row else ""


async def known_tools(conn: Connection, names: Iterable[str]) -> frozenset[str]:
    """Return those of *names* that are registered."""
    found = await conn.execute(
        "select name from agent.tool where name = any (%(names)s) and scope = ''",
        {"names": list(names)},
    )
    return frozenset(name for (name,) in await found.fetchall())


async def outdated_agents(conn: Connection) -> list[str]:
    """Return the agents whose attachments use an earlier form of a tool of an MCP server."""
    found = await conn.execute(query("outdated_agents"))
    return [name for (name,) in await found.fetchall()]


async def fingerprints(conn: Connection) -> dict[str, str]:
    """Return the accepted fingerprints of tools of MCP servers, by name."""
    found = await conn.execute(
        "select name, fingerprint from agent.tool where kind = 'mcp' and scope = ''"
    )
    return dict(await found.fetchall())
