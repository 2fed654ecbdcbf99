"""A tenant whose queues are full: people are refused, and no change is."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, refused, role, run_all, session, value
from tests.helpers.people import acting, application, person
from walagent.models.script import call

WAITING = """
insert into agent.run (tenant, kind, reason, queue_id, principal, change)
select 'acme', 'question', 'question', q.id, 'ann', '{}'
  from agent_internal.queue q, generate_series(1, %s)
 where q.tenant = 'acme' and q.kind = 'question'
"""


async def test_people_are_refused_while_runs_wait(conn: AsyncConnection, dsn: str) -> None:
    """Of that tenant, until some are claimed; what was refused has left nothing."""
    ann = await person(conn, "ann", "developer", tenant="acme")
    bob = await person(conn, "bob", tenant="umbra")
    async with application(conn, dsn, "asker", "developer") as app:
        async with app.transaction():
            await app.execute("select agent.act_as(%s)", [ann])
            thread = await value(app, "select agent.open_thread('plans')")
            await app.execute("select * from agent_internal.ask('s', 'How many?')")
            await app.execute(
                'select agent.create_workflow(\'w\', \'[{"name": "a", "kind": "router"}]\', \'[]\')'
            )
        await conn.execute("update agent.tenant set max_queued = 3 where name = 'acme'")
        asking = "select * from agent_internal.ask('t', 'How many?')"
        post = "select agent.post(%s, 'hello')"
        start = "select agent.start_workflow('w', '{}')"
        async with acting(app, ann):
            for statement, values in ((asking, ()), (post, (thread,)), (start, ())):
                async with app.transaction(force_rollback=True):
                    await app.execute(statement.encode(), values)
        await conn.execute(WAITING, [2])
        for statement, values in ((asking, ()), (post, (thread,)), (start, ())):
            async with acting(app, ann):
                error = await refused(app, statement, *values, state="WA028")
                assert "3" in str(error.diag.message_detail)
                assert "acme" in str(error)
        assert await value(conn, "select count(*) from agent.run") == 3
        async with acting(app, bob):
            await app.execute(asking.encode())
            await app.execute(b"select agent.post(agent.open_thread('other'), 'hello')")
        await run_all(conn, "select from agent_internal.claim_runs('w', 1, '1 min', '{question}')")
        async with acting(app, ann):
            await app.execute(asking.encode())
            await refused(app, asking.replace("'t'", "'u'"), state="WA028")


@pytest.mark.slow
async def test_changes_and_tools_are_never_refused(conn: AsyncConnection, dsn: str) -> None:
    """A tenant that may have no run waiting has all of its changes, in any number."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        "update agent.tenant set max_queued = 0;"
        "create table place (thread uuid);"
        "create function say() returns text language sql as"
        " $$ select (agent.post((select thread from place), 'done')).id::text $$",
    )
    async with role(conn) as clerk:
        await run_all(
            conn, f"select agent.grant_member('{clerk}'); grant select on place to {clerk}"
        )
        async with daemon(conn, dsn, [call("say"), "ok"] * 50) as d:
            await run_all(conn, f"grant select on support_tickets to {clerk}")
            await attach(conn, f"tools=[say], run_as={clerk}, columns=[id]")
            await run_all(
                conn,
                "update agent.tenant set max_queued = null;"
                "insert into place select agent.open_thread('work');"
                "select agent.create_principal('support_tickets', 'agent');"
                "select agent.add_member((select thread from place), 'support_tickets');"
                "update agent.tenant set max_queued = 0;"
                "insert into support_tickets (issue) select 'x' from generate_series(1, 40)",
            )
            await d.until("select count(*) = 40 from agent.run where state = 'succeeded'")
    assert await value(conn, "select count(*) from agent.event where type = 'text'") == 40


async def test_documents_wait_and_all_are_embedded(conn: AsyncConnection, dsn: str) -> None:
    """Two at a time are queued while the other queues of the tenant are full."""
    await run_all(
        conn,
        "update agent.tenant set max_queued = 0;"
        "insert into agent.document (title, body)"
        " select 't' || n, 'cat' from generate_series(1, 9) n",
    )
    assert await value(conn, "select count(*) from agent.run") == 2
    async with daemon(conn, dsn, parts=("worker",)) as d:
        await d.until("select count(*) = 9 from agent.run where state = 'succeeded'")


async def test_without_a_limit_all_documents_are_queued(conn: AsyncConnection, dsn: str) -> None:
    """Up to that of embeddings."""
    await run_all(
        conn,
        "insert into agent.document (title, body)"
        " select 't' || n, 'cat' from generate_series(1, 9) n",
    )
    async with session(dsn) as other:
        assert await value(other, "select count(*) from agent.run") == 9
