"""Texts of concurrent calls, sent to a provider together.

Each call still has its own result or error: what its run records does not depend on the others.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from walagent.errors import ModelRejectedError
from walagent.models.provider import Embedding

_PAUSE = 0.01  # seconds for which a batch waits for further texts
_MOST = 64  # texts of a request
_MOST_CHARS = 200_000  # of a request; OpenAI takes 300,000 tokens, and one text is always sent

Send = Callable[[Sequence[str]], Awaitable[Sequence[Embedding]]]
"""Embeds texts, in their order."""


@dataclass(eq=False, slots=True)
class _Batch:
    texts: list[str] = field(default_factory=list[str])
    results: list[asyncio.Future[Embedding]] = field(
        default_factory=list[asyncio.Future[Embedding]]
    )
    full: asyncio.Event = field(default_factory=asyncio.Event)

    def has_room(self, text: str) -> bool:
        chars = sum(map(len, self.texts)) + len(text)
        return not self.texts or (len(self.texts) < _MOST and chars <= _MOST_CHARS)


class TextBatches:
    """Batches of texts that share all but the text.

    Args:
        send: embeds the texts of one request.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open: _Batch | None = None
        self._tasks = set[asyncio.Task[None]]()

    async def embed(self, text: str) -> Embedding:
        """Embed a text, in one request with those of other calls at about the same time.

        Raises: as *send*.
        """
        batch = self._batch_for(text)
        result = asyncio.get_running_loop().create_future()
        batch.texts.append(text)
        batch.results.append(result)
        return await result

    async def aclose(self) -> None:
        """End what is under way; calls that wait for it are cancelled."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _batch_for(self, text: str) -> _Batch:
        batch = self._open
        if batch is not None and batch.has_room(text):
            return batch
        if batch is not None:
            batch.full.set()
        batch = self._open = _Batch()
        task = asyncio.create_task(self._carry_out(batch), name="embeddings")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return batch

    async def _carry_out(self, batch: _Batch) -> None:
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_PAUSE):
                    await batch.full.wait()
            if self._open is batch:
                self._open = None
            await self._answer(batch.texts, batch.results)
        finally:
            for result in batch.results:
                result.cancel()  # nothing, unless this task was cancelled

    async def _answer(
        self, texts: Sequence[str], results: Sequence[asyncio.Future[Embedding]]
    ) -> None:
        """Give each text its embedding; a refused request is sent again text by text."""
        try:
            found = await self._send(texts)
        except ModelRejectedError as error:
            if len(texts) > 1:
                alone = (
                    self._answer([text], [result])
                    for text, result in zip(texts, results, strict=True)
                )
                await asyncio.gather(*alone)
                return
            _refuse(results, error)
        except Exception as error:  # noqa: BLE001 - it is raised where the texts come from
            _refuse(results, error)
        else:
            for result, embedding in zip(results, found, strict=True):
                if not result.done():
                    result.set_result(embedding)


def _refuse(results: Sequence[asyncio.Future[Embedding]], error: Exception) -> None:
    for result in results:
        if not result.done():
            result.set_exception(error)
