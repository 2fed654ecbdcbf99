"""Does anything grow?  Samples of a daemon and its database, and the slopes through them."""

import time
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from psycopg import AsyncConnection

from tests.faults.rig.processes import Process
from tests.faults.rig.waiting import fetch

# Whatever walagent keeps, the space that is free in it included.
_SAMPLE = """
select coalesce(pg_sequence_last_value('done_seq_seq'), 0),
       (select count(*) from pg_stat_activity where application_name ~ '^walagent'),
       (select sum(pg_total_relation_size(c.oid)) from pg_class c
         where c.relnamespace = 'agent'::regnamespace and c.relkind = 'r'),
       (select coalesce(max(age(s.catalog_xmin)), 0) from pg_replication_slots s),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
       (select coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), s.confirmed_flush_lsn)), 0)
          from pg_replication_slots s),
       pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')
"""
_SEEN = ("runs", "connections", "tables", "xmin_age", "transactions", "lag", "wal")


@dataclass(frozen=True, slots=True)
class Sample:
    """How it stands at one moment."""

    seconds: float
    runs: float  # that have ended since the beginning
    connections: float
    tables: float  # bytes
    xmin_age: float  # transactions since the slot's catalog_xmin
    transactions: float  # in all
    lag: float  # bytes of WAL
    wal: float  # bytes in all
    memory: float  # bytes
    files: float  # open file descriptors


async def take_sample(conn: AsyncConnection[Any], process: Process) -> Sample:
    """Look at a process and at the database, whose table `done` numbers the runs."""
    (row,) = await fetch(conn, _SAMPLE)
    seen = dict(zip(_SEEN, map(float, row), strict=True))
    files = _open_files(process)
    return Sample(seconds=time.monotonic(), memory=process.rss, files=files, **seen)


def _open_files(process: Process) -> int:
    return sum(1 for _ in Path(f"/proc/{process.pid}/fd").iterdir())


def slope(samples: Sequence[Sample], what: str, *, over: str) -> float:
    """How much *what* grows with each unit of *over*: the least squares' line."""
    names = [field.name for field in fields(Sample)]
    xs, ys = ([astuple(each)[names.index(name)] for each in samples] for name in (over, what))
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((each - x) ** 2 for each in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread


def growth(samples: Sequence[Sample], what: str) -> float:
    """How much *what* has grown from the first sample to the last, as the line has it."""
    return slope(samples, what, over="seconds") * (samples[-1].seconds - samples[0].seconds)
