"""Divide what a process can do at once, so that no principal and no tenant takes all of it."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Final, TypeVar

from walagent.domain.tenant import Actor
from walagent.http.exchange import RefusedError

NOBODY: Final = Actor("", "")  # everybody who is not known yet, together
_LATER: Final = "Repeat it later."

K = TypeVar("K")


class Shares:
    """Places of a process.

    Args:
        what: takes the places, in the plural.
        most: places in all.
        of_tenant: places that a tenant can have, fewer than *most*.
        of_principal: places that a principal can have.
        waiting: how many of a principal can wait for a place; 0: nobody waits.
    """

    def __init__(
        self, what: str, most: int, *, of_tenant: int, of_principal: int, waiting: int = 0
    ) -> None:
        self._what = what
        self._most = most
        self._of_tenant = of_tenant
        self._of_principal = of_principal
        self._waiting = waiting
        self._taken = 0
        self._principals = Counter[Actor]()
        self._tenants = Counter[str]()
        self._queue = deque[tuple[Actor, asyncio.Future[None]]]()

    @contextmanager
    def now(self, who: Actor) -> Generator[None]:
        """Have a place.

        Raises:
            RefusedError: there is none; 429 if the principal or its tenant has too many.
        """
        who = _principal(who)
        if not self._has_place(who):
            raise self._refusal(who)
        self._take(who)
        try:
            yield
        finally:
            self._leave(who)

    @asynccontextmanager
    async def in_turn(self, who: Actor) -> AsyncGenerator[None]:
        """Wait for a place, and have it; who has waited longest is first, within the shares.

        Raises:
            RefusedError: too many of the principal wait already.
        """
        who = _principal(who)
        if self._has_place(who):
            self._take(who)
        else:
            await self._wait(who)
        try:
            yield
        finally:
            self._leave(who)

    async def _wait(self, who: Actor) -> None:
        if sum(other == who for other, _ in self._queue) >= self._waiting:
            raise self._refusal(who)
        turn = asyncio.get_running_loop().create_future()
        self._queue.append((who, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._leave(who)
            else:
                self._queue.remove((who, turn))
            raise

    def _has_place(self, who: Actor) -> bool:
        return (
            self._taken < self._most
            and self._tenants[who.tenant] < self._of_tenant
            and self._principals[who] < self._of_principal
        )

    def _take(self, who: Actor) -> None:
        self._taken += 1
        self._principals[who] += 1
        self._tenants[who.tenant] += 1

    def _leave(self, who: Actor) -> None:
        """Free the place for the first that waits and may have it."""
        self._taken -= 1
        _subtract(self._principals, who)
        _subtract(self._tenants, who.tenant)
        for each in [*self._queue]:
            other, turn = each
            if not turn.done() and self._has_place(other):  # done: cancelled just now
                self._queue.remove(each)
                self._take(other)
                turn.set_result(None)

    def _refusal(self, who: Actor) -> RefusedError:
        if self._principals[who] >= self._of_principal:
            words = f"{self._of_principal} {self._what} of one principal at once"
        elif self._tenants[who.tenant] >= self._of_tenant:
            words = f"{self._of_tenant} {self._what} of one tenant at once"
        else:
            return RefusedError(503, f"{self._most} {self._what} at once", hint=_LATER)
        return RefusedError(429, f"expected at most {words}", hint=_LATER)


def _principal(who: Actor) -> Actor:
    """Return who it is with any token."""
    return Actor(who.tenant, who.principal)


def _subtract(counts: Counter[K], key: K) -> None:
    """Subtract one, and drop what is zero; `-=` of a counter looks at all its keys."""
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
