"""Watch what a person must act on: for health checks, metrics, the log and notifications.

Every process looks, because the one that should may be what is missing.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Never

from psycopg import AsyncConnection

from walagent.errors import WalagentError
from walagent.store import status
from walagent.store.errors import translating
from walagent.store.sessions.connections import connect
from walagent.telemetry import metrics
from walagent.telemetry.log import log

_EVERY: Final = 30.0  # seconds between two looks
_SHARE: Final = 0.01  # of the time that they may take
_RARELY: Final = 180.0  # seconds: the longest between two looks
_OLD: Final = 2 * _RARELY  # seconds after which what was seen is called old
_LATER: Final = 4  # the urgency of what can wait
_RETURNED: Final = "regression"  # can wait, and is sent
# The first three have events of their own; of the last, nobody would deliver the message.
_UNSENT: Final = frozenset({"review", "gap", "budget", "worker"})
_PATIENCE: Final = {"statement_timeout": "5s", "lock_timeout": "2s"}

Problem = dict[str, Any]  # a row of `status.show_problems`
Key = tuple[str, str, str | None]


class Problems:
    """What this process saw last, without what can wait; issues that came back are kept, too."""

    def __init__(self) -> None:
        """See nothing yet."""
        self._seen: dict[Key, Problem] = {}
        self._lasting: dict[Key, Problem] = {}
        self._looked_at = time.monotonic()

    @property
    def age(self) -> float:
        """Return the seconds since the last look that succeeded, or since the start."""
        return time.monotonic() - self._looked_at

    @property
    def warnings(self) -> Sequence[str]:
        """Return how many of which kinds, without names: who asks has not signed in."""
        kinds = [each["kind"] for each in self._lasting.values() if each["urgency"] < _LATER]
        counted = ", ".join(f"{kind} ({kinds.count(kind)})" for kind in dict.fromkeys(kinds))
        found = [f"a person must act: {counted}; see walagent status"] if kinds else []
        if self.age > _OLD:
            found.append(f"problems were looked for {self.age:.0f} s ago, and not since")
        return found

    async def watch(self, dsn: Callable[[], str]) -> Never:
        """Look every 30 s, or less often where that takes long; while the database is away, not."""
        metrics.problems_age_seconds.set_function(lambda: self.age)
        while True:
            started = time.monotonic()
            try:
                with translating():
                    async with await connect(
                        dsn(), application="walagent problems", settings=_PATIENCE
                    ) as conn:
                        await self.look(conn)
            except WalagentError as error:
                if self.age > _OLD:
                    log.warning("problem.unseen", seconds=round(self.age), error=error)
            await asyncio.sleep(pause_after(time.monotonic() - started))

    async def look(self, conn: AsyncConnection[Any]) -> None:
        """Look once; log and announce what was there at the last look, too, and what is gone."""
        found = await status.show_problems(conn)
        metrics.set_problems((each["kind"], each["urgency"]) for each in found)
        seen = {
            (each["kind"], each["tenant"], each["subject"]): each
            for each in found
            if each["urgency"] < _LATER or each["kind"] == _RETURNED
        }
        lasting = {
            key: each for key, each in seen.items() if key in self._seen or key in self._lasting
        }
        new = [each for key, each in lasting.items() if key not in self._lasting]
        await status.announce_problems(
            conn,
            (
                {**each, "lasts": key in lasting and each["kind"] not in _UNSENT}
                for key, each in seen.items()
            ),
        )
        for each in new:
            log.warning("problem.found", kind=each["kind"], problem=each["text"], fix=each["fix"])
        for key, each in self._lasting.items():
            if key not in lasting:
                log.info("problem.ended", kind=each["kind"], problem=each["text"])
        self._seen, self._lasting = seen, lasting
        self._looked_at = time.monotonic()


def pause_after(took: float) -> float:
    """Return the seconds until the next look, after one that took so long."""
    return min(max(_EVERY - took, took / _SHARE), _RARELY)
