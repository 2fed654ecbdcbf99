"""Scripts: what a scripted model, or the fake provider, answers to a request.

The answer is found by the number of replies that the request already holds, so a run that starts
again after a crash gets the same answer at the same step.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from walagent.errors import ModelRejectedError
from walagent.message import Json, Reply, Request, Stop, Text, ToolCall, Usage

USAGE = Usage(input_tokens=100, output_tokens=10)


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
    """Replies for requests in which the user's side said *match*, of agents with *prompt*.

    Their place is counted from the last message that said it, so that a rule answers each turn
    of a conversation again.

    Args:
        match: "" is in every message.
        prompt: a text in the system prompt, which tells agents with the same model apart.
    """

    match: str
    replies: Sequence[Answer]
    prompt: str = ""


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
            if said and rule.prompt in request.system:
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
