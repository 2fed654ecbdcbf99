"""Exports for tools written in Python: the decorator, its context, its error."""

from walagent.agent.tools.python import ToolContext, tool
from walagent.errors import ToolFailedError
from walagent.tool_spec import Effect

__all__ = ["Effect", "ToolContext", "ToolFailedError", "tool"]
