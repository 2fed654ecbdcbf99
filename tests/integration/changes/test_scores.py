"""People say how good a run was."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, role, rows, run_all

RUN = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key, state,
                       finished_at)
select 'manual', id, id, version, '{}', n::text, s::agent.run_state,
       case s when 'succeeded' then now() end
  from agent.attachment, (values (1, 'succeeded'), (2, 'pending')) v (n, s)
"""


@pytest.fixture
async def desk(conn: AsyncConnection) -> AsyncConnection:
    """A run that has ended, and one that has not."""
    await run_all(conn, DESK)
    await attach(conn, "writes=[category]")
    await run_all(conn, RUN)
    return conn


async def test_a_person_has_one_score_for_a_run(desk: AsyncConnection) -> None:
    """The later one counts; each is in the audit."""
    await run_all(desk, "select agent.score(min(id), -1, 'wrong') from agent.run")
    await run_all(desk, "select agent.score(min(id), 0.5) from agent.run")
    assert await rows(desk, "select value, comment, principal = session_user from agent.score") == [
        (0.5, None, True)
    ]
    audited = "select detail from agent.audit where action = 'run.scored' order by number"
    assert await rows(desk, audited) == [({"value": -1},), ({"value": 0.5},)]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("agent.score(999, 1)", "run 999 does not exist"),
        ("agent.score((select max(id) from agent.run), 1)", "only a run that has ended"),
        ("agent.score((select min(id) from agent.run), 2)", "value must be from -1"),
        ("agent.score((select min(id) from agent.run), null)", "value must be from -1"),
        ("agent.score((select min(id) from agent.run), 'NaN')", "value must be from -1"),
    ],
)
async def test_what_is_no_score_is_refused(desk: AsyncConnection, call: str, error: str) -> None:
    """With what is wrong."""
    with pytest.raises(psycopg.Error, match=error):
        await run_all(desk, f"select {call}")


async def test_who_may_only_look_scores_nothing(desk: AsyncConnection) -> None:
    """And writes no score past the function."""
    async with role(desk) as viewer:
        await run_all(desk, f"select agent.grant_viewer('{viewer}'); set role {viewer}")
        for statement in (
            "select agent.score(min(id), 1) from agent.run",
            "insert into agent.score (run_id, principal, value) values (1, 'ann', 1)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await run_all(desk, statement)
        await run_all(desk, f"reset role; drop owned by {viewer}")
