"""Batches of a provider: calls of many runs in one submission, answered within a day."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Protocol

import orjson

from walagent.domain.batch import BatchCall
from walagent.message import Json, Reply, Request
from walagent.models.model import Model

NOTHING = Request(system="", messages=())  # of an error that no request of a run is the reason for
TIMEOUT = 600.0  # seconds of one exchange
PAGES = 100  # of a list of batches; no day has as many
CLOCKS = timedelta(hours=1)  # by which those of two machines may differ


@dataclass(frozen=True, slots=True)
class BatchState:
    """What a provider says about a batch.

    Args:
        ended: all results that it will have are there.
        why: why calls may have no reply.
        places: where the results are.
        full: the provider has no room for so many calls at present, and has begun none.
    """

    ended: bool
    why: str = ""
    places: tuple[str, ...] = ()
    full: bool = False


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One result.

    Args:
        answer: the body of a reply; None: the call has no reply.
        why: why it has none.
    """

    custom_id: str
    answer: Json
    why: str = ""


class Batches(Protocol):
    """The batches of one model.  Errors are those of `Model.complete`."""

    def body_of(self, request: Request) -> Json:
        """Return the body of a request, as a batch contains it."""
        ...

    def reply_of(self, answer: Json, request: Request) -> Reply:
        """Read the answer to a request.

        Raises:
            ModelUnavailableError: it is no whole answer; it has the usage of what came.
        """
        ...

    async def submit(self, key: str, calls: Sequence[BatchCall]) -> str:
        """Submit a batch; return its ID.

        Args:
            key: by which `find` finds it, if the provider keeps such a word.
        """
        ...

    async def find(self, key: str, calls: Sequence[BatchCall], since: datetime) -> str | None:
        """Find a batch that may have been submitted, and whose ID was lost; None: it was not.

        Raises:
            ModelUnavailableError: it is not known yet.
        """
        ...

    async def look(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        ...

    def results(self, state: BatchState, calls: int) -> AsyncIterator[BatchLine]:
        """Yield the results of a batch that has ended, in any order.

        Args:
            calls: of the batch.
        """
        ...


def batches_of(model: Model) -> Batches | None:
    """Return the batches of a model; None: its provider has none."""
    return getattr(model, "batches", None)


def lines_of(content: bytes) -> Iterator[Mapping[str, Json]]:
    """Read the lines of a file of results; what is no JSON object is left out."""
    for line in content.split(b"\n"):
        try:
            read = orjson.loads(line)
        except ValueError:
            continue
        if isinstance(read, dict):
            yield read
