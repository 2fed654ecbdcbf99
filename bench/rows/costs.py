"""What a run costs the user's server, in counts: of each kind, one at a time and many at once.

The daemon is `walagent run` with its defaults, connected through a relay that counts round trips.
Beside each figure is what it was before costs were counted, in `bench/costs_before.json`.

What the daemon checks every few seconds is counted, too: the slower the machine, the more of it
falls on each run.  How many runs share a commit under load depends on the machine as well; the rest
does not.  Buffers are in the samples, for most are read by those checks.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, LiteralString
from urllib.parse import urlsplit

import psycopg

from bench import workload
from bench.counting import Counting, Counts, count, listing
from bench.harness import OURS, Figure, Row
from bench.ours.prepare import attach, scripted
from bench.relay import relay_to
from bench.rows.latency import HOST, THREADS
from bench.scripts import BENCH, environment
from bench.server import Place
from walagent.ask.answering import open_asker
from walagent.ask.asking import Asker
from walagent.ask.options import Options
from walagent.config import AskSettings
from walagent.config.dsn import Places

_RUNS = 100  # of each way
_WARM = 20  # before: plans are made, definitions read
_CALL = {"call": workload.TOOL, "arguments": workload.ARGUMENTS}
_DURABLE = [[workload.THOUGHT, _CALL], _CALL, workload.ANSWER]
_PLAN = {
    "call": "plan",
    "arguments": {
        "reasoning": "Count them.",
        "steps": [
            {
                "id": "all",
                "type": "SQL",
                "description": "all tickets",
                "tool_input": {"query": "select count(*) as tickets from ticket"},
            }
        ],
    },
}
_SAY = {"call": "answer", "arguments": {"text": "There are some.", "caveats": []}}
_ANALYST = "bench_analyst"
_ENDED: LiteralString = """\
select count(*) >= %s and bool_and(state = 'succeeded')
  from agent.run where kind = %s and agent_internal.is_final(state)
"""
_CONTENT: LiteralString = """\
select avg(octet_length(r.change::text) + octet_length(s.content))::bigint
  from agent.run r
       join (select run_id, string_agg(content::text, '') as content from agent.step group by 1) s
         on s.run_id = r.id
 where r.kind = %s
"""
_INSERT: LiteralString = (
    "insert into ticket (subject, body) select %s, %s from generate_series(1, %s)"
    " returning (select count(*) from agent.run)"
)
_POST: LiteralString = """\
select count(agent.post(id, 'Good morning.'))
  from (select id from agent.thread order by created_at, id offset %s limit %s) t
