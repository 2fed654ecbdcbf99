"""Models behind the Anthropic Messages API: Anthropic's own, and servers that speak it."""

import asyncio

import httpx2
import orjson
from anthropic import (
    AnthropicError,
    APIConnectionError,
    APIStatusError,
    AsyncAnthropic,
    AsyncStream,
    RequestOptions,
)
from anthropic import DefaultAsyncHttpxClient as HttpClient

from walagent.errors import ConfigError
from walagent.message import Json, ModelSpec, Reply, Request
from walagent.models.anthropic import API, streamed_body
from walagent.models.anthropic.request_body import body_of
from walagent.models.anthropic.response_body import reply_of
from walagent.models.clients import LIMITS, Shards, is_json, ssl_context, timeouts
from walagent.models.credentials import Secrets, find_endpoint
from walagent.models.errors import Failure, error_for

_PATH = "/v1/messages"
# What an event of an error means, whose answer began with status 200.
_STATUS = {"rate_limit_error": 429, "overloaded_error": 529}
_REFUSED = 300  # the first status of an answer without events
_FAILURES = (AnthropicError, httpx2.HTTPError, TimeoutError, ValueError, RecursionError)


class AnthropicModel:
    """One model of the Messages API; implements `Model`.

    The body is posted as JSON and the answer read as JSON: the SDK brings authentication,
    connections and errors, and nothing of a thinking block is lost on the way.
    """

    def __init__(self, spec: ModelSpec, secrets: Secrets) -> None:
        """Find the key, connect to nothing.

        Raises:
            ConfigError: the spec asks for what this provider has not.
            ModelUnauthorizedError: there is no key of the name that the spec gives.
        """
        if spec.tool_mode != "native":
            raise ConfigError(
                f"model {spec.name}: provider {spec.provider} has no tool_mode {spec.tool_mode}"
            )
        self._spec = spec
        self._endpoint = find_endpoint(spec, API, secrets)
        self._clients = Shards(self._open_client)

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self._spec

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; see `Model`."""
        body = body_of(request, self._spec)
        try:
            async with asyncio.timeout(request.timeout):
                answer = await self._post(body, request)
        except _FAILURES as error:
            # Not chained: the SDK's text and its traceback repeat the request.
            raise error_for(_failure(error), self._spec, request, self._endpoint.key) from None
        return reply_of(answer, self._spec, request)

    async def aclose(self) -> None:
        """Give connections back."""
        await self._clients.aclose()

    async def _post(self, body: dict[str, Json], request: Request) -> Json:
        options: RequestOptions = {"timeout": timeouts(request.timeout)}
        with self._clients.lend() as client:
            if request.on_text is None:
                return await client.post(_PATH, body=body, cast_to=object, options=options)
            async with await client.post(
                _PATH,
                body=body | streamed_body.ASKED,
                cast_to=object,
                options=options,
                stream=True,
                stream_cls=AsyncStream[object],
            ) as events:
                if is_json(events.response):  # the server does not stream
                    return orjson.loads(await events.response.aread())
                return await streamed_body.gather(events, request.on_text)

    def _open_client(self) -> AsyncAnthropic:
        return AsyncAnthropic(
            api_key=self._endpoint.key,  # explicit, so that no profile or token file is looked for
            base_url=self._endpoint.base_url.removesuffix("/v1"),
            max_retries=0,  # waiting and trying again are the worker's
            open_telemetry=False,
            http_client=HttpClient(limits=LIMITS, verify=ssl_context(), follow_redirects=False),
        )


def _failure(error: Exception) -> Failure:
    match error:
        case APIStatusError():
            code = error.error_code or error.type or ""
            status = error.status_code if error.status_code >= _REFUSED else _STATUS.get(code)
            return Failure(status, code, error.api_message or "", error.response.headers)
        case APIConnectionError():
            return Failure(None, type(error.__cause__ or error).__name__)
        case _:
            return Failure(None, type(error).__name__)
