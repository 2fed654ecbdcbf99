"""`walagent outbox`: messages to the outside and their deliveries."""

from collections.abc import Iterable, Sequence
from typing import Final

import click

from walagent.cli.session import Where, ask, where_options
from walagent.cli.terminal.output import (
    clean,
    done,
    json_option,
    json_result,
    limit_option,
    print_json,
)
from walagent.cli.terminal.table import Below, Row, Screen, column, print_rows, state_column
from walagent.domain.run import RunState
from walagent.errors import ConfigError
from walagent.store import outbox
from walagent.store.outbox import Connection
from walagent.store.people import operator

_COLUMNS: Final = ["id", "channel", "kind", "event", "subject", "run_id", "state", "attempt"]
_MORE: Final = ["next_attempt_at", "error", "result", "cause_run", "created_by", "created_at"]


def _error(row: Row) -> Iterable[Below]:
    if row["error"]:
        yield Below(row["error"], "red")


_SCREEN: Final = Screen(
    [
        column("id", least=36),
        column("channel"),
        column("event"),
        state_column(),
        column("attempt"),
        column("run_id", "run"),
        column("created_at", "age"),
    ],
    _error,
)


@click.command("list")
@click.option("--channel", help="Only those of this channel.")
@click.option(
    "--state",
    type=click.Choice([each.value for each in RunState]),
    metavar="STATE",
    help="Only those in this state, such as pending, failed or dead.",
)
@limit_option("deliveries", default=100, most=100_000)
@json_option()
@where_options
def list_(
    where: Where, channel: str | None, state: str | None, limit: int, *, as_json: bool
) -> None:
    """List messages, the newest first."""
    rows = ask(
        where,
        lambda conn: outbox.list_deliveries(conn, channel=channel, state=state, limit=limit),
    )
    columns = [*_COLUMNS, *_MORE, "finished_at"]
    print_rows(rows, columns, as_json=as_json, empty="no messages", screen=_SCREEN)


@click.command("show")
@click.argument("delivery")
@json_option()
@where_options
def show_(where: Where, delivery: str, *, as_json: bool) -> None:
    """Show one message with its delivery; walagent show RUN has the attempts."""
    found = ask(where, lambda conn: outbox.show_delivery(conn, delivery))
    if as_json:
        print_json(found)
        return
    for name, value in found.items():
        if value is not None:
            click.echo(clean(f"{name}: {value}"))


@click.command("retry")
@click.argument("deliveries", metavar="DELIVERY...", nargs=-1, required=True)
@json_result
@where_options
def retry_(where: Where, deliveries: Sequence[str]) -> None:
    """Deliver failed, dead or cancelled messages again: all, or none if one cannot be."""

    async def retried(conn: Connection) -> None:
        await operator.retry(conn, await _runs(conn, deliveries))

    ask(where, retried)
    done(f"retried {', '.join(deliveries)}", retried=deliveries)


@click.command("cancel")
@click.argument("deliveries", metavar="DELIVERY...", nargs=-1, required=True)
@click.option("--reason", help="Stored with the run.")
@json_result
@where_options
def cancel_(where: Where, deliveries: Sequence[str], reason: str | None) -> None:
    """Do not deliver messages: all, or none if one is delivered."""

    async def cancelled(conn: Connection) -> None:
        await operator.cancel(conn, await _runs(conn, deliveries), reason)

    ask(where, cancelled)
    done(f"cancelled {', '.join(deliveries)}", cancelled=deliveries)


async def _runs(conn: Connection, deliveries: Sequence[str]) -> list[int]:
    found = [await outbox.show_delivery(conn, each) for each in deliveries]
    for each in found:
        if each["run_id"] is None:
            raise ConfigError(f'message "{each["id"]}" has no run')
    return [each["run_id"] for each in found]
