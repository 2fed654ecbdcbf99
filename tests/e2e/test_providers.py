"""The providers, through their real SDKs, against a server that speaks their wire formats."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from email.utils import formatdate
from pathlib import Path
from time import time

import pytest

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
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
    Usage,
)
from walagent.models import build_model
from walagent.models.limits import LimitSettings, ModelLimits
from walagent.models.model import Model
from walagent.models.registry import BUILT_IN
from walagent.models.replies import TEXT_LIMIT
from walagent.testing import Answer, FakeProvider, Fault, call

pytestmark = pytest.mark.scenario(13)
REMOTE = sorted(name for name, one in BUILT_IN.items() if one.load_wire is not None)
PROVIDERS = pytest.mark.parametrize("provider", REMOTE)
TOOLS = (
    ToolSpec("find", "Find it.", {"type": "object", "properties": {"q": {"type": "string"}}}),
    ToolSpec("stop", "Stop.", {"type": "object", "properties": {}}),
)
COMMAND = [sys.executable, "-m", "walagent.testing", "--script"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
SECRET = "the prompt's own secret, number 4711"


def asked(**fields: Json) -> Request:
    """Write the first request of a run."""
    given = {"messages": (Message("user", (Text(SECRET),)),), "tools": TOOLS, **fields}
    return Request("be brief", **given)


@asynccontextmanager
async def model_at(
    provider: str, *replies: Answer, latency: float = 0.0, usage: Usage | None = None, **spec: Json
) -> AsyncGenerator[tuple[Model, FakeProvider]]:
    """Give a model and the provider that it asks."""
    fake = FakeProvider(replies, latency=latency, usage=usage or Usage(100, 0, 0, 10))
    async with fake:
        model = build_model(fake.spec(provider, **spec), environ=fake.environ)
        try:
            yield model, fake
        finally:
            await model.aclose()


async def run(model: Model, request: Request) -> list[Reply]:
    """Play a whole run: every tool answers with its name."""
    replies: list[Reply] = []
    while True:
        reply = await model.complete(request)
        replies.append(reply)
        if not reply.calls:
            return replies
        results = tuple(ToolResult(one.id, one.name, f"{one.name} says so") for one in reply.calls)
        turns = (Message("assistant", reply.parts), Message("user", results))
        request = asked(messages=(*request.messages, *turns))


@pytest.mark.parametrize(
    ("provider", "tool_mode"),
    [("anthropic", "native"), ("openai", "native"), ("openai", "schema")],
)
async def test_a_run_of_several_calls_is_carried_through(provider: str, tool_mode: str) -> None:
    """Every request passes the provider's checks, and says again what was said before."""
    script = (["let me", call("find", q="é")], call("stop"), "done")
    async with model_at(provider, *script, tool_mode=tool_mode) as (model, fake):
        replies = await run(model, asked())
    assert [reply.stop for reply in replies] == [Stop.TOOL, Stop.TOOL, Stop.END]
    assert replies[0].calls[0].arguments == {"q": "é"}
    assert replies[-1].text == "done"
    assert [received.problem for received in fake.received] == ["", "", ""]
    said = [received.body["messages"] for received in fake.received]
    assert said[2][: len(said[1])] == said[1]


@PROVIDERS
async def test_parallel_calls_and_their_results_go_round(provider: str) -> None:
    """Both results stand after the reply that asked for them, a failed one marked."""
    async with model_at(provider, [call("find"), call("stop")], "done") as (model, fake):
        first = await model.complete(asked())
        a, b = first.calls
        results = (ToolResult(a.id, "find", "gone", is_error=True), ToolResult(b.id, "stop", ""))
        turns = (Message("assistant", first.parts), Message("user", results))
        await model.complete(asked(messages=(*asked().messages, *turns), parallel_calls=False))
    request = fake.received[1].request
    assert request is not None
    parts = [part for message in request.messages[2:] for part in message.parts]
    assert parts == list(results)
    assert not request.parallel_calls


@PROVIDERS
@pytest.mark.parametrize(
    "choice", [ToolChoice("required"), ToolChoice("named", "find"), ToolChoice("none")], ids=str
)
async def test_a_demanded_call_that_does_not_come_is_handed_on(
    provider: str, choice: ToolChoice
) -> None:
    """The provider is told; whether it obeyed is the engine's to evaluate."""
    async with model_at(provider, "no") as (model, fake):
        reply = await model.complete(asked(choice=choice))
    assert (reply.parts, reply.stop) == ((Text("no"),), Stop.END)
    assert fake.received[0].request is not None
    assert fake.received[0].request.choice == choice


