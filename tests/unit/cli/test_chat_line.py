"""What a line of the chat is: a command, a statement or a question."""

import pytest

from walagent.cli.questions.chat_line import WORDS, Line, help_lines, read_line


@pytest.mark.parametrize(
    ("line", "name", "argument"),
    [
        ("help", "help", ""),
        ("Quit", "quit", ""),
        ("EXIT", "quit", ""),
        ("INDEX", "index", ""),
        ("\\q", "quit", ""),
        ("/csv", "csv", ""),
        ("\\CSV My File.csv", "csv", "My File.csv"),
        ("/plot sales.png", "plot", "sales.png"),
        ("History Each Country", "history", "Each Country"),
        ("\\delete", "delete", ""),
    ],
)
def test_commands_are_read_in_any_case(line: str, name: str, argument: str) -> None:
    """With a backslash, a slash, or alone; an argument keeps its case."""
    assert read_line(line) == Line("command", name, argument)


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("select count(*) from customer", "sql"),
        ("WITH a AS (select 1) select * from a", "sql"),
        ("(select 1)", "sql"),
        ("explain select 1", "perhaps sql"),
        ("table customer", "perhaps sql"),
        ("Select the best customers", "perhaps sql"),
        ("delete from customer", "sql"),
        ("UPDATE customer SET name = 1", "sql"),
        ("drop table customer", "sql"),
        ("Update me on sales", "question"),
        ("Delete duplicates?", "question"),
        ("selected customers?", "question"),
        ("How many are there?", "question"),
        ("plot revenue per month", "question"),
        ("delete", "question"),
        ("quit smoking", "question"),
        ("\\nonsense", "unknown"),
        ("/", "unknown"),
    ],
)
def test_statements_and_questions_are_distinguished(line: str, kind: str) -> None:
    """By their beginning; where a sentence could begin so, PostgreSQL decides."""
    assert read_line(line).kind == kind


def test_the_help_lists_every_command_in_a_narrow_terminal() -> None:
    """Each on a line of its own."""
    lines = help_lines()
    for word in WORDS:
        assert any(line.startswith(f"  \\{word.name}") for line in lines)
    assert max(map(len, lines)) < 80
