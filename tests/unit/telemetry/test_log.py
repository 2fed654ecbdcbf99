"""What a log line looks like, and what never is in one."""

import io
import json
import logging
import os
import resource
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from walagent.errors import ConfigError
from walagent.postgres.lsn import Lsn
from walagent.telemetry.log import CONTENTS, Format, bound, configure, log
from walagent.telemetry.log_output import LogSink
from walagent.telemetry.mask import hide


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Give the process's logging back as it was."""
    root, ours = logging.getLogger(), logging.getLogger("walagent")
    handlers, level = root.handlers[:], ours.level
    yield
    root.handlers[:] = handlers
    ours.setLevel(level)
    logging.captureWarnings(capture=False)


def _configured(form: Format = "json") -> io.StringIO:
    stream = io.StringIO()
    configure(form, "info", stream=stream)
    return stream


def test_an_event_is_one_json_object_with_what_is_worked_on() -> None:
    """Machines get time, level, event and the bound run, attachment and position."""
    stream = _configured()
    with bound(run_id=7, attachment="triage", lsn=Lsn.parse("16/B374D848")):
        log.info("run.finished", state="succeeded", steps=3)

    (line,) = stream.getvalue().splitlines()
    fields = json.loads(line)
    assert fields.pop("time").endswith("Z")
    assert fields == {
        "level": "info",
        "event": "run.finished",
        "run_id": 7,
        "attachment": "triage",
        "lsn": "16/B374D848",
        "state": "succeeded",
        "steps": 3,
    }


def test_what_is_worked_on_ends_with_the_block() -> None:
    """A line after the block does not carry the run of the block."""
    stream = _configured()
    with bound(run_id=7):
        pass
    log.info("run.finished")
    assert "run_id" not in stream.getvalue()


def test_text_is_one_line_that_a_person_reads() -> None:
    """People get time, level, event and the fields as key=value."""
    stream = _configured("text")
    log.warning("stream.lost", attempt=2, said="two words\nand a line")
    (line,) = stream.getvalue().splitlines()
    assert line.endswith(r'warning stream.lost attempt=2 said="two words\nand a line"')


def test_events_below_the_level_are_not_written() -> None:
    """`info` leaves `debug` out."""
    stream = _configured()
    log.debug("frame.received")
    assert stream.getvalue() == ""


def test_configuring_twice_does_not_write_twice() -> None:
    """A reload replaces the handler."""
    _configured()
    stream = _configured()
    log.info("daemon.reloaded")
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("key", sorted(CONTENTS))
def test_contents_are_left_out(key: str) -> None:
    """A field that would carry what people wrote says only that it was left out."""
    stream = _configured()
    log.info("run.finished", **{key: "the customer's own words"})
    assert "customer" not in stream.getvalue()
    assert json.loads(stream.getvalue())[key] == "<left out>"


@pytest.mark.parametrize("form", ["json", "text"])
def test_no_secret_gets_into_a_line(form: Format) -> None:
    """Passwords, keys and hidden secrets are masked in every field, also in nested ones."""
    hide("correct-horse-battery")
    stream = _configured(form)
    log.info("daemon.started", url="postgresql://me:hunter2@db/app", keys=["sk-abcdefghijklmnop"])
    log.info("daemon.started", used="correct-horse-battery", said=b"hunter2")
    for secret in ("hunter2", "abcdefghijklmnop", "correct-horse"):
        assert secret not in stream.getvalue()
    assert "postgresql://me:***@db/app" in stream.getvalue()


def test_an_error_of_ours_is_reported_by_class_and_sentence() -> None:
    """`error=error` writes what a person needs to know."""
    stream = _configured()
    log.error("daemon.stopped", error=ConfigError("no such slot\nsecond line"))
    assert json.loads(stream.getvalue())["error"] == "ConfigError: no such slot"


