"""The groups of commands: import one when it is called, report every error in one place."""

import gc
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from itertools import takewhile
from typing import Any, Final

import click

from walagent import __version__
from walagent.cli.commands import Entry, Group
from walagent.cli.exit_codes import end
from walagent.cli.moved import MOVED
from walagent.cli.nearest import nearest
from walagent.cli.terminal.output import say
from walagent.errors import ConfigError, WalagentError

# Flags of a command that are also accepted before its name, for scripts written for PG Agent.
AHEAD: Final = frozenset({"--index", "--verbose", "-v"})
_WITHOUT_THEM: Final = frozenset({"setup"})  # a command of PG Agent that has none of them here
_HELP: Final = ("-h", "--help")
_LIST: Final = "list"


class Commands(click.Group):
    """A group: its entries under headings, imported on demand.

    Without a command, a group lists what it is about, if it has the command `list`.
    """

    def __init__(
        self,
        name: str,
        entries: Mapping[str, Sequence[Entry]],
        *,
        about: str,
        epilog: str = "",
        path: Sequence[str] = (),
    ) -> None:
        super().__init__(
            name,
            help=about,
            epilog=epilog,
            context_settings={"help_option_names": list(_HELP), "max_content_width": 100},
        )
        self._headings = entries
        self._known = {entry.name: entry for many in entries.values() for entry in many}
        self._path = path

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Add the command `list` where no command is named."""
        named = args and (args[0] in _HELP or not args[0].startswith("-"))
        if not named and _LIST in self._known and not ctx.resilient_parsing:
            args = [_LIST, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's
        """List all entries in the order of their headings; shell completion calls this."""
        return list(self._known)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import a command, or return a group."""
        match self._known.get(cmd_name):
            case None:
                return None
            case Group() as group:
                headings = {
                    "Commands": [each for each in group.entries if not isinstance(each, Group)],
                    "Groups": [each for each in group.entries if isinstance(each, Group)],
                }
                path = (*self._path, cmd_name)
                return Commands(cmd_name, headings, about=group.help, path=path)
            case command:
                with _without_collection():
                    found = getattr(import_module(command.path), command.attribute)
                assert isinstance(found, click.Command)  # noqa: S101 - a line of COMMANDS is wrong
                return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the nearest one of all."""
        if args and args[0] not in self._known and not ctx.resilient_parsing:
            found = nearest(args[0], self._path)
            raise ConfigError(
                f'no such command "{" ".join((*self._path, args[0]))}"',
                hint=f"The nearest is walagent {found}." if found else "See walagent --help.",
            )
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """List the entries under their headings, without importing any."""
        width = max(map(len, self._known))
        for heading, entries in self._headings.items():
            listed = [each for each in entries if isinstance(each, Group) or each.is_listed]
            if listed:
                with formatter.section(heading):
                    formatter.write_dl([(each.name.ljust(width), each.help) for each in listed])


class Program(Commands):
    """The `walagent` command."""

    def __init__(
        self, name: str, entries: Mapping[str, Sequence[Entry]], *, about: str, epilog: str
    ) -> None:
        super().__init__(name, entries, about=about, epilog=epilog)
        click.version_option(__version__, "--version", "-V", prog_name=name)(self)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Move flags from before the command to behind it; find what has another name now."""
        ahead = list(takewhile(AHEAD.__contains__, args))
        command, rest = args[len(ahead) : len(ahead) + 1], args[len(ahead) + 1 :]
        if not _WITHOUT_THEM.isdisjoint(command):
            ahead = []
        if command and (now := MOVED.get(command[0])):
            if not ctx.resilient_parsing:
                say(f'note: "walagent {command[0]}" is now "walagent {now}"')
            command = now.split()
        return super().parse_args(ctx, command + ahead + rest)

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
