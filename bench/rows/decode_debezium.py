"""CPU for each row decoded, of 1 M small rows, every row typed."""

from collections.abc import Mapping
from typing import Any, Literal

import psycopg
from psycopg import sql

from bench.peer import run_peer
from bench.server import Place

_COUNT = 1_000_000
_PER_TRANSACTION = 100
_TABLE = """\
create table small (
    id    bigint primary key,
    a     integer not null,
    b     text not null,
    price numeric(10, 2) not null,
    at    timestamptz not null
)"""
_FILL = """\
do $$
begin
    for base in 0 .. {last} by {step} loop
        insert into small
        select i, i % 100, 'row ' || i, i / 7.0 % 10000, now()
        from generate_series(base + 1, base + {step}) i;
        commit;
    end loop;
end $$"""


def debezium_values(place: Place) -> Mapping[str, Any]:
    """Debezium's engine, each row handed to Python and parsed."""
    return _debezium(place, "values")


def debezium_count(place: Place) -> Mapping[str, Any]:
    """Debezium's engine, rows only counted."""
    return _debezium(place, "count")


def _debezium(place: Place, read: Literal["values", "count"]) -> Mapping[str, Any]:
    fill_slot(place)
    result = run_peer(
        "debezium_rows",
        *("--tcp-url", place.tcp_url, "--postmaster", place.postmaster),
        *("--slot", "bench", "--publication", "bench", "--table", "public.small"),
        *("--count", _COUNT, "--read", read),
    )
    return {
        "cpu_us": result["cpu_seconds"] * 1e6 / result["rows"],
        "warm_cpu_us": result["warm_cpu_seconds"] * 1e6 / result["warm_rows"],
        "rows_per_second": result["rows"] / result["seconds"],
        "peak_rss_kb": result["peak_rss_kb"],
        "versions": result["versions"],
    }


def fill_slot(place: Place) -> None:
    """Make the table, the publication and the slot, then write the rows that wait in it."""
    with psycopg.connect(place.url, autocommit=True) as conn:
        conn.execute(_TABLE)
        conn.execute("create publication bench for table small")
        conn.execute("select pg_create_logical_replication_slot('bench', 'pgoutput')")
        last, step = _COUNT - _PER_TRANSACTION, _PER_TRANSACTION
        conn.execute(sql.SQL(_FILL).format(last=sql.Literal(last), step=sql.Literal(step)))
