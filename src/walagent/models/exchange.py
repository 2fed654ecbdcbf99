"""One HTTP exchange with a provider: what both SDKs do alike, and how its failures are read."""

from collections.abc import AsyncIterator
from dataclasses import replace
from itertools import chain

import httpx2
import orjson

from walagent.errors import ModelUnavailableError, WalagentError
from walagent.message import Json, ModelSpec, Request
from walagent.models.body_limits import ANSWER, AnswerTooLongError
from walagent.models.credentials import Endpoint
from walagent.models.error_bodies import is_page, plain
from walagent.models.errors import NEVER_SENT, Failure, error_for, no_answer
from walagent.models.proxies import netloc

_PAGE_WORDS = 200  # characters of a page in an error
_MISSING = 404
_PROXY_KEY = 407  # the proxy wants a name and a password


async def events(response: httpx2.Response) -> AsyncIterator[str]:
    """Give the data of each server-sent event.

    Lines end at a line feed alone: a text may hold the other characters that Python splits at.

    Raises:
        AnswerTooLongError: one of them is as long as a whole answer.
    """
    data: list[str] = []
    rest = b""
    size = 0  # of the event that has begun
    async for block in _blocks(response):
        size += len(block)
        if size > ANSWER:
            raise AnswerTooLongError("an event without an end")
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            text = line.rstrip(b"\r").decode(errors="replace")
            if text.startswith("data:"):
                data.append(text[5:].removeprefix(" "))
            elif not text and data:
                yield "\n".join(data)
                data.clear()
                size = len(rest)


async def _blocks(response: httpx2.Response) -> AsyncIterator[bytes]:
    async for block in response.aiter_bytes():
        yield block
    yield b"\n\n"  # the last event may lack its empty line


async def values(response: httpx2.Response) -> AsyncIterator[Json]:
    """Give the JSON value of each event; `DONE` for the one that says that no more will come.

    Raises:
        ValueError: the data of an event is no JSON.
    """
    async for data in events(response):
        if data.strip():
            yield DONE if data.startswith(_DONE) else orjson.loads(data)


_DONE = "[DONE]"
DONE: Json = _DONE


def failure_of(error: Exception, endpoint: Endpoint) -> Failure:
    """Read what failed out of an exception of an SDK, or of its HTTP client."""
    response: object = getattr(error, "response", None)
    if isinstance(response, httpx2.Response):
        body = response.text if response.is_closed else getattr(error, "body", None)
        return Failure.of(response.status_code, body, response.headers)
    cause = error.__cause__ or error
    if isinstance(cause, AnswerTooLongError):
        return Failure(None, "answer too long")
    name = type(cause if isinstance(cause, httpx2.HTTPError) else error).__name__
    if name not in NEVER_SENT:
        return Failure(None, name)
    place = netloc(endpoint.base_url)
    if (proxy := endpoint.proxy) is not None:
        place += f" through the proxy {proxy.place} of {proxy.variable}"
    words = str(cause) if isinstance(cause, httpx2.ProxyError) else _reason(cause)
    status = _PROXY_KEY if words.startswith(str(_PROXY_KEY)) else None
    return Failure(status, name, words, place=place, hint=_hint_of(status, endpoint))


def _hint_of(status: int | None, endpoint: Endpoint) -> str:
    if status != _PROXY_KEY or endpoint.proxy is None:
        return ""
    return f"check the name and password in {endpoint.proxy.variable}"


def _reason(error: BaseException) -> str:
    """Return the words of the system about a connection that could not be made."""
    causes = chain((error,), _causes(error))
    words = (one.strerror for one in causes if isinstance(one, OSError))
    return next((text for text in words if text), "")


def _causes(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    while (inner := error.__cause__ or error.__context__) is not None and len(found) < 8:  # noqa: PLR2004 - ends
        found.append(inner)
        error = inner
    return found


def refused(
    failure: Failure, spec: ModelSpec, request: Request, endpoint: Endpoint
) -> WalagentError:
    """Name the error; a path that is not there is explained by where the base URL comes from."""
    if failure.status == _MISSING:
        failure = replace(failure, hint=_where(spec, endpoint))
    if failure.status == _PROXY_KEY:
        failure = replace(failure, hint=_hint_of(failure.status, endpoint))
    return error_for(failure, spec, request, endpoint.key)


def unreadable(answer: Json, spec: ModelSpec, endpoint: Endpoint) -> WalagentError:
    """Name what came with status 200 in place of an answer."""
    match answer:
        case str(text) if is_page(text):  # of a proxy, or of another server: no run is the reason
            words = f'"{page}"; ' if (page := plain(text)[:_PAGE_WORDS]) else ""
            return ModelUnavailableError(
                f"{spec.provider} {spec.model_id} answered with a web page, not JSON: {words}"
                f"{_where(spec, endpoint)}",
                counts=False,
            )
        case str():
            return no_answer(spec, "it answered with a text, not JSON")
        case [*_]:
            return no_answer(spec, "it answered with an array, not an object")
        case _:
            return no_answer(spec, "it answered with no object")


def _where(spec: ModelSpec, endpoint: Endpoint) -> str:
    """Say where the base URL comes from, and what it may lack."""
    source = endpoint.source or f"base_url of {spec.name} in agent.model"
    hint = f"check model_id of {spec.name} in agent.model and {source}"
    if endpoint.lacks_version:
        return f"{hint}: base URLs of this protocol usually end in /v1"
    return hint
