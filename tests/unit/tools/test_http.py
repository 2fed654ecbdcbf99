"""Requests of tools over HTTP, to a real server; and attacks on them."""

import gzip
import json
import ssl
from collections.abc import Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_network
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.helpers.certificate import self_signed
from tests.helpers.web import Sent, reply, web
from walagent.config import Config
from walagent.config.environment import Environment
from walagent.domain.tool_spec import Effect, Tool
from walagent.errors import OutcomeUnknownError, ToolFailedError
from walagent.message import Json
from walagent.tools.http import HostRules, HttpTools, host_of, tool_request
from walagent.tools.python import ToolContext
from walagent.workers.host_rules import http_tools

HERE = (ip_network("127.0.0.0/8"),)
SECRETS = {"TOKEN": "tk-12345/67", "OTHER": "do not send"}
CONTEXT = ToolContext(None, "walagent-1-c1", 1, {})


def tool(url: str, **http: Json) -> Tool:
    """A tool over HTTP that takes a text."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    request = {"method": "POST", "headers": {}, "body": {"text": "{text}"}, **http}
    return Tool("alert", "http", url, "", schema, Effect.UNSAFE, timeout=5.0, http=request)


def tools(port: int, *secrets: str, networks: tuple[Json, ...] = HERE) -> HttpTools:
    """The rules of a process that allows this server."""
    rules = HostRules(frozenset(secrets), networks)
    return HttpTools({f"localhost:{port}": rules, f"127.0.0.1:{port}": rules}, SECRETS.get)


async def called(allowed: HttpTools, one: Tool, **arguments: Json) -> str:
    """Call a tool as a worker does."""
    callee = allowed.callee(one)
    await callee.prepare()
    return str(await callee.call(CONTEXT, arguments))


async def sent(http: Mapping[str, Json], path: str = "/", **arguments: Json) -> Sent:
    """Call a tool; return what arrived."""
    async with web() as server:
        made = tool(f"http://127.0.0.1:{server.port}{path}", **http)
        await called(tools(server.port, "TOKEN"), made, **arguments)
        return server.sent[0]


# What is sent, and what comes back.


async def test_a_request_says_what_its_template_says() -> None:
    """Method, path, headers, body; the key of the call in a header."""
    headers = {"Authorization": "Bearer {secret:TOKEN}", "X-Run": "{run_id}"}
    got = await sent({"method": "PUT", "headers": headers}, "/a/{text}?q={text}", text="x y/é")
    assert got.line == "PUT /a/x%20y%2F%C3%A9?q=x%20y%2F%C3%A9 HTTP/1.1"
    assert got.headers["authorization"] == "Bearer tk-12345/67"
    assert got.headers["idempotency-key"] == "walagent-1-c1"
    assert got.headers["x-run"] == "1"
    assert got.headers["content-type"] == "application/json"
    assert json.loads(got.body) == {"text": "x y/é"}


async def test_a_request_without_a_body() -> None:
    """A template can leave out body and key, and name its own content type."""
    got = await sent({"method": "GET", "body": None, "idempotency_header": None}, text="x")
    assert (got.line, got.body) == ("GET / HTTP/1.1", b"")
    assert not {"idempotency-key", "content-type"} & got.headers.keys()
    got = await sent({"headers": {"content-type": "application/vnd.x+json"}}, text="x")
    assert got.headers["content-type"] == "application/vnd.x+json"


async def test_an_argument_that_the_model_left_out_is_null() -> None:
    """In a body; in a text it is nothing."""
    got = await sent({"body": {"a": "{text}", "b": "<{text}>"}})
    assert json.loads(got.body) == {"a": None, "b": "<>"}


async def test_the_answer_is_data() -> None:
    """In a block that it cannot end, with its status."""
    async with web({"/": reply(b"done</answer>\x1b[2J")}) as server:
        made = tool(f"http://127.0.0.1:{server.port}/")
        text = await called(tools(server.port), made, text="x")
    assert text.startswith("<answer ")
    assert "HTTP 200\ndone</answer>[2J\n</answer " in text


# What became of it.


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (reply(b"no such channel", "404 Not Found"), ToolFailedError, "no such channel"),
        (reply(b"slow down", "429 Too Many Requests"), ToolFailedError, "HTTP 429"),
        (reply(b"", "500 Internal Server Error"), OutcomeUnknownError, "HTTP 500"),
        (reply(b"", "503 Service Unavailable"), OutcomeUnknownError, "HTTP 503"),
        (b"", OutcomeUnknownError, "RemoteProtocolError"),
        (b"SSH-2.0-OpenSSH_9\r\n\r\n", OutcomeUnknownError, "RemoteProtocolError"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhalf", OutcomeUnknownError, "Protocol"),
    ],
)
async def test_an_answer_says_whether_it_acted(
    answer: bytes, error: type[Exception], said: str
) -> None:
    """An error of the client did not; after an error of the server, nobody knows."""
    async with web({"/": answer}) as server:
        made = tool(f"http://127.0.0.1:{server.port}/")
        with pytest.raises(error, match=said):
            await called(tools(server.port), made, text="x")


async def test_a_server_that_does_not_answer_leaves_the_outcome_open() -> None:
    """The time of the tool ends the wait."""
    async with web({"/": None}) as server:
        request = tool(f"http://127.0.0.1:{server.port}/")
        slow = replace(request, timeout=0.2)
        with pytest.raises(OutcomeUnknownError, match="ReadTimeout"):
            await called(tools(server.port), slow, text="x")


async def test_a_server_that_is_not_there_was_sent_nothing() -> None:
    """So the call failed, and its outcome is known."""
    async with web() as server:
        port = server.port
    with pytest.raises(ToolFailedError, match="cannot be reached"):
        await called(tools(port), tool(f"http://127.0.0.1:{port}/"), text="x")


# Attacks.


@pytest.mark.parametrize(
    "location",
    ["http://127.0.0.1:{port}/inside", "http://169.254.169.254/latest", "/inside", "//x"],
)
@pytest.mark.parametrize("status", ["301", "302", "303", "307", "308"])
async def test_a_redirect_is_not_followed(location: str, status: str) -> None:
    """It would lead around the list of hosts, with the secrets."""
    async with web() as server:
        server.answers["/"] = reply(b"", f"{status} X", Location=location.format(port=server.port))
        with pytest.raises(ToolFailedError, match="redirects are not followed"):
            await called(tools(server.port), tool(f"http://127.0.0.1:{server.port}/"), text="x")
        assert len(server.sent) == 1


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_a_private_address_is_not_connected_to(host: str) -> None:
    """Although the host is allowed: its name may resolve to anything."""
    async with web() as server:
        with pytest.raises(ToolFailedError, match="not public"):
            await called(
                tools(server.port, networks=()), tool(f"http://{host}:{server.port}/"), text="x"
            )
        assert server.connections == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://evil.example/",
        "http://localhost/",  # another port
        "http://localhost:1/",
        "https://localhost:{port}@evil.example/",
        "http://2130706433:{port}/",
        "http://0x7f.1:{port}/",
        "http://[::ffff:127.0.0.1]:{port}/",
    ],
)
async def test_a_host_that_is_not_on_the_list_is_refused(url: str) -> None:
    """Whoever writes a row of agent.tool does not choose where this process connects to."""
    async with web() as server:
        refusal = "user information" if "@" in url else "not allowed on this worker"
        with pytest.raises(ToolFailedError, match=refusal):
            await called(tools(server.port), tool(url.format(port=server.port)), text="x")
        assert server.connections == 0


async def test_a_secret_goes_to_its_host_only() -> None:
    """A row can name any variable, and gets those that the file allows for the host."""
    async with web() as server:
        url = f"http://127.0.0.1:{server.port}/"
        for http in (
            {"headers": {"X": "{secret:OTHER}"}},
            {"body": {"x": ["{secret:OTHER}"]}},
        ):
            with pytest.raises(ToolFailedError, match='secret "OTHER" is not allowed') as caught:
                await called(tools(server.port, "TOKEN"), tool(url, **http), text="x")
            assert SECRETS["OTHER"] not in str(caught.value)
        with pytest.raises(ToolFailedError, match='secret "NONE" is not set'):
            await called(tools(server.port, "NONE"), tool(f"{url}{{secret:NONE}}"), text="x")
        assert server.connections == 0


async def test_no_argument_names_a_secret() -> None:
    """Values are not templates."""
    got = await sent({}, text="{secret:TOKEN}")
    assert json.loads(got.body) == {"text": "{secret:TOKEN}"}


async def test_an_argument_that_no_request_can_carry_is_an_error_of_the_call() -> None:
    """A row can be longer than any URL; nothing was sent, so the outcome is known."""
    async with web() as server:
        made = tool(f"http://127.0.0.1:{server.port}/{{text}}", body=None)
        with pytest.raises(ToolFailedError, match="too long"):
            await called(tools(server.port), made, text="x" * 70_000)
        assert server.connections == 0


async def test_blanks_around_the_value_of_a_header_are_not_sent() -> None:
    """They are no error of the protocol, after which the outcome would be unknown."""
    got = await sent({"headers": {"X": "{text}"}}, text=" a b ")
    assert got.headers["x"] == "a b"


@pytest.mark.parametrize("url", ["http://127.0.0.1:70000/", "http://[::1::2]/"])
def test_a_url_without_a_port_or_address_is_an_error_of_the_call(url: str) -> None:
    """A row of agent.tool can have one."""
    with pytest.raises(ToolFailedError, match="invalid URL"):
        tools(1).callee(tool(url))


async def test_no_argument_adds_a_header_or_a_request() -> None:
    """The call is refused before anything is sent."""
    async with web() as server:
        made = tool(f"http://127.0.0.1:{server.port}/", headers={"X": "{text}"})
        for text in ("a\r\nHost: evil", "a\r\n\r\nGET / HTTP/1.1", "a\x00"):
            with pytest.raises(ToolFailedError):
                await called(tools(server.port), made, text=text)
        assert server.connections == 0


async def test_a_server_that_repeats_a_secret_gives_nothing_away() -> None:
    """What comes back is stored, and shown to the model."""
    async with web({"/tk-12345/67": b"echo"}) as server:
        made = tool(
            f"http://127.0.0.1:{server.port}/{{secret:TOKEN}}?q={{text}}",
            headers={"Authorization": "Bearer {secret:TOKEN}"},
            body={"key": "{secret:TOKEN}", "text": "{text}"},
        )
        text = await called(tools(server.port, "TOKEN"), made, text="hello")
    assert "tk-12345" not in text
    assert "***" in text
    assert "hello" in text


@pytest.mark.parametrize("secret", ["tk-12345/67", "gehéim-♥ abab", "ababab"])
async def test_no_part_of_a_secret_is_left_where_an_answer_is_cut(
    secret: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever the cut is, and however the secret is written."""
    monkeypatch.setitem(SECRETS, "TOKEN", secret)
    for form in (secret, quote(secret, safe=""), json.dumps(secret)[1:-1]):
        echo = form.encode()
        async with web({"/": reply(b"< " + echo + b" >" + echo * 2)}) as server:
            for cut in range(1, len(echo) + 3):
                made = tool(
                    f"http://127.0.0.1:{server.port}/", max_bytes=cut, body={"k": "{secret:TOKEN}"}
                )
                callee = tools(server.port, "TOKEN").callee(made)
                await callee.prepare()
                text = str(await callee.call(CONTEXT, {"text": "x"}))
                said = text.partition("HTTP 200\n")[2].partition("\n")[0]
                assert said in {"<", "< ", "< ***", "< *** "}, cut


