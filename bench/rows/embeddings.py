"""A column that holds embeddings: rows a second, by runs and by a loop that one writes by hand."""

from collections.abc import Mapping
from typing import Any

import psycopg

from bench import workload
from bench.harness import OURS, Figure, Row, rates
from bench.ours.prepare import install, queue_runs
from bench.rows.model_calls import running_provider
from bench.scripts import run_script
from bench.server import Place
from walagent.testing.provider import CREDENTIAL, KEY

_COUNT = 4000
_SLOTS = 64  # as many texts as a request takes
_LATENCY = 0.1  # seconds of a request
_COLUMN = "alter table ticket add embedding real[], replica identity full"
_EMBED = "select agent.embed('ticket', '{subject,body}', 'embedding', 'bench')"
_MODEL = (
    "insert into agent.model (name, provider, model_id, base_url, credential, dimensions,"
    " context_window, input_price, output_price)"
    " values ('bench', 'openai', 'bench', %s, %s, 8, 8192, 0.02, 0)"
)


def walagent(place: Place) -> Mapping[str, Any]:
    """A run for each row, recorded, written once; requests of up to 64 texts."""
    with running_provider(_LATENCY) as base_url:
        install(place.url)
        with psycopg.connect(place.url, autocommit=True) as conn:
            conn.execute(_COLUMN)
            conn.execute(_MODEL, [f"{base_url}/v1", CREDENTIAL])
            conn.execute(_EMBED)
        queue_runs(place.url, _COUNT)
        result = run_script(
            "ours/drain",
            *("--url", place.url, "--postmaster", place.postmaster),
            *("--slots", _SLOTS, "--count", _COUNT),
            environ={CREDENTIAL: KEY},
        )
    return rates(result) | {"left": _left(place)}


def loop(place: Place) -> Mapping[str, Any]:
    """One request after the other, and nothing but the rows."""
    with running_provider(_LATENCY) as base_url:
        with psycopg.connect(place.url, autocommit=True) as conn:
            conn.execute(workload.TICKET_TABLE)
            conn.execute(_COLUMN)
            workload.insert_tickets(conn, _COUNT)
        result = run_script(
            "peers/embed_loop",
            *("--url", place.url, "--postmaster", place.postmaster, "--count", _COUNT),
            *("--base-url", f"{base_url}/v1", "--api-key", KEY),
        )
    return rates(result) | {"left": _left(place)}


def _left(place: Place) -> int:
    """Return the number of rows without an embedding."""
    with psycopg.connect(place.url) as conn:
        return len(conn.execute(workload.LACK_EMBEDDING, [_COUNT]).fetchall())


ROW = Row(
    what="rows embedded a second by a provider that takes 0.1 s, up to 64 in a request",
    beside="a loop by hand, one request after the other",
    sides={OURS: walagent, "loop": loop},
    figures=(
        Figure("per_second", over="loop", goal=0.5),
        Figure("server_cpu_ms", over="loop", more_is_better=False),
        Figure("left", over=None, goal=0, more_is_better=False, unit="rows"),
    ),
    rounds=3,
)
