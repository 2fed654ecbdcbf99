"""Measure the rows of the table, all of them or those that are named.

python -m bench                   every row
python -m bench latency jobs      these
python -m bench --peers dbos      one peer alone, once: its figures, nothing is saved
python -m bench --list            what there is
"""

import argparse
import resource
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # also when run as a script, without an install

from bench.harness import Row, Side, measure, readable  # noqa: E402
from bench.report import save  # noqa: E402
from bench.rows import (  # noqa: E402
    console,
    costs,
    decode,
    durable_runs,
    embeddings,
    fleet,
    intake,
    latency,
    live,
    model_calls,
    plain_jobs,
    price,
    queues,
    tenants,
    tokens,
)
from bench.server import Server, running_server  # noqa: E402

# By the name they are called with.  A row is here once all its sides can be run.
BENCHES: dict[str, Row] = {
    "decode": decode.ROW,
    "decode_cpu": decode.CPU_ROW,
    "intake": intake.ROW,
    "corrections": intake.CORRECTIONS_ROW,
    "latency": latency.ROW,
    "turn_latency": latency.TURN_ROW,
    "event_threads": latency.EVENT_ROW,
    "conditions": latency.CONDITIONS_ROW,
    "durable": durable_runs.ROW,
    "jobs": plain_jobs.ROW,
    "tenants": tenants.ROW,
    "queues": queues.ROW,
    "fleet": fleet.ROW,
    "calls": model_calls.ROW,
    "call_rate": model_calls.RATE_ROW,
    "memory": intake.MEMORY_ROW,
    "condition": intake.CONDITION_ROW,
    "condition_repeated": intake.REPEATED_ROW,
    "tokens_classify": tokens.CLASSIFY_ROW,
    "tokens_act": tokens.ACT_ROW,
    "price": price.ROW,
    "embeddings": embeddings.ROW,
    "live": live.LATENCY,
    "live_clients": live.CLIENTS,
    "live_snapshot": live.SNAPSHOT,
    "live_shapes": live.SHAPES,
    "live_connections": live.CONNECTIONS,
    "live_intake": live.INTAKE,
    "console": console.ROW,
    **costs.ROWS,
}

PEERS: dict[str, Side] = {
    "bare_sdk": model_calls.ROW.sides["bare SDK"],
    "dbos": durable_runs.dbos,
    "debezium": decode.debezium,
    "debezium_count": decode.debezium_count,
    "pgqueuer": plain_jobs.pgqueuer,
    "procrastinate": plain_jobs.procrastinate,
    "trigger_notify": latency.trigger_and_notify,
}


def main() -> None:
    """Measure and save; exit 1 when a goal is missed."""
    options = _options()
    if options.list:
        _list()
        return
    _allow_many_files()
    with running_server(options.bindir) as server:
        if options.peers:
            _run_scripts(options.names or list(PEERS), server)
            return
        missed = _measure(options.names or list(BENCHES), server, options.rounds)
    if missed:
        sys.exit(f"goals missed in: {', '.join(missed)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Measure walagent beside others.")
    parser.add_argument("names", nargs="*", metavar="name", help="of rows; default all")
    parser.add_argument("--peers", action="store_true", help="run peers alone; names are theirs")
    parser.add_argument("--list", action="store_true", help="show the names, measure nothing")
    parser.add_argument("--rounds", type=int, help="instead of each row's own number")
    parser.add_argument("--bindir", type=Path, help="folder of the server's binaries")
    options = parser.parse_args()
    known = PEERS if options.peers else BENCHES
    if unknown := sorted(set(options.names) - set(known)):
        parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    return options


def _allow_many_files() -> None:
    """Raise the limit of open files, and so of sockets, for us and what we start."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _list() -> None:
    for name, row in BENCHES.items():
        print(f"{name:16} {row.what}, beside {row.beside}")
    for name, side in PEERS.items():
        print(f"{name:16} (peer) {(side.__doc__ or '').splitlines()[0]}")


def _run_scripts(names: list[str], server: Server) -> None:
    for name in names:
        with server.fresh_database(name) as place:
            print(f"{name}: {readable(PEERS[name](place))}", flush=True)


def _measure(names: list[str], server: Server, rounds: int | None) -> list[str]:
    """Measure and save the rows; the names of those that missed a goal."""
    missed: list[str] = []
    for name in names:
        result = measure(name, BENCHES[name], server, rounds=rounds)
        save(result)
        if any(figure["met"] is False for figure in result["figures"]):
            missed.append(name)
    return missed


if __name__ == "__main__":
    main()
