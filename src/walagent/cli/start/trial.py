"""`walagent try`: show what an agent would do on real rows."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import click

from walagent.cli.exit_codes import FAILED
from walagent.cli.runs.run_view import step_lines
from walagent.cli.session import CliSession, Where, open_session, where_options
from walagent.cli.terminal.output import cell, clean, json_option, print_json, print_wrapped, say
from walagent.cli.terminal.table import Dollars
from walagent.config import Config
from walagent.config.entries import AgentEntry, Attach
from walagent.errors import ConfigError
from walagent.message import Json
from walagent.store.relations.changed_rows import Cells, ChangedRow, Changes
from walagent.telemetry import log
from walagent.trial.attaching import Wanted
from walagent.trial.trial import Trial, TrialOptions, TriedRow, open_trial

_FINE = frozenset({"succeeded", "waiting_approval", "skipped"})
_MOST = 20  # changed rows of one run that are shown; JSON has all
_LONGEST = 200  # characters of a value


@click.command("try")
@click.argument("target", metavar="TABLE|ATTACHMENT")
@click.option(
    "--last",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="Number of rows, the last ones by primary key.",
)
@click.option(
    "--where", "condition", default="", metavar="SQL", help="Only rows t for which it is true."
)
@click.option(
    "--agents-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The agent of this file; attachments of the database are not considered.",
)
@click.option("--model", metavar="NAME", help="Try an agent that no file has: its model.")
@click.option("--prompt", default="", metavar="TEXT", help="With --model: its instructions.")
@click.option("--writes", default="", metavar="COLUMNS", help="With --model: what it can write.")
@click.option("--tools", default="", metavar="NAMES", help="With --model: its tools.")
@click.option("--assume-approved", is_flag=True, help="Execute calls that would wait for approval.")
@json_option()
@where_options
def try_(  # noqa: PLR0913 - its options
    where: Where,
    target: str,
    *,
    last: int,
    condition: str,
    agents_file: Path | None,
    model: str | None,
    prompt: str,
    writes: str,
    tools: str,
    assume_approved: bool,
    as_json: bool,
) -> None:
    """Show what an agent would do on existing rows, without keeping anything.

    The agent is that of agents.yaml, else the attached one.  The model is called and costs money.
    Tools, triggers and constraints of the database are executed in a transaction that is rolled
    back; until a row is done, the rows that its tools have written are locked.  Tools that act
    outside the database are not called.  PostgreSQL never rolls back sequences.

    Exit codes: 0 each run would succeed or wait for approval, 1 one would not.
    """
    session = open_session(replace(where, config=agents_file or where.config))
    config = session.config
    if model is not None:
        config = _of_options(
            config, target, AgentEntry(model=model, system_prompt=prompt), writes, tools
        )
    wanted = Wanted(target, config, only_file=agents_file is not None or model is not None)
    log.configure("text", "error")
    options = TrialOptions(last, condition, assume_approved)
    tried = asyncio.run(_tried(session, wanted, options, as_json=as_json))
    if as_json:
        print_json([_document(row) for row in tried])
    if any(row.run is not None and row.run["state"] not in _FINE for row in tried):
        sys.exit(FAILED)


def _of_options(config: Config, table: str, agent: AgentEntry, writes: str, tools: str) -> Config:
    attach = Attach(table=table, writes=tuple(_names(writes)))
    entry = agent.model_copy(update={"attach": (attach,), "tools": tuple(_names(tools))})
    return config.model_copy(update={"agents": {"try": entry}, "attachments": {}})


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


async def _tried(
    session: CliSession, wanted: Wanted, options: TrialOptions, *, as_json: bool
) -> Sequence[TriedRow]:
    tried = list[TriedRow]()
    async with session.places() as places, open_trial(places.dsn, wanted, options) as trial:
        if not trial.rows:
            raise ConfigError("no row to try", hint="Insert one, or choose others with --where.")
        await _announce(trial)
        for row in trial.rows:
            tried.append(await trial.try_row(row))
            if not as_json:
                for line in _lines(tried[-1]):
                    print_wrapped(line)
    if not as_json:
        click.echo(_total(tried))
    return tried


async def _announce(trial: Trial) -> None:
    """Say what will happen, before it costs anything."""
    found, count = trial.attachment, len(trial.rows)
    cost = await trial.first_cost()
    if cost is None:
        price = "at an unknown price"
    elif not cost:
        price = "free of charge"
    else:
        price = f"for up to ${Dollars(cost)} for the first call of each"
    rows = "1 row" if count == 1 else f"{count} rows"
    say(
        f"trying {found.agent.model} on {rows} of {found.target.schema}.{found.target.table},"
        f" as role {found.authority.run_as}, {price}; nothing is kept"
    )


def _lines(tried: TriedRow) -> Iterator[str]:
    if (run := tried.run) is None:
        yield f"── row {clean(tried.key)}: no run, the condition is not true"
        return
    cost = f", ${cell(run['cost'])}" if run["cost"] is not None else ""
    yield f"── row {clean(tried.key)}: {run['state']}, {run['tokens']} tokens{cost}"
    yield from step_lines(run)
    if run["error"]:
        yield f"  error: {cell(run['error'])}"
    for call in tried.not_called:
        given = ", ".join(f"{name}={cell(value)}" for name, value in call.arguments.items())
        yield f"  not called, because it acts outside the database: {clean(call.tool)}({given})"
    if run["state"] == "waiting_approval":
        yield "  would wait for approval; --assume-approved executes the call"
    yield from _changes(tried.changes)


def _changes(changes: Changes) -> Iterator[str]:
    if not changes.rows and not changes.unknown:
        yield "  no row would change"
    for row in changes.rows[:_MOST]:
        yield from _changed(row)
    if len(changes.rows) > _MOST:
        yield f"  … and {len(changes.rows) - _MOST} more rows; --json prints all"
    for table, reason in changes.unknown.items():
        yield f"  {clean(table)} was written to, and cannot be compared: {clean(reason)}"


def _changed(row: ChangedRow) -> Iterator[str]:
    name = clean(f"{row.schema}.{row.table}")
    match row.before, row.after:
        case None, after:
            yield f"  + {name}: {_cells(after or {})}"
        case before, None:
            yield f"  - {name}: {_cells(before)}"
        case before, after:
            same = {k: v for k, v in before.items() if after[k] == v}
            first = next(iter(same), "")
            yield f"  ~ {name} {_cells({first: same[first]}) if first else ''}".rstrip()
            for column, old in before.items():
                if after[column] != old:
                    yield f"      {clean(column)}: {_value(old)} → {_value(after[column])}"


def _cells(cells: Cells) -> str:
    return ", ".join(f"{clean(name)}={_value(value)}" for name, value in cells.items())


def _value(text: str | None) -> str:
    if text is None:
        return "NULL"
    line = cell(text)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _total(tried: Sequence[TriedRow]) -> str:
    runs = [row.run for row in tried if row.run is not None]
    tokens = sum(run["tokens"] or 0 for run in runs)
    costs = [run["cost"] for run in runs if run["cost"] is not None]
    cost = f", ${cell(sum(costs))}" if costs else ""
    rows = "1 row" if len(tried) == 1 else f"{len(tried)} rows"
    return f"{rows} tried, {tokens} tokens{cost}; everything was rolled back"


def _document(tried: TriedRow) -> dict[str, Json]:
    return {
        "key": tried.key,
        "run": tried.run,
        "not_called": [asdict(call) for call in tried.not_called],
        "changes": [
            {"table": f"{row.schema}.{row.table}", "before": row.before, "after": row.after}
            for row in tried.changes.rows
        ],
        "not_compared": dict(tried.changes.unknown),
    }
