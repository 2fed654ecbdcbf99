"""walagent's reader and worker in one process: when each ticket's run was claimed.

The run counts as claimed when its model is asked: that is the first thing after the claim has
committed.
"""

import argparse
import asyncio
import json
import time

from psycopg import AsyncConnection

from bench.ours.parts import REPLICATION, open_worker, write_log
from walagent.agent.models.scripted.model import ScriptedModel
from walagent.app.sinks import DaemonSinks
from walagent.config.dsn import Logins, Places
from walagent.intake.settings import IntakeSettings
from walagent.message import Reply, Request
from walagent.replication.attempt import Following
from walagent.replication.reader import Reader

_TICKETS = "select id, (change #>> '{new,id}')::bigint from agent.run"


class Clock(ScriptedModel):
    """A model that notes when it was asked."""

    def __init__(self) -> None:
        super().__init__(["Done."])
        self.asked: dict[int, float] = {}

    async def complete(self, request: Request) -> Reply:
        """Answer at once."""
        self.asked[request.run_id] = time.time()
        return await super().complete(request)


def main() -> None:
    """Claim the tickets as they come, then print when each was claimed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, required=True, help="tickets that will be written")
    options = parser.parse_args()
    write_log()
    print(json.dumps({"claimed": asyncio.run(_follow(options.url, options.count))}))


async def _follow(url: str, count: int) -> dict[int, float]:
    clock, streaming = Clock(), asyncio.Event()
    async with (
        await AsyncConnection.connect(url, autocommit=True) as conn,
        open_worker(url, slots=20, model_of=lambda _: clock) as worker,
    ):
        logins = Logins(Places(url, url))
        sinks = DaemonSinks(logins.dsn, IntakeSettings(starter=worker, on_runs=worker.wake))
        reader = Reader(Following(logins, REPLICATION, sinks.open, "bench", streaming.set))
        reading = asyncio.create_task(reader.run())
        working = asyncio.create_task(worker.run())
        await streaming.wait()
        print("ready", flush=True)
        while len(clock.asked) < count:
            await asyncio.sleep(0.2)
            for part in (reading, working):
                if part.done():
                    part.result()
        reading.cancel()
        worker.stop()
        await asyncio.gather(working, asyncio.wait([reading]))
        tickets = dict(await (await conn.execute(_TICKETS)).fetchall())
    return {tickets[run]: when for run, when in clock.asked.items()}


if __name__ == "__main__":
    main()