@PROVIDERS
async def test_usage_tells_cached_tokens_apart(provider: str) -> None:
    """The two providers count them differently on the wire, and mean the same here."""
    usage = Usage(input_tokens=10, cached_tokens=2_000, cache_write_tokens=300, output_tokens=7)
    async with model_at(provider, "x", usage=usage) as (model, _):
        reply = await model.complete(asked())
    assert reply.usage == usage
    assert reply.model == "scripted"


async def test_thinking_goes_back_to_its_provider_and_to_no_other() -> None:
    """As it came: a changed signature is refused."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln", "extra": [1]}
    reply = Reply((Thinking("anthropic", thought), ToolCall("t1", "find", {})), Stop.TOOL)
    async with model_at("anthropic", reply, "done") as (model, fake):
        replies = await run(model, asked())
    assert fake.received[1].body["messages"][1]["content"][0] == thought
    turns = (
        Message("assistant", replies[0].parts),
        Message("user", (ToolResult("t1", "find", ""),)),
    )
    async with model_at("openai", "x", "done") as (model, fake):
        await model.complete(asked(messages=(*asked().messages, *turns)))
    assert "hm" not in json.dumps(fake.received[0].body)


@PROVIDERS
async def test_a_parameter_reaches_the_wire(provider: str) -> None:
    """Also one that the SDK's own method does not take."""
    async with model_at(provider, "x", parameters={"temperature": 0.5}) as (model, fake):
        await model.complete(asked(parameters={"top_p": 0.9}))
    assert fake.received[0].body["temperature"] == 0.5
    assert fake.received[0].body["top_p"] == 0.9


FAULTS: list[tuple[Fault, type[WalagentError]]] = [
    (Fault(400), ModelRejectedError),
    (Fault(401), ModelUnauthorizedError),
    (Fault(402), ModelUnauthorizedError),
    (Fault(403), ModelUnauthorizedError),
    (Fault(404), ModelUnauthorizedError),
    (Fault(408), ModelUnavailableError),
    (Fault(413), ModelRejectedError),
    (Fault(422), ModelRejectedError),
    (Fault(429), ModelLimitedError),
    (Fault(429, code="insufficient_quota"), ModelUnauthorizedError),
    (Fault(400, message="Your credit balance is too low to go on."), ModelUnauthorizedError),
    (Fault(500), ModelUnavailableError),
    (Fault(502, body=b"<html>Bad Gateway</html>"), ModelUnavailableError),
    (Fault(503), ModelLimitedError),
    (Fault(504), ModelUnavailableError),
    (Fault(529), ModelLimitedError),
    (Fault(302), ModelRejectedError),
    (Fault(cut=True), ModelUnavailableError),
    (Fault(200, cut=True), ModelUnavailableError),
    (Fault(drop=True), ModelUnavailableError),
    (Fault(200, body=b"{"), ModelUnavailableError),
    (Fault(200, body=b"null"), ModelUnavailableError),
    (Fault(200, body=b"[" * 100_000), ModelUnavailableError),
    (Fault(200, body=b"\xff\xfe"), ModelUnavailableError),
    (Fault(200, body=b'{"choices": [], "content": []}'), ModelUnavailableError),
    (Fault(200, body=b"", headers={"content-length": "0"}), ModelUnavailableError),
    (Fault(200, body=b"<html>", headers={"content-type": "text/html"}), ModelUnavailableError),
    (Fault(reply="whole", cut=True), ModelUnavailableError),
    (Fault(reply="whole", cut_at=-1), ModelUnavailableError),
    (Fault(reply="whole", cut_at=5), ModelUnavailableError),
    (Fault(reply="whole", headers={"content-encoding": "gzip"}), ModelUnavailableError),
    (Fault(200, body=b'{"type": "error", "error": {"type": "x"}}'), ModelUnavailableError),
]


@PROVIDERS
@pytest.mark.parametrize(("fault", "expected"), FAULTS, ids=str)
async def test_every_fault_has_its_error_and_one_request(
    provider: str, fault: Fault, expected: type[WalagentError]
) -> None:
    """The SDK does not try again; the error names provider and model, no key and no prompt."""
    if provider == "anthropic" and fault.code:
        fault = Fault(429, code="billing_error")
    async with model_at(provider, fault) as (model, fake):
        with pytest.raises(expected) as caught:
            await model.complete(asked())
    assert type(caught.value) is expected
    assert len(fake.received) == 1
    text = str(caught.value)
    assert text.startswith(f"{provider} fake-model ")
    assert "4711" not in text
    assert "fake-key" not in text
    assert caught.value.__suppress_context__ or caught.value.__context__ is None


