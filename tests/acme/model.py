"""Acme's models: a request is one JSON document, and so is the answer."""

import asyncio

import httpx2

from walagent.message import ModelSpec, Reply, Request
from walagent.providers import Failure, Secrets, error_for, find_endpoint, no_answer

from . import API
from .wire import failure_of, reply_of, write_request


class AcmeModel:
    """One model of Acme's; implements `Model`."""

    def __init__(self, spec: ModelSpec, secrets: Secrets) -> None:
        self._spec = spec
        self._endpoint = find_endpoint(spec, API, secrets)
        self._client = httpx2.AsyncClient(
            base_url=self._endpoint.base_url,
            headers={"x-acme-key": self._endpoint.key},
            limits=httpx2.Limits(),  # how many calls are in flight is the limiter's business
        )

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self._spec

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; see `Model`."""
        body = write_request(request, self._spec)
        try:
            async with asyncio.timeout(request.timeout):
                answer = await self._client.post("/say", json=body, timeout=request.timeout)
        except (httpx2.HTTPError, TimeoutError) as error:
            failure = Failure(None, type(error).__name__)
            raise error_for(failure, self._spec, request, self._endpoint.key) from None
        if not answer.is_success:
            failure = failure_of(answer.status_code, answer.content, answer.headers)
            raise error_for(failure, self._spec, request, self._endpoint.key)
        try:
            return reply_of(answer.json())
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise no_answer(self._spec, type(error).__name__) from None

    async def aclose(self) -> None:
        """Give connections back."""
        await self._client.aclose()
