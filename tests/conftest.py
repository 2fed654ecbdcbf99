"""Fixtures for everybody: a real server, a migrated template, a fresh database per test."""

import asyncio
import gc
import os
import random
import signal
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg import AsyncConnection, sql
from psycopg.conninfo import make_conninfo

from tests.scratch import use_memory
from tests.servers import run_server
from walagent.store.install.migrate import migrate
from walagent.store.install.removal import CREATED

pytest.register_assert_rewrite("tests.faults.rig")  # what it finds wrong, a failure shows

# A run in the background of a shell ignores SIGINT, and so would every program it starts: the tests
# of Ctrl-C would wait for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

use_memory()

# Both are measured in seconds of a busy machine.  The first text of a checkout alone takes two
# seconds of CPU: Hypothesis lists all characters, and keeps the list in .hypothesis.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Chosen once, before the workers of pytest-xdist start: they inherit it.
SEED = int(os.environ.setdefault("WALAGENT_FAULT_SEED", str(random.randrange(2**32))))

MADE = "select rolname from pg_roles where shobj_description(oid, 'pg_authid') = %s"
# In this order: a slot pins its database, and an active slot cannot be dropped.
END_READERS = """
select pg_terminate_backend(active_pid, 5000)
  from pg_replication_slots
 where database = %s and active
"""
DROP_SLOTS = """
select pg_drop_replication_slot(slot_name)
  from pg_replication_slots
 where database = %s
"""
# Those that carry the number of the database.
ROLES_OF = r"""
select r.rolname
  from pg_database d
  join pg_roles r on r.rolname ~ ('^walagent_(tools|rows|sync|console)_' || d.oid || '$')
 where d.datname = %s
"""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the caller choose the server."""
    parser.addoption(
        "--server",
        default=os.environ.get("WALAGENT_TEST_SERVER", "embedded"),
        help="embedded, debian, or a superuser's connection string",
    )
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden")


def pytest_configure(config: pytest.Config) -> None:
    """Report on the faults where that is asked for; pytest-xdist's workers tell their parent."""
    path = os.environ.get("WALAGENT_FAULT_REPORT")
    if path and not hasattr(config, "workerinput"):
        from tests.faults.rig.report import Reporter  # noqa: PLC0415 - after its rewriting is asked for

        config.pluginmanager.register(Reporter(Path(path), SEED), "fault-report")


def pytest_report_header() -> str:
    """Say how to have the same chance again."""
    return f"WALAGENT_FAULT_SEED={SEED}"


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collections to come."""
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that depend on the server under test, and the slow cases of others."""
    cases = defaultdict[str, list[pytest.Function]](list)
    for item in items:
        if "server" in getattr(item, "fixturenames", ()):
            item.add_marker("server")
        if isinstance(item, pytest.Function) and item.get_closest_marker("few"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for several in cases.values():
        _mark_slow(several)


def _mark_slow(cases: list[pytest.Function]) -> None:
    """Leave as many cases as the marker says, spread over the list; the others are slow."""
    mark = cases[0].get_closest_marker("few")
    assert mark is not None
    (most,) = mark.args
    quick = [case for case in cases if not case.get_closest_marker("slow")]
    quick.sort(key=lambda case: [*case.callspec.indices.values()])  # items come in a random order
    kept = {len(quick) * n // most for n in range(most)}
    for n, case in enumerate(quick):
        if n not in kept:
            case.add_marker("slow")


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are written instead of compared."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def server(request: pytest.FixtureRequest) -> Iterator[str]:
    """The superuser DSN of the server under test."""
    with run_server(str(request.config.getoption("--server"))) as dsn:
        yield dsn


@pytest.fixture(scope="session")
def wal2json(server: str) -> None:
    """Skip the test where the server has no wal2json; asked for by the marker."""
    with psycopg.connect(server, autocommit=True) as admin:
        try:
            admin.execute("select pg_create_logical_replication_slot('probe', 'wal2json', true)")
        except psycopg.Error as error:
            pytest.skip(f"no wal2json here: {error.diag.message_primary}")


@pytest.fixture(autouse=True)
def _needs_wal2json(request: pytest.FixtureRequest) -> None:
    if request.node.get_closest_marker("wal2json"):
        request.getfixturevalue("wal2json")


@pytest.fixture(scope="session")
def roles(server: str) -> Iterator[psycopg.Connection]:
    """A connection of a superuser, for the roles of the server."""
    with psycopg.connect(server, autocommit=True) as admin:
        yield admin


@pytest.fixture(autouse=True)
def _no_role_is_left(request: pytest.FixtureRequest) -> Iterator[None]:
    """Drop what a command has created for a database that is gone: another test would find it."""
    if "server" not in request.fixturenames:
        yield
        return
    admin = request.getfixturevalue("roles")
    before = {name for (name,) in admin.execute(MADE, [CREATED])}
    yield
    for (name,) in admin.execute(MADE, [CREATED]).fetchall():
        if name not in before:
            with suppress(psycopg.Error):  # of a database that several tests share
                admin.execute(sql.SQL("drop role {}").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def template(server: str) -> Iterator[str]:
    """A database with the schema, to be copied and never connected to."""
    name = f"walagent_template_{uuid4().hex[:8]}"
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
def dsn(server: str, template: str, roles: psycopg.Connection) -> Iterator[str]:
    """A fresh, migrated database of this test's own."""
    name = f"walagent_{uuid4().hex[:8]}"
    identifier = sql.Identifier(name)
    # Through the WAL, which is the default, a copy takes three times the CPU.
    roles.execute(
        sql.SQL("create database {} template {} strategy file_copy").format(
            identifier, sql.Identifier(template)
        )
    )
    yield make_conninfo(server, dbname=name)
    roles.execute(END_READERS, [name])
    roles.execute(DROP_SLOTS, [name])
    made = roles.execute(ROLES_OF, [name]).fetchall()
    roles.execute(sql.SQL("drop database {} with (force)").format(identifier))
    for (each,) in made:
        roles.execute(sql.SQL("drop role {}").format(sql.Identifier(each)))


@pytest.fixture
async def conn(dsn: str) -> AsyncIterator[AsyncConnection]:
    """A connection to the test's own database, in autocommit."""
    async with await AsyncConnection.connect(dsn, autocommit=True) as connection:
        yield connection