@PROVIDERS
async def test_the_wait_is_read_from_both_forms_of_the_header(provider: str) -> None:
    """Seconds, and a date."""
    for header, low, high in (("7", 7, 7), (formatdate(time() + 90, usegmt=True), 80, 91)):
        async with model_at(provider, Fault(429, header)) as (model, _):
            with pytest.raises(ModelLimitedError) as caught:
                await model.complete(asked())
        assert caught.value.retry_after is not None
        assert low <= caught.value.retry_after <= high


@PROVIDERS
async def test_what_the_provider_repeats_of_the_prompt_stays_out_of_the_error(
    provider: str,
) -> None:
    """Its own words stay."""
    for echo, expected in ((SECRET, "left out"), ("tools.0: bad schema", "tools.0: bad schema")):
        async with model_at(provider, Fault(400, message=f"Invalid: {echo}")) as (model, _):
            with pytest.raises(ModelRejectedError, match=expected) as caught:
                await model.complete(asked())
        assert "secret" not in str(caught.value)


@PROVIDERS
async def test_a_silent_provider_is_given_up_after_the_requests_timeout(provider: str) -> None:
    """The timeout is for the whole call."""
    async with model_at(provider, Fault(stall=3600)) as (model, _):
        with pytest.raises(ModelUnavailableError, match="Timeout"):
            await asyncio.wait_for(model.complete(asked(timeout=0.2)), 10)


@PROVIDERS
async def test_an_answer_that_drips_is_given_up_after_the_same_time(provider: str) -> None:
    """Each byte comes in time, and the whole never would: so do slow headers."""
    async with model_at(provider, Fault(reply="x", drip=0.1), "y") as (model, _):
        with pytest.raises(ModelUnavailableError, match="Timeout") as caught:
            await asyncio.wait_for(model.complete(asked(timeout=0.3)), 10)
        assert caught.value.counts
    async with model_at(provider, Fault(reply="x", drip=0.001)) as (model, _):
        assert (await model.complete(asked())).text == "x"


@PROVIDERS
async def test_a_provider_that_is_not_there_is_unavailable(provider: str) -> None:
    """A refused connection is worth a retry."""
    async with model_at(provider) as (model, fake):
        await fake.stop()
        with pytest.raises(ModelUnavailableError, match="ConnectError") as caught:
            await model.complete(asked())
    assert not caught.value.counts


@PROVIDERS
@pytest.mark.parametrize("host", ["http://nobody.invalid", "https://127.0.0.1"])
async def test_a_request_that_never_left_is_distinguished(provider: str, host: str) -> None:
    """A name that nobody knows, and a server that does not speak TLS: no attempt of any run."""
    async with FakeProvider(["x"]) as fake:
        spec = fake.spec(provider, base_url=f"{host}:{fake.port}/v1")
        model = build_model(spec, environ=fake.environ)
        with pytest.raises(ModelUnavailableError, match="ConnectError") as caught:
            await model.complete(asked())
        await model.aclose()
        assert not caught.value.counts
        assert fake.requests == 0


