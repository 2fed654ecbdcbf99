# /// script
# dependencies = ["procrastinate==3.10.0", "psycopg[binary]==3.3.9"]
# ///
# The type checker does not see the packages of this script's own environment.
# pyright: reportMissingImports=false
"""procrastinate: plain jobs that do nothing, each finished in its own transaction."""

import argparse
import asyncio
import json
import logging
from importlib.metadata import version

import procrastinate

from bench.measure import Meter


def main() -> None:
    """Queue the jobs, work them, print what it took."""
    logging.disable(logging.WARNING)
    print(json.dumps(asyncio.run(_drain(_options()))))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--slots", type=int, default=20)
    return parser.parse_args()


async def _drain(options: argparse.Namespace) -> dict:
    done = 0
    connector = procrastinate.PsycopgConnector(
        conninfo=options.url, min_size=options.slots, max_size=options.slots + 2
    )
    app = procrastinate.App(connector=connector)

    @app.task(name="job")
    async def job(number: int) -> None:  # noqa: ARG001 - jobs have an argument
        nonlocal done
        done += 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await job.batch_defer_async(*({"number": number} for number in range(options.count)))
        await connector.execute_query_async("analyze")  # as on a server that has run for a while
        meter = Meter(options.postmaster)
        await app.run_worker_async(
            concurrency=options.slots, wait=False, install_signal_handlers=False
        )
        spent = meter.read()
        finished = await app.job_manager.list_jobs_async(status="succeeded")
        assert done == options.count == len(list(finished)), f"{done} of {options.count} jobs ran"
    return {
        "count": options.count,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "server_cpu_seconds": spent.server_cpu,
        "versions": {name: version(name) for name in ("procrastinate", "psycopg")},
    }


if __name__ == "__main__":
    main()
