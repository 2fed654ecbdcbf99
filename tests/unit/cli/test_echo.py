"""What is printed on a terminal has no escape sequences of others."""

import ast
from pathlib import Path

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
