"""Failures with the same agent, reason and SQLSTATE: what people decided, what became of them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection, Error
from psycopg.errors import CheckViolation

from tests.helpers.database import attach, column, role, rows, run_all, session, value
from tests.helpers.people import person
from tests.helpers.queue import add_runs
from tests.helpers.shapes import Served, serving
from walagent.app.problems import Problems
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
 where id = (select min(id) from agent.run where state = 'pending'{of});
set session_replication_role = origin
"""
OF = {"agent": "triage", "reason": "no answer", "sqlstate": ""}
FORGED = (
    "insert into agent.issue (agent, reason) values ('a', 'r')",
    "update agent.issue set state = 'open'",
    "delete from agent.issue",
    "select agent.decide_issue('triage', 'no answer', '', 'open')",
    "select agent.assign_issue('triage', 'no answer', '', 'vic')",
)
SECOND = "select agent.attach('thing', 'name=second, agent=triage, on=insert')"
VERSION = "update agent.attachment set version = version + 1"


async def fail(
    conn: AsyncConnection,
    ago: str = "1 minute",
    *,
    state: str = "failed",
    reason: str = "no answer",
    version: int = 1,
    at: int | None = None,
) -> None:
    """Let a run that is pending, of an attachment if it matters, have failed."""
    of = f" and attachment_id = {at}" if at else ""
    await run_all(conn, FAIL.format(ago=ago, state=state, reason=reason, version=version, of=of))


@asynccontextmanager
async def people(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[Served, str, str]]:
    """A server, and tokens of an approver and of a viewer; an agent has runs that are pending."""
    await run_all(conn, f"{MODEL}; {TABLE}")
    key = await attach(conn, "name=triage, on=insert, system_prompt=Sort", "item")
    await add_runs(conn, key, *[None] * 6)
    ann = await person(conn, "ann", "viewer", "approver")
    vic = await person(conn, "vic", "viewer")
    queries = {
        each.name: NamedQuery(each.name, each.text, each.key, each.parameters)
        for each in declared_queries()
        if each.name in {QUERY, "console.runs"}
    }
    async with serving(conn, dsn, queries=queries) as on:
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


async def test_one_that_came_back_is_sent_once(conn: AsyncConnection, dsn: str) -> None:
    """Each of an agent, once for each time that it was resolved; it can wait for its person."""
    async with people(conn, dsn) as (served, ann, _):
        await run_all(conn, CHANNEL)
        sent = "select subject from agent.outbox where subject ~ 'again' order by subject"
        for reason in ("another", "no answer"):
            await fail(conn, "1 hour", reason=reason)
            assert await decide(served, ann, "resolved", reason=reason) == 200
            await fail(conn, "-1 second", reason=reason)
        problems = Problems()
        for _ in range(3):
            await problems.look(conn)
        both = ["triage fails again: another", "triage fails again: no answer"]
        assert await column(conn, sent) == both
        assert "regression" not in str(problems.warnings)


async def test_what_is_resolved_in_a_version_may_fail_in_older_ones(
    conn: AsyncConnection, dsn: str
) -> None:
    """Their runs go on; one of that version shows that it came back."""
    async with people(conn, dsn) as (served, ann, _):
        await fail(conn, "1 hour")
        await run_all(conn, VERSION)
        (row,) = await issues(served, ann)
        assert row["fixable_in"] == "present"
        assert await decide(served, ann, "resolved", resolved_in="present") == 200
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
                for statement in FORGED:
                    with pytest.raises(Error, match="permission denied"):
                        await as_vic.execute(statement)
                assert await value(as_vic, "select count(*) from agent.issue") == 1
            await run_all(conn, "update agent.principal set login = null where name = 'vic'")
            async with session(dsn, user=login) as nobody:
                for statement in FORGED:
                    with pytest.raises(Error, match="permission denied"):
                        await nobody.execute(statement)
        audited = "select principal, action from agent.audit where action ~ '^issue'"
        assert await rows(conn, audited) == [("ann", "issue.resolved")]


