"""What people say in a thread while a turn goes on there: the turn takes it in, or is interrupted.

What is absorbed is a step before the model is asked: who continues the turn sends the same.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from psycopg import Error

from walagent.base.concurrency import event_within
from walagent.deciders.turn import MEANWHILE, upto_of
from walagent.domain.run import RunSpec, Step, StepKind
from walagent.domain.thread import ThreadView
from walagent.domain.untrusted import marker
from walagent.errors import WalagentError
from walagent.moves import Connection, RunLog
from walagent.runs.interrupts import Interrupts
from walagent.runs.rendering.thread_json import render_meanwhile
from walagent.store import turns
from walagent.store.sessions.connections import Pool

_LOOK: Final = 10.0  # seconds between looks during a reply; a notification comes before


class Meanwhile:
    """Takes in what is said while turns go on.

    Args:
        size: bytes of the events that a prompt of a run has room for.
    """

    def __init__(
        self, pool: Pool, secret: bytes, interrupts: Interrupts, size: Callable[[RunSpec], int]
    ) -> None:
        self._pool = pool
        self._secret = secret
        self._interrupts = interrupts
        self._size = size

    async def take_in(self, run: RunSpec, log: RunLog) -> bool:
        """Record what the turn takes in, if there is something."""
        if run.claim.reason == "summary":
            return False
        upto, size = upto_of(log.steps), self._size(run)
        async with self._pool.connection() as conn:
            if await turns.said_meanwhile(conn, run.claim, upto) is None:
                return False
            view = ThreadView.from_json(await turns.look(conn, run.claim, size), size // 2)
        if view is None or view.seen is None:
            return False
        text = render_meanwhile(view, upto, marker(self._secret, run.run_id))
        await log.record(StepKind.NOTE, {"text": text, MEANWHILE: {"upto": view.last}})
        return True

    async def interrupted(self, run: RunSpec, steps: Sequence[Step]) -> None:
        """Return when a person interrupts the reply that is being written."""
        if run.claim.reason == "summary":
            await asyncio.Event().wait()
        upto = upto_of(steps)
        with self._interrupts.awaiting(run.run_id) as hint:
            while not await self._is_interrupted(run, upto):
                await event_within(hint, _LOOK)
                hint.clear()

    async def _is_interrupted(self, run: RunSpec, upto: int) -> bool:
        try:
            async with self._pool.connection() as conn:
                said = await turns.said_meanwhile(conn, run.claim, upto)
        except (Error, WalagentError):  # the reply is more than a look; recording it raises again
            return False
        return said is not None and bool(said["interrupts"])

    async def cut(self, conn: Connection, run: RunSpec, text: str) -> None:
        """Post what was said of a reply."""
        if text:
            await turns.post_cut_off(conn, run.claim, text)
