"""A model that answers from a script, by its place in the transcript; for tests and trials."""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence

from walagent.errors import WalagentError
from walagent.message import ModelSpec, Reply, Request
from walagent.models.errors import Failure, error_for, no_answer
from walagent.models.script import Answer, Fault, Rule, Script

SPEC = ModelSpec("scripted", "scripted", "scripted", input_price=1.0, output_price=5.0)

_REMEMBERED = 1_000  # requests, for a test to look at; a daemon must not grow with them


class ScriptedModel:
    """A model that follows a script; implements `Model`.

    Args:
        replies: the answers in order: a text, a `call`, a list of both, a `Reply`, a `Fault`, an
            exception to raise, or a function of the request that gives one of these.
    """

    embeds = True

    def __init__(
        self,
        replies: Iterable[Answer] = (),
        *,
        rules: Sequence[Rule] = (),
        latency: float = 0.0,
        spec: ModelSpec = SPEC,
    ) -> None:
        self._script = Script(tuple(replies), rules, latency)
        self._spec = spec
        self.requests: deque[Request] = deque(maxlen=_REMEMBERED)

    @classmethod
    def of(cls, script: Script, spec: ModelSpec = SPEC) -> "ScriptedModel":
        """Make a model of a script that is there already, as one read from a file."""
        model = cls(spec=spec)
        model._script = script
        return model

    @property
    def spec(self) -> ModelSpec:
        """The registry's row for this model."""
        return self._spec

    async def complete(self, request: Request) -> Reply:
        """Answer *request*; see `Model`."""
        self.requests.append(request)
        await self._wait(self._script.latency, request)
        match self._script.answer_to(request):
            case Reply() as reply:
                if request.on_text is not None:
                    await self._write(reply.text, request.on_text)
                return reply
            case fault:
                await self._wait(fault.stall, request)
                raise self._error(fault, request)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to give back."""

    async def _write(self, text: str, on_text: Callable[[str], None]) -> None:
        for number, word in enumerate(re.findall(r"\s*\S+|\s+", text)):
            if number and self._script.pace:
                await asyncio.sleep(self._script.pace)
            on_text(word)

    async def _wait(self, seconds: float, request: Request) -> None:
        if seconds:
            await asyncio.sleep(min(seconds, request.timeout))
        if seconds >= request.timeout:
            raise no_answer(self._spec, "timeout")

    def _error(self, fault: Fault, request: Request) -> WalagentError:
        spoilt = fault.body or fault.reply is not None or fault.cut_at is not None
        if spoilt or fault.cut or fault.drop:
            return no_answer(self._spec, "scripted fault")
        headers = {"retry-after": fault.retry_after, **fault.headers}
        failure = Failure(fault.status, fault.code, fault.message, headers)
        return error_for(failure, self._spec, request)
