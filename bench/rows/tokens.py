"""Input tokens per row: what the provider's server received, in the bodies that the SDK sent.

Counted at 4 bytes a token, so that the number is the same on each machine; providers' own counts
differ by a few percent.
"""

import asyncio
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg

from bench import workload
from bench.harness import OURS, Figure, Row
from bench.ours.prepare import Answers, attach, queue_runs
from bench.scripts import run_script
from bench.server import Place
from walagent.testing import FakeProvider, call
from walagent.testing.provider import CREDENTIAL, KEY

_ROWS = 20
_BYTES = 4  # of a token
_WRITE = call("update_row", priority=workload.PRIORITY)
_ACT = call("set_priority", priority=workload.PRIORITY)


def classify(finish: str, place: Place) -> Mapping[str, Any]:
    """An agent that writes one column of its row."""
    return _measure(place, [_WRITE, workload.ANSWER], (), f"finish = '{finish}'", ["priority"])


def act(finish: str, place: Place) -> Mapping[str, Any]:
    """An agent that calls a SQL function, which it must call first."""
    choice = f"finish = '{finish}', tool_choice = 'set_priority'"
    return _measure(place, [_ACT, workload.ANSWER], ("set_priority",), choice, [])


def _measure(
    place: Place, replies: Sequence[Any], tools: Sequence[str], agent: str, writes: list[str]
) -> Mapping[str, Any]:
    with _provider(replies) as provider:
        base_url = f"http://127.0.0.1:{provider.port}"
        attach(place.url, Answers("anthropic", base_url, CREDENTIAL), tools=tools)
        with psycopg.connect(place.url) as conn:
            conn.execute("update agent.attachment set writes = %s", [writes])
            conn.execute(f"update agent.agent set {agent}".encode())
        queue_runs(place.url, _ROWS)
        run_script(
            "ours/drain",
            *("--url", place.url, "--postmaster", place.postmaster),
            *("--slots", 5, "--count", _ROWS),
            environ={CREDENTIAL: KEY},
        )
        bodies = [received.body for received in provider.received]
    return {
        "input_tokens": sum(map(_tokens, bodies)) / _ROWS,
        "prefix_tokens": _tokens({**bodies[0], "messages": []}),
        "calls": len(bodies) / _ROWS,
    }


def _tokens(body: Mapping[str, Any]) -> float:
    """Count what a model reads of a request."""
    parts = [body.get(name) or "" for name in ("tools", "system", "messages")]
    return sum(len(json.dumps(part).encode()) for part in parts) / _BYTES


@contextmanager
def _provider(replies: Sequence[Any]) -> Iterator[FakeProvider]:
    """Run a provider on an event loop of its own."""
    provider, loop = FakeProvider(replies), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(provider.start(), loop).result()
        yield provider
        asyncio.run_coroutine_threadsafe(provider.stop(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


_BESIDE = "the same agent with finish=answer"
_FIGURES = (
    Figure("input_tokens", over=_BESIDE, goal=0.5, more_is_better=False),
    Figure("input_tokens", over=None, more_is_better=False, unit="tokens"),
    Figure("prefix_tokens", over=None, more_is_better=False, unit="tokens"),
)

CLASSIFY_ROW = Row(
    what="input tokens per row, classify and write one column",
    beside=_BESIDE,
    sides={OURS: partial(classify, "after_call"), _BESIDE: partial(classify, "answer")},
    figures=_FIGURES,
    rounds=1,
)

ACT_ROW = Row(
    what="input tokens per row, act: one SQL function",
    beside=_BESIDE,
    sides={OURS: partial(act, "after_call"), _BESIDE: partial(act, "answer")},
    figures=_FIGURES,
    rounds=1,
)
