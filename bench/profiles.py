"""Say where the time of the rows goes whose goals are missed; writes PROFILES.md.

    python -m bench.profiles                      all
    python -m bench.profiles jobs latency         these

The process is sampled (`bench/sampling.py`); the server counts the time in each of our functions
(`track_functions`).  Both cost something: read the shares here, and the figures in RESULTS.md.
"""

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg

from bench import workload
from bench.measure import percentile
from bench.ours.prepare import attach, scripted
from bench.rows import intake, latency, plain_jobs
from bench.scripts import BENCH, run_script
from bench.server import Place, running_server

_LINES = 14  # of each list
_SHOWN = 0.01  # the least share
_STAGES = (
    ("the frame is received", "frame.received"),
    ("run inserted and claimed, checkpoint advanced: committed", "intake.committed"),
    ("the model is asked", "model.asking"),
)

Section = list[str]


def main() -> None:
    """Profile what is named and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", choices=[[], *_PROFILES], default=[])
    names = parser.parse_args().names or list(_PROFILES)
    page = BENCH / "PROFILES.md"
    sections = _sections(page)
    with running_server() as server, tempfile.TemporaryDirectory() as folder:
        for name in names:
            title, profile = _PROFILES[name]
            os.environ["BENCH_PROFILE"] = str(Path(folder) / f"{name}.json")
            with server.fresh_database(name) as place:
                _track(place)
                sections[title] = profile(place, Path(os.environ["BENCH_PROFILE"]))
                print(f"## {title}", *sections[title], sep="\n", flush=True)
    _write(page, sections)


def jobs(place: Place, samples: Path) -> Section:
    """Runs of one reply, drained."""
    figures = plain_jobs.walagent(place)
    return [_rate(figures), *_shares(samples), *_functions(place, 5000)]


def ingest(place: Place, samples: Path) -> Section:
    """One-row transactions."""
    figures = intake.ingest(place)
    return [_rate(figures), *_shares(samples), *_functions(place, 100_000)]


def decode(place: Place, samples: Path) -> Section:
    """The same WAL, decoded."""
    return [_rate(intake.decode_only(place)), *_shares(samples)]


def idle(place: Place, samples: Path) -> Section:
    """One insert at a time: what passes between its commit and the request to the model."""
    count = 300
    with scripted([workload.ANSWER]) as answers:
        attach(place.url, answers)
    written: dict[int, tuple[float, float]] = {}
    with psycopg.connect(place.url, autocommit=True) as conn:
        run_script(
            "ours/claims",
            *("--url", place.url, "--count", count),
            when_ready=lambda: written.update(workload.write_slowly(conn, count, 0.02)),
        )
    points = json.loads(samples.read_text())["points"]
    waits = _stage_waits([end for _, end in written.values()], points)
    lines = ["| until | p50 ms | p99 ms |", "| --- | --- | --- |"]
    for (what, _), stage in zip(_STAGES, zip(*waits, strict=True), strict=True):
        lines.append(f"| {what} | {percentile(stage, 0.5):.2f} | {percentile(stage, 0.99):.2f} |")
    return [
        "Each stage from the end of the one before, the first from the commit's",
        "acknowledgement to the writer:",
        "",
        *lines,
        *_functions(place, count),
    ]


def _stage_waits(
    commits: Iterable[float], points: Sequence[tuple[str, float]]
) -> list[list[float]]:
    """For each commit, the milliseconds of each stage."""
    waits: list[list[float]] = []
    for commit in commits:
        before, stages = commit, list[float]()
        for _, point in _STAGES:
            # A frame can arrive before the writer learns of its commit.
            least = before - 0.002 if point == "frame.received" else before
            at = next((at for name, at in points if name == point and at >= least), before)
            stages.append((at - before) * 1000)
            before = at
        waits.append(stages)
    return waits


def _track(place: Place) -> None:
    with psycopg.connect(place.url, autocommit=True) as conn:
        name = conn.info.dbname
        conn.execute(f"alter database \"{name}\" set track_functions = 'all'".encode())


def _rate(figures: Mapping[str, Any]) -> str:
    return (
        f"{figures['per_second']:,.0f} a second while profiled;"
        f" CPU {figures['cpu_ms']:.3f} ms each, the server's {figures['server_cpu_ms']:.3f} ms."
    )


def _shares(samples: Path) -> Section:
    """The process's CPU time by the module that runs, and by the one it runs for."""
    read = json.loads(samples.read_text())
    return [
        *_table("CPU of the process, by what runs", read["inner"]),
        *_table("the same, by the module of ours that it runs for", read["behalf"]),
    ]


def _table(title: str, counts: Mapping[str, int]) -> Section:
    total = sum(counts.values())
    most = sorted(counts.items(), key=lambda item: -item[1])[:_LINES]
    rows = [f"| {name} | {n / total:.0%} |" for name, n in most if n / total >= _SHOWN]
    return ["", f"| {title} | share |", "| --- | --- |", *rows]


def _functions(place: Place, count: int) -> Section:
    with psycopg.connect(place.url, autocommit=True) as conn:
        found = conn.execute(
            "select schemaname || '.' || funcname, calls, total_time, self_time"
            "  from pg_stat_user_functions where self_time > 0 order by self_time desc limit 12"
        ).fetchall()
    rows = [
        f"| {name} | {calls:,} | {total / count * 1000:.1f} | {own / count * 1000:.1f} |"
        for name, calls, total, own in found
    ]
    head = "| function in the server | calls | µs each, whole | of it its own |"
    return ["", head, "| --- | --- | --- | --- |", *rows]


def _sections(page: Path) -> dict[str, Section]:
    """The page as it is, by title."""
    if not page.exists():
        return {}
    _, *parts = page.read_text().split("\n## ")
    split = (part.strip("\n").split("\n") for part in parts)
    return {title: rest[1:] for title, *rest in split}


def _write(page: Path, sections: Mapping[str, Section]) -> None:
    lines = ["# Profiles", "", "Generated by `python -m bench.profiles`; do not edit."]
    for title, section in sections.items():
        lines += ["", f"## {title}", "", *section]
    page.write_text("\n".join(lines) + "\n")


_PROFILES: Mapping[str, tuple[str, Callable[[Place, Path], Section]]] = {
    "latency": (latency.ROW.what, idle),
    "jobs": (plain_jobs.ROW.what, jobs),
    "intake": (intake.ROW.what, ingest),
    "decode": ("the same WAL decoded", decode),
}

if __name__ == "__main__":
    main()
