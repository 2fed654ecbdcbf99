"""Tools that the workers bring: written down so that attaching in SQL can name them."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from walagent.attachment import Effect
from walagent.message import Json

Connection = AsyncConnection[Any]


class Described(Protocol):
    """A tool as its Python function describes it."""

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


async def register_python_tools(conn: Connection, found: Iterable[Described]) -> None:
    """Register tools, or bring their descriptions up to date; nothing is taken away.

    A person's choices (approval, risk, timeout, bound arguments) stay.
    """
    for tool in found:
        await conn.execute(
            "insert into agent.tool (name, kind, target, description, input_schema, effect)"
            " values (%s, 'python', %s, %s, %s, %s)"
            " on conflict (name) do update set description = excluded.description,"
            "   input_schema = excluded.input_schema, effect = excluded.effect,"
            "   target = excluded.target"
            "  where agent.tool.kind = 'python'",
            [tool.name, tool.target, tool.description, Jsonb(tool.input_schema), tool.effect.value],
        )
