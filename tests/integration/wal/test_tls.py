"""The stream over TLS: the same items, in bounded memory."""

import os
import socket
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.certificate import self_signed
from tests.integration.wal.reading import changes, follow, read_all, until, wal_end
from tests.integration.wal.test_stream import ROWS, memory, read_for_ever
from tests.servers import SETTINGS, debian_bindir
from walagent.embedded.server import EmbeddedServer
from walagent.errors import StreamLostError
from walagent.wal.connection import connect_replication, start_replication
from walagent.wal.stream import open_stream
from walagent.wal.transport import SocketTransport


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder for a server that has TLS, of Debian's packages: the embedded one has none."""
    if not any(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        pytest.skip("no server with TLS here")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o711)
        yield Path(name)


@pytest.fixture
async def dsns(folder: Path) -> AsyncIterator[tuple[str, str]]:
    """A server of its own: its Unix socket, and the same over TLS."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    settings = SETTINGS | {"listen_addresses": "127.0.0.1", "port": port}
    server = EmbeddedServer(folder / "pg", debian_bindir(), settings=settings)
    await server.start()
    try:
        trusted = folder / "server.crt"
        await _encrypt(server, trusted)
        tls = {"host": "localhost", "sslmode": "verify-full", "password": "secret"}
        yield server.dsn(), make_conninfo(server.dsn(), **tls, sslrootcert=str(trusted))
    finally:
        await server.stop()


def _write(folder: Path, trusted: Path) -> None:
    """Write key and certificate, which must belong to the server."""
    owner, (key, certificate) = folder.stat(), self_signed()
    for path, content in ((folder / "server.key", key), (folder / "server.crt", certificate)):
        path.write_bytes(content)
        path.chmod(0o600)
        os.chown(path, owner.st_uid, owner.st_gid)
    trusted.write_bytes(certificate)


async def _encrypt(server: EmbeddedServer, trusted: Path) -> None:
    _write(server.data_dir, trusted)
    async with await AsyncConnection.connect(server.dsn(), autocommit=True) as conn:
        await conn.execute("alter role current_user password 'secret'")
        await conn.execute("alter system set ssl = on")
        await conn.execute("select pg_reload_conf()")
        await until(conn, "select current_setting('ssl') = 'on'")


@pytest.mark.slow
async def test_tls_is_read_as_the_socket(dsns: tuple[str, str]) -> None:
    """Rows that are longer than a record of TLS, many small ones, and messages between."""
    plain, tls = dsns
    async with await AsyncConnection.connect(plain, autocommit=True) as conn:
        await conn.execute(ROWS)
        options = await follow(conn, plain, "rows")
        await conn.execute("insert into rows values (0, repeat('x', 1000000))")
        for transactional in (True, False):
            async with conn.transaction():
                await conn.execute(
                    "select pg_logical_emit_message(%s, 'any', repeat('x', 300000))",
                    [transactional],
                )
                await conn.execute(
                    "insert into rows select n, repeat('x', n / 10)"
                    " from generate_series(%s::int, %s::int) n",
                    [1 + 20_000 * transactional, 20_000 + 20_000 * transactional],
                )
        items = await read_all(conn, plain, options)
        found = await read_all(conn, tls, options)
        assert changes(found) == changes(items)
        assert len(changes(items)) == 40_001
        replication = await connect_replication(tls)
        transport = await start_replication(replication, options)
        assert isinstance(transport, SocketTransport)
        transport.close()


@pytest.mark.slow
async def test_a_large_logical_message_over_tls_does_not_grow_the_reader(
    dsns: tuple[str, str],
) -> None:
    """Its content is discarded as it arrives."""
    plain, tls = dsns
    async with await AsyncConnection.connect(plain, autocommit=True) as conn:
        await conn.execute(ROWS)
        small = await follow(conn, plain, "rows", slot="small")
        await conn.execute("select pg_copy_logical_replication_slot('small', 'large')")
        await conn.execute("insert into rows values (1, 'x')")
        _, before, _ = await memory(tls, small, await wal_end(conn))
        await conn.execute("select pg_logical_emit_message(true, 'any', repeat('x', 500000000))")
        await conn.execute("insert into rows values (2, 'x')")
        rows, after, _ = await memory(tls, replace(small, slot="large"), await wal_end(conn))
    assert rows == 2
    assert after < before + 20_000  # kilobytes


async def test_a_session_that_ends_ends_the_stream(dsns: tuple[str, str]) -> None:
    """With the server's reason, or as a lost connection; never with a wait."""
    plain, tls = dsns
    async with await AsyncConnection.connect(plain, autocommit=True) as conn:
        await conn.execute(ROWS)
        options = await follow(conn, plain, "rows")
        async with open_stream(tls, options) as stream:
            await conn.execute(
                "select pg_terminate_backend(active_pid, 5000) from pg_replication_slots"
            )
            with pytest.raises(StreamLostError):
                await read_for_ever(stream)
