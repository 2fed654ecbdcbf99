"""Run an agent on rows of its table, as it would be run, and take everything back.

One transaction is never committed: the attachment and each run with its steps are rows of it, and
the engine of real runs finds, claims, executes and ends them there.  Each row is tried in a
savepoint that is rolled back before the next.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, LiteralString

from psycopg import AsyncConnection, sql

from walagent.domain.attachment import Attachment
from walagent.domain.run import Claim, RunSpec
from walagent.errors import (
    BudgetExceededError,
    ConfigError,
    ModelUnauthorizedError,
    PreconditionError,
)
from walagent.intake.backfill import PresentRow, present_row, runs_of
from walagent.intake.conditions import Evaluator
from walagent.intake.placement import place_rows
from walagent.matching.document import SizeLimits
from walagent.message import Json, ModelSpec
from walagent.models import make_model
from walagent.models.cost import worst_case_cost
from walagent.models.model import Model
from walagent.moves import Prompt
from walagent.runs.attempt import RunAttempt
from walagent.runs.resources import Resources
from walagent.runs.tools.builtin_tools import NamedEmbedder, Services
from walagent.runs.tools.toolbox import Toolbox
from walagent.store import attachments, trials
from walagent.store.errors import translating
from walagent.store.people import listings
from walagent.store.relations import tables
from walagent.store.relations.changed_rows import PATIENCE, Changes, changed_rows
from walagent.store.role_reader import RoleReader, RoleStatement
from walagent.store.sessions.connections import connect
from walagent.store.sessions.tool_connections import ToolConnections, read_login
from walagent.tools.callee import Servers
from walagent.tools.python import PythonTool, find_tools
from walagent.trial.attaching import Wanted, attach_for_trial
from walagent.trial.external import NoCalls, NotCalled, calls_not_made, harmless
from walagent.trial.replies import NotAskedError
from walagent.trial.session import HeldPool, HeldReader, open_held
from walagent.workers.tool_services import embedder_of
from walagent.workers.worker_resources import agent_resources

Connection = AsyncConnection[Any]

# Errors that every other row would meet, too.
_FOR_ALL = (PreconditionError, BudgetExceededError, ModelUnauthorizedError, NotAskedError)
_PATIENCE = 60.0  # seconds to wait for a provider that is busy: a person watches


@dataclass(frozen=True, slots=True)
class TrialOptions:
    """Options of a trial.

    Args:
        last: the maximum number of rows, the last ones by primary key; 0: none is read.
        where: an SQL condition on rows, evaluated as the role of the agent; "" for every row.
        assume_approved: execute calls that would wait for approval.
        at: the primary key of the one row, by column; empty: any row.
        patience: for each statement that reads a table to find what has changed; a table that
            takes longer is read for no later row.  None: no table is read.
    """

    last: int = 3
    where: str = ""
    assume_approved: bool = False
    at: Mapping[str, str] = field(default_factory=dict[str, str])
    patience: LiteralString | None = PATIENCE


@dataclass(frozen=True, slots=True)
class TriedRow:
    """What a run on one row would do.

    Args:
        key: of the row.
        run: as `store.listings.show_run` returns it; None: the condition is not true for the row.
        not_called: calls of tools that act outside the database.
    """

    key: str
    run: Mapping[str, Any] | None
    changes: Changes = field(default_factory=lambda: Changes((), {}))
    not_called: Sequence[NotCalled] = ()


@dataclass(frozen=True)
class Trial:
    """An agent that is attached in a transaction, and the rows to try it on."""

    conn: Connection
    outside: Connection
    resources: Resources
    reader: RoleReader
    attachment: Attachment
    model: ModelSpec
    rows: Sequence[PresentRow]
    limits: SizeLimits
    options: TrialOptions
    tenant: str | None = None  # of the person who tries; None: all
    slow: dict[str, str] = field(default_factory=dict[str, str])  # tables that are not compared

    async def first_cost(self) -> Decimal | None:
        """Return what the first call for one row can cost at most; None: unknown."""
        with translating():
            for row in self.rows:
                run = await self.run_of(row)
                if run is not None and not run.get("error"):
                    return await self.cost_of_first(run)
        return Decimal(0)

    async def try_row(self, row: PresentRow) -> TriedRow:
        """Execute the run of a row, and take it back.

        Raises:
            WalagentError: the database is lost, the model cannot be called, or the row names no
                tenant in which who tries it may act.
        """
        with translating():
            if (run := await self.run_of(row)) is None:
                return TriedRow(row.key, None)
            if run.get("error"):
                raise PreconditionError(f"row {row.key}: {run['error']['reason']}")
            return await self.execute(row.key, run)

    async def execute(
        self,
        key: str,
        run: Mapping[str, Json],
        merged: Sequence[Mapping[str, Any]] = (),
        before: "Callable[[Connection, Claim], Awaitable[None]] | None" = None,
    ) -> TriedRow:
        """Execute a run, and take it back.

        Args:
            key: of the row.
            run: as `store.trials.start_run` takes it.
            merged: the later changes that debounce merged into it.
            before: what is done in its savepoint first.

        Raises:
            WalagentError: the database is lost, or the model cannot be called.
        """
        with translating():
            async with self._savepoint():
                claim = await trials.start_run(self.conn, self.attachment, run, merged)
                if before is not None:
                    await before(self.conn, claim)
                    await trials.renew_session(self.conn, ())
                spec = self._spec(claim)
                attempt = RunAttempt(
                    self.resources, claim, lambda: _ready(spec), cancelled=lambda: False
                )
                await attempt.make()
                if isinstance(attempt.error, _FOR_ALL):
                    raise attempt.error
                await trials.renew_session(self.conn, ())
                shown = await listings.show_run(self.conn, claim.run_id)
                changes = Changes((), {})
                if (patience := self.options.patience) is not None:
                    changes = await changed_rows(self.conn, self.outside, patience, self.slow)
        left_out = calls_not_made(attempt.steps, spec.agent, claim.last)
        return TriedRow(key, shown, changes, list(left_out))

    async def run_of(self, row: PresentRow) -> Mapping[str, Json] | None:
        """Return the run of a row, if the condition is true; evaluated as intake does it.

        It has an `error` if the row names no tenant in which who tries it may act.
        """
        async with self._savepoint():
            found = await runs_of(
                Evaluator(self.conn, self.reader), self.attachment, [row], self.limits
            )
            placed = await place_rows(self.conn, found)
        if not placed:
            return None
        run, own = placed[0], self.tenant or placed[0].get("tenant")
        if own != run.get("tenant", own):
            return {**run, "error": {"reason": f'it is of tenant "{run["tenant"]}"'}}
        return run

    async def cost_of_first(self, run: Mapping[str, Json]) -> Decimal | None:
        """Return what the first call of a run can cost at most; None: unknown."""
        async with self._savepoint():
            claim = await trials.start_run(self.conn, self.attachment, run)
            spec = self._spec(claim)
            decider = self.resources.kinds["agent"].decider
            request = await decider.render(spec, (), Prompt(), self.model)
        return worst_case_cost(request, self.model)

    def _spec(self, claim: Claim) -> RunSpec:
        found = self.attachment
        agent = replace(found.agent, control=0.0)  # a trial is compared as a whole
        if self.options.assume_approved:
            tools = tuple(replace(tool, approval=False) for tool in agent.tools)
            agent = replace(agent, tools=tools)
        # A recorded change is of then: what became of its row since decides nothing.
        target = replace(found.target, only_unchanged=False)
        return RunSpec(claim, agent, found.authority, target, found.name)

    @asynccontextmanager
    async def _savepoint(self) -> AsyncGenerator[None]:
        async with self.conn.transaction(force_rollback=True):
            await trials.renew_session(self.conn, ())
            yield


async def _ready(spec: RunSpec) -> RunSpec:
    return spec


def _as_it_is(model: Model) -> Model:
    return model


@dataclass(frozen=True, slots=True)
class Outside:
    """What a trial reaches outside of its transaction.

    Args:
        servers: answers instead of MCP servers and tools over HTTP.
        python: replaces the functions that act outside the database.
        services: what built-in tools use.
        model: what is asked instead of a model.
    """

    servers: Servers = field(default_factory=NoCalls)
    python: Callable[[Mapping[str, PythonTool]], Mapping[str, PythonTool]] = harmless
    services: Callable[[NamedEmbedder | None], Services] = Services
    model: Callable[[Model], Model] = _as_it_is


class _Models:
    """The models that runs and their tools name, made when they are first asked."""

    def __init__(self, specs: Mapping[str, ModelSpec], outside: Outside) -> None:
        self._specs = specs
        self._outside = outside
        self._made: dict[str, Model] = {}

    def get(self, name: str) -> Model:
        if name not in self._made:
            if name not in self._specs:
                raise ConfigError(f'model "{name}" does not exist, or is disabled')
            self._made[name] = self._outside.model(make_model(self._specs[name]))
        return self._made[name]

    async def aclose(self) -> None:
        for model in self._made.values():
            await model.aclose()


@asynccontextmanager
async def open_trial(
    dsn: str, wanted: Wanted, options: TrialOptions, beyond: Outside | None = None
) -> AsyncGenerator[Trial]:
    """Attach the agent in a transaction that is rolled back, and read the rows.

    Args:
        beyond: what is reached outside of the transaction; None: models alone.

    Raises:
        ConfigError: the agent, table or condition does not exist or is not valid.
        PreconditionError, ModelUnauthorizedError: a privilege or a key is missing.
    """
    async with AsyncExitStack() as stack:
        with translating():
            outside = await stack.enter_async_context(
                await connect(dsn, application="walagent try")
            )
            conn = await stack.enter_async_context(open_held(dsn))
            attachment = await attach_for_trial(conn, wanted)
            specs = await attachments.load_models(conn)
            key = await attachments.secret_key(conn)
            pool = HeldPool(conn, await trials.deferred_constraints(conn))
            login = await read_login(conn)
            reader = HeldReader(conn, login)
            rows = await _read(conn, reader, attachment, options) if options.last else ()
        beyond = beyond or Outside()
        models = _Models(specs, beyond)
        stack.push_async_callback(models.aclose)
        spec = models.get(attachment.agent.model).spec
        changes = wanted.config.changes
        limits = SizeLimits(changes.max_value, changes.max_row)
        python = beyond.python(find_tools(wanted.config.tools.modules))
        calls = ToolConnections(pool, pool, login, partial(_beside, dsn))
        services = beyond.services(embedder_of(wanted.config))
        toolbox = Toolbox(
            calls, python, servers=beyond.servers, http=beyond.servers, services=services
        )
        made = agent_resources(pool, toolbox, models.get, key, limits)
        kinds = {name: replace(kind, patience=_PATIENCE) for name, kind in made.kinds.items()}
        resources = replace(made, kinds=kinds)
        tenant = wanted.actor and wanted.actor.tenant
        yield Trial(
            conn, outside, resources, reader, attachment, spec, rows, limits, options, tenant
        )


@asynccontextmanager
async def _beside(dsn: str) -> AsyncGenerator[Connection]:
    """Connect outside of the trial's transaction, to check what is read in it."""
    async with await connect(dsn, application="walagent try") as conn:
        yield conn