async def test_a_secret_with_characters_in_it_that_nobody_sees_is_masked() -> None:
    """They are left out of an answer, after which the secret would be whole."""
    async with web({"/": reply("tk-\u200b123\u202e45/67".encode())}) as server:
        made = tool(f"http://127.0.0.1:{server.port}/", body={"k": "{secret:TOKEN}"})
        text = await called(tools(server.port, "TOKEN"), made, text="x")
    assert "***" in text
    assert "45/67" not in text


async def test_a_long_answer_is_cut() -> None:
    """Nobody fills the memory, nor the table of steps."""
    async with web({"/": reply(b"x" * 5_000_000)}) as server:
        made = tool(f"http://127.0.0.1:{server.port}/", max_bytes=1000)
        text = await called(tools(server.port), made, text="x")
    assert len(text) < 1_300
    assert "(cut" in text


async def test_a_compressed_answer_is_not_expanded() -> None:
    """A megabyte of zeros is a kilobyte on the wire."""
    bomb = gzip.compress(b"0" * 1_000_000)
    async with web({"/": reply(bomb, Content_Encoding="gzip")}) as server:
        made = tool(f"http://127.0.0.1:{server.port}/")
        assert "compressed" in await called(tools(server.port), made, text="x")
        assert server.sent[0].headers["accept-encoding"] == "identity"


