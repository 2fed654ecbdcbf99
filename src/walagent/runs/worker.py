"""A worker: claims runs for its free slots, works them side by side, keeps their leases alive.

    claim → work → claim …      one loop, `work_some()` is one turn of it
    heartbeat                   extends all leases, tells which runs are lost or cancelled
    listen                      wakes the loop; the slow poll is the truth

Any number of workers on any number of machines share `agent.run`.
"""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from psycopg import AsyncConnection, Error

from walagent import __version__, faults, metrics
from walagent.attachment import Attachment
from walagent.errors import DatabaseLostError, WalagentError
from walagent.log import log
from walagent.run import Claim, RunState
from walagent.runs.awake_timeout import awake_for
from walagent.runs.backoff import pause_after
from walagent.runs.error_policy import Outcome, outcome_of
from walagent.runs.executor import Work, Workshop
from walagent.runs.pausing import pause_broken
from walagent.runs.visibility import Visibility
from walagent.store import attachments, budgets, runs
from walagent.store.checkpoint import Start
from walagent.store.connections import Pool, why_not
from walagent.store.errors import translating

_GOODBYE = 3.0  # seconds that signing off may take
_EAR = 20.0  # seconds between two looks whether the ear is still one
_HELD = 1.0  # seconds between two looks for work that a model's limiter has held back
_BUSY = 5.0  # seconds until a run comes again whose attachment somebody was changing
_GATHER = 0.003  # seconds that a claim waits for more slots to come free while runs are short


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker works.  Times are seconds."""

    name: str
    slots: int = 100  # runs at the same time
    lease: float = 30.0
    poll: float = 5.0  # how often to look for work that nobody told of
    drain: float = 20.0  # how long to let runs end when stopping


class Worker:
    """Works runs until it is told to stop."""

    def __init__(self, settings: WorkerSettings, shop: Workshop) -> None:
        """Take over nothing: connections come from the shop's pool."""
        self._settings = settings
        self._shop = shop
        self._pool: Pool = shop.pool
        self._sight = Visibility(shop.pool)
        self._lease = timedelta(seconds=settings.lease)
        self._active: dict[int, tuple[Claim, asyncio.Task[None]]] = {}
        self._cancelled: set[int] = set()  # runs whose task was cancelled because a person asked
        self._settling: set[int] = set()  # runs of which is being written down how they go on
        self._done: Counter[int] = Counter()  # runs let go of per attachment, since the last claim
        self._definitions: dict[tuple[int, int], Attachment] = {}
        self._models: dict[int, str] = {}  # of each attachment, in the newest version we know
        self._wake = asyncio.Event()
        self._beat_now = asyncio.Event()
        self._tasks: asyncio.TaskGroup | None = None  # while we run
        self._stopping = False
        self._due: float | None = None
        self._woken = True  # whether the last rest ended by a call and not by its time
        self._more = False  # whether the last claim left runs behind
        self._held = False  # whether it left some for want of room at their model
        self._failures = 0  # turns in a row that lost the database
        self.trouble = ""  # why no run can be worked, while none can
        self.beat_at = self._beating_at = self._turning_at = time.monotonic()

    def wake(self) -> None:
        """Say that there may be work."""
        self._wake.set()

    @property
    def active(self) -> int:
        """How many runs are being worked now."""
        return len(self._active)

    @property
    def turned_at(self) -> float:
        """When the slower of its loops last came around, whether or not it got what it asked for.

        While it stops, only the heartbeat goes on.
        """
        return self._beating_at if self._stopping else min(self._beating_at, self._turning_at)

    def stop(self) -> None:
        """Claim nothing more; `run` returns when the runs have ended or the time is up."""
        self._stopping = True
        self._wake.set()

    async def run(self) -> None:
        """Work until `stop`, then let the runs end, and give back those that do not.

        Raises:
            DatabaseLostError: there was no connection to begin with; start over.
        """
        self._beating_at = self._turning_at = time.monotonic()
        async with self._connection() as conn:
            await runs.register_worker(conn, self._settings.name, self._settings.slots, __version__)
            self._shop.budgets.replace(await budgets.load_scopes(conn))
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            beat = tasks.create_task(self._beat(), name="heartbeat")
            ears = tasks.create_task(self._listen(), name="listen")
            try:
                while not self._stopping:
                    await self._turn()
                await self._drain()
            finally:
                self._tasks = None
                beat.cancel()
                ears.cancel()
        await self.leave()

    async def leave(self) -> None:
        """Give back what is still held, so that nobody waits for its lease, and sign off.

        Call it when nothing works any more; it takes a few seconds at most, and never raises.
        """
        with suppress(WalagentError, TimeoutError):
            async with asyncio.timeout(_GOODBYE), self._connection() as conn:
                await runs.release_runs(conn, self._settings.name)
                await runs.forget_worker(conn, self._settings.name)

    @asynccontextmanager
    async def _connection(self) -> AsyncGenerator[AsyncConnection[Any]]:
        """Give a connection for what must be answered within a lease, or is worth nothing.

        Raises:
            DatabaseLostError: also when there was no answer.
        """
        try:
            with translating():
                async with (
                    asyncio.timeout(self._settings.lease),
                    self._pool.connection() as conn,
                ):
                    yield conn
        except TimeoutError as error:
            told, state = why_not(self._pool)
            words = f": {told}" if told else ""
            raise DatabaseLostError(
                f"the database does not answer{words}", sqlstate=state
            ) from error

    async def _turn(self) -> None:
        """Claim and rest.  A lost database costs a pause, and no run in work its model's answer."""
        self._turning_at = time.monotonic()
        try:
            await self._rest(await self.work_some())
            self._failures, self.trouble = 0, ""
        except DatabaseLostError as error:
            self._failures, self.trouble = self._failures + 1, str(error)
            log.warning("worker.waiting", error=error)
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_after(self._failures)):
                    await self._wake.wait()

    def offer(self) -> Start | None:
        """Say what could be started now: runs that come in while we are not busy need no claim."""
        room = self._settings.slots - len(self._active)
        if self._tasks is None or self._stopping or room <= 0:
            return None
        return Start(self._settings.name, self._lease, room, self._rooms(room))

    def start(self, claims: Sequence[Claim]) -> None:
        """Work runs that this worker holds."""
        if self._tasks is None:
            return  # we have ended meanwhile; their leases run out
        for claim in claims:
            faults.hit("run.claimed")
            if claim.run_id in self._active:  # it was taken from us, and has come back
                self._abandon(self._active[claim.run_id][0], cancelled=False)
                self._forget(claim.run_id)
            task = self._tasks.create_task(self._work(claim), name=f"run {claim.run_id}")
            self._active[claim.run_id] = (claim, task)
            task.add_done_callback(lambda _, c=claim: self._let_go(c))

    async def work_some(self) -> int:
        """Claim runs for the free slots and start them; return how many."""
        self._wake.clear()
        free = self._settings.slots - len(self._active)
        if free <= 0:
            return 0
        done, self._done = self._done, Counter()
        rooms = self._rooms(free)
        async with self._connection() as conn:
            claims, self._more = await runs.claim_runs(
                conn, self._settings.name, free, self._lease, done, rooms
            )
        taken = Counter(claim.attachment_id for claim in claims)
        self._held = any(taken[attachment] >= room for attachment, room in rooms.items())
        self.start(claims)
        return len(claims)

    def _rooms(self, free: int) -> dict[int, int]:
        """Say of which attachments fewer than *free* runs may start: their model takes no more.

        A run that waits for its provider would hold a slot that another model's run could use.
        """
        tight = self._shop.tight(self._settings.slots)
        if not tight:
            return {}
        active = Counter(
            self._models.get(claim.attachment_id) for claim, _ in self._active.values()
        )
        rooms = {
            attachment: max(0, tight[model] - active[model])
            for attachment, model in self._models.items()
            if model in tight
        }
        return {attachment: room for attachment, room in rooms.items() if room < free}

    async def _rest(self, taken: int) -> None:
        """Wait until another claim makes sense."""
        if taken and self._more and len(self._active) < self._settings.slots:
            return
        if not taken and self._woken:
            await self._tick()  # what came may only be due later
        poll = min(self._settings.poll, _HELD) if self._held else self._settings.poll
        patience = min(poll, max(self._due or poll, 0.01))
        try:
            async with asyncio.timeout(patience):
                await self._wake.wait()
            self._woken = True
        except TimeoutError:
            self._woken = False
            await self._tick()
        if len(self._active) > self._settings.slots * 3 // 4:
            await asyncio.sleep(_GATHER)

    async def _tick(self) -> None:
        if time.monotonic() - self.beat_at > self._settings.lease:
            self._beat_now.set()  # we stood still: our own leases first; it ticks, too
            return
        async with self._connection() as conn:
            self._due = await runs.tick(conn)

    def _let_go(self, claim: Claim) -> None:
        """Free a run's slot.  Claim again only if that can bring something: it costs a commit."""
        was_full = len(self._active) >= self._settings.slots
        if self._active.get(claim.run_id, (None, None))[0] is claim:
            self._forget(claim.run_id)
        self._done[claim.attachment_id] += 1
        attachment = self._definitions.get((claim.attachment_id, claim.attachment_version))
        more = was_full or self._more or self._held
        if more or attachment is None or attachment.queueing.cap is not None:
            self._wake.set()

    def _forget(self, run_id: int) -> None:
        self._active.pop(run_id, None)
        self._cancelled.discard(run_id)
        self._settling.discard(run_id)

    # One run.

    async def _work(self, claim: Claim) -> None:
        """Work a run to its end or its next wait; whatever it raises is dealt with here."""
        started, work, state, wake = time.monotonic(), None, None, None
        try:
            attachment = await self._definition(claim)
            work = Work(self._shop, claim, attachment, self._sight)
            async with awake_for(attachment.agent.limits.max_seconds) as wake:
                with translating():
                    state = await work.carry_on()
            if work.unblocked:
                self._wake.set()
        except asyncio.CancelledError:
            if claim.run_id not in self._cancelled:
                raise
            state = await self._settle(claim, work, Outcome(RunState.CANCELLED, "cancelled"))
        except Exception as error:  # whatever a run raises ends that run; seldom the worker, too
            outcome = outcome_of(error, claim, stood_still=wake is not None and wake.stood_still)
            if not isinstance(error, WalagentError | TimeoutError):
                log.exception("run.error", run_id=claim.run_id)
            state = await self._settle(claim, work, outcome)
            if outcome.stop:
                raise
        elapsed = time.monotonic() - started
        metrics.run_duration_seconds.observe(elapsed)
        log.info(
            "run.worked",
            run_id=claim.run_id,
            attachment=claim.attachment_id,
            lsn=claim.commit_lsn,
            state=state.value if state else "left",
            attempt=claim.attempt,
            seconds=round(elapsed, 3),
        )

    async def _definition(self, claim: Claim) -> Attachment:
        key = (claim.attachment_id, claim.attachment_version)
        if key not in self._definitions:
            async with self._connection() as conn:
                found = await attachments.attachment_version(conn, *key)
            if found is None:
                raise WalagentError(f"version {key[1]} of attachment {key[0]} is gone")
            await self._shop.prepare(found.agent.model)
            self._definitions[key] = found
            newest = max(
                version for attachment, version in self._definitions if attachment == key[0]
            )
            self._models[key[0]] = self._definitions[key[0], newest].agent.model
        return self._definitions[key]

    async def _settle(self, claim: Claim, work: Work | None, outcome: Outcome) -> RunState | None:
        """Write down how a run that raised goes on.  If that fails, its lease runs out."""
        state, wait = outcome.state, outcome.delay
        if state is None:
            return None
        self._settling.add(claim.run_id)
        spent = work.spent if work else runs.Spent(0, None)
        reserved = work is not None and work.reserved
        try:
            async with self._connection() as conn:
                if outcome.pause and not await self._pause(conn, claim, outcome.reason):
                    state, wait = RunState.WAITING_RETRY, _BUSY
                if state in {RunState.WAITING_RETRY, RunState.PENDING}:
                    if outcome.refusal is not None:
                        await budgets.wait_for_budget(conn, claim, outcome.refusal, spent)
                    else:
                        await runs.park_run(
                            conn,
                            claim,
                            state,
                            delay=wait,
                            refund=outcome.refund,
                            error=outcome.error,
                            spent=spent,
                            reserved=reserved,
                        )
                    self._due = min(wait, self._due or wait)
                    self._wake.set()
                else:
                    unblocked = await runs.finish_run(
                        conn,
                        claim,
                        state,
                        result=None,
                        error=outcome.error,
                        spent=spent,
                        reserved=reserved,
                    )
                    if unblocked:
                        self._wake.set()
        except WalagentError as error:
            log.warning("run.unsettled", run_id=claim.run_id, error=error)
            return None
        return state

    async def _pause(self, conn: AsyncConnection[Any], claim: Claim, reason: str) -> bool:
        """Pause the run's attachment; False where a person is changing it, or has ended it."""
        attachment = self._definitions[claim.attachment_id, claim.attachment_version]
        return await pause_broken(conn, attachment, reason)

    # What goes on beside.

    async def _beat(self) -> None:
        """Extend all leases, three times within one."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._settings.lease / 3):
                    await self._beat_now.wait()
            self._beat_now.clear()
            self._beating_at = time.monotonic()
            claims = [claim for claim, _ in self._active.values()]
            try:
                async with self._connection() as conn:
                    lost = await runs.heartbeat(conn, self._settings.name, claims, self._lease)
                    self._due = await runs.tick(conn)
                    self._shop.budgets.replace(await budgets.load_scopes(conn))
            except DatabaseLostError as error:
                log.warning("worker.heartbeat_failed", error=error)
                continue
            self.beat_at = time.monotonic()
            for claim in claims:
                if claim.run_id in lost:
                    self._abandon(claim, cancelled=lost[claim.run_id])

    def _abandon(self, claim: Claim, *, cancelled: bool) -> None:
        """Stop working a run; closing the model's socket is part of that.

        Not twice, and not one that has just raised: its end would not be written down.
        """
        if claim.run_id in self._cancelled | self._settling:
            return
        held, task = self._active.get(claim.run_id, (None, None))
        if held is claim and task is not None:  # it may have ended, and be ours again by now
            if cancelled:
                self._cancelled.add(claim.run_id)
            task.cancel()

    async def _listen(self) -> None:
        """Hear of new work and cancellations.  Only a hint: without it, the poll finds them."""
        while True:
            try:
                async with self._pool.connection() as conn:
                    await _listen_on(conn, self._heard)
            except (Error, WalagentError) as error:
                log.warning("worker.deaf", error=error)
            await asyncio.sleep(1)

    def _heard(self, channel: str, payload: str) -> None:
        if channel == "walagent_cancel" and payload.isdigit() and int(payload) in self._active:
            self._beat_now.set()  # anybody may notify: whether it is true, the heartbeat tells
        elif channel == "walagent_budgets":
            self._beat_now.set()  # which asks for them
        self._wake.set()

    async def _drain(self) -> None:
        """Let runs end, for as long as there is time."""
        tasks = [task for _, task in self._active.values()]
        if tasks:
            log.info("worker.draining", runs=len(tasks))
            await asyncio.wait(tasks, timeout=self._settings.drain)
        left = [task for _, task in self._active.values()]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=5)


async def _listen_on(conn: AsyncConnection[Any], heard: Callable[[str, str], None]) -> None:
    await conn.execute("listen walagent_runs")
    await conn.execute("listen walagent_cancel")
    await conn.execute("listen walagent_budgets")
    while True:
        async for notification in conn.notifies(timeout=_EAR):
            heard(notification.channel, notification.payload)
        await conn.execute("select")  # one that nobody ended, and that is dead, has no answer
