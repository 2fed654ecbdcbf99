"""Tools over HTTP: declared in a file or in SQL, called under the rules of this process.

A row of `agent.tool` says what a request looks like.  Where requests can go, and
which secrets they carry there, only the configuration of the process says (`HttpRules`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Final, Self
from urllib.parse import SplitResult, urlsplit

import orjson

from walagent.domain.tool_spec import Tool
from walagent.domain.untrusted import without_control
from walagent.errors import ToolFailedError
from walagent.message import Json
from walagent.tools.addresses import Address, Network, in_networks, resolve
from walagent.tools.answers import answer
from walagent.tools.http_request import HttpRequest, Limits
from walagent.tools.http_templates import (
    fill_body,
    fill_header,
    fill_url,
    secrets_of,
    show_url,
)
from walagent.tools.python import ToolContext

_PORTS: Final = {"http": 80, "https": 443}
_MOST_BYTES: Final = 65_536


@dataclass(frozen=True, slots=True)
class HttpTool:
    """The definition of a tool over HTTP, as in `agent.tool`."""

    url: str
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: Json = None
    idempotency_header: str | None = "Idempotency-Key"
    max_bytes: int = _MOST_BYTES

    @classmethod
    def of(cls, tool: Tool) -> Self:
        """Read the definition of a tool."""
        raw = tool.http
        return cls(
            tool.target,
            raw.get("method", "POST"),
            raw.get("headers") or {},
            raw.get("body"),
            raw.get("idempotency_header", "Idempotency-Key"),
            int(raw.get("max_bytes") or _MOST_BYTES),
        )

    @property
    def secrets(self) -> frozenset[str]:
        """Return the names of its secrets."""
        return secrets_of(self.url, self.headers, self.body)


@dataclass(frozen=True, slots=True)
class HostRules:
    """What requests to a host can carry, and its private networks that they can reach."""

    secrets: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def __or__(self, other: "HostRules") -> "HostRules":
        """Return what either allows."""
        return HostRules(self.secrets | other.secrets, self.networks + other.networks)


class HttpTools:
    """The tools over HTTP that this process can call."""

    def __init__(
        self,
        hosts: Mapping[str, HostRules],
        find_secret: Callable[[str], str | None],
        tls: SSLContext | None = None,
    ) -> None:
        """Take the rules.

        Args:
            hosts: by host, with its port if that is not the scheme's.
            find_secret: returns the value of a secret.
            tls: the certificates that are trusted.
        """
        self._hosts = hosts
        self._find_secret = find_secret
        self._tls = tls

    def callee(self, tool: Tool) -> "HttpCallee":
        """Return what calls *tool*.

        Raises:
            ToolFailedError: the configuration does not allow its host, or its secrets there; or
                its URL has no such host or port.
        """
        made = HttpTool.of(tool)
        try:
            host = host_of(made.url)
        except ValueError as error:
            raise ToolFailedError(f"invalid URL: {error}") from error
        rules = self._hosts.get(host)
        if rules is None:
            raise ToolFailedError(
                f'host "{host}" is not allowed on this worker (http_tools, tools.http_hosts)'
            )
        if extra := sorted(made.secrets - rules.secrets):
            raise ToolFailedError(f'secret "{extra[0]}" is not allowed for host "{host}"')
        return HttpCallee(tool, made, rules, self._secret, self._tls)

    def _secret(self, name: str) -> str:
        if (value := self._find_secret(name)) is None:
            raise ToolFailedError(f'secret "{name}" is not set on this worker')
        return value


@dataclass(slots=True)
class HttpCallee:
    """Implements `Callee`."""

    tool: Tool
    made: HttpTool
    rules: HostRules
    secret: Callable[[str], str] = field(repr=False)
    tls: SSLContext | None = None
    addresses: Sequence[Address] = ()
    most_bytes: int | None = None  # of a request's body and of its answer, by an egress rule

    async def prepare(self) -> None:
        """Resolve the host, and find the secrets.

        Raises:
            ToolFailedError: an address is not allowed, or a secret is not set.
        """
        parts = urlsplit(self.made.url)
        self.addresses = await resolve(_host(parts.hostname), _port(parts), self.rules.networks)
        if self.made.secrets and parts.scheme == "http":
            self._check_private()
        for name in self.made.secrets:
            self.secret(name)

    async def call(self, context: ToolContext, arguments: Mapping[str, Json]) -> object:
        """Send the request.

        Raises:
            ToolFailedError: it did not act, or says why not.
            OutcomeUnknownError: it might have acted.
        """
        # It imports the client, which no command needs that calls nothing.
        from walagent.tools.http_exchange import send  # noqa: PLC0415

        request = self.request(context, arguments)
        most = self.made.max_bytes
        if self.most_bytes is not None:
            most = min(most, self.most_bytes)
            if len(request.body or b"") > self.most_bytes:
                raise ToolFailedError(
                    f"the body of the request exceeds {self.most_bytes:,} bytes (egress rule)"
                )
        limits = Limits(most, self.tool.timeout)
        said = await send(request, self.addresses, limits, self.tls)
        host = host_of(self.made.url)
        # What nobody sees is left out first: it could stand within a secret.
        body = request.masked(without_control(said.text), cut=said.is_cut)
        if said.is_cut:
            body += f"\n(cut after {limits.most:,} bytes)"
        text = f"HTTP {said.status}" + (f"\n{body}" if body else "")
        framed = answer(host, text, context.run_id, len(text))
        if not said.is_success:
            raise ToolFailedError(framed)
        return framed

    def request(self, context: ToolContext, arguments: Mapping[str, Json]) -> HttpRequest:
        """Fill the templates.

        Raises:
            ToolFailedError: a value does not fit its place.
        """
        properties: Mapping[str, Json] = self.tool.input_schema.get("properties") or {}
        values = {
            **{name: schema.get("default") for name, schema in properties.items()},
            **dict.fromkeys(self.tool.bind),
            **arguments,
            "idempotency_key": context.idempotency_key,
            "run_id": context.run_id,
        }
        made, used = self.made, list[str]()

        def secret(name: str) -> str:
            used.append(self.secret(name))
            return used[-1]

        headers = {name: fill_header(text, values, secret) for name, text in made.headers.items()}
        if made.idempotency_header:
            headers = _with_default(headers, made.idempotency_header, context.idempotency_key)
        body = None
        if made.body is not None:
            filled = fill_body(made.body, values, secret)
            body = orjson.dumps(filled, default=str)
            headers = _with_default(headers, "Content-Type", "application/json")
        url = fill_url(made.url, values, secret)
        return HttpRequest(made.method, url, headers, body, used)

    def _check_private(self) -> None:
        if not all(in_networks(address, self.rules.networks) for address in self.addresses):
            raise ToolFailedError("a secret is sent over https, or to an allowed private network")


def host_of(url: str) -> str:
    """Return the host of a URL, with its port if that is not the scheme's.

    Raises:
        ValueError: it has none, or a user and password, which would be in logs.
    """
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise ValueError("it has user information; use a header with a secret")
    host, port = _host(parts.hostname), _port(parts)
    host = f"[{host}]" if ":" in host else host
    return host if port == _PORTS.get(parts.scheme) else f"{host}:{port}"


def tool_request(tool: Tool, arguments: Mapping[str, Json]) -> str:
    """Show the request of a call, for people: with its arguments; secrets by name."""
    bound = {name: f"{{{column}}}" for name, column in tool.bind.items()}
    return f"{HttpTool.of(tool).method} {show_url(tool.target, {**bound, **arguments})}"


def _with_default(headers: Mapping[str, str], name: str, value: str) -> dict[str, str]:
    given = any(each.lower() == name.lower() for each in headers)
    return {**headers} if given else {**headers, name: value}


def _host(host: str | None) -> str:
    return (host or "").rstrip(".").lower()


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS.get(parts.scheme, 0)
