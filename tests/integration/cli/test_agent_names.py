"""Every command that takes the name of an agent refuses one that does not exist."""

from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from psycopg import AsyncConnection

from tests.docs_generated import command_of
from tests.helpers.database import DESK, attach, run_all
from tests.integration.cli.user import User
from walagent.cli.commands import Command, walk

WARNS = "knowledge memories add"  # the agent can come later


def taking() -> Iterator[tuple[str, ...]]:
    """The commands that take one, with NAME in its place; from the list of all commands."""
    for path, each in walk():
        if not isinstance(each, Command) or " ".join(path) == WARNS:
            continue
        parameters = command_of(" ".join(path)).params
        for parameter in parameters:
            if parameter.name == "agent":
                is_option = isinstance(parameter, click.Option)
                others = [other for other in parameters if other.required and other != parameter]
                yield (*path, *(["--agent"] * is_option), "NAME", *("x" for _ in others))


COMMANDS = [*taking()]


def test_the_commands_are_found() -> None:
    """Some that are known to take one."""
    found = [" ".join(command) for command in COMMANDS]
    assert {"changes --agent NAME", "agents examples NAME"} <= {*found}


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_an_agent_that_does_not_exist_is_an_error(
    conn: AsyncConnection, dsn: str, tmp_path: Path, command: tuple[str, ...]
) -> None:
    """With the nearest one: an empty list would look like an answer."""
    await run_all(conn, DESK)
    await attach(conn, "writes=[category], name=desk")
    user = User(tmp_path, dsn)
    for name, hint in (("dsk", 'Did you mean "desk"?'), ("x", "walagent agents list")):
        failed = user.types(*(name if word == "NAME" else word for word in command))
        assert failed.code == 2, failed
        assert f'agent "{name}" does not exist' in failed.err
        assert hint in failed.err
