"""Reasons of the console's page: with the engine of `walagent why`, for readers of the row.

What walagent stores is read as the principal; the row is read, and conditions are evaluated, as the
roles of its tenant's agents.
"""

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier

from walagent.config import Config
from walagent.config.dsn import Logins
from walagent.console.declared import declared_queries
from walagent.domain.tenant import Actor
from walagent.explain.facts import explain
from walagent.http.exchange import RefusedError
from walagent.http.shares import Shares
from walagent.message import Json
from walagent.store.sessions.acting import Identity, give_identity
from walagent.store.sessions.connections import connect

_SECONDS: Final = 20


class PageReasons:
    """Explains to principals why a row has a run, or none."""

    def __init__(self, logins: Logins, config: Config) -> None:
        self._dsn: Callable[[], str] = logins.dsn
        self._config = config
        # Each has its own connections.
        self._places = Shares("reasons", 4, of_tenant=3, of_principal=2)
        (self._tables,) = (q.text for q in declared_queries() if q.name == "console.tables")

    async def check(self, conn: AsyncConnection[Any], relation: str) -> str:
        """Check that the principal of this transaction may know; return the quoted name.

        Raises:
            RefusedError: it may not, or the table has no agent.
        """
        cursor = conn.cursor(row_factory=dict_row)
        await cursor.execute(self._tables.encode())
        for row in await cursor.fetchall():
            if row["relation"] == relation:
                if row["refusal"] is None and row["is_explained"]:
                    return str(row["quoted"])
                raise RefusedError(
                    403,
                    "reasons need the role viewer, and a login that can read all of the table",
                    "42501",
                    f"Run walagent why {shlex.quote(relation)} KEY as a login that can.",
                )
        raise RefusedError(404, f'no agent is attached to table "{relation}"')

    async def explain(
        self, name: str, key: str, identity: Identity, role: str | None, who: Actor
    ) -> dict[str, Json]:
        """Explain the runs of a row.

        Args:
            name: quoted, of the table.
            role: as which transactions of the principal read; None: the login.
            who: the principal.

        Raises:
            WalagentError: as `explain` does.
            RefusedError: too many rows are being explained, or it took too long.
        """
        try:
            with self._places.now(who):
                async with (
                    asyncio.timeout(_SECONDS),
                    await connect(self._dsn(), application="walagent why") as conn,
                    await connect(self._dsn(), application="walagent why") as worker,
                ):
                    if role is not None:
                        await conn.execute(SQL("set role {}").format(Identifier(role)))
                    give_identity(conn, identity)
                    found = await explain(conn, self._config, name, key, worker)
        except TimeoutError as error:
            raise RefusedError(504, f"the reasons took more than {_SECONDS} s") from error
        verdicts: list[Json] = [asdict(each) for each in found.verdicts]
        reasons: list[Json] = [asdict(each) for each in found.reasons]
        return {"present": found.present, "verdicts": verdicts, "reasons": reasons}
