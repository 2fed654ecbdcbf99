"""Texts of concurrent calls, sent to a provider together."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from walagent.errors import ModelRejectedError, ModelUnavailableError
from walagent.models.gathering import Gathering, Waiting
from walagent.models.provider import Embedding
from walagent.models.usage import usage_of

_PAUSE: Final = 0.01  # seconds for which a request waits for further texts
_MOST: Final = 64  # texts of a request
_MOST_CHARS: Final = 200_000  # of a request; OpenAI takes 300,000 tokens

Send = Callable[[Sequence[str]], Awaitable[Sequence[Embedding]]]
"""Embeds texts, in their order."""


class TextBatches:
    """Requests with texts that share all but the text.

    Args:
        send: embeds the texts of one request.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._gathering = Gathering[str, Embedding](quiet=_PAUSE, longest=_PAUSE, size=_MOST_CHARS)

    async def embed(self, text: str, tenant: str = "") -> Embedding:
        """Embed a text, in one request with those of other calls at about the same time.

        Args:
            tenant: whose text it is; those of two are in no request.

        Raises: as *send*.
        """
        return await self._gathering.ask(tenant, text, self._answer, size=len(text), most=_MOST)

    async def aclose(self) -> None:
        """End what is under way; calls that wait for it are cancelled."""
        await self._gathering.aclose()

    async def _answer(self, waiting: Sequence[Waiting[str, Embedding]]) -> None:
        """Give each text its embedding; a refused request is sent again text by text.

        Not if it is charged: its runs ask again.
        """
        try:
            found = await self._send([call.asked for call in waiting])
        except ModelRejectedError as error:
            if len(waiting) == 1:
                waiting[0].fail(error)
                return
            if usage_of(error).total:  # each has paid its part, and reserves the next call first
                raise ModelUnavailableError(str(error), usage=error.usage) from error
            await asyncio.gather(*(self._alone(call) for call in waiting))
        else:
            for call, embedding in zip(waiting, found, strict=True):
                call.succeed(embedding)

    async def _alone(self, call: Waiting[str, Embedding]) -> None:
        try:
            (embedding,) = await self._send([call.asked])
        except Exception as error:  # noqa: BLE001 - the call's own
            call.fail(error)
        else:
            call.succeed(embedding)
