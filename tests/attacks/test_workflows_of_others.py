"""A workflow, and the agents of its nodes, are changed by who may act as its role."""

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import column, refused, role, run_all, session, value

MODEL = """
insert into agent.model (name, provider, model_id, base_url)
values ('fake', 'scripted', 'fake', '/none');
"""
PAYS = """
create table adas.paid (amount text);
create function adas.pay(amount text) returns text language sql as $$
    insert into adas.paid (amount) values ($1) returning amount
$$;
revoke all on function adas.pay(text) from public;
insert into agent.agent (name, model, system_prompt) values ('sarah', 'fake', 'Be nice.');
"""
FLOW = """
select agent.create_workflow('payout', '[
    {"name": "ask", "kind": "human", "type": "approval", "prompt": "Pay {{amount}}?"},
    {"name": "pay", "kind": "tool", "tool": "adas.pay",
     "arguments": {"amount": "{{amount}}"}, "output": "paid"},
    {"name": "say", "kind": "model", "agent": "sarah"}]',
    '[{"from": "ask", "to": "pay"}]')
"""
FORK = 'select agent.fork_workflow(%s, %s, \'{"amount": "1000000"}\')'
AT_PAY = "select number from agent.workflow_state(%s) where node = 'pay'"
FINAL = "select agent_internal.is_final(state) from agent.run where id = %s"
CHANGES = (
    FLOW,
    "select agent.drop_workflow('payout')",
    "update agent.agent set system_prompt = 'Be evil.' where name = 'sarah'",
    "delete from agent.agent where name = 'sarah'",
    """select agent.create_workflow(
           'mine', '[{"name": "a", "kind": "model", "agent": "sarah"}]')""",
)


@dataclass(frozen=True)
class People:
    """Two developers; the first has a workflow."""

    ada: str
    eve: str


@pytest.fixture
async def people(conn: AsyncConnection, dsn: str) -> AsyncIterator[People]:
    """A workflow that asks a person before it pays."""
    async with role(conn) as ada, role(conn) as eve:
        await run_all(
            conn,
            f"{MODEL} select agent.grant_developer('{ada}'), agent.grant_developer('{eve}'),"
            f" agent.grant_viewer('{eve}'); create schema adas authorization {ada}",
        )
        async with session(dsn, user=ada) as own:
            await run_all(own, f"{PAYS} {FLOW}")
        yield People(ada, eve)
        await run_all(
            conn,
            "delete from agent.approval; delete from agent.run; delete from agent.workflow;"
            "delete from agent.agent; drop schema adas cascade",
        )


@pytest.mark.parametrize("statement", CHANGES)
async def test_others_change_nothing(
    conn: AsyncConnection, dsn: str, people: People, statement: str
) -> None:
    """Another developer of the tenant is refused, and who may act as its role is not."""
    async with session(dsn, user=people.eve) as other:
        error = await refused(other, statement, state="42501")
        assert people.ada in str(error)
        await run_all(conn, f"grant {people.ada} to {people.eve}")
        await run_all(other, f"begin; {statement}; rollback")


async def test_a_fork_does_not_pass_the_person_who_decides(
    conn: AsyncConnection, dsn: str, people: People
) -> None:
    """It would begin behind the approval, with another amount."""
    async with session(dsn, user=people.ada) as own, session(dsn, user=people.eve) as other:
        async with daemon(conn, dsn, {}, parts=("worker",)) as d:
            start = "select agent.start_workflow('payout', '{\"amount\": \"5\"}')"
            run = await value(own, start)
            await d.until("select state = 'waiting_approval' from agent.run where id = %s", run)
            await value(conn, "select agent.resume_workflow(%s)::text", run)
            await d.until(FINAL, run)
        at = await value(conn, AT_PAY, run)
        error = await refused(other, FORK, run, at, state="42501")
        assert people.ada in str(error)
        assert await column(conn, "select amount from adas.paid") == ["5"]
        assert isinstance(await value(own, FORK, run, at), int)


async def test_two_agents_are_not_one_principal(conn: AsyncConnection) -> None:
    """A name that is cut as those of principals are would be that of another agent."""
    await run_all(conn, MODEL)
    long = "insert into agent.agent (name, model) values (%s, 'fake')"
    await conn.execute(long.encode(), ("s" * 63,))
    await refused(conn, long, "s" * 64, state="WA013")
    await refused(conn, long, "é" * 32, state="WA013")