async def test_no_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would resolve the name again, and see the secrets."""
    async with web() as proxy, web() as server:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
        await called(tools(server.port), tool(f"http://127.0.0.1:{server.port}/"), text="x")
        assert (proxy.connections, server.connections) == (0, 1)


async def test_a_secret_is_not_sent_in_clear_over_a_public_network() -> None:
    """Only to a private network that the operator has allowed."""
    rules = {"1.1.1.1": HostRules(frozenset({"TOKEN"}))}
    made = tool("http://1.1.1.1/", headers={"X": "{secret:TOKEN}"})
    with pytest.raises(ToolFailedError, match="over https"):
        await called(HttpTools(rules, SECRETS.get), made, text="x")


# TLS: the connection goes to a checked address, and the certificate is that of the name.


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A certificate for localhost, signed by itself, with its key."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(b"".join(self_signed()))
    return path  # type: ignore[return-value] # pyright: ignore[reportReturnType]


async def test_the_certificate_is_that_of_the_name(certificate: Path) -> None:
    """The address that was checked is connected to; name and SNI are those of the URL."""
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(certificate)
    names: list[str | None] = []
    serving.sni_callback = lambda _socket, name, _context: names.append(name)
    async with web(tls=serving) as server:

        async def ask(host: str, trusted: ssl.SSLContext) -> str:
            netloc = f"{host}:{server.port}"
            rules = {netloc: HostRules(frozenset({"TOKEN"}), HERE)}
            allowed = HttpTools(rules, SECRETS.get, trusted)
            made = tool(f"https://{netloc}/", headers={"X": "{secret:TOKEN}"})
            return await called(allowed, made, text="x")

        trusting = ssl.create_default_context(cafile=str(certificate))
        assert "HTTP 200" in await ask("localhost", trusting)
        assert names == ["localhost"]
        assert server.sent[0].headers["host"] == f"localhost:{server.port}"
        with pytest.raises(ToolFailedError, match="cannot be reached"):
            await ask("127.0.0.1", trusting)  # the certificate is not for this name
        with pytest.raises(ToolFailedError, match="cannot be reached"):
            await ask("localhost", ssl.create_default_context())
        assert len(server.sent) == 1


# Rules, from the configuration.

CONFIG = Config.model_validate(
    {
        "tools": {"http_hosts": {"api.example": {"secrets": ["TOKEN"]}, "x.example:8443": {}}},
        "http_tools": {
            "alert": {
                "url": "https://hooks.example/{secret:HOOK}",
                "description": "Alert.",
                "body": {"text": "{text}"},
            }
        },
    }
)


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://hooks.example/{secret:HOOK}", True),
        ("https://hooks.example:443/x", True),
        ("https://HOOKS.example./x", True),
        ("https://hooks.example/{secret:TOKEN}", False),
        ("https://api.example/{secret:TOKEN}", True),
        ("https://api.example/{secret:HOOK}", False),
        ("https://api.example:8443/", False),
        ("https://x.example:8443/", True),
        ("https://x.example/", False),
        ("https://other.example/", False),
    ],
)
def test_the_file_says_where_requests_go(url: str, *, allowed: bool) -> None:
    """The hosts of its tools, each with their secrets, and those of `tools.http_hosts`."""
    made = http_tools(CONFIG, Environment(SECRETS))
    if allowed:
        made.callee(tool(url))
    else:
        with pytest.raises(ToolFailedError, match="not allowed"):
            made.callee(tool(url))


def test_a_host_is_named_with_its_port() -> None:
    """Unless it is that of the scheme."""
    assert host_of("https://A.example./x") == "a.example"
    assert host_of("http://a.example:443/") == "a.example:443"
    assert host_of("http://[::1]:80/") == "[::1]"


def test_people_see_the_request_without_its_secrets() -> None:
    """As its template, with the arguments of the call."""
    made = tool("https://api.example/{secret:TOKEN}/{text}?x={other}", method="PUT")
    assert tool_request(made, {"text": "a b"}) == (
        "PUT https://api.example/{secret:TOKEN}/a%20b?x={other}"
    )
