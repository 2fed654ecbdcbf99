"""Making, checking and dropping slots."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.integration.wal.reading import follow, read_all, read_changes, until, wal_end
from walagent.errors import (
    DatabaseLostError,
    GapError,
    PreconditionError,
    SlotBusyError,
    StreamLostError,
)
from walagent.postgres.lsn import Lsn
from walagent.wal.options import StreamOptions
from walagent.wal.publications import (
    missing_publications,
    published_tables,
)
from walagent.wal.slots import (
    Blocker,
    check_slot,
    create_slot,
    drop_slot,
    identify_system,
    inspect_slot,
)
from walagent.wal.stream import open_stream

PUBLICATION = "create publication pub with (publish_via_partition_root = true)"


@pytest.fixture
def name(conn: AsyncConnection) -> str:
    """A slot name of this test's own; slots are the whole cluster's."""
    return f"{conn.info.dbname}_slot"


async def test_a_new_slot_is_ready(conn: AsyncConnection, dsn: str, name: str) -> None:
    """And shows what it is."""
    state = await create_slot(dsn, name)
    assert (state.name, state.plugin, state.database) == (name, "pgoutput", conn.info.dbname)
    assert state.active_pid is None
    assert state.confirmed is not None
    assert state.restart is not None
    assert state.confirmed >= state.restart
    assert state.wal_status == "reserved"
    found = await check_slot(conn, name, plugin="pgoutput", checkpoint=state.confirmed)
    assert state == replace(found, retained=state.retained)  # the server writes WAL of its own


async def test_the_publication_must_be_there_before_the_slot(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """Otherwise the stream could be stuck for ever."""
    with pytest.raises(PreconditionError, match="publication"):
        await create_slot(dsn, name, publications=("later",))
    assert await inspect_slot(conn, name) is None


async def test_a_slot_exists_once(dsn: str, name: str) -> None:
    """Making it again is refused, and leaves it."""
    state = await create_slot(dsn, name)
    with pytest.raises(PreconditionError, match="already exists"):
        await create_slot(dsn, name)
    async with await AsyncConnection.connect(dsn, autocommit=True) as conn:
        found = await inspect_slot(conn, name)
    assert found is not None
    # The server writes WAL of its own accord, so what is retained may have grown.
    assert replace(found, retained=0) == replace(state, retained=0)


async def test_making_a_slot_says_whom_it_waits_for_and_gives_up_cleanly(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """An open transaction that has written blocks it; nothing half-made is left."""
    await conn.execute("create table rows (id int)")
    told = list[Blocker]()
    async with await AsyncConnection.connect(dsn, application_name="slowpoke") as slow:
        await slow.execute("insert into rows values (1)")
        with pytest.raises(PreconditionError, match=f"PID {slow.info.backend_pid} ") as caught:
            await create_slot(dsn, name, timeout=1.5, waiting=told.extend)
        assert "pg_terminate_backend" in caught.value.hint
        assert {each.pid for each in told} == {slow.info.backend_pid}
        assert {each.application_name for each in told} == {"slowpoke"}
        assert max(each.age for each in told) > 0.5
    assert await inspect_slot(conn, name) is None
    await create_slot(dsn, name)


async def test_a_slot_is_made_as_soon_as_nothing_is_open_any_more(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """Being told is the signal to end what blocks."""
    await conn.execute("create table rows (id int)")
    told = asyncio.Event()

    def tell(_: Sequence[Blocker]) -> None:
        told.set()

    async with await AsyncConnection.connect(dsn) as slow:
        await slow.execute("insert into rows values (1)")
        making = asyncio.create_task(create_slot(dsn, name, waiting=tell))
        await told.wait()
        await slow.commit()
        assert (await making).name == name


async def test_giving_up_on_a_slot_leaves_none(conn: AsyncConnection, dsn: str, name: str) -> None:
    """Cancelling is how the daemon stops."""
    await conn.execute("create table rows (id int)")
    told = asyncio.Event()
    async with await AsyncConnection.connect(dsn) as slow:
        await slow.execute("insert into rows values (1)")
        making = asyncio.create_task(create_slot(dsn, name, waiting=lambda _: told.set()))
        await told.wait()
        making.cancel()
        with pytest.raises(asyncio.CancelledError):
            await making
        assert await inspect_slot(conn, name) is None


async def test_dropping_a_slot_that_is_not_there_is_fine(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """It is what was asked for."""
    await create_slot(dsn, name)
    await drop_slot(conn, name)
    await drop_slot(conn, name)
    assert await inspect_slot(conn, name) is None


async def test_a_missing_slot_is_a_gap(conn: AsyncConnection, name: str) -> None:
    """With what to do."""
    with pytest.raises(GapError, match=name) as caught:
        await check_slot(conn, name, plugin="pgoutput")
    assert "walagent wal resync" in caught.value.hint


async def test_a_slot_ahead_of_the_checkpoint_is_a_gap(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """Somebody moved it; what lies between was never read."""
    state = await create_slot(dsn, name)
    assert state.confirmed is not None
    await conn.execute(
        "select pg_replication_slot_advance(%s, %s::pg_lsn)", [name, str(await wal_end(conn))]
    )
    with pytest.raises(GapError, match="ahead of the checkpoint"):
        await check_slot(conn, name, plugin="pgoutput", checkpoint=Lsn(state.confirmed - 1))


async def test_a_slot_of_another_plug_in_or_database_is_refused(
    conn: AsyncConnection, dsn: str, server: str, name: str
) -> None:
    """It would start and then send something else, or nothing."""
    await conn.execute("select pg_create_logical_replication_slot(%s, 'test_decoding')", [name])
    with pytest.raises(PreconditionError, match="test_decoding"):
        await check_slot(conn, name, plugin="pgoutput")
    async with await AsyncConnection.connect(server, autocommit=True) as other:
        with pytest.raises(PreconditionError, match="belongs to database") as caught:
            await check_slot(other, name, plugin="pgoutput")
        assert "--slot NAME" in caught.value.hint


async def test_a_slot_that_is_read_names_its_reader(conn: AsyncConnection, dsn: str) -> None:
    """So that the operator can find it; and it cannot be dropped meanwhile."""
    await conn.execute("create table rows (id int primary key)")
    options = await follow(conn, dsn, "rows")
    async with open_stream(dsn, options):
        state = await inspect_slot(conn, options.slot)
        assert state is not None
        with pytest.raises(SlotBusyError, match=f"PID {state.active_pid}"):
            await check_slot(conn, options.slot, plugin="pgoutput")
        with pytest.raises(SlotBusyError):
            await drop_slot(conn, options.slot)


@pytest.mark.slow
async def test_an_invalidated_slot_is_a_gap(conn: AsyncConnection, dsn: str) -> None:
    """Seen when it is checked, and when it is opened."""
    await conn.execute("create table rows (id int primary key)")
    options = await follow(conn, dsn, "rows")
    await conn.execute("alter system set max_slot_wal_keep_size = '1MB'")
    try:
        await conn.execute("select pg_reload_conf()")
        lost = "select wal_status = 'lost' from pg_replication_slots where slot_name = %s"
        for _ in range(4):
            await conn.execute("select pg_switch_wal()")
            await conn.execute(
                "select pg_logical_emit_message(false, 'fill', repeat('x', 1000000))"
            )
        await conn.execute("checkpoint")
        await until(conn, lost, options.slot)
    finally:
        await conn.execute("alter system reset max_slot_wal_keep_size")
        await conn.execute("select pg_reload_conf()")
    with pytest.raises(GapError, match="invalidated"):
        await check_slot(conn, options.slot, plugin="pgoutput")
    with pytest.raises(GapError):
        await read_all(conn, dsn, options)


async def test_a_plug_in_that_the_server_does_not_allow_is_reported_with_the_statement(
    conn: AsyncConnection, dsn: str, name: str
) -> None:
    """Unquoted, for the quoted form would shut out pgoutput as well."""
    row = await (
        await conn.execute("select current_setting('output_plugin_libraries', true)")
    ).fetchone()
    assert row is not None
    if row[0] is None or "wal2json" in row[0]:
        pytest.skip("the server allows every plug-in")
    with pytest.raises(PreconditionError) as caught:
        await create_slot(dsn, name, "wal2json")
    assert "output_plugin_libraries = pgoutput, test_decoding, wal2json;" in caught.value.hint


async def test_the_cluster_says_which_it_is(conn: AsyncConnection, dsn: str) -> None:
    """The same as it says elsewhere."""
    row = await (
        await conn.execute("select system_identifier::text from pg_control_system()")
    ).fetchone()
    assert row is not None
    found = await identify_system(dsn)
    assert found.system_id == row[0]
    assert found.database == conn.info.dbname
    assert found.timeline == 1


async def test_nobody_there_is_worth_a_retry(dsn: str, name: str) -> None:
    """The server may come back."""
    nowhere = make_conninfo(dsn, host="/nonexistent")
    with pytest.raises(StreamLostError):
        await identify_system(nowhere)
    with pytest.raises(DatabaseLostError):
        await create_slot(nowhere, name)


async def test_missing_publications_are_named(conn: AsyncConnection) -> None:
    """Those that exist are not, whatever characters their names have."""
    assert await missing_publications(conn, ["one", 'two"']) == ["one", 'two"']
    await conn.execute('create publication "two"""')
    assert await missing_publications(conn, ["one", 'two"']) == ["one"]


