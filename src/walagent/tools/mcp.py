"""Tools of MCP servers: called in bounds, and their answers framed.

    call → (open, or opened now) → what is offered → as it was accepted? → call → text, cut, framed

The server is not trusted: what it answers is data in a block, what it says of itself is compared
with what a person has accepted, and whether a call may be repeated is said by the configuration.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson
from mcp import MCPError
from mcp.types import (
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    CallToolResult,
    TextContent,
)

from walagent.domain.tool_spec import Tool, mcp_tool_name
from walagent.errors import OutcomeUnknownError, ToolFailedError
from walagent.message import Json
from walagent.tools.answers import answer
from walagent.tools.mcp_connection import McpConnection, Opened, ServerSpec, code_of
from walagent.tools.python import ToolContext

# With these a server says that it did not begin; any other error leaves open what it did.
_NOT_BEGUN: Final = frozenset({INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND})


@dataclass(slots=True)
class _Called:
    """A tool of a server, as an attachment has it."""

    server: McpConnection
    tool: Tool
    name: str
    opened: Opened | None = None

    async def prepare(self) -> None:
        """Open the connection, and see that the tool is what was accepted."""
        self.opened = await self.server.ready(self.tool, self.name)

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:
        """Call it.

        Raises:
            ToolFailedError: it was not called, or said no.
            OutcomeUnknownError: it may or may not have acted.
        """
        opened = self.opened or await self.server.ready(self.tool, self.name)
        try:
            result = await opened.call(self.name, arguments, context.idempotency_key)
        except asyncio.CancelledError:  # it took too long, or the run was cancelled
            self.server.retire(opened)  # what it may still be doing is not for the next call
            raise
        except MCPError as error:
            if error.code in _NOT_BEGUN:
                raise ToolFailedError(self._framed(str(error), context)) from error
            raise OutcomeUnknownError(f"{self.tool.name}: {code_of(error)}") from error
        except (RuntimeError, ValueError) as error:  # it answered, and not as it must
            raise ToolFailedError(f"{self.tool.name} sent an invalid result") from error
        text = self._framed(_said(result), context)
        if result.is_error:
            raise ToolFailedError(text)
        return text

    def _framed(self, text: str, context: ToolContext) -> str:
        return answer(self.server.spec.name, text, context.run_id, self.server.spec.most)


class McpServers:
    """The servers of the configuration; opened when needed, closed at the end."""

    def __init__(self, specs: Sequence[ServerSpec]) -> None:
        self.servers = {spec.name: McpConnection(spec) for spec in specs}

    def callee(self, tool: Tool) -> _Called:
        """Give what carries *tool* out.

        Raises:
            ToolFailedError: the configuration of this process does not offer it.
        """
        server, _, name = tool.target.partition(".")
        found = self.servers.get(server)
        allowed = found is not None and name in found.spec.tools
        if found is None or not allowed or tool.name != mcp_tool_name(server, name):
            raise ToolFailedError(f"{tool.target} is not offered on this worker (mcp_servers)")
        return _Called(found, tool, name)

    async def aclose(self) -> None:
        """Close all."""
        await asyncio.gather(*(server.aclose() for server in self.servers.values()))


def _said(result: CallToolResult) -> str:
    """Give the text of an answer; what is no text is named and left out."""
    parts = [
        part.text if isinstance(part, TextContent) else f"({part.type}, left out)"
        for part in result.content
    ]
    if not parts and result.structured_content is not None:
        parts = [orjson.dumps(result.structured_content, default=str).decode()]
    return "\n".join(parts) or "(an empty answer)"
