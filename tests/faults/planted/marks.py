"""Marks in the source, and the edits that bugs make at them.

A mark is a comment at the end of a line, `# planted: NAME` in Python and `-- planted: NAME` in SQL.
Each name occurs once.  An edit finds its line by the mark alone: the line may be reworded, and may
move to another file.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

FOLDERS = ("src", "migrations")
SUFFIXES = {".py", ".sql"}
_MARKED = re.compile(
    r"^(?P<indent> *)(?P<code>\S.*?) +(?:#|--) planted: (?P<mark>\S+)\n", re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class Edit(ABC):
    """What a bug does to the line with a mark."""

    mark: str

    @abstractmethod
    def lines(self, code: str) -> str:
        """Return what replaces the line *code*; without indentation.

        Raises:
            LookupError: the line does not fit the edit.
        """


@dataclass(frozen=True, slots=True)
class Delete(Edit):
    """Remove the line."""

    def lines(self, code: str) -> str:  # noqa: ARG002 - nothing of it stays
        """Return nothing."""
        return ""


@dataclass(frozen=True, slots=True)
class Before(Edit):
    """Add a line before the line."""

    added: str

    def lines(self, code: str) -> str:
        """Return the added line and the marked one."""
        return f"{self.added}\n{code}\n"


@dataclass(frozen=True, slots=True)
class Rewrite(Edit):
    """Replace the one match of a pattern in the line."""

    pattern: str
    replacement: str

    def lines(self, code: str) -> str:
        """Return the line as it is afterwards."""
        rewritten, count = re.subn(self.pattern, self.replacement, code)
        if count != 1:
            raise LookupError(
                f'line at mark "{self.mark}" must match {self.pattern} once, not {count} times:'
                f" {code}"
            )
        return f"{rewritten}\n"


def read_source(root: Path) -> dict[Path, str]:
    """Read the files below *root* that can have marks, by path relative to it."""
    return {
        path.relative_to(root): path.read_text()
        for folder in FOLDERS
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in SUFFIXES
    }


def find_marks(texts: Mapping[Path, str]) -> list[tuple[str, Path]]:
    """List the marks, each as often as it occurs, with its file."""
    return [
        (found["mark"], path) for path, text in texts.items() for found in _MARKED.finditer(text)
    ]


def apply_edits(edits: Iterable[Edit], texts: Mapping[Path, str]) -> dict[Path, str]:
    """Return the files that the edits change, as they leave them.

    Raises:
        LookupError: a mark does not occur exactly once, or its line does not fit the edit.
    """
    changed: dict[Path, str] = {}
    marks = find_marks(texts)
    for edit in edits:
        paths = [path for mark, path in marks if mark == edit.mark]
        if len(paths) != 1:
            raise LookupError(f'mark "{edit.mark}" must occur once, not {len(paths)} times')
        changed[paths[0]] = _edited(edit, changed.get(paths[0], texts[paths[0]]))
    return changed


def _edited(edit: Edit, text: str) -> str:
    place = next(found for found in _MARKED.finditer(text) if found["mark"] == edit.mark)
    lines = indent(edit.lines(place["code"]), place["indent"])
    return f"{text[: place.start()]}{lines}{text[place.end() :]}"
