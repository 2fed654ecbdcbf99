"""Exports for code in Python: tools with their context and error, functions over threads."""

from walagent.agent.thread_functions import thread_function
from walagent.agent.tools.python import ToolContext, tool
from walagent.errors import ToolFailedError
from walagent.thread import ThreadView
from walagent.tool_spec import Effect

__all__ = ["Effect", "ThreadView", "ToolContext", "ToolFailedError", "thread_function", "tool"]
