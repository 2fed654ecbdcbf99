"""The help of every group and command, word for word, and how it fits a terminal."""

import pytest
from click.testing import CliRunner

from tests.docs_generated import command_of
from tests.helpers.golden import GOLDEN, check_golden
from walagent.cli import main
from walagent.cli.commands import walk

SHORT = {
    "runs show",
    "runs why",
    "runs changes",
    "runs revert",
    "runs fork",
    "evaluations replay",
}  # `show` and so on
NAMES = [name for path, _ in walk() if (name := " ".join(path)) not in SHORT]


def help_of(name: str, width: int = 80) -> str:
    """Return the help of a command, or of `walagent` itself, on a terminal of this width."""
    ended = CliRunner().invoke(
        main,
        [*name.split(), "--help"],
        prog_name="walagent",
        terminal_width=width,
        max_content_width=width,
    )
    assert ended.exit_code == 0
    return ended.output


def file_of(name: str) -> str:
    """Return the name of the golden file."""
    return name.replace(" ", ".") or "walagent"


@pytest.mark.parametrize("name", ["", *NAMES])
def test_the_help_is_as_expected(name: str, *, update_golden: bool) -> None:
    """A changed word shows in the diff of `tests/golden`."""
    check_golden(f"help/{file_of(name)}.txt", help_of(name), update=update_golden)


def test_no_golden_help_is_left_of_a_command_that_is_gone() -> None:
    """Each file belongs to a command."""
    expected = {f"{file_of(name)}.txt" for name in ["", *NAMES]}
    assert {path.name for path in (GOLDEN / "help").iterdir()} == expected


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["", *NAMES])
def test_the_help_fits_the_terminal(name: str, width: int) -> None:
    """No line is longer, except examples, which are not wrapped."""
    source = command_of(name).help or ""
    examples = {line.strip() for line in source.splitlines() if line.startswith("  ")}
    lines = help_of(name, width).splitlines()
    assert [line for line in lines if len(line) > width and line.strip() not in examples] == []
