"""What the batches of all providers do alike: exchanges, and the IDs in answers."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final, Generic, Protocol, TypeVar

import httpx2

from walagent.errors import ModelUnavailableError
from walagent.message import Json, ModelSpec, Reply, Request
from walagent.models.batches import NOTHING, TIMEOUT, lines_of
from walagent.models.body_limits import ANSWER, answers_up_to
from walagent.models.clients import Closable, Shards, timeouts
from walagent.models.credentials import Endpoint
from walagent.models.errors import no_answer
from walagent.models.exchange import failure_of, refused
from walagent.models.replies import as_object

T = TypeVar("T")

ID = re.compile(r"[\w.:-]{1,200}")  # a segment of a path
_LINE: Final = 64 << 10  # bytes of a line of results, on average
SLOW: Final = timeouts(TIMEOUT)  # files can have 100 MB


class Getting(Closable, Protocol):
    """An SDK's client, as far as this module knows it."""

    def get(
        self,
        path: str,
        *,
        cast_to: type[T],
        options: Any = ...,  # noqa: ANN401 - each SDK has a type of its own
    ) -> Awaitable[T]:
        """Read what is at a path."""
        ...


Client = TypeVar("Client", bound=Getting)


class BatchExchanges(Generic[Client]):
    """The base of each `Batches`."""

    failures: ClassVar[tuple[type[Exception], ...]] = (
        httpx2.HTTPError,
        TimeoutError,
        ValueError,
        RecursionError,
    )

    def __init__(
        self,
        spec: ModelSpec,
        endpoint: Endpoint,
        clients: Shards[Client],
        body_of: Callable[[Request], Json],
        reply_of: Callable[[Json, Request], Reply],
    ) -> None:
        """Connect to nothing."""
        self._spec = spec
        self._endpoint = endpoint
        self._clients = clients
        self.body_of = body_of
        self.reply_of = reply_of

    async def exchange(self, send: Callable[[Client], Awaitable[T]]) -> T:
        """Let one of the clients do something; its failures are raised as those of a model."""
        try:
            async with asyncio.timeout(TIMEOUT):
                with self._clients.lend() as client:
                    return await send(client)
        except self.failures as error:
            failure = failure_of(error, self._endpoint)
            raise refused(failure, self._spec, NOTHING, self._endpoint) from None

    async def read(self, path: str) -> Mapping[str, Json]:
        """Return what is at a path, an object."""
        return as_object(await self.exchange(lambda client: client.get(path, cast_to=object)))

    async def lines(self, path: str, calls: int) -> AsyncIterator[Mapping[str, Json]]:
        """Yield the lines of a file of results.

        Args:
            calls: of the batch: the file has so many lines at most.
        """
        with answers_up_to(ANSWER + calls * _LINE):
            response = await self.exchange(
                lambda client: client.get(path, cast_to=httpx2.Response, options={"timeout": SLOW})
            )
        for line in lines_of(response.content):
            yield line

    def id_in(self, answer: Json) -> str:
        """Return the ID of a batch or file; it becomes a segment of a path."""
        found = as_object(answer).get("id")
        if not isinstance(found, str) or not ID.fullmatch(found):
            raise no_answer(self._spec, "a batch or file without an ID")
        return found

    def endless(self) -> ModelUnavailableError:
        """Make the error of a list that does not end."""
        return no_answer(self._spec, "a list of batches without end")
