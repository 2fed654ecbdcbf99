"""The first question of somebody who follows PG Agent's README, and what can be missing."""

import asyncio
from pathlib import Path

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.faults.rig.servers import OwnServer
from tests.helpers.database import run_all
from tests.integration.cli.test_ask import ANSWER, PLAN, QUESTION, shell
from tests.integration.cli.test_asking import SAYS, SHOP
from tests.integration.cli.user import User
from walagent.testing import FakeProvider


@pytest.mark.slow
async def test_the_first_steps_of_pg_agent_work(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """A server as it is installed, a key and a DSN in .env: no model is named, and no slot made."""
    which = str(request.config.getoption("--server"))
    server = OwnServer(tmp_path, which, settings={"wal_level": "replica"})
    await server.start()
    try:
        replies = iter([PLAN, ANSWER])
        async with FakeProvider([lambda _: next(replies)] * 5) as fake:
            user = User(tmp_path, None)
            user.writes(f"GEMINI_API_KEY={fake.key}\nDATABASE_URL={server.dsn}\nlegacy\n", ".env")

            def works() -> str:
                with psycopg.connect(server.dsn, autocommit=True) as conn:
                    conn.execute(SHOP.encode())
                said = user.types("-v", "setup").worked().err
                with psycopg.connect(server.dsn, autocommit=True) as conn:
                    conn.execute(
                        "update agent.model set base_url = %s where credential = 'GEMINI_API_KEY'",
                        [fake.spec("openai").base_url],
                    )
                assert SAYS in user.types("--index", "-v", "ask", QUESTION).worked().out
                assert user.types("init").code == 3, "agents need what is missing"
                return said

            said = await asyncio.to_thread(works)
            assert "ready: walagent ask" in said
            assert "not ready: walagent run: " in said
            assert "wal_level = logical" in said
            assert ".env:3: ignored" in said
            assert [each.body["model"] for each in fake.received] == ["gemini-2.5-flash"] * 2
    finally:
        await server.stop()


async def test_a_login_without_the_grant_is_shown_the_grant(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """With exit code 3 and the statement that an administrator runs."""
    login = f"plain_{conn.info.dbname}"
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        await run_all(conn, f"create role {login} login; grant {on.role} to {login}")
        try:
            asks = ("ask", QUESTION, "--dsn", make_conninfo(dsn, user=login))
            ended = await on.types(*asks)
            assert ended.code == 3
            assert f"select agent.grant_asker('{login}');" in ended.err
            await run_all(conn, f"select agent.grant_asker('{login}')")
            assert SAYS in (await on.types(*asks)).worked().out
        finally:
            await run_all(conn, f"drop owned by {login}; drop role {login}")


@pytest.mark.slow
async def test_a_database_that_is_read_only_by_default_is_asked(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Sessions of ours set what they need."""
    async with shell(conn, dsn, tmp_path, [PLAN, ANSWER]) as on:
        await run_all(
            conn, f"alter database {conn.info.dbname} set default_transaction_read_only = on"
        )
        (await on.types("ask", QUESTION)).worked()
        await run_all(
            conn,
            "set default_transaction_read_only = off;"
            f" alter database {conn.info.dbname} reset default_transaction_read_only",
        )
