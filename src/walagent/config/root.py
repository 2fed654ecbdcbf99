"""The whole of agents.yaml."""

from collections.abc import Iterator, Mapping

from pydantic import Field, model_validator

from walagent.config.base import Name, Part
from walagent.config.entries import AgentEntry, AttachmentEntry, BudgetEntry, ModelEntry
from walagent.config.sections import (
    Ask,
    Changes,
    Database,
    Embedded,
    Http,
    Log,
    McpServer,
    Replication,
    Retention,
    Tools,
    Workers,
)
from walagent.tool import is_tool_name, mcp_tool_name


class Config(Part):
    """The configuration of walagent: every section may be left out."""

    database: Database = Database()
    replication: Replication = Replication()
    changes: Changes = Changes()
    workers: Workers = Workers()
    retention: Retention = Retention()
    http: Http = Http()
    log: Log = Log()
    embedded: Embedded = Embedded()
    tools: Tools = Tools()
    ask: Ask = Ask()
    mcp_servers: dict[Name, McpServer] = Field(default_factory=dict)
    """MCP servers by name, whose tools agents may have."""
    models: dict[str, ModelEntry] = Field(default_factory=dict)
    """Models by name."""
    agents: dict[str, AgentEntry] = Field(default_factory=dict)
    """Agents by name."""
    attachments: dict[str, AttachmentEntry] = Field(default_factory=dict)
    """Attachments by name, for those that do not stand under their agent's `attach`."""

    budgets: dict[str, BudgetEntry] = Field(default_factory=dict)
    """Budgets by name."""

    @model_validator(mode="after")
    def _tools_have_names(self) -> "Config":
        seen = dict[str, str]()
        for server, entry in self.mcp_servers.items():
            for tool in entry.tools:
                name, target = mcp_tool_name(server, tool), f"{server}.{tool}"
                if not is_tool_name(name):
                    raise ValueError(f"mcp_servers: {target} would be the tool {name!r}: too long")
                if name in seen:
                    raise ValueError(f"mcp_servers: {seen[name]} and {target} are both {name!r}")
                seen[name] = target
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> "Config":
        seen = set(self.attachments)
        for name, _ in self._nested():
            if name in seen:
                raise ValueError(f"two attachments are called {name!r}: give one of them a name")
            seen.add(name)
        return self

    @property
    def all_attachments(self) -> Mapping[str, AttachmentEntry]:
        """Every attachment by its name, wherever in the file it stands."""
        return {**self.attachments, **dict(self._nested())}

    def _nested(self) -> Iterator[tuple[str, AttachmentEntry]]:
        for agent, entry in self.agents.items():
            for attach in entry.attach:
                given = {field: getattr(attach, field) for field in attach.model_fields_set}
                yield attach.name or agent, AttachmentEntry(agent=agent, **given)
