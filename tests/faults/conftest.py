"""Fixtures for what is killed: a database as `walagent init` makes it, and this test's chance."""

import asyncio
import random
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from tests.conftest import SEED
from tests.faults.rig.report import SCENARIOS
from tests.faults.rig.stage import Figure, Place
from walagent.app.migrate import migrate


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if "tests/faults/" in item.path.as_posix():
            item.add_marker("faults")
        numbers = [n for mark in item.iter_markers("scenario") for n in mark.args]
        assert SCENARIOS.keys() >= set(numbers), f"{item.nodeid}: no such scenario"
        item.user_properties.append(("scenarios", numbers))


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """A database that the daemon accepts: its migrations are on record."""
    name = f"walagent_migrated_{uuid4().hex[:8]}"
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
        asyncio.run(_migrate(make_conninfo(server, dbname=name)))
        yield name
        admin.execute(sql.SQL("drop database {} with (force)").format(sql.Identifier(name)))


async def _migrate(dsn: str) -> None:
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        await migrate(conn)
        await conn.execute("delete from agent_internal.database")  # each copy gets an identity


@pytest.fixture
def place(conn: AsyncConnection, dsn: str, tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """This test's own database; the slot is named after it, for slots belong to the server."""
    version = conn.info.parameter_status("server_version") or ""
    request.node.user_properties.append(("server", version.partition(" ")[0]))
    return Place(conn, dsn, conn.info.dbname, tmp_path)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """The randomness of a test: the same again with WALAGENT_FAULT_SEED set to what is printed."""
    print(f"WALAGENT_FAULT_SEED={SEED}")  # noqa: T201 - pytest shows it when the test fails
    return random.Random(f"{SEED} {request.node.name}")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Figure:
    """Note a figure for the report: what, how much, of which unit."""
    figures: list[tuple[str, float, str]] = []
    request.node.user_properties.append(("figures", figures))

    def note(what: str, value: float, unit: str = "") -> None:
        figures.append((what, value, unit))

    return note
