"""What is printed on a terminal has no escape sequences of others."""

import ast
from pathlib import Path

import pytest

CLI = Path(__file__).parents[3] / "src/walagent/cli"
# Each cell of its rows is escaped.
ROWS = "answer_rows.py"


@pytest.mark.parametrize("path", sorted(CLI.rglob("*.py")), ids=lambda path: path.stem)
def test_texts_with_values_are_cleaned(path: Path) -> None:
    """Names of tables, agents and objects are chosen by others."""
    raw = [
        f"line {node.lineno}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) == "click.echo"
        and any(isinstance(each, ast.JoinedStr) for each in node.args)
    ]
    assert raw == [] or path.name == ROWS
