"""Read a line of `walagent chat`: a command, a statement or a question.  Pure."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True)
class Word:
    """A command of the chat.

    Args:
        takes: its argument, for the help; "" if it takes none.
        bare: whether it is a command without a backslash, too, if it is the whole line.
    """

    name: str
    help: str
    takes: str = ""
    bare: bool = True


WORDS: Final = (
    Word("sql", "show the statements of the last answer"),
    Word("explain", "show the plan of the last statement"),
    Word("run", "run the last statement again"),
    Word("edit", "edit the last statement in $EDITOR, and run it"),
    Word("all", "show all rows of the last result in a pager"),
    Word("csv", "print these rows as CSV, or write them to a new file", "[FILE]"),
    Word("json", "the same as JSON", "[FILE]"),
    Word("plot", "plot these rows on the terminal, or to a file", "[FILE.png]"),
    Word("save", "save the last question and statement as an example"),
    Word("index", "refresh the schema index"),
    Word("history", "list this session's questions, or all that contain TEXT", "[TEXT]"),
    Word("delete", "delete the questions and answers of this session", bare=False),
    Word("help", "list the commands"),
    Word("quit", "quit, as exit and Ctrl-D do"),
)
_NAMES: Final = {word.name: word for word in WORDS}
_ALIASES: Final = {"exit": "quit", "q": "quit", "?": "help", "h": "help", "e": "edit"}
_BARE: Final = {word.name for word in WORDS if word.bare} | {"exit"}

# The beginning of a statement that reads; a question can begin with the same word.
_READS: Final = re.compile(r"(select|with|values|table|explain)\b|\(\s*select\b", re.IGNORECASE)
# What is no sentence: the guard refuses it, and no model is asked.
_WRITES: Final = re.compile(
    r"insert\s+into\s|delete\s+from\s|update\s+\S+\s+set\s|merge\s+into\s|truncate\s+table\s"
    r"|(create|alter|drop)\s+(table|view|index|schema|role|function|database)\s",
    re.IGNORECASE,
)
_ONLY_SQL: Final = re.compile(r"[*;=()]|::")  # hardly in a sentence

Kind = Literal["command", "unknown", "sql", "perhaps sql", "question"]


@dataclass(frozen=True, slots=True)
class Line:
    """What was typed.

    Args:
        kind: "perhaps sql" is a question if PostgreSQL cannot parse it.
        text: the command's name, or the whole line.
    """

    kind: Kind
    text: str
    argument: str = ""


def read_line(line: str) -> Line:
    """Read a line that is not empty; commands and keywords in upper or lower case."""
    if line[0] in "\\/":
        name, _, argument = line[1:].strip().partition(" ")
        known = _ALIASES.get(name.lower(), name.lower())
        return Line("command" if known in _NAMES else "unknown", known, argument.strip())
    word, _, rest = line.partition(" ")
    if line.lower() in _BARE:
        return Line("command", _ALIASES.get(line.lower(), line.lower()))
    if word.lower() == "history":
        return Line("command", "history", rest.strip())
    if _WRITES.match(line):
        return Line("sql", line)
    if _READS.match(line):
        return Line("sql" if _ONLY_SQL.search(line) else "perhaps sql", line)
    return Line("question", line)


def help_lines() -> Sequence[str]:
    """Describe all commands."""
    shown = [(f"\\{word.name} {word.takes}".rstrip(), word.help) for word in WORDS]
    shown = [
        ("QUESTION", "ask; Ctrl-C cancels, Ctrl-R searches earlier questions"),
        ("SELECT …", "run a statement of your own, without a model"),
        *shown,
    ]
    width = max(len(name) for name, _ in shown)
    return [
        *(f"  {name.ljust(width)}  {about}" for name, about in shown),
        "A slash is the same as a backslash; without an argument, neither is needed.",
    ]
