"""Messages to a model and its replies, in one form for all providers.

A transcript is a tuple of `Message`s made of parts; each provider's module converts it to its wire
format and back.  Parts that only one provider understands (reasoning) keep its raw form.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal

Json = Any  # str, int, float, bool, None, and lists and dicts of them


class Unreadable(str):
    """Stands for JSON that is not read, and says why."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """Reasoning that only its provider can read; sent back unchanged."""

    provider: str
    raw: Json


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call requested by the model.

    `arguments` is None if the model did not send a JSON object that can be stored; `raw` then has
    its text (truncated), and `problem` what is wrong with it.  Nothing is repaired.
    """

    id: str
    name: str
    arguments: Mapping[str, Json] | None
    raw: str = ""
    problem: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The result of a tool; `is_error` if it failed."""

    call_id: str
    name: str
    content: str
    is_error: bool = False


Part = Text | Thinking | ToolCall | ToolResult


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the transcript; tool results have the role user."""

    role: Literal["user", "assistant"]
    parts: tuple[Part, ...]


class Stop(StrEnum):
    """Why the model stopped."""

    END = "end"  # the reply is complete
    TOOL = "tool"  # it waits for tool results
    LENGTH = "length"  # max_tokens or the context window was reached
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call.  `input_tokens` excludes those read from or written to a prompt cache, so
    the four counts add up to the total.
    """

    input_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        """Return the sum of two calls."""
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.output_tokens + other.output_tokens,
        )

    def shares(self, parts: int) -> "list[Usage]":
        """Divide the tokens of a call; the first shares have what is left over."""
        kinds = self.input_tokens, self.cached_tokens, self.cache_write_tokens, self.output_tokens
        return [
            Usage(*(total // parts + (n < total % parts) for total in kinds)) for n in range(parts)
        ]

    @property
    def total(self) -> int:
        """Return all tokens, as limits count them."""
        return self.input_tokens + self.cached_tokens + self.cache_write_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class Reply:
    """The reply of a model: text, reasoning and tool calls, in order."""

    parts: tuple[Text | Thinking | ToolCall, ...]
    stop: Stop
    usage: Usage = field(default_factory=Usage)
    model: str = ""  # the model's name in the response
    note: str = ""  # such as "not a language model"; shown with the reply
    why: str = ""  # the provider's word for an end that is no ordinary one: "content_filter"
    tier: str = ""  # the provider's word for the tier that served it
    rows: int = 1  # of how many runs the request was

    @property
    def text(self) -> str:
        """Return the text of the reply."""
        return "".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls of the reply, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))


@dataclass(frozen=True, slots=True)
class Example:
    """A worked example of an agent: a text, and the expected tool call."""

    text: str
    tool: str
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as presented to the model."""

    name: str
    description: str
    input_schema: Mapping[str, Json]  # JSON Schema of an object
    reads: bool = False  # whether it changes nothing; not sent


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Whether the model must call a tool.

    `auto`: the model decides; `required`: any tool; `named`: the tool `name`; `none`: no tool.
    """

    mode: Literal["auto", "required", "named", "none"] = "auto"
    name: str = ""


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that determines a model call.

    `messages` grows only at its end, so its prefix is identical in all calls of a run, for prompt
    caches.
    """

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    choice: ToolChoice = ToolChoice()
    max_tokens: int = 4096
    parameters: Mapping[str, Json] = field(default_factory=dict[str, Json])
    examples: tuple[Example, ...] = ()
    parallel_calls: bool = True
    continues: bool = True  # a later call is likely to send these messages again
    timeout: float = 120.0  # seconds for the whole call
    tier: str = ""  # "flex"; "": the standard one
    embeds: str = ""  # the argument of the one tool that the embedding of the text is; "": none is
    run_id: int = 0  # for tracing and cache keys; never sent as content
    tenant: str = ""  # whose call it is; never sent: no request has texts of two
    # Called with each piece of the reply's text as it is written; None: nobody reads it.
    on_text: Callable[[str], None] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class PriceBand:
    """The prices of all tokens of a call whose input has more than `above` tokens."""

    above: int
    input_price: float
    cached_input_price: float | None
    cache_write_price: float | None
    output_price: float


def label_of(model: str, tenant: str) -> str:
    """Return the name of a tenant's own model that no other model has."""
    return f"{tenant}/{model}" if tenant else model


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """A model registered in `agent.model`.  Prices are in US dollars per million tokens, or None if
    unknown; then the cost is unknown, not zero.
    """

    name: str
    provider: str  # name of a registered provider
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
    reasons: bool = False  # before it answers, unless a parameter says otherwise
    cache_min_tokens: int | None = None  # from which the provider caches the start of a prompt
    dimensions: int | None = None  # of its embeddings; None: it makes none
    price_bands: tuple[PriceBand, ...] = ()  # by `above`, ascending
    flex_factor: float | None = None  # of all prices in the tier flex; None: there is no such tier
    batch_factor: float | None = None  # of all prices in a batch; None: there are no batches
    tenant: str = ""  # that it belongs to; "": shared by all
    enabled: bool = True

    @property
    def label(self) -> str:
        """Return the name that is unique among those of all tenants."""
        return label_of(self.name, self.tenant)
