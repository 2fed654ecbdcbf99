"""The whole of agents.yaml."""

from collections.abc import Iterator, Mapping

from pydantic import Field, model_validator

from walagent.config.base import Part
from walagent.config.entries import AgentEntry, AttachmentEntry, BudgetEntry, ModelEntry
from walagent.config.sections import (
    Ask,
    Changes,
    Database,
    Embedded,
    Http,
    Log,
    Replication,
    Retention,
    Tools,
    Workers,
)


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
    models: dict[str, ModelEntry] = Field(default_factory=dict)
    """Models by name."""
    agents: dict[str, AgentEntry] = Field(default_factory=dict)
    """Agents by name."""
    attachments: dict[str, AttachmentEntry] = Field(default_factory=dict)
    """Attachments by name, for those that do not stand under their agent's `attach`."""

    budgets: dict[str, BudgetEntry] = Field(default_factory=dict)
    """Budgets by name."""

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
