"""What is said to a model and what it answers, in one form for all providers.

A transcript is a tuple of `Message`s made of parts; each provider's module maps it to its own
wire format and back.  Parts that only one provider understands (thinking) keep its raw form.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Json = Any  # JSON ends the typed world: str, int, float, bool, None, lists and dicts of them


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning that only the provider that wrote it can read back; replayed to it unchanged."""

    provider: str
    raw: Json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model wants a tool.

    `arguments` is None when what the model sent is not a JSON object; `raw` then holds its text
    (capped), so that the answer can show what was wrong.  Nothing is repaired.
    """

    id: str
    name: str
    arguments: Mapping[str, Json] | None
    raw: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool answered; `is_error` when it failed."""

    call_id: str
    name: str
    content: str
    is_error: bool = False


Part = Text | Thinking | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One side's contribution; tool results are the user's side."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class Stop(StrEnum):
    """Why the model stopped."""

    END = "end"  # it has said what it had to say
    TOOL = "tool"  # it waits for tool results
    LENGTH = "length"  # max_tokens or the context window cut it off
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call.  `input_tokens` counts only what was neither read from nor written to
    a prompt cache, so the four figures add up to all that was processed.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    @property
    def total(self) -> int:
        """All tokens, as limits count them."""
        return self.input_tokens + self.cached_tokens + self.cache_write_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered: text, thinking and tool calls, in their order."""

    parts: tuple[Text | Thinking | ToolCall, ...]
    stop: Stop
    usage: Usage = field(default_factory=Usage)
    model: str = ""  # the model that answered, in the provider's own words
    note: str = ""  # e.g. "not a language model"; shown wherever the reply is shown

    @property
    def text(self) -> str:
        """The words of the reply, joined."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the reply, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example of an agent: a text, and the tool call that answers it."""

    text: str
    tool: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model sees it."""

    name: str
    description: str
    input_schema: Mapping[str, Json]  # JSON Schema of an object


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model must call a tool.

    `auto`: as it likes; `required`: some tool; `named`: the tool `name`; `none`: no tool.
    """

    mode: Literal["auto", "required", "named", "none"] = "auto"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """All that one model call depends on.

    `messages` grows only at its end, so the prefix stays byte-equal between the calls of a run
    and prompt caches hit.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = ToolChoice()
    max_tokens: int = 4096
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    examples: tuple[Example, ...] = ()
    parallel_calls: bool = True
    timeout: float = 120.0  # seconds for the whole call
    run_id: int = 0  # for tracing and cache keys; never sent as content


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model as `agent.model` registers it.  Prices are US dollars per million tokens; None
    where unknown, and then the cost is recorded as unknown, not as zero.
    """

    name: str
    provider: str  # its name in the registry of providers
    model_id: str
    base_url: str | None = None
    credential: str | None = None  # the *name* of an environment variable or systemd credential
    tool_mode: Literal["native", "schema"] = "native"
    context_window: int = 128_000
    max_output_tokens: int = 4096
    input_price: float | None = None
    cached_input_price: float | None = None
    cache_write_price: float | None = None
    output_price: float | None = None
    timeout: float = 120.0  # seconds for one call
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
