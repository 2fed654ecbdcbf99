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
        await conn.execute(
            "insert into agent.tool (name, kind, target, description, input_schema, effect)"
            " values (%(name)s, 'python', %(target)s, %(description)s, %(input_schema)s,"
            "         %(effect)s)"
            " on conflict (scope, name) do update set description = excluded.description,"
            "   input_schema = excluded.input_schema, effect = excluded.effect,"
            "   target = excluded.target"
            "  where agent.tool.kind = 'python'",
            {
                "name": tool.name,
                "target": tool.target,
                "description": tool.description,
                "input_schema": Jsonb(tool.input_schema),
                "effect": tool.effect.value,
            },
        )


async def register_http_tool(conn: Connection, name: str, fields: Mapping[str, Json]) -> bool:
    """Register a tool over HTTP, or update it; return false if *name* is another tool's."""
    found = await conn.execute(query("register_http_tool"), {"name": name, "fields": Jsonb(fields)})
    return await found.fetchone() is not None


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
    found = await conn.execute(
        query("register_mcp_tool"),
        {
            "name": tool.name,
            "target": tool.target,
            "description": tool.description,
            "input_schema": Jsonb(tool.input_schema),
            "effect": tool.effect.value,
            "timeout": max(1, round(tool.timeout)),
            "fingerprint": tool.fingerprint,
            "accepted": accepted,
        },
    )
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
