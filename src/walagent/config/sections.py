"""How the daemon runs: database, replication, workers, HTTP, log."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from walagent.config.base import Bytes, CredentialName, Duration, Name, Names, Part, Seconds


class Database(Part):
    """How the database is reached; where nothing is named, the embedded one is used."""

    dsn: str | None = Field(default=None, repr=False)
    """A libpq connection string or URL.  --dsn and DATABASE_URL win over it."""
    replication_dsn: str | None = Field(default=None, repr=False)
    """The login that reads the WAL, where it is another one; else `dsn`."""


class Replication(Part):
    """How the WAL is read."""

    slot: str = Field(default="walagent", pattern="^[a-z0-9_]{1,63}$")
    """The replication slot; made by `walagent init`."""
    plugin: Literal["pgoutput", "wal2json"] = "pgoutput"
    """The output plug-in that decodes the WAL on the server."""
    protocol: Literal[1, 2] = 1
    """pgoutput's protocol; 2 streams large transactions before they commit."""
    failover: bool = False
    """Let standbys synchronise the slot, so that one can be promoted without a gap.  PostgreSQL 17
    or newer."""
    sender_timeout: Seconds = 4.0
    """How soon the server frees the slot of a reader that is frozen."""
    status_interval: Seconds = 10.0
    """How often the server is told our position when nothing happens."""
    stall_timeout: Seconds = 20.0
    """How long the reader waits for our side before it disconnects: an unread socket can hold
    up the server's checkpoints."""
    alarm_bytes: Bytes | None = 1 << 30
    """WAL kept for the slot beyond which an alarm is raised; null: never."""
    give_up_bytes: Bytes | None = None
    """WAL kept for the slot beyond which a reader that does not catch up drops it and stops, with a
    recorded gap; null, the default: never."""
    give_up_after: Seconds = 60.0
    """How long the reader may come no closer, beyond that."""


class Changes(Part):
    """What a run keeps of the change that it is about; sizes are characters."""

    max_value: int = Field(default=262_144, ge=10_000, le=16_777_216)
    """Of one value; a longer one is cut, and said to be."""
    max_row: int = Field(default=1_048_576, ge=10_000, le=67_108_864)
    """Of one row; the key and what tools are bound to have room beside it."""


class Retention(Part):
    """How long what has ended is kept; the process that reads the WAL removes it."""

    runs: Duration | None = None
    """How long a run is kept after its end, with its steps; by default for ever."""
    decided: Duration | None = None
    """The same for runs in which a person has decided something; by default for ever."""
    every: Seconds = 600.0
    """How often old runs are looked for."""


class Workers(Part):
    """How runs are worked."""

    slots: int = Field(default=100, ge=1, le=100_000)
    """How many runs this process has in flight at once."""
    lease: Seconds = 30.0
    """After how long without a sign of life another worker takes a run over."""
    poll: Seconds = 5.0
    """How often the queue is looked at when nobody rang."""
    drain: Seconds = 20.0
    """How long runs may finish their step when we are told to stop."""
    connections: int = Field(default=10, ge=1, le=1000)
    """Database connections of the workers; a run holds none while its model thinks."""


class Search(Part):
    """Who searches the web for a question; its words are sent there."""

    provider: Literal["brave", "tavily", "searxng", "ddgs"]
    """brave and tavily want a key; searxng is a server of your own; ddgs is a library."""
    credential: CredentialName | None = None
    """The name of the variable or credential with the key; by default BRAVE_API_KEY or
    TAVILY_API_KEY."""
    base_url: str | None = Field(default=None, pattern="^https?://")
    """Where it is reached, when that is not the provider's own address."""
    results: int = Field(default=5, ge=1, le=20)
    """How many results are read at most."""
    timeout: Seconds = 10.0
    """How long a search may take."""


