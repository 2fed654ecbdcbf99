"""Runs a second of two worker processes over sixteen queues, beside one queue."""

from collections.abc import Mapping
from typing import Any

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import attach, queue_runs, scripted
from bench.scripts import run_script
from bench.server import Place

_COUNT = 5000
_PROCESSES = 2
_QUEUES = 16
_ATTACH = (
    "select agent.attach('ticket', 'bench', name => 'queue{n}', system_prompt => 'Be kind.',"
    " condition => 'new.id % {of} = {n}')"
)


def sixteen(place: Place) -> Mapping[str, Any]:
    """Sixteen attachments, each with a sixteenth of the runs."""
    return _drain(place, _QUEUES)


def one(place: Place) -> Mapping[str, Any]:
    """One attachment with all of them."""
    return _drain(place, 1)


def _drain(place: Place, queues: int) -> Mapping[str, Any]:
    with scripted([workload.ANSWER]) as answers:
        others = [_ATTACH.format(n=n, of=queues) for n in range(1, queues)]
        attach(place.url, answers, condition=f"new.id % {queues} = 0", also=others)
        queue_runs(place.url, _COUNT)
        return rates(
            run_script(
                "ours/drain_beside",
                *("--url", place.url, "--postmaster", place.postmaster),
                *("--count", _COUNT, "--processes", _PROCESSES),
            )
        )


ROW = Row(
    what="runs of one reply a second, of two worker processes over 16 queues",
    beside="the same over one queue",
    sides={OURS: sixteen, "one queue": one},
    figures=(Figure("per_second", over="one queue", goal=0.9),),
)
