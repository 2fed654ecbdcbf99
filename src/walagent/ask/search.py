"""SEARCH: words out to a provider of web search, titles, addresses and excerpts back.

Off unless it is configured, for the words of a question leave the database's world.  What comes
back was written by anybody: it is cut, rid of what nobody sees, and only ever data.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, cast
from urllib.parse import urlsplit

import httpx2
import orjson

from walagent.ask.plan import PlanStep
from walagent.ask.results import StepResult
from walagent.base.extras import install_hint
from walagent.base.retries import doubling, retry_after, seconds
from walagent.domain.untrusted import one_line
from walagent.errors import ConfigError, ToolFailedError
from walagent.message import Json
from walagent.rows.rows import ResultColumn, Rows

_TRIES: Final = 3
_PAUSE: Final = 0.5  # seconds before another try; twice as long before a third
_PATIENCE: Final = 5.0  # seconds that a provider may ask to wait
_BUSY: Final = 429
_MOST_BODY: Final = 2 << 20  # bytes of an answer
_WORDS, _TITLE, _URL, _EXCERPT = 400, 200, 1000, 1000  # characters
_TEXT: Final = 25
_FINDING: Final = "it comes from the web, and nobody vouches for it"


@dataclass(frozen=True, slots=True)
class Found:
    """One thing that was found."""

    title: str
    url: str
    excerpt: str


class Searcher(Protocol):
    """Something that searches the web."""

    async def search(self, words: str) -> Sequence[Found]:
        """Search.

        Raises:
            ToolFailedError: it cannot be done; for the planner.
        """
        ...


@dataclass(frozen=True, slots=True)
class SearchSpec:
    """How to search.

    Args:
        key: of the provider, where it wants one.
        base_url: where it is reached; "" for its own address.
        results: how many are wanted at most.
        seconds: that a search may take, with what is tried again.
    """

    provider: str
    key: str | None = field(default=None, repr=False)
    base_url: str = ""
    results: int = 5
    seconds: float = 10.0


async def carry_out(step: PlanStep, searcher: Searcher) -> StepResult:
    """Carry a SEARCH step out; what is found are its rows."""
    words = one_line(step.text("query"), _WORDS)
    found = await searcher.search(words)
    columns = [ResultColumn(name, _TEXT) for name in ("title", "url", "excerpt")]
    rows = Rows(columns, [(each.title, each.url, each.excerpt) for each in found])
    said = (_FINDING,) if found else ("nothing was found on the web",)
    return StepResult(step.id, step.type, rows, words, findings=said)


@dataclass(frozen=True, slots=True)
class _Api:
    """A provider's API: how it is asked, and where its answer has what.

    Args:
        path: to the list of what was found, by key.
        names: of title, address and excerpt.
    """

    base_url: str
    request: Callable[[SearchSpec, str], dict[str, Any]]
    path: Sequence[str]
    names: tuple[str, str, str]


def _brave(spec: SearchSpec, words: str) -> dict[str, Any]:
    return {
        "method": "GET",
        "url": "/res/v1/web/search",
        "params": {"q": words, "count": spec.results},
        "headers": {"X-Subscription-Token": spec.key or ""},
    }


def _tavily(spec: SearchSpec, words: str) -> dict[str, Any]:
    return {
        "method": "POST",
        "url": "/search",
        "json": {"query": words, "max_results": spec.results},
        "headers": {"Authorization": f"Bearer {spec.key}"},
    }


def _searxng(_spec: SearchSpec, words: str) -> dict[str, Any]:
    return {"method": "GET", "url": "/search", "params": {"q": words, "format": "json"}}


# Sources: the providers' own API references, "Web Search API", "Tavily Search", "Search API".
_APIS: Final[Mapping[str, _Api]] = {
    "brave": _Api(
        "https://api.search.brave.com",
        _brave,
        ("web", "results"),
        ("title", "url", "description"),
    ),
    "tavily": _Api("https://api.tavily.com", _tavily, ("results",), ("title", "url", "content")),
    "searxng": _Api("", _searxng, ("results",), ("title", "url", "content")),
}


def make_searcher(spec: SearchSpec) -> Searcher:
    """Make what searches as *spec* says.

    Raises:
        ConfigError: the library is not installed; there is no address.
    """
    if spec.provider == "ddgs":
        return _Library(spec)
    if not (spec.base_url or _APIS[spec.provider].base_url):
        raise ConfigError(
            f"ask.search: {spec.provider} has no address of its own",
            hint="base_url: where your own server is",
        )
    return _Provider(spec)


class _Provider:
    """A provider with an API of JSON over HTTP."""

    def __init__(self, spec: SearchSpec) -> None:
        self._spec = spec
        self._api = _APIS[spec.provider]

    async def search(self, words: str) -> Sequence[Found]:
        """Ask, and again where the provider is busy; see `Searcher`."""
        base_url = (self._spec.base_url or self._api.base_url).rstrip("/")
        try:
            async with (
                asyncio.timeout(self._spec.seconds),
                httpx2.AsyncClient(
                    base_url=base_url,
                    headers={"Accept": "application/json"},
                    timeout=self._spec.seconds,
                ) as client,
            ):
                return self._read(await self._asked(client, words))
        except TimeoutError as error:
            raise self._failed(f"did not answer within {self._spec.seconds:g} s") from error
        except httpx2.HTTPError as error:
            raise self._failed(f"cannot be reached: {type(error).__name__}") from error

    async def _asked(self, client: httpx2.AsyncClient, words: str) -> bytes:
        request = self._api.request(self._spec, words)
        for attempt in range(1, _TRIES + 1):
            async with client.stream(**request) as response:
                if response.is_success:
                    return await self._body(response)
                wait = _wait(response, attempt)
                if wait is None or attempt == _TRIES:
                    raise self._failed(_refusal(response.status_code))
            await asyncio.sleep(wait)
        raise AssertionError("the last try ends it")

    async def _body(self, response: httpx2.Response) -> bytes:
        body = bytearray()
        async for chunk in response.aiter_bytes():
            body += chunk
            if len(body) > _MOST_BODY:
                raise self._failed("answered more than anybody would read")
        return bytes(body)

    def _read(self, body: bytes) -> Sequence[Found]:
        try:
            document: Json = orjson.loads(body)
            for key in self._api.path:
                document = cast("Mapping[str, Json]", document).get(key) or {}
            entries = list(cast("Sequence[Mapping[str, Json]]", document or ()))
            return list(_tidied(entries, self._api.names))[: self._spec.results]
        except (ValueError, TypeError, AttributeError) as error:
            raise self._failed("sent an invalid result") from error

    def _failed(self, why: str) -> ToolFailedError:
        return ToolFailedError(f"the web search ({self._spec.provider}) {why}")


class _Library:
    """The library ddgs, which asks search engines as a browser does; without a key."""

    def __init__(self, spec: SearchSpec) -> None:
        try:
            import ddgs  # noqa: PLC0415 - an extra
        except ModuleNotFoundError as error:
            raise ConfigError(
                "ask.search: the library ddgs is not installed",
                hint=f"{install_hint('walagent[search]')}, or name another provider",
            ) from error
        self._spec = spec
        # Several engines one after the other; a proxy is named by its own variable, DDGS_PROXY.
        module: Any = ddgs
        self._engines = module.DDGS(timeout=max(1, round(spec.seconds / 2)))

    async def search(self, words: str) -> Sequence[Found]:
        """Ask in a thread; see `Searcher`."""
        try:
            async with asyncio.timeout(self._spec.seconds):
                entries = await asyncio.to_thread(
                    self._engines.text, words, max_results=self._spec.results
                )
            return list(_tidied(entries, ("title", "href", "body")))[: self._spec.results]
        except TimeoutError as error:
            why = f"did not answer within {self._spec.seconds:g} s"
            raise ToolFailedError(f"the web search (ddgs) {why}") from error
        except Exception as error:  # its own, and those of the libraries below it
            reason = one_line(str(error), 200) or type(error).__name__
            raise ToolFailedError(f"the web search (ddgs) failed: {reason}") from error


def _tidied(entries: Sequence[Mapping[str, Json]], names: tuple[str, str, str]) -> Iterator[Found]:
    """Cut what was found, and leave out what has no address of the web."""
    for entry in entries:
        title, url, excerpt = (str(entry.get(name) or "") for name in names)
        if _is_address(url):
            yield Found(one_line(title, _TITLE), url, one_line(excerpt, _EXCERPT))


def _is_address(url: str) -> bool:
    """Whether it can be shown as a source: http or https, and nothing that is not seen."""
    if len(url) > _URL or one_line(url, _URL) != url or " " in url:
        return False
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and bool(parts.hostname)


def _wait(response: httpx2.Response, attempt: int) -> float | None:
    """How long until another try; None where none would help."""
    if response.status_code != _BUSY and not response.is_server_error:
        return None
    asked = retry_after(response.headers)
    wait = seconds(doubling(_PAUSE, _PATIENCE), attempt) if asked is None else asked
    return wait if wait <= _PATIENCE else None


def _refusal(status: int) -> str:
    match status:
        case 401 | 402 | 403:
            return f"rejects the key (HTTP {status})"
        case 429:  # _BUSY
            return "asks to wait (HTTP 429)"
        case _:
            return f"failed (HTTP {status})"