def test_an_error_of_postgresql_is_reported_by_its_code() -> None:
    """PostgreSQL quotes values in its messages, so only class and SQLSTATE are written."""
    stream = _configured()
    error = psycopg.errors.UniqueViolation("Key (email)=(a@example.com) already exists.")
    log.error("run.failed", error=error)
    assert json.loads(stream.getvalue())["error"] == "UniqueViolation (23505)"


def test_a_traceback_tells_places_and_causes_but_no_values() -> None:
    """A bug can be found from the log alone, cause and group included, without cell values."""
    stream = _configured()
    try:
        try:
            raise psycopg.errors.CheckViolation("row contains (secret cell)")
        except psycopg.Error as cause:
            raise ExceptionGroup("two parts", [ValueError("bad")]) from cause
    except ExceptionGroup:
        log.exception("daemon.crashed")

    told = json.loads(stream.getvalue())["traceback"].splitlines()
    assert told[0] == "CheckViolation (23514)"
    assert "which caused" in told
    assert any("test_log.py" in line for line in told)
    assert told[-1] == "  | ValueError: bad"
    assert "secret cell" not in stream.getvalue()


def test_a_library_is_heard_from_warning_up() -> None:
    """A library's warning is an event with its secrets masked; its chatter is dropped."""
    stream = _configured()
    library = logging.getLogger("httpx2")
    level = library.level
    library.setLevel(logging.DEBUG)  # as an SDK does when it is told to debug
    try:
        library.debug("POST https://api.example.com {'messages': ['hello']}")
        library.warning("retrying %s", "https://me:hunter2@example.com")
    finally:
        library.setLevel(level)

    (line,) = stream.getvalue().splitlines()
    fields = json.loads(line)
    assert (fields["event"], fields["logger"], fields["level"]) == (
        "library.warned",
        "httpx2",
        "warning",
    )
    assert fields["said"] == "retrying https://me:***@example.com"


def test_without_configure_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    """A program that only imports walagent keeps its stdout and stderr to itself."""
    log.info("run.finished")
    assert capfd.readouterr() == ("", "")


def test_lines_that_nobody_reads_are_lost_and_counted() -> None:
    """The daemon waits a moment and goes on; afterwards it says how many lines are missing."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as stream:
        lost = list[None]()
        configure("json", "info", stream=stream, on_lost=lambda: lost.append(None))
        started = time.monotonic()
        with bound(run_id=7):
            for number in range(5000):  # some 500 kB; a pipe holds 64
                log.info("run.finished", steps=number)
        assert time.monotonic() - started < 30  # for each line to wait would take hours
        assert len(lost) > 1000
        os.set_blocking(reading, False)
        before = bytearray()
        while chunk := reader.read(1 << 16):
            before += chunk
        log.info("run.finished", steps=-1)
        after = reader.read(1 << 16).splitlines()
    *whole, torn = bytes(before).split(b"\n")
    assert [json.loads(line)["steps"] for line in whole] == list(range(5000 - len(lost)))
    told = [json.loads(line) for line in after if line not in {b"", torn}]
    assert [line["event"] for line in told] == ["run.finished", "log.lines_lost"]
    assert (told[1]["lines"], told[1].get("run_id")) == (len(lost), None)


def test_a_line_that_was_written_in_part_does_not_spoil_the_next(tmp_path: Path) -> None:
    """The rest of it is lost, and what follows stands on a line of its own."""
    path = tmp_path / "log"
    with path.open("w") as stream:
        configure("json", "info", stream=stream)
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (200, limit[1]))
            for number in range(5):
                log.info("run.finished", steps=number)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)
            signal.signal(signal.SIGXFSZ, ignored)
        log.info("run.finished", steps=5)
    *_, torn, last, told = path.read_text().splitlines()
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(torn)
    assert json.loads(last)["steps"] == 5
    assert json.loads(told)["event"] == "log.lines_lost"


def test_a_log_that_is_gone_is_none_to_die_of() -> None:
    """A reader that has left, a closed file, no stderr at all."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as stream:
        sink = LogSink(stream)
        assert not sink.write("one\n")
    assert not sink.write("two\n")
    assert sink.lost == 2
    assert not LogSink(None).write("three\n")
