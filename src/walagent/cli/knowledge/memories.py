"""`walagent knowledge memories`: what agents remember."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import (
    done,
    json_option,
    json_result,
    limit_option,
    print_json,
    produce,
    say,
)
from walagent.cli.terminal.table import Screen, column, print_rows
from walagent.errors import ConfigError
from walagent.store.people import memories
from walagent.store.people.definitions import check_agent
from walagent.store.people.memories import Connection

_KINDS: Final = click.Choice(["conversation", "working", "episodic", "semantic", "procedural"])
_COLUMNS: Final = ["id", "agent", "kind", "key", "value", "importance", "trust", "created_at"]
_SCREEN: Final = Screen([column(name) for name in _COLUMNS])


@click.command("list")
@click.option("--agent", help="Only of this agent.")
@click.option("--kind", type=_KINDS, help="Only of this kind.")
@click.option("--query", help="Recall what fits these words, best first; requires --agent.")
@click.option("--all", "dead", is_flag=True, help="Also replaced, withdrawn and expired ones.")
@limit_option("memories", default=100, most=10_000)
@json_option()
@where_options
def list_(  # noqa: PLR0913 - an option each
    where: Where,
    agent: str | None,
    kind: str | None,
    query: str | None,
    limit: int,
    *,
    dead: bool,
    as_json: bool,
) -> None:
    """List memories, the latest first."""
    if query is not None and agent is None:
        raise ConfigError("--query requires --agent", hint="An agent recalls only its own.")

    async def read(conn: Connection) -> list[dict[str, Any]]:
        await check_agent(conn, agent)
        if query is not None and agent is not None:
            return await memories.recall(conn, agent, query, kind, limit)
        return await memories.list_memories(conn, agent, kind, limit, dead=dead)

    rows = ask(where, read)
    if query is not None:
        columns = ["id", "score", "kind", "key", "value", "trust"]
        print_rows(rows, columns, as_json=as_json, empty="nothing is remembered about this")
        return
    print_rows(rows, _COLUMNS, as_json=as_json, empty="no memories", screen=_SCREEN)


@click.command("show")
@click.argument("memory", type=click.UUID)
@json_option()
@where_options
def show_(where: Where, memory: object, *, as_json: bool) -> None:
    """Show a memory with all that is known about it."""
    row = ask(where, lambda conn: memories.show_memory(conn, str(memory)))
    if row is None:
        raise ConfigError(f"memory {memory} does not exist")
    if as_json:
        print_json(row)
        return
    parts = [{"column": name, "value": value} for name, value in row.items() if value is not None]
    print_rows(parts, ["column", "value"], as_json=False, empty="")


@click.command("add")
@click.argument("agent")
@click.argument("value")
@click.option("--key", help="Name; another value under it replaces the one before.")
@click.option("--kind", type=_KINDS, default="semantic", show_default=True, help="Its kind.")
@click.option("--about", metavar="PRINCIPAL", help="Principal that it is about.")
@click.option(
    "--importance", type=click.FloatRange(0, 1), default=0.5, show_default=True, help="From 0 to 1."
)
@click.option("--days", type=click.IntRange(1, 36_500), help="Days until it expires.")
@json_result
@where_options
def add_(  # noqa: PLR0913, PLR0917 - an option each
    where: Where,
    agent: str,
    value: str,
    key: str | None,
    kind: str,
    about: str | None,
    importance: float,
    days: int | None,
) -> None:
    """Store VALUE, a text, for AGENT; print its ID."""
    fields = {
        "key": key,
        "kind": kind,
        "about": about,
        "importance": importance,
        "expires": None if days is None else timedelta(days=days),
    }

    async def add(conn: Connection) -> tuple[str, bool]:
        key = await memories.add_memory(conn, agent, value, fields)
        return key, await memories.has_agent(conn, agent)

    stored, known = ask(where, add)
    if not known:
        say(f'warning: there is no agent "{agent}" yet; one of this name will recall it')
    produce(id=stored)


@click.command("correct")
@click.argument("memory", type=click.UUID)
@click.argument("value")
@json_result
@where_options
def correct_(where: Where, memory: object, value: str) -> None:
    """Replace a memory by VALUE; print the ID of the new one."""
    produce(id=ask(where, lambda conn: memories.correct_memory(conn, str(memory), value)))


@click.command("forget")
@click.argument("ids", metavar="MEMORY...", type=click.UUID, nargs=-1, required=True)
@click.option("--retract", is_flag=True, help="Withdraw them: they are kept until they are pruned.")
@json_result
@where_options
def forget_(where: Where, ids: Sequence[object], *, retract: bool) -> None:
    """Delete memories and what they replaced: all or none."""

    async def forget(conn: Connection) -> None:
        for memory in map(str, ids):
            if retract:
                await memories.retract_memory(conn, memory)
            elif not await memories.forget_memory(conn, memory):
                raise ConfigError(f"memory {memory} does not exist")

    ask(where, forget)
    what = "retracted" if retract else "deleted"
    done(f"{what} {len(ids)}", **{what: [*map(str, ids)]})


@click.command("prune")
@click.option("--keep", type=click.IntRange(0), default=30, show_default=True, help="Days.")
@json_result
@where_options
def prune_(where: Where, keep: int) -> None:
    """Delete expired memories, and those replaced or withdrawn more than --keep days ago."""
    count = ask(where, lambda conn: memories.prune_memories(conn, timedelta(days=keep)))
    done(f"deleted {count}", deleted=count)
