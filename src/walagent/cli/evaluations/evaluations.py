"""`walagent evaluations`: what was replayed before, and how two of them compare."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from walagent.cli.evaluations.case_view import (
    case_lines,
    case_name,
    comparison_lines,
    count_lines,
    did,
    is_notable,
)
from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import (
    done,
    json_option,
    json_result,
    limit_option,
    print_json,
    print_wrapped,
)
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    Row,
    Screen,
    column,
    dollars_column,
    print_rows,
    state_column,
)
from walagent.errors import ConfigError
from walagent.store import evaluations
from walagent.store.people.evaluations import (
    Connection,
    Found,
    cases_of,
    compare,
    differing,
    list_evaluations,
    show_evaluation,
)
from walagent.trial.comparing import compared, with_tests


def _share(part: str, whole: str) -> Column:
    def share(row: Row) -> str | None:
        return f"{row[part]}/{row[whole]}" if row[whole] else None

    return Column({"agreeing": "agree", "are_right": "right"}[part], share, WHOLE)


def _error(row: Row) -> Iterable[Below]:
    if row["error"]:
        yield Below(row["error"], "red")


_SCREEN = Screen(
    [
        column("id"),
        Column("attachment", lambda row: row["attachment"] or "(questions)", 12),
        column("model", least=8),
        state_column(),
        column("cases"),
        _share("agreeing", "compared"),
        _share("are_right", "labelled"),
        column("dataset"),
        dollars_column("cost", "cost"),
        column("started_at", "age"),
    ],
    _error,
)


@click.command("list")
@limit_option("evaluations")
@json_option()
@where_options
def list_(where: Where, limit: int, *, as_json: bool) -> None:
    """List evaluations, newest first."""
    found = ask(where, lambda conn: list_evaluations(conn, limit))
    rows = [{**row, "compared": row["agreeing"] + row["differing"]} for row in found]
    columns = ["id", "attachment", "model", "state", "cases", "agreeing", "differing", "are_right"]
    columns += ["labelled", "dataset", "tokens", "cost", "started_at"]
    print_rows(rows, columns, as_json=as_json, empty="no evaluations", screen=_SCREEN)


@click.command("show")
@click.argument("evaluation", type=int)
@click.option("--all", "every", is_flag=True, help="Also cases that agree and are not wrong.")
@json_option()
@where_options
def show_(where: Where, evaluation: int, *, every: bool, as_json: bool) -> None:
    """Show EVALUATION: its cases that differ or are wrong, side by side, and its counts."""
    counts, cases = ask(where, lambda conn: _read(conn, evaluation))
    document = with_tests(counts, cases)
    if as_json:
        print_json({**document, "cases": cases})
        return
    for case in cases:
        if every or is_notable(case):
            for line in case_lines(case):
                print_wrapped(line)
    for line in count_lines(document):
        print_wrapped(line)


@click.command("compare")
@click.argument("first", type=int)
@click.argument("second", type=int)
@json_option()
@where_options
def compare_(where: Where, first: int, second: int, *, as_json: bool) -> None:
    """Compare the candidates of two evaluations on the cases that both have.

    Where cases have labels, the p-value is that of McNemar's exact test: the probability of a split
    at least as uneven, if neither candidate is better.
    """
    if first == second:
        raise ConfigError(f"evaluation {first} is compared with another one, not with itself")

    document = ask(where, lambda conn: _compare(conn, first, second))
    if not document["cases"]:
        raise ConfigError(
            f"evaluations {first} and {second} have no case in common",
            hint="Replay the same dataset, or the same runs.",
        )
    if as_json:
        print_json(document)
        return
    for pair in document["differing"]:
        one, other = pair["first"], pair["second"]
        print_wrapped(f"── {case_name(one)}: differs{_rights(one, other)}")
        print_wrapped(f"  {first}: {did(one['candidate'])}")
        print_wrapped(f"  {second}: {did(other['candidate'])}")
    for line in comparison_lines(document):
        print_wrapped(line)


def _rights(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    if first["is_right"] is None or second["is_right"] is None:
        return ""
    words = {True: "right", False: "wrong"}
    return f", {words[first['is_right']]} and {words[second['is_right']]}"


@click.command("delete")
@click.argument("ids", metavar="EVALUATION...", type=int, nargs=-1, required=True)
@json_result
@where_options
def delete_(where: Where, ids: tuple[int, ...]) -> None:
    """Delete evaluations with their cases: all or none."""
    wanted = sorted(set(ids))

    async def delete(conn: Connection) -> None:
        gone = await evaluations.delete(conn, wanted)
        if missing := sorted(set(wanted) - set(gone)):
            raise ConfigError(
                f"evaluation {missing[0]} does not exist",
                hint="Use walagent evaluations to list evaluations.",
            )

    ask(where, delete)
    done(f"deleted {len(wanted)}", deleted=wanted)


async def _compare(conn: Connection, first: int, second: int) -> dict[str, Any]:
    one, other = await show_evaluation(conn, first), await show_evaluation(conn, second)
    counts, numbers = await compare(conn, first, second), await differing(conn, first, second)
    pairs = list[tuple[Found, Found]]()
    if numbers:
        its = {case["number"]: case for case in await cases_of(conn, first)}
        others = {case["number"]: case for case in await cases_of(conn, second)}
        pairs = [(its[number], others[of_other]) for number, of_other in numbers]
    return compared(counts, pairs, one, other)


async def _read(conn: Connection, evaluation: int) -> tuple[Found, list[Found]]:
    return await show_evaluation(conn, evaluation), await cases_of(conn, evaluation)