async def _read(
    conn: Connection, reader: RoleReader, attachment: Attachment, options: TrialOptions
) -> list[PresentRow]:
    """Read the rows that the role of the agent can see, the last ones by key first.

    A column that it cannot read is left out; what the agent is shown, it can.
    """
    target, run_as = attachment.target, attachment.authority.run_as
    if not target.key_columns:
        raise ConfigError(
            f"{target.schema}.{target.table} has no primary key",
            hint="A trial needs one to choose rows, and an agent to write them.",
        )
    columns = await tables.readable_columns(conn, target.relation_oid, run_as)
    trigger, readable = attachment.trigger, {name for name, _ in columns}
    needed = {*trigger.condition_columns}
    if trigger.whole_row:
        needed |= {name for name, _ in await tables.columns_of(conn, target.relation_oid)}
    if hidden := needed - readable:
        name = min(hidden)
        raise ConfigError(
            f'role "{run_as}" lacks SELECT on column "{name}", which the condition reads',
            hint=f"A trial reads rows as this role. Run grant select ({name})"
            f" on {target.schema}.{target.table} to {run_as}.",
        )
    names = [sql.Identifier("t", name) for name, _ in columns]
    keys = [sql.Identifier("t", name) for name in target.key_columns]
    where = sql.SQL("where ({})").format(sql.SQL(options.where)) if options.where else sql.SQL("")  # pyright: ignore[reportArgumentType]
    if options.at:
        if set(options.at) != set(target.key_columns):
            raise ConfigError(f"expected the primary key: {', '.join(target.key_columns)}")
        equal = [
            sql.SQL("{} = {}").format(key, options.at[n])
            for key, n in zip(keys, target.key_columns, strict=True)
        ]
        where = sql.SQL("where {}").format(sql.SQL(" and ").join(equal))
    statement = sql.SQL(
        "select json_agg((part.*)::text)::text"
        " from (select {} from {} t {} order by {} limit {}) part"
    ).format(
        sql.SQL(", ").join(names),
        sql.Identifier(*target.relation),
        where,
        sql.SQL(", ").join(sql.SQL("{} desc").format(key) for key in keys),
        sql.Literal(options.last),
    )
    found = await reader.read(
        RoleStatement(run_as, statement.as_bytes(conn), timeout="0", actor=attachment.actor)
    )
    return [present_row(attachment, columns, text) for text in json.loads(found or "[]")]
