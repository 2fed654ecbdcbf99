"""The help of every command, word for word, and how it fits a terminal."""

import click
import pytest
from click.testing import CliRunner

from tests.helpers.golden import GOLDEN, check_golden
from walagent.cli import main
from walagent.cli.commands import COMMANDS

NAMES = [command.name for many in COMMANDS.values() for command in many]


def help_of(name: str, width: int = 80) -> str:
    """Return the help of a command, or of `walagent` itself, on a terminal of this width."""
    arguments = ["--help"] if name == "walagent" else [name, "--help"]
    ended = CliRunner().invoke(
        main, arguments, prog_name="walagent", terminal_width=width, max_content_width=width
    )
    assert ended.exit_code == 0
    return ended.output


@pytest.mark.parametrize("name", ["walagent", *NAMES])
def test_the_help_is_as_expected(name: str, *, update_golden: bool) -> None:
    """A changed word shows in the diff of `tests/golden`."""
    check_golden(f"help/{name}.txt", help_of(name), update=update_golden)


def test_no_golden_help_is_left_of_a_command_that_is_gone() -> None:
    """Each file belongs to a command."""
    assert {path.stem for path in (GOLDEN / "help").iterdir()} == {"walagent", *NAMES}


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", ["walagent", *NAMES])
def test_the_help_fits_the_terminal(name: str, width: int) -> None:
    """No line is longer, except examples, which are not wrapped."""
    examples = {line.strip() for line in _source(name).splitlines() if line.startswith("  ")}
    lines = help_of(name, width).splitlines()
    assert [line for line in lines if len(line) > width and line.strip() not in examples] == []


def _source(name: str) -> str:
    context = click.Context(main, **main.context_settings)
    command = main if name == "walagent" else main.get_command(context, name)
    assert command is not None
    return command.help or ""
