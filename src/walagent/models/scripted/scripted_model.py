"""A model that answers from a script, by its place in the transcript; for tests and trials.

It keeps no state: the place is the number of replies that the request already holds, so a run
that starts again after a crash gets the same answer at the same step.
"""

import asyncio
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from walagent.errors import ModelRejectedError, WalagentError
from walagent.message import Json, ModelSpec, Reply, Request, Stop, Text, ToolCall, Usage
from walagent.models.errors import Failure, error_for, no_answer

USAGE = Usage(input_tokens=100, output_tokens=10)
SPEC = ModelSpec("scripted", "scripted", "scripted", input_price=1.0, output_price=5.0)

_REMEMBERED = 1_000  # requests, for a test to look at; a daemon must not grow with them


@dataclass(frozen=True, slots=True)
class ScriptedCall:
    """A tool call of a script; `call` makes it."""

    name: str
    arguments: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Fault:
    """A provider that misbehaves instead of answering.

    Args:
        status: the HTTP status of the answer; 200 with a *body* that is none.
        retry_after: what the header of that name says, seconds or a date.
        code: the provider's short name of the error.
        message: the provider's words about it.
        headers: others, or these with other values.
        body: sent instead of an answer, as it is.
        reply: an answer, with status 200, to be spoilt in one of the ways below.
        stall: seconds of silence before anything else.
        drip: seconds between any two pieces of the answer, which are 16 bytes each.
        cut: the connection ends in the middle of the body.
        cut_at: the connection ends after so many bytes, those of the head among them; counted from
            the end where negative.
        drop: the connection ends before the answer.
    """

    status: int = 500
    retry_after: str = ""
    code: str = ""
    message: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    reply: "Words | Reply | None" = None
    stall: float = 0.0
    drip: float = 0.0
    cut: bool = False
    cut_at: int | None = None
    drop: bool = False


Words: TypeAlias = "str | ScriptedCall | Sequence[str | ScriptedCall]"
Answer: TypeAlias = "Words | Fault | Reply | BaseException | Callable[[Request], Answer]"


@dataclass(frozen=True, slots=True)
class Rule:
    """Replies for requests in which the user's side said *match*.

    Their place is counted from the last message that said it, so that a rule answers each turn
    of a conversation again.
    """

    match: str
    replies: Sequence[Answer]


@dataclass(frozen=True, slots=True)
class Script:
    """What to answer when.

    Args:
        replies: the answers in order, where no rule applies.
        rules: the first that matches is taken.
        latency: seconds before each answer.
        usage: what each answer costs, unless it is a `Reply` with its own.
        pace: seconds between the words of an answer that somebody reads as it is written.
    """

    replies: Sequence[Answer] = ()
    rules: Sequence[Rule] = ()
    latency: float = 0.0
    usage: Usage = USAGE
    pace: float = 0.0

    def answer_to(self, request: Request) -> Reply | Fault:
        """Give the answer to *request*; raise it if it is an exception.

        Raises:
            ModelRejectedError: the script has no answer left.
        """
        replies, place = self._find(request)
        if place >= len(replies):
            raise ModelRejectedError(f"the script has {len(replies)} replies, this is {place + 1}")
        answer = replies[place]
        while callable(answer):
            answer = answer(request)
        if isinstance(answer, BaseException):
            raise answer
        return answer if isinstance(answer, Fault) else self.reply_of(answer, request)

    def _find(self, request: Request) -> tuple[Sequence[Answer], int]:
        for rule in self.rules:
            said = [at for at, text in _words(request) if rule.match in text]
            if said:
                return rule.replies, _replies(request, said[-1])
        return self.replies, _replies(request, 0)

    def reply_of(self, answer: "Words | Reply", request: Request) -> Reply:
        """Make a reply of what is written in a script."""
        if isinstance(answer, Reply):
            return answer
        pieces = [answer] if isinstance(answer, str | ScriptedCall) else answer
        parts = tuple(_part(piece, at, request) for at, piece in enumerate(pieces))
        calls = any(isinstance(part, ToolCall) for part in parts)
        return Reply(parts, Stop.TOOL if calls else Stop.END, self.usage, "scripted")


class ScriptedModel:
    """A model that follows a script; implements `Model`.

    Args:
        replies: the answers in order: a text, a `call`, a list of both, a `Reply`, a `Fault`, an
            exception to raise, or a function of the request that gives one of these.
    """

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


def call(name: str, /, **arguments: Json) -> ScriptedCall:
    """Write a tool call of a script."""
    return ScriptedCall(name, arguments)


def in_turn(*answers: Answer) -> Callable[[Request], Answer]:
    """Give each answer once, at the same place, and then repeat the last one: for retries.

    The one thing here that remembers: it counts the calls that this process made.
    """
    left = deque(answers)

    def answer(_request: Request) -> Answer:
        return left.popleft() if len(left) > 1 else left[0]

    return answer


def _words(request: Request) -> Iterator[tuple[int, str]]:
    """Give what the user's side said, with the index of its message; tool results are not said."""
    for at, message in enumerate(request.messages):
        for part in message.parts:
            if message.role == "user" and isinstance(part, Text):
                yield at, part.text


def _replies(request: Request, since: int) -> int:
    return sum(message.role == "assistant" for message in request.messages[since:])


def _part(piece: str | ScriptedCall, at: int, request: Request) -> Text | ToolCall:
    match piece:
        case str(text):
            return Text(text)
        case ScriptedCall(name, arguments):
            return ToolCall(f"call_{len(request.messages)}_{at}", name, arguments)
