"""The console beside a database of many runs, in Chromium."""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psycopg

from bench import workload
from bench.harness import OURS, Figure, Row
from bench.ours.prepare import attach, queue_runs, scripted
from bench.scripts import BENCH, ROOT, environment
from bench.server import Place

_RUNS = 1_000_000
_FILL = """
insert into agent.run
    (kind, reason, queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
     key, change, state, error, tokens, cost, committed_at, created_at, finished_at)
select r.kind, r.reason, r.queue_id, r.attachment_id, r.attachment_version, r.generation,
       '0/1'::pg_lsn + n, 0, n::text,
       r.change || jsonb_build_object(
           'new', r.change -> 'new' || jsonb_build_object('id', n, 'subject', 'Ticket ' || n)),
       case when n %% 97 = 0 then 'failed' when n %% 1009 = 0 then 'dead'
            else 'succeeded' end::agent.run_state,
       case when n %% 97 = 0 or n %% 1009 = 0
            then jsonb_build_object('reason', 'refused by rule ' || n %% 7) end,
       1200 + n %% 300, 0.001, at, at, at + interval '2 seconds'
  from (select * from agent.run limit 1) r
       cross join (select n, now() - (%(runs)s - n) * interval '1 second' as at
                     from generate_series(1, %(runs)s) n) made
"""
_CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def page(runs: int, place: Place) -> Mapping[str, Any]:
    """Open the console and scroll its list of runs."""
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)
        queue_runs(place.url, 1)
        with psycopg.connect(place.url, autocommit=True) as conn:
            conn.execute("select agent.cancel(id) from agent.run")
            conn.execute("set session_replication_role = replica")  # no trigger for each run
            if runs > 1:
                conn.execute(_FILL, {"runs": runs - 1})
            conn.execute("vacuum analyze")
        with _daemon(place) as link:
            given = json.dumps({"link": link, "chromium": _CHROMIUM})
            command = ["node", str(BENCH / "ours" / "console.mjs"), given]
            found = subprocess.run(
                command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT / "tests" / "web"
            )
    return json.loads(found.stdout)


@contextmanager
def _daemon(place: Place) -> Iterator[str]:
    """Run `walagent run` with its console; yield the link that it prints."""
    command = [sys.executable, "-m", "walagent", "run", "--dsn", place.url, "--http", "0", "--link"]
    with tempfile.TemporaryDirectory() as folder:
        kept = {**environment(), "HOME": folder}
        Path(folder, "agents.yaml").write_text("{}\n")
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env=kept, cwd=folder
        ) as process:
            assert process.stdout is not None
            try:
                yield process.stdout.readline().strip().removeprefix("console: ")
            finally:
                process.terminate()


ROW = Row(
    what=f"console with {_RUNS} runs",
    beside="with one run",
    sides={OURS: partial(page, _RUNS), "one": partial(page, 1)},
    figures=(
        Figure("first_ms", over=None, goal=1000, more_is_better=False, unit="ms"),
        Figure("runs_ms", over=None, goal=1000, more_is_better=False, unit="ms"),
        Figure("frames", over=None, goal=55, unit="a second"),
    ),
    rounds=1,
)
