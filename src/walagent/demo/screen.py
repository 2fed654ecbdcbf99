"""Show the tickets on stderr as they are written and processed: a live table or lines."""

import sys
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from walagent.demo.stories import Story

_AROUND = 6  # lines of the screen besides tickets
_WIDE = 110  # columns from which on the ticket's subject is shown


class LineScreen:
    """Prints a line for each processed ticket: for pipes and logs."""

    def __init__(self) -> None:
        self._reported: set[int] = set()

    def __enter__(self) -> Self:
        """Do nothing."""
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing."""

    def report(self, words: str) -> None:
        """Print a progress message."""
        sys.stderr.write(f"{words}\n")

    def show(self, stories: Sequence[Story]) -> None:
        """Print each ticket once, when its run has ended."""
        for story in stories:
            if story.ended and story.ticket not in self._reported:
                self._reported.add(story.ticket)
                self.report("  ".join(_cells(story)))


class LiveScreen:
    """Shows a table of the latest tickets, for terminals, inside its `with` block."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Self:
        """Start drawing."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last table on the screen."""
        self._live.stop()

    def report(self, words: str) -> None:
        """Print a progress message above the table."""
        self._console.print(Text(words, style="dim"))

    def show(self, stories: Sequence[Story]) -> None:
        """Draw the latest tickets and the totals."""
        rows = max(self._console.height - _AROUND, 3)
        ended = sum(story.ended for story in stories)
        self._live.update(
            Group(
                _table(stories[-rows:], wide=self._console.width >= _WIDE),
                Text(f"{len(stories)} tickets, {ended} processed   Ctrl-C to stop", style="dim"),
            ),
            refresh=True,
        )


def _table(stories: Sequence[Story], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("ticket", no_wrap=True)
    table.add_column("run", no_wrap=True)
    table.add_column("category", no_wrap=True)
    table.add_column("tool", no_wrap=True)
    table.add_column("effect", no_wrap=True, ratio=4)
    table.add_column("ms", no_wrap=True, justify="right")
    if wide:
        table.add_column("subject", no_wrap=True, ratio=3)
    for story in stories:
        cells = [
            f"#{story.ticket}",
            "" if story.run is None else str(story.run),
            story.category or "-",
            ", ".join(story.acted) or story.state or "waits",
            _outcome(story),
            "" if story.ms is None else str(story.ms),
            *([_clean(story.subject)] if wide else ()),
        ]
        table.add_row(*(Text(cell, overflow="ellipsis", style=_style(story)) for cell in cells))
    return table


def _cells(story: Story) -> list[str]:
    """Format a ticket: number, run, category, steps, effect, ms."""
    return [
        f"#{story.ticket}",
        "" if story.run is None else f"run {story.run}",
        story.category or "-",
        story.steps or story.state or "waits",
        _outcome(story),
        "" if story.ms is None else f"{story.ms} ms",
    ]


def _outcome(story: Story) -> str:
    return _clean(story.effect or story.error or "")


def _style(story: Story) -> str:
    match story.state:
        case "failed" | "dead":
            return "red"
        case "succeeded":
            return ""
        case _:
            return "cyan"


def _clean(text: str) -> str:
    """Replace control characters, such as an escape."""
    return "".join(character if character.isprintable() else "�" for character in text)
