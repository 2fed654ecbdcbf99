"""Batches of OpenAI: a file of calls, a batch over it, and files of results."""

from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import datetime

from openai import AsyncOpenAI, OpenAIError

from walagent.domain.batch import BatchCall
from walagent.message import Json
from walagent.models.batch_exchanges import SLOW, BatchExchanges
from walagent.models.batches import CLOCKS, PAGES, BatchLine, BatchState
from walagent.models.replies import NAME_LIMIT, as_array, as_object, clean

_URL = "/v1/chat/completions"
_MARK = "walagent"  # in the metadata of our batches
_ENDED = {"completed", "failed", "expired", "cancelled"}
_FULL = "token_limit_exceeded"  # of all batches that wait
_PAGE = 100  # batches in one answer, the most


class OpenAIBatches(BatchExchanges[AsyncOpenAI]):
    """Implements `Batches`."""

    failures = (OpenAIError, *BatchExchanges.failures)

    async def submit(self, key: str, calls: Sequence[BatchCall]) -> str:
        """Upload the calls, and make a batch of them; see `Batches`."""
        content = "".join(map(_line, calls)).encode()
        file = (f"{key}.jsonl", content, "application/jsonl")
        uploaded = await self.exchange(
            lambda client: client.post(
                "/files",
                body={"purpose": "batch"},
                files=[("file", file)],
                cast_to=object,
                options={"headers": {"Content-Type": "multipart/form-data"}, "timeout": SLOW},
            )
        )
        batch = {
            "input_file_id": self.id_in(uploaded),
            "endpoint": _URL,
            "completion_window": "24h",
            "metadata": {_MARK: key},
        }
        made = await self.exchange(
            lambda client: client.post("/batches", body=batch, cast_to=object)
        )
        return self.id_in(made)

    async def find(self, key: str, calls: Sequence[BatchCall], since: datetime) -> str | None:
        """List the batches, the latest first, and find the one with the key; see `Batches`."""
        del calls
        oldest, after = (since - CLOCKS).timestamp(), ""
        for _ in range(PAGES):
            page = await self.read(f"/batches?limit={_PAGE}{after}")
            found = [as_object(each) for each in as_array(page.get("data"))]
            for each in found:
                if as_object(each.get("metadata")).get(_MARK) == key:
                    return self.id_in(each)
            if not found or not page.get("has_more") or _time(found[-1]) < oldest:
                return None
            after = f"&after={self.id_in(found[-1])}"
        raise self.endless()

    async def look(self, batch_id: str) -> BatchState:
        """Return the state of a batch; see `Batches`."""
        batch = await self.read(f"/batches/{batch_id}")
        status = str(batch.get("status"))
        if status not in _ENDED:
            return BatchState(ended=False)
        files = (batch.get("output_file_id"), batch.get("error_file_id"))
        places = tuple(self.id_in({"id": each}) for each in files if each)
        why = "no result" if status == "completed" else status
        full = status == "failed" and not places and _is_full(batch)
        return BatchState(ended=True, why=_FULL if full else why, places=places, full=full)

    async def results(self, state: BatchState, calls: int) -> AsyncIterator[BatchLine]:
        """Yield the lines of the files of a batch; see `Batches`."""
        for place in state.places:
            async for line in self.lines(f"/files/{place}/content", calls):
                yield _result(line)


def _is_full(batch: Mapping[str, Json]) -> bool:
    errors = as_array(as_object(batch.get("errors")).get("data"))
    return any(as_object(each).get("code") == _FULL for each in errors)


def _line(call: BatchCall) -> str:
    """Return a line of the file; the body is JSON already."""
    return f'{{"custom_id":"{call.custom_id}","method":"POST","url":"{_URL}","body":{call.body}}}\n'


def _time(batch: Mapping[str, Json]) -> float:
    made = batch.get("created_at")
    return float(made) if isinstance(made, int | float) else 0.0


def _result(line: Mapping[str, Json]) -> BatchLine:
    custom_id = str(line.get("custom_id"))
    response = as_object(line.get("response"))
    if response.get("status_code") == 200 and response.get("body"):  # noqa: PLR2004 - of HTTP
        return BatchLine(custom_id, response["body"])
    body = as_object(response.get("body"))
    error = as_object(line.get("error") or body.get("error"))
    why = error.get("code") or f"status {response.get('status_code')}"
    return BatchLine(custom_id, None, clean(str(why), NAME_LIMIT))
