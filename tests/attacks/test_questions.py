"""Code of a table's owner, in the database of who asks: it stays the role that reads."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import role, run_all
from tests.helpers.owned_table import OwnedTable, owned_table
from tests.integration.cli.test_ask import ANSWER, KEY, Shell, shell
from tests.integration.cli.user import Ended, User
from walagent.testing import call

TABLES = ("owned.stock", "owned.parted", "owned.shown")
JOINED = "select count(*), sum(q.n) from ({}) q join owned.stock s on s.n = q.n"
QUERY = " union all ".join(f"select n from {table} where n > 3" for table in TABLES)
PLAN = call(
    "plan",
    reasoning="Count them.",
    steps=[
        {
            "id": "a",
            "type": "SQL",
            "description": "numbers",
            "tool_input": {"query": JOINED.format(QUERY)},
        }
    ],
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Attacked:
    """A shell whose login asks, and the owner's tables."""

    shell: Shell
    user: User
    table: OwnedTable

    async def types(self, *words: str, stdin: str = "") -> Ended:
        """Type a command as the login."""
        return await asyncio.to_thread(self.user.types, *words, stdin=stdin)


@asynccontextmanager
async def attacked(
    conn: AsyncConnection, dsn: str, folder: Path, login: str
) -> AsyncIterator[Attacked]:
    """Open a shell for a superuser, a runner, or a login that only asks."""
    async with (
        shell(conn, dsn, folder, [PLAN, ANSWER] * 5) as on,
        role(conn) as name,
        owned_table(conn) as table,
    ):
        await run_all(conn, f"grant {on.role} to {name}; select agent.grant_asker('{name}')")
        if login == "runner":
            await run_all(
                conn, f"select agent.grant_runner('{name}'); alter role {name} createrole"
            )
        used = dsn if login == "superuser" else make_conninfo(dsn, user=name)
        user = User(folder, used, {KEY: on.provider.key})
        user.writes(
            f"ask: {{role: {on.role}, connections: 2, schemas: [owned, public], model: m}}\n"
        )
        yield Attacked(on, user, table)


@pytest.mark.few(1)
@pytest.mark.parametrize("login", ["superuser", "runner", "asker"])
async def test_no_code_of_an_owner_becomes_who_asks(
    conn: AsyncConnection, dsn: str, tmp_path: Path, login: str
) -> None:
    """By the index, the guard, a question and the chat; and it is executed at all."""
    async with attacked(conn, dsn, tmp_path, login) as on:
        await on.types("knowledge", "index")
        for table in TABLES:
            await on.types(
                "database", "guard", "--role", on.shell.role, f"select n from {table} where n > 1"
            )
        asked = await on.types("ask", "How many?", "-v")
        await on.types(
            "chat", stdin="How many?\nselect count(*) from owned.stock where n > 2\nexit\n"
        )
        assert on.table.escapes == []
        seen = {line.partition(" as ")[0] for line in on.table.lines}
        assert {"index", "index predicate"} <= seen, (asked, on.table.lines)
