"""A command that is printed is pasted: a name in it is quoted for the shell.

Others choose names of attachments, tables and models, and an operator copies the command.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from walagent.cli.commands import COMMANDS

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "src/walagent").rglob("*.py"))
QUERIES = sorted([*(ROOT / "migrations").rglob("*.sql"), *(ROOT / "src/walagent").rglob("*.sql")])
_NAMES = "|".join(entry.name for entries in COMMANDS.values() for entry in entries)
# The start of a command line, up to a value: its words, options and arguments.
COMMAND = re.compile(rf"\bwalagent (?:{_NAMES})(?: [a-z-]+| [A-Z]+)*(?<! as) (?:\S*)$")
# What a shell reads as one word: numbers, names of slots, and what is a command line itself.
PLAIN = {"id", "pid", "getpid", "slot", "options", "number", "shlex.quote", "len"}


def _name(node: ast.expr) -> str:
    """The last name of an expression, or its key."""
    match node:
        case ast.Call(func=func):
            text = ast.unparse(func)
            return text if text == "shlex.quote" else text.rpartition(".")[2]
        case ast.Subscript(slice=ast.Constant(value=key)):
            return str(key)
        case _:
            return ast.unparse(node).rpartition(".")[2]


def _unquoted(source: str) -> Iterator[str]:
    """The values of f-strings that are words of a command and are not quoted."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.JoinedStr):
            continue
        before = ""
        for part in node.values:
            if isinstance(part, ast.Constant):
                before += str(part.value)
            elif isinstance(part, ast.FormattedValue):
                # The program itself may be a value, too: {program()} try ...
                name = _name(part.value)
                if name == "program":
                    before += "walagent"
                    continue
                if COMMAND.search(before) and name not in PLAIN:
                    yield f"line {node.lineno}: {ast.unparse(part.value)}"
                before += "x"


def test_values_in_commands_are_quoted() -> None:
    """By shlex.quote, or they are numbers."""
    assert [
        f"{path.relative_to(ROOT)}, {found}"
        for path in SOURCES
        if "walagent " in (text := path.read_text("utf-8")) or "program()" in text
        for found in _unquoted(text)
    ] == []


def test_values_in_commands_of_sql_are_not_formatted() -> None:
    """`%I` and `%L` quote for SQL, and `$()` in them is executed by a shell."""
    # Not format(): `alter publication walagent drop table %s`.
    command = re.compile(r"(?:^|['\s;])walagent (?!drop\b)[a-z]+(?: [a-z-]+)* %%?[sIL]")
    assert [
        f"{path.relative_to(ROOT)}: {line}"
        for path in QUERIES
        for line in path.read_text("utf-8").splitlines()
        if command.search(line)
    ] == []


def test_what_is_looked_for_is_found() -> None:
    """A name in a command, and not a number or a word of a sentence."""
    found = [
        'f"walagent agents resume {name} -- once"',
        'f"hint: walagent why {a.relation} KEY"',
        'f"  {program()} try {table} --last 3{options}"',
        'f"Run walagent try {quote_name(attachment)} as the owner."',
    ]
    fine = [
        "f\"walagent approvals approve {approval['id']}\"",
        'f"walagent agents resume {shlex.quote(name)}"',
        'f"version {newest} of walagent migrated {database}"',
    ]
    assert [len(list(_unquoted(text))) for text in found + fine] == [1, 1, 1, 1, 0, 0, 0]
