"""Ingesting changes: one-row transactions a second, and memory for one huge transaction."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import psycopg
from psycopg import sql

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import attach, queue_runs, read_writes, scripted
from bench.scripts import run_script
from bench.server import Place

_TRANSACTIONS = 100_000
_MANY, _FEW = 1_000_000, 1000  # rows of one transaction
_WRITTEN, _EACH = 200, 1000  # rows that the agent wrote; one update in so many is of one
_ONE_BY_ONE = """\
do $$ begin
    for i in 1 .. {count} loop
        insert into ticket (subject, body) values ({subject}, {body});
        commit;
    end loop;
end $$"""

# None of them starts a run.
_UPDATE = """\
do $$ begin
    for i in 1 .. {count} loop
        update ticket set body = 'changed', priority = 'low'
         where id = case when i % {each} = 0 then {others} + i / {each} else i end;
        commit;
    end loop;
end $$"""
_WATCHED = """\
update agent.attachment
   set writes = '{priority}', ops = '{insert,update}', condition = $$new.body <> 'changed'$$,
       corrections = true"""


def ingest(place: Place) -> Mapping[str, Any]:
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


def condition(text: str, place: Place, *options: str) -> Mapping[str, Any]:
    """One commit of rows, of which a condition holds for one in a hundred."""
    _attach(place, text)
    with psycopg.connect(place.url, autocommit=True) as conn:
        workload.insert_ranked(conn, _MANY)
    expected = () if options else ("--runs", _MANY // 100)
    result = _read(place, _MANY + 1, *expected, *options)  # and the last, which matches neither
    return {name: result[name] for name in ("seconds", "cpu_seconds", "server_cpu_seconds")}


def updates(written: int, place: Place) -> Mapping[str, Any]:
    """Updates by an application, one in a thousand of a row of whose runs *written* wrote."""
    count = _WRITTEN * _EACH
    others = sql.SQL(
        "insert into ticket (subject, body) select 's', 'b' from generate_series(1, {})"
    )
    calls = (
        [{"call": "update_row", "arguments": {"priority": workload.PRIORITY}}] if written else []
    )
    with scripted([*calls, workload.ANSWER]) as answers:
        attach(place.url, answers, also=[others.format(count).as_string()])
        with psycopg.connect(place.url, autocommit=True) as conn:
            conn.execute(_WATCHED)
        queue_runs(place.url, _WRITTEN)
        run_script(
            "ours/drain",
            *("--url", place.url, "--postmaster", place.postmaster, "--count", _WRITTEN),
        )
    read_writes(place.url, written)
    with psycopg.connect(place.url, autocommit=True) as conn:
        conn.execute("set synchronous_commit = off")
        conn.execute(sql.SQL(_UPDATE).format(count=count, others=count, each=_EACH))
    result = rates(_read(place, count + 1, "--runs", _WRITTEN + 1))
    with psycopg.connect(place.url) as conn:
        row = conn.execute("select count(*) from agent.correction").fetchone()
    assert row == (written,)
    return result


def _attach(place: Place, condition: str | None = None) -> None:
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers, condition=condition)


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


def _read(place: Place, count: int, *options: str | int) -> dict[str, Any]:
    """Insert one last ticket, and read up to it."""
    with psycopg.connect(place.url, autocommit=True) as conn:
        row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        workload.insert_tickets(conn, 1)
    return run_script(
        "ours/ingest",
        *("--url", place.url, "--postmaster", place.postmaster),
        *("--count", count, "--end", row[0], *options),
    )


ROW = Row(
    what="one-row transactions ingested a second, every row matches",
    beside="the same WAL decoded without intake",
    sides={OURS: ingest, "decoding": decode_only},
    figures=(Figure("per_second", over="decoding", goal=0.35),),
)

MEMORY_ROW = Row(
    what="reader's memory, one transaction of 1 M rows",
    beside="the same with 1 k rows",
    sides={OURS: partial(memory, _MANY), "1 k rows": partial(memory, _FEW)},
    figures=(Figure("peak_rss_kb", over="1 k rows", goal=1.1, more_is_better=False),),
    rounds=2,
)

_UNIQUE, _REPEATED = "new.id % 100 = 0", f"new.priority = '{workload.PRIORITY}'"

CONDITION_ROW = Row(
    what="one commit of 1 M rows, a condition matching 1 %, each with a value of its own",
    beside="the same WAL decoded without intake",
    sides={
        OURS: partial(condition, _UNIQUE),
        "decoding": lambda place: condition(_UNIQUE, place, "--decode-only"),
    },
    figures=(Figure("seconds", over="decoding", goal=3, more_is_better=False),),
    rounds=3,
)

REPEATED_ROW = Row(
    what="one commit of 1 M rows, a condition matching 1 %, two values in all",
    beside="the same WAL decoded without intake",
    sides={
        OURS: partial(condition, _REPEATED),
        "decoding": lambda place: condition(_REPEATED, place, "--decode-only"),
    },
    figures=(Figure("seconds", over="decoding", goal=3, more_is_better=False),),
    rounds=3,
)

CORRECTIONS_ROW = Row(
    what="one-row updates ingested a second, one in a thousand corrects what an agent wrote",
    beside="the same where no agent wrote",
    sides={OURS: partial(updates, _WRITTEN), "no corrections": partial(updates, 0)},
    figures=(
        Figure("per_second", over="no corrections", goal=0.95),
        Figure("cpu_ms", over="no corrections", more_is_better=False),
        Figure("server_cpu_ms", over="no corrections", more_is_better=False),
    ),
)
