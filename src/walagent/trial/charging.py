"""Calls of replays in budgets.

A replay is rolled back, and what it reserves in budgets with it.  So each call is reserved and
settled on a connection of its own.  What a process leaves behind that was killed is released when
its evaluation is no longer held.
"""

import asyncio
import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

from psycopg import AsyncConnection

from walagent.domain.tenant import DEFAULT_TENANT
from walagent.errors import BudgetExceededError, WalagentError
from walagent.message import ModelSpec, Reply, Request
from walagent.models.cost import cost_of, worst_case
from walagent.models.model import Model
from walagent.models.usage import usage_of
from walagent.store import evaluations
from walagent.store.budgets import Refusal
from walagent.store.errors import translating

Connection = AsyncConnection[Any]

_PATIENCE: Final = 60.0  # seconds to wait for reservations of other calls
_HINT: Final = "Run walagent agents budgets to see what is left, and when they reset."


@dataclass(slots=True)
class Account:
    """The evaluation of several trials, and the one connection that stores what stays."""

    conn: Connection
    evaluation: int
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Meter:
    """Counts the calls of one trial.

    Args:
        tenant: of the present case: its budgets count.
    """

    account: Account
    tenant: str = DEFAULT_TENANT

    def counted(self, model: Model) -> Model:
        """Return a model whose calls are counted."""
        return _Counted(self, model)


class _Counted:
    """Implements `Model`."""

    def __init__(self, meter: Meter, model: Model) -> None:
        self._meter = meter
        self._account = meter.account
        self._model = model

    @property
    def spec(self) -> ModelSpec:
        """Return that of the model."""
        return self._model.spec

    async def complete(self, request: Request) -> Reply:
        """Reserve the most that the call can cost, ask, and settle what it did.

        Raises: as the model, and
            BudgetExceededError: a budget does not allow the call.
        """
        call = await self._reserve(request)
        try:
            reply = await self._model.complete(request)
        except WalagentError as error:
            used = usage_of(error)
            cost = cost_of(used, self.spec) if used.total else Decimal(0)
            await self._settle(call, used.total, cost)
            raise
        used = reply.usage
        # What a server did not count, counts as reserved.
        await self._settle(call, used.total or None, cost_of(used, self.spec, reply.tier))
        return reply

    async def _reserve(self, request: Request) -> int:
        """Reserve; wait for reservations of other calls, which are settled within seconds."""
        account, spec, deadline = self._account, self.spec, time.monotonic() + _PATIENCE
        tokens, cost = worst_case(request, spec)
        while True:
            with translating():
                async with account.lock:
                    found = await evaluations.reserve(
                        account.conn,
                        account.evaluation,
                        self._meter.tenant,
                        spec.name,
                        tokens,
                        cost,
                    )
            if not isinstance(found, Refusal):
                return found
            if found.wait is None or time.monotonic() + found.wait > deadline:
                raise BudgetExceededError(found.reason, refusal=found.raw, hint=_HINT)
            await asyncio.sleep(found.wait)

    async def _settle(self, call: int, tokens: int | None, cost: Decimal | None) -> None:
        with translating():
            async with self._account.lock:
                await evaluations.settle(self._account.conn, call, tokens, cost)

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()