"""
Found = dict[str, Any]


@dataclass(slots=True)
class _Site:
    """A database with a running daemon, and what counts there."""

    counting: Counting
    kind: str
    done: int = 0

    def work(self, write: Callable[[int, int], object], runs: int) -> int:
        """Let *runs* be started at once, and wait for their ends."""
        write(self.done, runs)
        self.done += runs
        self.counting.until(_ENDED, self.done, self.kind)
        return runs

    def one_by_one(self, write: Callable[[int, int], object], runs: int) -> int:
        """The same, each after the end of the one before."""
        for _ in range(runs):
            self.work(write, 1)
        return runs

    def measure(self, write: Callable[[int, int], object]) -> Found:
        """Count both ways."""
        self.one_by_one(write, _WARM)
        found = _named("alone", *count(self.counting, lambda: self.one_by_one(write, _RUNS)))
        return found | _named("load", *count(self.counting, lambda: self.work(write, _RUNS)))


def replies(place: Place) -> Mapping[str, Any]:
    """Runs of one reply."""
    return _changes(place, [workload.ANSWER])


def durable(place: Place) -> Mapping[str, Any]:
    """Runs with two tool calls, each after a reply, and a last one."""
    return _changes(place, _DURABLE)


def turns(place: Place) -> Mapping[str, Any]:
    """Events of as many threads, each with a turn."""
    threads = THREADS.format(count=2 * _RUNS + _WARM)
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers, also=[HOST, threads, "analyze"])
        with _site(place, "turn") as site:
            found = site.measure(lambda at, n: site.counting.write(_POST, at, n))
            return _with_content(site, found)


def questions(place: Place) -> Mapping[str, Any]:
    """Questions with a plan of one statement, one at a time."""
    with scripted([_PLAN, _SAY]) as answers:
        attach(place.url, answers)
        with psycopg.connect(place.url, autocommit=True) as conn:
            conn.execute(f"drop role if exists {_ANALYST}; create role {_ANALYST}".encode())
            conn.execute(f"grant select on ticket to {_ANALYST}".encode())
            conn.execute("revoke create on schema public from public")
        try:
            with _counted(place) as (counting, dsn):
                return asyncio.run(_ask(_Site(counting, "question"), dsn))
        finally:
            with psycopg.connect(place.url, autocommit=True) as conn:
                conn.execute(f"drop owned by {_ANALYST}; drop role {_ANALYST}".encode())


async def _ask(site: _Site, dsn: str) -> Found:
    settings = AskSettings(role=_ANALYST, connections=1)
    async with open_asker(Places(dsn, dsn), settings, Options(), model="bench") as asker:
        await _questions(asker, "warm", _WARM)
        site.counting.restart()
        await _questions(asker, "bench", _RUNS)
        found = _named("alone", site.counting.read(), _RUNS)
        return _with_content(site, found)


async def _questions(asker: Asker, name: str, number: int) -> None:
    for n in range(number):
        await asker.ask("How many tickets are there?", f"{name} {n}")


def idle(place: Place) -> Mapping[str, Any]:
    """A daemon that has nothing to do, for a minute."""
    seconds = 60
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)
        with _site(place, "agent") as site:
            site.work(lambda _, n: _insert(site.counting, n), 1)
            site.counting.until("select pg_sleep(45) is not null")  # and the position is written

            def rest() -> int:
                site.counting.until("select pg_sleep(%s) is not null", seconds)
                return seconds

            return _named("idle", *count(site.counting, rest))


def _changes(place: Place, script: list[Any]) -> Found:
    tools = [workload.TOOL] if len(script) > 1 else []
    with scripted(script) as answers:
        attach(place.url, answers, tools=tools)
        with _site(place, "agent") as site:
            return _with_content(site, site.measure(lambda _, n: _insert(site.counting, n)))


def _insert(counting: Counting, number: int) -> None:
    counting.write(_INSERT, workload.SUBJECT, workload.BODY, number)


def _with_content(site: _Site, found: Found) -> Found:
    """Add the bytes of what the runs are about: change, replies, calls and results."""
    content = int(site.counting.value(_CONTENT, site.kind))
    ratios = {
        f"{way}_wal_of_content": found[name] / content
        for way in ("alone", "load")
        if (name := f"{way}_wal_bytes") in found
    }
    return found | ratios | {"content_bytes": content}


def _named(way: str, counts: Counts, runs: int) -> Found:
    figures = {f"{way}_{name}": value for name, value in counts.each(runs).items()}
    return figures | {f"{way}_by": listing(counts, runs)}


@contextmanager
def _counted(place: Place) -> Iterator[tuple[Counting, str]]:
    server = urlsplit(place.tcp_url)
    with relay_to(server.hostname or "127.0.0.1", server.port or 5432) as relay:
        counting = Counting(place.url, relay)
        try:
            dsn = server._replace(
                netloc=f"{server.username}:{server.password}@127.0.0.1:{relay.port}",
                query="sslmode=disable&gssencmode=disable",
            ).geturl()
            yield counting, dsn
        finally:
            counting.close()


@contextmanager
def _site(place: Place, kind: str) -> Iterator[_Site]:
    """Run `walagent run`, until the block ends."""
    with _counted(place) as (counting, dsn), tempfile.TemporaryDirectory() as folder:
        Path(folder, "agents.yaml").write_text(json.dumps({"http": {"port": 0}}) + "\n")
        command = [sys.executable, "-m", "walagent", "run", "--no-link", "--dsn", dsn]
        kept = {**environment(), "HOME": folder}
        with subprocess.Popen(command, env=kept, cwd=folder, stderr=subprocess.DEVNULL) as process:
            try:
                counting.until(
                    "select count(*) = 1 from pg_replication_slots"
                    " where active and database = current_database()"
                )
                counting.until("select count(*) = 1 from agent.worker")
                yield _Site(counting, kind)
            finally:
                process.terminate()


_KINDS: Mapping[str, tuple[str, Callable[[Place], Mapping[str, Any]], tuple[str, ...]]] = {
    "reply": ("a run of one reply", replies, ("alone", "load")),
    "durable": ("a run with two SQL calls between three replies", durable, ("alone", "load")),
    "turn": ("a turn of one reply", turns, ("alone", "load")),
    "question": ("a question of one statement", questions, ("alone",)),
}
_SHOWN = {
    "round_trips": "",
    "statements": "",
    "commits": "",
    "wal_bytes": "bytes",
    "wal_of_content": "",
    "index_entries": "",
    "not_hot": "rows",
}
_GOALS = {
    ("cost_reply", "load_commits"): 0.1,
    ("cost_durable", "load_commits"): 1.5,
    ("cost_reply", "load_wal_of_content"): 2,
    ("cost_durable", "load_wal_of_content"): 2,
    ("cost_idle", "idle_statements"): 1,
    ("cost_idle", "idle_wal_bytes"): 0,
}
_BEFORE = json.loads((BENCH / "costs_before.json").read_text())


def _figure(row: str, name: str, unit: str = "") -> Figure:
    was = f"{_BEFORE['rows'][row][name]:g} at {_BEFORE['commit']}"
    goal = _GOALS.get((row, name))
    return Figure(name, over=None, goal=goal, more_is_better=False, unit=unit, beside=was)


def _row(
    row: str, what: str, side: Callable[[Place], Mapping[str, Any]], ways: tuple[str, ...]
) -> Row:
    figures = (_figure(row, f"{way}_{name}", unit) for way in ways for name, unit in _SHOWN.items())
    return Row(f"cost of {what}", "before", {OURS: side}, tuple(figures), rounds=1)


ROWS: Mapping[str, Row] = {
    f"cost_{kind}": _row(f"cost_{kind}", *given) for kind, given in _KINDS.items()
} | {
    "cost_idle": Row(
        "cost of a second of an idle daemon",
        "before",
        {OURS: idle},
        (
            _figure("cost_idle", "idle_round_trips"),
            _figure("cost_idle", "idle_statements"),
            _figure("cost_idle", "idle_wal_bytes", "bytes"),
            _figure("cost_idle", "idle_buffers"),
        ),
        rounds=1,
    )
}
