"""What carries out calls that leave the database: Python functions, MCP servers, HTTP."""

from collections.abc import Mapping
from typing import Protocol

from walagent.domain.tool_spec import Tool
from walagent.errors import ToolFailedError
from walagent.message import Json
from walagent.tools.python import ToolContext


class Callee(Protocol):
    """Something that can be called with a tool's arguments."""

    async def prepare(self) -> None:
        """Make ready what a call needs: nothing has happened yet, and no clock is running.

        Raises:
            ToolFailedError: it cannot be called; for the model.
        """
        ...

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:
        """Act, and give the answer.

        Raises:
            ToolFailedError: it did not act, or says what came of it; for the model.
            OutcomeUnknownError: it may or may not have acted.
        """
        ...


class Servers(Protocol):
    """The MCP servers, or the tools over HTTP, of this process."""

    def callee(self, tool: Tool) -> Callee:
        """Give what carries *tool* out.

        Raises:
            ToolFailedError: its server is not among them, or does not offer it to agents.
        """
        ...


class NoServers:
    """A process without any."""

    def callee(self, tool: Tool) -> Callee:
        """Say that there are none."""
        where = "http_tools" if tool.kind == "http" else "mcp_servers"
        raise ToolFailedError(f"{tool.target} is not offered on this worker ({where})")
