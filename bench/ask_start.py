"""How long `walagent ask` takes from its start to its first request to a model.

Prints seconds of wall time and of CPU, as JSON.  The provider is the fake one, in this process; the
database is an embedded one.  The question ends with the first request.

    python bench/ask_start.py --rounds 20
    python bench/ask_start.py --source ../other/src      # the same of another checkout
"""

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, Process
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psycopg

from bench.measure import cpu
from walagent.embedded.server import EmbeddedServer
from walagent.message import Request
from walagent.store.install.migrate import migrate
from walagent.store.sessions.connections import connect
from walagent.testing import FakeProvider, Fault

SCHEMA = """
create table customer (id bigint primary key, name text not null, country text not null);
create table invoice (id bigint primary key, customer_id bigint not null references customer);
insert into customer select i, 'c' || i, 'CH' from generate_series(1, 100) i;
create role analyst;
grant usage on schema public to analyst;
revoke create on schema public from public;
grant select on all tables in schema public to analyst;
delete from agent.model;
"""
MODEL = """
insert into agent.model (name, provider, model_id, base_url, credential)
values ('m', %(provider)s, 'm', %(base_url)s, 'SHOP_API_KEY')
"""
_PATIENCE = 60.0  # seconds until the request must be there


@dataclass(frozen=True, slots=True)
class Start:
    """What it took from the start of the process to its first request, in seconds."""

    wall: float
    cpu: float


class Clock:
    """Starts the command, and reads the clock when its request arrives."""

    def __init__(self, dsn: str, source: Path, folder: Path) -> None:
        self._dsn = dsn
        self._source = source
        self._folder = folder
        self._arrived: asyncio.Future[Start] | None = None
        self._process: Process | None = None
        self._began = 0.0

    def answer(self, _request: Request) -> Fault:
        """Read the clock, and let the model be silent: the process is killed anyway."""
        now = time.monotonic()
        if self._arrived is not None and self._process is not None and not self._arrived.done():
            self._arrived.set_result(Start(now - self._began, cpu(self._process.pid)))
        return Fault(stall=3600.0)

    async def start(self, key: str) -> Start:
        """Ask one question, up to its first request."""
        environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(self._source),
            "HOME": str(self._folder),
            "DATABASE_URL": self._dsn,
            "SHOP_API_KEY": key,
        }
        self._arrived = asyncio.get_running_loop().create_future()
        self._began = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "walagent", "ask", "How many customers are there?"),
            cwd=self._folder, env=environment, stdout=DEVNULL, stdin=DEVNULL,
        )  # fmt: skip
        try:
            return await asyncio.wait_for(self._arrived, _PATIENCE)
        finally:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()


async def measure(source: Path, provider: str, rounds: int) -> list[Start]:
    """Start the command *rounds* times, after one start that fills the caches."""
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        folder = Path(name)
        server = EmbeddedServer(folder / "data")
        await server.start()
        try:
            clock = Clock(server.dsn(), source, folder)
            (folder / "agents.yaml").write_text("ask: {role: analyst, connections: 1}\n")
            async with FakeProvider([clock.answer] * 2, keep=False) as fake:
                await _prepare(server.dsn(), str(fake.spec(provider).base_url), provider)
                return [await clock.start(fake.key) for _ in range(rounds + 1)][1:]
        finally:
            await server.stop()


async def _prepare(dsn: str, base_url: str, provider: str) -> None:
    async with await connect(dsn, application="bench") as conn:
        await migrate(conn)
    with psycopg.connect(dsn, autocommit=True) as admin:
        admin.execute(SCHEMA)
        admin.execute(MODEL, {"provider": provider, "base_url": base_url})


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--provider", default="openai")
    parser.add_argument("--source", type=Path, default=Path(__file__).parents[1] / "src")
    options = parser.parse_args()
    found = asyncio.run(measure(options.source.resolve(), options.provider, options.rounds))
    walls, cpus = [start.wall for start in found], [start.cpu for start in found]
    figures = {
        "provider": options.provider,
        "rounds": options.rounds,
        "wall": {"median": round(median(walls), 3), "least": round(min(walls), 3)},
        "cpu": {"median": round(median(cpus), 3), "least": round(min(cpus), 3)},
    }
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
