"""The fixtures themselves: what every other test stands on."""

import psycopg
from psycopg import AsyncConnection
from psycopg.conninfo import conninfo_to_dict


async def test_every_test_has_a_database_of_its_own(conn: AsyncConnection, dsn: str) -> None:
    """The connection is in the fresh database, and commits by itself."""
    cursor = await conn.execute("select current_database()")
    assert await cursor.fetchone() == (conninfo_to_dict(dsn)["dbname"],)
    assert conn.autocommit


def test_a_slot_left_behind_does_not_keep_the_database(dsn: str) -> None:
    """A test may leave a logical slot: its teardown drops it with the database."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("select pg_create_logical_replication_slot('left_behind', 'pgoutput')")
