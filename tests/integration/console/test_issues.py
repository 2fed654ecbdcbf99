"""Failures with the same agent, reason and SQLSTATE: what people decided, what became of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection, Error

from tests.helpers.database import attach, role, run_all, session, value
from tests.helpers.people import person
from tests.helpers.queue import add_runs
from tests.helpers.shapes import Served, serving
from walagent.console.declared import declared_queries
from walagent.store.status import show_problems
from walagent.sync.query import NamedQuery

QUERY = "console.failures"
MODEL = "insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake')"
TABLE = "create table public.item (id int primary key)"
FAIL = """
set session_replication_role = replica;
update agent.run
   set state = '{state}', started_at = now(), finished_at = now() - interval '{ago}',
       attachment_version = {version}, error = '{{"reason": "{reason}", "message": "of run"}}'
 where id = (select min(id) from agent.run where state = 'pending');
set session_replication_role = origin
"""
OF = {"agent": "triage", "reason": "no answer", "sqlstate": ""}
VERSION = "update agent.attachment set version = version + 1"


async def fail(
    conn: AsyncConnection,
    ago: str = "1 minute",
    *,
    state: str = "failed",
    reason: str = "no answer",
    version: int = 1,
) -> None:
    """Let a run that is pending have failed."""
    await run_all(conn, FAIL.format(ago=ago, state=state, reason=reason, version=version))


@asynccontextmanager
async def people(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[Served, str, str]]:
    """A server, and tokens of an approver and of a viewer; an agent has runs that are pending."""
    await run_all(conn, f"{MODEL}; {TABLE}")
    key = await attach(conn, "name=triage, on=insert, system_prompt=Sort", "item")
    await add_runs(conn, key, *[None] * 6)
    ann = await person(conn, "ann", "viewer", "approver")
    vic = await person(conn, "vic", "viewer")
    (found,) = [each for each in declared_queries() if each.name == QUERY]
    query = NamedQuery(QUERY, found.text, found.key, found.parameters)
    async with serving(conn, dsn, queries={QUERY: query}) as on:
        yield on, ann, vic


async def issues(served: Served, token: str, since: str = "7 days") -> list[dict[str, Any]]:
    """What the page of failures shows."""
    answer = await served.query(token, QUERY, since=since, q="")
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def decide(served: Served, token: str, state: str, **more: str) -> int:
    """Decide about the issue; return the status of the answer."""
    given = {**OF, "state": state, "resolved_in": "", "hours": "", **more}
    return (await served.mutate(token, "console.decide_issue", **given)).status_code


async def test_states_follow_from_runs_and_decisions(conn: AsyncConnection, dsn: str) -> None:
    """New, ongoing, resolved, came back; muted for a time; open again."""
    async with people(conn, dsn) as (served, ann, _):
        await fail(conn, "1 hour")
        assert [each["issue"] for each in await issues(served, ann)] == ["new"]
        assert [each["issue"] for each in await issues(served, ann, "2 hours")] == ["ongoing"]
        await fail(conn, "3 days", state="dead")
        (row,) = await issues(served, ann)
        assert (row["issue"], row["runs"], row["states"]) == ("ongoing", "2", "dead,failed")
        assert await decide(served, ann, "resolved") == 200
        (row,) = await issues(served, ann)
        assert (row["issue"], row["changed_by"]) == ("resolved", "ann")
        assert "regression" not in [each["kind"] for each in await show_problems(conn)]
        await fail(conn, "-1 second")
        assert [each["issue"] for each in await issues(served, ann)] == ["regressed"]
        (problem,) = [each for each in await show_problems(conn) if each["kind"] == "regression"]
        assert problem["text"] == "triage fails again: no answer"
        assert problem["detail"] == "ann had resolved it."
        assert await decide(served, ann, "muted", hours="1") == 200
        assert [each["issue"] for each in await issues(served, ann)] == ["muted"]
        await run_all(conn, "update agent.issue set muted_until = now()")
        assert [each["issue"] for each in await issues(served, ann)] == ["ongoing"]
        assert await decide(served, ann, "open") == 200
        assert [each["issue"] for each in await issues(served, ann)] == ["ongoing"]


async def test_what_is_resolved_in_a_version_may_fail_in_older_ones(
    conn: AsyncConnection, dsn: str
) -> None:
    """Their runs go on; one of that version shows that it came back."""
    async with people(conn, dsn) as (served, ann, _):
        await fail(conn, "1 hour")
        await run_all(conn, VERSION)
        (row,) = await issues(served, ann)
        assert row["newest"] == 2
        assert await decide(served, ann, "resolved", resolved_in="2") == 200
        await fail(conn, "-1 second")
        assert [each["issue"] for each in await issues(served, ann)] == ["resolved"]
        assert "regression" not in [each["kind"] for each in await show_problems(conn)]
        await fail(conn, "-1 second", version=2)
        assert [each["issue"] for each in await issues(served, ann)] == ["regressed"]
        assert "regression" in [each["kind"] for each in await show_problems(conn)]


async def test_reasons_are_issues_of_their_agents(conn: AsyncConnection, dsn: str) -> None:
    """A message does not split one; a decision about one leaves the others."""
    async with people(conn, dsn) as (served, ann, _):
        await fail(conn)
        await fail(conn, reason="another")
        assert await decide(served, ann, "resolved") == 200
        found = {each["reason"]: each["issue"] for each in await issues(served, ann)}
        assert found == {"no answer": "resolved", "another": "new"}
        given = {**OF, "assignee": "ann"}
        assert (await served.mutate(ann, "console.assign_issue", **given)).is_success
        found = {each["reason"]: each["assignee"] for each in await issues(served, ann)}
        assert found == {"no answer": "ann", "another": None}
        assert {each["issue"] for each in await issues(served, ann)} == {"resolved", "new"}


async def test_who_may_not_decide_changes_nothing(conn: AsyncConnection, dsn: str) -> None:
    """Neither by the page nor by SQL, also in the name of somebody who may."""
    async with people(conn, dsn) as (served, ann, vic):
        await fail(conn)
        assert await decide(served, vic, "resolved") == 403
        assert await decide(served, ann, "resolved") == 200
        async with role(conn) as login:
            await run_all(
                conn,
                f"select agent.grant_viewer('{login}');"
                f"update agent.principal set login = '{login}' where name = 'vic'",
            )
            async with session(dsn, user=login) as as_vic:
                forged = "insert into agent.issue (agent, reason, changed_by) values ('a', 'r', %s)"
                for name in ("vic", "ann"):
                    with pytest.raises(Error, match="row-level security"):
                        await as_vic.execute(forged, [name])
                changed = await as_vic.execute("update agent.issue set state = 'open'")
                assert changed.rowcount == 0
                assert await value(as_vic, "select count(*) from agent.issue") == 1
            await run_all(conn, "update agent.principal set login = null where name = 'vic'")
