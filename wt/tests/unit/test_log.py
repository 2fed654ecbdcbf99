"""What a log line looks like, and what never is in one."""

import io
import json
import logging
from collections.abc import Iterator

import psycopg
import pytest

from walagent.errors import ConfigError
from walagent.log import CONTENTS, Format, bound, configure, log
from walagent.lsn import Lsn
from walagent.mask import hide


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


def test_an_error_of_ours_is_told_by_class_and_sentence() -> None:
    """`error=error` writes what a person needs to know."""
    stream = _configured()
    log.error("daemon.stopped", error=ConfigError("no such slot\nsecond line"))
    assert json.loads(stream.getvalue())["error"] == "ConfigError: no such slot"


def test_an_error_of_postgresql_is_told_by_its_code() -> None:
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
    assert "which led to" in told
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
