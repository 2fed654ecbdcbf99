"""A large transaction beside open shapes: little memory, whatever clients do."""

import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from tests.helpers.shapes import SECRET, Follower
from tests.helpers.sync_process import SyncProcess, sync_process

MB = 1 << 20
TABLE = """
create table item (id bigint primary key, body text);
alter table item alter column body set storage external;
create table other (id bigint primary key)
"""
INSERT = """
insert into item select n, repeat(chr(65 + n::int %% 26), %s) from generate_series(1, %s) n
"""
WHOLE = {"table": "item", "log": "changes_only"}
EVENTS = {"live": "true", "live_sse": "true"}


@dataclass(frozen=True, slots=True)
class Large:
    """One transaction.

    Args:
        width: characters of a row.
        shapes: what is open.
        live: how clients wait that read nothing; None: there are none.
        most: bytes that the process may need for it.
    """

    count: int
    width: int
    shapes: Sequence[Mapping[str, str]]
    live: Mapping[str, str] | None
    most: int = 300 * MB


CASES = [
    pytest.param(
        Large(400_000, 1, [{"table": "item", "where": f"id > {n}"} for n in range(20)], None),
        id="400 k rows",
    ),
    pytest.param(Large(50, 10 * MB, [WHOLE], {"live": "true"}), id="500 MB"),
    pytest.param(Large(5, 10 * MB, [WHOLE], EVENTS), id="rows of 10 MB that fit, as events"),
    pytest.param(Large(500, MB, [WHOLE], EVENTS), id="rows of 1 MB, as events"),
    pytest.param(Large(50, MB, [WHOLE], {"live": "true"}), id="rows of 1 MB that fit"),
]


def memory(process: SyncProcess, name: str) -> int:
    """Bytes that it has now (VmRSS), or has had at most (VmHWM)."""
    status = Path(f"/proc/{process.process.pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith(f"{name}:"))
    return int(line.split()[1]) * 1024


@contextmanager
def waiting(process: SyncProcess, queries: Sequence[Mapping[str, str]]) -> Iterator[None]:
    """Clients that send a request each, and read nothing."""
    found: list[socket.socket] = []
    try:
        for query in queries:
            found.append(opened := socket.socket())
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 12)
            opened.connect(("127.0.0.1", process.port))
            path = f"/v1/shape?{urlencode({'secret': SECRET, **query})}"
            opened.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        yield
    finally:
        for each in found:
            each.close()


@pytest.mark.slow
@pytest.mark.parametrize("large", CASES)
async def test_a_large_transaction_takes_little_memory(
    conn: AsyncConnection, dsn: str, tmp_path: Path, large: Large
) -> None:
    """Beside many shapes, with large rows, and with clients that stand still."""
    await run_all(conn, TABLE)
    async with sync_process(dsn, tmp_path) as process:
        shapes = [Follower(process, **query) for query in large.shapes]
        after = Follower(process, table="other")
        for client in (*shapes, after):
            await client.catch_up()
        stalled = [
            {**client.query, "offset": client.offset, "handle": client.handle, **large.live}
            for client in shapes * 5
            if large.live is not None
        ]
        idle = memory(process, "VmRSS")
        with waiting(process, stalled):
            await conn.execute(INSERT, (large.width, large.count))
            await run_all(conn, "insert into other values (1)")
            await after.until({'"public"."other"/"1"': {"id": "1"}}, within=120.0)
            await after.catch_up()  # by then, clients have been sent what they take
            more = memory(process, "VmHWM") - idle
        assert more < large.most
        assert after.refetches == 0
