"""walagent's worker: works the runs that are queued, to the last one's end."""

import argparse
import asyncio
import json

from psycopg import AsyncConnection

from bench.measure import Meter, peak_rss_kb, rss_kb
from bench.ours.parts import open_worker, write_log

_LEFT = "select count(*) from agent.run where not agent_internal.is_final(state)"
_SUCCEEDED = "select count(*) from agent.run where state = 'succeeded'"


def main() -> None:
    """Work the queue empty and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--count", type=int, required=True, help="runs that are queued")
    parser.add_argument("--batches", action="store_true", help="work on batches, too")
    parser.add_argument("--slots", type=int, default=20)
    options = parser.parse_args()
    write_log()
    print(json.dumps(asyncio.run(_drain(options))))


async def _drain(options: argparse.Namespace) -> dict[str, object]:
    async with (
        await AsyncConnection.connect(options.url, autocommit=True) as conn,
        open_worker(options.url, slots=options.slots, batches=options.batches) as worker,
    ):
        before_kb = rss_kb()
        meter = Meter(options.postmaster)
        working = asyncio.create_task(worker.run())
        while await _count(conn, _LEFT):
            await asyncio.sleep(0.05)
            if working.done():
                working.result()
        spent = meter.read()
        worker.stop()
        await working
        succeeded = await _count(conn, _SUCCEEDED)
        assert succeeded == options.count, f"{succeeded} of {options.count} runs succeeded"
    return {
        "count": options.count,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "server_cpu_seconds": spent.server_cpu,
        "rss_kb_in_flight": (peak_rss_kb() - before_kb) / options.slots,
    }


async def _count(conn: AsyncConnection, query: str) -> int:
    row = await (await conn.execute(query.encode())).fetchone()
    assert row is not None
    return row[0]


if __name__ == "__main__":
    main()
