"""From a writer's commit to the claimed run, on an idle server."""

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import psycopg

from bench import workload
from bench.harness import OURS, Figure, Row
from bench.measure import percentile
from bench.ours.prepare import attach, scripted
from bench.scripts import run_script
from bench.server import Place

Written = dict[int, tuple[float, float]]

_COUNT = 500
_GAP = 0.02  # seconds between two inserts: each finds everybody waiting
HOST = """\
insert into agent.agent (name, model, system_prompt) values ('host', 'bench', 'You are a host.');
select agent.attach_to_threads('host')"""
_OTHERS = """\
with thread as (
    insert into agent.thread (tenant, title)
    select 'default', 'other' from generate_series(1, {count}) returning id
)
insert into agent.member (tenant, thread_id, principal) select 'default', id, 'host' from thread"""
THREADS = "select agent.open_thread('ours', '{{host}}') from generate_series(1, {count})"


def walagent(place: Place) -> Mapping[str, Any]:
    """The WAL, then intake's commit and the claim's."""
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)
    return _write_and_wait("ours/claims", place, "asked")


def trigger_and_notify(place: Place) -> Mapping[str, Any]:
    """A trigger with NOTIFY, whose listener inserts a job and claims it."""
    with psycopg.connect(place.url, autocommit=True) as conn:
        conn.execute(workload.TICKET_TABLE)
    return _write_and_wait("peers/trigger_notify", place, "claimed")


def changes(place: Place) -> Mapping[str, Any]:
    """Rows of a table, each with a run."""
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)
    with psycopg.connect(place.url, autocommit=True) as conn:
        return _both("agent", place, lambda: workload.write_slowly(conn, _COUNT, _GAP))


def conditions(place: Place, others: int = 0) -> Mapping[str, Any]:
    """A condition that holds, beside *others* on the same table that do not."""
    statement = (
        "select agent.attach('ticket', 'bench', name => 'other' || n, condition =>"
        f" format('new.id = -%s', n)) from generate_series(1, {others}) n"
    )
    also = [statement]
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers, condition="new.id > 0", also=[*also, "analyze"])
    return _write_and_wait("ours/claims", place, "claimed")


def turns(place: Place, others: int = 10) -> Mapping[str, Any]:
    """Events of as many threads, each with a turn, beside *others* with the same agent."""
    with scripted([workload.ANSWER]) as answers:
        also = [HOST, _OTHERS.format(count=others), THREADS.format(count=_COUNT)]
        attach(place.url, answers, also=[*also, "analyze"])  # as if it had run for a while
    with psycopg.connect(place.url, autocommit=True) as conn:
        threads = [
            row[0] for row in conn.execute("select id from agent.thread where title = 'ours'")
        ]
        return _both("turn", place, lambda: _post_slowly(conn, threads))


def _post_slowly(conn: psycopg.Connection, threads: Sequence[str]) -> Written:
    times: Written = {}
    for number, thread in enumerate(threads):
        time.sleep(_GAP)
        sent = time.time()
        conn.execute("select agent.post(%s, %s)", [thread, str(number)])
        times[number] = (sent, time.time())
    return times


def _both(kind: str, place: Place, write: Callable[[], Written]) -> Mapping[str, Any]:
    """When runs were claimed, and when their model was asked."""
    written: Written = {}
    options = ("--url", place.url, "--count", _COUNT, "--kind", kind)
    result = run_script("ours/claims", *options, when_ready=lambda: written.update(write()))
    found = {
        name: latencies(written, {int(n): when for n, when in result[name].items()})
        for name in ("claimed", "asked")
    }
    return found["claimed"] | {
        "asked_p50_ms": found["asked"]["p50_ms"],
        "handed_over": result["handed_over"],
    }


def _write_and_wait(script: str, place: Place, moment: str) -> Mapping[str, Any]:
    written: Written = {}
    with psycopg.connect(place.url, autocommit=True) as conn:
        result = run_script(
            script,
            *("--url", place.url, "--count", _COUNT),
            when_ready=lambda: written.update(workload.write_slowly(conn, _COUNT, _GAP)),
        )
    claimed = {int(ticket): when for ticket, when in result[moment].items()}
    return latencies(written, claimed) | {"versions": result.get("versions", {})}


def latencies(written: Written, claimed: Mapping[int, float]) -> dict[str, Any]:
    """What the writer waited for its own commit, and from there to the claim, in milliseconds.

    Args:
        written: by ticket, when the insert was sent and when its commit was acknowledged.
        claimed: by ticket, when the claim was committed.
    """
    assert written.keys() == claimed.keys()
    waits = [(claimed[ticket] - times[1]) * 1000 for ticket, times in written.items()]
    writes = [(acknowledged - sent) * 1000 for sent, acknowledged in written.values()]
    return {
        "p50_ms": percentile(waits, 0.5),
        "p99_ms": percentile(waits, 0.99),
        "write_p50_ms": percentile(writes, 0.5),
    }


ROW = Row(
    what="commit to claimed run, idle",
    beside="trigger + NOTIFY, whose listener inserts a job and claims it",
    sides={OURS: walagent, "trigger + NOTIFY": trigger_and_notify},
    figures=(
        Figure("p50_ms", over="trigger + NOTIFY", goal=1, more_is_better=False),
        Figure("p99_ms", over="trigger + NOTIFY", goal=1, more_is_better=False),
        Figure("write_p50_ms", over="trigger + NOTIFY", more_is_better=False),
    ),
)


TURN_ROW = Row(
    what="event posted to turn claimed, idle",
    beside="change committed to run claimed",
    sides={OURS: turns, "a change": changes},
    figures=(
        Figure("p50_ms", over="a change", goal=1.2, more_is_better=False),
        Figure("p99_ms", over="a change", more_is_better=False),
        Figure("asked_p50_ms", over="a change", more_is_better=False),
    ),
)


EVENT_ROW = Row(
    what="event posted to turn claimed, the agent is a member of 100,000 other threads",
    beside="of 10 other threads",
    sides={OURS: partial(turns, others=100_000), "10 threads": turns},
    figures=(
        Figure("write_p50_ms", over="10 threads", goal=1.1, more_is_better=False),
        Figure("p50_ms", over="10 threads", goal=1.1, more_is_better=False),
        Figure("asked_p50_ms", over="10 threads", goal=1.1, more_is_better=False),
    ),
)


CONDITIONS_ROW = Row(
    what="commit to claimed run, 500 conditions on the table",
    beside="one condition",
    sides={OURS: partial(conditions, others=499), "one condition": conditions},
    figures=(
        Figure("p50_ms", over="one condition", goal=3, more_is_better=False),
        Figure("p99_ms", over="one condition", more_is_better=False),
        Figure("write_p50_ms", over="one condition", goal=1.1, more_is_better=False),
    ),
)
