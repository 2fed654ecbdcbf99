"""What the program of an MCP server writes to stderr."""

import asyncio
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import pytest

from walagent.tools.error_output import ErrorOutput

SCRIPT = """
import sys
print("cannot start: \\x1b[31mno module named desk; password=hunter22", file=sys.stderr)
for n in range(100):
    print("line", n, "x" * 1000, file=sys.stderr)
"""


Events = list[MutableMapping[str, Any]]


def events_of(caplog: pytest.LogCaptureFixture) -> Events:
    """What was logged."""
    return [cast("Any", record.msg) for record in caplog.records]


async def run_program(*, may_quote: bool) -> None:
    """Run a program that fails."""
    with ErrorOutput("desk", lambda: may_quote) as errors:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", SCRIPT, stderr=errors.stream
        )
        await process.wait()


async def test_it_is_logged_bounded_and_masked(caplog: pytest.LogCaptureFixture) -> None:
    """A program that fails to start says why; a chatty one does not fill the log."""
    await asyncio.wait_for(run_program(may_quote=False), 20)
    first, *rest = events_of(caplog)
    assert first["event"] == "mcp.stderr_written"
    assert first["level"] == "warning"
    assert first["server"] == "desk"
    assert "no module named desk" in first["line"]
    assert "hunter22" not in first["line"]
    assert "\x1b" not in first["line"]
    assert len(rest) == 19
    assert all(len(event["line"]) <= 500 for event in rest)


async def test_what_can_repeat_arguments_is_at_level_debug(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Arguments come from rows, which are not logged."""
    with caplog.at_level("DEBUG", "walagent"):
        await run_program(may_quote=True)
    assert {event["level"] for event in events_of(caplog)} == {"debug"}


@pytest.mark.parametrize("written", ["", "no line end"])
async def test_the_last_line_needs_no_end(written: str, caplog: pytest.LogCaptureFixture) -> None:
    """A crash can cut it."""
    with ErrorOutput("desk", lambda: False) as errors:
        errors.stream.write(written)
        errors.stream.flush()
    assert [event["line"] for event in events_of(caplog)] == [written][: bool(written)]