CHANNEL = """
insert into agent.channel (name, kind, target, secret)
values ('ops', 'webhook', 'https://ops.acme.test/hooks', 'OPS_HOOK_KEY');
insert into agent.notification (event, channel) values ('problem', 'ops');
"""
REFUSED = (
    {"state": "gone"},
    {"state": "muted"},
    {"state": "muted", "hours": "0"},
    {"state": "muted", "hours": "-5"},
    {"state": "muted", "hours": "2000000000"},
    {"state": "open", "hours": "1"},
    {"state": "resolved", "hours": "1"},
    {"state": "resolved", "resolved_in": "99"},
    {"state": "resolved", "resolved_in": "-7"},
    {"state": "open", "resolved_in": "next"},
    {"state": "resolved", "agent": "somebody"},
    {"state": "resolved", "sqlstate": "23505"},
    {"state": "resolved", "reason": "x" * 900_000},
)


async def test_a_decision_without_a_meaning_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """With what was expected; nothing is stored."""
    async with people(conn, dsn) as (served, ann, _):
        await fail(conn)
        for given in REFUSED:
            sent = {**OF, "resolved_in": "", "hours": "", **given}
            answer = await served.mutate(ann, "console.decide_issue", **sent)
            assert answer.status_code in {400, 409}, answer.text
            assert len(answer.text) < 1000
        given = {**OF, "assignee": "somebody"}
        answer = await served.mutate(ann, "console.assign_issue", **given)
        assert answer.status_code == 409
        assert answer.json()["message"] == 'principal "somebody" does not exist'
        assert await value(conn, "select count(*) from agent.issue") == 0


@pytest.mark.parametrize(
    "columns",
    [
        "(agent, reason, since) values ('a', 'r', '-infinity')",
        "(agent, reason, since) values ('a', 'r', 'infinity')",
        "(agent, reason, state, muted_until) values ('a', 'r', 'muted', 'infinity')",
        "(agent, reason, state, muted_until) values ('a', 'r', 'muted', '2999-01-01')",
        "(agent, reason, state, resolved_in) values ('a', 'r', 'resolved', '6')",
        "(agent, reason) values ('a', repeat('r', 1001))",
    ],
)
async def test_a_row_that_pages_could_not_show_is_not_stored(
    conn: AsyncConnection, columns: str
) -> None:
    """Also not by the owner."""
    with pytest.raises(CheckViolation):
        await run_all(conn, f"insert into agent.issue {columns}")


async def test_versions_are_compared_by_when_they_were_made(
    conn: AsyncConnection, dsn: str
) -> None:
    """An agent has two attachments, whose versions are 2 and 1; then one is attached again."""
    async with people(conn, dsn) as (served, ann, _):
        await run_all(conn, VERSION)
        await run_all(conn, "create table public.thing (id int primary key)")
        other = int(await value(conn, SECOND))
        await add_runs(conn, other, *[None] * 4)
        await fail(conn, "1 hour", version=2)
        assert [each["fixable_in"] for each in await issues(served, ann)] == ["next"]
        await run_all(conn, "update agent.agent set system_prompt = 'Sort well'")
        assert [each["fixable_in"] for each in await issues(served, ann)] == ["present"]
        assert await decide(served, ann, "resolved", resolved_in="present") == 200
        await fail(conn, "-1 second", at=other)
        assert [each["issue"] for each in await issues(served, ann)] == ["resolved"]
        await fail(conn, "-1 second", version=2, at=other)
        assert [each["issue"] for each in await issues(served, ann)] == ["regressed"]
        assert "regression" in [each["kind"] for each in await show_problems(conn)]
        assert [each["fixable_in"] for each in await issues(served, ann)] == ["next"]
        assert await decide(served, ann, "resolved", resolved_in="next") == 200
        await fail(conn, "-1 second", version=2, at=other)
        assert [each["issue"] for each in await issues(served, ann)] == ["resolved"]
        await run_all(conn, "select agent.detach('thing')")
        again = int(await value(conn, SECOND))
        await add_runs(conn, again, None)
        await fail(conn, "-1 second", at=again)
        assert [each["issue"] for each in await issues(served, ann)] == ["regressed"]
        assert "regression" in [each["kind"] for each in await show_problems(conn)]


