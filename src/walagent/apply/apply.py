"""Apply agents.yaml to the database, and return the differences.

In one transaction of the caller: an error in any entry changes nothing.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from psycopg import AsyncConnection, Error

from walagent.apply.desired import (
    wanted_agent,
    wanted_attachment,
    wanted_budget,
    wanted_model,
    wanted_persona,
    wanted_workflow,
)
from walagent.apply.http_tools import register_http_tools, remove_http_tool
from walagent.config import AttachmentEntry, Config
from walagent.config.environment import Environment
from walagent.config.workflows import WorkflowEntry
from walagent.errors import ConfigError, WalagentError
from walagent.mcp.clients import make_clients, register_named, with_named
from walagent.message import Json
from walagent.store import applying as store
from walagent.store.applying import Fields, Kind
from walagent.store.errors import translated
from walagent.store.tools import outdated_agents, register_python_tools
from walagent.tools.python import find_tools

Connection = AsyncConnection[Any]
Action = Literal["create", "change", "detach", "remove"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One difference between file and database: for each field, the current and the new value."""

    kind: Kind
    name: str
    action: Action
    fields: Mapping[str, tuple[Json, Json]]
    note: str = ""

    @property
    def new(self) -> Fields:
        """Return the values to write."""
        return {name: new for name, (_, new) in self.fields.items()}


async def apply(conn: Connection, config: Config, *, prune: bool = False) -> list[Difference]:
    """Apply models, personas, agents, workflows, attachments and budgets of *config*.

    In a transaction of the caller.

    Args:
        prune: remove attachments, budgets and tools over HTTP that a file created and this one
            does not contain.

    Returns:
        The differences that were applied.

    Raises:
        ConfigError: an entry names an object that does not exist, or PostgreSQL rejects it.
        PreconditionError: the role lacks a privilege.
    """
    await store.lock_out_appliers(conn)
    return await apply_unlocked(conn, config, prune=prune)


async def apply_unlocked(
    conn: Connection, config: Config, *, prune: bool = False
) -> list[Difference]:
    """Do the same, for entries that no other applier has."""
    await store.begin_applying(conn)
    known = await store.current(conn, "tool")
    await _register_tools(conn, config)
    registered = await store.current(conn, "tool")
    differences = await plan(conn, config, prune=prune)
    for difference in differences:
        with _naming(difference.kind, difference.name):
            await _carry_out(conn, difference)
    changed = [d.name for d in differences if d.kind == "agent" and d.action == "change"]
    personas = [d.name for d in differences if d.kind == "persona"]
    changed += await store.agents_of_personas(conn, personas)
    changed += await outdated_agents(conn)
    if changed:
        done = [
            d.name for d in differences if d.kind == "attachment" and d.fields.keys() - _NO_VERSION
        ]
        await store.touch_attachments(conn, changed, done)
    await _renew_workflows(conn, config, changed, differences)
    return [*_compare("tool", known, registered.items()), *differences]


async def plan(conn: Connection, config: Config, *, prune: bool = False) -> list[Difference]:
    """Compare file and database, without writing; new and changed tools are registered already.

    In the order of execution: models, personas, agents, workflows, attachments, budgets; of the
    last two, first removals, then changes and additions; then tools that left the file.

    Raises:
        ConfigError: the file names a table that does not exist.
    """
    models = await store.current(conn, "model")
    agents = await store.current(conn, "agent")
    attachments = await store.current(conn, "attachment")
    budgets = await store.current(conn, "budget")
    personas = await store.current(conn, "persona")
    workflows = await store.current(conn, "workflow")
    tools = await store.current(conn, "tool")
    entries = config.all_attachments
    analyst = config.ask.role if "role" in config.ask.model_fields_set else None
    oids = await _find_tables(conn, entries)
    return [
        *_compare(
            "model", models, ((n, wanted_model(n, e, models)) for n, e in config.models.items())
        ),
        *_compare(
            "persona", personas, ((n, wanted_persona(e)) for n, e in config.personas.items())
        ),
        *_compare("agent", agents, ((n, wanted_agent(e)) for n, e in config.agents.items())),
        *_compare(
            "workflow", workflows, ((n, wanted_workflow(e)) for n, e in _innermost_first(config))
        ),
        *(_pruned("attachment", "detach", attachments, entries) if prune else ()),
        *_compare(
            "attachment",
            attachments,
            ((n, wanted_attachment(e, oids[n], analyst)) for n, e in entries.items()),
        ),
        *(_pruned("budget", "remove", budgets, config.budgets) if prune else ()),
        *_compare("budget", budgets, ((n, wanted_budget(e)) for n, e in config.budgets.items())),
        *(_pruned("tool", "remove", tools, config.http_tools) if prune else ()),
    ]


