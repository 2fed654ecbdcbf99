"""Every command that walagent prints, or a page names, is one that can be typed."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs_pages import ROOT, pages, prose
from walagent.cli.commands import COMMANDS, MOVED, Group, walk

ENTRIES = {" ".join(path): entry for path, entry in walk()}
FIRST = {entry.name for many in COMMANDS.values() for entry in many}
WORDS = re.compile(r"\bwalagent((?:[ \n]+(?:# |// |-- )?[a-z][\w-]*|[ \n]+--?[a-z][\w-]*)+)")
SPAN = re.compile(r"`(?:[A-Z_]+=\S+ )?([^`]*)`|<code>([^<]*)</code>|\$ (.*)")
ASKED = re.compile(r"\b(?:[Uu]se|[Rr]un|[Ss]ee)[ \n]$")
LITERAL = re.compile(r"'((?:[^']|'')*)'|\"([^\"\n]*)\"")
NAMES = {"application", "application_name"}  # of connections, which are no commands
CONSTANTS = {"SYNC_READER", "_NAME"}  # the same
SOURCES = ("src", "examples", "deploy", "config", "migrations", "web/src")
SUFFIXES = {".py", ".sql", ".md", ".yaml", ".service", ".ts", ".tsx", ".toml"}
# They name commands as they were called before, which are accepted.
BEFORE = ("CHANGELOG.md", "src/walagent/cli/commands.py")
# Names of connections, as pg_stat_activity has them.
CONNECTIONS = ("web/src/pages/wal.tsx: walagent sync", "web/src/pages/wal.tsx: walagent tail")


def _wrong(words: list[str]) -> bool:
    """Whether words after `walagent` are no command: a group may stand alone, without options."""
    if words[0].startswith("-"):
        return False
    path = ""
    for word in words:
        entry = ENTRIES.get(f"{path} {word}".strip())
        if entry is None:
            return not path or isinstance(ENTRIES[path], Group)
        path = f"{path} {word}".strip()
        if not isinstance(entry, Group):
            return False
    return False


def _in_spans(text: str) -> Iterator[str]:
    """Yield the commands in code: all that follows the program is one."""
    for span in SPAN.finditer(text):
        code = next(filter(None, span.groups()), "")
        for found in WORDS.finditer(code):
            before = code[: found.start()].rstrip()
            if before and before[-1] not in "$&|;(/\\:=":
                continue  # the name of something
            words = [each for each in found[1].split() if each not in {"#", "//", "--"}]
            if len(words) > 1 and words[1] == "--help":
                continue
            if _wrong(words):
                yield f"walagent {' '.join(words)}"


def _in_message(text: str) -> Iterator[str]:
    """Yield the commands in a message: those that it asks to use, or whose names are known."""
    for found in WORDS.finditer(text):
        words = found[1].split()
        known = words[0] in MOVED or (words[0] in FIRST and words[1:2] and words[1][0] == "-")
        if (known or ASKED.search(text[: found.start()])) and _wrong_in_prose(words):
            yield f"walagent {' '.join(words)}"


def _wrong_in_prose(words: list[str]) -> bool:
    """The same, where a sentence may follow a group: "walagent runs lists them"."""
    if words[0] in ENTRIES and words[1:] and words[1][0] != "-":
        return False
    return _wrong(words)


def _messages(source: str) -> Iterator[tuple[int, str]]:
    tree = ast.parse(source)
    skipped = set[int]()
    for node in ast.walk(tree):
        match node:
            case ast.keyword(arg=name, value=value) if name in NAMES:
                skipped.add(id(value))
            case ast.AnnAssign(target=ast.Name(id=name), value=value) if name in CONSTANTS:
                skipped.add(id(value))
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name in CONSTANTS:
                skipped.add(id(value))
            case _:
                pass
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in skipped
            and "'walagent talk'" not in node.value  # a label
        ):
            yield node.lineno, node.value


def _found(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".py":
        for line, message in _messages(text):
            for wrong in {*_in_spans(message), *_in_message(message)}:
                yield f"{name}:{line}: {wrong}"
    else:
        if path.suffix == ".md":  # blocks in fences have lines of commands, the rest has spans
            lines = re.findall(r"^\$ .*", text, re.MULTILINE)
            text = "\n".join([prose(path), *lines])
        yield from (f"{name}: {wrong}" for wrong in _in_spans(text))
        text = re.sub("-- .*", "", text) if path.suffix == ".sql" else text
        if path.suffix in {".sql", ".ts", ".tsx"}:
            for literal in LITERAL.finditer(text):
                message = literal[1] or literal[2] or ""
                yield from (f"{name}: {wrong}" for wrong in _in_message(message))


def _files() -> list[Path]:
    found = [*pages(), *(ROOT / "docs" / "reference").glob("*.md"), ROOT / "Makefile"]
    for folder in SOURCES:
        found += (path for path in (ROOT / folder).rglob("*") if path.suffix in SUFFIXES)
    return [path for path in found if "node_modules" not in path.parts]


def test_every_printed_command_can_be_typed() -> None:
    """A hint that names a command which is gone sends people nowhere."""
    hits = [hit for path in _files() for hit in _found(path)]
    assert [hit for hit in hits if not hit.startswith((*BEFORE, *CONNECTIONS))] == []


def test_a_wrong_command_is_found() -> None:
    """The test above sees an old name, a wrong one, and an option without a command."""
    for text in ("`walagent retry 7`", "$ walagent runs retri 7", "`walagent runs --state dead`"):
        assert list(_in_spans(text))
    for text in ("Use walagent retry to go on.", "walagent resync", "Run walagent nothing."):
        assert list(_in_message(text))
    for text in ("`walagent runs retry 7`", "$ walagent --help", "`walagent runs`"):
        assert not list(_in_spans(text))
    for text in (
        "walagent runs LLM agents",
        "Use walagent runs to list them.",
        "then walagent reads",
    ):
        assert not list(_in_message(text))
