"""The reference pages list every key, command, option, error and metric, and nothing else."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from tests.docs_generated import command_of
from tests.docs_pages import ROOT, code, rows, section, sections
from walagent import errors
from walagent.base.faults import KNOWN
from walagent.cli.commands import COMMANDS, Group, walk
from walagent.cli.exit_codes import exit_code
from walagent.config import (
    AgentEntry,
    Attach,
    AttachmentEntry,
    BudgetEntry,
    Config,
    ExampleEntry,
    HttpHostEntry,
    HttpToolEntry,
    McpServerEntry,
    McpToolEntry,
    ModelEntry,
    PersonaEntry,
    Search,
)
from walagent.config.sections import Identity, Slack, Smtp
from walagent.config.workflows import WorkflowEdgeEntry, WorkflowEntry, WorkflowNodeEntry
from walagent.errors import WalagentError
from walagent.models.credentials import FOR_MODELS
from walagent.models.registry import BUILT_IN
from walagent.telemetry import metrics

DOCS = ROOT / "docs"
CONFIGURATION = DOCS / "configuration.md"
ERRORS = DOCS / "reference" / "errors.md"


def _only(cell: str) -> str:
    """The one thing in backticks that a cell names."""
    (name,) = code(cell)
    return name


# Configuration.

PARTS: Mapping[str, tuple[type[BaseModel], ...]] = {
    **{
        name: (field.annotation,)
        for name, field in Config.model_fields.items()
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)
    },
    "identity": (Identity,),
    "models": (ModelEntry,),
    "personas": (PersonaEntry,),
    "workflows": (WorkflowEntry, WorkflowNodeEntry, WorkflowEdgeEntry),
    "agents": (AgentEntry,),
    "examples": (ExampleEntry,),
    "attachments": (Attach, AttachmentEntry),
    "budgets": (BudgetEntry,),
    "ask.search": (Search,),
    "outbox.slack": (Slack,),
    "outbox.smtp": (Smtp,),
    "http_tools": (HttpToolEntry,),
    "tools.http_hosts": (HttpHostEntry,),
    "mcp_servers": (McpServerEntry,),
    "mcp_servers.tools": (McpToolEntry,),
}


def test_every_section_of_the_file_has_its_heading() -> None:
    """A new section of agents.yaml is written about."""
    assert set(Config.model_fields) <= set(PARTS)
    titles = {s.title.strip("`") for s in sections(CONFIGURATION) if s.title.startswith("`")}
    assert titles == set(PARTS)


@pytest.mark.parametrize("part", PARTS)
def test_every_key_is_documented_with_its_default(part: str) -> None:
    """Keys and defaults of the page are those of `Config`."""
    fields = {f.alias or name: f for model in PARTS[part] for name, f in model.model_fields.items()}
    documented = {_only(cells[0]): cells[1] for cells in rows(section(CONFIGURATION, f"`{part}`"))}
    assert set(documented) == set(fields)
    for key, shown in documented.items():
        default = fields[key].get_default(call_default_factory=True)
        assert _is_shown(shown, default, PARTS[part][0], key), f"{part}.{key}: {shown}"


def _is_shown(shown: str, default: object, model: type[BaseModel], key: str) -> bool:
    """Whether a cell tells the default: as a value in backticks, or in words where it is none."""
    if default is PydanticUndefined:
        return shown == "required"
    if not re.fullmatch(r"`[^`]+`", shown):
        return not default and default is not False and default != 0
    given = {key: {"true": True, "false": False}.get(value := shown.strip("`"), _number(value))}
    required = {name: "x" for name, f in model.model_fields.items() if f.is_required()}
    required |= {"max_tokens": 1} if model is BudgetEntry else {}  # it must limit something
    required |= {"model": "x"} if model is AgentEntry else {}
    required |= {"url": "http://x"} if model is HttpToolEntry else {}
    required |= {"url": "http://x", "tools": {}} if model is McpServerEntry else {}
    required |= {"nodes": [{"name": "x", "kind": "router"}]} if model is WorkflowEntry else {}
    required |= {"provider": "ddgs"} if model is Search else {}
    required |= {"jwks": "x"} if model is Identity else {}
    return getattr(model.model_validate({**required, **given}), key) == default


def _number(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def test_which_variables_models_are_given_is_documented() -> None:
    """An ending more or less is told."""
    told = section(DOCS / "models.md", "Keys")
    assert set(re.findall(r"`(_[A-Z_]+)`", told)) == set(FOR_MODELS)


def test_every_provider_is_documented() -> None:
    """One more or less has its row."""
    documented = {_only(cells[0]) for cells in rows(section(DOCS / "models.md", "Providers"))}
    assert documented == set(BUILT_IN)


# The command line.

# Documented as `show`, `why` and so on.
SHORT = {"runs show", "runs why", "runs changes", "runs revert", "runs fork"}


def test_every_command_is_documented_with_its_options() -> None:
    """Under its own heading, or that of its group, stand its arguments and options; no others."""
    page = DOCS / "cli.md"
    shared = set(_options_in(section(page, "Options that most commands have")))
    titled = {
        s.title.strip("`").removeprefix("walagent "): s.text
        for s in sections(page)
        if s.title.startswith("`walagent")
    }
    commands = {" ".join(path): each for path, each in walk()}
    assert set(titled) <= set(commands)
    assert {each.name for many in COMMANDS.values() for each in many} <= set(titled)
    possible: dict[str, set[str]] = {title: set() for title in titled}
    for name, entry in commands.items():
        above = [title for title in titled if f"{name} ".startswith(f"{title} ")]
        options = set[str]()
        for parameter in [] if isinstance(entry, Group) else command_of(name).params:
            if not getattr(parameter, "hidden", False):
                options.update(_names(parameter))
            if isinstance(parameter, click.Argument):
                assert parameter.human_readable_name in titled[max(above, key=len)], name
        if name not in SHORT:
            missing = options - shared - set(_options_in(titled[max(above, key=len)]))
            assert not missing, f"{name}: {missing}"
        for title in above:
            possible[title] |= options
    for title, text in titled.items():
        unknown = set(_options_in(text)) - possible[title]
        assert not unknown, f"{title} has no {unknown}"


def _options_in(text: str) -> Iterator[str]:
    for cells in rows(text):
        yield from (name for name in re.findall(r"(?<![\w-])--?[a-z][a-z-]*", cells[0]))


def _names(parameter: click.Parameter) -> list[str]:
    if not isinstance(parameter, click.Option):
        return []
    return [*parameter.opts, *parameter.secondary_opts]


# Errors.


def _classes(of: type[WalagentError] = WalagentError) -> Iterator[type[WalagentError]]:
    for kind in of.__subclasses__():
        if kind.__module__ == errors.__name__:
            yield kind
            yield from _classes(kind)


def test_every_error_class_is_documented_with_who_acts_and_its_exit_code() -> None:
    """An error without an explanation cannot be added."""
    documented = {
        _only(name): (who.strip("`"), int(code_))
        for name, who, code_, *_ in rows(section(ERRORS, "Classes"))
    }
    assert documented == {
        kind.__name__: (kind.next.value, exit_code(_made(kind))) for kind in _classes()
    }


def _made(kind: type[WalagentError]) -> WalagentError:
    arguments: dict[str, Any] = {"offset": 0} if kind is errors.DecodeError else {}
    return kind("x", **arguments)


def test_every_sqlstate_of_ours_is_documented() -> None:
    """What the migrations raise is on the page, and nothing else."""
    raised = {
        found
        for path in sorted((ROOT / "migrations").rglob("*.sql"))
        for found in re.findall(r"errcode = '(WA\d{3})'", path.read_text())
    }
    assert {_only(name) for name, *_ in rows(section(ERRORS, "SQLSTATEs"))} == raised


# Metrics and fault points.


def test_every_metric_is_documented() -> None:
    """The table of operations.md and what `/metrics` serves name the same."""
    shown = {
        f"{family.name}_total" if family.type == "counter" else family.name
        for family in metrics.registry.collect()
    }
    table = rows(section(DOCS / "operations.md", "Metrics"))
    assert {_only(cells[0]).partition("{")[0] for cells in table} == {
        f"{name}_info" if name == "walagent_build" else name for name in shown
    }


def test_every_fault_point_is_in_the_architecture() -> None:
    """What happens at each kind of crash is told for every named point."""
    text = Path(ROOT / "ARCHITECTURE.md").read_text("utf-8")
    assert [point for point in KNOWN if f"`{point}`" not in text] == []
