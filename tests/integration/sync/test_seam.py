"""A commit reaches the stream before snapshots show it, here because it waits for a standby."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.servers import OwnServer, own_server
from tests.helpers.database import DEADLINE, run_all, until, value
from tests.helpers.people import token_of
from tests.helpers.shapes import Follower
from tests.helpers.sync_process import sync_process

STANDBY = "alter system set synchronous_standby_names = '{}'"
# What a first shape would request: that is a commit, too.
PUBLISHED = """
alter publication walagent add table
    item, agent.thread, agent.member, agent.tenant, agent.principal, agent.role_grant
"""
RECEIVED = """
select confirmed_flush_lsn >= %s::pg_lsn from pg_replication_slots where temporary
"""
UNSENT = "create temporary table probe (); drop table probe"
WAITING = "select count(*) = %s from pg_stat_activity where wait_event = 'SyncRep'"


@pytest.fixture
async def own(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[tuple[OwnServer, AsyncConnection]]:
    """A server of the test."""
    async with own_server(tmp_path, str(request.config.getoption("--server"))) as (server, place):
        await run_all(place.conn, "create table item (id bigint primary key, title text)")
        await run_all(place.conn, PUBLISHED)
        yield server, place.conn


@asynccontextmanager
async def unseen(server: OwnServer, conn: AsyncConnection, statement: str) -> AsyncIterator[None]:
    """Commit a statement that no snapshot shows until the block ends, but the stream sends."""
    await run_all(conn, STANDBY.format("nobody"))
    await run_all(conn, "select pg_reload_conf()")
    async with (
        await AsyncConnection.connect(server.dsn, autocommit=True) as probe,
        await AsyncConnection.connect(server.dsn, autocommit=True) as other,
        asyncio.TaskGroup() as group,
    ):
        # Commits wait from the moment at which the checkpointer, too, has read the settings.
        async with asyncio.timeout(DEADLINE):
            probing = group.create_task(run_all(probe, UNSENT))
            while not await value(conn, WAITING, 1):
                if probing.done():
                    probing = group.create_task(run_all(probe, UNSENT))
        group.create_task(run_all(other, statement))
        await until(conn, WAITING, 2)
        await until(conn, RECEIVED, await value(conn, "select pg_current_wal_flush_lsn()::text"))
        try:
            yield
        finally:
            await run_all(conn, STANDBY.format(""))
            await run_all(conn, "select pg_reload_conf()")


async def test_a_table_has_what_was_received_before(
    own: tuple[OwnServer, AsyncConnection], tmp_path: Path
) -> None:
    """Its first shape begins between the receipt of a commit and its visibility."""
    server, conn = own
    await run_all(conn, "set synchronous_commit = local")
    async with sync_process(server.dsn, tmp_path) as process:
        client = Follower(process, table="item")
        async with unseen(server, conn, "insert into item values (1, 'one')"):
            assert await value(conn, "select count(*) from item") == 0
            first = asyncio.create_task(client.step())
            await asyncio.wait([first], timeout=1.0)
            assert not first.done()  # it waits: the row would be lost
        await first
        await run_all(conn, "update item set title = 'two'")
        await client.until({'"public"."item"/"1"': {"id": "1", "title": "two"}})


@pytest.mark.slow
async def test_a_query_has_what_was_received_before(
    own: tuple[OwnServer, AsyncConnection], tmp_path: Path
) -> None:
    """A named query, too, and not only when it runs again for another reason."""
    server, conn = own
    await run_all(
        conn,
        "set synchronous_commit = local;"
        "insert into agent.principal (tenant, name) values ('default', 'ann'), ('default', 'bob')",
    )
    token, other = await token_of(conn, "ann"), await token_of(conn, "bob")
    async with sync_process(server.dsn, tmp_path) as process:
        client = Follower(process, path="threads", token=token)
        await Follower(process, path="threads", token=other).catch_up()  # what is made once
        statement = "select agent.act_as('" + token + "'); select agent.open_thread('Lunch')"
        async with unseen(server, conn, f"begin; {statement}; commit"):
            first = asyncio.create_task(client.step())
            await asyncio.wait([first], timeout=1.0)
            assert first.done()
            assert client.rows == {}
        await first
        async with asyncio.timeout(10):  # less than until it runs again
            while not client.rows:
                await client.step(live=client.is_up_to_date)
        assert [each["title"] for each in client.rows.values()] == ["Lunch"]
