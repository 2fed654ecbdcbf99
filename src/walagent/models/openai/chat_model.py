"""Models behind OpenAI Chat Completions: OpenAI's own, and every server that speaks it."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx2
from openai import AsyncOpenAI, AsyncStream, OpenAIError, RequestOptions
from openai import DefaultAsyncHttpxClient as HttpClient

from walagent.errors import WalagentError
from walagent.message import Json, ModelSpec, Reply, Request
from walagent.models import prompt
from walagent.models.clients import Shards, address, http_options, is_stream, timeouts
from walagent.models.credentials import Secrets, find_endpoint
from walagent.models.error_bodies import decoded
from walagent.models.errors import Failure
from walagent.models.exchange import failure_of, refused, unreadable, values
from walagent.models.openai import (
    API,
    calls_by_schema,
    embeddings,
    request_body,
    response_body,
    streamed_body,
)
from walagent.models.openai.batch_files import OpenAIBatches
from walagent.models.openai.tool_rules import is_mistral, rules_of
from walagent.models.replies import as_object
from walagent.models.tool_schemas import Presented, presented
from walagent.models.usage import charging

_PATH = "/chat/completions"
_Post = Callable[[dict[str, Json], Request], Awaitable[Json]]
_FAILURES = (OpenAIError, httpx2.HTTPError, TimeoutError, ValueError, RecursionError)


class OpenAIModel:
    """One model of Chat Completions; implements `Model`.

    The body is posted as it is, past the SDK's typed `create`, which walks every message again and
    blocks the loop for 60 ms on a long transcript; the answer is read as JSON.  So is a stream: the
    SDK's own reader hides whether it said that it was whole.
    """

    embeds = True

    def __init__(self, spec: ModelSpec, secrets: Secrets) -> None:
        """Find the key, connect to nothing.

        Raises:
            ConfigError: the spec's base URL or credential name cannot be one.
            ModelUnauthorizedError: there is no key of the name that the spec gives.
        """
        self._spec = spec
        by_schema = spec.tool_mode == "schema"
        self._streams = not by_schema  # its text is an action in JSON
        self._body_of = calls_by_schema.body_of if by_schema else request_body.body_of
        self._reply_of = calls_by_schema.reply_of if by_schema else response_body.reply_of
        self._endpoint = find_endpoint(spec, API, secrets)
        self._rules = rules_of(spec, self._endpoint)
        self._clients = Shards(self._open_client)
        self._embeddings = embeddings.OpenAIEmbeddings(spec, self._embedded)

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self._spec

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; see `Model`."""
        if request.embeds:
            return await self._embeddings.complete(request)
        asked = presented(request, self._rules)
        request = asked.request
        body = self._body_of(request, self._spec, official=self._endpoint.official)
        return self._read(await self._answer(self._post, body, request), asked)

    async def _answer(self, post: _Post, body: dict[str, Json], request: Request) -> Json:
        try:
            async with asyncio.timeout(request.timeout):
                return await post(body, request)
        except _FAILURES as error:
            # Not chained: the SDK's text and its traceback repeat the request.
            raise self._refused(failure_of(error, self._endpoint), request) from None

    async def _embedded(self, path: str, body: dict[str, Json], request: Request) -> Json:
        async def post(body: dict[str, Json], request: Request) -> Json:
            options: RequestOptions = {"timeout": timeouts(request.timeout)}
            with self._clients.lend() as client:
                return await client.post(path, body=body, cast_to=object, options=options)

        answer = await self._answer(post, body, request)
        with charging(response_body.usage_of(answer)):
            return self._checked(answer, request)

    def _read(self, answer: Json, asked: Presented) -> Reply:
        with charging(response_body.usage_of(answer)):
            answer = self._checked(answer, asked.request)
            return asked.read(self._reply_of(answer, self._spec, asked.request))

    def _checked(self, answer: Json, request: Request) -> Json:
        """Return an answer that is an object, and of no error."""
        if (failure := response_body.error_body(answer)) is not None:
            raise self._refused(failure, request)
        if not isinstance(answer, dict):
            raise unreadable(answer, self._spec, self._endpoint)
        return as_object(answer)

    @property
    def batches(self) -> OpenAIBatches:
        """Its batches."""

        def body_of(request: Request) -> Json:
            asked = presented(request, self._rules).request
            return self._body_of(asked, self._spec, official=self._endpoint.official)

        def reply_of(answer: Json, request: Request) -> Reply:
            return self._read(answer, presented(request, self._rules))

        return OpenAIBatches(self._spec, self._endpoint, self._clients, body_of, reply_of)

    async def aclose(self) -> None:
        """Give connections back."""
        await self._embeddings.aclose()
        await self._clients.aclose()

    async def _post(self, body: dict[str, Json], request: Request) -> Json:
        options: RequestOptions = {"timeout": timeouts(request.timeout)}
        with self._clients.lend() as client:
            asked = self._asked(body, request)
            if request.on_text is None or "stream" not in asked:
                return await client.post(_PATH, body=body, cast_to=object, options=options)
            async with await client.post(
                _PATH,
                body=asked,
                cast_to=object,
                options=options,
                stream=True,
                stream_cls=AsyncStream[object],
            ) as chunks:
                if is_stream(chunks.response):
                    return await streamed_body.gather(values(chunks.response), request.on_text)
                return decoded((await chunks.response.aread()).decode(errors="replace"))

    def _asked(self, body: dict[str, Json], request: Request) -> dict[str, Json]:
        """Write a body that asks for a stream, without the fields that parameters take out."""
        if not self._streams:
            return body
        given = {**self._spec.parameters, **request.parameters}
        gone = {name: None for name in streamed_body.ASKED if given.get(name, name) is None}
        if is_mistral(self._endpoint):
            gone["stream_options"] = None  # refused as unknown
        return prompt.assembled({**body, **streamed_body.ASKED}, gone)

    def _open_client(self) -> AsyncOpenAI:
        root, query = address(self._endpoint.base_url, _PATH, embeddings.PATH)
        client = AsyncOpenAI(
            api_key=self._endpoint.key,
            base_url=root,
            default_query=query,
            max_retries=0,  # waiting and trying again are the worker's
            http_client=HttpClient(**http_options(self._endpoint)),
        )
        client.admin_api_key = None
        if not self._endpoint.official:  # of the environment, and nobody else's business
            client.organization = client.project = None
        return client

    def _refused(self, failure: Failure, request: Request) -> WalagentError:
        return refused(failure, self._spec, request, self._endpoint)
