"""Calls of replays in budgets.

A replay is rolled back, and what it reserves in budgets with it.  So each call is counted on a
connection of its own: the most that it can cost before it, what it did cost after it.
"""

import asyncio
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from psycopg import AsyncConnection

from walagent.domain.tenant import DEFAULT_TENANT
from walagent.errors import BudgetExceededError, WalagentError
from walagent.message import ModelSpec, Reply, Request, Usage
from walagent.models.cost import cost_of, worst_case
from walagent.models.model import Model
from walagent.runs.metering import usage_of
from walagent.store import evaluations
from walagent.store.errors import translating

Connection = AsyncConnection[Any]

_HINT = "Run walagent agents budgets to see what is left, and when they reset."


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
        """Count the most that the call can cost, ask, and count what it did.

        Raises: as the model, and
            BudgetExceededError: a budget does not allow the call.
        """
        account, spec = self._account, self.spec
        tokens, cost = worst_case(request, spec)
        with translating():
            async with account.lock:
                charged = await evaluations.charge(
                    account.conn, account.evaluation, self._meter.tenant, spec.name, tokens, cost
                )
        if not isinstance(charged, evaluations.Charge):
            raise BudgetExceededError(str(charged["reason"]), refusal=charged, hint=_HINT)
        try:
            reply = await self._model.complete(request)
        except WalagentError as error:
            await self._correct(charged, usage_of(error), came=False)
            raise
        await self._correct(charged, reply.usage, came=True)
        return reply

    async def _correct(self, charged: evaluations.Charge, used: Usage, *, came: bool) -> None:
        """Correct a charge; what a server did not count stays as it was charged.

        That of a call which was cut off stays too: what it used is unknown.

        Args:
            came: whether a reply did; else only what is known of it was used.
        """
        if came and not used.total:
            return
        cost = cost_of(used, self.spec) if used.total else Decimal(0)
        with translating():
            async with self._account.lock:
                await evaluations.correct(self._account.conn, charged, used.total, cost)

    async def aclose(self) -> None:
        """Close the model."""
        await self._model.aclose()
