"""The entries of agents.yaml: models, agents, attachments and budgets."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import AfterValidator, ConfigDict, Field, model_validator

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
from walagent.models.credentials import is_base_url
from walagent.models.registry import find_provider

Op = Literal["insert", "update", "delete", "truncate"]
Ops = Annotated[
    tuple[Op, ...], Field(min_length=1), lower, to_list, one_or_many({"enum": list(get_args(Op))})
]


def _is_installed(name: str) -> str:
    try:
        find_provider(name)
    except ConfigError as error:
        raise ValueError(f"{error}. {error.hint.rstrip('.')}") from error
    return name


_BY_HTTP = frozenset({"anthropic", "openai"})
ProviderName = Annotated[Name, AfterValidator(_is_installed)]
Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[int, Field(gt=0)]
Rate = Annotated[int, Field(ge=1, le=6000)]


class PriceBandEntry(Part):
    """The prices of all tokens of a call with a long prompt."""

    above: Annotated[int, Field(ge=0)]
    """Tokens of input that the call exceeds."""
    input_price: Price
    """Price of input tokens, in US dollars per million."""
    cached_input_price: Price | None = None
    """Price of tokens read from a prompt cache."""
    cache_write_price: Price | None = None
    """Price of tokens written to a prompt cache."""
    output_price: Price
    """Price of tokens that the model generates."""


class ModelEntry(Part):
    """A model that agents can use.

    Keys that are not set keep their registered values.
    """

    provider: ProviderName | None = None
    """A built-in provider, or one of another package; `openai` for every compatible server.
    Default: as registered."""
    model_id: Name | None = None
    """The provider's name of the model.  Default: as registered, else the entry's name."""
    base_url: str | None = None
    """The endpoint, if not the provider's own.  Default: as registered."""
    credential: CredentialName | None = None
    """The name of the variable or systemd credential with the key; never the key.  Default: as
    registered."""
    tool_mode: Literal["native", "schema"] | None = None
    """`native`: the endpoint's tool calls; `schema`: one JSON schema of all tools.  Default: as
    registered."""
    context_window: Positive | None = None
    """Size of the context window, in tokens.  Default: as registered."""
    max_output_tokens: Positive | None = None
    """Tokens of one reply.  Default: as registered."""
    timeout_seconds: Positive | None = None
    """Seconds of one call.  Default: as registered."""
    input_price: Price | None = None
    """Price of input tokens; all prices are in US dollars per million tokens.  Default: as
    registered."""
    cached_input_price: Price | None = None
    """Price of tokens read from a prompt cache.  Default: as registered."""
    cache_write_price: Price | None = None
    """Price of tokens written to a prompt cache.  Default: as registered."""
    output_price: Price | None = None
    """Price of tokens that the model generates.  Default: as registered."""
    price_bands: tuple[PriceBandEntry, ...] | None = None
    """Prices of long prompts.  Default: as registered."""
    flex_factor: Annotated[float, Field(gt=0, le=1)] | None = None
    """What all prices are multiplied by in the tier `flex`; only for providers that have it.
    Default: as registered."""
    batch_factor: Annotated[float, Field(gt=0, le=1)] | None = None
    """What all prices are multiplied by in the tier `batch`; only for providers that have it.
    Default: as registered."""
    reasons: bool | None = None
    """`true`: it reasons before it answers, and its default output limit is higher.  Default: as
    registered."""
    cache_min_tokens: Positive | None = None
    """Tokens from which the provider caches the start of a prompt.  Default: as registered."""
    dimensions: Annotated[int, Field(ge=1, le=16_000)] | None = None
    """Dimensions of its embeddings; a model without them makes none.  Default: as registered."""
    parameters: dict[str, Any] | None = None
    """Sent with every request.  Default: as registered."""
    enabled: bool | None = None
    """`false`: no new agent can use it, and runs that need it fail.  Default: as registered."""

    @property
    def destination(self) -> Mapping[str, object]:
        """The keys that say which model of which endpoint receives requests, and with which key."""
        return self.model_dump(
            include={"provider", "model_id", "base_url", "credential"}, exclude_none=True
        )

    @model_validator(mode="after")
    def _has_a_base_url(self) -> "ModelEntry":
        # Of other providers it can be something else: the path of a script.
        url = self.base_url
        if self.provider in _BY_HTTP and url is not None and not is_base_url(url):
            raise ValueError("base_url must begin with http:// or https:// and a host")
        return self


class ExampleEntry(Part):
    """A worked example: a text, and the tool call that answers it."""

    text: Name
    """What a row might say."""
    tool: Name
    """The tool to call."""
    arguments: dict[str, Any] = Field(default_factory=dict)
    """The arguments of the call."""


