"""Requests that leave: they go to the address that was checked, and nowhere from there."""

import socket
from collections.abc import Awaitable, Callable, Iterator
from ipaddress import ip_network
from itertools import chain, repeat

import pytest

from tests.helpers.web import reply, web
from walagent.domain.tool_spec import Effect, Tool
from walagent.errors import DeliveryDelayedError, DeliveryRefusedError, ToolFailedError
from walagent.message import Json
from walagent.outbox.webhook import Post
from walagent.tools.http import HostRules, HttpTools
from walagent.tools.http_request import HttpRequest
from walagent.tools.python import ToolContext

HERE = (ip_network("127.0.0.1/32"),)
CONTEXT = ToolContext(None, "walagent-1-c1", 1, {})
NAME = "rebound.example"


def _tool(url: str) -> Tool:
    request: dict[str, Json] = {"method": "POST", "headers": {}, "body": {}}
    schema: dict[str, Json] = {"type": "object", "properties": {}}
    return Tool("alert", "http", url, "", schema, Effect.UNSAFE, timeout=5.0, http=request)


async def _call(url: str, host: str) -> str:
    """Call a tool as a worker does."""
    tools = HttpTools({host: HostRules(networks=HERE)}, {}.get)
    callee = tools.callee(_tool(url))
    await callee.prepare()
    return str(await callee.call(CONTEXT, {}))


async def _post(url: str, host: str) -> str:
    """Deliver a webhook as a worker does."""
    post = Post({host: HostRules(networks=HERE)}, {}.get)
    said = await post.post(HttpRequest("POST", url, {}, b"{}", ()), post.rules(url))
    return f"HTTP {said.status}"


Send = Callable[[str, str], Awaitable[str]]
WAYS = pytest.mark.parametrize("send", [_call, _post], ids=["tool", "webhook"])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions for a name whose server answers another address each time."""
    found: list[str] = []
    answers: Iterator[str] = chain(["127.0.0.1"], repeat("127.0.0.2"))
    real = socket.getaddrinfo

    def resolve(host: str | bytes | None, *rest: object, **more: object) -> object:
        if host not in {NAME, NAME.encode()}:
            return real(host, *rest, **more)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType, reportCallIssue]
        found.append(NAME)
        return real(next(answers), *rest, **more)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType, reportCallIssue]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    return found


@WAYS
async def test_a_name_is_resolved_once(send: Send, asked: list[str]) -> None:
    """Its server answers an address that is allowed, then one that is not (DNS rebinding)."""
    async with web() as server:
        host = f"{NAME}:{server.port}"
        assert "HTTP 200" in await send(f"http://{host}/", host)
        assert asked == [NAME]
        assert server.sent[0].headers["host"] == host
        with pytest.raises((ToolFailedError, DeliveryDelayedError), match="not public"):
            await send(f"http://{host}/", host)
        assert server.connections == 1


@WAYS
@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
@pytest.mark.parametrize(
    "place",
    ["http://169.254.169.254/latest/", "http://[::ffff:169.254.169.254]/", "http://127.0.0.1:{port}/",
     "//2852039166/", "http://localhost:{port}/", "file:///etc/passwd"],
)  # fmt: skip
async def test_an_answer_leads_nowhere(send: Send, place: str, status: str) -> None:
    """A redirect is no answer: the receiver was checked, not where it points."""
    async with web() as server:
        host = f"127.0.0.1:{server.port}"
        server.answers["/"] = reply(b"", f"{status} X", Location=place.format(port=server.port))
        with pytest.raises((ToolFailedError, DeliveryDelayedError), match="not followed"):
            await send(f"http://{host}/", host)
        assert server.connections == 1


@WAYS
@pytest.mark.parametrize(
    "place",
    ["http://{host}@127.0.0.1:{other}/", "http://127.0.0.1:{other}\\@{host}/", "http://{host}#@127.0.0.1:{other}/",
     "http://{host}/@127.0.0.1:{other}/", "http://127.0.0.1:{other}?@{host}/", "http://{host}\t@127.0.0.1:{other}/"],
)  # fmt: skip
async def test_user_information_names_no_other_host(send: Send, place: str) -> None:
    """What a parser could take for the host: the request goes to the listed one, or is refused."""
    async with web() as server, web() as other:
        host = f"127.0.0.1:{server.port}"
        try:
            await send(place.format(host=host, other=other.port), host)
        except (ToolFailedError, DeliveryDelayedError, DeliveryRefusedError):
            assert server.connections == 0
        assert other.connections == 0


@WAYS
@pytest.mark.parametrize("host", ["user:tk-secret@127.0.0.1", "tk-secret@127.0.0.1"])
async def test_no_credential_of_a_url_is_sent(send: Send, host: str) -> None:
    """Secrets have their own place, and a URL is logged: one with user information is refused."""
    async with web() as server:
        with pytest.raises((ToolFailedError, DeliveryRefusedError), match="user information"):
            await send(f"http://{host}:{server.port}/", f"127.0.0.1:{server.port}")
        assert server.connections == 0
