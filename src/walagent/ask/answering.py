"""Build what answers questions: connections, the analyst role, a model, the schema."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from walagent.ask.asking import Asker, asking_as
from walagent.ask.catalog import Catalog, CatalogSettings
from walagent.ask.health import Breaker, Health
from walagent.ask.model_choice import check_applied, choose_model
from walagent.ask.options import Options
from walagent.ask.question import AskResources
from walagent.ask.search import Searcher, SearchSpec, make_searcher
from walagent.ask.statements import Statements
from walagent.ask.vectors import Vectors
from walagent.config import AskSettings
from walagent.config.dsn import Places
from walagent.config.environment import Environment
from walagent.errors import ConfigError, PreconditionError
from walagent.guard.analysis import EXTENSION, Allowlist
from walagent.guard.outlet import open_outlet
from walagent.guard.query import Connection, Guard
from walagent.guard.read_limits import ReadLimits
from walagent.guard.role import check_login, check_role
from walagent.message import ModelSpec
from walagent.models import build_model, make_model
from walagent.models.model import Model
from walagent.models.registry import load_embedder
from walagent.store import attachments
from walagent.store.errors import translating
from walagent.store.install.identity import check_standby
from walagent.store.install.pooling import check_pooling
from walagent.store.sessions.acting import Identity, identity_of_token
from walagent.store.sessions.connections import Pool, answers, connect, open_pool
from walagent.store.sessions.process_name import process_name
from walagent.store.sessions.roles import set_role
from walagent.telemetry.mask import hide

_SEARCH_KEYS: Final = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}


@dataclass(frozen=True, slots=True)
class ReadResources:
    """Resources for reading: connections of the login and of the analyst role, and the schema."""

    pool: Pool
    statements: Statements
    catalog: Catalog


@asynccontextmanager
async def open_asker(  # noqa: PLR0913 - where, how, with which model
    places: Places,
    settings: AskSettings,
    options: Options,
    *,
    model: str | ModelSpec | None = None,
    api_key: str | None = None,
    health: Health | None = None,
) -> AsyncGenerator[Asker]:
    """Open all resources for answering; they are closed at the end of the block.

    Args:
        model: its name, or a model without a row of `agent.model`.
        api_key: the model's key; default: the key that its credential names.
        health: circuit breakers that outlive the asker.

    Raises:
        PreconditionError: the analyst role is missing or can write.
        ConfigError: the model does not exist.
        CircuitBreakerOpenError: the database failed several times.
    """
    health = health or Health()
    async with (
        open_reading(places, settings, health.database) as reading,
        AsyncExitStack() as stack,
    ):
        chosen, lacking = None, None
        specs = await _specs(reading.pool, model)
        try:
            wanted = model or settings.model
            if not isinstance(wanted, ModelSpec):
                check_applied(settings.declared, specs, wanted)
            spec = _chosen(specs, wanted)
        except PreconditionError as error:
            lacking = error
        else:
            chosen = health.models.wrap(_made(spec, api_key))
            stack.push_async_callback(chosen.aclose)
        resources = AskResources(
            reading.pool,
            reading.statements,
            chosen,
            reading.catalog,
            settings.rows,
            settings.history_chars,
            lacking=lacking,
        )
        yield Asker(resources, options, name=process_name())


async def _specs(pool: Pool, model: str | ModelSpec | None) -> Mapping[str, ModelSpec]:
    if isinstance(model, ModelSpec):
        return {}
    with translating():
        async with pool.connection() as conn:
            with asking_as(conn.info.user):
                return await attachments.load_models(conn)


def _chosen(specs: Mapping[str, ModelSpec], model: str | ModelSpec | None) -> ModelSpec:
    return model if isinstance(model, ModelSpec) else choose_model(specs, model)


@asynccontextmanager
async def open_reading(
    places: Places, settings: AskSettings, breaker: Breaker | None = None
) -> AsyncGenerator[ReadResources]:
    """Open the resources for reading, without a model; closed at the end of the block.

    Raises:
        PreconditionError: the analyst role is missing or can write, or vectors are unavailable.
    """
    breaker = breaker or Breaker()
    identity = identity_of_token(places.token) if places.token else None
    async with AsyncExitStack() as stack:
        with translating():
            # Before the pool, which retries if the server is unreachable or rejects the login.
            with breaker.watching():
                guards = _Guards(stack, places, settings, identity)
                first = await stack.enter_async_context(guards.open())
            pool = await stack.enter_async_context(
                open_pool(places.dsn, size=3, application="walagent ask", identity=identity)
            )
        statements = Statements(
            [first],
            searcher=searcher_of(settings),
            opening=lambda: stack.enter_async_context(guards.open()),
            most=settings.connections,
            breaker=breaker,
        )
        shown = CatalogSettings(
            settings.schemas, settings.schema_chars, settings.samples, settings.no_samples
        )
        vectors = await _vectors(pool) if settings.vectors else None
        yield ReadResources(pool, statements, Catalog(pool, statements, shown, vectors))


async def _vectors(pool: Pool) -> Vectors:
    vectors = Vectors(pool, load_embedder())
    with translating():
        await vectors.check()
    return vectors


def searcher_of(settings: AskSettings, environment: Environment | None = None) -> Searcher | None:
    """Build the web search that the configuration names, if any.

    Raises:
        ConfigError: the key is not set, or a library is not installed.
    """
    if (search := settings.search) is None:
        return None
    key, name = None, search.credential or _SEARCH_KEYS.get(search.provider)
    if name is not None:
        key = (environment or Environment.of_process()).find(name)
        if key is None:
            raise ConfigError(
                f"ask.search: key {name} of {search.provider} is not set",
                hint=f"Set the environment variable {name}, or load it as a systemd credential.",
            )
    return make_searcher(
        SearchSpec(search.provider, key, search.base_url or "", search.results, search.timeout)
    )


def _made(spec: ModelSpec, api_key: str | None) -> Model:
    if api_key is None:
        return make_model(spec)
    return build_model(replace(spec, credential="API_KEY"), environ={"API_KEY": api_key})


class _Guards:
    """Opens guards for a login, which share a connection that sets no role."""

    def __init__(
        self,
        stack: AsyncExitStack,
        places: Places,
        settings: AskSettings,
        identity: Identity | None,
    ) -> None:
        self._stack = stack
        self.places = places
        self.settings = settings
        self._identity = identity
        self._shared: Connection | None = None

    async def _worker(self) -> Connection:
        """Return the shared connection, on which nothing of others is executed."""
        if self._shared is None or not await answers(self._shared):
            self._shared = await self._connect(self._stack, self.places.dsn)
        return self._shared

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Guard]:
        """Connect, also to the standby if there is one, and set the analyst role."""
        settings, dsn = self.settings, self.places.dsn
        async with AsyncExitStack() as stack:
            conn = await self._connect(stack, dsn)
            await _check_writable(conn)
            allowed = await _allowlist(conn, settings.functions)
            place = _standby_dsn(settings.standby_dsn, conn)
            standby = await _open_standby(stack, conn, place)
            for each in filter(None, (conn, standby)):
                await _assume(each, settings.role)
                await check_role(each)
            outlet = await open_outlet(
                stack,
                await self._worker(),
                settings.role,
                connecting=lambda: self._connect(stack, place or dsn),
                tools_dsn=self._tools_dsn(place),
            )
            limits = ReadLimits(
                rows=settings.rows,
                seconds=settings.seconds,
                cost=settings.cost,
                cost_setting=" (ask.cost)",
            )
            if standby is None:
                yield Guard(conn, allowed=allowed, limits=limits, outlet=outlet)
            else:
                yield Guard(standby, analyst=conn, allowed=allowed, limits=limits, outlet=outlet)

    async def _connect(self, stack: AsyncExitStack, dsn: str) -> Connection:
        return await _connect(stack, dsn, self._identity)

    def _tools_dsn(self, standby: str | None) -> str:
        """Return how the tools' login reaches the server that executes; "": as this login does."""
        given = self.places.tools_dsn
        if standby is None:
            return given
        place, login = conninfo_to_dict(standby), conninfo_to_dict(given)
        named = {"user": login.get("user"), "password": login.get("password")}
        return make_conninfo("", **{**place, **named})


