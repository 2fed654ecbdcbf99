"""Message batches of Anthropic: calls in one request, and one file of results.

A batch has no word of ours, and its results can be read only once it has ended: until then, another
batch of as many calls may be the one that is looked for.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import httpx2
from anthropic import AnthropicError, AsyncAnthropic

from walagent.domain.batch import BatchCall
from walagent.errors import ModelUnavailableError
from walagent.message import Json, ModelSpec, Reply, Request
from walagent.models.batches import (
    CLOCKS,
    NOTHING,
    PAGES,
    TIMEOUT,
    BatchLine,
    BatchState,
    lines_of,
)
from walagent.models.clients import Shards, timeouts
from walagent.models.credentials import Endpoint
from walagent.models.errors import no_answer
from walagent.models.exchange import failure_of, refused
from walagent.models.replies import NAME_LIMIT, as_array, as_object, clean

T = TypeVar("T")

_PATH = "/v1/messages/batches"
_PAGE = 100  # batches in one answer
_ID = re.compile(r"[\w.:-]{1,200}")  # a segment of a path
_FAILURES = (AnthropicError, httpx2.HTTPError, TimeoutError, ValueError, RecursionError)


class AnthropicBatches:
    """Implements `Batches`."""

    def __init__(
        self,
        spec: ModelSpec,
        endpoint: Endpoint,
        clients: Shards[AsyncAnthropic],
        body_of: Callable[[Request], Json],
        reply_of: Callable[[Json, Request], Reply],
    ) -> None:
        """Connect to nothing."""
        self._spec = spec
        self._endpoint = endpoint
        self._clients = clients
        self.body_of = body_of
        self.reply_of = reply_of

    async def submit(self, key: str, calls: Sequence[BatchCall]) -> str:
        """Submit the calls in one request; see `Batches`."""
        del key
        content = f'{{"requests":[{",".join(map(_request, calls))}]}}'.encode()
        made = await self._exchange(
            lambda client: client.post(
                _PATH,
                content=content,
                cast_to=object,
                options={
                    "headers": {"Content-Type": "application/json"},
                    "timeout": timeouts(TIMEOUT),
                },
            )
        )
        return self._id_in(made)

    async def find(self, key: str, calls: Sequence[BatchCall], since: datetime) -> str | None:
        """Read the results of batches with as many calls, the latest first; see `Batches`."""
        del key
        wanted = {call.custom_id for call in calls}
        async for batch in self._since(since - CLOCKS):
            counts = as_object(batch.get("request_counts")).values()
            if sum(each for each in counts if isinstance(each, int)) != len(calls):
                continue
            found = self._id_in(batch)
            state = _state(batch)
            if not state.ended:
                raise ModelUnavailableError(f"batch {found} in progress may be this one")
            async for line in self.results(state):
                if line.custom_id in wanted:
                    return found
                break
        return None

    async def look(self, batch_id: str) -> BatchState:
        """Return the state of a batch; see `Batches`."""
        return _state(as_object(await self._get(f"{_PATH}/{batch_id}")))

    async def results(self, state: BatchState) -> AsyncIterator[BatchLine]:
        """Yield the results of a batch; see `Batches`."""
        for place in state.places:
            response = await self._exchange(
                lambda client, place=place: client.get(
                    f"{_PATH}/{place}/results",
                    cast_to=httpx2.Response,
                    options={"timeout": timeouts(TIMEOUT)},
                )
            )
            for line in lines_of(response.content):
                yield _result(line)

    async def _since(self, oldest: datetime) -> AsyncIterator[Mapping[str, Json]]:
        after = ""
        for _ in range(PAGES):
            page = as_object(await self._get(f"{_PATH}?limit={_PAGE}{after}"))
            found = [as_object(each) for each in as_array(page.get("data"))]
            for batch in found:
                if _is_before(batch, oldest):
                    return
                yield batch
            if not found or not page.get("has_more"):
                return
            after = f"&after_id={self._id_in(found[-1])}"
        raise no_answer(self._spec, "a list of batches without end")

    async def _get(self, path: str) -> Json:
        return await self._exchange(lambda client: client.get(path, cast_to=object))

    async def _exchange(self, send: Callable[[AsyncAnthropic], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(TIMEOUT):
                with self._clients.lend() as client:
                    return await send(client)
        except _FAILURES as error:
            failure = failure_of(error, self._endpoint)
            raise refused(failure, self._spec, NOTHING, self._endpoint) from None

    def _id_in(self, answer: Json) -> str:
        found = as_object(answer).get("id")
        if not isinstance(found, str) or not _ID.fullmatch(found):
            raise no_answer(self._spec, "a batch without an ID")
        return found


def _request(call: BatchCall) -> str:
    """Return one of the requests; the body is JSON already."""
    return f'{{"custom_id":"{call.custom_id}","params":{call.body}}}'


def _state(batch: Mapping[str, Json]) -> BatchState:
    if batch.get("processing_status") != "ended" or not _ID.fullmatch(str(batch.get("id"))):
        return BatchState(ended=False)
    return BatchState(ended=True, why="no result", places=(str(batch["id"]),))


def _is_before(batch: Mapping[str, Json], oldest: datetime) -> bool:
    """Return whether a batch is too old to be looked at; not if it does not say when it was."""
    try:
        made = datetime.fromisoformat(str(batch.get("created_at")))
    except ValueError:
        return False
    return made.tzinfo is not None and made < oldest


def _result(line: Mapping[str, Json]) -> BatchLine:
    custom_id = str(line.get("custom_id"))
    result = as_object(line.get("result"))
    if result.get("type") == "succeeded" and result.get("message"):
        return BatchLine(custom_id, result["message"])
    error = as_object(as_object(result.get("error")).get("error"))
    why = error.get("type") or result.get("type")
    return BatchLine(custom_id, None, clean(str(why), NAME_LIMIT))
