"""Scores and runs to score: of a tenant, for those who see runs; a score is for approvers."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, refused, role, rows, run_all, session, value
from tests.helpers.people import acting, application, person

RUN = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key, state,
                       principal, finished_at, tenant)
values ('manual', %(n)s, %(n)s, 1, '{}', %(tenant)s, 'succeeded', %(who)s, now(), %(tenant)s)
"""
LISTED = "select key from agent.unscored_run"
SCORE = "select agent.score(%s, 1)"
WRITES = (
    "insert into agent.score (run_id, principal, value) values (1, 'ann', 1)",
    "update agent.score set value = 1",
    "delete from agent.score",
)


@pytest.fixture
async def filled(conn: AsyncConnection) -> AsyncConnection:
    """A run to score in each of two tenants."""
    for n, tenant in enumerate(("default", "other"), 901):
        await run_all(
            conn, f"insert into agent.tenant (name) values ('{tenant}') on conflict do nothing"
        )
        await conn.execute(
            "insert into agent.attachment_version (attachment_id, version, definition, tenant)"
            " values (%s, 1, %s, %s)",
            [n, '{"agent": "desk", "name": "desk", "score_share": 1}', tenant],
        )
        await conn.execute(RUN.encode(), {"n": n, "tenant": tenant, "who": None})
    return conn


async def _run(conn: AsyncConnection, tenant: str) -> object:
    return await value(conn, "select id from agent.run where tenant = %s", tenant)


async def test_a_run_of_another_tenant_is_neither_listed_nor_scored(
    filled: AsyncConnection, dsn: str
) -> None:
    """Also not by an approver, who scores the runs of its own; and that is in the audit."""
    token = await person(filled, "ann", "viewer", "approver")
    theirs, own = await _run(filled, "other"), await _run(filled, "default")
    async with application(filled, dsn, "viewer", "approver") as conn:
        async with acting(conn, token):
            assert await column(conn, LISTED) == ["default"]
            await refused(conn, SCORE, theirs, state="WA003")
        async with conn.transaction():
            await conn.execute("select agent.act_as(%s)", [token])
            await conn.execute(SCORE, [own])
            assert await column(conn, LISTED) == []
    assert await rows(filled, "select tenant, principal::text from agent.score") == [
        ("default", "ann")
    ]
    audited = "select principal::text, object from agent.audit where action = 'run.scored'"
    assert await rows(filled, audited) == [("ann", str(own))]


@pytest.mark.parametrize("capability", ["viewer", "developer", "asker", "member"])
async def test_a_lower_capability_can_do_nothing(
    filled: AsyncConnection, dsn: str, capability: str
) -> None:
    """It scores nothing, and writes no row."""
    run = await _run(filled, "default")
    async with role(filled) as login:
        await run_all(filled, f"select agent.grant_{capability}('{login}')")
        async with session(dsn, user=login) as conn:
            for statement in (*WRITES, f"select agent.score({run}, 1)"):
                await refused(conn, statement, state="42501")
            if capability != "viewer":
                await refused(conn, LISTED, state="42501")


async def test_who_decides_scores_by_the_function_alone(filled: AsyncConnection, dsn: str) -> None:
    """The capability approver writes no row."""
    async with role(filled) as login:
        await run_all(filled, f"select agent.grant_approver('{login}')")
        async with session(dsn, user=login) as conn:
            for statement in WRITES:
                await refused(conn, statement, state="42501")


async def test_who_does_not_see_runs_is_listed_its_own(filled: AsyncConnection, dsn: str) -> None:
    """And scores of these alone; without the scope to read, nothing."""
    members = await person(filled, "bob", "developer")
    posts = await person(filled, "eve", "viewer", scopes=("post",))
    await filled.execute(RUN.encode(), {"n": 901, "tenant": "default", "who": "bob"})
    await run_all(
        filled,
        "update agent.run set key = 'of bob' where principal = 'bob';"
        "insert into agent.score (run_id, principal, value)"
        " select id, 'ann', 1 from agent.run where tenant = 'default' and principal is null",
    )
    async with application(filled, dsn, "viewer") as conn:
        async with acting(conn, members):
            assert await column(conn, LISTED) == ["of bob"]
            assert await rows(conn, "select 1 from agent.score") == []
        async with acting(conn, posts):
            assert await column(conn, LISTED) == []


async def test_an_agent_does_not_score_itself(filled: AsyncConnection, dsn: str) -> None:
    """What it acts as may call functions of the application, and this one is not among them."""
    run = await _run(filled, "default")
    async with role(filled) as run_as, session(dsn, user=run_as) as conn:
        await refused(conn, f"select agent.score({run}, 1)", state="42501")
