"""Write log events to stderr, one line each: for machines (json) or for people (text).

    from walagent.telemetry.log import bound, log

    with bound(run_id=run.id, attachment=run.attachment, lsn=run.lsn):
        log.info("run.finished", state="succeeded", steps=5)

An event's name is a constant, `noun.participle`; `docs/log-events.md` lists each with its level
and fields, and a test compares both.  Fields are few, short and flat; an error is `error=error`.
Contents of rows, prompts, tool calls or answers are never logged.

Before `configure`, events go only to the standard library's logger "walagent", so a program that
imports walagent decides.  structlog is imported by `configure` or the first event: it takes 50 ms,
and most commands log nothing.
"""

import logging
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TextIO, cast

from walagent.telemetry.log_output import LogSink
from walagent.telemetry.mask import mask, say, trace

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger
    from structlog.types import EventDict, Processor

Format = Literal["json", "text"]
Level = Literal["debug", "info", "warning", "error"]

# Fields that would contain user data or secrets.
CONTENTS = frozenset({
    "api_key", "arguments", "authorization", "body", "conninfo", "content", "cookie", "dsn",
    "frame", "input", "message", "messages", "new", "old", "output", "password", "payload",
    "prompt", "reply", "request", "response", "result", "row", "secret", "sql", "statement",
    "system", "text", "token", "value", "values",
})  # fmt: skip
_ORDER = ("time", "level", "event", "run_id", "attachment", "lsn")


def bound(
    *, run_id: int | None = None, attachment: int | str | None = None, lsn: object = None
) -> AbstractContextManager[None]:
    """Add fields to every line of the block, and of the tasks that it starts."""
    from structlog.contextvars import bound_contextvars  # noqa: PLC0415 - see above

    fields = {"run_id": run_id, "attachment": attachment, "lsn": lsn}
    return bound_contextvars(**{key: value for key, value in fields.items() if value is not None})


def configure(
    form: Format = "json",
    level: Level = "info",
    *,
    stream: TextIO | None = None,
    on_lost: Callable[[], object] = lambda: None,
) -> None:
    """Write events and warnings of libraries to *stream*, by default stderr.

    Libraries are limited to WARNING and above, whatever their own level: at debug level, an SDK
    logs whole requests.

    Args:
        on_lost: called for each line that could not be written.
    """
    handler = _Handler(LogSink(stream or sys.stderr), on_lost)
    handler.setFormatter(_Formatter(form))
    handler.addFilter(_is_wanted)
    root = logging.getLogger()
    for old in [old for old in root.handlers if isinstance(old, _Handler)]:
        root.removeHandler(old)
    root.addHandler(handler)
    logging.getLogger("walagent").setLevel(level.upper())
    logging.captureWarnings(capture=True)


def _add_traceback(_logger: object, _method: str, fields: "EventDict") -> "EventDict":
    """Replace `exc_info` by a traceback without messages, except what `say` allows."""
    match fields.pop("exc_info", None):
        case BaseException() as error:
            pass
        case (_, BaseException() as error, _):
            pass
        case exc_info:
            error = sys.exception() if exc_info else None
    if error is not None:
        fields["traceback"] = "\n".join(trace(error))
    return fields


def _clean(_logger: object, _method: str, fields: "EventDict") -> "EventDict":
    """Keep plain values only, without contents and secrets, the bound fields first."""
    first = [key for key in _ORDER if key in fields]
    keys = first + [key for key in fields if key not in first]
    return {key: "<left out>" if key in CONTENTS else _plain(fields[key]) for key in keys}


def _plain(value: object) -> object:
    match value:
        case None | bool() | float():
            return value
        case BaseException():
            return say(value)
        case bytes():
            return f"<{len(value)} bytes>"
        case list() | tuple():
            return [_plain(item) for item in cast("list[object]", value)]
        case _:  # an Lsn is an int that prints as a position
            return value if type(value) is int else mask(str(value))


def _as_record(
    _logger: object, _method: str, fields: "EventDict"
) -> tuple[tuple["EventDict"], dict[str, Any]]:
    return (fields,), {}


@cache
def _chain() -> "tuple[Processor, ...]":
    from structlog.contextvars import merge_contextvars  # noqa: PLC0415
    from structlog.processors import TimeStamper, add_log_level  # noqa: PLC0415

    stamp = TimeStamper(fmt="iso", utc=True, key="time")
    return merge_contextvars, add_log_level, stamp, _add_traceback, _clean


class _Handler(logging.Handler):
    """walagent's handler, besides those that a program adds."""

    def __init__(self, sink: LogSink, on_lost: Callable[[], object]) -> None:
        super().__init__()
        self._sink = sink
        self._on_lost = on_lost

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line; after lost lines, the next one is followed by their number."""
        try:
            line = self.format(record) + "\n"
        except Exception:  # noqa: BLE001 - as logging handles what cannot be formatted
            self.handleError(record)
            return
        if not self._sink.write(line):
            self._on_lost()
        elif lost := self._sink.lost:
            self._sink.lost = 0
            # In its own context, without the bound fields.
            Context().run(lambda: log.warning("log.lines_lost", lines=lost))
            if self._sink.lost:  # that line was lost, too
                self._sink.lost = lost


def _is_wanted(record: logging.LogRecord) -> bool:
    return record.name == "walagent" or record.levelno >= logging.WARNING


class _Formatter(logging.Formatter):
    """Formats an event; a library's message becomes the event `library.warned`."""

    def __init__(self, form: Format) -> None:
        from structlog.processors import JSONRenderer  # noqa: PLC0415

        super().__init__()
        self._render = JSONRenderer() if form == "json" else _as_text

    def format(self, record: logging.LogRecord) -> str:
        ours = record.name == "walagent" and isinstance(record.msg, dict)
        fields: EventDict = cast("EventDict", record.msg) if ours else _foreign(record)
        return str(self._render(None, "", dict(fields)))


def _foreign(record: logging.LogRecord) -> "EventDict":
    fields: Any = {"event": "library.warned", "logger": record.name, "said": record.getMessage()}
    fields["exc_info"] = record.exc_info
    for processor in _chain():
        fields = processor(None, record.levelname.lower(), fields)
    return fields


@cache
def _logfmt() -> "Processor":
    from structlog.processors import LogfmtRenderer  # noqa: PLC0415

    return LogfmtRenderer(bool_as_flag=False)


def _as_text(_logger: object, _method: str, fields: "EventDict") -> str:
    head = f"{fields.pop('time')} {fields.pop('level'):<7} {fields.pop('event')}"
    trace = fields.pop("traceback", "")
    rest = str(_logfmt()(None, "", fields))
    return " ".join(filter(None, (head, rest))) + (trace and f"\n{trace}")


@cache
def _logger() -> "BoundLogger":
    import structlog  # noqa: PLC0415
    from structlog.stdlib import BoundLogger, filter_by_level  # noqa: PLC0415

    return structlog.wrap_logger(
        logging.getLogger("walagent"),
        processors=[filter_by_level, *_chain(), _as_record],
        wrapper_class=BoundLogger,
        cache_logger_on_first_use=True,
    )


class _Log:
    """Creates the logger with the first event."""

    def __getattr__(self, name: str) -> object:
        return getattr(_logger(), name)


log = cast("BoundLogger", _Log())