@PROVIDERS
async def test_a_cancelled_call_closes_its_connection(provider: str) -> None:
    """A run that was cancelled does not go on costing money."""
    async with model_at(provider, "late", latency=3600) as (model, fake):
        asking = asyncio.create_task(model.complete(asked()))
        await until(lambda: fake.in_flight == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await until(lambda: fake.connections == 0)


@PROVIDERS
async def test_a_wrong_key_is_a_persons_matter(provider: str) -> None:
    """And the error says under which name the key is looked up."""
    async with FakeProvider(["x"]) as fake:
        spec = fake.spec(provider)
        model = build_model(spec, environ={str(spec.credential): "sk-wrong"})
        with pytest.raises(ModelUnauthorizedError) as caught:
            await model.complete(asked())
        await model.aclose()
    assert "sk-wrong" not in str(caught.value)
    assert str(spec.credential) in caught.value.hint


async def test_broken_arguments_are_none_and_can_be_sent_to_the_model() -> None:
    """The next request passes the strictest server's checks."""
    broken = Reply((ToolCall("c1", "find", None, '{"q": '),), Stop.TOOL)
    async with model_at("openai", broken, "sorry") as (model, fake):
        replies = await run(model, asked())
    assert replies[0].calls == broken.calls
    assert replies[1].text == "sorry"
    assert fake.received[1].problem == ""


@PROVIDERS
async def test_answers_are_bounded_and_storable(provider: str) -> None:
    """A huge text is cut and says so; a huge argument is none; NUL and surrogates go."""
    script = ("x" * (TEXT_LIMIT + 1), "a\0b\ud800c", call("find", q="x" * 1_100_000), "")
    for at, reply in enumerate(script):
        async with model_at(provider, reply) as (model, _):
            got = await model.complete(asked())
        match at:
            case 0:
                assert got.text.endswith("[cut after 1000000 characters]")
                assert len(got.text) < TEXT_LIMIT + 100
            case 1:
                assert got.text == "a\u2400b\ufffdc"
            case 2:
                assert got.calls[0].arguments is None
                assert len(got.calls[0].raw) == 2_000
            case _:
                assert (got.parts, got.stop) == ((), Stop.END)


@PROVIDERS
async def test_a_cut_answer_and_an_unknown_tool_are_handed_on(provider: str) -> None:
    """What to do with them is the engine's to decide."""
    tier = "default" if provider == "openai" else ""
    cut = Reply((Text("half a sen"),), Stop.LENGTH, Usage(1, 0, 0, 1), "m", tier=tier)
    async with model_at(provider, cut) as (model, _):
        assert await model.complete(asked()) == cut
    async with model_at(provider, call("nope", x=1)) as (model, _):
        assert (await model.complete(asked())).calls[0].name == "nope"


@PROVIDERS
async def test_a_refusal_and_an_answer_are_distinguished(provider: str) -> None:
    """Both providers can decline."""
    async with model_at(provider, Reply((Text("no"),), Stop.REFUSAL)) as (model, _):
        assert (await model.complete(asked())).stop is Stop.REFUSAL


@PROVIDERS
async def test_hundreds_of_calls_are_in_flight_at_once(provider: str) -> None:
    """Past the hundred connections of one client, none times out and none waits for another."""
    calls = 250
    async with model_at(provider, "x", latency=1.0) as (model, fake):
        replies = await asyncio.gather(*(model.complete(asked()) for _ in range(calls)))
    assert len(replies) == calls
    assert fake.most_in_flight == calls


@PROVIDERS
async def test_a_limiter_in_front_keeps_to_its_cap(provider: str) -> None:
    """The provider never sees more."""
    limits = ModelLimits(LimitSettings(calls=5, patience=60))
    async with model_at(provider, "x", latency=0.05) as (model, fake):
        limited = limits.wrap(model)
        await asyncio.gather(*(limited.complete(asked()) for _ in range(30)))
    assert fake.most_in_flight == 5
    assert len(fake.received) == 30


async def test_the_environment_of_openai_stays_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """Organization, project and admin key are nobody else's business."""
    for name in ("OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OPENAI_ADMIN_KEY"):
        monkeypatch.setenv(name, "private-value")
    async with model_at("openai", "x") as (model, fake):
        await model.complete(asked())
    assert "private-value" not in str(fake.received[0].headers)


async def test_the_fake_provider_runs_as_a_process(tmp_path: Path) -> None:
    """From a script file, for trying out a configuration without a key."""
    script = tmp_path / "replies.json"
    script.write_text('{"replies": [{"call": "find", "arguments": {"q": "x"}}, "done"]}')
    process = await asyncio.create_subprocess_exec(
        *COMMAND, str(script), stdout=asyncio.subprocess.PIPE, env=ENVIRONMENT
    )
    try:
        assert process.stdout is not None
        words = (await asyncio.wait_for(process.stdout.readline(), 60)).decode().split()
        urls = dict(zip(words[::2], words[1::2], strict=True))
        assert sorted(urls) == REMOTE
        for provider, url in urls.items():
            fake = FakeProvider()
            spec = fake.spec(provider, base_url=url)
            model = build_model(spec, environ=fake.environ)
            assert (await run(model, asked()))[-1].text == "done"
            await model.aclose()
    finally:
        process.terminate()
        await process.wait()


def test_a_process_without_a_script_ends_with_usage(tmp_path: Path) -> None:
    """Exit code 2, and the reason on stderr."""
    ended = subprocess.run(
        [*COMMAND, str(tmp_path / "none")],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        env=ENVIRONMENT,
    )
    assert ended.returncode == 2
    assert "cannot be read" in ended.stderr


def test_choosing_a_provider_imports_no_other_sdk() -> None:
    """The core starts fast: an SDK takes a second to import."""
    code = (
        "import sys, walagent.models, walagent.models.limits;"
        "assert not {'anthropic', 'openai', 'httpx2', 'yaml', 'numpy'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, env=ENVIRONMENT)


async def until(holds: Callable[[], bool]) -> None:
    """Wait until *holds*, for ten seconds at most."""
    async with asyncio.timeout(10):
        while not holds():  # noqa: ASYNC110 - what is waited for happens in a socket
            await asyncio.sleep(0.01)
