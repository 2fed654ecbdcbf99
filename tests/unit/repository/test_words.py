"""Words that walagent's messages, docstrings, comments, help, SQL and pages do not use."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.docs_pages import ROOT, pages, prose

# Each word, and what to say instead.
BANNED = {
    "anew": "again",
    "whoever": "anyone who",
    "mend|mends|mended|mending": "fix",
    "told": "shown, sent, reported or logged",
    "be it that": "if",
    "(?-i:dear)|dearer|dearest": "expensive",  # a letter may begin with Dear
    "for ever": "permanently",
    "lets? go of": "release",
    "no matter of": "not",
    "behind our back": "unexpected",
    "taken in": "ingested",
    "unjudged": "deferred",
    "ledgers?": "checkpoint",
    "lanes?": "ordering key",
    "time-outs?": "timeout",
    "cannot be had": "is unavailable",
}
# Phrases that read as if translated, and what to say instead; in pages, comments, docstrings and
# messages.  What is generated from comments in the database is not checked.
STIFF = {
    r"one's own": "your own",
    r"nobody's": "without a …, or of no …",
    r"nobody (?:asks|asked) for": "that is not requested",
    r"(?:to|of|by|does|than) who(?! (?:is|are|has|have|it))": "the role, person or principal that",
    r"(?<!\w )for who": "the role, person or principal that",
    r"it is not is": "other … are",
    r"(?-i:Who) (?:is not|has|reads|leaves)": "a person who …",
}
# The same, in pages and messages: a note "is not an error".
NO_THING = re.compile(
    r"(?<!there )\b(?:is|are|was|were) no (?!longer|more\b|other\b|less\b|such\b|\w+er\b)[a-z]",
    re.IGNORECASE,
)
NOT_OURS = {"docs/reference/schema.md"}  # of comments in the database
# Words that names of tests do not use, beside those above.
IN_NAMES = {"dear", "told", "mends", "mended", "lane", "lanes", "ledger", "anew", "whoever"}
WORDS = re.compile(rf"\b({'|'.join(BANNED)})\b", re.IGNORECASE)
PHRASES = re.compile(rf"\b(?:{'|'.join(STIFF)})\b", re.IGNORECASE)
PERSONS = re.compile(r"(?<![\w\[-])(we|our|us)(?![\w-])")  # in messages and help; not [us]

SQL_TEXT = re.compile(r"--[^\n]*|'(?:[^']|'')*'")
CODE_SPAN = re.compile(r"``[^`]*``|`[^`\n]*`")
SKIPPED = {
    "docs/results.md",  # output of measurements
    "src/walagent/demo/tickets.yaml",  # text of customers
}
STOP_WORDS = "src/walagent/ask/retrieval.py"  # lists words of questions

Text = tuple[int, str]  # its first line, from 1


@cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def _python(path: Path) -> Iterator[Text]:
    """Yield the comments and strings of a module."""
    for number, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if (
            "#" in line
        ):  # of a string, too, which comes again below: tokens would take ten times as long
            yield number, line[line.index("#") :]
    for node in ast.walk(_tree(path)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def _messages(path: Path) -> Iterator[Text]:
    """Yield the strings of a module that users read: no docstrings, except those of commands."""
    tree = _tree(path)
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }
    if "cli" in path.parts:
        docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in docstrings:
            text = str(node.value)
            if " " in text:  # else a word that a program reads
                yield node.lineno, text


def _sql(source: str) -> Iterator[Text]:
    """Yield the comments and literals of a script."""
    for match in SQL_TEXT.finditer(source):
        yield source.count("\n", 0, match.start()) + 1, match[0]


def _texts(path: Path) -> Iterator[Text]:
    match path.suffix:
        case ".py":
            yield from _python(path)
        case ".sql":
            yield from _sql(path.read_text("utf-8"))
        case ".md":
            yield 1, prose(path)
        case _:
            yield 1, path.read_text("utf-8")


def _files() -> list[Path]:
    found = [*pages(), *(ROOT / "docs" / "reference").glob("*.md"), ROOT / "pyproject.toml"]
    for folder in ("src", "migrations", "config", "deploy"):
        for suffix in ("py", "sql", "yaml", "toml", "conf", "service"):
            found += (ROOT / folder).rglob(f"*.{suffix}")
    return sorted(path for path in found if _name(path) not in SKIPPED)


def _name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _found(path: Path) -> list[str]:
    """List every banned word of a file as ``file:line: word``."""
    texts = list(_texts(path))
    messages = list(_messages(path)) if path.suffix == ".py" else texts
    found = [(line, text, WORDS) for line, text in texts]
    if _name(path) not in NOT_OURS:
        found += [(line, text, PHRASES) for line, text in texts]
        found += [(line, text, NO_THING) for line, text in messages if path.suffix != ".sql"]
    if path.suffix == ".py" and _name(path) != STOP_WORDS:
        found += [(line, text, PERSONS) for line, text in messages]
    return [
        f"{_name(path)}:{line + text.count(chr(10), 0, match.start())}: {match[0]}"
        for line, text, words in found
        for match in words.finditer(_without_code(text))
    ]


def _without_code(text: str) -> str:
    """Blank out code spans; positions stay."""
    return CODE_SPAN.sub(lambda match: "`" * len(match[0]), text)


def test_no_file_uses_a_banned_word() -> None:
    """A banned word in a new place is reported with its line."""
    assert [hit for path in _files() for hit in _found(path)] == []


def test_names_of_tests_are_in_the_voice() -> None:
    """A name is read in every report: no banned word, and an article that fits."""
    names = {
        (path, name)
        for path in (ROOT / "tests").rglob("*.py")
        for name in re.findall(r"def (test_\w+)", path.read_text("utf-8"))
    }
    assert len(names) > 1000
    wrong = [
        f"{_name(path)}: {name}"
        for path, name in sorted(names)
        if IN_NAMES.intersection(name.split("_")) or re.search(r"_a_(?!one_)[aeio]\w", name)
    ]
    assert wrong == []
