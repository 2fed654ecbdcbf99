"""Open intake for one stream: connections, attachments in effect, background work."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import replace
from typing import Any

from psycopg import AsyncConnection

from walagent.base.concurrency import Periodic
from walagent.domain.attachment import Attachment
from walagent.intake.backfill import Backfill
from walagent.intake.conditions import Evaluator, open_evaluator
from walagent.intake.drift_watch import watch_drift
from walagent.intake.intake import Intake
from walagent.intake.settings import IntakeSettings
from walagent.matching.canary import Canary
from walagent.matching.registry import Registry
from walagent.replication.sinks import Beside, Opening, SinkSet
from walagent.store import attachments, backfills, ingestion
from walagent.store.checkpoint import Checkpoint
from walagent.store.errors import translating
from walagent.store.pausing import pause_drifted
from walagent.store.role_reader import RoleReader, open_role_reader
from walagent.store.sessions.connections import connect
from walagent.telemetry.log import log

_IDLE = 60.0  # seconds; idle_in_transaction_session_timeout
_BACKFILL = 30.0  # seconds between two checks for backfills without a notification
_DRIFT = 30.0  # seconds between two checks for drift that the WAL does not show
_DRIFT_REST = 0.5  # seconds between two checks if tables change often


@asynccontextmanager
async def open_intake(opening: Opening, settings: IntakeSettings) -> AsyncGenerator[SinkSet]:
    """Connect, and read the attachments in effect at the end of the checkpoint.

    Raises:
        DatabaseLostError, LoginRefusedError: there is no connection.
    """
    async with AsyncExitStack() as stack:

        async def connected(part: str, idle: float, **settings: str) -> AsyncConnection[Any]:
            name = f"walagent {part}"
            made = await connect(opening.dsn, application=name, idle=idle, settings=settings)
            return await stack.enter_async_context(made)

        # A standby reader must not wait for a checkpoint that a frozen process has locked, and
        # this one gives the slot up, and says who has the lock.
        conn = await connected(
            "intake",
            (opening.settings.sender_timeout or _IDLE) + 1,
            lock_timeout=f"{round(opening.settings.stall_timeout * 1000)}ms",
        )
        asking = await connected("evaluate", _IDLE)
        evaluator = await stack.enter_async_context(
            open_evaluator(asking, settings.tools_dsn, by_name=_by_name(opening))
        )
        filler = await connected("backfill", _IDLE)
        reader = await stack.enter_async_context(open_role_reader(filler, settings.tools_dsn))
        with translating():
            active = await attachments.active_attachments(opening.conn)
            canaries = await attachments.active_canaries(opening.conn)
            shared = [Canary(*each) for each in canaries]
            registry = Registry(active, shared)  # planted: canary-left
            key = await attachments.secret_key(opening.conn)
        beside = _Background(opening, settings)
        intake = Intake(
            conn, evaluator, opening.checkpoint, registry, key, beside.settings(registry)
        )
        yield SinkSet([intake], lambda found: beside.start(intake, filler, reader, found))


class _Background:
    """The background work of intake: backfills and the drift check."""

    def __init__(self, opening: Opening, settings: IntakeSettings) -> None:
        self._opening = opening
        self._backfilling = set[int]()
        self._attached = Periodic(_BACKFILL)
        self._described = Periodic(_DRIFT, rest=_DRIFT_REST, at_once=False)
        self._settings = settings

    def settings(self, registry: Registry) -> IntakeSettings:
        """Return the settings completed for this stream."""
        carried = registry.relations | self._opening.tables if _by_name(self._opening) else None
        return replace(
            self._settings,
            on_attached=self._on_attached,
            on_described=self._described.nudge,
            carried=carried,
            replicated=self._opening.failover,
            backfilling=self._backfilling,
        )

    async def start(
        self,
        intake: Intake,
        filler: AsyncConnection[Any],
        reader: RoleReader,
        checkpoint: Checkpoint,
    ) -> Beside:
        """Let intake write; first pause broken attachments, so that no run starts for them."""
        with translating():
            # Now, for no other reader records what agents write any more.
            async with aclosing(ingestion.last_writes(self._opening.conn)) as rows:
                async for row in rows:
                    intake.corrections.know(*row)
            self._backfilling |= await backfills.running(self._opening.conn)
            await pause_drifted(self._opening.conn)
        intake.hold(checkpoint)
        limits, evaluator = self._settings.limits, Evaluator(filler, reader)
        backfill = Backfill(
            filler, reader, evaluator, self._backfilling, lambda: intake.settled, limits=limits
        )
        return {
            "backfill": self._fill(backfill),
            "drift": watch_drift(self._opening.conn, self._described, self._opening.wal),
        }

    async def _fill(self, backfill: Backfill) -> None:
        async for _ in self._attached:
            while await backfill.work_one():
                self._settings.on_runs()

    def _on_attached(self, attachment: Attachment) -> None:
        log.info("attachment.activated", attachment=attachment.name, version=attachment.version)
        self._attached.nudge()


def _by_name(opening: Opening) -> bool:
    """Return whether the plug-in sends no table OIDs and needs its tables at the start."""
    return opening.settings.plugin == "wal2json"
