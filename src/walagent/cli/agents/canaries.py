"""`walagent agents canary`: a version of an attachment for a share of its rows, or beside it."""

from collections.abc import Iterable
from typing import Final

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import done, json_option, json_result
from walagent.cli.terminal.table import (
    WHOLE,
    Below,
    Column,
    Row,
    Screen,
    column,
    dollars_column,
    print_rows,
)
from walagent.store.people import canaries

_COLUMNS: Final = (
    "attachment", "canary", "state", "side", "version", "share", "runs", "ended", "failures",
    "corrections", "cost", "latency", "calls", "same", "other", "failed", "waiting", "evaluation",
    "begun_at", "reason",
)  # fmt: skip
_SHARE: Final = click.FloatRange(0, 1, min_open=True, max_open=True)
_SHADOWED: Final = click.FloatRange(0, 1, min_open=True)


def _below(row: Row) -> Iterable[Below]:
    if row["side"] == "baseline":
        return
    if row["side"] == "shadow":
        counts = ", ".join(f"{row[n]} {n}" for n in ("same", "other", "failed", "waiting"))
        number = row["evaluation"]
        yield Below(f"{counts}: walagent evaluations show {number}")
    if row["rollback_if"] and row["state"] == "running":
        yield Below(f"rolled back if {row['rollback_if']}, from {row['min_runs']} runs on")
    if row["state"] == "rolled_back":
        by = row["ended_by"] or "its rule"
        yield Below(f"rolled back by {by}: {row['reason'] or 'no reason given'}", "yellow")


def _percent(name: str) -> Column:
    def shown(row: Row) -> str | None:
        return None if row[name] is None else f"{100 * row[name]:.1f} %"

    return Column(name, shown, WHOLE)


_SCREEN: Final = Screen(
    [
        Column("attachment", lambda row: row["attachment"], 10),
        Column("state", lambda row: row["state"].replace("_", " "), WHOLE),
        column("side", least=WHOLE),
        column("version", "v", least=WHOLE),
        _percent("share"),
        column("ended", "runs", least=WHOLE),
        _percent("failures"),
        _percent("corrections"),
        dollars_column("cost", "cost"),
        Column("seconds", lambda row: row["latency"]),
        column("calls"),
    ],
    _below,
)


@click.command("begin")
@click.argument("attachment")
@click.argument("spec")
@click.option(
    "--share", type=_SHARE, metavar="SHARE", help="Share of the ordering keys [default: 0.1]."
)
@click.option(
    "--rollback-if", "rule", metavar="RULE", help="Roll it back when this is true of its runs."
)
@click.option(
    "--min-runs",
    "least",
    type=click.IntRange(1, 999_999),
    metavar="N",
    help="Ended runs that the rule needs [default: 30].",
)
@json_result
@where_options
def begin_(  # noqa: PLR0913, PLR0917 - as many as the command has options
    where: Where,
    attachment: str,
    spec: str,
    share: float | None,
    rule: str | None,
    least: int | None,
) -> None:
    """Give a share of the rows of ATTACHMENT a version with the changes of SPEC.

    An example is:

    \b
      walagent agents canary begin support 'model=small' --share 0.1 \\
        --rollback-if 'failures > 2 * baseline or cost > 1.5 * baseline'
    """  # noqa: D301 - click's mark for lines that are not wrapped
    version = ask(
        where,
        lambda conn: canaries.set_canary(
            conn, attachment, changes=spec, share=share, rollback_if=rule, min_runs=least
        ),
    )
    done(f"began canary version {version} of {attachment}", attachment=attachment, canary=version)


@click.command("shadow")
@click.argument("attachment")
@click.argument("spec", required=False)
@click.option(
    "--share", type=_SHADOWED, metavar="SHARE", help="Share of the ordering keys [default: 1]."
)
@json_result
@where_options
def shadow_(where: Where, attachment: str, spec: str | None, share: float | None) -> None:
    """Run a version with the changes of SPEC on the rows of ATTACHMENT, too, and roll it back.

    What it would have done is compared with what the runs did.  Without SPEC, change the share of
    the shadow that there is.
    """
    if spec is None and share is None:
        raise click.UsageError("expected SPEC or --share")
    version = ask(
        where, lambda conn: canaries.set_shadow(conn, attachment, changes=spec, share=share)
    )
    did = "changed" if spec is None else "began"
    done(f"{did} shadow version {version} of {attachment}", attachment=attachment, shadow=version)


@click.command("change")
@click.argument("attachment")
@click.option("--share", type=_SHARE, metavar="SHARE", help="Share of the ordering keys.")
@click.option("--rollback-if", "rule", metavar="RULE", help="The rule; empty: none.")
@click.option(
    "--min-runs",
    "least",
    type=click.IntRange(1, 999_999),
    metavar="N",
    help="Ended runs that the rule needs.",
)
@json_result
@where_options
def change_(
    where: Where, attachment: str, share: float | None, rule: str | None, least: int | None
) -> None:
    """Change share or rule of the canary of ATTACHMENT.  What is not given stays.

    A shadow becomes a canary, with a tenth of the ordering keys if no share is given.
    """
    if share is None and rule is None and least is None:
        raise click.UsageError("expected --share, --rollback-if or --min-runs")
    version = ask(
        where,
        lambda conn: canaries.set_canary(
            conn, attachment, changes=None, share=share, rollback_if=rule, min_runs=least
        ),
    )
    done(f"changed canary version {version} of {attachment}", attachment=attachment, canary=version)


@click.command("list")
@click.argument("attachment", required=False)
@click.option(
    "--limit",
    default=20,
    show_default=True,
    type=click.IntRange(1, 1000),
    metavar="N",
    help="Maximum number of canaries.",
)
@json_option()
@where_options
def list_(where: Where, attachment: str | None, *, limit: int, as_json: bool) -> None:
    """List canaries, the latest first, with what the runs of both versions came to.

    Failures and corrections are shares of the ended runs; cost and calls are means of a run,
    seconds a median.
    """
    rows = ask(where, lambda conn: canaries.list_canaries(conn, attachment, limit))
    print_rows(rows, _COLUMNS, as_json=as_json, empty="no canaries", screen=_SCREEN)


@click.command("promote")
@click.argument("attachment")
@json_result
@where_options
def promote_(where: Where, attachment: str) -> None:
    """Make the canary of ATTACHMENT its version."""
    version = ask(where, lambda conn: canaries.promote_canary(conn, attachment))
    done(f"promoted version {version} of {attachment}", attachment=attachment, version=version)


@click.command("roll-back")
@click.argument("attachment")
@click.option("--reason", metavar="TEXT", help="Stored with the canary, and in the audit.")
@json_result
@where_options
def roll_back_(where: Where, attachment: str, reason: str | None) -> None:
    """End the canary of ATTACHMENT: all changes get the version that it had before."""
    version = ask(where, lambda conn: canaries.roll_back_canary(conn, attachment, reason))
    done(
        f"rolled back the canary of {attachment} to version {version}",
        attachment=attachment,
        version=version,
    )
