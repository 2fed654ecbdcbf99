"""What a reply cost that came and cannot be used goes with the error, whatever error that is."""

from collections.abc import Callable
from types import MappingProxyType

import pytest

from walagent import errors
from walagent.errors import ModelError
from walagent.message import Json, Message, ModelSpec, Request, Text, ToolSpec, Usage
from walagent.models import build_model
from walagent.models.gathering import fail_all
from walagent.models.usage import charging, usage_of
from walagent.models.wire_format import Body
from walagent.testing import FakeProvider

SPENT = Usage(1, 2, 3, 4)
OF_MODELS = [
    kind
    for name, kind in sorted(vars(errors).items())
    if name.startswith("Model") and name.endswith("Error")
]
SCHEMA = MappingProxyType({"type": "object", "properties": {"near": {"type": "string"}}})
ASKED = Request(
    "", (Message("user", (Text("x"),)),), (ToolSpec("update_row", "", SCHEMA),), embeds="near"
)


def test_the_errors_of_models_are_found() -> None:
    """This list is made from the module: a new one is tested as well."""
    assert len(OF_MODELS) >= 6
    assert all(issubclass(kind, ModelError) for kind in OF_MODELS)


@pytest.mark.parametrize("kind", OF_MODELS)
def test_each_error_of_a_model_has_what_was_used(kind: type[ModelError]) -> None:
    """From where it is raised, from where the answer was read, and in parts of a group."""
    assert usage_of(kind("x")) == Usage()
    assert usage_of(kind("x", usage=SPENT)) == SPENT
    with pytest.raises(kind) as found, charging(SPENT):
        raise kind("x")
    assert usage_of(found.value) == SPENT
    failed = list[Exception]()

    class Call:
        """Notes how it fails."""

        def fail(self, error: Exception) -> None:
            """Note it."""
            failed.append(error)

    fail_all([Call(), Call()], found.value)  # pyright: ignore[reportArgumentType]
    assert {type(each) for each in failed} == {kind}
    assert sum(map(usage_of, failed), Usage()) == SPENT


def of(*numbers: float) -> Callable[[Body], Body]:
    """Send these numbers as each embedding."""
    return lambda answer: {
        **answer,
        "data": [{**each, "embedding": list(numbers)} for each in answer["data"]],
    }


SPOILED: dict[str, Callable[[Body], Body]] = {
    "NaN": of(float("nan"), 1.0),
    "infinite": of(float("inf"), 1.0),
    "a huge integer": of(10**400, 1.0),
    "more than 4 bytes": of(1e39, 1.0),
    "other dimensions": of(1.0, 2.0, 3.0),
    "nothing": of(),
    "no data": lambda answer: {**answer, "data": None},
    "an error": lambda answer: {"error": {"message": "no"}, "usage": answer["usage"]},
    "an error of the account": lambda answer: {
        "error": {"message": "no", "code": "insufficient_quota"},
        "usage": answer["usage"],
    },
}


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
async def test_an_embedding_that_cannot_be_used_is_paid_for(spoil: Callable[[Body], Body]) -> None:
    """The provider charges for it, whatever it sent."""
    async with FakeProvider() as fake:
        model = build_model(fake.spec("openai", dimensions=2), environ=fake.environ)
        fake.embeddings.spoil = spoil
        try:
            with pytest.raises(ModelError) as found:
                await model.complete(ASKED)
            assert usage_of(found.value) == Usage(1)
        finally:
            await model.aclose()


ERRORS: dict[str, Json] = {
    "unknown": {"message": "no"},
    "filter": {"message": "no", "code": "content_filter", "type": "invalid_request_error"},
    "account": {"message": "no", "code": "insufficient_quota", "type": "billing_error"},
    "busy": {"message": "no", "code": "rate_limit_exceeded", "type": "rate_limit_error"},
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
@pytest.mark.parametrize("provider", ["openai", "anthropic"])
async def test_an_error_in_an_answer_with_usage_is_paid_for(provider: str, error: Json) -> None:
    """Gateways answer with status 200 and what the provider behind them charged."""
    answer = {"error": error, "usage": {"input_tokens": 30, "output_tokens": 4}}
    spec = ModelSpec("m", provider, "m", base_url="http://127.0.0.1:1", credential="K")
    model = build_model(spec, environ={"K": "k"})
    try:
        batches = getattr(model, "batches")  # noqa: B009 - of both
        with pytest.raises(ModelError) as found:
            batches.reply_of(answer, Request("", ()))
    finally:
        await model.aclose()
    assert usage_of(found.value) == Usage(30, output_tokens=4)
