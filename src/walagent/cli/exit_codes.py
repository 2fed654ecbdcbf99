"""Errors in, words on stderr and an exit code out: the one place that decides it."""

import sys
from collections.abc import Iterator, Sequence
from typing import Never

from walagent.cli.output import say
from walagent.errors import ConfigError, Next, WalagentError
from walagent.mask import mask

FAILED = 1  # our bug, or a run or check that failed
USAGE = 2  # a wrong option, file, spec or name
PERSON = 3  # a person must act first; the systemd unit stays down


def end(errors: Sequence[WalagentError]) -> Never:
    """Say every error once, each with its hint, and leave."""
    for error in unique(errors):
        say(mask(f"walagent: {error}"), color="red")
        if error.hint:
            say(mask(f"hint: {error.hint}"))
    sys.exit(max(map(exit_code, errors)))


def exit_code(error: WalagentError) -> int:
    """Say how the process ends with *error*."""
    if isinstance(error, ConfigError):
        return USAGE
    return PERSON if error.next in {Next.STOP, Next.ASK_PERSON} else FAILED


def unique(errors: Sequence[WalagentError]) -> Iterator[WalagentError]:
    """Leave out what has been said: parts of one daemon often fail for one reason."""
    said: set[str] = set()
    for error in errors:
        if str(error) not in said:
            said.add(str(error))
            yield error
