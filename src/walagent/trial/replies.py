"""Ask models between the transactions of a trial, not in them.

    trial → a model is asked → roll back → ask → trial again, answered so far → …

A trial that is executed again makes the same calls in the same order, so replies are given by their
order.  Its transactions are as short as its tools are, and hold no lock while a model is asked.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from walagent.errors import Next, WalagentError
from walagent.message import ModelSpec, Reply, Request
from walagent.models.model import Model


class NotAskedError(WalagentError):
    """The next reply is not known; ask outside of the transaction, and execute the trial again."""

    next: ClassVar[Next] = Next.FAIL_RUN


@dataclass(slots=True)
class Replies:
    """What models have answered in one trial."""

    known: list[Reply | WalagentError] = field(default_factory=list["Reply | WalagentError"])
    wanted: tuple[ModelSpec, Request] | None = None  # what was not known
    seconds: float = 0.0  # that models took
    _given: int = 0

    def begin(self) -> None:
        """Begin the trial again: replies are given from the first."""
        self.wanted, self._given = None, 0

    def model(self, model: Model) -> Model:
        """Return what answers instead of a model."""
        return _Known(self, model)

    def next(self, spec: ModelSpec, request: Request) -> Reply:
        """Give the next reply.

        Raises:
            NotAskedError: it is not known.
            WalagentError: as the model did.
        """
        if self.wanted is not None or self._given == len(self.known):
            self.wanted = self.wanted or (spec, request)
            raise NotAskedError(f'model "{spec.name}" is asked outside of the transaction')
        reply = self.known[self._given]
        self._given += 1
        if isinstance(reply, WalagentError):
            raise reply
        return reply

    async def ask(self, make: Callable[[ModelSpec], Model], passing: Callable[..., bool]) -> None:
        """Ask for the reply that was not known.

        Args:
            passing: whether an error says that it can be asked later; another one is the reply.

        Raises:
            WalagentError: it can be asked later.
        """
        assert self.wanted is not None  # noqa: S101 - else there was no error
        spec, request = self.wanted
        model, asked = make(spec), time.monotonic()
        try:
            self.known.append(await model.complete(request))
        except WalagentError as error:
            if passing(error):
                raise
            self.known.append(error)
        finally:
            self.seconds += time.monotonic() - asked
            await model.aclose()


@dataclass(frozen=True, slots=True)
class _Known:
    """Implements `Model`."""

    replies: Replies
    of: Model

    @property
    def spec(self) -> ModelSpec:
        """Return that of the model."""
        return self.of.spec

    async def complete(self, request: Request) -> Reply:
        """Give the next reply; raises as `Replies.next`."""
        return self.replies.next(self.spec, request)

    async def aclose(self) -> None:
        """Close the model, which was not asked."""
        await self.of.aclose()
