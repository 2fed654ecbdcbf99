"""What caches between server and browser may keep, and for how long, if the file allows it.

A part of a shape has the same content for as long as its handle is known, so it can be old; what
follows it cannot.  Times are those of other servers of the protocol.
"""

import random
import time
from typing import Final

PRIVATE: Final = b"private, no-cache"
FIRST_ROWS: Final = b"public, max-age=604800, s-maxage=3600, stale-while-revalidate=2629746"
ROWS: Final = b"public, max-age=60, stale-while-revalidate=300"
LIVE: Final = b"public, max-age=5, stale-while-revalidate=5"
_EPOCH: Final = 1_728_432_000  # 2024-10-09, from which cursors count
_STEP: Final = 20  # seconds that share a cursor
_DIGITS: Final = 19


def cursor_after(sent: str) -> str:
    """Return a number that is greater than the one sent, so that no cache answers twice.

    Clients that ask within the same seconds share it, and so the answer.
    """
    now = int(time.time()) - _EPOCH
    now += -now % _STEP
    before = int(sent) if sent.isascii() and sent.isdigit() and len(sent) <= _DIGITS else 0
    return str(now if now > before else before + random.randint(1, 3600))  # noqa: S311 - no secret
