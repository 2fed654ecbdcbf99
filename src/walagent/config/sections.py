"""The sections of agents.yaml that configure the daemon, questions, live rows and the outbox."""

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, PrivateAttr, model_validator

from walagent.config.base import (
    Bytes,
    CredentialName,
    Duration,
    Name,
    Names,
    Part,
    Seconds,
    one_or_many,
    to_list,
)


class Database(Part):
    """The connection to the database; if none is named, the embedded one is used."""

    dsn: str | None = Field(default=None, repr=False)
    """A libpq connection string or URL; `--dsn` and `DATABASE_URL` take precedence."""
    replication_dsn: str | None = Field(default=None, repr=False)
    """The login that reads the WAL.  Default: the value of `dsn`."""
    tools_dsn: str | None = Field(default=None, repr=False)
    """The login of the connections on which tools are executed; `DATABASE_TOOLS_URL` takes
    precedence.  Default: the value of `dsn`, with the login that `walagent init` creates."""
    rows_dsn: str | None = Field(default=None, repr=False)
    """The login that reads the rows of `sync.open`; `DATABASE_ROWS_URL` takes precedence.  Default:
    the value of `dsn`, with a login that walagent creates."""


class Replication(Part):
    """How the WAL is read."""

    slot: str = Field(default="walagent", pattern="^[a-z0-9_]{1,63}$")
    """The replication slot.  Slots are global to the server: if this is not set, walagent uses the
    slot that the database has, and where another database has this name, adds its own."""
    plugin: Literal["pgoutput", "wal2json"] = "pgoutput"
    """The output plugin: `pgoutput` or `wal2json`."""
    protocol: Literal[1, 2] = 1
    """Protocol of pgoutput.  With 2, the server streams large transactions before they commit;
    they are stored in temporary files."""
    failover: bool = False
    """Let standbys synchronize the slot, so that a promotion causes no gap (PostgreSQL 17 or
    newer).  `true` alters an existing slot; `false` does not."""
    sender_timeout: Seconds = 4.0
    """Time until the server releases the slot of a reader that hangs."""
    status_interval: Seconds = 10.0
    """Interval of status updates while no changes arrive."""
    stall_timeout: Seconds = 20.0
    """Time without progress after which the reader releases the slot: an unread socket can
    block server checkpoints."""
    alarm_bytes: Bytes | None = 1 << 30
    """Retained WAL that raises an alarm; `null` disables it."""
    give_up_bytes: Bytes | None = None
    """Retained WAL beyond which a reader that does not catch up records a gap, drops the slot
    and stops.  Default: never."""
    give_up_after: Seconds = 60.0
    """Time without catching up after which `give_up_bytes` applies."""


class Changes(Part):
    """Limits of the change that a run stores, in characters."""

    max_value: int = Field(default=262_144, ge=10_000, le=16_777_216)
    """Characters stored of one value; a longer one is truncated and marked."""
    max_row: int = Field(default=1_048_576, ge=10_000, le=67_108_864)
    """Characters stored of one row, in addition to its key and bound columns."""


class Retention(Part):
    """How long ended runs are kept; the process that reads the WAL removes them."""

    runs: Duration | None = None
    """Time that an ended run and its steps are kept.  Default: forever."""
    decided: Duration | None = None
    """The same for runs in which a person approved, rejected or reviewed something.  Default:
    forever."""
    corrections: Duration = timedelta(days=30)
    """Time after an agent's write for which a change of it counts as a correction."""
    every: Seconds = 600.0
    """Interval between removals."""


class Search(Part):
    """Web search for questions; the provider receives the words."""

    provider: Literal["brave", "tavily", "searxng", "ddgs"]
    """`brave` and `tavily` require a key; `searxng` is your own server; `ddgs` is a library
    (`walagent[search]`)."""
    credential: CredentialName | None = None
    """The name of the variable or credential with the key; never the key.  Default:
    `BRAVE_API_KEY` or `TAVILY_API_KEY`."""
    base_url: str | None = Field(default=None, pattern="^https?://")
    """The endpoint; required for `searxng`.  Default: the provider's."""
    results: int = Field(default=5, ge=1, le=20)
    """Maximum results that are read."""
    timeout: Seconds = 10.0
    """Limit of one search."""


