"""What is printed on a terminal has no escape sequences of others."""

import ast
import json
import sys
import unicodedata
from pathlib import Path

import pytest

from walagent.cli.terminal.output import print_json
from walagent.domain.untrusted import visible

CLI = Path(__file__).parents[3] / "src/walagent/cli"
# Each cell of its rows is escaped.
ROWS = "answer_rows.py"


def test_texts_with_values_are_cleaned() -> None:
    """Names of tables, agents and objects are chosen by others."""
    assert [
        f"{path.name}: line {node.lineno}"
        for path in sorted(CLI.rglob("*.py"))
        if path.name != ROWS
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "click.echo"
        and any(isinstance(each, ast.JoinedStr) for each in node.args)
    ] == []


def test_json_on_a_terminal_hides_nothing(
    monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """What turns the direction of text, is not seen or controls the terminal is escaped."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    kinds = {"Cc", "Cf", "Zl", "Zp"}
    text = "".join(c for c in map(chr, range(0x110000)) if unicodedata.category(c) in kinds)
    print_json({"text": text})
    printed = capsysbinary.readouterr().out.decode()
    assert visible(printed) == printed
    assert json.loads(printed) == {"text": text}
