"""Models behind the Anthropic Messages API: Anthropic's own, and servers that speak it."""

import asyncio
from dataclasses import replace

import httpx2
from anthropic import AnthropicError, AsyncAnthropic, AsyncStream, RequestOptions
from anthropic import DefaultAsyncHttpxClient as HttpClient

from walagent.errors import ConfigError, WalagentError
from walagent.message import Json, ModelSpec, Reply, Request
from walagent.models.anthropic import API, streamed_body
from walagent.models.anthropic.message_batches import AnthropicBatches
from walagent.models.anthropic.request_body import TOOLS, body_of
from walagent.models.anthropic.response_body import reply_of
from walagent.models.clients import Shards, address, http_options, is_stream, timeouts
from walagent.models.credentials import Secrets, find_endpoint
from walagent.models.error_bodies import decoded
from walagent.models.errors import Failure
from walagent.models.exchange import failure_of, refused, unreadable, values
from walagent.models.replies import as_object
from walagent.models.tool_schemas import Presented, presented
from walagent.models.usage import charging, read_usage

_PATH = "/v1/messages"
# What the type of an error means, whose answer began with status 200.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
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
        asked = presented(request, TOOLS)
        request = asked.request
        body = body_of(request, self._spec)
        try:
            async with asyncio.timeout(request.timeout):
                answer = await self._post(body, request)
        except _FAILURES as error:
            # Not chained: the SDK's text and its traceback repeat the request.
            raise self._refused(failure_of(error, self._endpoint), request) from None
        return self._read(answer, asked)

    def _read(self, answer: Json, asked: Presented) -> Reply:
        with charging(read_usage(as_object(as_object(answer).get("usage")))):
            return asked.read(self._reply(answer, asked.request))

    def _reply(self, answer: Json, request: Request) -> Reply:
        if not isinstance(answer, dict):
            raise unreadable(answer, self._spec, self._endpoint)
        if "error" in answer:
            failure = Failure.of(None, answer)
            failure = replace(failure, status=failure.status or _STATUS.get(failure.code))
            raise self._refused(failure, request)
        return reply_of(answer, self._spec, request)

    @property
    def batches(self) -> AnthropicBatches:
        """Its batches."""

        def body_of_call(request: Request) -> Json:
            return body_of(presented(request, TOOLS).request, self._spec)

        def reply_of_call(answer: Json, request: Request) -> Reply:
            return self._read(answer, presented(request, TOOLS))

        return AnthropicBatches(
            self._spec, self._endpoint, self._clients, body_of_call, reply_of_call
        )

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
                if is_stream(events.response):
                    return await streamed_body.gather(values(events.response), request.on_text)
                return decoded((await events.response.aread()).decode(errors="replace"))

    def _open_client(self) -> AsyncAnthropic:
        root, query = address(self._endpoint.base_url, "/messages", "/v1")
        return AsyncAnthropic(
            api_key=self._endpoint.key,  # explicit, so that no profile or token file is looked for
            base_url=root,
            default_query=query,
            max_retries=0,  # waiting and trying again are the worker's
            open_telemetry=False,
            http_client=HttpClient(**http_options(self._endpoint)),
        )

    def _refused(self, failure: Failure, request: Request) -> WalagentError:
        return refused(failure, self._spec, request, self._endpoint)
