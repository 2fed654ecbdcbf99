"""SDK clients in shards, so that thousands of calls can be in flight in one process.

A connection pool looks at each of its connections for each request.  With 1,000 in one pool a call
takes three times the CPU of the same 1,000 in ten; with 50 in one, a quarter more than with 50 in
three.  A client takes little memory.
"""

import ssl
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, Protocol, TypeVar
from urllib.parse import parse_qsl, urlsplit, urlunsplit

import httpx2

from walagent.models.body_limits import BoundedTransport
from walagent.models.credentials import Endpoint

CALLS_PER_CLIENT = 20
CONNECT_TIMEOUT = 30.0  # seconds; it also counts the time a busy event loop lets it wait

LIMITS = httpx2.Limits(max_connections=CALLS_PER_CLIENT, max_keepalive_connections=CALLS_PER_CLIENT)


class Closable(Protocol):
    """An SDK's client, as far as this module knows it."""

    async def close(self) -> None:
        """Close its connections."""
        ...


Client = TypeVar("Client", bound=Closable)


def is_stream(response: httpx2.Response) -> bool:
    """Whether a server streams, as it was asked to; not all do, and an error may be a page."""
    return "event-stream" in response.headers.get("content-type", "event-stream")


def address(base_url: str, *paths: str) -> tuple[str, dict[str, str]]:
    """Split a base URL into what paths are appended to, and the query of each request.

    Args:
        paths: of requests; people copy a URL with the path that a page shows.
    """
    parts = urlsplit(base_url)
    root = parts.path.rstrip("/")
    for path in paths:
        root = root.removesuffix(path)
    return urlunsplit((parts.scheme, parts.netloc, root, "", "")), dict(parse_qsl(parts.query))


def http_options(endpoint: Endpoint) -> dict[str, Any]:
    """Give what the HTTP client of an SDK is opened with.

    Its proxy is the endpoint's: the client itself would open those of all addresses.
    """
    proxy = None if endpoint.proxy is None else httpx2.Proxy(endpoint.proxy.url)
    transport = httpx2.AsyncHTTPTransport(
        verify=ssl_context(), limits=LIMITS, proxy=proxy, trust_env=False
    )
    return {
        "transport": BoundedTransport(transport),
        "trust_env": False,
        "follow_redirects": False,
    }


def timeouts(seconds: float) -> httpx2.Timeout:
    """Give the SDK's timeouts for a call that may take *seconds* in all."""
    return httpx2.Timeout(seconds, connect=min(seconds, CONNECT_TIMEOUT))


def ssl_context() -> ssl.SSLContext:
    """Give the one context of all clients."""
    return _making_ssl_context().result()


@cache
def _making_ssl_context() -> Future[ssl.SSLContext]:
    """Begin to make the context in a thread: to read the certificates takes 40 ms."""
    thread = ThreadPoolExecutor(1, thread_name_prefix="ssl context")
    try:
        return thread.submit(httpx2.create_ssl_context)
    finally:
        thread.shutdown(wait=False)


@dataclass(slots=True)
class _Shard(Generic[Client]):
    client: Client
    calls: int = 0


class Shards(Generic[Client]):
    """Clients, opened as calls need them; the first with room takes the next call."""

    def __init__(self, open_client: Callable[[], Client]) -> None:
        _making_ssl_context()  # the first call needs it
        self._open_client = open_client
        self._shards: list[_Shard[Client]] = []

    @contextmanager
    def lend(self) -> Generator[Client]:
        """Lend a client for one call."""
        shard = next((one for one in self._shards if one.calls < CALLS_PER_CLIENT), None)
        if shard is None:
            shard = _Shard(self._open_client())
            self._shards.append(shard)
        shard.calls += 1
        try:
            yield shard.client
        finally:
            shard.calls -= 1

    async def aclose(self) -> None:
        """Close every client; the next call opens a new one."""
        shards, self._shards = self._shards, []
        for shard in shards:
            await shard.client.close()
