"""How fast rows are read: our stream with every row typed beside pg_recvlogical, in turns.

Prints ratios as JSON: above 1 means faster than what stands beside it.  Run it against a server
that does nothing else:

    python bench/decode.py "host=/tmp/pg user=postgres" --rows 1000000 --rounds 3
"""

import argparse
import asyncio
import json
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg

from walagent.domain.change import Commit, Idle, Item, Piece, Relation
from walagent.postgres.lsn import Lsn
from walagent.wal.options import StreamOptions
from walagent.wal.stream import open_stream

SLOT = "bench_decode"
SCHEMA = """
drop publication if exists bench_all, bench_few;
drop table if exists bench_many, bench_few;
create table bench_many (id bigint primary key, a integer, b text, c timestamptz, d boolean);
create table bench_few (like bench_many including all);
create publication bench_all for table bench_many, bench_few;
create publication bench_few for table bench_few;
"""


@dataclass(frozen=True)
class Run:
    """What one reading took, in seconds."""

    wall: float
    cpu: float


@dataclass(frozen=True)
class Wal:
    """The rows to be read."""

    dsn: str
    rows: int
    end: Lsn


def write_rows(dsn: str, rows: int) -> Wal:
    """Make the slot, then the rows: 1,000 in a transaction, one in a hundred in bench_few."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        drop_slot(conn, SLOT)  # of an earlier run that was cut off
        conn.execute(SCHEMA)
        conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [SLOT])
        for start in range(0, rows, 1000):
            table = "bench_few" if start // 1000 % 100 == 0 else "bench_many"
            conn.execute(
                f"insert into {table} select i, i % 1000, 'row number ' || i, now(), i % 2 = 0"
                f" from generate_series({start}, {start} + 999) i".encode()
            )
        # A mark behind the last row, so that both readers meet something at the end.
        row = conn.execute("select pg_logical_emit_message(true, 'bench', '')::text").fetchone()
        assert row is not None
        return Wal(dsn, rows, Lsn.parse(row[0]))


@contextmanager
def slot_copy(wal: Wal) -> Iterator[str]:
    """Give a slot at the start of the rows; a reader that confirms moves only the copy."""
    name = f"{SLOT}_copy"
    with psycopg.connect(wal.dsn, autocommit=True) as conn:
        conn.execute("select pg_copy_logical_replication_slot(%s, %s)", [SLOT, name])
        try:
            yield name
        finally:
            drop_slot(conn, name)


def drop_slot(conn: psycopg.Connection, name: str) -> None:
    """Drop a slot as soon as its reader is gone."""
    for _ in range(100):
        try:
            conn.execute("select pg_drop_replication_slot(%s)", [name])
        except psycopg.errors.UndefinedObject:
            return
        except psycopg.errors.ObjectInUse:
            time.sleep(0.05)


def recvlogical(wal: Wal, publication: str = "bench_all") -> Run:
    """Let pg_recvlogical read a publication to /dev/null."""
    found = shutil.which("pg_recvlogical")
    program = found or str(max(Path("/usr/lib/postgresql").glob("*/bin/pg_recvlogical")))
    options = ("proto_version=1", f"publication_names={publication}", "messages=true")
    with slot_copy(wal) as slot:
        command = [program, "--start", f"--slot={slot}", "--file=/dev/null", "--no-loop"]
        command += [f"--endpos={wal.end}", f"--dbname={wal.dsn}"]
        before, start = _cpu(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run([*command, *(f"--option={each}" for each in options)], check=True)
        return Run(time.perf_counter() - start, _cpu(resource.RUSAGE_CHILDREN) - before)


def ours(
    wal: Wal, publication: str = "bench_all", wanted: Callable[[Relation], bool] = lambda _: True
) -> Run:
    """Read everything with our stream."""
    with slot_copy(wal) as slot:
        options = StreamOptions(slot, publications=(publication,))
        before, start = _cpu(resource.RUSAGE_SELF), time.perf_counter()
        rows = asyncio.run(read(wal, options, wanted))
        run = Run(time.perf_counter() - start, _cpu(resource.RUSAGE_SELF) - before)
    assert rows in (wal.rows, wal.rows // 100), rows
    return run


async def read(wal: Wal, options: StreamOptions, wanted: Callable[[Relation], bool]) -> int:
    """Count the rows up to the end."""
    rows = 0
    async with open_stream(wal.dsn, options, wanted=wanted) as stream:
        while True:
            batch = await stream.next_batch()
            rows += sum(len(item.changes) for item in batch if isinstance(item, Piece))
            if any(ends(item, wal.end) for item in batch):
                return rows


def ends(item: Item, end: Lsn) -> bool:
    """Whether everything up to *end* has come."""
    match item:
        case Commit(_, lsn) | Idle(lsn, _):
            return lsn >= end
        case _:
            return False


def _cpu(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def main() -> None:
    """Run the rounds and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dsn")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    wal = write_rows(arguments.dsn, arguments.rows)
    few = lambda relation: relation.name == "bench_few"  # noqa: E731
    readers: dict[str, Callable[[], Run]] = {
        "pg_recvlogical": lambda: recvlogical(wal),
        "all": lambda: ours(wal),
        "pg_recvlogical_few": lambda: recvlogical(wal, "bench_few"),
        "few_published": lambda: ours(wal, "bench_few"),
        "few_wanted": lambda: ours(wal, wanted=few),
    }
    runs: dict[str, list[Run]] = {name: [] for name in readers}
    try:
        for _ in range(arguments.rounds):
            for name, reader in readers.items():
                runs[name].append(reader())
    finally:
        with psycopg.connect(wal.dsn, autocommit=True) as conn:
            drop_slot(conn, SLOT)
    print(json.dumps(figures(wal, runs), indent=2))


def figures(wal: Wal, runs: dict[str, list[Run]]) -> dict[str, object]:
    """Compare within each round, and take the median of the rounds."""

    def ratio(one: str, other: str) -> float:
        pairs = zip(runs[one], runs[other], strict=True)
        return round(median(b.wall / a.wall for a, b in pairs), 2)

    return {
        "rows": wal.rows,
        "rounds": len(runs["all"]),
        "all_vs_pg_recvlogical": ratio("all", "pg_recvlogical"),
        "one_percent_published_vs_pg_recvlogical": ratio("few_published", "pg_recvlogical_few"),
        "one_percent_wanted_vs_all": ratio("few_wanted", "all"),
        "microseconds_per_row": {
            name: {
                "wall": round(median(run.wall for run in each) / wal.rows * 1e6, 2),
                "cpu": round(median(run.cpu for run in each) / wal.rows * 1e6, 2),
            }
            for name, each in runs.items()
        },
    }


if __name__ == "__main__":
    main()
