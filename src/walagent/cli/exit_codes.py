"""Print errors to stderr and choose the exit code."""

import sys
from collections.abc import Iterator, Sequence
from typing import Never

from walagent.cli.terminal.output import say
from walagent.errors import ConfigError, Next, WalagentError
from walagent.telemetry.mask import mask

FAILED = 1  # a bug, or a run or check that failed
USAGE = 2  # an invalid option, file, spec or name
PERSON = 3  # a person must act; the systemd unit is not restarted


def end(errors: Sequence[WalagentError]) -> Never:
    """Print each distinct error with its hint, and exit."""
    for error in unique(errors):
        say(mask(f"walagent: {error}"), color="red")
        if error.hint:
            say(mask(f"hint: {error.hint}"))
    sys.exit(max(map(exit_code, errors)))


def exit_code(error: WalagentError) -> int:
    """Return the exit code for *error*."""
    if isinstance(error, ConfigError):
        return USAGE
    return PERSON if error.next in {Next.STOP, Next.ASK_PERSON} else FAILED


def unique(errors: Sequence[WalagentError]) -> Iterator[WalagentError]:
    """Drop repeated messages: parts of one daemon often fail for the same reason."""
    printed: set[str] = set()
    for error in errors:
        if str(error) not in printed:
            printed.add(str(error))
            yield error
