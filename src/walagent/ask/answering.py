"""Builds what answers questions: the state's connections, the analyst's, a model, the schema."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Final

from walagent.agent.model import Model
from walagent.agent.models import build_model, make_model
from walagent.agent.models.limits import Limits
from walagent.agent.models.registry import can_plan, load_embedder
from walagent.ask.asking import Asker
from walagent.ask.catalog import Catalog, Settings
from walagent.ask.options import Options
from walagent.ask.question import Desk
from walagent.ask.search import Searcher, SearchSpec, make_searcher
from walagent.ask.statements import Statements
from walagent.ask.vectors import Vectors
from walagent.config import AskSettings
from walagent.config.dsn import Places
from walagent.config.environment import Environment
from walagent.errors import ConfigError, PreconditionError
from walagent.guard.query import Connection, Guard, ReadLimits
from walagent.guard.role import check_role
from walagent.message import ModelSpec
from walagent.store import attachments
from walagent.store.connections import Pool, connect, open_pool
from walagent.store.errors import translating
from walagent.store.process_name import process_name
from walagent.store.roles import set_role

# Models that may be named without a row of `agent.model`; a row of the name goes before.
GEMINI: Final = ModelSpec(
    "gemini",
    "openai",
    "gemini-2.5-flash",
    base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
    credential="GEMINI_API_KEY",
    context_window=1_000_000,
    max_output_tokens=8192,
)
_BUILT_IN: Final = {GEMINI.name: GEMINI}
_SEARCH_KEYS: Final = {"brave": "BRAVE_API_KEY", "tavily": "TAVILY_API_KEY"}


@dataclass(frozen=True, slots=True)
class Reading:
    """What reading takes: the state's connections, the analyst's, and the schema."""

    pool: Pool
    statements: Statements
    catalog: Catalog


@asynccontextmanager
async def open_asker(
    places: Places,
    settings: AskSettings,
    options: Options,
    *,
    model: str | ModelSpec | None = None,
    api_key: str | None = None,
) -> AsyncGenerator[Asker]:
    """Open everything that answering takes; closed at the end of the block.

    Args:
        model: its name, where somebody says; or a model that is in no registry.
        api_key: the model's key, instead of what its credential names.

    Raises:
        PreconditionError: the analyst is missing, or could write; there is no model.
        ConfigError: there is no model of that name.
    """
    async with open_reading(places, settings) as reading, AsyncExitStack() as stack:
        if not isinstance(model, ModelSpec):
            with translating():
                async with reading.pool.connection() as conn:
                    specs = await attachments.load_models(conn)
            model = choose_model(specs, model or settings.model)
        chosen = Limits().wrap(_made(model, api_key))
        stack.push_async_callback(chosen.aclose)
        desk = Desk(
            reading.pool,
            reading.statements,
            chosen,
            reading.catalog,
            settings.rows,
            settings.history_chars,
        )
        yield Asker(desk, options, name=process_name())


@asynccontextmanager
async def open_reading(places: Places, settings: AskSettings) -> AsyncGenerator[Reading]:
    """Open what reading takes, without a model; closed at the end of the block.

    Raises:
        PreconditionError: the analyst is missing, or could write; there is nothing for vectors.
    """
    async with AsyncExitStack() as stack:
        with translating():
            # Before the pool, which would go on trying where nobody listens or lets us in.
            guards = [
                await stack.enter_async_context(_guard(places.dsn, settings))
                for _ in range(settings.connections)
            ]
            pool = await stack.enter_async_context(
                open_pool(places.dsn, size=3, application="walagent ask")
            )
        statements = Statements(guards, searcher=searcher_of(settings))
        shown = Settings(
            settings.schemas, settings.schema_chars, settings.samples, settings.no_samples
        )
        vectors = await _vectors(pool) if settings.vectors else None
        yield Reading(pool, statements, Catalog(pool, statements, shown, vectors))


async def _vectors(pool: Pool) -> Vectors:
    vectors = Vectors(pool, load_embedder())
    with translating():
        await vectors.check()
    return vectors


def searcher_of(settings: AskSettings, environment: Environment | None = None) -> Searcher | None:
    """Make what searches the web, where the configuration wants that.

    Raises:
        ConfigError: there is no key of that name; a library is not installed.
    """
    if (search := settings.search) is None:
        return None
    key, name = None, search.credential or _SEARCH_KEYS.get(search.provider)
    if name is not None:
        key = (environment or Environment.of_process()).find(name)
        if key is None:
            raise ConfigError(
                f"ask.search: {search.provider} needs a key, and there is none called {name}",
                hint=f"set the environment variable {name}, or LoadCredential={name}:… in the unit",
            )
    return make_searcher(
        SearchSpec(search.provider, key, search.base_url or "", search.results, search.timeout)
    )


def _made(spec: ModelSpec, api_key: str | None) -> Model:
    if api_key is None:
        return make_model(spec)
    return build_model(replace(spec, credential="API_KEY"), environ={"API_KEY": api_key})


def choose_model(specs: Mapping[str, ModelSpec], name: str | None) -> ModelSpec:
    """Choose the model that is named, or the only one there is."""
    if name is not None:
        known = {**_BUILT_IN, **specs}
        if name not in known:
            names = ", ".join(sorted(known))
            raise ConfigError(f'there is no model "{name}"; there are: {names}')
        return known[name]
    fit = [spec for spec in specs.values() if can_plan(spec)]
    if len(fit) == 1:
        return fit[0]
    if fit:
        raise PreconditionError(
            f"which of the {len(fit)} registered models should answer?",
            hint="say --model NAME, or ask.model in agents.yaml; walagent models lists them",
        )
    raise PreconditionError(
        "no registered model can answer questions",
        hint="insert into agent.model (name, provider, model_id, credential) values"
        " ('gpt-4o', 'openai', 'gpt-4o', 'OPENAI_API_KEY');",
    )


@asynccontextmanager
async def _guard(dsn: str, settings: AskSettings) -> AsyncGenerator[Guard]:
    """Connect as the analyst: as the role, where the login is another one."""
    async with await connect(dsn, application="walagent analyst") as conn:
        await become(conn, settings.role)
        await check_role(conn)
        limits = ReadLimits(rows=settings.rows, seconds=settings.seconds, cost=settings.cost)
        yield Guard(conn, limits=limits)


async def become(conn: Connection, role: str) -> None:
    """Take the analyst's role on, unless the login has it already.

    Raises:
        PreconditionError: there is no such role, or the login is no member of it.
    """
    found = await conn.execute(
        "select rolname = current_user, pg_has_role(oid, 'member')"
        " from pg_roles where rolname = %s",
        [role],
    )
    row = await found.fetchone()
    if row is None:
        raise PreconditionError(f'there is no role "{role}"', hint=how_to_make(role))
    is_me, is_member = row
    if not (is_me or is_member):
        raise PreconditionError(
            f'this login may not act as "{role}"',
            hint=f"grant {role} to {conn.info.user};",
        )
    if not is_me:
        await set_role(conn, role)


def how_to_make(role: str) -> str:
    """Say how an analyst is made."""
    return (
        f"create role {role}; grant usage on schema public to {role};"
        f" grant select on all tables in schema public to {role};"
    )
