"""walagent's reader and worker in one process: when the run of each ticket or event was claimed.

The run counts as claimed when intake hands it over to the worker, after the commit that inserts
and claims it.  Then a run of a change asks its model at once, and a turn reads its thread first.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from typing import LiteralString

from psycopg import AsyncConnection

from bench.ours.parts import REPLICATION, open_worker, write_log
from walagent.app.sinks import DaemonSinks
from walagent.config.dsn import Logins, Places
from walagent.domain.run import Claim
from walagent.intake.settings import IntakeSettings
from walagent.message import Reply, Request
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.replication.attempt import Following
from walagent.replication.reader import Reader
from walagent.runs.worker import Worker
from walagent.store.ingestion import Start

# By kind, runs with what they are about: a ticket's ID, or the number that an event says.
_TICKETS: dict[str, LiteralString] = {
    "agent": "select id, (change #>> '{new,id}')::bigint from agent.run where kind = 'agent'",
    "turn": """\
select r.id, (e.data ->> 'text')::bigint
  from agent.run r
       join agent.event e on e.thread_id = r.ordering_key::uuid
                         and e.type = 'text' and e.run_id is null
 where r.kind = 'turn'""",
}


class Clock(ScriptedModel):
    """A model that notes when it was asked."""

    def __init__(self) -> None:
        super().__init__(["Done."])
        self.asked: dict[int, float] = {}

    async def complete(self, request: Request) -> Reply:
        """Answer at once."""
        self.asked[request.run_id] = time.time()
        return await super().complete(request)


class Claims:
    """A worker that notes which runs intake hands over, and when."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self.claimed: dict[int, float] = {}

    def offer(self) -> Start | None:
        """Return what the worker can start."""
        return self._worker.offer()

    def start(self, claims: Sequence[Claim]) -> None:
        """Start them."""
        self.claimed |= dict.fromkeys((claim.run_id for claim in claims), time.time())
        self._worker.start(claims)


def main() -> None:
    """Claim the runs as they come, then print when each was claimed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, required=True, help="runs that will be started")
    parser.add_argument("--kind", choices=_TICKETS, default="agent", help="of the runs")
    options = parser.parse_args()
    write_log()
    print(json.dumps(asyncio.run(_follow(options.url, options.count, _TICKETS[options.kind]))))


async def _follow(url: str, count: int, about: LiteralString) -> Mapping[str, object]:
    clock, streaming = Clock(), asyncio.Event()
    async with (
        await AsyncConnection.connect(url, autocommit=True) as conn,
        open_worker(url, slots=20, model_of=lambda _: clock) as worker,
    ):
        claims = Claims(worker)
        logins = Logins(Places(url, url))
        sinks = DaemonSinks(logins.dsn, IntakeSettings(starter=claims, on_runs=worker.wake))
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
        tickets = dict(await (await conn.execute(about)).fetchall())
    # A run that another claim took, for the worker was busy, counts when its model was asked.
    claimed = clock.asked | claims.claimed
    return {
        "claimed": {tickets[run]: when for run, when in claimed.items()},
        "asked": {tickets[run]: when for run, when in clock.asked.items()},
        "handed_over": len(claims.claimed) / count,
    }


if __name__ == "__main__":
    main()
