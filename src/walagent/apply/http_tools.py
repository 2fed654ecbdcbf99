"""Register the tools over HTTP of a file in `agent.tool`, where agents and workers find them."""

from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege

from walagent.config import Config, HttpToolEntry
from walagent.errors import ConfigError, PreconditionError
from walagent.message import Json
from walagent.store.tools import attachments_with, drop_http_tool, register_http_tool

_REPEATED_AT_RISK: Final = {"POST", "PATCH"}


async def register_http_tools(conn: AsyncConnection[Any], config: Config) -> None:
    """Register each tool under `http_tools`.

    Raises:
        ConfigError: a tool of another kind has its name.
        PreconditionError: it is new or changed, and the role may not change tools.
    """
    for name, entry in config.http_tools.items():
        try:
            registered = await register_http_tool(conn, name, _fields(entry))
        except InsufficientPrivilege as error:
            raise PreconditionError(
                f'tool {name} is new or changed: role "{conn.info.user}" cannot register tools',
                hint="A tool over HTTP sends data out: first apply the file as the owner of"
                " walagent's schema.",
                sqlstate=error.sqlstate,
            ) from error
        if not registered:
            raise ConfigError(
                f'http_tools: tool "{name}" already exists and is not a tool over HTTP',
                hint="Use another name, or delete the row of agent.tool.",
            )


async def remove_http_tool(conn: AsyncConnection[Any], name: str) -> None:
    """Remove a tool that a file registered.

    Raises:
        ConfigError: an attachment still has it.
    """
    if users := await attachments_with(conn, name):
        raise ConfigError(
            f'http_tools: tool "{name}" is used by attachment {", ".join(users)}',
            hint="Detach it, or remove the tool from its agent; or keep the tool in the file.",
        )
    await drop_http_tool(conn, name)


def _fields(entry: HttpToolEntry) -> dict[str, Json]:
    return {
        "target": entry.url,
        "description": entry.description,
        "input_schema": entry.input_schema,
        "effect": entry.effect or ("unsafe" if entry.method in _REPEATED_AT_RISK else "idempotent"),
        "approval": entry.approval,
        "timeout_seconds": max(1, round(entry.timeout)),
        "http": {
            "method": entry.method,
            "headers": entry.headers,
            "body": entry.body,
            "idempotency_header": entry.idempotency_header,
            "max_bytes": entry.max_bytes,
        },
    }
