"""Where a checked statement is executed: not on a session whose login could do more.

Planning and executing a statement runs code of the owners of its tables: expressions of indexes and
statistics, partition keys, policies, defaults.  On a session whose role was set, that code sets it
back and is the login.  So it is executed in the trampoline of the role: on a connection of the
tools' login, or, for a login that only asks, in transactions that are rolled back.
"""

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol

from psycopg import AsyncConnection

from walagent.domain.tenant import Actor
from walagent.errors import PreconditionError
from walagent.guard.read_limits import ReadLimits
from walagent.guard.role import check_role
from walagent.rows.rows import Texts
from walagent.store.member_reader import MemberReader
from walagent.store.queries import query
from walagent.store.role_reader import RoleReader, RoleStatement
from walagent.store.sessions.step_session import split_record

Connection = AsyncConnection[Any]

# Whether a login can sign for the tools' login, and whether it can use a trampoline by itself.
_RIGHTS: Final = """
select bool_or(has_schema_privilege(n.oid, 'usage') and has_table_privilege(c.oid, 'select')),
       bool_or(has_schema_privilege(n.oid, 'usage') and has_function_privilege(p.oid, 'execute'))
  from pg_catalog.pg_namespace n
       left join pg_catalog.pg_class c on c.relnamespace = n.oid and c.relname = 'secret'
       left join pg_catalog.pg_proc p on p.pronamespace = n.oid and p.proname = 'read_as_member'
 where n.nspname = 'agent_internal'
"""
_OTHER_LOGIN: Final = "create role walagent_asker login; grant {role} to walagent_asker"
_MOST: Final = 3  # reasons in an error
_ACTOR: Final = "select tenant, principal, scopes from agent_internal.identity()"


class Reader(Protocol):
    """Executes statements as a role that code of others cannot leave."""

    @property
    def connections(self) -> Sequence[Connection]:
        """The connections on which it executes."""
        ...

    async def read(self, statement: RoleStatement) -> str | None:
        """Execute a statement."""
        ...


class Outlet:
    """Executes statements as one role."""

    def __init__(
        self, reader: Reader, role: str, zone: str = "UTC", actor: Actor | None = None
    ) -> None:
        """Take what executes.

        Args:
            zone: the time zone in which times are written.
            actor: as whom code of others acts; None: as nobody, or as the login.
        """
        self._reader = reader
        self._role = role
        self._zone = zone
        self._actor = actor

    @property
    def connections(self) -> Sequence[Connection]:
        """The connections on which it executes."""
        return self._reader.connections

    async def stream(self, text: str, limits: ReadLimits, path: str) -> AsyncGenerator[Texts]:
        """Yield the rows of a statement, as texts."""
        seconds, lock = (f"{round(s * 1000)}ms" for s in (limits.seconds, limits.lock_seconds))
        statement = RoleStatement(
            self._role,
            text.encode(),
            timeout=seconds,
            actor=self._actor,
            rows=True,
            path=path,
            settings={
                "lock_timeout": lock,
                "row_security": "on",
                "standard_conforming_strings": "on",
                "transform_null_equals": "off",
                "extra_float_digits": "1",
                "timezone": self._zone,
            },
        )
        found = await self._reader.read(statement)
        for record in json.loads(found or "{}").get("rows", ()):
            yield tuple(split_record(record))


async def open_outlet(
    stack: AsyncExitStack,
    worker: Connection,
    role: str,
    *,
    connecting: Callable[[], Awaitable[Connection]],
    tools_dsn: str = "",
) -> Outlet | None:
    """Open what executes statements as *role* for a login; *stack* closes it.

    Args:
        worker: a connection of the login, which has set no role.
        connecting: opens another one, to the server that executes.
        tools_dsn: of the tools' login, if it is set, on that server.

    Returns:
        None: the login can only read, and nothing that the role cannot: its own session may
            execute them.

    Raises:
        PreconditionError: the login can do more, and there is no other place.
    """
    signs, asks = await (await worker.execute(_RIGHTS)).fetchone() or (None, None)
    zone = worker.info.parameter_status("TimeZone") or "UTC"
    if signs:
        reader = RoleReader(worker, lambda: tools_dsn)
        stack.push_async_callback(reader.aclose)
        await reader.open(role)
        found = await (await worker.execute(_ACTOR)).fetchone()
        actor = found and Actor(found[0], found[1], tuple(found[2]))
        return Outlet(reader, role, zone, actor)
    if asks:
        outlet = Outlet(MemberReader(await connecting(), worker), role, zone)
        await anext(outlet.stream("select", ReadLimits(), ""), None)
        return outlet
    login = worker.info.user
    found = await worker.execute(query("more_than_role"), {"role": role})
    if more := [each for (each,) in await found.fetchmany(_MOST)]:
        instead = f"select agent.grant_asker('{login}')" if signs is not None else _OTHER_LOGIN
        raise PreconditionError(
            f'login "{login}" can read more than role "{role}", which code of the owners of tables'
            f" could use: {', '.join(more)}",
            hint=f"As a superuser: {instead.format(role=role)};",
        )
    try:
        await check_role(worker)
    except PreconditionError as error:
        raise PreconditionError(
            f'login "{login}" can do more than read, which code of the owners of tables could'
            f" use: {error}",
            hint=f"Connect as a login that can only read: {_OTHER_LOGIN.format(role=role)};",
        ) from error
    return None
