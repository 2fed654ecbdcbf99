"""Commands that change one, some or many: IDs, or options that select and a confirmation."""

import sys
from collections.abc import Awaitable, Callable, Sequence

import click

from walagent.cli.session import Where, ask
from walagent.errors import ConfigError
from walagent.store.people.listings import Connection
from walagent.store.people.run_filter import RunFilter

_NAMED = 5

Finder = Callable[[Connection], Awaitable[Sequence[int]]]


def chosen(  # noqa: PLR0913 - what can select
    where: Where,
    ids: Sequence[int],
    filters: RunFilter,
    find: Finder,
    *,
    yes: bool,
    more: bool = False,
) -> Sequence[int]:
    """Return the IDs that were given, or those that *find* selects and a person confirms.

    Args:
        more: whether other options than *filters* select.

    Raises:
        ConfigError: nothing is selected, or both ways are used.
    """
    if bool(ids) != (filters.is_empty and not more):
        raise ConfigError(
            "no choice what to change", hint="Give IDs, or options such as --attachment, not both."
        )
    if ids:
        return list(dict.fromkeys(ids))
    found = ask(where, find)
    if found and not yes:
        if not sys.stdin.isatty():
            raise ConfigError(
                f"{len(found)} would be changed without a confirmation", hint="Use --yes."
            )
        verb = (click.get_current_context().info_name or "change").capitalize()
        click.confirm(f"{verb} {len(found)}?", abort=True, err=True)
    return found


def named(ids: Sequence[int], what: str) -> str:
    """Name a few by their IDs, and count many."""
    if len(ids) <= _NAMED:
        return f"{what}{'s' if len(ids) > 1 else ''} {', '.join(map(str, ids))}"
    return f"{len(ids)} {what}s"
