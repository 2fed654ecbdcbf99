"""`walagent evaluations datasets`: changes with what is expected of a run on them."""

import asyncio
from collections.abc import Iterable
from typing import Final, Literal

import click

from walagent.cli.json_options import json_object
from walagent.cli.session import Where, ask, open_session, where_options
from walagent.cli.terminal.output import cell, done, json_option, json_result
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    Row,
    Screen,
    column,
    print_rows,
    relation_column,
)
from walagent.errors import ConfigError
from walagent.store import evaluations
from walagent.store.people.evaluations import Connection, list_cases, list_datasets
from walagent.telemetry import log
from walagent.trial.cases import Choice
from walagent.trial.collecting import NewDataset, collect

_SCREEN: Final = Screen(
    [
        column("name", least=12),
        column("attachment", least=12),
        relation_column(),
        column("source", least=WHOLE),
        column("cases"),
        column("labelled"),
        column("made_by"),
        column("made_at", "age"),
    ]
)


@click.command("create")
@click.argument("name")
@click.argument("attachment")
@click.option(
    "--from",
    "source",
    type=click.Choice(["runs", "table"]),
    default="runs",
    show_default=True,
    help="The changes of recorded runs, or rows as they are now.",
)
@click.option(
    "--last",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="Number of runs or rows, the last ones.",
)
@click.option(
    "--where", "condition", default="", metavar="SQL", help="Only rows t for which it is true."
)
@click.option("--failed", is_flag=True, help="With --from runs: only runs that failed.")
@click.option(
    "--corrected",
    is_flag=True,
    help="With --from runs: only runs of which somebody has changed what they wrote.",
)
@click.option("--scored", is_flag=True, help="With --from runs: only runs that people have scored.")
@click.option(
    "--expect",
    default="",
    metavar="COLUMNS",
    help="With --from table: labels; a run is not shown them.",
)
@click.option(
    "--expect-recorded", is_flag=True, help="With --from runs: what the runs did is right."
)
@json_result
@where_options
def create_(  # noqa: PLR0913 - its options
    where: Where,
    name: str,
    attachment: str,
    *,
    source: Literal["runs", "table"],
    last: int,
    condition: str,
    failed: bool,
    corrected: bool,
    scored: bool,
    expect: str,
    expect_recorded: bool,
) -> None:
    """Create a dataset NAME of changes that start runs of ATTACHMENT."""
    if source == "table" and (failed or corrected or scored or expect_recorded):
        raise ConfigError(
            "--failed, --corrected, --scored and --expect-recorded require --from runs"
        )
    if source == "runs" and expect:
        raise ConfigError("--expect requires --from table", hint="Use --expect-recorded for runs.")
    columns = tuple(part.strip() for part in expect.split(",") if part.strip())
    session = open_session(where)
    config = session.config.model_copy(update={"agents": {}, "attachments": {}})
    choice = Choice(last, condition, failed, corrected=corrected, scored=scored)
    wanted = NewDataset(name, attachment, source, choice, columns, expect_recorded=expect_recorded)
    log.configure("text", "error")

    async def created() -> int:
        async with session.places() as places:
            return await collect(places.dsn, config, wanted)

    count = asyncio.run(created())
    cases = "1 case" if count == 1 else f"{count} cases"
    done(f'created dataset "{name}" with {cases}', created=name, cases=count)


@click.command("list")
@json_option()
@where_options
def list_(where: Where, *, as_json: bool) -> None:
    """List datasets."""
    rows = ask(where, list_datasets)
    columns = ["name", "attachment", "relation", "source", "cases", "labelled", "made_by"]
    print_rows(rows, [*columns, "made_at"], as_json=as_json, empty="no datasets", screen=_SCREEN)


def _change(row: Row) -> Iterable[Below]:
    last = (row["merged"] or [row["change"]])[-1]
    yield Below(cell(last.get("new") or last.get("old")))


_CASES: Final = Screen(
    [
        column("id"),
        column("key"),
        column("run_id", "run"),
        Column("expected", lambda row: row["expected"] and cell(row["expected"]), 20),
        column("labelled_by"),
    ],
    _change,
)


@click.command("show")
@click.argument("name")
@json_option()
@where_options
def show_(where: Where, name: str, *, as_json: bool) -> None:
    """Show the cases of the dataset NAME."""

    async def read(conn: Connection) -> list[dict[str, object]]:
        dataset = await evaluations.find_dataset(conn, name)
        return await list_cases(conn, dataset["id"])

    rows = ask(where, read)
    columns = ["id", "key", "run_id", "expected", "labelled_by"]
    print_rows(rows, columns, as_json=as_json, empty="no cases", screen=_CASES)


@click.command("label")
@click.argument("case", type=int)
@click.argument("expected", metavar="[JSON]", required=False)
@click.option("--remove", is_flag=True, help="Remove the label.")
@json_result
@where_options
def label_(where: Where, case: int, expected: str | None, *, remove: bool) -> None:
    """Say what is expected of a run on the change of CASE: values, tools, result.

    {"values": {"category": "billing"}, "tools": ["update_row"], "result": "Done."}, at least one of
    them.
    """
    if (expected is None) != remove:
        raise ConfigError(
            "expected a label or --remove", hint='Use {"values": {"column": "value"}}.'
        )
    given = None if expected is None else json_object(expected, "label")
    ask(where, lambda conn: evaluations.label(conn, case, given))
    words = "removed the label of" if remove else "labelled"
    done(f"{words} case {case}", case=case, expected=given)


@click.command("drop")
@click.argument("name")
@json_result
@where_options
def drop_(where: Where, name: str) -> None:
    """Delete the dataset NAME with its cases; evaluations of it stay."""

    async def drop(conn: Connection) -> None:
        dataset = await evaluations.find_dataset(conn, name)
        await evaluations.drop_dataset(conn, dataset["id"])

    ask(where, drop)
    done(f'deleted dataset "{name}"', dropped=name)