async def _connect(stack: AsyncExitStack, dsn: str, identity: Identity | None = None) -> Connection:
    conn = await stack.enter_async_context(
        await connect(dsn, application="walagent analyst", identity=identity)
    )
    await check_pooling(conn, dsn)
    return conn


def _standby_dsn(dsn: str | None, primary: Connection) -> str | None:
    """Return the connection string of the standby; its database is that of the primary.

    Raises:
        ConfigError: the connection string is invalid.
    """
    if dsn is None:
        return None
    try:
        dsn = make_conninfo(dsn, dbname=primary.info.dbname)
    except ProgrammingError:  # whose message quotes the string
        raise ConfigError("ask.standby_dsn is not a valid connection string") from None
    if password := conninfo_to_dict(dsn).get("password"):
        hide(str(password))
    return dsn


async def _open_standby(
    stack: AsyncExitStack, primary: Connection, dsn: str | None
) -> Connection | None:
    """Connect to the standby.

    Raises:
        PreconditionError: the server is no standby of the primary.
    """
    if dsn is None:
        return None
    conn = await _connect(stack, dsn)
    await check_standby(conn, primary)
    return conn


async def _allowlist(conn: Connection, functions: Sequence[str]) -> Allowlist:
    """Return what the operator allows, while *conn* is still the login.

    Raises:
        PreconditionError: a function is listed by name, and the login can write.
    """
    if not functions:
        return Allowlist()
    try:
        await check_login(conn)
    except PreconditionError:
        if any(not each.startswith(EXTENSION) for each in functions):
            raise
        return Allowlist(functions, compiled_only=True)
    return Allowlist(functions)


async def become(conn: Connection, role: str) -> None:
    """Set the analyst role, unless the login is that role.

    Raises:
        PreconditionError: the role does not exist, or the login is not a member of it; or the
            database is read-only.
    """
    await _check_writable(conn)
    await _assume(conn, role)


async def _assume(conn: Connection, role: str) -> None:
    found = await conn.execute(
        "select rolname = current_user, pg_has_role(oid, 'member')"
        " from pg_roles where rolname = %s",
        [role],
    )
    row = await found.fetchone()
    if row is None:
        raise PreconditionError(
            f'role "{role}" does not exist',
            hint=f"Run walagent database setup, which creates it; or: {how_to_make(role)}",
        )
    is_me, is_member = row
    if not (is_me or is_member):
        raise PreconditionError(
            f'the login is not a member of role "{role}"',
            hint=f"grant {role} to {conn.info.user};",
        )
    if not is_me:
        await set_role(conn, role)


async def _check_writable(conn: Connection) -> None:
    """Check that questions can be stored, and views be created to analyze statements."""
    found = await conn.execute("select pg_is_in_recovery()")
    (standby,) = await found.fetchone() or (False,)
    if standby:
        raise PreconditionError(
            "cannot ask a read-only database: server is in recovery",
            hint="Use the primary, where questions are stored with their steps; name the standby in"
            " ask.standby_dsn.",
        )


def how_to_make(role: str) -> str:
    """Return the SQL that creates an analyst role."""
    return (
        f"create role {role}; grant usage on schema public to {role};"
        f" grant select on all tables in schema public to {role};"
    )
