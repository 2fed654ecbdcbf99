"""The options that select runs: --state, --attachment, --key and --since.

Commands that list runs and commands that change many of them accept the same options.
"""

import functools
from collections.abc import Callable, Collection
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, cast

import click

from walagent.config.base import to_seconds
from walagent.domain.run import RunState
from walagent.store.people.run_filter import RunFilter

Command = Callable[..., None]


def since(
    ctx: click.Context | None, param: click.Parameter | None, text: str | None
) -> datetime | timedelta | None:
    """Read an age such as 90s, 3h or 7 days, or a date; one without a time zone is local."""
    if text is None:
        return None
    for read in () if text.isdecimal() else (_point, _age):
        with suppress(ValueError, OverflowError):
            return read(text)
    raise click.BadParameter(
        f"{text!r} is not a time such as 3h, 7 days or 2026-01-31 14:00", ctx, param
    )


def _point(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone()


def _age(text: str) -> timedelta:
    return timedelta(seconds=float(cast("float", to_seconds(text))))


def since_option(what: str) -> Callable[[Command], Command]:
    """Make the option --since of a command that lists; the command receives *start*."""
    return click.option(
        "--since",
        "start",
        callback=since,
        metavar="TIME",
        help=f"Only {what} since TIME: 3h, 7d, 2026-01-31.",
    )


def run_filters(*, states: Collection[RunState] = tuple(RunState)) -> Callable[[Command], Command]:
    """Add the options; the command receives a `RunFilter` as the parameter *filters*.

    Args:
        states: what --state accepts; without any, there is no --state.
    """
    words = [state.value for state in states]
    options = [
        click.option("--attachment", metavar="NAME", help="Only runs of this attachment."),
        click.option("--key", help="Only runs of the row with this primary key."),
        click.option(
            "--since",
            callback=since,
            metavar="TIME",
            help="Only runs that ended, or were created and have not ended, since TIME: 3h, 7d,"
            " 2026-01-31.",
        ),
    ]
    if words:
        options.insert(
            0,
            click.option(
                "--state",
                "states",
                multiple=True,
                type=click.Choice(words),
                metavar="STATE",
                help=f"Only runs in this state; repeatable: {', '.join(words)}.",
            ),
        )

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def wrapped(*args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - click's parameters
            given = RunFilter(
                states=tuple(map(RunState, kwargs.pop("states", ()))),
                attachment=kwargs.pop("attachment"),
                key=kwargs.pop("key"),
                since=kwargs.pop("since"),
            )
            command(*args, filters=given, **kwargs)

        for option in reversed(options):
            option(wrapped)  # click adds it to the function
        return wrapped

    return decorate
