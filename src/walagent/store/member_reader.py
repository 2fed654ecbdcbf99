"""Execute statements as a role of which the login is a member, in the role's trampoline.

For a login that asks and cannot sign.  Code of the tables' owners has the role's rights for as long
as it is executed, and cannot become the login; what it left in the session is discarded.
"""

from collections.abc import Sequence
from typing import Any, Final

from psycopg import AsyncConnection, Error
from psycopg.errors import InsufficientPrivilege
from psycopg.types.json import Jsonb

from walagent.base.retries import CONFLICT, repeat
from walagent.errors import PreconditionError
from walagent.store.role_reader import SETTINGS, RoleStatement
from walagent.store.sessions.tool_connections import DISCARD
from walagent.store.trampolines import TRAMPOLINE_LOST

Connection = AsyncConnection[Any]

_REPLAY: Final = 10.0  # seconds
_SET: Final = "select set_config(s.key, s.value, true) from jsonb_each_text(%s) s"
_MAKE: Final = "select agent_internal.make_trampoline_of_member(%s)"
_READ: Final = "select agent_internal.read_as_member(%s, %s, %s)"


class MemberReader:
    """Reads on a connection of the login, for this object alone.

    Args:
        conn: to the server that executes, which can be a standby.
        worker: of the same login, to the primary.
    """

    def __init__(self, conn: Connection, worker: Connection) -> None:
        conn.prepare_threshold = None  # code of others can replace what is prepared
        self._conn = conn
        self._worker = worker

    @property
    def connections(self) -> Sequence[Connection]:
        """The connection on which statements are executed."""
        return [self._conn]

    async def read(self, statement: RoleStatement) -> str | None:
        """Execute a statement in a transaction that is rolled back; the result must be rows.

        Raises:
            psycopg.Error: raised by the statement; or the role has no privilege.
            PreconditionError: the role has no trampoline, and the owner of the schema cannot make
                it.
        """
        try:
            return await self._read(statement)
        except Error as error:
            if not _is_lost(error):
                raise
        try:
            async with self._worker.transaction():
                await self._worker.execute(_MAKE, [statement.run_as])
        except InsufficientPrivilege as error:
            raise PreconditionError(
                f'role "{statement.run_as}" has no function through which it reads',
                hint="As a superuser, run walagent database setup --no-slot.",
                sqlstate=error.sqlstate,
            ) from error
        # A standby has it a little later.
        return await repeat(lambda: self._read(statement), _is_lost, wait=CONFLICT, within=_REPLAY)

    async def _read(self, statement: RoleStatement) -> str | None:
        settings = {"statement_timeout": statement.timeout, **statement.settings}
        try:
            await self._conn.execute(f"begin; {SETTINGS}".encode())
            await self._conn.execute(_SET, [Jsonb(settings)])
            given = [statement.run_as, statement.text.decode(), statement.path]
            row = await (await self._conn.execute(_READ, given)).fetchone()
        finally:
            if not self._conn.closed:
                await self._discard()
        return row[0] if row else None

    async def _discard(self) -> None:
        try:
            await self._conn.execute(f"rollback; {DISCARD}".encode())
        except BaseException:
            await self._conn.close()
            raise


def _is_lost(error: BaseException) -> bool:
    return isinstance(error, Error) and error.sqlstate == TRAMPOLINE_LOST
