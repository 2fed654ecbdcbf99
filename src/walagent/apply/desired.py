"""Convert entries of agents.yaml to rows of `agent.model`, `agent.agent` and so on."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import cast

from walagent.config import AgentEntry, AttachmentEntry, BudgetEntry, ModelEntry, PersonaEntry
from walagent.config.entries import COLUMNS
from walagent.config.workflows import WorkflowEntry
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.models.registry import provider_names


def wanted_model(
    name: str, entry: ModelEntry, registry: Mapping[str, Mapping[str, Json]]
) -> dict[str, Json]:
    """Return the columns that *entry* sets; for a new model, at least the required ones.

    Raises:
        ConfigError: the model is new and has no provider.
    """
    given = {
        key: value for key, value in entry.model_dump(mode="json").items() if value is not None
    }
    if name in registry:
        return given
    if "provider" not in given:
        raise ConfigError(
            f"models.{name}: provider is missing",
            hint="The model is not in agent.model yet. Its provider is one of"
            f" {', '.join(provider_names())}.",
        )
    return {"model_id": name, **given}


def wanted_agent(entry: AgentEntry) -> dict[str, Json]:
    """Return all columns of an agent."""
    row = entry.model_dump(mode="json", exclude={"attach"})
    return row | {"examples": [example.model_dump() for example in entry.examples]}


def wanted_persona(entry: PersonaEntry) -> dict[str, Json]:
    """Return all columns of a persona."""
    return entry.model_dump(mode="json")


def wanted_workflow(entry: WorkflowEntry) -> dict[str, Json]:
    """Return the fields of a workflow; `run_as` keeps its value if the file does not set it."""
    row = entry.model_dump(mode="json", by_alias=True, exclude_none=True) | {
        "entry": entry.entry,
        "timeout": entry.timeout.total_seconds(),
    }
    return {key: _without_nulls(value) for key, value in row.items()}


def _without_nulls(value: Json) -> Json:
    """Remove what jsonb_strip_nulls() removes."""
    if isinstance(value, dict):
        members = cast("Mapping[str, Json]", value)
        return {key: _without_nulls(each) for key, each in members.items() if each is not None}
    if isinstance(value, list):
        return [_without_nulls(each) for each in cast("Sequence[Json]", value)]
    return value


def wanted_attachment(
    entry: AttachmentEntry, relation: int, analyst: str | None = None
) -> dict[str, Json]:
    """Return the columns of an attachment.

    `run_as` and `paused` keep their values if the file does not set them.

    Args:
        analyst: the role with which the tool query reads, if the entry names none.
    """
    times = {key: value.total_seconds() for key, value in entry if isinstance(value, timedelta)}
    given = entry.model_dump(mode="json", exclude={"name"}) | times
    row = {COLUMNS.get(key, key): value for key, value in given.items()}
    row |= {"relation": relation, "query_as": entry.query_as or analyst, "source": "file"}
    kept = {key for key in ("run_as", "paused") if row[key] is None}
    return {key: value for key, value in row.items() if key not in kept}


def wanted_budget(entry: BudgetEntry) -> dict[str, Json]:
    """Return all columns of a budget."""
    return entry.model_dump() | {"source": "file"}