class AskSettings(Part):
    """How questions are answered: `walagent ask` and `chat`."""

    _declared: Mapping[str, Mapping[str, object]] = PrivateAttr(default_factory=dict)

    role: str = Field(default="walagent_analyst", min_length=1)
    """The role that runs the model's statements; it must be able to read and nothing else."""
    model: str | None = None
    """The model that plans and answers.  Default: the only one."""
    standby_dsn: str | None = Field(default=None, repr=False)
    """A hot standby on which statements run; they are still analyzed on the primary.  Default:
    the database itself."""
    rows: int = Field(default=1000, ge=1, le=100_000)
    """Maximum rows read of a statement."""
    seconds: Seconds = 30.0
    """Limit of one statement."""
    cost: float = Field(default=5e6, gt=0)
    """The highest planner cost estimate of a statement."""
    functions: Names = ()
    """Functions of your own that statements may call: `shop.age_of`, `shop.age_of(date)`,
    `shop.*`, or `extension postgis`."""
    connections: int = Field(default=4, ge=1, le=50)
    """Statements that run in parallel."""
    schema_chars: int = Field(default=40_000, ge=1000)
    """Characters of the schema that the model receives; of a larger schema, the tables that
    match best."""
    schemas: Names | None = None
    """The schemas that questions are about.  Default: all that the role can read."""
    samples: bool = True
    """Send common values of columns to the model."""
    no_samples: Names = ()
    """Columns without samples: patterns such as `hr.*`, `*.*.nationality`, `shop.customer`."""
    vectors: bool = False
    """Also find tables by meaning; requires pgvector and `walagent[local]`."""
    history_chars: int = Field(default=12_000, ge=1000)
    """Characters of a session's earlier turns that the model receives in full; older ones are
    summarized."""
    search: Search | None = None
    """Web search; see `ask.search`."""

    @property
    def declared(self) -> Mapping[str, Mapping[str, object]]:
        """The models of the same file, with the keys that say where requests go."""
        return self._declared

    def declare(self, models: Mapping[str, Mapping[str, object]]) -> None:
        """Take the models of the file."""
        self._declared = models


class Retrieval(Part):
    """How memories and documents are found."""

    vectors: bool = False
    """Also find them by meaning: embed them, and what is searched for, with the embedded model;
    requires `walagent[local]`."""


class FileSettings(Part):
    """The folder of the tools `read_file` and `write_file`."""

    root: Path | None = None
    """The folder; each tenant has a folder of its name in it.  Default: none, the tools fail."""
    writable: bool = False
    """Whether `write_file` can write."""
    max_bytes: int = Field(default=65_536, ge=1, le=16_777_216)
    """Bytes of a file that is read or written."""


class Http(Part):
    """Health checks, metrics and the console."""

    enabled: bool = True
    """Serve `/healthz`, `/readyz`, `/metrics` and, beside a reader, the console."""
    host: Name = "127.0.0.1"
    """The address to listen on."""
    port: int = Field(default=8642, ge=0, le=65_535)
    """0 selects any free port."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")
    """The address at which people reach this server; messages about approvals then have links to
    it.  Default: no links."""
    hosts: Names = ()
    """Names under which browsers may ask this server, in addition to those of loopback and of
    `host` and `public_url`."""
    ready_after: Seconds = 30.0
    """Time without a message from the server after which the daemon is not ready."""


def _check_placeholders(text: str, parameters: tuple[str, ...]) -> None:
    plain = text.replace("%%", "")
    for found in re.finditer(r"%(?:\((\w+)\)s)?", plain):
        if found[1] is None:
            raise ValueError("write %% for a percent sign that begins no parameter")
        if found[1] not in parameters:
            raise ValueError(f"{found[0]} is not in parameters")


class ShapeEntry(Part):
    """A query whose rows a principal with a token can follow."""

    query: str = Field(min_length=1)
    """A SELECT; `%(name)s` is a parameter."""
    key: Annotated[tuple[Name, ...], Field(min_length=1)]
    """The columns that tell its rows apart."""
    parameters: tuple[Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")], ...] = ()
    """Parameters of a request, as text."""
    run_as: Name | None = None
    """The role that reads tables of the application; without it, the query reads walagent's
    tables and views alone."""

    @model_validator(mode="after")
    def _has_its_parameters(self) -> "ShapeEntry":
        _check_placeholders(self.query, self.parameters)
        return self


class MutationEntry(Part):
    """What a principal can write over HTTP, in a transaction of its own."""

    function: str | None = Field(default=None, pattern="^[a-z][a-z0-9_]*$")
    """A function of schema `agent`: what it allows depends on the principal."""
    statement: str | None = Field(default=None, min_length=1)
    """Or one statement for tables of the application; `%(name)s` is a parameter."""
    run_as: Name | None = None
    """The role that executes the statement."""
    parameters: tuple[Annotated[str, Field(pattern="^[a-z][a-z0-9_]*$")], ...] = ()
    """Parameters of a request; those of a function that it does not give have their defaults."""

    @model_validator(mode="after")
    def _is_one_of_two(self) -> "MutationEntry":
        if (self.function is None) == (self.statement is None):
            raise ValueError("expected either function or statement")
        if (self.statement is None) != (self.run_as is None):
            raise ValueError("a statement needs run_as, the role that executes it; a function none")
        if self.statement is not None:
            _check_placeholders(self.statement, self.parameters)
        return self


class Sync(Part):
    """Rows served live over HTTP."""

    open: tuple[Name, ...] = ()
    """Tables that `/v1/shape?table=…` serves to anyone who shows the secret: `schema.table`, or
    `*` for all that the login can read, except walagent's own."""
    secret: CredentialName | None = None
    """The variable or credential with the secret for these tables."""
    shapes: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9_-]*$")], ShapeEntry] = Field(
        default_factory=dict
    )
    """Queries by name, which `/v1/shapes/NAME` serves to principals with a token."""
    mutations: dict[Annotated[str, Field(pattern="^[a-z][a-z0-9_-]*$")], MutationEntry] = Field(
        default_factory=dict
    )
    """Functions by name, which `POST /v1/mutations/NAME` calls as the principal."""
    max_shapes: int = Field(default=500, ge=1, le=10_000)
    """Named shapes of one principal at once; beyond, those that no client requests end, and new
    ones are refused."""
    cache: Literal["private", "public"] = "private"
    """Whether caches between server and browser may keep answers."""
    chunk: Annotated[Bytes, Field(ge=1024)] = 10 << 20
    """Bytes of an answer, about; what is larger goes on in the next one."""
    max_log: Bytes = 64 << 20
    """Changes kept for one shape; a client that is further behind fetches again."""
    max_memory: Bytes = 2 << 30
    """Bytes of the rows and changes of all shapes of a process; beyond, those that no client
    requests end, and new ones are refused."""
    max_retained: Bytes = 1 << 30
    """WAL that the temporary slot of `walagent serve sync` retains at most; beyond, it is dropped,
    and clients fetch again."""

    @model_validator(mode="after")
    def _has_a_secret(self) -> "Sync":
        if self.open and self.secret is None:
            raise ValueError("sync.secret is required with sync.open: the name of a variable")
        return self


_Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
    "HS256", "HS384", "HS512",
]  # fmt: skip
_Scope = Literal["read", "post", "approve", "develop", "admin"]
_SYMMETRIC: frozenset[str] = frozenset({"HS256", "HS384", "HS512"})


class Identity(Part):
    """Signed tokens (JWT) of an identity provider, for requests over HTTP."""

    issuer: Name
    """The claim `iss` of its tokens."""
    audience: Name
    """What the claim `aud` must contain: the name of this installation."""
    algorithms: Annotated[
        tuple[_Algorithm, ...],
        Field(min_length=1),
        to_list,
        one_or_many({"enum": list(get_args(_Algorithm))}),
    ] = ("RS256",)
    """Algorithms of signatures that are accepted."""
    jwks: Path | None = None
    """The file with the public keys (a JSON Web Key Set), read again when it changes."""
    secret: CredentialName | None = None
    """The variable or credential with the secret for `HS256`, `HS384` and `HS512`, of at least 32
    bytes; then without `jwks`."""
    tenant_claim: Name = "tenant"
    """The claim with the name of the tenant."""
    principal_claim: Name = "sub"
    """The claim with the name of the principal."""
    scopes: Annotated[
        tuple[_Scope, ...], to_list, one_or_many({"enum": list(get_args(_Scope))})
    ] = ("read",)
    """What its tokens can be used for; `[]`: all that the principal may do."""
    leeway: Seconds = 30.0
    """Difference between clocks that is tolerated."""

    @model_validator(mode="after")
    def _has_keys(self) -> "Identity":
        if (self.jwks is None) == (self.secret is None):
            raise ValueError("requires either jwks or secret")
        if any((each in _SYMMETRIC) != (self.secret is not None) for each in self.algorithms):
            raise ValueError(
                "algorithms with a secret are HS256, HS384 and HS512; with jwks, all others"
            )
        return self


class Smtp(Part):
    """The server that accepts e-mail."""

    host: Name
    """Its name."""
    port: int = Field(default=587, ge=1, le=65_535)
    """Its port."""
    sender: Name
    """The address that messages are from."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """`starttls`, `tls` from the start, or `none`."""
    user: str | None = None
    """The user.  Default: no login."""
    password: CredentialName | None = None
    """The name of the variable or credential with the password; never the password."""


class Slack(Part):
    """The app in Slack that sends messages."""

    bot_token: CredentialName | None = None
    """The name of the variable or credential with the bot token."""
    app_token: CredentialName | None = None
    """The name of the variable or credential with the app token, for Socket Mode: messages about
    approvals then have buttons that decide."""
    base_url: str = Field(default="https://slack.com/api/", pattern="^https?://")
    """The endpoint of the Web API."""


class Outbox(Part):
    """How messages leave; webhooks need only a host of `tools.http_hosts`."""

    smtp: Smtp | None = None
    """The server that accepts e-mail.  Default: none."""
    slack: Slack | None = None
    """The app in Slack.  Default: none."""


class Audit(Part):
    """The audit of changes and decisions."""

    head_every: Seconds = 600.0
    """Interval at which the heads of the audit are logged, if they have changed."""


class LogSettings(Part):
    """The log on stderr."""

    format: Literal["auto", "json", "text"] = "auto"
    """`auto` is `text` on a terminal and `json` elsewhere."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""


class Embedded(Part):
    """The PostgreSQL that is used when no database is named."""

    data_dir: Path | None = None
    """The data directory.  Default: in `WALAGENT_HOME`, else in the XDG data directory."""
    bindir: Path | None = None
    """The directory with `postgres` and `initdb`.  Default: the `local` extra's."""
