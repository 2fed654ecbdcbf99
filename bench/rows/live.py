"""Live rows: from a write to the clients that follow a table."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import AsyncConnection, sql

from bench import workload
from bench.harness import OURS, Figure, Row
from bench.live import Clients, Served, connect, live_path, served, whole_shape
from bench.measure import percentile
from bench.ours.prepare import attach, install, scripted
from bench.server import Place

_RELAY = "LISTEN/NOTIFY → SSE relay"
_COPY = "COPY"
_SERVER, _PEER = "ours/shape_server", "peers/notify_relay"
_INSERT = "insert into ticket (subject, body) values (%s, 'x')"
_SNAPSHOT = 100_000
_SHAPES = 1000
_CLIENTS = 1000
_CONNECTIONS = 4000
_INGESTED = 60_000
_POSTED = 3000  # changes for one of the table that clients follow: about three a second
_ONE_BY_ONE = """\
do $$ begin
    for i in 1 .. {count} loop
        insert into ticket (subject, body) values ({subject}, {body});
        if i % {each} = 0 then
            insert into board values (i, 0);
        end if;
        commit;
    end loop;
end $$"""

Work = Callable[[AsyncConnection, Served], Awaitable[Mapping[str, Any]]]


def _beside(script: str, place: Place, work: Work, rows: int = 0) -> Mapping[str, Any]:
    """Run a server beside a table with some rows, and give it work."""
    if script == _SERVER:
        install(place.url)
    else:
        with psycopg.connect(place.url, autocommit=True) as conn:
            conn.execute(workload.TICKET_TABLE)
    if rows:
        with psycopg.connect(place.url, autocommit=True) as conn:
            workload.insert_tickets(conn, rows)
    return asyncio.run(_serve(script, place, work))


async def _serve(script: str, place: Place, work: Work) -> Mapping[str, Any]:
    with served(script, place.url) as server:
        async with await AsyncConnection.connect(place.url, autocommit=True) as conn:
            return await work(conn, server)


async def _path(script: str, server: Served, query: str = "table=ticket") -> str:
    return await live_path(server.port, query) if script == _SERVER else "/"


async def _write(
    conn: AsyncConnection, clients: Clients, count: int, gap: float, receivers: int
) -> Mapping[str, Any]:
    """Insert rows, *gap* seconds apart; return how long each took to each client."""
    sent: dict[int, float] = {}
    for n in range(count):
        await asyncio.sleep(gap)
        sent[n] = time.time()
        await conn.execute(_INSERT, [f"n{n}"])
    while sum(map(len, clients.arrived.values())) < count * receivers:
        assert not clients.lost, f"{clients.lost} connections were closed"
        await clients.next()
    waits = [(at - sent[n]) * 1000 for n, times in clients.arrived.items() for at in times]
    return {"p50_ms": percentile(waits, 0.5), "p95_ms": percentile(waits, 0.95)}


def to_clients(
    script: str, clients: int, count: int, gap: float, place: Place
) -> Mapping[str, Any]:
    """From the insert to every client of one shape."""

    async def work(conn: AsyncConnection, server: Served) -> Mapping[str, Any]:
        path = await _path(script, server)
        found = await connect(server.port, [path] * clients)
        return await _write(conn, found, count, gap, clients)

    return _beside(script, place, work)


def beside_shapes(shapes: int, place: Place) -> Mapping[str, Any]:
    """From the update to the client of one of many shapes with an equality."""

    async def work(conn: AsyncConnection, server: Served) -> Mapping[str, Any]:
        paths = [
            await live_path(server.port, f"table=ticket&where={quote(f'''body = '{name}' ''')}")
            for name in ["x", *map(str, range(1, shapes))]
        ]
        found = await connect(server.port, paths[:1])
        return await _write(conn, found, 100, 0.02, 1)

    return _beside(_SERVER, place, work)


def snapshot(place: Place) -> Mapping[str, Any]:
    """All rows of a table, as a shape of it."""

    async def work(_: AsyncConnection, server: Served) -> Mapping[str, Any]:
        await whole_shape(server.port, "table=ticket&where=id%3C0")  # publishes the table
        start = time.monotonic()
        size = await whole_shape(server.port, "table=ticket")
        return {"seconds": time.monotonic() - start, "mb": size / 1e6}

    return _beside(_SERVER, place, work, rows=_SNAPSHOT)


def copied(place: Place) -> Mapping[str, Any]:
    """All rows of a table by COPY, over TCP as well."""
    with psycopg.connect(place.tcp_url, autocommit=True) as conn:
        conn.execute(workload.TICKET_TABLE)
        workload.insert_tickets(conn, _SNAPSHOT)
        start = time.monotonic()
        with conn.cursor().copy("copy ticket to stdout") as copy:
            size = sum(len(bytes(part)) for part in copy)
        return {"seconds": time.monotonic() - start, "mb": size / 1e6}


def connections(place: Place) -> Mapping[str, Any]:
    """Memory of the server for each client of one shape."""

    async def work(conn: AsyncConnection, server: Served) -> Mapping[str, Any]:
        path = await _path(_SERVER, server)
        before = server.rss_kb()
        found = await connect(server.port, [path] * _CONNECTIONS)
        await _write(conn, found, 3, 1.0, _CONNECTIONS)
        return {"kb_each": (server.rss_kb() - before) / _CONNECTIONS}

    return _beside(_SERVER, place, work)


def ingest(clients: int, place: Place) -> Mapping[str, Any]:
    """Changes that become runs, a second, while clients follow another table."""
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers, also=["create table board (id bigint primary key, n int)"])
    return asyncio.run(_serve(_SERVER, place, partial(_ingest, place, clients)))


async def _ingest(
    place: Place, clients: int, conn: AsyncConnection, server: Served
) -> Mapping[str, Any]:
    if clients:
        path = await live_path(server.port, "table=board")
        await connect(server.port, [path] * clients)
    await conn.execute("set synchronous_commit = off")
    text = sql.SQL(_ONE_BY_ONE).format(
        count=_INGESTED, each=_POSTED, subject=workload.SUBJECT, body=workload.BODY
    )
    start = time.monotonic()
    async with await AsyncConnection.connect(place.url, autocommit=True) as other:
        writing = asyncio.create_task(conn.execute(text))
        while await _newest_run(other) < _INGESTED:  # noqa: ASYNC110 - rows have no event
            await asyncio.sleep(0.02)
        seconds = time.monotonic() - start
        await writing
    return {"per_second": _INGESTED / seconds}


async def _newest_run(conn: AsyncConnection) -> int:
    row = await (await conn.execute("select max(id) from agent.run")).fetchone()
    return int(row[0] or 0) if row else 0


LATENCY = Row(
    what="write to client of a shape, idle",
    beside=_RELAY,
    sides={
        OURS: partial(to_clients, _SERVER, 1, 200, 0.02),
        _RELAY: partial(to_clients, _PEER, 1, 200, 0.02),
    },
    figures=(
        Figure("p50_ms", over=_RELAY, goal=1.3, more_is_better=False),
        Figure("p95_ms", over=_RELAY, more_is_better=False),
    ),
)

CLIENTS = Row(
    what=f"write to {_CLIENTS} clients of a shape",
    beside=_RELAY,
    sides={
        OURS: partial(to_clients, _SERVER, _CLIENTS, 20, 1 / 3),
        _RELAY: partial(to_clients, _PEER, _CLIENTS, 20, 1 / 3),
    },
    figures=(
        Figure("p95_ms", over=None, goal=150, more_is_better=False, unit="ms"),
        Figure("p95_ms", over=_RELAY, more_is_better=False),
    ),
)

SNAPSHOT = Row(
    what=f"snapshot of {_SNAPSHOT} rows over HTTP",
    beside="COPY over TCP",
    sides={OURS: snapshot, _COPY: copied},
    figures=(Figure("seconds", over=_COPY, goal=3, more_is_better=False),),
)

SHAPES = Row(
    what=f"write to client beside {_SHAPES} shapes with an equality",
    beside="one shape",
    sides={OURS: partial(beside_shapes, _SHAPES), "one": partial(beside_shapes, 1)},
    figures=(Figure("p50_ms", over="one", goal=2, more_is_better=False),),
)

CONNECTIONS = Row(
    what=f"memory of {_CONNECTIONS} clients of a shape, each",
    beside="nothing",
    sides={OURS: connections},
    figures=(Figure("kb_each", over=None, goal=40, more_is_better=False, unit="kB"),),
    rounds=2,
)

INTAKE = Row(
    what=f"changes ingested a second beside {_CLIENTS} clients of another table",
    beside="without clients",
    sides={OURS: partial(ingest, _CLIENTS), "without": partial(ingest, 0)},
    figures=(Figure("per_second", over="without", goal=0.9),),
    rounds=9,  # each varies by a tenth, by what else the machine's host does
)
