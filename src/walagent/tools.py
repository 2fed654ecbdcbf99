"""Write tools in Python: `from walagent.tools import Effect, ToolContext, ToolFailedError, tool`."""

from walagent.agent.tools.python import ToolContext, tool
from walagent.attachment import Effect
from walagent.errors import ToolFailedError

__all__ = ["Effect", "ToolContext", "ToolFailedError", "tool"]
