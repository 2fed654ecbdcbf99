"""Count what a stretch of work costs the server: statements, commits, WAL, rows, index entries.

Commits, rows and index entries are counted in the WAL itself: nothing is sampled, so a count is the
same on any machine.  Images of whole pages are left out: how many there are depends on when the
last checkpoint of the server was.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, LiteralString

import psycopg
from psycopg import sql

from bench.relay import Passed, Relay

_START: LiteralString = """\
create extension if not exists pg_stat_statements;
create extension if not exists pg_walinspect;
"""
_STATEMENTS: LiteralString = """\
select query, sum(calls)::bigint, sum(shared_blks_hit + shared_blks_read)::bigint
  from pg_stat_statements s join pg_database d on d.oid = s.dbid
 where d.datname = current_database()
 group by query
"""
# What others than the application wrote: not its transactions, nor what the server does by itself.
_RECORDS: LiteralString = """\
select resource_manager, record_type, count(*), sum(record_length - fpi_length)::bigint,
       coalesce(block_ref, '')
  from pg_get_wal_records_info(%s::pg_lsn, %s::pg_lsn)
 where xid <> all (%s) and resource_manager not in ('Standby', 'XLOG', 'CommitTs')
 group by 1, 2, 5
"""
_RELATIONS: LiteralString = """\
select pg_relation_filenode(c.oid)::bigint, coalesce(t.relname || ' (TOAST)', c.relname)
  from pg_class c left join pg_class t on t.reltoastrelid = c.oid
 where pg_relation_filenode(c.oid) is not null
"""
_BLOCK = re.compile(r"rel \d+/\d+/(\d+)")


@dataclass(slots=True)
class Counts:
    """What was counted; statements and records by what they are."""

    statements: Counter[str] = field(default_factory=Counter)
    buffers: int = 0
    wal_bytes: int = 0
    records: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # by relation
    bytes: Counter[str] = field(default_factory=Counter)  # of records, by what they are
    passed: Passed = field(default_factory=Passed)

    def each(self, runs: int) -> dict[str, float]:
        """The figures of one of *runs*."""
        kinds: Counter[tuple[str, str]] = Counter()
        for (manager, kind, _), n in self.records.items():
            kinds[manager, kind.removesuffix("+INIT")] += n
        updates, hot = kinds["Heap", "UPDATE"], kinds["Heap", "HOT_UPDATE"]
        figures = {
            "round_trips": self.passed.round_trips,
            "statements": self.statements.total(),
            "commits": sum(n for (m, kind), n in kinds.items() if (m, kind) == _COMMIT),
            "wal_bytes": self.wal_bytes,
            "wal_records": self.records.total(),
            "rows_inserted": kinds["Heap", "INSERT"],
            "rows_updated": updates + hot,
            "not_hot": updates,
            "rows_locked": kinds["Heap", "LOCK"],
            "index_entries": sum(n for (_, kind), n in kinds.items() if kind == "INSERT_LEAF"),
            "multixacts": sum(n for (m, _), n in kinds.items() if m == "MultiXact"),
            "buffers": self.buffers,
            "sent_bytes": self.passed.sent,
            "received_bytes": self.passed.received,
        }
        return {name: figure / runs for name, figure in figures.items()}


_COMMIT = ("Transaction", "COMMIT")


class Counting:
    """Counts from its making, or the last `restart`, to `read`.

    Args:
        url: of a superuser, not through the relay; what its session does is not counted.
        relay: through which the measured connections go.
    """

    def __init__(self, url: str, relay: Relay) -> None:
        self._relay = relay
        self._observer = psycopg.connect(url, autocommit=True, prepare_threshold=None)
        self._observer.execute(_START)
        name = sql.Identifier(self._observer.info.dbname)
        self._observer.execute(
            sql.SQL("alter database {} set pg_stat_statements.track = 'top'").format(name)
        )
        self._observer.execute("set pg_stat_statements.track = 'none'")
        self._set_autovacuum("off")  # what it does, and when, is no part of a run
        self._written: list[str] = []  # transactions of the application

    def close(self) -> None:
        """End the session."""
        self._set_autovacuum("on")
        self._observer.close()

    def _set_autovacuum(self, value: LiteralString) -> None:
        self._observer.execute(f"alter system set autovacuum = {value}")
        self._observer.execute("select pg_reload_conf()")

    def write(self, statement: LiteralString, *parameters: object) -> Any:  # noqa: ANN401 - SQL's
        """Write as the application does: a transaction that is not counted; its first value."""
        with self._observer.transaction():
            row = self._observer.execute(statement, parameters).fetchone()
            xid = self._observer.execute("select pg_current_xact_id()::xid::text").fetchone()
        self._written.append(xid[0] if xid else "0")
        return row[0] if row else None

    def value(self, query: LiteralString, *parameters: object) -> Any:  # noqa: ANN401 - SQL's
        """The first value of a query, which is not counted."""
        row = self._observer.execute(query, parameters).fetchone()
        return row[0] if row else None

    def until(self, query: LiteralString, *parameters: object, seconds: float = 120.0) -> None:
        """Wait until *query* gives true."""
        end = time.monotonic() + seconds
        while not self.value(query, *parameters):
            if time.monotonic() > end:
                raise TimeoutError(query)
            time.sleep(0.005)

    def restart(self) -> None:
        """Count from now on."""
        self._observer.execute("select pg_stat_statements_reset()")
        self._written = []
        self._passed = self._relay.read()
        self._lsn = self.value("select pg_current_wal_insert_lsn()::text")

    def read(self) -> Counts:
        """What was done since the start."""
        passed, before = self._relay.read(), self._passed
        counts = Counts(
            passed=Passed(
                passed.connections - before.connections,
                passed.round_trips - before.round_trips,
                passed.sent - before.sent,
                passed.received - before.received,
            )
        )
        self._observer.execute("select pg_switch_wal()")  # all that was written can be read
        end = self.value("select pg_current_wal_flush_lsn()::text")
        for query, calls, buffers in self._observer.execute(_STATEMENTS):
            counts.statements[query] += calls
            counts.buffers += buffers
        relations = dict(self._observer.execute(_RELATIONS).fetchall())
        found = self._observer.execute(_RECORDS, [self._lsn, end, self._written])
        for manager, kind, n, size, blocks in found:
            relation = _BLOCK.search(blocks)
            name = relations.get(int(relation[1]), "") if relation else ""
            counts.records[manager, kind, name] += n
            counts.bytes[f"{manager} {kind} {name}"] += size
            counts.wal_bytes += size
        return counts


def count(counting: Counting, work: Callable[[], int]) -> tuple[Counts, int]:
    """Count what *work* costs, which returns the number of its runs."""
    counting.restart()
    runs = work()
    time.sleep(0.3)  # what follows a run's end: a claim that finds nothing, a connection's reset
    return counting.read(), runs


def listing(counts: Counts, runs: int) -> Mapping[str, Mapping[str, float]]:
    """By statement and by record, for each run, the most first."""
    return {
        "statements": {
            " ".join(query.split())[:200]: n / runs
            for query, n in counts.statements.most_common(25)
        },
        "records": {" ".join(key): n / runs for key, n in counts.records.most_common(30)},
        "bytes": {key: n / runs for key, n in counts.bytes.most_common(25)},
    }
