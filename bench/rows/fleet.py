"""Thirty-two worker processes on two servers, beside the formula that docs/scale.md plans with."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import Answers, attach, queue_runs, scripted
from bench.scripts import run_script
from bench.server import Place, running_server

_SERVERS, _PROCESSES, _SLOTS = 2, 16, 5  # processes of each server, slots of each process
_SECONDS = 3.0  # of the model's reply
_WARM, _COUNT = 600, 1800  # runs of each server: that end before it is measured, and in all


def fleet(place: Place) -> Mapping[str, Any]:
    """Each server has its own database, reader's checkpoint and workers."""
    with ExitStack() as stack:
        answers = stack.enter_context(scripted([workload.ANSWER], _SECONDS))
        places = [place]
        for number in range(1, _SERVERS):
            server = stack.enter_context(running_server())
            places.append(stack.enter_context(server.fresh_database(f"bench_fleet_{number}")))
        for each in places:
            _prepare(each, answers)
        with ThreadPoolExecutor(len(places)) as side_by_side:
            found = list(side_by_side.map(_drain, places))
    return {"per_second": sum(each["per_second"] for each in found), "versions": {}}


def formula(_: Place) -> Mapping[str, Any]:
    """Slots over the seconds of a reply, while nothing else is short."""
    return {"per_second": _SERVERS * _PROCESSES * _SLOTS / _SECONDS}


def _prepare(place: Place, answers: Answers) -> None:
    attach(place.url, answers)
    queue_runs(place.url, _COUNT)


def _drain(place: Place) -> dict[str, Any]:
    return rates(
        run_script(
            "ours/drain_beside",
            *("--url", place.url, "--postmaster", place.postmaster),
            *("--count", _COUNT, "--warm", _WARM),
            *("--processes", _PROCESSES, "--slots", _SLOTS),
        )
    )


ROW = Row(
    what=f"runs of one reply of {_SECONDS:g} s a second, {_SERVERS * _PROCESSES} worker processes"
    f" with {_SLOTS} slots each on {_SERVERS} servers",
    beside="slots / seconds of a reply",
    sides={OURS: fleet, "the formula": formula},
    figures=(
        Figure("per_second", over="the formula", goal=0.9),
        Figure("per_second", over=None, unit="runs"),
    ),
    rounds=1,
)