async def test_published_tables_tell_whether_they_can_be_updated(conn: AsyncConnection) -> None:
    """One without identity makes the application's own UPDATE fail."""
    await conn.execute(PUBLICATION)
    await conn.execute(
        "create table a_key (id int primary key); create table b_none (id int);"
        "create table c_full (id int); alter table c_full replica identity full;"
        "alter publication pub add table a_key, b_none, c_full"
    )
    found = [(table.name, table.has_identity) for table in await published_tables(conn, "pub")]
    assert found == [("a_key", True), ("b_none", False), ("c_full", True)]


async def test_a_reader_of_a_partitioned_table_sees_the_root(
    conn: AsyncConnection, dsn: str
) -> None:
    """That is how our publications are made."""
    await conn.execute(
        "create table parts (id int primary key) partition by range (id);"
        "create table parts_1 partition of parts for values from (0) to (10)"
    )
    await conn.execute(PUBLICATION)
    await conn.execute("alter publication pub add table parts")
    slot = f"{conn.info.dbname}_slot"
    await create_slot(dsn, slot, publications=("pub",))
    await conn.execute("insert into parts values (1)")
    found = await read_changes(conn, dsn, StreamOptions(slot, publications=("pub",)))
    assert [change.relation.name for change in found] == ["parts"]
