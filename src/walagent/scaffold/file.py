"""Write the agents.yaml of a choice.  Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import yaml

from walagent.message import Json
from walagent.scaffold.models import ModelOption
from walagent.scaffold.tables import TableOption

_ABOUT = """\
# Written by walagent new.  walagent agents schema prints every key.
# walagent apply --dry-run checks the file.

"""


@dataclass(frozen=True, slots=True)
class Choice:
    """What was chosen.

    Args:
        dsn: to be stored, without a password; None: the database is named elsewhere.
        writes: the columns that the agent can write.
    """

    dsn: str | None
    model: ModelOption
    table: TableOption
    prompt: str
    writes: Sequence[str]

    @property
    def agent(self) -> str:
        """The agent's name: that of the table, without its schema."""
        return self.table.name.replace('"', "").rsplit(".", 1)[-1]


def default_prompt(table: TableOption, writes: Sequence[str]) -> str:
    """Return instructions that fit any table."""
    return f"For each new row of {table.name}, set {', '.join(writes)} from what the row says."


def file_of(choice: Choice) -> str:
    """Return the text of the file."""
    agent: dict[str, Json] = {
        "model": choice.model.name,
        "system_prompt": choice.prompt,
        "tool_choice": "update_row",
        "attach": [{"table": choice.table.name, "writes": list(choice.writes)}],
    }
    document: dict[str, Json] = {"agents": {choice.agent: agent}}
    if choice.model.entry:
        document = {"models": {choice.model.name: choice.model.entry}, **document}
    if choice.dsn is not None:
        document = {"database": {"dsn": choice.dsn}, **document}
    return _ABOUT + yaml.safe_dump(
        _escaped(document), sort_keys=False, allow_unicode=True, width=96, default_flow_style=None
    )


def _escaped(value: Json) -> Json:
    """Write ${ so that it is not taken for a variable."""
    match value:
        case str():
            return value.replace("${", "$${")
        case dict():
            items = cast("Mapping[str, Json]", value).items()
            return {key: _escaped(each) for key, each in items}
        case list():
            return [_escaped(each) for each in cast("list[Json]", value)]
        case _:
            return value
