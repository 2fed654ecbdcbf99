"""From matches to runs: evaluate the conditions, count the results, pause what is broken."""

from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent import metrics
from walagent.attachment import Attachment
from walagent.change import Begin
from walagent.intake.batching import Found
from walagent.intake.conditions import Deferred, Evaluator, Raised, Verdict, match_of
from walagent.intake.new_runs import new_run
from walagent.matching.document import Room
from walagent.matching.match import Match, TooDeep
from walagent.run import NewRun
from walagent.store.pausing import pause_broken


class Evaluation:
    """Evaluates what changes have matched, and remembers which attachments are broken."""

    def __init__(self, evaluator: Evaluator, room: Room) -> None:
        """Evaluate nothing yet.

        Args:
            room: how much of a change a run keeps.
        """
        self._evaluator = evaluator
        self._room = room
        self._broken: dict[int, tuple[Attachment, str]] = {}

    async def runs_of(self, found: Sequence[tuple[Begin, Found]]) -> list[NewRun]:
        """Give the runs that matches start: also those that ended before they began."""
        begins = {id(one): begin for begin, one in found}
        candidates = [one for _, one in found if isinstance(one, Match)]
        verdicts = await self._evaluator.evaluate(candidates)
        runs = [new_run(begins[id(match_of(v))], v, self._room) for v in verdicts]
        deep = [new_run(begin, one, self._room) for begin, one in found if isinstance(one, TooDeep)]
        for verdict in verdicts:
            if isinstance(verdict, Deferred):
                attachment = verdict.match.attachment
                self._broken[attachment.id] = attachment, verdict.reason
        _count(len(candidates), verdicts, len(deep))
        return [*runs, *deep]

    async def pause_broken(self, conn: AsyncConnection[Any]) -> None:
        """Pause what was found broken: best before its deferred runs can be claimed.

        It can be repeated, and is after a crash, by the next one that sees it.
        """
        broken, self._broken = self._broken, {}
        for attachment, reason in broken.values():
            await pause_broken(conn, attachment.id, attachment.name, reason)


def _count(candidates: int, verdicts: Sequence[Verdict], deep: int) -> None:
    failed = sum(1 for verdict in verdicts if isinstance(verdict, Raised))
    deferred = sum(1 for verdict in verdicts if isinstance(verdict, Deferred))
    metrics.changes.labels("unmatched").inc(candidates - len(verdicts))
    metrics.changes.labels("failed").inc(failed)
    metrics.changes.labels("deferred").inc(deferred)
    metrics.changes.labels("matched").inc(len(verdicts) - failed - deferred)
    metrics.changes.labels("skipped").inc(deep)
