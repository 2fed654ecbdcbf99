"""Evaluate conditions, count the results, and pause broken attachments."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from psycopg import AsyncConnection

from walagent.domain.attachment import Attachment
from walagent.domain.change import Begin
from walagent.domain.run import NewRun
from walagent.intake.batching import Found
from walagent.intake.conditions import Evaluator
from walagent.intake.new_runs import new_run, unabsorbed
from walagent.intake.verdicts import Deferred, Gone, Raised, Verdict
from walagent.intake.wakes import candidates_of
from walagent.matching.document import SizeLimits
from walagent.matching.match import Candidates, Match, Posted, TooDeep
from walagent.store.pausing import pause_broken
from walagent.telemetry import metrics

Outcome = Verdict | TooDeep


class Evaluation:
    """Evaluates candidates, and collects the broken attachments among them."""

    def __init__(self, evaluator: Evaluator, limits: SizeLimits) -> None:
        """Store the parameters; nothing is evaluated yet.

        Args:
            limits: how much of a change a run keeps.
        """
        self._evaluator = evaluator
        self._limits = limits
        self._broken: dict[int, tuple[Attachment, str]] = {}

    async def outcomes_of(
        self, found: Sequence[tuple[Begin, Found]]
    ) -> list[tuple[Begin, Outcome]]:
        """Evaluate candidates; drop those whose condition is not true."""
        found = await self._with_members(found)
        candidates = [one for _, one in found if isinstance(one, Candidates)]
        verdicts = iter(await self._evaluator.evaluate_all(candidates))
        outcomes = list[tuple[Begin, Outcome]]()
        for begin, one in found:
            if isinstance(one, TooDeep):
                outcomes.append((begin, one))
            elif isinstance(one, Candidates):
                outcomes.extend((begin, verdict) for verdict in next(verdicts))
        for _, outcome in outcomes:
            if isinstance(outcome, Deferred):
                attachment = outcome.match.attachment
                self._broken[attachment.id] = attachment, outcome.reason
        _count(sum(len(one.changes) for one in candidates), [outcome for _, outcome in outcomes])
        return outcomes

    def runs_of(self, outcomes: Sequence[tuple[Begin, Outcome]]) -> list[NewRun]:
        """Return the runs to insert, including those that end at once."""
        return unabsorbed([new_run(begin, outcome, self._limits) for begin, outcome in outcomes])

    async def _with_members(
        self, found: Sequence[tuple[Begin, Found]]
    ) -> Sequence[tuple[Begin, Found]]:
        """Replace events of threads by what they are to the agents in these threads."""
        posted = [one for _, one in found if isinstance(one, Posted)]
        if not posted:
            return found
        made = iter(await candidates_of(self._evaluator, posted))
        return [
            (begin, each)
            for begin, one in found
            for each in (next(made) if isinstance(one, Posted) else (one,))
        ]

    async def pause_broken(self, conn: AsyncConnection[Any]) -> None:
        """Pause broken attachments, before their deferred runs can be claimed.

        After a crash, the next reader that finds them repeats it.
        """
        broken, self._broken = self._broken, {}
        for attachment, reason in broken.values():
            await pause_broken(conn, attachment.id, attachment.name, reason)


def _count(candidates: int, outcomes: Sequence[Outcome]) -> None:
    counts = Counter(map(type, outcomes))
    deep = counts[TooDeep]
    metrics.changes.labels("unmatched").inc(candidates - (len(outcomes) - deep))
    metrics.changes.labels("failed").inc(counts[Raised] + counts[Gone])
    metrics.changes.labels("deferred").inc(counts[Deferred])
    metrics.changes.labels("matched").inc(counts[Match])
    metrics.changes.labels("skipped").inc(deep)
