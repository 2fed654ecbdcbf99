"""Batches of OpenAI: a file of calls, a batch over it, and files of results."""

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import TypeVar

import httpx2
from openai import AsyncOpenAI, OpenAIError

from walagent.domain.batch import BatchCall
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

_URL = "/v1/chat/completions"
_MARK = "walagent"  # in the metadata of our batches
_ENDED = {"completed", "failed", "expired", "cancelled"}
_FULL = "token_limit_exceeded"  # of all batches that wait
_PAGE = 100  # batches in one answer, the most
_ID = re.compile(r"[\w.:-]{1,200}")  # a segment of a path
_FAILURES = (OpenAIError, httpx2.HTTPError, TimeoutError, ValueError, RecursionError)


class OpenAIBatches:
    """Implements `Batches`."""

    def __init__(
        self,
        spec: ModelSpec,
        endpoint: Endpoint,
        clients: Shards[AsyncOpenAI],
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
        """Upload the calls, and make a batch of them; see `Batches`."""
        content = "".join(map(_line, calls)).encode()
        file = (f"{key}.jsonl", content, "application/jsonl")
        uploaded = await self._exchange(
            lambda client: client.post(
                "/files",
                body={"purpose": "batch"},
                files=[("file", file)],
                cast_to=object,
                options={
                    "headers": {"Content-Type": "multipart/form-data"},
                    "timeout": timeouts(TIMEOUT),
                },
            )
        )
        batch = {
            "input_file_id": self._id_in(uploaded),
            "endpoint": _URL,
            "completion_window": "24h",
            "metadata": {_MARK: key},
        }
        made = await self._exchange(
            lambda client: client.post("/batches", body=batch, cast_to=object)
        )
        return self._id_in(made)

    async def find(self, key: str, calls: Sequence[BatchCall], since: datetime) -> str | None:
        """List the batches, the latest first, and find the one with the key; see `Batches`."""
        del calls
        oldest, after = (since - CLOCKS).timestamp(), ""
        for _ in range(PAGES):
            page = as_object(await self._get(f"/batches?limit={_PAGE}{after}"))
            found = [as_object(each) for each in as_array(page.get("data"))]
            for each in found:
                if as_object(each.get("metadata")).get(_MARK) == key:
                    return self._id_in(each)
            if not found or not page.get("has_more") or _time(found[-1]) < oldest:
                return None
            after = f"&after={self._id_in(found[-1])}"
        raise no_answer(self._spec, "a list of batches without end")

    async def look(self, batch_id: str) -> BatchState:
        """Return the state of a batch; see `Batches`."""
        batch = as_object(await self._get(f"/batches/{batch_id}"))
        status = str(batch.get("status"))
        if status not in _ENDED:
            return BatchState(ended=False)
        files = (batch.get("output_file_id"), batch.get("error_file_id"))
        places = tuple(self._id_in({"id": each}) for each in files if each)
        why = "no result" if status == "completed" else status
        full = status == "failed" and not places and _is_full(batch)
        return BatchState(ended=True, why=_FULL if full else why, places=places, full=full)

    async def results(self, state: BatchState) -> AsyncIterator[BatchLine]:
        """Yield the lines of the files of a batch; see `Batches`."""
        for place in state.places:
            response = await self._exchange(
                lambda client, place=place: client.get(
                    f"/files/{place}/content",
                    cast_to=httpx2.Response,
                    options={"timeout": timeouts(TIMEOUT)},
                )
            )
            for line in lines_of(response.content):
                yield _result(line)

    async def _get(self, path: str) -> Json:
        return await self._exchange(lambda client: client.get(path, cast_to=object))

    async def _exchange(self, send: Callable[[AsyncOpenAI], Awaitable[T]]) -> T:
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
            raise no_answer(self._spec, "a batch or file without an ID")
        return found


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
