"""Compose live sync: shapes from the reader's stream, served by the daemon's HTTP server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from walagent.config import Sync
from walagent.config.dsn import Logins
from walagent.config.environment import Environment
from walagent.console.declared import declared_queries
from walagent.errors import ConfigError
from walagent.http.signed_tokens import FindIdentity
from walagent.replication.fan_out import FanOut
from walagent.store.sessions.acting import identity_of_token
from walagent.sync.app import ShapeApp, SyncSettings
from walagent.sync.engine import ShapeEngine
from walagent.sync.limits import EngineLimits
from walagent.sync.principals import TokenCheck
from walagent.sync.query import NamedQuery


def own_queries(settings: Sync) -> dict[str, NamedQuery]:
    """Return the queries of the file."""
    return {
        name: NamedQuery(name, entry.query, entry.key, entry.parameters, entry.run_as)
        for name, entry in settings.shapes.items()
    }


@dataclass(frozen=True, slots=True)
class LiveSync:
    """The engine, which follows the stream, and the application, which answers requests."""

    engine: ShapeEngine
    app: ShapeApp
    queries: Mapping[str, NamedQuery]

    async def judge(self) -> None:
        """Log the shapes of the file that cannot be served."""
        await self.engine.queries.judge(self.queries.values())


def make_sync(
    settings: Sync,
    logins: Logins,
    fan_out: FanOut,
    find: FindIdentity = identity_of_token,
    *,
    is_followed: Callable[[], bool] = lambda: True,
) -> LiveSync:
    """Create both.

    Args:
        find: finds the identity of a token.
        is_followed: whether the stream is open.

    Raises:
        ConfigError: the secret is not set.
    """
    secret = None if settings.secret is None else Environment.of_process().find(settings.secret)
    if settings.open and not secret:
        raise ConfigError(
            f"sync.secret: {settings.secret} is not set",
            hint="Set the variable, or the systemd credential of that name.",
        )
    limits = EngineLimits(
        chunk_bytes=settings.chunk,
        log_bytes=settings.max_log,
        of_principal=settings.max_shapes,
        total_bytes=settings.max_memory,
    )
    engine = ShapeEngine(
        logins.dsn,
        fan_out,
        limits,
        logins.tools_dsn,
        rows_dsn=logins.rows_dsn,
        is_followed=is_followed,
    )
    serves = SyncSettings(
        tables=frozenset(settings.open),
        queries=own_queries(settings)
        | {
            each.name: NamedQuery(each.name, each.text, each.key, each.parameters)
            for each in declared_queries()
        },
        secret=secret,
        public=settings.cache == "public",
    )
    app = ShapeApp(engine, serves, TokenCheck(engine.connection, find))
    return LiveSync(engine, app, own_queries(settings))
