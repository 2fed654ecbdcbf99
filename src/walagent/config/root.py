"""The root of agents.yaml."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field, model_validator

from walagent.config.base import Name, Part
from walagent.config.entries import (
    AgentEntry,
    AttachmentEntry,
    BudgetEntry,
    ModelEntry,
    PersonaEntry,
)
from walagent.config.sections import (
    AskSettings,
    Audit,
    Changes,
    Database,
    Embedded,
    FileSettings,
    Http,
    Identity,
    LogSettings,
    Outbox,
    Replication,
    Retention,
    Retrieval,
    Sync,
)
from walagent.config.tool_sections import HttpToolEntry, McpServerEntry, ToolSettings
from walagent.config.work_sections import Batches, Workers
from walagent.config.workflows import WorkflowEntry, WorkflowName
from walagent.domain.tool_spec import TOOL_NAME, is_tool_name, mcp_tool_name


class Config(Part):
    """The configuration of walagent: every section is optional."""

    database: Database = Database()
    replication: Replication = Replication()
    changes: Changes = Changes()
    workers: Workers = Workers()
    batches: Batches = Batches()
    retention: Retention = Retention()
    http: Http = Http()
    sync: Sync = Sync()
    identity: Identity | None = None
    outbox: Outbox = Outbox()
    audit: Audit = Audit()
    log: LogSettings = LogSettings()
    embedded: Embedded = Embedded()
    tools: ToolSettings = ToolSettings()
    ask: AskSettings = Field(default_factory=AskSettings)
    retrieval: Retrieval = Retrieval()
    files: FileSettings = FileSettings()
    mcp_servers: dict[Name, McpServerEntry] = Field(default_factory=dict)
    """MCP servers by name; their tools are available to agents."""
    http_tools: dict[Annotated[str, Field(pattern=f"^{TOOL_NAME}$")], HttpToolEntry] = Field(
        default_factory=dict
    )
    """Tools that send HTTP requests, by name."""
    models: dict[str, ModelEntry] = Field(default_factory=dict)
    """Models by name."""
    personas: dict[Name, PersonaEntry] = Field(default_factory=dict)
    """Personas by name."""
    agents: dict[str, AgentEntry] = Field(default_factory=dict)
    """Agents by name."""
    workflows: dict[WorkflowName, WorkflowEntry] = Field(default_factory=dict)
    """Workflows by name."""
    attachments: dict[str, AttachmentEntry] = Field(default_factory=dict)
    """Attachments by name, in addition to those under `attach` of their agents."""

    budgets: dict[str, BudgetEntry] = Field(default_factory=dict)
    """Budgets by name."""

    @model_validator(mode="after")
    def _questions_know_models(self) -> "Config":
        used = {name: entry for name, entry in self.models.items() if entry.enabled is not False}
        self.ask.declare({name: entry.destination for name, entry in used.items()})
        return self

    @model_validator(mode="after")
    def _tools_have_names(self) -> "Config":
        seen = dict[str, str]()
        for server, entry in self.mcp_servers.items():
            for tool in entry.tools:
                name, target = mcp_tool_name(server, tool), f"{server}.{tool}"
                if not is_tool_name(name):
                    raise ValueError(f'mcp_servers: {target}: tool name "{name}" is too long')
                if name in seen:
                    raise ValueError(
                        f'mcp_servers: {seen[name]} and {target} have the same tool name "{name}"'
                    )
                seen[name] = target
        return self

    @model_validator(mode="after")
    def _names_are_unique(self) -> "Config":
        seen = set(self.attachments)
        for name, _ in self._nested():
            if name in seen:
                raise ValueError(f'two attachments are named "{name}"; set name for one of them')
            seen.add(name)
        return self

    @property
    def all_attachments(self) -> Mapping[str, AttachmentEntry]:
        """All attachments by name: under `attachments` and under `attach` of agents."""
        return {**self.attachments, **dict(self._nested())}

    def _nested(self) -> Iterator[tuple[str, AttachmentEntry]]:
        for agent, entry in self.agents.items():
            for attach in entry.attach:
                given = {field: getattr(attach, field) for field in attach.model_fields_set}
                yield attach.name or agent, AttachmentEntry(agent=agent, **given)
