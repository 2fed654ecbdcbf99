"""The sections of agents.yaml about tools: in Python, over HTTP, of MCP servers."""

import re
from ipaddress import ip_network
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from walagent.config.base import CredentialName, Name, Names, Part, Seconds, one_or_many, to_list
from walagent.tools.http_templates import arguments_of

_URL = r"^https?://([A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?([/?][^\s#\\]*)?$"


def _is_network(value: str) -> str:
    ip_network(value)
    return value


def _is_host(value: str) -> str:
    if not re.fullmatch(rf"{_HOST}(:[0-9]{{1,5}})?", value):
        raise ValueError("must be a host in lower case, with a port if that is not 80 or 443")
    return value


def _has_port(value: str) -> str:
    _ = urlsplit(value).port  # raises ValueError for 70000, or an invalid address in brackets
    return value


_HOST = r"([a-z0-9]([a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])"
HttpHost = Annotated[str, AfterValidator(_is_host)]
Network = Annotated[str, AfterValidator(_is_network)]
Networks = Annotated[tuple[Network, ...], to_list, one_or_many({"type": "string"})]


class HttpHostEntry(Part):
    """What requests to a host can carry."""

    secrets: tuple[CredentialName, ...] = ()
    """Names of variables or credentials that templates can name as `{secret:NAME}`."""
    networks: Networks = ()
    """Private networks that the host's addresses can be in, such as `10.0.0.0/8`."""


class HttpToolEntry(Part):
    """A tool that sends an HTTP request.

    `{argument}` in the URL, the headers and the body is an argument of the tool.
    """

    url: Annotated[str, AfterValidator(_has_port)] = Field(pattern=_URL)
    """The URL; its host is literal."""
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    """The method."""
    description: Name
    """Shown to the model: what the tool does, and when to use it."""
    arguments: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """JSON schemas of arguments.  Default: a string for each placeholder."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Headers, such as `Authorization: Bearer {secret:TOKEN}`."""
    body: Any = None
    """A JSON body; a string that is only `{argument}` becomes its value."""
    idempotency_header: str | None = "Idempotency-Key"
    """The header with the key of the call, the same in each attempt; `null`: none."""
    effect: Literal["idempotent", "unsafe"] | None = None
    """`idempotent`: a call with an unknown outcome is repeated with its key; `unsafe`: a person
    resolves it.  Default: `unsafe` for POST and PATCH, else `idempotent`."""
    approval: bool = False
    """Every call waits for a person."""
    timeout: Seconds = 10.0
    """Limit of one call."""
    max_bytes: int = Field(default=65_536, ge=1, le=1_048_576)
    """Bytes read of an answer."""
    networks: Networks = ()
    """Private networks that the host's addresses can be in."""

    @property
    def input_schema(self) -> dict[str, Any]:
        """Return the schema of its arguments: each placeholder is one, and required."""
        names = arguments_of(self.url, self.headers, self.body)
        properties = {name: self.arguments.get(name, {"type": "string"}) for name in names}
        return {
            "type": "object",
            "additionalProperties": False,
            "properties": properties,
            "required": [name for name in names if "default" not in properties[name]],
        }

    @model_validator(mode="after")
    def _uses_its_arguments(self) -> "HttpToolEntry":
        names = arguments_of(self.url, self.headers, self.body)
        if unused := sorted(self.arguments.keys() - set(names)):
            raise ValueError(f"argument {unused[0]} is not in url, headers or body")
        return self


class ToolSettings(Part):
    """Tools written in Python, and the hosts of tools over HTTP."""

    modules: Names = ()
    """Importable modules with functions declared by `walagent.tools.tool`."""
    http_hosts: dict[HttpHost, HttpHostEntry] = Field(default_factory=dict)
    """Hosts that tools over HTTP declared in SQL can call, in addition to those of `http_tools`."""


class McpToolEntry(Part):
    """How agents can use a tool of an MCP server."""

    effect: Literal["idempotent", "unsafe"] = "unsafe"
    """`idempotent`: a call with an unknown outcome can be repeated; `unsafe`: a person resolves
    it."""
    timeout: Seconds = 30.0
    """Limit of one call."""
    fingerprint: str | None = Field(default=None, pattern="^[0-9a-f]{32}$")
    """Fingerprint of the accepted name, description and schema.  Default: as first seen."""


class McpServerEntry(Part):
    """An MCP server whose tools are available to agents: a program or a URL."""

    command: tuple[Name, ...] | None = None
    """A program and its arguments, as a list; connected through stdin and stdout."""
    url: str | None = Field(default=None, pattern="^https?://")
    """The server's address over streamable HTTP."""
    token: CredentialName | None = None
    """The name of the variable or credential with the bearer token for `url`; never the token."""
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    """Variables for the program, in addition to `PATH`, `HOME`, `USER` and the like."""
    credentials: tuple[CredentialName, ...] = ()
    """Variables or credentials that the program receives under the same names."""
    tools: dict[
        Name, Annotated[McpToolEntry, BeforeValidator(lambda raw: {} if raw is None else raw)]
    ]
    """The tools that agents can have, by the server's names; others are not available."""
    connect: Seconds = 30.0
    """Time that the server has to start and list its tools."""
    max_result: int = Field(default=50_000, ge=1000, le=60_000)
    """Characters kept of a result."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "McpServerEntry":
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server requires either command or url")
        if self.command == ():
            raise ValueError("command must name a program")
        if self.url is None and self.token is not None:
            raise ValueError("token requires url; for a command, use credentials")
        if self.command is None and (self.env or self.credentials):
            raise ValueError("env and credentials require command")
        return self
