"""The do-it-yourself way: a trigger notifies, a listener inserts a job and claims it.

One asyncio process, two commits from notification to claim, as in walagent (intake, claim).  The
claim follows its insert on the same connection at once, so there is no second wake-up to pay.
"""

import argparse
import asyncio
import json
import time
from importlib.metadata import version

import psycopg

_SETUP = """\
create table job (
    id         bigint primary key generated always as identity,
    ticket     bigint not null unique,
    state      text not null default 'pending',
    attempts   integer not null default 0,
    lease_ends timestamptz
);
create index job_pending on job (id) where state = 'pending';
create function announce() returns trigger language plpgsql as
    'begin perform pg_notify(''ticket'', new.id::text); return null; end';
create trigger announce after insert on ticket for each row execute function announce();
"""
_INSERT = "insert into job (ticket) values (%s) on conflict do nothing"
_CLAIM = """\
update job set state = 'running', attempts = attempts + 1,
               lease_ends = clock_timestamp() + interval '30 seconds'
where id = (select id from job where state = 'pending' order by id limit 1 for update skip locked)
returning ticket
"""


def main() -> None:
    """Claim the tickets as they come, then print when each was claimed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, required=True, help="tickets that will be written")
    options = parser.parse_args()
    claimed = asyncio.run(_listen(options.url, options.count))
    print(json.dumps({"claimed": claimed, "versions": {"psycopg": version("psycopg")}}))


async def _listen(url: str, count: int) -> dict[int, float]:
    """Claim *count* tickets; for each when its claim was committed, in seconds of the epoch."""
    claimed: dict[int, float] = {}
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as listener,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as worker,
    ):
        await listener.execute(_SETUP)
        await listener.execute("listen ticket")
        print("ready", flush=True)
        async for notice in listener.notifies():
            await worker.execute(_INSERT, [int(notice.payload)])
            row = await (await worker.execute(_CLAIM)).fetchone()
            assert row is not None, f"no job for ticket {notice.payload}"
            claimed[row[0]] = time.time()
            if len(claimed) == count:
                break
    return claimed


if __name__ == "__main__":
    main()