async def test_a_shared_agent_has_its_name_in_each_tenant(conn: AsyncConnection, dsn: str) -> None:
    """Its attachment is another tenant's; Failures, status and a decision have one issue."""
    async with people(conn, dsn) as (served, _, vic):
        await run_all(conn, "create table public.shared (id int primary key, org text)")
        key = await attach(conn, "name=sharer, on=insert, system_prompt=Sort, tenant=org", "shared")
        await run_all(conn, "select agent.create_tenant('acme')")
        amy = await person(conn, "amy", "viewer", "approver", tenant="acme")
        await add_runs(conn, key, None, None, tenant="acme")
        await fail(conn, at=key)
        (row,) = await issues(served, amy)
        assert row["agent"] == "sharer"
        assert await issues(served, vic) == []
        assert await decide(served, amy, "resolved", agent="sharer") == 200
        assert [each["issue"] for each in await issues(served, amy)] == ["resolved"]
        await fail(conn, "-1 second", at=key)
        assert [each["issue"] for each in await issues(served, amy)] == ["regressed"]
        (problem,) = [each for each in await show_problems(conn) if each["kind"] == "regression"]
        assert (problem["tenant"], problem["text"]) == ("acme", "sharer fails again: no answer")


SAID = "boom refuses: note: {{'secret': '4111-1111'}} is no string; {n} tries of 12.5 s"


async def test_a_reason_is_the_same_with_other_values(conn: AsyncConnection, dsn: str) -> None:
    """What was decided about it has no values, and ends with the last of its failures."""
    async with people(conn, dsn) as (served, ann, _):
        for n in range(3):
            await fail(conn, reason=SAID.format(n=n).replace("'", "''"))
        (row,) = await issues(served, ann)
        assert row["runs"] == "3"
        assert row["reason"] == "boom refuses: note: {...} is no string; ... tries of ... s"
        assert "4111-1111" in row["example"]
        assert await decide(served, ann, "muted", hours="1", reason=row["example"]) == 200
        assert [each["issue"] for each in await issues(served, ann)] == ["muted"]
        stored = "select reason from agent.issue"
        assert await value(conn, stored) == row["reason"]
        (runs,) = [each for each in declared_queries() if each.name == "console.runs"]
        match = dict.fromkeys(runs.parameters, "") | {"reason": row["reason"], "limit": "10"}
        answer = await served.query(ann, "console.runs", **match)
        assert len(answer.json()["rows"]) == 3
        await run_all(conn, "select agent.prune('1 hour')")
        assert await value(conn, "select count(*) from agent.issue") == 1
        await run_all(conn, "select agent.prune('0 seconds')")
        assert await value(conn, "select count(*) from agent.issue") == 0


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("no answer", "no answer"),
        ('budget "small" exhausted: 3960 of 8100', 'budget "..." exhausted: ... of ...'),
        ("it doesn't answer, and won't", "it doesn't answer, and won't"),
        ("'abc' is no number", '"..." is no number'),
        ("duplicate: Key (email)=(ann@x.test)", 'duplicate: Key (email)="..."'),
        ("to ann@x.test: refused", "to ...: refused"),
        ("POST https://x.test/a?b=c failed", "POST ... failed"),
        ("run 0b7c2b1e-5c1f-4a53-9a59-5f0f2b8e5f0d at 10.0.0.1:5432", "run ... at ..."),
        ("ids 1, 22, 333 are unknown", "ids ... are unknown"),
    ],
)
async def test_values_are_left_out_of_reasons(
    conn: AsyncConnection, said: str, expected: str
) -> None:
    """Names of columns and words stay; what was said without values stays as it is."""
    for text in (said, expected):
        assert await value(conn, "select agent_internal.without_values(%s)", text) == expected
