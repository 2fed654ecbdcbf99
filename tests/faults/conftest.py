"""Fixtures for what is killed: a database as `walagent init` makes it, and this test's chance."""

import random
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.conftest import SEED
from tests.faults.rig.report import SCENARIOS
from tests.faults.rig.stage import Figure, Place


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder."""
    for item in items:
        if "tests/faults/" in item.path.as_posix():
            item.add_marker("faults")
        numbers = [n for mark in item.iter_markers("scenario") for n in mark.args]
        assert SCENARIOS.keys() >= set(numbers), f"{item.nodeid}: no such scenario"
        item.user_properties.append(("scenarios", numbers))


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
