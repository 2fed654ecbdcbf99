"""Servers that cannot be reached, and addresses that lead elsewhere, are named."""

import json
import socket

import pytest

from walagent.errors import (
    ConfigError,
    ModelUnauthorizedError,
    ModelUnavailableError,
    WalagentError,
)
from walagent.message import Message, ModelSpec, Request, Text
from walagent.models import build_model
from walagent.models.registry import find_provider
from walagent.testing.http_server import HttpServer, Incoming, Outgoing

REQUEST = Request("", (Message("user", (Text("hi"),)),), timeout=20)
PROVIDERS = ["openai", "anthropic"]


def closed_port() -> int:
    """A port on which nobody listens."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


async def failure(spec: ModelSpec, environ: dict[str, str] | None = None) -> WalagentError:
    """Ask a model that cannot answer."""
    model = build_model(spec, environ=environ or {})
    with pytest.raises((ModelUnavailableError, ModelUnauthorizedError)) as caught:
        await model.complete(REQUEST)
    await model.aclose()
    return caught.value


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_server_that_is_not_there_is_named(provider: str) -> None:
    """Host and port; it costs no attempt."""
    place = f"127.0.0.1:{closed_port()}"
    error = await failure(ModelSpec("m", provider, "x", f"http://user:pw@{place}/v1"))
    assert isinstance(error, ModelUnavailableError)
    assert f"cannot be reached at {place} (ConnectError)" in str(error)
    assert "pw" not in str(error)
    assert not error.counts


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "all_proxy"])
async def test_a_proxy_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, provider: str, variable: str
) -> None:
    """It is the proxy that must be started, and not the server."""
    place = f"127.0.0.1:{closed_port()}"
    monkeypatch.setenv(variable, f"http://user:pw@{place}")
    error = await failure(ModelSpec("m", provider, "x", "http://models.example/v1"))
    assert isinstance(error, ModelUnavailableError)
    assert f"models.example through the proxy {place} of {variable}" in str(error)
    assert "pw" not in str(error)
    assert not error.counts


async def test_a_proxy_is_used() -> None:
    """The request goes to it, with the whole address."""
    seen: list[str] = []

    async def answer(incoming: Incoming) -> Outgoing:
        seen.append(incoming.path)
        body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
        return Outgoing(200, json.dumps(body).encode())

    server = HttpServer(answer)
    port = await server.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        model = build_model(ModelSpec("m", "openai", "x", "http://models.example/v1"), environ={})
    assert (await model.complete(REQUEST)).text == "hi"
    assert seen == ["http://models.example/v1/chat/completions"]
    await model.aclose()
    await server.stop()


async def test_a_path_that_is_not_there_is_explained() -> None:
    """Where the base URL comes from, and what it lacks."""

    async def answer(_incoming: Incoming) -> Outgoing:
        return Outgoing(404, b"404 page not found", {"content-type": "text/plain"})

    server = HttpServer(answer)
    url = f"http://127.0.0.1:{await server.start()}"
    row = ModelSpec("m", "openai", "x", url)
    error = await failure(row)
    assert "404 page not found" in str(error)
    assert "base_url of m in agent.model" in error.hint
    assert "/v1" in error.hint
    environ = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f"{url}/v1"}
    error = await failure(ModelSpec("m", "openai", "x"), environ)
    assert error.hint.endswith("OPENAI_BASE_URL")
    await server.stop()


@pytest.mark.parametrize("name", ["ollama", "LM Studio", "vLLM", "gemini", "open-router"])
def test_a_provider_that_is_reached_as_another_is_explained(name: str) -> None:
    """Its servers speak a protocol that is there."""
    with pytest.raises(ConfigError, match="speaks the protocol of openai") as caught:
        find_provider(name)
    assert "base_url http" in caught.value.hint


@pytest.mark.parametrize(
    ("provider", "path", "expected"),
    [
        ("openai", "/v1", "/v1/chat/completions"),
        ("openai", "/v1/", "/v1/chat/completions"),
        ("openai", "/v1/chat/completions", "/v1/chat/completions"),
        ("openai", "/a/d?api-version=2026-01-01", "/a/d/chat/completions?api-version=2026-01-01"),
        ("anthropic", "", "/v1/messages"),
        ("anthropic", "/v1", "/v1/messages"),
        ("anthropic", "/v1/messages", "/v1/messages"),
        ("anthropic", "/team/v1?k=v", "/team/v1/messages?k=v"),
    ],
)
async def test_a_base_url_need_not_be_a_plain_prefix(
    provider: str, path: str, expected: str
) -> None:
    """People copy it with a query or the path of the requests."""
    seen: list[str] = []

    async def answer(incoming: Incoming) -> Outgoing:
        seen.append(incoming.path)
        return Outgoing(500, b"{}")

    server = HttpServer(answer)
    url = f"http://127.0.0.1:{await server.start()}{path}"
    await failure(ModelSpec("m", provider, "x", url))
    await server.stop()
    assert seen == [expected]
