"""How a row of the table is measured: sides in turn, round after round, then medians of ratios.

A row compares walagent with what is run beside it.  Both sides of a round run within the same
minute, so whatever else the machine does falls on both; only their ratio is kept as a result.
"""

import os
import platform
import statistics
import subprocess
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.scripts import ROOT
from bench.server import Place, Server

OURS = "walagent"

Side = Callable[[Place], Mapping[str, Any]]  # figures by name; `versions` is not a figure


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a row, and what it should be.

    The number is a ratio, ours over another side's; with `over` None it is ours as it stands.
    """

    name: str  # the key in what the sides return
    over: str | None
    goal: float | None = None  # None: shown, not evaluated
    more_is_better: bool = True
    unit: str = ""
    beside: str = ""  # where `over` is None and the number is a ratio already: to what

    def of(self, samples: Mapping[str, Mapping[str, Any]]) -> float:
        """Its value in one round."""
        ours = float(samples[OURS][self.name])
        return ours / float(samples[self.over][self.name]) if self.over else ours

    def is_met(self, value: float) -> bool | None:
        """Whether *value* reaches the goal; None when there is none."""
        if self.goal is None:
            return None
        return value >= self.goal if self.more_is_better else value <= self.goal


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: the sides that are run, and the figures made of them."""

    what: str
    beside: str
    sides: Mapping[str, Side]
    figures: tuple[Figure, ...]
    rounds: int = 5


@dataclass(slots=True)
class Rounds:
    """What the rounds of a row have measured so far."""

    samples: list[dict[str, Mapping[str, Any]]] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)


def measure(name: str, row: Row, server: Server, *, rounds: int | None = None) -> dict[str, Any]:
    """Run every side of *row* once a round and put the result together, ready for JSON."""
    taken = Rounds()
    for number in range(rounds or row.rounds):
        taken.samples.append(_round(name, row, server, number, taken.versions))
    return {
        "name": name,
        "what": row.what,
        "beside": row.beside,
        "figures": [_result(figure, taken.samples) for figure in row.figures],
        "rounds": taken.samples,
        "versions": _our_versions(server) | taken.versions,
        "machine": _machine(),
        "command": f"python -m bench {name}",
        "date": datetime.now(UTC).date().isoformat(),
    }


def rates(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a side that worked `count` pieces in `seconds` did a second, and CPU for each piece."""
    count = result["count"]
    return {
        "per_second": count / result["seconds"],
        "cpu_ms": result["cpu_seconds"] * 1000 / count,
        "server_cpu_ms": result["server_cpu_seconds"] * 1000 / count,
        "versions": result.get("versions", {}),
    }


def _round(
    name: str, row: Row, server: Server, number: int, versions: dict[str, str]
) -> dict[str, Mapping[str, Any]]:
    """Run the sides once.  Every other round goes backwards, so that nobody is always first."""
    order = list(row.sides)[:: -1 if number % 2 else 1]
    samples: dict[str, Mapping[str, Any]] = {}
    for side in order:
        with server.fresh_database(f"bench_{name}_{number}") as place:
            found = dict(row.sides[side](place))
        versions |= found.pop("versions", {})
        samples[side] = found
        print(f"{name} {number + 1}/{side}: {readable(found)}", flush=True)
    return samples


def _result(figure: Figure, samples: list[dict[str, Mapping[str, Any]]]) -> dict[str, Any]:
    values = [figure.of(sample) for sample in samples]
    median = statistics.median(values)
    return {
        "name": figure.name,
        "beside": figure.over or figure.beside,
        "goal": figure.goal,
        "more_is_better": figure.more_is_better,
        "unit": figure.unit,
        "value": median,
        "least": min(values),
        "most": max(values),
        "met": figure.is_met(median),
    }


def _our_versions(server: Server) -> dict[str, str]:
    return {
        "walagent": _our_version(),
        "postgresql": server.version,
        "python": platform.python_version(),
        "psycopg": version("psycopg"),
    }


def _our_version() -> str:
    """The version in pyproject.toml and the commit, marked when files differ from it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    describe = ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--exclude", "*"]
    found = subprocess.run(describe, capture_output=True, text=True, check=False)
    return " ".join([project["version"], found.stdout.strip()]).strip()


def _machine() -> dict[str, Any]:
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    models = [line.partition(":")[2].strip() for line in cpuinfo if line.startswith("model name")]
    return {
        "processor": models[0] if models else platform.machine(),
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
    }


def readable(sample: Mapping[str, Any]) -> str:
    """A side's figures on one line."""
    return ", ".join(
        f"{key} {value:.4g}" for key, value in sample.items() if isinstance(value, int | float)
    )
