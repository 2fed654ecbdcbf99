# /// script
# dependencies = ["pgqueuer[asyncpg]==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"]
# ///
# The type checker does not see the packages of this script's own environment.
# pyright: reportMissingImports=false
"""pgqueuer: plain jobs that do nothing, acknowledged in bulk after they have run.

The fastest set-up it has: a pool of asyncpg connections, and uvloop as its own command uses it.
"""

import argparse
import json
from datetime import timedelta
from importlib.metadata import version

import asyncpg
import uvloop
from pgqueuer import PgQueuer
from pgqueuer.db import AsyncpgPoolDriver
from pgqueuer.models import Job
from pgqueuer.types import QueueExecutionMode

from bench.measure import Meter


def main() -> None:
    """Queue the jobs, work them, print what it took."""
    print(json.dumps(uvloop.run(_drain(_options()))))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--slots", type=int, default=20)
    return parser.parse_args()


async def _drain(options: argparse.Namespace) -> dict:
    done = 0
    async with asyncpg.create_pool(options.url, min_size=2, max_size=options.slots) as pool:
        app = PgQueuer(AsyncpgPoolDriver(pool))
        queries = app.qm.queries

        @app.entrypoint("job")
        async def job(_job: Job) -> None:
            nonlocal done
            done += 1

        await queries.install()
        names, payloads = ["job"] * options.count, [b"7"] * options.count
        await queries.enqueue(names, payloads, [0] * options.count)
        await pool.execute("analyze")  # as on a server that has run for a while
        meter = Meter(options.postmaster)
        await app.run(
            dequeue_timeout=timedelta(seconds=1),
            batch_size=options.slots,
            mode=QueueExecutionMode.drain,
        )
        spent = meter.read()
        assert done == options.count, f"{done} of {options.count} jobs ran"
    return {
        "count": options.count,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "server_cpu_seconds": spent.server_cpu,
        "versions": {name: version(name) for name in ("pgqueuer", "asyncpg", "uvloop")},
    }


if __name__ == "__main__":
    main()
