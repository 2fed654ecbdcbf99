"""Without any database named: the embedded one, made, joined, and reached by other programs."""

import asyncio
import os
import shutil
import signal
from pathlib import Path

import psycopg
import pytest

from tests.integration.cli.user import User, until
from walagent.embedded.paths import default_bindir
from walagent.embedded.postmaster import read_postmaster
from walagent.embedded.server import EmbeddedServer
from walagent.errors import PreconditionError

OFF = "http: {enabled: false}\nlog: {format: json}\n"


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody who has named no database."""
    try:
        default_bindir()
    except PreconditionError as error:
        pytest.skip(str(error))
    user = User(tmp_path, None)
    user.writes(OFF)
    return user


def test_a_question_makes_no_database(user: User) -> None:
    """Exit 3, and what to do; nothing was written."""
    refused = user.types("runs")
    assert refused.code == 3
    assert "walagent init" in refused.err
    assert not (user.folder / "home").exists()


def test_run_needs_nothing_but_itself(user: User) -> None:
    """The database is made, prepared and followed; others join it, and it ends with the daemon."""
    with user.starts("run") as daemon:
        daemon.says('"reader.streaming"')
        dsn = user.types("database", "dsn").worked().out.strip()
        with psycopg.connect(dsn, autocommit=True) as conn:
            until(conn, "select count(*) > 0 from agent.model")
        assert user.types("agents", "models", "--json").worked().json
        assert user.types("init").worked().err.count("ready in ") == 1
        assert daemon.ends(signal.SIGTERM) == 0
    gone = user.types("database", "dsn")
    assert gone.code == 3
    assert "no embedded server" in gone.err
    assert (
        user.types("runs", "list", "--json").worked().json == []
    )  # started for the question alone


@pytest.mark.slow
def test_run_outlives_the_owner_of_the_server(user: User) -> None:
    """A shorter command started it and stops it: the daemon starts it again, also after a crash."""
    user.types("init").worked()
    owner = EmbeddedServer(user.folder / "home" / "postgres")
    asyncio.run(owner.start())
    with user.starts("run") as daemon:
        daemon.says('"reader.streaming"')
        asyncio.run(owner.stop())
        daemon.says('"reader.streaming"', times=2)
        postmaster = read_postmaster(owner.data_dir)
        assert postmaster is not None
        os.kill(postmaster.pid, signal.SIGKILL)
        daemon.says('"reader.streaming"', times=3)
        assert user.types("runs", "list", "--json").worked().json == []
        assert daemon.ends(signal.SIGTERM) == 0
    assert user.types("database", "dsn").code == 3


@pytest.mark.slow
def test_psql_reaches_it_also_when_nothing_runs(user: User) -> None:
    """The server is there for as long as psql is, and psql's exit code is ours."""
    if not (default_bindir() / "psql").exists() and not shutil.which("psql"):
        pytest.skip("there is no psql here")
    user.types("init").worked()
    assert user.types("database", "psql", "-Atc", "select 41 + 1").worked().out == "42\n"
    assert user.types("database", "psql", "-c", "select 1 / 0").code == 1
    assert user.types("database", "dsn").code == 3


def test_psql_of_another_database_keeps_the_password_out_of_ps(user: User) -> None:
    """It goes through the environment; arguments are for everybody to see."""
    fake = user.folder / "bin" / "psql"
    fake.parent.mkdir()
    fake.write_text('#!/bin/sh\necho "$@"\necho "secret: $PGPASSWORD"\n')
    fake.chmod(0o755)
    path = f"{fake.parent}:/usr/bin:/bin"
    ended = user.types(
        "database", "psql", "--dsn", "postgresql://u:hunter22@h/d", PATH=path
    ).worked()
    arguments, secret = ended.out.splitlines()
    assert "hunter22" not in arguments
    assert secret == "secret: hunter22"


def test_dsn_is_for_the_embedded_server_alone(user: User) -> None:
    """A connection string with a password is not printed by mistake."""
    refused = user.types("database", "dsn", "--dsn", "postgresql://u:hunter22@h/d")
    assert refused.code == 2
    assert "--dsn" in refused.err
    assert "hunter22" not in refused.err
