# /// script
# dependencies = ["pydbzengine==3.6.3.0", "jpype1==1.7.1"]
# ///
# The type checker does not see the packages of this script's own environment.
# pyright: reportMissingImports=false
"""Debezium's engine inside Python (pydbzengine): the rows that wait in a slot, read as JSON.

With `--read values` each row becomes a Python dict, which is what a decoder of ours hands over;
with `--read count` rows are only counted and stay in the JVM.  The JVM's start is left out.  All
rows count, and again those after the warm-up of its compiler alone.
"""

import argparse
import json
import tempfile
import threading
from importlib.metadata import version
from pathlib import Path
from urllib.parse import urlsplit

from pydbzengine import BasePythonChangeHandler, ChangeEvent, DebeziumEngine

from bench.measure import Meter, Spent, peak_rss_kb


class Counter(BasePythonChangeHandler):
    """Counts the rows of each batch and keeps what was spent when."""

    def __init__(self, meter: Meter, *, warm_up: int, wanted: int, parse: bool) -> None:
        self._meter = meter
        self._parse = parse
        self._warm_up = warm_up
        self._wanted = wanted
        self.rows = 0
        self.first: tuple[int, Spent] | None = None
        self.warm: tuple[int, Spent] | None = None
        self.last: tuple[int, Spent] | None = None
        self.finished = threading.Event()

    def handleJsonBatch(self, records: list[ChangeEvent]) -> None:  # noqa: N802 - Debezium's name
        """Take one batch."""
        self.rows += len(records)
        if self._parse:
            for record in records:
                json.loads(str(record.value()))
        if self.first is None:
            self.first = self.rows, self._meter.read()
        elif self.warm is None and self.rows >= self._warm_up:
            self.warm = self.rows, self._meter.read()
        elif self.last is None and self.rows >= self._wanted:
            self.last = self.rows, self._meter.read()
            self.finished.set()

    def figures(self) -> dict[str, object]:
        """What it took, from the first batch and from the end of the warm-up to the last row."""
        match self.first, self.warm, self.last:
            case (int(), _) as first, (int(), _) as warm, (int(), _) as last:
                return {
                    "start_seconds": first[1].wall,
                    **_rates("", first, last),
                    **_rates("warm_", warm, last),
                    "peak_rss_kb": peak_rss_kb(),
                    "versions": {"pydbzengine": version("pydbzengine")},
                }
        raise RuntimeError(f"only {self.rows} of {self._wanted} rows came")


def main() -> None:
    """Read all rows and print what it took."""
    options = _options()
    meter = Meter(options.postmaster)
    counter = Counter(
        meter,
        warm_up=options.count // 2,
        wanted=options.count,
        parse=options.read == "values",
    )
    with tempfile.TemporaryDirectory() as folder:
        engine = DebeziumEngine(_properties(options, Path(folder)), counter)
        thread = threading.Thread(target=engine.run, daemon=True)
        thread.start()
        while thread.is_alive() and not counter.finished.wait(1):
            pass
        engine.close()
        thread.join(30)
    print(json.dumps(counter.figures()))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tcp-url", required=True)
    parser.add_argument("--postmaster", type=int, required=True)
    parser.add_argument("--slot", required=True)
    parser.add_argument("--publication", required=True)
    parser.add_argument("--table", required=True, help="schema.table")
    parser.add_argument("--count", type=int, required=True)
    parser.add_argument("--read", choices=["values", "count"], default="values")
    return parser.parse_args()


def _properties(options: argparse.Namespace, folder: Path) -> dict[str, str]:
    url = urlsplit(options.tcp_url)
    return {
        "name": "bench",
        "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
        "database.hostname": url.hostname or "",
        "database.port": str(url.port),
        "database.user": url.username or "",
        "database.password": url.password or "",
        "database.dbname": url.path.lstrip("/"),
        "topic.prefix": "bench",
        "plugin.name": "pgoutput",
        "slot.name": options.slot,
        "publication.name": options.publication,
        "publication.autocreate.mode": "disabled",
        "table.include.list": options.table,
        "snapshot.mode": "no_data",  # the rows come from the slot
        "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
        "offset.storage.file.filename": str(folder / "offsets"),
        "offset.flush.interval.ms": "10000",
        "converter.schemas.enable": "false",  # the schema with each row would double the work
        "key.converter.schemas.enable": "false",
        "value.converter.schemas.enable": "false",
    }


def _rates(prefix: str, begin: tuple[int, Spent], end: tuple[int, Spent]) -> dict[str, float]:
    rows = end[0] - begin[0]
    return {
        f"{prefix}rows": rows,
        f"{prefix}seconds": end[1].wall - begin[1].wall,
        f"{prefix}cpu_seconds": end[1].cpu - begin[1].cpu,
        f"{prefix}server_cpu_seconds": end[1].server_cpu - begin[1].server_cpu,
    }


if __name__ == "__main__":
    main()
