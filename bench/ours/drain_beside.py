"""walagent's worker processes: they work the runs that are queued, to the last one's end."""

import argparse
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from bench.measure import Meter
from bench.scripts import environment

_ENDED = "select count(*) from agent.run where agent_internal.is_final(state)"
_SETTINGS = "workers: {{slots: {slots}, connections: 8}}\nhttp: {{port: 0}}\n"
_LONGEST = 300.0  # seconds


def main() -> None:
    """Work the queues empty and print what it took since some of the runs had ended."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--count", type=int, required=True, help="runs that are queued")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--slots", type=int, default=20, help="of each process")
    parser.add_argument("--warm", type=int, default=1, help="runs that end before it is measured")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(_drain(options, Path(folder))))


def _drain(options: argparse.Namespace, folder: Path) -> dict[str, object]:
    settings = folder / "agents.yaml"
    settings.write_text(_SETTINGS.format(slots=options.slots))
    command = [sys.executable, "-m", "walagent", "serve", "worker", "--config", str(settings)]
    command += ["--processes", str(options.processes)]
    env = {**environment(), "DATABASE_URL": options.url, "HOME": str(folder)}
    with (
        (folder / "log").open("w+") as said,
        psycopg.connect(options.url, autocommit=True) as conn,
        subprocess.Popen(command, env=env, cwd=folder, stdout=said, stderr=said) as workers,
    ):
        try:
            first = _wait(conn, workers, options.warm)
            meter = Meter(options.postmaster)
            last = _wait(conn, workers, options.count)
            spent = meter.read()
        except RuntimeError as error:
            raise RuntimeError((folder / "log").read_text()[-2000:]) from error
        finally:
            workers.send_signal(signal.SIGTERM)
            workers.wait(30)
    return {
        "count": last - first,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "server_cpu_seconds": spent.server_cpu,
    }


def _wait(conn: psycopg.Connection, workers: subprocess.Popen[bytes], ended: int) -> int:
    """Wait until so many runs have ended; return how many have."""
    begun = time.monotonic()
    while True:
        row = conn.execute(_ENDED).fetchone()
        assert row is not None
        if row[0] >= ended:
            return row[0]
        if workers.poll() is not None or time.monotonic() - begun > _LONGEST:
            raise RuntimeError
        time.sleep(0.02)


if __name__ == "__main__":
    main()
