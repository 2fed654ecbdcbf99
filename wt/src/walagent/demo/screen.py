"""The tickets as they come in and are worked, on stderr: a live table, or a line for each."""

import sys
from collections.abc import Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from walagent.demo.stories import Story

_AROUND = 6  # lines of the screen that are not tickets
_WIDE = 110  # columns, from which on there is room for the ticket's subject


class LineScreen:
    """A line for each ticket that has been worked: for pipes and logs."""

    def __init__(self) -> None:
        self._told: set[int] = set()

    def __enter__(self) -> Self:
        """Begin; nothing is drawn."""
        return self

    def __exit__(self, *_: object) -> None:
        """End; nothing is left to do."""

    def tell(self, words: str) -> None:
        """Say what happens now."""
        sys.stderr.write(f"{words}\n")

    def show(self, stories: Sequence[Story]) -> None:
        """Tell each ticket once, when its run has ended."""
        for story in stories:
            if story.ended and story.ticket not in self._told:
                self._told.add(story.ticket)
                self.tell("  ".join(_cells(story)))


class LiveScreen:
    """A table that follows the latest tickets: for terminals.  Shown inside its `with` block."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._live = Live(console=self._console, auto_refresh=False)

    def __enter__(self) -> Self:
        """Begin to draw."""
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the last picture on the screen."""
        self._live.stop()

    def tell(self, words: str) -> None:
        """Say what happens now, above the table."""
        self._console.print(Text(words, style="dim"))

    def show(self, stories: Sequence[Story]) -> None:
        """Draw the latest tickets, and how many there are."""
        rows = max(self._console.height - _AROUND, 3)
        ended = sum(story.ended for story in stories)
        self._live.update(
            Group(
                _table(stories[-rows:], wide=self._console.width >= _WIDE),
                Text(f"{len(stories)} tickets, {ended} worked   Ctrl-C ends it", style="dim"),
            ),
            refresh=True,
        )


def _table(stories: Sequence[Story], *, wide: bool) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    table.add_column("ticket", no_wrap=True)
    table.add_column("run", no_wrap=True)
    table.add_column("category", no_wrap=True)
    table.add_column("steps", no_wrap=True, ratio=4)
    table.add_column("effect", no_wrap=True, ratio=4)
    table.add_column("ms", no_wrap=True, justify="right")
    if wide:
        table.add_column("subject", no_wrap=True, ratio=3)
    for story in stories:
        cells = [*_cells(story), *([_clean(story.subject)] if wide else ())]
        table.add_row(*(Text(cell, overflow="ellipsis", style=_style(story)) for cell in cells))
    return table


def _cells(story: Story) -> list[str]:
    """Write a story in short: ticket, run, category, steps, effect, ms."""
    return [
        f"#{story.ticket}",
        "" if story.run is None else f"run {story.run}",
        story.category or "-",
        story.steps or story.state or "waits",
        _clean(story.effect or story.error or ""),
        "" if story.ms is None else f"{story.ms} ms",
    ]


def _style(story: Story) -> str:
    match story.state:
        case "failed" | "dead":
            return "red"
        case "succeeded":
            return ""
        case _:
            return "cyan"


def _clean(text: str) -> str:
    """Show what a terminal would obey, such as an escape, as a mark."""
    return "".join(character if character.isprintable() else "�" for character in text)
