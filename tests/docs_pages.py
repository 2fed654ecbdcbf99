"""The documentation as tests read it: pages, their fenced blocks, tables, headings and links.

A block's info string says what a test does with it:

    sql run                executed on a fresh migrated database, in the order of the page
    sql run as=app         the same, as that role
    sql run fails=WA011    must raise that SQLSTATE
    sql by hand            shown only: it changes the server, or is not a statement of ours
    text result            what the `sql run` before it must give, as psql prints it
    console run            each `$ ` line is run
    console, sh            each walagent command is parsed by the command line
    yaml                   must be a valid agents.yaml
    yaml script            must be a valid script of the scripted model
    python                 executed
    ... file=NAME          written to NAME, where a page is followed
    python by hand         its imports are executed
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"(?P<fence>`{3,})(?P<info>[^`]*)")
_HEADING = re.compile(r"(#{1,6})\s+(.*?)\s*")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    page: Path
    line: int  # of its first line, from 1
    words: tuple[str, ...]  # of the info string
    text: str

    @property
    def language(self) -> str:
        """The first word of the info string."""
        return self.words[0] if self.words else ""

    @property
    def runs(self) -> bool:
        """Whether a test executes it."""
        return "run" in self.words

    def option(self, name: str) -> str:
        """The value of ``name=value`` in the info string, or nothing."""
        found = (word.partition("=") for word in self.words)
        return next((value for key, _, value in found if key == name), "")

    def __str__(self) -> str:
        """Say where it stands, for a failed assertion."""
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass(frozen=True, slots=True)
class Section:
    """What stands under a heading, up to the next one of the same or a higher level."""

    level: int
    title: str
    text: str


def pages() -> list[Path]:
    """Every page that is ours to keep true."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").glob("*.md")),
        *sorted((ROOT / "docs" / "decisions").glob("*.md")),
        *sorted((ROOT / "docs" / "how-to").glob("*.md")),
    ]


@cache
def _split(page: Path) -> tuple[tuple[Block, ...], str]:
    """Take a page apart: its blocks, and the rest with empty lines in their place."""
    found: list[Block] = []
    rest: list[str] = []
    fence, start, inside = "", 0, list[str]()
    info: tuple[str, ...] = ()
    for number, line in enumerate(page.read_text("utf-8").splitlines(), 1):
        if fence:
            if line.strip() == fence:
                found.append(Block(page, start, info, "\n".join(inside)))
                fence = ""
            else:
                inside.append(line)
        elif opened := _FENCE.fullmatch(line.strip()):
            fence, info = opened["fence"], tuple(opened["info"].split())
            start, inside = number + 1, []
        rest.append("" if fence or inside or line.strip().startswith("```") else line)
        if not fence:
            inside = []
    assert not fence, f"{page}: a block is not closed"
    return tuple(found), "\n".join(rest)


def blocks(page: Path, *languages: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [b for b in _split(page)[0] if not languages or b.language in languages]


def prose(page: Path) -> str:
    """A page without its fenced blocks; lines keep their numbers."""
    return _split(page)[1]


def sections(page: Path) -> Iterator[Section]:
    """Every heading with what stands under it."""
    lines = prose(page).splitlines()
    heads = [(n, m) for n, line in enumerate(lines) if (m := _HEADING.fullmatch(line))]
    for at, (number, head) in enumerate(heads):
        level = len(head[1])
        end = next((n for n, m in heads[at + 1 :] if len(m[1]) <= level), len(lines))
        yield Section(level, head[2], "\n".join(lines[number + 1 : end]))


def section(page: Path, title: str) -> str:
    """What stands under one heading."""
    found = [s.text for s in sections(page) if s.title == title]
    assert len(found) == 1, f'{page.name} has {len(found)} headings "{title}"'
    return found[0]


def rows(text: str) -> list[list[str]]:
    """The cells of every table row in *text*, but for header lines and rules."""
    lines = [line.strip() for line in text.splitlines()]
    table = [n for n, line in enumerate(lines) if line.startswith("|")]
    rules = {n for n in table if re.fullmatch(r"\|[\s|:-]+\|", lines[n])}
    return [
        [cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", lines[n])[1:-1]]
        for n in table
        if n not in rules and n + 1 not in rules
    ]


def code(text: str) -> list[str]:
    """Everything in *text* that stands in single backticks."""
    return re.findall(r"`([^`\n]+)`", text)


def anchors(page: Path) -> set[str]:
    """What `#…` may name on a page: its headings, as the forges write them."""
    return {slug(s.title) for s in sections(page)}


def slug(title: str) -> str:
    """A heading as an anchor."""
    kept = re.sub(r"[^\w\- ]", "", title.lower())
    return kept.replace(" ", "-")
