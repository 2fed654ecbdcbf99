"""agents.yaml as values: how the daemon runs, and which agents are attached to what.

Models only: `loading` reads files and the environment, `complaints` says what is wrong.
"""

from walagent.config.complaints import Place, parse_config
from walagent.config.entries import (
    AgentEntry,
    Attach,
    AttachmentEntry,
    BudgetEntry,
    ExampleEntry,
    ModelEntry,
)
from walagent.config.root import Config
from walagent.config.sections import (
    Ask,
    Changes,
    Database,
    Embedded,
    Http,
    Log,
    McpServer,
    McpTool,
    Replication,
    Retention,
    Search,
    Tools,
    Workers,
)

__all__ = [
    "AgentEntry",
    "Ask",
    "Attach",
    "AttachmentEntry",
    "BudgetEntry",
    "Changes",
    "Config",
    "Database",
    "Embedded",
    "ExampleEntry",
    "Http",
    "Log",
    "McpServer",
    "McpTool",
    "ModelEntry",
    "Place",
    "Replication",
    "Retention",
    "Search",
    "Tools",
    "Workers",
    "parse_config",
]
