"""The requirements on a provider, as checks that any provider can run.

    @pytest.mark.parametrize("check", PROVIDER_CHECKS)
    async def test_it_is_a_provider(check: ProviderCheck) -> None:
        await check("acme")

Each check calls a fake provider that speaks the provider's own wire format.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from walagent.errors import (
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import (
    Json,
    Message,
    Reply,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
    Usage,
)
from walagent.models import build_model
from walagent.models.model import Model
from walagent.models.script import Answer, Fault, call
from walagent.testing.provider import KEY, FakeProvider

ProviderCheck = Callable[[str], Awaitable[None]]

_WORDS = "the customer's own words, number 4711"
_FIND = {"type": "object", "properties": {"q": {"type": "string"}}}
_NONE: dict[str, Json] = {"type": "object", "properties": {}}
_FIRST = Request(
    "be brief",
    (Message("user", (Text(_WORDS),)),),
    (ToolSpec("find", "Find it.", _FIND), ToolSpec("stop", "Stop.", _NONE)),
    max_tokens=321,
)
_USAGE = Usage(input_tokens=10, cached_tokens=2_000, cache_write_tokens=300, output_tokens=7)

_ERRORS: tuple[tuple[Fault, type[WalagentError]], ...] = (
    (Fault(400), ModelRejectedError),
    (Fault(401), ModelUnauthorizedError),
    (Fault(403), ModelUnauthorizedError),
    (Fault(404), ModelUnauthorizedError),
    (Fault(429, retry_after="7"), ModelLimitedError),
    (Fault(500), ModelUnavailableError),
    (Fault(502, body=b"<html>Bad Gateway</html>"), ModelUnavailableError),
    (Fault(503), ModelLimitedError),
    (Fault(200, body=b"{"), ModelUnavailableError),
    (Fault(200, body=b"null"), ModelUnavailableError),
    (Fault(reply="whole", cut=True), ModelUnavailableError),
    (Fault(drop=True), ModelUnavailableError),
)


async def builds_without_a_request(provider: str) -> None:
    """A model is built from a row and its key, without connecting."""
    async with FakeProvider() as fake:
        spec = fake.spec(provider)
        model = build_model(spec, environ=fake.environ)
        await model.aclose()
        _equal(model.spec, spec)
        _equal(fake.requests, 0)


async def names_a_missing_key(provider: str) -> None:
    """A row whose key is missing is an error before any call; it names the key."""
    async with FakeProvider() as fake:
        spec = fake.spec(provider, credential="MISSING_API_KEY")
        try:
            build_model(spec, environ=fake.environ)
        except ModelUnauthorizedError as error:
            _holds("MISSING_API_KEY" in str(error), f"the error does not name the key: {error}")
        else:
            _holds(condition=False, message="a model is built without its key")


async def maps_a_run_with_tools(provider: str) -> None:
    """Requests are valid and read back unchanged; replies contain their calls."""
    async with _asking(provider, ["let me", call("find", q="é")], "done") as (model, fake):
        first = await model.complete(_FIRST)
        _equal((first.text, first.stop), ("let me", Stop.TOOL))
        _equal([(one.name, one.arguments) for one in first.calls], [("find", {"q": "é"})])
        second = _after(first, first.calls[0])
        _equal((await model.complete(second)).text, "done")
        _equal([received.problem for received in fake.received], ["", ""])
        _equal(
            [_said(received.request) for received in fake.received], [_said(_FIRST), _said(second)]
        )


async def maps_errors(provider: str) -> None:
    """Each failure is one request and the expected error class, without secrets."""
    for fault, expected in _ERRORS:
        async with _asking(provider, fault) as (model, fake):
            try:
                await model.complete(_FIRST)
            except WalagentError as error:
                found = error
            else:
                found = None
            _equal((type(found), fake.requests), (expected, 1))
            _holds(
                "4711" not in str(found) and KEY not in str(found),
                f"the error contains a secret: {found}",
            )
            if isinstance(found, ModelLimitedError) and fault.retry_after:
                _equal(found.retry_after, 7.0)


async def gives_up_after_the_timeout(provider: str) -> None:
    """A call without a reply ends after the timeout of the request."""
    async with _asking(provider, Fault(stall=3600.0)) as (model, _):
        try:
            await model.complete(replace(_FIRST, timeout=0.2))
        except ModelUnavailableError:
            return
        _holds(condition=False, message="a call without a reply returned")


async def counts_usage(provider: str) -> None:
    """Tokens read from and written to a cache are counted separately."""
    reply = Reply((Text("x"),), Stop.END, _USAGE, "some-model")
    async with _asking(provider, reply) as (model, _):
        got = await model.complete(_FIRST)
        _equal((got.usage, got.model), (_USAGE, "some-model"))


async def writes_the_same_reply_in_pieces(provider: str) -> None:
    """A reply that is read as it is written is the same as in one piece, also where it fails."""
    calls = [call("find", q="é ü"), call("stop"), call("find", q=[1, {"deep": None}])]
    for answer in ("done", "two words", ["let me see", *calls], calls, Reply((), Stop.END, _USAGE)):
        async with _asking(provider, answer) as (model, _):
            whole, pieces = await model.complete(_FIRST), list[str]()
            written = await model.complete(replace(_FIRST, on_text=pieces.append))
            _equal(written, whole)
            _holds(not pieces or "".join(pieces) == whole.text, f"the pieces are {pieces}")
    for fault, expected in (*_ERRORS, (Fault(reply="a b c d", cut_at=-200), ModelUnavailableError)):
        async with _asking(provider, fault) as (model, _):
            try:
                await model.complete(replace(_FIRST, on_text=pieces.append))
            except WalagentError as error:
                _equal(type(error), expected)
            else:
                _holds(condition=False, message=f"there is a reply in spite of {fault}")


PROVIDER_CHECKS: tuple[ProviderCheck, ...] = (
    builds_without_a_request,
    names_a_missing_key,
    maps_a_run_with_tools,
    maps_errors,
    gives_up_after_the_timeout,
    counts_usage,
    writes_the_same_reply_in_pieces,
)


@asynccontextmanager
async def _asking(provider: str, *replies: Answer) -> AsyncGenerator[tuple[Model, FakeProvider]]:
    async with FakeProvider(replies) as fake:
        model = build_model(fake.spec(provider), environ=fake.environ)
        try:
            yield model, fake
        finally:
            await model.aclose()


def _after(reply: Reply, made: ToolCall) -> Request:
    """Return the request that follows a reply with a call: with its result, and a choice."""
    result = ToolResult(made.id, made.name, "nothing found", is_error=True)
    turns = (Message("assistant", reply.parts), Message("user", (result,)))
    choice = ToolChoice("named", "stop")
    return replace(_FIRST, messages=(*_FIRST.messages, *turns), choice=choice, parallel_calls=False)


def _said(request: Request | None) -> object:
    """Return the content that a wire format must preserve."""
    if request is None:
        return None
    given = (request.system, request.tools, request.choice, request.max_tokens)
    return *given, request.parallel_calls, [(turn.role, turn.parts) for turn in request.messages]


def _equal(found: object, expected: object) -> None:
    _holds(found == expected, f"expected {expected}, got {found}")


def _holds(condition: bool, message: str) -> None:  # noqa: FBT001 - as an assert
    if not condition:
        raise AssertionError(message)