class Attach(Part):
    """An attachment of its agent."""

    name: Name | None = None
    """Only under `attach`; required if the agent has several.  Default: the agent's."""
    table: Name
    """The table, qualified with its schema if that is not on the search path."""
    on: Ops = ("insert",)
    """A list of `insert`, `update`, `delete`, `truncate`."""
    when: Name | None = None
    """A boolean SQL expression over `new` and `old`.  Default: every change."""
    columns: Names | None = None
    """The columns that the agent sees; an update must change one of them.  Default: all."""
    writes: Names = ()
    """The columns that `update_row` can write."""
    bind: dict[str, str] = Field(default_factory=dict)
    """Tool arguments that the model does not choose: argument to column."""
    approve: Names = ()
    """Tools whose calls wait for a person."""
    lets_out: Names = ()
    """Tools that may send out, without a person, what the agent reads with `query`, `retrieve` or
    `read_file`; a tool that could and is not named is refused."""
    run_as: Name | None = None
    """The role that conditions and tools run as.  Default: the role that applies the file."""
    query_as: Name | None = None
    """The role that the tool `query` reads as; it must be able to read and nothing else.
    Default: the value of `ask.role`."""
    ordering_key: Names | None = None
    """Runs with equal values in these columns are executed in commit order, one at a time;
    `[]`: no order.  Default: the primary key."""
    debounce: Duration | None = None
    """Changes of an ordering key within this time become one run."""
    cap: Positive | None = None
    """Maximum concurrent runs, across all workers."""
    tenant: Name | None = None
    """A column of the table whose text names the tenant of each row.  Default: all runs are of the
    tenant in which the file is applied."""
    backfill: bool = False
    """Also run the agent on existing rows."""
    server_filter: bool = False
    """Let the server apply `when`; PostgreSQL then refuses to drop or retype the columns that
    it reads."""
    corrections: bool = False
    """Publish updates and deletions of the table, too, so that what others change of what the
    agent wrote is found."""
    only_unchanged: bool = False
    """Let `update_row` write only while the row has the values that the agent was shown."""
    score_share: float = Field(default=0.0, ge=0, le=1)
    """The share of its runs, chosen at random, that people are asked to score."""
    embeds: bool = False
    """Write the embedding of `columns` into the one column of `writes`; the model is one with
    `dimensions`."""
    max_depth: int = Field(default=3, ge=0, le=100)
    """Maximum length of a chain of agents' writes whose last change starts a run; 0: none."""
    priority: int = Field(default=0, ge=-1000, le=1000)
    """Of the ready runs of a tenant, those of the highest priority start first."""
    approval_ttl: Duration = timedelta(days=7)
    """Time until an approval request expires."""
    paused: bool | None = None
    """`true`: no run starts.  Default: unchanged."""


# Columns of agent.attachment that have another name than their key.
COLUMNS: Final = {
    "table": "relation",
    "on": "ops",
    "when": "condition",
    "tenant": "tenant_column",
}


class AttachmentEntry(Attach):
    """An agent on a table: the changes that start runs, and the role that runs act as."""

    agent: Name
    """The agent's name; only under `attachments`."""


