"""Message batches of Anthropic: calls in one request, and one file of results.

A batch has no word of ours, and its results can be read only once it has ended: until then, another
batch of as many calls may be the one that is looked for.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

from anthropic import AnthropicError, AsyncAnthropic

from walagent.domain.batch import BatchCall
from walagent.errors import ModelUnavailableError
from walagent.message import Json
from walagent.models.batch_exchanges import ID, SLOW, BatchExchanges
from walagent.models.batches import CLOCKS, PAGES, BatchLine, BatchState
from walagent.models.replies import NAME_LIMIT, as_array, as_object, clean

_PATH = "/v1/messages/batches"
_PAGE = 100  # batches in one answer


class AnthropicBatches(BatchExchanges[AsyncAnthropic]):
    """Implements `Batches`."""

    failures = (AnthropicError, *BatchExchanges.failures)

    async def submit(self, key: str, calls: Sequence[BatchCall]) -> str:
        """Submit the calls in one request; see `Batches`."""
        del key
        content = f'{{"requests":[{",".join(map(_request, calls))}]}}'.encode()
        made = await self.exchange(
            lambda client: client.post(
                _PATH,
                content=content,
                cast_to=object,
                options={"headers": {"Content-Type": "application/json"}, "timeout": SLOW},
            )
        )
        return self.id_in(made)

    async def find(self, key: str, calls: Sequence[BatchCall], since: datetime) -> str | None:
        """Read the results of batches with as many calls, the latest first; see `Batches`."""
        del key
        wanted = {call.custom_id for call in calls}
        async for batch in self._since(since - CLOCKS):
            counts = as_object(batch.get("request_counts")).values()
            if sum(each for each in counts if isinstance(each, int)) != len(calls):
                continue
            found = self.id_in(batch)
            state = _state(batch)
            if not state.ended:
                raise ModelUnavailableError(f"batch {found} in progress may be this one")
            async for line in self.results(state, len(calls)):
                if line.custom_id in wanted:
                    return found
                break
        return None

    async def look(self, batch_id: str) -> BatchState:
        """Return the state of a batch; see `Batches`."""
        return _state(await self.read(f"{_PATH}/{batch_id}"))

    async def results(self, state: BatchState, calls: int) -> AsyncIterator[BatchLine]:
        """Yield the results of a batch; see `Batches`."""
        for place in state.places:
            async for line in self.lines(f"{_PATH}/{place}/results", calls):
                yield _result(line)

    async def _since(self, oldest: datetime) -> AsyncIterator[Mapping[str, Json]]:
        after = ""
        for _ in range(PAGES):
            page = await self.read(f"{_PATH}?limit={_PAGE}{after}")
            found = [as_object(each) for each in as_array(page.get("data"))]
            for batch in found:
                if _is_before(batch, oldest):
                    return
                yield batch
            if not found or not page.get("has_more"):
                return
            after = f"&after_id={self.id_in(found[-1])}"
        raise self.endless()


def _request(call: BatchCall) -> str:
    """Return one of the requests; the body is JSON already."""
    return f'{{"custom_id":"{call.custom_id}","params":{call.body}}}'


def _state(batch: Mapping[str, Json]) -> BatchState:
    if batch.get("processing_status") != "ended" or not ID.fullmatch(str(batch.get("id"))):
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
