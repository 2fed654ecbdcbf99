"""The embeddings of the fake provider: ``POST /v1/embeddings``, as strict as OpenAI."""

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from walagent.models.replies import as_array, as_object
from walagent.models.wire_format import Body, WireError, need, need_keys
from walagent.testing.http_server import Incoming, Outgoing

PATH: Final = "/v1/embeddings"
_KNOWN: Final = ("dimensions", "encoding_format", "input", "model", "user")
_MOST: Final = 2048  # texts of a request
_LENGTH: Final = 8  # dimensions, if a request does not say


def vector_of(text: str, dimensions: int = _LENGTH) -> list[float]:
    """Return the embedding that the fake provider has for a text: of length one, by its hash."""
    seed = hashlib.sha256(text.encode()).digest()
    numbers = [seed[n % len(seed)] - 127.5 + n for n in range(dimensions)]
    length = math.hypot(*numbers)
    return [round(number / length, 6) for number in numbers]


@dataclass(slots=True)
class FakeEmbeddings:
    """All requests for embeddings; change the attributes to let it misbehave.

    Attributes:
        requests: the texts of each, as it came.
        refuse: with which status texts are refused; 0: they are not.
        spoil: changes the answer.
    """

    requests: list[list[str]] = field(default_factory=list[list[str]])
    refuse: Callable[[Sequence[str]], int] = lambda _texts: 0
    spoil: Callable[[Body], Body] = lambda answer: answer

    @property
    def texts(self) -> list[str]:
        """The texts of all requests."""
        return [text for texts in self.requests for text in texts]

    def answer(self, incoming: Incoming) -> Outgoing:
        """Answer a request."""
        body = as_object(json.loads(incoming.body))
        try:
            texts = _texts_of(body)
        except WireError as error:
            return _sent(400, {"error": {"message": str(error), "type": "invalid_request_error"}})
        self.requests.append(texts)
        if status := self.refuse(texts):
            return _sent(status, {"error": {"message": "scripted failure", "type": "fake_error"}})
        dimensions = int(body.get("dimensions") or _LENGTH)
        tokens = sum(len(text) // 4 + 1 for text in texts)
        data: list[Mapping[str, object]] = [
            {"object": "embedding", "index": n, "embedding": vector_of(text, dimensions)}
            for n, text in enumerate(texts)
        ]
        answer: Body = {
            "object": "list",
            "data": data[::-1],  # the index counts, not the order
            "model": body["model"],
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
        return _sent(200, self.spoil(answer))


def _texts_of(body: Body) -> list[str]:
    need_keys(body, _KNOWN, "body")
    need(isinstance(body.get("model"), str), "you must provide a model parameter")
    texts = as_array(body.get("input"))
    need(texts, "input: must be a non-empty array")
    need(len(texts) <= _MOST, "input: array too long, expected at most 2048")
    need(all(isinstance(text, str) and text for text in texts), "input: texts must not be empty")
    return texts


def _sent(status: int, body: Body) -> Outgoing:
    return Outgoing(status, json.dumps(body).encode())