class BudgetEntry(Part):
    """A limit on what all runs together spend on models in a period."""

    agent: Name | None = None
    """Count only calls of this agent.  Default: any."""
    attachment: Name | None = None
    """Count only calls of this attachment.  Default: any."""
    model: Name | None = None
    """Count only calls of this model.  Default: any."""
    asker: Name | None = None
    """Count only questions of this login; not with `agent` or `attachment`.  Default: any."""
    period: Literal["day", "month", "total"] = "month"
    """`day` or `month` in UTC, or `total`, which never resets."""
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars per period."""
    max_tokens: Positive | None = None
    """Input and output tokens per period."""
    max_cost_per_question: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = 10.0
    """US dollars that one question can use; `null`: no limit."""
    max_tokens_per_question: Positive | None = 1_000_000
    """Input and output tokens that one question can use; `null`: no limit."""
    on_exceeded: Literal["wait", "fail", "warn"] = "wait"
    """What a run does if its next call exceeds the budget: `wait` for the next period, `fail`, or
    `warn` and continue."""

    @model_validator(mode="after")
    def _limits_something(self) -> "BudgetEntry":
        if self.max_cost is None and self.max_tokens is None:
            raise ValueError("a budget requires max_cost or max_tokens")
        if self.asker is not None and (self.agent is not None or self.attachment is not None):
            raise ValueError("asker cannot be combined with agent or attachment")
        return self


class PersonaEntry(Part):
    """Who agents are; several agents can share a persona."""

    system_prompt: str = ""
    """Instructions, before those of the agent."""
    traits: dict[str, Any] = Field(default_factory=dict)
    """Traits by name; part of the prompt."""
    rules: Names = ()
    """Rules, in order; part of the prompt."""
    model: Name | None = None
    """The model of agents that name none."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Sent with every request; they override the model's, and the agent's override them."""
    max_steps: Positive | None = None
    """Model replies in one run; of this limit and the agent's, the lower applies, and so with all
    that follow."""
    max_tokens: Positive | None = None
    """Tokens of one run, input and output."""
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars of one run."""
    max_seconds: Positive | None = None
    """Seconds of one attempt."""
    max_output_tokens: Positive | None = None
    """Tokens of one reply."""
    requests_per_minute: Rate | None = None
    """Calls of models in any minute by all agents of the persona together."""


class AgentEntry(Part):
    """A model with instructions, tools and limits."""

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["model"]}, {"required": ["persona"]}]}
    )

    model: Name | None = None
    """A model of this file, or one that `walagent agents models` lists.  Default: the persona's."""
    persona: Name | None = None
    """A persona of this file or of the database."""
    persona_version: Positive | None = None
    """The version of the persona to keep.  Default: the latest."""
    system_prompt: str = ""
    """The agent's instructions."""
    tools: Names = ()
    """Names of SQL functions, rows of `agent.tool`, Python tools, and tools of MCP servers
    (`server__tool`)."""
    tool_choice: Name = "auto"
    """`auto`, `required`, or the tool that must be called first."""
    examples: tuple[ExampleEntry, ...] = ()
    """A list of `text`, `tool` and `arguments`."""
    parameters: dict[str, Any] = Field(default_factory=dict)
    """Sent with every request; they override the model's."""
    cascade: Names = ()
    """Models that are asked before `model`, in this order: `embedded/e5>0.6`, if it is more than
    60 % sure; another one until it says that it is not sure."""
    cascade_control: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.02
    """Share of the runs that a model of the cascade has decided of which `model` is asked, too, to
    compare; 0: none."""
    fallback: Name | None = None
    """The model that is asked if `model` does not answer or refuses.  Default: none."""
    tier: Literal["standard", "flex", "batch"] = "standard"
    """`flex`: calls cost less and take longer, if the provider has this tier; if it has no
    capacity, `standard` is asked.  An attempt then has at least 1,800 seconds.  `batch`: runs wait
    up to a day for their replies."""
    reuse: Duration | None = None
    """Equal first calls of runs of a version within this time share one reply; the model does not
    see the key of the row.  Default: each run has its own."""
    rows_per_request: Annotated[int, Field(ge=2, le=100)] | None = None
    """How many runs, at most, make their first calls as one request, if they are made at one
    time; `update_row` is the only tool.  Default: each run makes its own."""
    max_steps: Positive = 20
    """Model replies in one run."""
    max_tokens: Positive | None = None
    """Tokens of one run, input and output."""
    max_cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """US dollars of one run.  The output limit of a call is lowered to what is left; if that is
    less than 256 tokens, the call is not made."""
    max_seconds: Positive = 600
    """Seconds of one attempt, without waits for a person or a retry."""
    max_attempts: Positive = 5
    """Failed attempts before a run is `dead`."""
    max_output_tokens: Positive | None = None
    """Tokens of one reply.  Default: what the tools need, at most the model's; a reply that this
    default cuts off is asked for again."""
    finish: Literal["answer", "after_call"] | None = None
    """When a run ends: `answer`, with an answer in words; `after_call`, when all calls of a reply
    have succeeded.  Default: `after_call` if `tool_choice` names a tool or the agent only writes to
    its row, else `answer`."""
    requests_per_minute: Rate | None = None
    """Calls of models in any minute by all runs of the agent together; a run that would exceed it
    waits."""
    thinking_visible: bool = True
    """`false`: the reasoning of the model is not recorded in readable form."""
    pause_before_tool: bool = False
    """`true`: a run waits for a person before each call."""
    pause_after_tool: bool = False
    """`true`: a run waits for a person after each call."""
    approve_from: Literal["low", "medium", "high", "critical"] | None = None
    """Calls of tools with this or a higher risk wait for a person, in addition to what tools and
    the tenant require."""
    four_eyes: bool | None = None
    """`true`: who started a run cannot decide its calls.  Default: as the tenant says."""
    attach: tuple[Attach, ...] = ()
    """A list of attachments."""

    @model_validator(mode="after")
    def _has_a_model(self) -> "AgentEntry":
        if self.model is None and self.persona is None:
            raise ValueError("an agent requires a model, or a persona that has one")
        return self
