"""Options that the commands for tenants, principals and tokens share."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import click

from walagent.cli.runs.run_filters import since

F = TypeVar("F", bound=Callable[..., Any])

tenant_option = partial(
    click.option, "--tenant", metavar="NAME", help="Another tenant than that of the caller."
)


def expires_option(command: F) -> F:
    """Add --expires: a time, or how long from now."""
    return click.option(
        "--expires",
        "expires_at",
        callback=_end,
        metavar="TIME",
        help="When it ends: 12h, 30d, 2026-01-31.  [default: never]",
    )(command)


def _end(ctx: click.Context, param: click.Parameter, text: str | None) -> datetime | None:
    given = since(ctx, param, text)
    return datetime.now(UTC) + given if isinstance(given, timedelta) else given
