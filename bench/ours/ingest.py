"""walagent's reader: ingests what waits in its slot, or with `--decode-only` only reads it."""

import argparse
import asyncio
import json

from psycopg import AsyncConnection

from bench.measure import Meter, Spent, peak_rss_kb
from bench.ours.parts import STREAM, open_feed, write_log
from walagent.domain.change import Commit, Item, Piece
from walagent.postgres.lsn import Lsn
from walagent.wal.stream import open_stream


def main() -> None:
    """Read to the end and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--count", type=int, required=True, help="rows that wait")
    parser.add_argument("--runs", type=int, help="that they become; default one each")
    parser.add_argument("--end", type=Lsn.parse, required=True, help="within the last transaction")
    parser.add_argument("--decode-only", action="store_true")
    options = parser.parse_args()
    write_log()
    read = _decode if options.decode_only else _ingest
    spent = asyncio.run(read(options))
    print(
        json.dumps(
            {
                "count": options.count,
                "seconds": spent.wall,
                "cpu_seconds": spent.cpu,
                "server_cpu_seconds": spent.server_cpu,
                "peak_rss_kb": peak_rss_kb(),
            }
        )
    )


async def _ingest(options: argparse.Namespace) -> Spent:
    async with (
        await AsyncConnection.connect(options.url, autocommit=True) as conn,
        open_feed(options.url) as (feed, intake),
    ):
        meter = Meter(options.postmaster)
        while intake.settled <= options.end:
            await feed.take_one()
        spent = meter.read()
        row = await (await conn.execute("select count(*) from agent.run")).fetchone()
    runs = options.count if options.runs is None else options.runs
    assert row == (runs,), f"{row} runs for {options.count} rows"
    return spent


async def _decode(options: argparse.Namespace) -> Spent:
    rows = 0
    async with open_stream(options.url, STREAM) as stream:
        meter = Meter(options.postmaster)
        while True:
            batch = await stream.next_batch()
            rows += sum(len(item.changes) for item in batch if isinstance(item, Piece))
            if any(_is_last(item, options.end) for item in batch):
                break
        spent = meter.read()
    assert rows == options.count, f"{rows} of {options.count} rows"
    return spent


def _is_last(item: Item, end: Lsn) -> bool:
    return isinstance(item, Commit) and item.end_lsn > end


if __name__ == "__main__":
    main()
