"""Requests for embeddings, and what models of each provider make of them."""

import asyncio
import json
from collections.abc import Sequence

import pytest

from walagent.errors import ModelRejectedError, ModelUnauthorizedError, ModelUnavailableError
from walagent.message import Json, Message, ModelSpec, Reply, Request, Text, ToolSpec, Usage
from walagent.models import build_model
from walagent.models.embedded.nearest_label_model import EmbeddedModel
from walagent.models.embeddings import reply_with
from walagent.models.limits import ModelLimits
from walagent.models.openai.embeddings import OpenAIEmbeddings
from walagent.models.provider import Embedding
from walagent.testing import FakeProvider
from walagent.testing.fake_embeddings import vector_of

SPEC = ModelSpec("m", "openai", "m", dimensions=2)


def request(text: str, kind: Json = "string", **fields: Json) -> Request:
    """Ask for the embedding of a text."""
    schema = {"type": "object", "properties": {"near": {"type": kind}}}
    tool = ToolSpec("update_row", "", schema)
    return Request("", (Message("user", (Text(text),)),), (tool,), embeds="near", **fields)


def stored(reply: Reply) -> Json:
    """Return what a reply stores."""
    (call,) = reply.calls
    assert call.name == "update_row"
    return (call.arguments or {})["near"]


@pytest.mark.parametrize(
    ("kind", "vector", "written"),
    [
        ("string", (0.5, -1e-10), "[0.5,-1e-10]"),
        (["string", "null"], (1.0, 1 / 3), "[1,0.333333333]"),
        ("array", (0.5, 1 / 3), [0.5, 0.333333333]),
        (["array", "null"], (0.5, 1.0), [0.5, 1.0]),
        (["string", "null"], None, None),
    ],
)
def test_a_vector_is_written_as_its_column_reads_it(
    kind: Json, vector: tuple[float, ...] | None, written: Json
) -> None:
    """As text for types of the extension, as an array for arrays."""
    assert stored(reply_with(request("x", kind), SPEC, vector, Usage(), "m")) == written


@pytest.mark.parametrize("vector", [(1.0,), (1.0, 2.0, 3.0), (), (float("nan"), 1.0)])
def test_a_vector_that_is_none_of_the_model_is_refused(vector: tuple[float, ...]) -> None:
    """It would be one of another model, or cannot be compared."""
    with pytest.raises(ModelRejectedError, match="sent an embedding"):
        reply_with(request("x"), SPEC, vector, Usage(), "m")


@pytest.mark.parametrize(
    ("number", "said"), [("1e400", "too large"), ("9" * 400, "too large"), ("NaN", "with NaN")]
)
async def test_a_number_that_no_vector_has_is_said_to_be_what_it_is(number: str, said: str) -> None:
    """JSON has no infinity, but numbers that are as large."""

    async def post(_path: str, _body: Json, _request: Request) -> Json:
        data = f'{{"data": [{{"index": 0, "embedding": [{number}, 0]}}]}}'
        return json.loads(data)

    with pytest.raises(ModelRejectedError, match=said):
        await OpenAIEmbeddings(SPEC, post).complete(request("x"))


class Recorder:
    """An embedder that notes what it is given."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed texts, all alike."""
        self.texts += texts
        return [Embedding((1.0,) * 384, 7, cached=False) for _ in texts]


async def test_the_embedded_model_gets_the_text_as_it_is() -> None:
    """It reads several windows, and cuts by itself; a blank text does not reach it."""
    embedder = Recorder()
    model = EmbeddedModel(embedder=embedder)
    reply = await model.complete(request("word " * 1000))
    assert (embedder.texts, reply.usage) == (["word " * 1000], Usage(7))
    assert stored(await model.complete(request("  "))) is None
    assert len(embedder.texts) == 1


async def test_a_server_gets_the_parameters_of_model_and_agent() -> None:
    """And the base URL as other requests do."""
    async with FakeProvider() as fake:
        spec = fake.spec("openai", dimensions=3, parameters={"dimensions": 2, "user": "u"})
        model = build_model(spec, environ=fake.environ)
        try:
            reply = await model.complete(request("x", parameters={"dimensions": 3}))
            assert stored(reply) == f"[{','.join(f'{n:.9g}' for n in vector_of('x', 3))}]"
            with pytest.raises(ModelRejectedError, match="parameter input"):
                await model.complete(request("x", parameters={"input": "y"}))
            assert stored(await model.complete(request(" \n"))) is None
            assert fake.embeddings.texts == ["x"]
        finally:
            await model.aclose()


async def test_tokens_are_shared_out_by_bytes() -> None:
    """A text of few characters can have many tokens: what was reserved for it is by bytes."""
    async with FakeProvider() as fake:
        fake.embeddings.spoil = lambda answer: {**answer, "usage": {"prompt_tokens": 1600}}
        model = build_model(fake.spec("openai", dimensions=8), environ=fake.environ)
        try:
            asked = (model.complete(request(text)) for text in ("abcd", "\u65e5\u672c\u8a9e\u6587"))
            found = await asyncio.gather(*asked)
        finally:
            await model.aclose()
    assert [reply.usage for reply in found] == [Usage(400), Usage(1200)]


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, ModelRejectedError),
        (401, ModelUnauthorizedError),
        (404, ModelUnauthorizedError),
        (500, ModelUnavailableError),
    ],
)
async def test_failures_are_those_of_other_requests(status: int, error: type[Exception]) -> None:
    """So runs wait, fail or are retried as they are otherwise."""
    async with FakeProvider() as fake:
        model = build_model(fake.spec("openai", dimensions=8), environ=fake.environ)
        fake.embeddings.refuse = lambda _texts: status
        try:
            with pytest.raises(error) as found:
                await model.complete(request("a secret of the row"))
            assert "secret" not in str(found.value)
        finally:
            await model.aclose()


async def test_a_model_that_makes_no_embeddings_is_not_asked_for_one() -> None:
    """It would write numbers of its own."""
    async with FakeProvider() as fake:
        built = build_model(fake.spec("anthropic", dimensions=8), environ=fake.environ)
        model = ModelLimits().wrap(built)
        try:
            with pytest.raises(ModelRejectedError, match="makes no embeddings"):
                await model.complete(request("x"))
            assert fake.requests == 0
        finally:
            await model.aclose()
