"""Models, agents and attachments, as agents.yaml names them."""

from datetime import timedelta
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from walagent.agent.models.registry import BUILT_IN, find_provider
from walagent.config.base import (
    CredentialName,
    Duration,
    Name,
    Names,
    Part,
    lower,
    one_or_many,
    to_list,
)
from walagent.errors import ConfigError

Op = Literal["insert", "update", "delete", "truncate"]
Ops = Annotated[
    tuple[Op, ...], Field(min_length=1), lower, to_list, one_or_many({"enum": list(get_args(Op))})
]


def _is_installed(name: str) -> str:
    try:
        find_provider(name)
    except ConfigError as error:
        raise ValueError(str(error)) from error
    return name


ProviderName = Annotated[
    str,
    AfterValidator(_is_installed),
    WithJsonSchema({"anyOf": [{"enum": list(BUILT_IN)}, {"type": "string", "minLength": 1}]}),
]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(gt=0)]


class ModelEntry(Part):
    """A model that agents may use.

    Only what is given is changed: a model that the registry knows keeps the rest of its row.
    """

    provider: ProviderName | None = None
    """Built in, or of another package; openai is for every server that speaks its protocol."""
    model_id: Name | None = None
    """The provider's own name for it; by default the entry's name."""
    base_url: str | None = None
    """Where it is reached, when that is not the provider's own address."""
    credential: CredentialName | None = None
    """The name of the environment variable or systemd credential with the key; never the key."""
    tool_mode: Literal["native", "schema"] | None = None
    """native: the endpoint's own tool calls; schema: one JSON schema of all tools."""
    context_window: Positive | None = None
    """In tokens."""
    max_output_tokens: Positive | None = None
    """Of one reply."""
    timeout_seconds: Positive | None = None
    """How long one call may ingest all."""
    input_price: Price | None = None
    """US dollars per million tokens, as the other prices; costs are unknown without."""
    cached_input_price: Price | None = None
    cache_write_price: Price | None = None
    output_price: Price | None = None
    parameters: dict[str, Any] | None = None
    """Sent with every request, such as temperature."""
    enabled: bool | None = None


class ExampleEntry(Part):
    """A worked example: a text, and the tool call that answers it."""

    text: Name
    tool: Name
    arguments: dict[str, Any] = Field(default_factory=dict)


class Attach(Part):
    """An attachment of the agent under which it stands."""

    name: Name | None = None
    """By default the agent's name; needed where the agent has several."""
    table: Name
    """The table, with its schema where that is not on the search path."""
    on: Ops = ("insert",)
    """Which operations: insert, update, delete, truncate."""
    when: Name | None = None
    """A boolean SQL expression over `new` and `old`; by default every change matches."""
    columns: Names | None = None
    """What the agent is shown; an update must touch one of them.  By default all columns."""
    writes: Names = ()
    """The columns that the tool update_row may write."""
    bind: dict[str, str] = Field(default_factory=dict)
    """Tool arguments that the model does not choose: argument to column."""
    approve: Names = ()
    """Tools whose calls wait for a person."""
    run_as: Name | None = None
    """The role that tools run as; by default the role that applies this file."""
    query_as: Name | None = None
    """The role with whose rights the tool query reads; by default `ask.role`."""
    ordering_key: Names | None = None
    """Changes with equal values in these columns are worked one at a time, in commit order.
    By default the primary key; an empty list: no order."""
    debounce: Duration | None = None
    """Changes of an ordering key within this time become one run."""
    cap: Positive | None = None
    """How many runs at once; by default as many as the workers have slots."""
    backfill: bool = False
    """Run the agent on the rows that exist already, too."""
    server_filter: bool = False
    """Let the server filter by `when` before it sends a row; PostgreSQL then refuses to drop or
    retype the columns that it reads."""
    max_depth: int = Field(default=3, ge=0, le=100)
    """How many agents' writes may have led to a change that is still acted on."""
    approval_ttl: Duration = timedelta(days=7)
    """How long a question to a person stays open; by default 7 days."""
    paused: bool | None = None
    """true: no run starts; by default as `walagent pause` and `resume` left it."""


class AttachmentEntry(Attach):
    """An agent on a table: which changes it acts on, and as whom."""

    agent: Name
    """The name of the agent."""


class BudgetEntry(Part):
    """What may be spent on models over a time, by all runs together."""

    agent: Name | None = None
    """Only calls of this agent count; by default those of all."""
    attachment: Name | None = None
    """Only calls of this attachment count."""
    model: Name | None = None
    """Only calls of this model count."""
    asker: Name | None = None
    """Only questions of this login count, of `walagent ask` and its kin."""
    period: Literal["day", "month", "total"] = "month"
    """day and month are those of UTC; total never begins anew."""
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars."""
    max_tokens: Positive | None = None
    """Input and output."""
    on_exceeded: Literal["wait", "fail", "warn"] = "wait"
    """What becomes of a run whose call does not fit: it waits for the next period, fails, or goes
    on all the same."""

    @model_validator(mode="after")
    def _limits_something(self) -> "BudgetEntry":
        if self.max_cost is None and self.max_tokens is None:
            raise ValueError("a budget needs max_cost or max_tokens")
        if self.asker is not None and (self.agent is not None or self.attachment is not None):
            raise ValueError("a budget of an asker counts questions, which have no agent")
        return self


class AgentEntry(Part):
    """A model with instructions, tools and limits."""

    model: Name
    """A model of this file or of the registry (`walagent models`)."""
    system_prompt: str = ""
    tools: Names = ()
    """SQL functions, tools of agent.tool, and Python tools, by name."""
    tool_choice: Name = "auto"
    """auto, required, or the name of the tool that must be called first."""
    examples: tuple[ExampleEntry, ...] = ()
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Sent with every request; they win over the model's."""
    max_steps: Positive = 20
    """Replies of the model in one run."""
    max_tokens: Positive | None = None
    """Of one run, input and output."""
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars for one run."""
    max_seconds: Positive = 600
    """Of one run, not counting the time it waits for people."""
    max_attempts: Positive = 5
    max_output_tokens: Positive | None = None
    """Of one reply."""
    attach: tuple[Attach, ...] = ()
    """The tables that it is attached to."""
