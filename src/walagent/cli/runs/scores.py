"""The commands by which people say whether runs were right."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import click

from walagent.cli.runs.run_filters import since
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import cell, done, json_option, json_result, limit_option
from walagent.cli.terminal.table import (
    Below,
    Row,
    Screen,
    column,
    print_rows,
    relation_column,
)
from walagent.store.people import scores
from walagent.store.people.definitions import check_agent
from walagent.store.people.scores import Connection

_COLUMNS: Final = (
    "run", "agent", "attachment", "version", "relation", "key", "reasons", "wrote", "finished_at",
)  # fmt: skip


def _why(row: Row) -> Iterable[Below]:
    values: Mapping[str, str | None] = row["wrote"] or {}
    wrote = ", ".join(f"{name} = {_value(text)}" for name, text in values.items())
    yield Below(", ".join(row["reasons"]) + (f": {wrote}" if wrote else ""))


def _value(text: str | None) -> str:
    return "NULL" if text is None else cell(text)


_SCREEN: Final = Screen(
    [
        column("run"),
        column("agent"),
        column("version"),
        relation_column(),
        column("key"),
        column("finished_at", "age"),
    ],
    _why,
)


@click.command("unscored")
@click.option("--agent", metavar="NAME", help="Only of this agent.")
@click.option(
    "--reason",
    "reasons",
    multiple=True,
    type=click.Choice(scores.REASONS),
    metavar="REASON",
    help=f"Only for this reason; repeatable: {', '.join(scores.REASONS)}.",
)
@click.option(
    "--since",
    "start",
    callback=since,
    default="7d",
    show_default=True,
    metavar="TIME",
    help="Only runs created since TIME: 3h, 7d, 2026-01-31.",
)
@limit_option("runs")
@json_option()
@where_options
def unscored_(  # noqa: PLR0913 - as many as the command has options
    where: Where,
    *,
    agent: str | None,
    reasons: Sequence[str],
    start: datetime | timedelta | None,
    limit: int,
    as_json: bool,
) -> None:
    """List succeeded runs that a person should score, and why, the latest first."""

    async def read(conn: Connection) -> list[scores.Found]:
        await check_agent(conn, agent)
        return await scores.list_unscored(
            conn, agent=agent, reasons=reasons, since=start, limit=limit
        )

    rows = ask(where, read)
    print_rows(rows, _COLUMNS, as_json=as_json, empty="no runs to score", screen=_SCREEN)


_WORDS: Final = {"right": 1, "unsure": 0, "wrong": -1}


@click.command("score")
@click.argument("run", type=int)
@click.argument("answer", type=click.Choice(tuple(_WORDS)))
@click.option("--comment", metavar="TEXT", help="Why.")
@json_result
@where_options
def score_(where: Where, run: int, answer: str, comment: str | None) -> None:
    """Say whether RUN, which has ended, was right, wrong, or that nobody can be sure.

    The run is then no longer among those to score.  A second answer of the same person replaces the
    first.
    """
    value = _WORDS[answer]
    ask(where, lambda conn: scores.score(conn, run, value, comment))
    done(f"run {run} is scored as {answer}", run=run, value=value)
