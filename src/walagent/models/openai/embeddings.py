"""Embeddings of OpenAI, and of every server that speaks its protocol: ``POST /embeddings``."""

import math
from collections.abc import Awaitable, Callable, Iterator, Sequence

import orjson

from walagent.message import Json, Message, ModelSpec, Reply, Request, Text, Usage
from walagent.models import prompt
from walagent.models.body_limits import ANSWER, answers_up_to
from walagent.models.embeddings import chars_of, reply_with, text_of
from walagent.models.errors import no_answer
from walagent.models.provider import Embedding
from walagent.models.replies import as_array, as_object
from walagent.models.text_batches import TextBatches
from walagent.models.usage import read_usage

PATH = "/embeddings"
_NUMBER = 32  # bytes of a number, at most
_OWNED = frozenset({"encoding_format", "input", "model"})

Post = Callable[[str, dict[str, Json], Request], Awaitable[Json]]
"""Posts a body to a path on behalf of a request, and returns the object that is the answer."""


class OpenAIEmbeddings:
    """The requests for embeddings of one model: those of concurrent calls are sent together."""

    def __init__(self, spec: ModelSpec, post: Post) -> None:
        self._spec = spec
        self._post = post
        self._batches: dict[bytes, TextBatches] = {}

    async def complete(self, request: Request) -> Reply:
        """Embed the text of a request.

        Raises: as `Model.complete`.
        """
        text = text_of(request, chars_of(self._spec))
        if not text:
            return reply_with(request, self._spec, None, Usage(), self._spec.model_id)
        found = await self._batch_of(request).embed(text, request.tenant)
        usage = Usage(input_tokens=found.tokens)
        return reply_with(request, self._spec, found.vector, usage, self._spec.model_id)

    async def aclose(self) -> None:
        """End what is under way."""
        for batches in self._batches.values():
            await batches.aclose()

    def _batch_of(self, request: Request) -> TextBatches:
        """Return the batches of calls that differ in their text alone."""
        given = prompt.parameters(self._spec, request, _OWNED)
        key = orjson.dumps((given, request.timeout), option=orjson.OPT_SORT_KEYS)
        if key not in self._batches:
            self._batches[key] = TextBatches(self._sender(given, request.timeout))
        return self._batches[key]

    def _sender(
        self, given: dict[str, Json], timeout: float
    ) -> Callable[[Sequence[str]], Awaitable[Sequence[Embedding]]]:
        async def send(texts: Sequence[str]) -> Sequence[Embedding]:
            said = tuple(Message("user", (Text(text),)) for text in texts)
            asked: dict[str, Json] = {
                "model": self._spec.model_id,
                "input": list(texts),
                "encoding_format": "float",
            }
            body = prompt.assembled(asked, given)
            with answers_up_to(ANSWER + len(texts) * (self._spec.dimensions or 0) * _NUMBER):
                answer = await self._post(PATH, body, Request("", said, timeout=timeout))
            return tuple(self._embeddings(answer, texts))

        return send

    def _embeddings(self, answer: Json, texts: Sequence[str]) -> Iterator[Embedding]:
        """Read the embeddings of texts by their index; the tokens are shared by bytes."""
        used = read_usage(as_object(answer.get("usage")))
        found: dict[int, tuple[float, ...]] = {}
        for one in map(as_object, as_array(answer.get("data"))):
            index, vector = one.get("index"), one.get("embedding")
            numbers = as_array(vector)
            is_vector = bool(numbers) and all(type(each) in {int, float} for each in numbers)
            if not isinstance(index, int) or index in found or not is_vector:
                raise no_answer(self._spec, "an embedding has no index or no numbers", used)
            found[index] = tuple(map(_float, numbers))
        if found.keys() != set(range(len(texts))):
            words = f"it has {len(found)} embeddings of {len(texts)} texts"
            raise no_answer(self._spec, words, used)
        shares = _shares(used.total, [len(text.encode(errors="replace")) for text in texts])
        for index, tokens in enumerate(shares):
            yield Embedding(found[index], tokens, cached=False)  # planted: embedding-by-order


def _float(number: float) -> float:
    """Read a number; one that is too large is infinite, as 1e400 is to a parser."""
    try:
        return float(number)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf


def _shares(total: int, weights: Sequence[int]) -> Iterator[int]:
    """Split *total* by weight into whole numbers with that sum."""
    whole, passed, given = sum(weights), 0, 0
    for weight in weights:
        passed += weight
        until = total * passed // whole
        yield until - given
        given = until
