"""A worker: claims runs for its free slots, executes them concurrently, extends their leases.

    claim → execute → claim …   one loop; `work_some()` is one iteration
    leases                      the heartbeat: extends leases, finds lost and cancelled runs
    listener                    wakes the loop; polling finds what a notification missed

Any number of workers on any number of machines share `agent.run`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection

from walagent import __version__
from walagent.base import faults
from walagent.base.concurrency import event_within
from walagent.base.retries import DATABASE, seconds
from walagent.domain.run import Claim, RunSpec
from walagent.errors import DatabaseLostError, WalagentError
from walagent.runs.attempt import RunAttempt
from walagent.runs.claims import Definitions
from walagent.runs.leases import Held, Leases
from walagent.runs.listener import listen
from walagent.runs.live_replies import LiveReplies
from walagent.runs.resources import Resources
from walagent.store import budgets, claiming
from walagent.store.claiming import ClaimScope
from walagent.store.ingestion import Start
from walagent.telemetry.log import log

_FIRST = 64  # runs to begin with
_SIGN_OFF = 3.0  # seconds to release runs and unregister
_LIMITED = 1.0  # seconds between polls for runs that the limit of a model holds back
_TRUSTED = 3  # notifications in a row that may turn out to be about nothing
_CALM = 0.2  # seconds, at most, before a claim for the next of them
_SPARE = 1.0  # seconds by which a poll may be late: else the heartbeat ticks in its place
_GATHER = 0.003  # seconds for which a claim waits until half of the slots are free


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """Settings of a worker.  Times are seconds."""

    name: str
    slots: int = 100  # concurrent runs
    lease: float = 30.0
    poll: float = 5.0  # between polls without a notification
    drain: float = 20.0  # for runs to end when stopping


class Worker:
    """Claims and executes runs until `stop` is called."""

    def __init__(self, settings: WorkerSettings, resources: Resources) -> None:
        """Claim nothing yet; connections come from the pool of the resources."""
        self._settings = settings
        self._resources = resources
        self._leases = Leases(resources.pool, settings.name, settings.lease, self._beside)
        self._definitions = Definitions(resources.label, resources.is_out)
        self._defining = asyncio.Lock()  # a claim can return hundreds of runs of one attachment
        self._claims = claiming.Turn()
        self._wake = asyncio.Event()
        self._half_free = asyncio.Event()  # set as soon as half of the slots are free
        self._tasks: asyncio.TaskGroup | None = None  # while it runs
        self._stopping = False
        self._due: float | None = None
        self._idle_wakes = 0  # in a row: there was nothing to claim
        self._woken = True  # whether the last wait ended by a notification
        self._limited = False  # whether it left some because of a model's limit
        self._failures = 0  # consecutive iterations without a database
        self._ticked_at = time.monotonic()
        self._ready = True  # whether a run might be there to claim, as the last tick says
        self.trouble = ""  # why no run can be executed
        self._turning_at = time.monotonic()

    def wake(self) -> None:
        """Poll now."""
        self._wake.set()

    @property
    def active(self) -> int:
        """The number of runs being executed."""
        return len(self._leases.active)

    @property
    def replies(self) -> LiveReplies:
        """Those that models write now."""
        return self._resources.replies

    @property
    def beat_at(self) -> float:
        """When the leases were last extended."""
        return self._leases.beat_at

    @property
    def reasons(self) -> Sequence[str]:
        """Why runs are not executed, or not on time."""
        reasons = [f"the worker is waiting: {self.trouble}"] if self.trouble else []
        tick_age = time.monotonic() - self._ticked_at
        if tick_age > 2 * self._settings.lease + self._settings.poll:
            reasons.append(
                f"no tick for {tick_age:.0f} s: leases do not expire, retries do not start;"
                " a transaction holds agent_internal.tick_lock"
            )
        return reasons

    @property
    def turned_at(self) -> float:
        """When the slower of its loops last iterated, successfully or not.

        During a stop, only the heartbeat continues.
        """
        beat = self._leases.turned_at
        return beat if self._stopping else min(beat, self._turning_at)

    def stop(self) -> None:
        """Stop claiming; `run` returns when the runs have ended or `drain` is over."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Execute runs until `stop`; then drain, and release the runs that have not ended.

        Raises:
            DatabaseLostError: there was no connection at the start.
        """
        self._leases.turned_at = self._turning_at = self._ticked_at = time.monotonic()
        async with self._leases.connection() as conn:
            await claiming.register_worker(
                conn, self._settings.name, self._settings.slots, __version__
            )
            self._resources.budgets.replace(await budgets.load_scopes(conn))
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            beside = [
                tasks.create_task(self._leases.run(), name="heartbeat"),
                tasks.create_task(listen(self._resources.pool, self._notified), name="listen"),
            ]
            try:
                while not self._stopping:
                    await self._turn()
                await self._drain()
            finally:
                self._tasks = None
                for task in beside:
                    task.cancel()
        await self.leave()

    async def leave(self) -> None:
        """Release all runs, so that no lease must expire, and unregister.

        Called when no run is being executed; takes at most a few seconds and never raises.
        """
        with suppress(WalagentError, TimeoutError):
            async with asyncio.timeout(_SIGN_OFF), self._leases.connection() as conn:
                await claiming.release_runs(conn, self._settings.name)
                await claiming.forget_worker(conn, self._settings.name)

    async def _turn(self) -> None:
        """Claim and wait.  After a lost database, pause: active runs keep their model's reply."""
        self._turning_at = time.monotonic()
        try:
            await self._rest(await self.work_some() if self._ready else 0)
            self._failures, self.trouble = 0, ""
        except DatabaseLostError as error:
            self._failures, self.trouble = self._failures + 1, str(error)
            log.warning("worker.waiting", error=error)
            await event_within(self._wake, seconds(DATABASE, self._failures))

    # Claim.

    def offer(self) -> Start | None:
        """Return the free slots, if any: runs that arrive meanwhile need no claim.

        None while others wait, as far as this worker knows: they are not passed over.
        """
        free = self._free_slots
        if self._tasks is None or self._stopping or free <= 0:
            return None
        if self._claims.more or self._wake.is_set():
            return None
        return Start(self._settings.name, self._lease, free, self._limits(free))

    async def work_some(self) -> int:
        """Claim runs for the free slots and start them; return their number."""
        self._wake.clear()
        free = self._free_slots
        if free <= 0:
            return 0
        limits = self._limits(free)
        scope = ClaimScope(tuple(self._resources.kinds), limits=limits)
        async with self._leases.connection() as conn:
            claims = await claiming.claim_runs(
                conn, self._settings.name, free, self._lease, scope, self._claims
            )
        claimed = Counter(claim.queue_id for claim in claims)
        self._limited = any(claimed[queue] >= most for queue, most in limits.items())
        self.start(claims)
        return len(claims)

    @property
    def _free_slots(self) -> int:
        """How many runs can be claimed.

        Few before the first model is known: its limiter allows only part of the calls at first, and
        further runs would be released.
        """
        slots = self._settings.slots
        return (slots if self._definitions.models else min(slots, _FIRST)) - self.active

    @property
    def _lease(self) -> timedelta:
        return timedelta(seconds=self._settings.lease)

    def _limits(self, free: int) -> dict[int, int]:
        """Return queues of which fewer than *free* runs can start: their model has a limit.

        A run that waits for its provider would hold a slot that another model's run could use.
        """
        limits = self._resources.limits(self._settings.slots)
        if not limits:
            return {}
        models = self._definitions.models
        active = Counter(models.get(held.claim.queue_id) for held in self._leases.active.values())
        most = {
            queue: max(0, limits[model] - active[model])
            for queue, model in models.items()
            if model in limits
        }
        return {queue: runs for queue, runs in most.items() if runs < free}

    async def _rest(self, claimed: int) -> None:
        """Wait for a reason to claim again."""
        if claimed and self._claims.more and self._free_slots > 0:
            return
        if not claimed and self._woken:
            await self._tick()  # the run that arrived might be due later
        poll = min(self._settings.poll, _LIMITED) if self._limited else self._settings.poll
        self._idle_wakes = self._idle_wakes + 1 if self._woken and not claimed else 0
        self._ready = True
        self._woken = await event_within(self._wake, min(poll, max(self._due or poll, 0.01)))
        if self._woken and self._idle_wakes > _TRUSTED:  # anyone can notify
            await asyncio.sleep(min(_CALM, 0.01 * 2 ** min(self._idle_wakes - _TRUSTED, 8)))
        if not self._woken:
            self._ready = await self._tick()
        if self.active > self._settings.slots * 3 // 4:
            self._half_free.clear()
            await event_within(self._half_free, _GATHER)

    async def _tick(self) -> bool:
        """Perform what is due; return whether a run might be there to claim."""
        if self._leases.is_late:
            self._leases.nudge()  # its own leases first; the heartbeat also ticks
            return True
        async with self._leases.connection() as conn:
            return await self._tick_on(conn)

    async def _tick_on(self, conn: AsyncConnection[Any]) -> bool:
        tick = await claiming.tick(conn)
        self._due = tick.due
        if tick.done:
            self._ticked_at = time.monotonic()
        return tick.ready

    # Execute.

    def start(self, claims: Sequence[Claim]) -> None:
        """Execute runs that this worker holds."""
        if self._tasks is None:
            return  # it has stopped; their leases expire
        for claim in claims:
            faults.hit("run.claimed")
            if (former := self._leases.active.get(claim.run_id)) is not None:
                former.abandon(cancelled=False)  # the run was lost and claimed again
                self._leases.release(former)
            held = Held(claim)
            work = self._work(held)
            try:
                held.task = self._tasks.create_task(work, name=f"run {claim.run_id}")
            except RuntimeError:  # an error of another run ends the worker: their leases expire
                work.close()
                return
            self._leases.active[claim.run_id] = held
            held.task.add_done_callback(lambda _, held=held: self._released(held))

    async def _work(self, held: Held) -> None:
        attempt = RunAttempt(
            self._resources,
            held.claim,
            lambda: self._specify(held.claim),
            lambda: held.cancelled,
            held.store,
        )
        await attempt.make()
        if attempt.due is not None:
            self._due = min(attempt.due, self._due or attempt.due)
        if attempt.unblocked or attempt.due is not None:
            self._wake.set()
        if attempt.stop and attempt.error is not None:
            raise attempt.error

    async def _specify(self, claim: Claim) -> RunSpec:
        specify = self._resources.kinds[claim.kind].specify or self._as_defined
        run = await specify(claim)
        others = (run.agent.fallback, *(stage.model for stage in run.agent.stages))
        for model in (run.agent.model, *filter(None, others)):
            await self._resources.prepare(model, claim.tenant)
        return run

    async def _as_defined(self, claim: Claim) -> RunSpec:
        """Build what is executed from the attachment's version, which is read once."""
        if not self._definitions.is_known(claim):
            async with self._defining:
                if not self._definitions.is_known(claim):
                    async with self._leases.connection() as conn:
                        await self._definitions.load(conn, claim)
                    self._wake.set()
        return self._definitions.spec(claim)

    def _released(self, held: Held) -> None:
        """Free a run's slot.  Claim only if there might be runs: a claim costs a commit."""
        was_full = self.active >= self._settings.slots
        self._leases.release(held)
        if self.active <= self._settings.slots // 2:
            self._half_free.set()
        more = was_full or self._claims.more or self._limited
        if more or not self._definitions.is_uncapped(held.claim):
            self._wake.set()

    # Beside.

    async def _beside(self, conn: AsyncConnection[Any]) -> None:
        """Do what is due, and read the budgets, with each heartbeat."""
        if time.monotonic() - self._ticked_at > self._settings.poll + _SPARE:
            await self._tick_on(conn)
        self._resources.budgets.replace(await budgets.load_scopes(conn))

    def _notified(self, channel: str, payload: str) -> None:
        if channel == "walagent_cancel" and payload.isdigit():
            if int(payload) in self._leases.active:
                self._leases.nudge()  # anyone can notify; the heartbeat reads the state
        elif channel == "walagent_budgets":
            self._leases.nudge()  # which reads them
        elif channel == "walagent_interrupt":
            self._resources.interrupts.hint(payload)
            return
        self._wake.set()

    async def _drain(self) -> None:
        """Wait for runs to end; cancel the others after `drain`."""
        tasks = [held.task for held in self._leases.active.values() if held.task]
        if tasks:
            log.info("worker.draining", runs=len(tasks))
            await asyncio.wait(tasks, timeout=self._settings.drain)
        left = [held.task for held in self._leases.active.values() if held.task]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=5)
