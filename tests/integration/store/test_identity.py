"""A copy of the database does not execute the runs of the original until a person decides."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg import AsyncConnection, sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.helpers.database import DESK, attach, refused, role, rows, run_all, session, value
from tests.helpers.queue import add_runs, claim, finish, ids, park_for_approval, states
from tests.integration.cli.user import User, empty_database
from walagent.store.install.identity import adopt_database, check_database
from walagent.store.install.migrate import migrate

CLAIM = "select * from agent_internal.claim_runs('w2', 1, '30 s', '{question}', 1)"


@asynccontextmanager
async def copied(server: str, dsn: str) -> AsyncIterator[tuple[str, AsyncConnection]]:
    """A copy of the database, made from it as a template."""
    original, name = conninfo_to_dict(dsn)["dbname"], f"walagent_{uuid4().hex[:8]}"
    copy = sql.Identifier(name)
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s",
            [original],
        )
        admin.execute(
            sql.SQL("create database {} template {}").format(copy, sql.Identifier(str(original)))
        )
        async with session(server, dbname=name) as conn:
            yield make_conninfo(server, dbname=name), conn
        admin.execute(sql.SQL("drop database {} with (force)").format(copy))


async def in_flight(dsn: str) -> None:
    """Leave runs in several states: one executed, one waiting for a person, one pending."""
    async with session(dsn) as conn:
        await run_all(conn, DESK)
        await add_runs(conn, await attach(conn, "tools=[refund_user]"), "a", "b", "b")
        first, second = await claim(conn)
        await conn.execute(
            "select agent_internal.begin_call(%s, %s, 0, 'c', 'post', false)",
            [first.run_id, first.lease],
        )
        await park_for_approval(conn, second)


async def test_a_copy_claims_no_runs(server: str, dsn: str) -> None:
    """Neither a worker nor a login that asks; the original goes on."""
    await in_flight(dsn)
    async with copied(server, dsn) as (_, copy):
        assert (await refused(copy, CLAIM)).sqlstate == "WA017"
        async with role(copy) as asker:
            await value(copy, "select agent.grant_asker(%s)", asker)
            await run_all(copy, f"set role {asker}")
            await refused(copy, CLAIM, state="WA017")
            await run_all(copy, "reset role")
        assert await states(copy) == ["running", "waiting_approval", "pending"]
    async with session(dsn) as conn:
        assert await check_database(conn)
        await run_all(conn, "select agent.approve(id) from agent.approval")
        assert ids(await claim(conn)) == [2]


async def test_a_database_that_was_moved_continues_with_the_same_keys(
    server: str, dsn: str
) -> None:
    """A provider that has seen the call of the original recognizes its repetition."""
    await in_flight(dsn)
    async with session(dsn) as conn:
        identity = await check_database(conn)
        key = await value(conn, "select content ->> 'idempotency_key' from agent.step limit 1")
    async with copied(server, dsn) as (_, copy):
        assert await adopt_database(copy, moved=True) == 0
        assert await check_database(copy) == identity
        await run_all(copy, "update agent.run set lease_expires_at = now() where state = 'running'")
        await value(copy, "select agent_internal.tick()")
        (held,) = await claim(copy)
        assert key == await value(
            copy,
            "select agent_internal.begin_call(%s, %s, 1, 'c', 'post', true)",
            held.run_id,
            held.lease,
        )


async def test_a_copy_of_a_database_in_use_repeats_nothing(server: str, dsn: str) -> None:
    """Its unfinished runs are cancelled, with their approvals, and its own keys are different."""
    await in_flight(dsn)
    async with session(dsn) as conn:
        identity = await check_database(conn)
    async with copied(server, dsn) as (_, copy):
        assert await adopt_database(copy, moved=False) == 3
        assert await states(copy) == ["cancelled"] * 3
        assert await rows(copy, "select state, decided_by from agent.approval") == [
            ("cancelled", None)
        ]
        assert await rows(copy, "select * from agent.broken_invariant") == []
        assert await check_database(copy) != identity
        assert await claim(copy) == []
        (added,) = await add_runs(copy, await value(copy, "select id from agent.attachment"), "a")
        (held,) = await claim(copy)
        assert held.run_id == added
        await finish(copy, held)
        assert await adopt_database(copy, moved=False) is None  # it is no copy any more


@pytest.mark.few(1)
@pytest.mark.parametrize("option", ["--moved", "--copy"])
async def test_the_command_adopts_a_copy(server: str, tmp_path: Path, option: str) -> None:
    """`run`, `worker` and `doctor` name it; without a choice it changes nothing."""
    with empty_database(server) as dsn:
        async with session(dsn) as conn:
            await migrate(conn)
        async with copied(server, dsn) as (place, copy):
            user = User(tmp_path, place)
            for command in ("run", "worker", "doctor"):
                refusal = user.types(command)
                assert refusal.code == 3
                assert "adopt" in refusal.err + refusal.out
            assert user.types("database", "adopt").code == 2
            await refused(copy, CLAIM, state="WA017")
            user.types("database", "adopt", option).worked()
            assert await check_database(copy)
