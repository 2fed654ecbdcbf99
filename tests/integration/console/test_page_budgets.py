"""Budgets on the page of costs: changed as the login of the principal, as in psql."""

from collections.abc import AsyncIterator
from typing import Any

import httpx2 as httpx
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import attach, role, rows, run_all, value
from tests.helpers.people import person
from tests.helpers.queue import add_runs
from tests.helpers.shapes import Served, serving
from walagent.console.sessions import exchange, make_code

SETUP = """
create table public.item (id int primary key);
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
insert into agent.budget (name, period, max_cost) values ('everything', 'month', 1);
select agent.create_tenant('other');
insert into agent.budget (tenant, name, period, max_cost) values ('other', 'everything', 'day', 2);
"""
WAIT = """
set session_replication_role = replica;
update agent.run set state = 'waiting_retry', next_attempt_at = now() + interval '9 days',
                     error = '{"reason": "exhausted", "budget": "everything"}';
set session_replication_role = origin
"""
BUDGETS = """
select tenant, max_cost::text, max_tokens, period, on_exceeded from agent.budget order by 1
"""
WAITING = "select bool_and(next_attempt_at <= now()) from agent.run"
RAISED = {"max_cost": "300.5", "max_tokens": "", "period": "day", "on_exceeded": "fail"}


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server, a budget of two tenants, and runs that wait for that of the first."""
    await run_all(conn, SETUP)
    await add_runs(
        conn, await attach(conn, "name=triage, on=insert, system_prompt=x", "item"), None
    )
    await run_all(conn, WAIT)
    async with serving(conn, dsn) as found:
        yield found


async def operator(conn: AsyncConnection) -> str:
    """A session of the login that owns the schema, by its link."""
    async with conn.transaction():
        code = await make_code(conn)
    async with conn.transaction():
        return await exchange(conn, code.text)


async def budgets(served: Served, token: str) -> list[dict[str, Any]]:
    """What the page lists."""
    answer = await served.query(token, "console.budgets")
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def change(served: Served, token: str, **more: str) -> httpx.Response:
    """Change the budget."""
    given = {"name": "everything", "base": "1", **RAISED, **more}
    return await served.mutate(token, "console.change_budget", **given)


async def test_a_budget_that_is_raised_lets_go_on_what_waits_for_it(
    conn: AsyncConnection, served: Served
) -> None:
    """At once; of its tenant alone; the audit has who did it."""
    token = await operator(conn)
    (row,) = await budgets(served, token)
    assert (row["name"], row["max_cost"], row["waiting"]) == ("everything", "1", "1")
    assert (row["version"], row["of_file"], row["refusal"]) == (1, False, None)
    assert await value(conn, WAITING) is False
    assert (await change(served, token)).status_code == 200
    assert await rows(conn, BUDGETS) == [
        ("default", "300.5", None, "day", "fail"),
        ("other", "2", None, "day", "wait"),
    ]
    assert await value(conn, WAITING) is True
    done = "select principal::text from agent.audit where action = 'budget.changed'"
    assert await rows(conn, done) == [(conn.info.user,)]
    assert (await change(served, token)).status_code == 404  # it is another version
    for wrong in {"max_cost": ""}, {"max_cost": "-1"}, {"period": "week"}, {"max_cost": "NaN"}:
        assert (await change(served, token, base="2", **wrong)).status_code == 400


async def test_who_may_not_change_budgets_in_psql_may_not_here(
    conn: AsyncConnection, served: Served
) -> None:
    """Nor a viewer, an admin without a login, or one of another tenant; the page says why."""
    vic, ann = await person(conn, "vic", "viewer"), await person(conn, "ann", "admin")
    eve = await person(conn, "eve", "admin", tenant="other")
    before = await rows(conn, BUDGETS)
    for token, refusal in (vic, "role"), (ann, "login"), (eve, "login"):
        assert {each["refusal"] for each in await budgets(served, token)} == {refusal}
        assert (await change(served, token)).status_code == 403
    async with role(conn) as login:
        await run_all(conn, f"select agent.grant_developer('{login}')")
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'ann'")
        assert [each["refusal"] for each in await budgets(served, ann)] == ["privilege"]
        assert (await change(served, ann)).status_code == 403
        assert await rows(conn, BUDGETS) == before
        await run_all(conn, f"grant update on agent.budget to {login}")
        assert [each["refusal"] for each in await budgets(served, ann)] == [None]
        assert (await change(served, ann)).status_code == 200
        await run_all(conn, "update agent.principal set login = null where name = 'ann'")
        await run_all(conn, f"revoke update on agent.budget from {login}")
    assert [each[1] for each in await rows(conn, BUDGETS)] == ["300.5", "2"]


NEW = {
    "name": "of triage",
    "agent": "triage",
    "attachment": "",
    "model": "",
    "asker": "",
    "max_cost": "5",
    "max_tokens": "",
    "period": "day",
    "on_exceeded": "wait",
}
ALL = "select tenant, name, agent, max_cost::text from agent.budget order by 1, 2"


async def options(served: Served, token: str) -> dict[str, Any]:
    """What a new budget can apply to."""
    answer = await served.query(token, "console.budget_options")
    assert answer.status_code == 200, answer.text
    (row,) = answer.json()["rows"]
    return row


async def test_budgets_are_made_and_removed(conn: AsyncConnection, served: Served) -> None:
    """Of the tenant of who makes them; what does not exist is refused, as in SQL."""
    token = await operator(conn)
    found = await options(served, token)
    assert (found["refusal"], found["agents"], found["models"]) == (None, ["triage"], ["fake"])
    for wrong in (
        {"agent": "triag"},
        {"max_cost": "", "max_tokens": ""},
        {"max_cost": "-1"},
        {"name": ""},
        {"asker": "postgres"},
    ):
        answer = await served.mutate(token, "console.add_budget", **{**NEW, **wrong})
        assert answer.status_code == 400, (wrong, answer.text)
    assert (await served.mutate(token, "console.add_budget", **NEW)).status_code == 200
    assert (await served.mutate(token, "console.add_budget", **NEW)).status_code == 409
    assert ("default", "of triage", "triage", "5") in await rows(conn, ALL)
    stale = {"name": "of triage", "base": "2"}
    assert (await served.mutate(token, "console.remove_budget", **stale)).status_code == 404
    stale["base"] = "1"
    assert (await served.mutate(token, "console.remove_budget", **stale)).status_code == 200
    assert await rows(conn, ALL) == [
        ("default", "everything", None, "1"),
        ("other", "everything", None, "2"),
    ]


async def test_a_budget_that_is_removed_lets_go_on_what_waits_for_it(
    conn: AsyncConnection, served: Served
) -> None:
    """At once."""
    token = await operator(conn)
    assert await value(conn, WAITING) is False
    gone = {"name": "everything", "base": "1"}
    assert (await served.mutate(token, "console.remove_budget", **gone)).status_code == 200
    assert await value(conn, WAITING) is True


async def test_who_may_not_make_budgets_in_psql_may_not_here(
    conn: AsyncConnection, served: Served
) -> None:
    """Nor remove them; INSERT alone does not do."""
    vic, ann = await person(conn, "vic", "viewer"), await person(conn, "ann", "admin")
    before, gone = await rows(conn, ALL), {"name": "everything", "base": "1"}
    for token, refusal in (vic, "role"), (ann, "login"):
        assert (await options(served, token))["refusal"] == refusal
        for name, given in ("add_budget", NEW), ("remove_budget", gone):
            assert (await served.mutate(token, f"console.{name}", **given)).status_code == 403
    async with role(conn) as login:
        await run_all(conn, f"select agent.grant_developer('{login}')")
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'ann'")
        await run_all(conn, f"grant insert on agent.budget to {login}")
        assert (await options(served, ann))["refusal"] == "privilege"
        assert (await served.mutate(ann, "console.remove_budget", **gone)).status_code == 403
        assert await rows(conn, ALL) == before
        await run_all(conn, "update agent.principal set login = null where name = 'ann'")
        await run_all(conn, f"revoke insert on agent.budget from {login}")
