"""Taking changes in: one-row transactions a second, and memory for one huge transaction."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import attach, scripted
from bench.scripts import run_script
from bench.server import Place

_TRANSACTIONS = 100_000
_MANY, _FEW = 1_000_000, 1000  # rows of one transaction
_ONE_BY_ONE = """\
do $$ begin
    for i in 1 .. {count} loop
        insert into ticket (subject, body) values ({subject}, {body});
        commit;
    end loop;
end $$"""


def take_in(place: Place) -> Mapping[str, Any]:
    """Every row matches, so every row becomes a run."""
    _attach(place)
    _write_one_by_one(place, _TRANSACTIONS - 1)
    return rates(_read(place, _TRANSACTIONS))


def decode_only(place: Place) -> Mapping[str, Any]:
    """The same WAL, read and decoded, and no more."""
    _attach(place)
    _write_one_by_one(place, _TRANSACTIONS - 1)
    return rates(_read(place, _TRANSACTIONS, "--decode-only"))


def memory(rows: int, place: Place) -> Mapping[str, Any]:
    """The reader's peak, when one transaction brings *rows* that all match."""
    _attach(place)
    with psycopg.connect(place.url, autocommit=True) as conn:
        workload.insert_tickets(conn, rows)
    result = _read(place, rows + 1)
    return {"peak_rss_kb": result["peak_rss_kb"], "seconds": result["seconds"]}


def _attach(place: Place) -> None:
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)


def _write_one_by_one(place: Place, count: int) -> None:
    with psycopg.connect(place.url, autocommit=True) as conn:
        conn.execute("set synchronous_commit = off")  # quicker, and the WAL is the same
        conn.execute(
            sql.SQL(_ONE_BY_ONE).format(
                count=sql.Literal(count),
                subject=sql.Literal(workload.SUBJECT),
                body=sql.Literal(workload.BODY),
            )
        )


def _read(place: Place, count: int, *options: str) -> dict[str, Any]:
    """Insert one last ticket, and read up to it."""
    with psycopg.connect(place.url, autocommit=True) as conn:
        row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        workload.insert_tickets(conn, 1)
    return run_script(
        "ours/take_in",
        *("--url", place.url, "--postmaster", place.postmaster),
        *("--count", count, "--end", row[0], *options),
    )


ROW = Row(
    what="one-row transactions ingested a second, every row matches",
    beside="the same WAL decoded without intake",
    sides={OURS: take_in, "decoding": decode_only},
    figures=(Figure("per_second", over="decoding", goal=0.25),),
)

MEMORY_ROW = Row(
    what="reader's memory, one transaction of 1 M rows",
    beside="the same with 1 k rows",
    sides={OURS: partial(memory, _MANY), "1 k rows": partial(memory, _FEW)},
    figures=(Figure("peak_rss_kb", over="1 k rows", goal=1.2, more_is_better=False),),
    rounds=2,
)
