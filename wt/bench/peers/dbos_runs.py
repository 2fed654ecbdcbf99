# /// script
# dependencies = ["dbos==3.4.0", "psycopg[binary]==3.3.9"]
# ///
# The type checker does not see the packages of this script's own environment.
# pyright: reportMissingImports=false
"""DBOS: durable runs of two model replies and one SQL tool, from queued to finished.

The workflows are queued before the clock starts; it runs from the first one's start to the last
one's recorded end.
"""

import argparse
import json
import time
from importlib.metadata import version

import sqlalchemy as sa
from dbos import DBOS, DBOSClient, DBOSConfig, SQLAlchemyDatasource

from bench import workload
from bench.measure import Meter, Spent

_NAME = "bench"
_QUEUE = "tickets"
_POLL = 0.02  # seconds; with DBOS's default of 1 s its slots would stand idle
_DONE = sa.text("select count(*) from dbos.workflow_status where status = 'SUCCESS'")
_WORKED = sa.text("select count(*) from ticket where priority = :priority")


def main() -> None:
    """Queue the runs, work them, print what it took."""
    options = _options()
    url = options.url.replace("postgresql://", "postgresql+psycopg://", 1)
    config: DBOSConfig = {
        "name": _NAME,
        "system_database_url": url,
        "sys_db_pool_size": options.slots,
        "max_executor_threads": options.slots,
        "log_level": "ERROR",
    }
    DBOS(config=config)
    source = SQLAlchemyDatasource.create(url, {"pool_size": options.slots})
    _insert_tickets(source, options.count)
    meter = Meter(options.postmaster)
    workflow = _workflow(source, meter)
    DBOS.launch()
    try:
        _queue(url, workflow, options.count)
        _analyze(source)
        DBOS.register_queue(_QUEUE, worker_concurrency=options.slots, polling_interval_sec=_POLL)
        _wait(source, options.count)
        spent = meter.read()
        _check(source, options.count)
    finally:
        DBOS.destroy()
    print(json.dumps(_figures(spent, options.count)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--slots", type=int, default=20)
    return parser.parse_args()


def _workflow(source: SQLAlchemyDatasource, meter: Meter) -> str:
    """Register the run.  As threads: with coroutines DBOS took more CPU, and was slower."""
    started = False

    @DBOS.step()
    def ask_model(turn: int) -> dict:
        if turn:
            return {"text": workload.ANSWER}
        return {
            "text": workload.THOUGHT,
            "call": {"name": workload.TOOL, "arguments": workload.ARGUMENTS},
        }

    @source.transaction(isolation_level="READ COMMITTED")
    def set_priority(ticket: int, priority: str) -> str:
        source.sql_session().execute(
            sa.text("update ticket set priority = :priority where id = :id"),
            {"priority": priority, "id": ticket},
        )
        return f"ticket {ticket} is now {priority}"

    @DBOS.workflow(name="run")
    def run(ticket: int) -> str:
        nonlocal started
        if not started:
            started = True
            meter.restart()
        reply = ask_model(0)
        set_priority(ticket, **reply["call"]["arguments"])
        return ask_model(1)["text"]

    return "run"


def _insert_tickets(source: SQLAlchemyDatasource, count: int) -> None:
    with source.engine.begin() as conn:
        conn.execute(sa.text(workload.TICKET_TABLE))
        conn.execute(
            sa.text("insert into ticket (subject, body) select :s, :b from generate_series(1, :n)"),
            {"s": workload.SUBJECT, "b": workload.BODY, "n": count},
        )


def _queue(url: str, workflow: str, count: int) -> None:
    client = DBOSClient(system_database_url=url, application_name=_NAME)
    for ticket in range(1, count + 1):
        client.enqueue({"queue_name": _QUEUE, "workflow_name": workflow}, ticket)
    client.destroy()


def _analyze(source: SQLAlchemyDatasource) -> None:
    """Let the planner know the tables, as on a server that has run for a while."""
    with source.engine.begin() as conn:
        conn.execute(sa.text("analyze"))


def _wait(source: SQLAlchemyDatasource, count: int) -> None:
    while True:
        with source.engine.begin() as conn:
            if conn.execute(_DONE).scalar() == count:
                return
        time.sleep(0.05)


def _check(source: SQLAlchemyDatasource, count: int) -> None:
    with source.engine.begin() as conn:
        worked = conn.execute(_WORKED, {"priority": workload.PRIORITY}).scalar()
    assert worked == count, f"{worked} of {count} tickets were worked"


def _figures(spent: Spent, count: int) -> dict:
    return {
        "count": count,
        "seconds": spent.wall,
        "cpu_seconds": spent.cpu,
        "server_cpu_seconds": spent.server_cpu,
        "versions": {name: version(name) for name in ("dbos", "sqlalchemy", "psycopg")},
    }


if __name__ == "__main__":
    main()
