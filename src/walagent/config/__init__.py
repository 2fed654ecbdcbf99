"""The models of agents.yaml: settings of the daemon, models, agents, attachments and budgets.

`loading` reads files and the environment; `complaints` formats validation errors, `expected` says
what a key takes.
"""

from walagent.config.complaints import Place, parse_config
from walagent.config.entries import (
    AgentEntry,
    Attach,
    AttachmentEntry,
    BudgetEntry,
    ExampleEntry,
    ModelEntry,
    PersonaEntry,
)
from walagent.config.root import Config
from walagent.config.sections import (
    AskSettings,
    Changes,
    Database,
    Embedded,
    Http,
    LogSettings,
    Replication,
    Retention,
    Search,
    Sync,
)
from walagent.config.tool_sections import (
    HttpHostEntry,
    HttpToolEntry,
    McpServerEntry,
    McpToolEntry,
    ToolSettings,
)
from walagent.config.work_sections import Batches, Workers

__all__ = [
    "AgentEntry",
    "AskSettings",
    "Attach",
    "AttachmentEntry",
    "Batches",
    "BudgetEntry",
    "Changes",
    "Config",
    "Database",
    "Embedded",
    "ExampleEntry",
    "Http",
    "HttpHostEntry",
    "HttpToolEntry",
    "LogSettings",
    "McpServerEntry",
    "McpToolEntry",
    "ModelEntry",
    "PersonaEntry",
    "Place",
    "Replication",
    "Retention",
    "Search",
    "Sync",
    "ToolSettings",
    "Workers",
    "parse_config",
]
