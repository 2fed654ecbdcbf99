"""The group of all commands: import one when it is called, report every error in one place."""

import gc
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from importlib import import_module
from itertools import takewhile
from typing import Any, Final

import click

from walagent import __version__
from walagent.cli.commands import Command
from walagent.cli.exit_codes import end
from walagent.errors import WalagentError

# Flags of a command that are also accepted before its name, for scripts written for PG Agent.
AHEAD: Final = frozenset({"--index", "--verbose", "-v"})
_WITHOUT_THEM: Final = frozenset({"setup"})  # a command of PG Agent that has none of them here


class Commands(click.Group):
    """Commands under headings, imported on demand."""

    def __init__(
        self,
        name: str,
        commands: Mapping[str, Sequence[Command]],
        *,
        about: str,
        epilog: str,
    ) -> None:
        super().__init__(
            name,
            help=about,
            epilog=epilog,
            context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        )
        self._headings = commands
        self._known = {command.name: command for many in commands.values() for command in many}
        click.version_option(__version__, "--version", "-V", prog_name="walagent")(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move flags from before the command to behind it; the command validates them."""
        ahead = list(takewhile(AHEAD.__contains__, args))
        command, rest = args[len(ahead) : len(ahead) + 1], args[len(ahead) + 1 :]
        if not _WITHOUT_THEM.isdisjoint(command):
            ahead = []
        return super().parse_args(ctx, command + ahead + rest)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """List all commands in the order of their headings; shell completion calls this."""
        return list(self._known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import a command."""
        if (command := self._known.get(cmd_name)) is None:
            return None
        with _without_collection():
            found = getattr(import_module(command.module), command.attribute)
        assert isinstance(found, click.Command)  # noqa: S101 - a line of COMMANDS is wrong
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest name."""
        if args and args[0] not in self._known and not args[0].startswith("-"):
            near = get_close_matches(args[0], self._known, n=1)
            guess = f" Did you mean {near[0]}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{guess}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """List the commands under their headings, without importing any."""
        width = max(map(len, self._known))
        for heading, commands in self._headings.items():
            with formatter.section(heading):
                formatter.write_dl([(c.name.ljust(width), c.help) for c in commands])

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401, RET503 - click's; end() never returns
        """Run the command; print a `WalagentError` and exit with its code."""
        try:
            return super().invoke(ctx)
        except WalagentError as error:
            ours = [error]
        except BaseExceptionGroup as group:
            found, others = group.split(WalagentError)
            if found is None or others is not None:
                raise  # a bug keeps its traceback, whatever else failed with it
            ours = list(_flat(found))
        end(ours)


@contextmanager
def _without_collection() -> Generator[None]:
    """Import without garbage collection, which would take a tenth of the import time.

    Imported objects are excluded from later collections, too.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _flat(group: BaseExceptionGroup[WalagentError]) -> Iterator[WalagentError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error