def _compare(
    kind: Kind, current: Mapping[str, Fields], wanted: Iterable[tuple[str, Fields]]
) -> Iterator[Difference]:
    for name, fields in wanted:
        if (row := current.get(name)) is None:
            yield Difference(kind, name, "create", {key: (None, v) for key, v in fields.items()})
            continue
        different = {
            key: (row.get(key), value) for key, value in fields.items() if row.get(key) != value
        }
        if different:
            note = _BACKFILL if different.get("backfill") == (False, True) else ""
            yield Difference(kind, name, "change", different, note)


def _innermost_first(config: Config) -> list[tuple[str, WorkflowEntry]]:
    """Return the workflows, each after those that it contains.

    Raises:
        ConfigError: one contains itself.
    """
    graph = {name: entry.subgraphs for name, entry in config.workflows.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        names = error.args[1]
        raise ConfigError(
            f"workflows.{names[0]}: contains itself: {' > '.join(reversed(names))}"
        ) from error
    return [(name, config.workflows[name]) for name in order if name in config.workflows]


async def _renew_workflows(
    conn: Connection, config: Config, agents: Iterable[str], done: Iterable[Difference]
) -> None:
    """Create a version of the workflows in which an agent or a workflow has changed."""
    changed, renewed = set(agents), {d.name for d in done if d.kind == "workflow"}
    for name, entry in _innermost_first(config):
        if name not in renewed and (entry.agents & changed or entry.subgraphs & renewed):
            await store.write(conn, "workflow", name, {})
            renewed.add(name)


_NO_VERSION = {"paused"}  # fields whose change creates no version
_BACKFILL = "only a new attachment is backfilled: detach it and apply the file again"


def _pruned(
    kind: Kind, action: Action, current: Mapping[str, Fields], entries: Iterable[str]
) -> Iterator[Difference]:
    kept = set(entries)
    for name, row in sorted(current.items()):
        if row["source"] == "file" and name not in kept:
            yield Difference(kind, name, action, {})


async def _find_tables(conn: Connection, entries: Mapping[str, AttachmentEntry]) -> dict[str, int]:
    oids = dict[str, int]()
    for name, entry in entries.items():
        with _naming("attachment", name):
            oids[name] = await store.find_table(conn, entry.table)
    return oids


async def _register_tools(conn: Connection, config: Config) -> None:
    """Register the Python and MCP tools that the file's agents name, for SQL to find."""
    named = {tool for entry in config.agents.values() for tool in entry.tools}
    found = find_tools(config.tools.modules)
    await register_python_tools(conn, [tool for tool in found.values() if tool.name in named])
    await register_http_tools(conn, config)
    config = with_named(config)
    if (clients := make_clients(config, Environment.of_process())) is None:
        return
    try:
        await register_named(conn, config, clients)
    finally:
        await clients.aclose()


async def _carry_out(conn: Connection, difference: Difference) -> None:
    match difference.action:
        case "create" | "change":
            await store.write(conn, difference.kind, difference.name, difference.new)
        case "detach":
            await store.detach(conn, difference.name)
        case "remove" if difference.kind == "tool":
            await remove_http_tool(conn, difference.name)
        case "remove":
            await store.remove_budget(conn, difference.name)


@contextmanager
def _naming(kind: Kind, name: str) -> Generator[None]:
    """Add the entry's name to an error of PostgreSQL."""
    try:
        yield
    except Error as error:
        ours: WalagentError = translated(error)
        said = f"{kind} {name}: {ours}"
        raise type(ours)(said, hint=ours.hint, sqlstate=ours.sqlstate) from error
