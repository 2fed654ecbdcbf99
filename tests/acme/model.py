"""Acme's models: a request is one JSON document, and so is the answer."""

import asyncio

import httpx2

from walagent.agent.models.credentials import Secrets, find_endpoint
from walagent.agent.models.errors import Failure, error_for, no_answer
from walagent.agent.models.replies import as_object
from walagent.message import ModelSpec, Reply, Request

from . import API
from .wire import reply_of, write_request


class AcmeModel:
    """One model of Acme's; implements `Model`."""

    def __init__(self, spec: ModelSpec, secrets: Secrets) -> None:
        self._spec = spec
        self._endpoint = find_endpoint(spec, API, secrets)
        self._client = httpx2.AsyncClient(
            base_url=self._endpoint.base_url, headers={"x-acme-key": self._endpoint.key}
        )

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self._spec

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; see `Model`."""
        body = {"model": self._spec.model_id, **write_request(request)}
        try:
            async with asyncio.timeout(request.timeout):
                answer = await self._client.post("/say", json=body, timeout=request.timeout)
        except (httpx2.HTTPError, TimeoutError) as error:
            failure = Failure(None, type(error).__name__)
            raise error_for(failure, self._spec, request, self._endpoint.key) from None
        if answer.is_error:
            failure = Failure(answer.status_code, headers=answer.headers)
            raise error_for(failure, self._spec, request, self._endpoint.key)
        try:
            return reply_of(as_object(answer.json()))
        except (ValueError, KeyError) as error:
            raise no_answer(self._spec, type(error).__name__) from None

    async def aclose(self) -> None:
        """Give connections back."""
        await self._client.aclose()