class Ask(Part):
    """How questions in plain words are answered: `walagent ask` and `chat`."""

    role: str = Field(default="walagent_analyst", min_length=1)
    """With whose rights statements run that a model wrote; it can read and nothing else."""
    model: str | None = None
    """Which model plans and answers; where there is one model only, that one."""
    rows: int = Field(default=1000, ge=1, le=100_000)
    """How many rows of a statement are read at most."""
    seconds: Seconds = 30.0
    """How long a statement may run."""
    cost: float = Field(default=5e6, gt=0)
    """How dear a statement may be, by the planner's estimate and in its units."""
    connections: int = Field(default=4, ge=1, le=50)
    """How many statements run side by side."""
    schema_chars: int = Field(default=40_000, ge=1000)
    """How much of the schema the model is shown; of a larger one, the tables that fit best."""
    schemas: Names | None = None
    """Which schemas questions are about; by default all that the role may read."""
    samples: bool = True
    """Whether the model is shown common values of columns with few values."""
    no_samples: Names = ()
    """Of which columns not: patterns of schema.table.column, or of schema.table."""
    vectors: bool = False
    """Whether tables are found by meaning, too; needs pgvector and `walagent[local]`."""
    history_chars: int = Field(default=12_000, ge=1000)
    """How much of a session's earlier turns the model is shown as they were."""
    search: Search | None = None
    """Who searches the web; by default nobody does."""


class Http(Part):
    """Health checks and metrics."""

    enabled: bool = True
    host: Name = "127.0.0.1"
    port: int = Field(default=8642, ge=0, le=65_535)
    """0: any free port."""
    ready_after: Seconds = 30.0
    """Not ready when the reader has not been heard of for this long."""


class Log(Part):
    """What is said on stderr."""

    format: Literal["auto", "json", "text"] = "auto"
    """auto: text on a terminal, json elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"


class Embedded(Part):
    """The PostgreSQL that is used when no database is named."""

    data_dir: Path | None = None
    """Where its data is kept; by default in WALAGENT_HOME, or in the XDG data folder."""
    bindir: Path | None = None
    """The folder with `postgres` and `initdb`; by default those of the `local` extra."""


class Tools(Part):
    """Tools written in Python."""

    modules: Names = ()
    """Importable modules in which they are defined."""


class McpTool(Part):
    """What agents may do with one tool of an MCP server."""

    effect: Literal["idempotent", "unsafe"] = "unsafe"
    """idempotent: a call whose outcome is unknown may be repeated; unsafe: it goes to a person."""
    timeout: Seconds = 30.0
    """How long one call may take."""
    fingerprint: str | None = Field(default=None, pattern="^[0-9a-f]{32}$")
    """Of the name, description and schema that you accept; by default those it has when it is first
    seen."""


class McpServer(Part):
    """An MCP server whose tools agents may have: a program, or a URL."""

    command: tuple[Name, ...] | None = None
    """The program and its arguments; it is spoken to over stdin and stdout."""
    url: str | None = Field(default=None, pattern="^https?://")
    """Where it is reached over streamable HTTP."""
    token: CredentialName | None = None
    """The name of the variable or credential with the bearer token that `url` wants; never the
    token."""
    env: dict[str, str] = Field(default_factory=dict, repr=False)
    """Variables for the program, beside PATH, HOME and the like."""
    credentials: tuple[CredentialName, ...] = ()
    """Names of variables or credentials that the program is given under the same names."""
    tools: dict[Name, Annotated[McpTool, BeforeValidator(lambda raw: {} if raw is None else raw)]]
    """The tools that agents may have, by the server's names for them; there are no others."""
    connect: Seconds = 30.0
    """How long it may take to start and say what it offers."""
    max_result: int = Field(default=50_000, ge=1000, le=60_000)
    """How many characters of an answer are kept."""

    @model_validator(mode="after")
    def _is_one_of_both(self) -> "McpServer":
        if (self.command is None) == (self.url is None):
            raise ValueError("an MCP server has either a command or a url")
        if self.command == ():
            raise ValueError("command names no program")
        if self.url is None and self.token is not None:
            raise ValueError("token goes with url; a program is given credentials")
        if self.command is None and (self.env or self.credentials):
            raise ValueError("env and credentials go with command")
        return self
