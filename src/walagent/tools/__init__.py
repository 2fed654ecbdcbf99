"""Tools: what a call becomes.  What is exported here is public: tools and functions in Python."""

from walagent.domain.thread import ThreadView
from walagent.domain.tool_spec import Effect
from walagent.errors import ToolFailedError
from walagent.tools.python import ToolContext, tool
from walagent.tools.thread_functions import thread_function

__all__ = ["Effect", "ThreadView", "ToolContext", "ToolFailedError", "thread_function", "tool"]
