"""A connection to an MCP server: opened when it is needed, and again when it was lost.

Before each call the server is asked what it offers: that finds out whether anybody is there, and
whether the tool is still what a person has accepted.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from dataclasses import dataclass, field
from typing import Any, Final, cast

import httpx2
from mcp import Client, MCPError, StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.types import CONNECTION_CLOSED, CallToolResult, Implementation

from walagent import __version__
from walagent.base.private import close_process
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.untrusted import without_control
from walagent.errors import ToolFailedError
from walagent.message import Json
from walagent.models.body_limits import refusing_more
from walagent.telemetry.log import log
from walagent.tools.error_output import ErrorOutput
from walagent.tools.mcp_offers import Offered

_KEY: Final = "walagent/idempotency-key"
_MOST_EVENT: Final = 64 << 20  # bytes of one answer over HTTP; what is too long is cut, not lost
_MOST_TOOLS: Final = 1000  # that are looked at


@dataclass(frozen=True, slots=True)
class AllowedTool:
    """What the configuration says of one tool."""

    effect: Effect = Effect.UNSAFE
    timeout: float = 30.0


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """How a server is reached, and which of its tools agents may have.

    Args:
        command: the program and its arguments; or else `url`.
        token: sent as a bearer token with each request.
        environ: what the program gets beside PATH, HOME and the like.
        connect: seconds until it must have answered what it offers.
        most: characters of an answer that are kept.
    """

    name: str
    command: Sequence[str] = ()
    url: str = ""
    token: str | None = field(default=None, repr=False)
    environ: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    tools: Mapping[str, AllowedTool] = field(default_factory=dict[str, AllowedTool])
    connect: float = 30.0
    most: int = 50_000


class McpConnection:
    """One server, opened when it is first needed and again when it was lost."""

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self._present: Opened | None = None
        self._all: set[Opened] = set()  # also those that only finish their calls

    async def offers(self) -> Mapping[str, Offered]:
        """Ask what it offers, by the server's own names; only what is allowed.

        Raises:
            ToolFailedError: it cannot be reached, or does not answer.
        """
        _, offered = await self._asked()
        return offered

    async def ready(self, tool: Tool, name: str) -> "Opened":
        """Give a connection on which a tool can be called that is as it was accepted.

        Raises:
            ToolFailedError: there is none, or the tool is another one by now.
        """
        opened, offered = await self._asked()
        _check_accepted(tool, name, offered.get(name))
        return opened

    async def aclose(self) -> None:
        """End the connection, and the program that was started for it."""
        self._present = None
        await asyncio.gather(*(opened.aclose() for opened in self._all))

    async def _asked(self) -> "tuple[Opened, Mapping[str, Offered]]":
        """Open, and ask for the tools; a connection that was lost meanwhile is opened again.

        The question also finds out whether anybody is there, before anything is done.
        """
        for again in (True, False):
            opened = self._current()
            try:
                async with asyncio.timeout(self.spec.connect):
                    return opened, await _list(await opened.client(), self.spec)
            except TimeoutError as error:
                self.retire(opened)
                reason, cause = f"no answer within {self.spec.connect:g} s", error
            except (MCPError, OSError, ValueError, RuntimeError, ExceptionGroup) as error:
                self.retire(opened)
                reason, cause = reason_of(error), error
                if again:
                    continue
            raise ToolFailedError(
                f"the MCP server {self.spec.name} cannot be reached: {reason}"
            ) from cause
        raise AssertionError("the second time ends it")

    def _current(self) -> "Opened":
        if self._present is None:
            self._all = {opened for opened in self._all if not opened.ended}
            self._present = Opened(self.spec)
            self._all.add(self._present)
        return self._present

    def retire(self, opened: "Opened") -> None:
        """Open another one for the next call; calls on this one may end."""
        if self._present is opened:
            self._present = None
        opened.retire()


class Opened:
    """A connection in its own task: the SDK requires that one task opens and closes it."""

    def __init__(self, spec: ServerSpec) -> None:
        self._spec = spec
        self._stop = asyncio.Event()
        self._retired = False
        self._calls = 0
        self._called = False
        self._ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        # In a context of its own: it serves all runs, not the one that needs it first.
        self._task = asyncio.create_task(self._keep(), name=f"mcp {spec.name}", context=Context())

    @property
    def ended(self) -> bool:
        """Whether it is gone."""
        return self._task.done()

    async def client(self) -> Client:
        """Wait until it is open.

        Raises:
            whatever the SDK and what is below it raise.
        """
        return await asyncio.shield(self._ready)

    async def call(self, name: str, arguments: Mapping[str, Json], key: str) -> CallToolResult:
        """Call a tool of the open connection."""
        meta: Any = {_KEY: key}
        self._calls += 1
        self._called = True
        try:
            return await self._ready.result().call_tool(name, dict(arguments), meta=meta)
        finally:
            self._calls -= 1
            self._end_if_idle()

    def retire(self) -> None:
        """End it as soon as no call is on its way."""
        self._retired = True
        self._end_if_idle()

    async def aclose(self) -> None:
        """End it now."""
        self._stop.set()
        if not self._ready.done():
            self._task.cancel()
        await asyncio.wait({self._task})

    def _end_if_idle(self) -> None:
        if self._retired and not self._calls:
            self._stop.set()
            if not self._ready.done():
                self._task.cancel()

    async def _keep(self) -> None:
        """Hold the connection; if it cannot be opened, waiting callers get the error."""
        reason: Exception = ConnectionError("closed")
        try:
            async with _connected(self._spec, lambda: self._called) as client:
                self._ready.set_result(client)
                await self._stop.wait()
        except asyncio.CancelledError:
            if not self._stop.is_set():
                raise
        except Exception as error:  # noqa: BLE001 - of any library below; waiting callers get it
            reason = error
            if self._ready.done():
                log.warning("mcp.connection_lost", server=self._spec.name, error=error)
        finally:
            if not self._ready.done():
                self._ready.set_exception(reason)
                self._ready.exception()  # nobody may be waiting any more


async def _list(client: Client, spec: ServerSpec) -> dict[str, Offered]:
    """Ask for all pages, and keep what is allowed."""
    found: dict[str, Offered] = {}
    cursor, seen = None, 0
    while True:
        page = await client.list_tools(cursor=cursor, cache_mode="bypass")
        for tool in page.tools:
            if (allowed := spec.tools.get(tool.name)) is not None:
                about = without_control(tool.description or "")
                found[tool.name] = Offered(
                    spec.name, tool.name, about, tool.input_schema, allowed.effect, allowed.timeout
                )
        cursor, seen = page.next_cursor, seen + len(page.tools)
        if cursor is None or seen >= _MOST_TOOLS or not page.tools:
            return found


@asynccontextmanager
async def _connected(spec: ServerSpec, may_quote: Callable[[], bool]) -> AsyncGenerator[Client]:
    us = Implementation(name="walagent", version=__version__)
    if spec.command:
        close_process()
        program, *arguments = spec.command
        started = StdioServerParameters(
            command=program,
            args=arguments,
            env=dict(spec.environ),
            encoding_error_handler="replace",
        )
        with ErrorOutput(spec.name, may_quote) as errors:
            async with Client(
                stdio_client(started, errlog=errors.stream), client_info=us
            ) as client:
                yield client
        return
    headers = {"Accept-Encoding": "identity"}
    if spec.token:
        headers["Authorization"] = f"Bearer {spec.token}"
    async with httpx2.AsyncClient(
        headers=headers,
        timeout=httpx2.Timeout(30, read=None),
        event_hooks={"response": [refusing_more(_MOST_EVENT)]},
    ) as http:
        transport = streamable_http_client(
            spec.url, http_client=http, max_sse_event_size=_MOST_EVENT
        )
        async with Client(transport, client_info=us) as client:
            yield client


def _check_accepted(tool: Tool, name: str, offered: Offered | None) -> None:
    """Refuse a tool that its server changed since a person accepted it."""
    if offered is None:
        raise ToolFailedError(f"{tool.name}: its server does not offer {name} any more")
    if offered.fingerprint != tool.fingerprint:
        log.warning(
            "mcp.tool_changed", server=offered.server, tool=name, fingerprint=offered.fingerprint
        )
        raise ToolFailedError(
            f"{tool.name} was changed by its server and is refused until a person accepts it"
            f" (fingerprint {offered.fingerprint})"
        )


def reason_of(error: BaseException) -> str:
    """Say why in a line; of several reasons the first, and nothing in the server's own words."""
    if isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        return reason_of(group.exceptions[0])
    if isinstance(error, MCPError):
        return code_of(error)
    words = without_control(str(error)).strip()
    return (words or type(error).__name__)[:300]


def code_of(error: MCPError) -> str:
    """Say what kind of error it was, without the server's own words."""
    if error.code == CONNECTION_CLOSED:
        return "the connection was closed"
    return f"it answered with error {error.code}"
