"""Shadows: a second version on changes that have had their run, in trials of these changes.

    claim → the case of the run → trials, between which models are asked → a case of the evaluation

Nothing of a trial is kept, and no transaction is open while a model is asked.  What the run has
written is taken back first, in the transaction of the trial, so that the shadow sees the rows as
the run did.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import count
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.base import faults
from walagent.base.concurrency import Periodic
from walagent.base.retries import RUN, delay
from walagent.config import Config
from walagent.deciders.revert_plan import MOST_ROWS, revert_steps
from walagent.domain.attachment import Attachment
from walagent.domain.run import Claim
from walagent.domain.tenant import DEFAULT_TENANT, Actor
from walagent.errors import (
    BudgetExceededError,
    ConflictError,
    ModelUnauthorizedError,
    Next,
    WalagentError,
)
from walagent.message import Json, ModelSpec
from walagent.models import make_model
from walagent.models.model import Model
from walagent.store import canaries, evaluations, reverting, trials
from walagent.store.canaries import Shadowed
from walagent.store.errors import translating
from walagent.store.reverting import Reverted
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log
from walagent.trial.attaching import Wanted
from walagent.trial.cases import ENDED, Case, case_of, effects_of
from walagent.trial.charging import Account, Meter
from walagent.trial.external import RecordedCalls
from walagent.trial.outcomes import Outcome, agree, outcome_of
from walagent.trial.replaying import run_of
from walagent.trial.replies import NotAskedError, Replies
from walagent.trial.trial import Outside, TrialOptions, open_trial

Connection = AsyncConnection[Any]

_EVERY: Final = 5.0  # seconds
_CALM: Final = 3  # of so many turns, one looks while there is no shadow
_LEASE: Final = timedelta(minutes=5)
_HELD: Final = 5.0  # seconds; rows that its tools write are locked for so long at most
_MOST: Final = 100  # transactions of a trial
_READER: Final = 15.0  # seconds to wait for the reader
_POLL: Final = 0.05
_ATTEMPTS: Final = 10  # after errors that may pass; then the shadow has failed
_LATER: Final = timedelta(minutes=1)  # until a budget or a key is looked at again


async def keep_shadowing(watch: Connection, dsn: Callable[[], str], config: Config) -> None:
    """Try changes until cancelled; after an error, go on at the next interval.

    Args:
        watch: on which is looked whether there is a shadow.
    """
    refused, has_shadows, turns = False, False, count()
    async for _ in Periodic(_EVERY):
        if next(turns) % _CALM and not has_shadows:
            continue
        try:
            with translating():
                has_shadows = await canaries.has_shadows(watch)
            if not has_shadows:
                continue
            async with await connect(dsn(), application="walagent shadow") as conn:
                if (owner := await trials.foreign_owner(conn)) is not None:
                    if not refused:
                        log.error("shadow.refused", login=conn.info.user, owner=owner)
                    refused = True
                    continue
                shadower = Shadower(conn, dsn(), config)
                while await shadower.work_one():
                    pass
        except Exception as error:  # noqa: BLE001 - the reader goes on
            log.warning("shadow.failed", error=error)


@dataclass(slots=True)
class _Trial:
    """The trial of one change.

    Args:
        taken_back: whether it saw all rows as the run did.
    """

    claimed: Shadowed
    case: Case
    run: Reverted | None
    replies: Replies = field(default_factory=Replies)
    taken_back: bool = True

    async def before(self, conn: Connection, claim: Claim) -> None:
        """Take back what the run has written."""
        run = self.run
        if run is None or run.definition is None or len(run.changes) > MOST_ROWS:
            self.taken_back = False
            return
        steps = revert_steps(run.changes)
        whole = await canaries.take_back(conn, claim, run.definition, steps)
        self.taken_back = whole and not run.unseen


@dataclass(frozen=True, slots=True)
class Shadower:
    """Tries changes, one after another.

    Args:
        conn: the connection of what is committed.
        config: limits and Python tools of the file.
        held: seconds of one transaction, with the locks of its tools.
    """

    conn: Connection
    dsn: str
    config: Config
    held: float = _HELD

    async def work_one(self) -> bool:
        """Try the next change; False: none is due.

        Raises:
            WalagentError: the database is lost.
        """
        with translating():
            claimed = await canaries.claim_shadow(self.conn, _LEASE)
        if claimed is None:
            return False
        faults.hit("shadow.claimed")
        try:
            done = await self._try(claimed)
        except Exception as error:  # noqa: BLE001 - a shadow fails alone
            wait = _wait_of(error, claimed.attempt)
            if wait is None:
                await self._end(claimed, _failed(await self._case(claimed), error, self.held))
                return True
            await self._later(claimed, wait, error)
        except BaseException:
            with suppress(WalagentError):
                await asyncio.shield(self._end(claimed, None))
            raise
        else:
            faults.hit("shadow.tried")
            await self._end(claimed, done)
            faults.hit("shadow.stored")
        return True

    async def _later(self, claimed: Shadowed, wait: timedelta, error: Exception) -> None:
        log.warning(
            "shadow.postponed",
            attachment=claimed.attachment,
            run_id=claimed.run_id,
            seconds=round(wait.total_seconds(), 1),
            error=error,
        )
        await self._end(claimed, None, wait)

    async def _end(
        self, claimed: Shadowed, case: Mapping[str, Json] | None, wait: timedelta = timedelta(0)
    ) -> None:
        with translating():
            stored = await canaries.end_shadowed(self.conn, claimed, case, wait)
        if case is not None and stored:
            log.info(
                "shadow.compared",
                attachment=claimed.attachment,
                run_id=claimed.run_id,
                version=claimed.definition["version"],
                agrees=case["agrees"],
            )

    async def _case(self, claimed: Shadowed) -> Case:
        """Read what the run came to."""
        with translating():
            (row,) = await evaluations.recorded_runs(
                self.conn, claimed.definition["id"], ENDED, 1, runs=[claimed.run_id]
            )
            of = await evaluations.version(self.conn, claimed.definition["id"], row["version"])
        attachment = of or Attachment.from_json(claimed.definition)
        return case_of(row, attachment.agent)

    async def _try(self, claimed: Shadowed) -> Mapping[str, Json]:
        await self._wait_for_reader(claimed.run_id)
        case = await self._case(claimed)
        with translating():
            run = await reverting.run_to_revert(self.conn, claimed.run_id)
        trial = _Trial(claimed, case, run)
        meter = Meter(Account(self.conn, claimed.evaluation), case.tenant)

        def counted(spec: ModelSpec) -> Model:
            return meter.counted(make_model(spec))

        for _ in range(_MOST):
            try:
                candidate = await self._execute(trial)
            except NotAskedError:
                await trial.replies.ask(counted, _is_passing)
                faults.hit("shadow.answered")
            else:
                return _compared(trial, candidate)
        raise WalagentError(f"the shadow asked a model more than {_MOST} times")

    async def _wait_for_reader(self, run_id: int) -> None:
        """Wait until all is recorded that the run has written.

        Raises:
            ConflictError: the reader is behind.
        """
        until = time.monotonic() + _READER
        with translating():
            lsn = await canaries.request_position(self.conn, run_id)
            while not await reverting.is_ingested(self.conn, lsn):
                if time.monotonic() > until:
                    raise ConflictError(f"the reader has not come to {lsn}")
                await asyncio.sleep(_POLL)

    async def _execute(self, trial: _Trial) -> tuple[Outcome, RecordedCalls]:
        """Execute the trial in a transaction, with the replies that are known.

        Raises:
            NotAskedError: a reply is not known.
            TimeoutError: the transaction took too long.
        """
        claimed, case, recorded = trial.claimed, trial.case, RecordedCalls()
        recorded.play(case.calls)
        trial.replies.begin()
        beyond = Outside(recorded, recorded.harmless, recorded.services, trial.replies.model)
        options = TrialOptions(last=0, assume_approved=True, patience=None)
        config = self.config.model_copy(update={"agents": {}, "attachments": {}})
        own = claimed.tenant == DEFAULT_TENANT
        actor = None if own else Actor(claimed.tenant, claimed.definition["agent"])
        wanted = Wanted(claimed.attachment, config, actor=actor, frozen=claimed.definition)
        async with open_trial(self.dsn, wanted, options, beyond) as opened:
            async with asyncio.timeout(self.held):
                tried = await opened.execute(
                    case.key or "", run_of(case), case.merged, trial.before
                )
            if trial.replies.wanted is not None:  # by a tool that is a model
                raise NotAskedError("a model of a tool")
            assert tried.run is not None  # noqa: S101 - its condition is not evaluated
            found = outcome_of(tried.run, effects_of(opened.attachment.agent.tools))
            return replace(found, seconds=trial.replies.seconds), recorded


def _compared(trial: _Trial, found: tuple[Outcome, RecordedCalls]) -> Mapping[str, Json]:
    """Return the case of the evaluation."""
    candidate, recorded = found
    case = trial.case
    missed: list[Json] = [
        {"tool": call.tool, "arguments": dict(call.arguments)} for call in recorded.missed
    ]
    return _stored(case, candidate, taken_back=trial.taken_back, not_called=missed)


def _stored(case: Case, candidate: Outcome, **more: Json) -> dict[str, Json]:
    of = case.recorded
    return {
        "key": case.key,
        "recorded": of and of.to_json(),
        "candidate": {**candidate.to_json(), **more},
        "agrees": of and agree(of, candidate),
        "tenant": case.tenant,
    }


def _failed(case: Case, error: Exception, held: float) -> Mapping[str, Json]:
    """Return the case of a trial that could not be executed."""
    reason = f"more than {held:g} s in the database" if isinstance(error, TimeoutError) else ""
    return _stored(case, Outcome("failed", None, reason or str(error)[:2000], (), 0, None, 0.0))


def _is_passing(error: WalagentError) -> bool:
    """Whether the same call can have an answer later."""
    later = isinstance(error, BudgetExceededError | ModelUnauthorizedError)
    return later or error.next is Next.RETRY


def _wait_of(error: Exception, attempt: int) -> timedelta | None:
    """Return after which time a change is tried again; None: the shadow has failed."""
    match error:
        case BudgetExceededError() | ModelUnauthorizedError():
            return _LATER
        case WalagentError(next=Next.RETRY) if attempt < _ATTEMPTS:
            asked = getattr(error, "retry_after", None)
            return timedelta(seconds=delay(attempt, asked, RUN))
        case WalagentError() | TimeoutError():
            return None
        case _ if attempt < _ATTEMPTS:
            return timedelta(seconds=delay(attempt, None, RUN))
        case _:
            return None
