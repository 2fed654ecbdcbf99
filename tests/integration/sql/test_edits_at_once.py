"""Editing an agent: quick however long its queue is, and in turn with others who edit."""

import asyncio

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, refused, rows, run_all, session, until, value
from tests.helpers.queue import add_runs

WAITS = "select exists (select from pg_stat_activity where pid = %s and wait_event_type = 'Lock')"
MANY = """
insert into agent.run (tenant, kind, attachment_id, attachment_version, queue_id, reason, change,
                       key, state, commit_lsn, ordinal)
select r.tenant, r.kind, r.attachment_id, r.attachment_version, r.queue_id, r.reason, r.change,
       g::text, 'pending', '1/0'::pg_lsn + g, g
  from agent.run r, generate_series(1, 20000) g
"""
EDIT = "update agent.agent set system_prompt = system_prompt || '.' where name = '{}'".format
REPLACE = "select agent.attach('support_tickets', 'name={0}, model=fake, replace=true')".format


async def test_a_new_prompt_does_not_wait_for_the_queue(conn: AsyncConnection) -> None:
    """20,000 runs wait: a look at the definition of each took six seconds."""
    await run_all(conn, DESK)
    attachment = await attach(conn, "name=desk, tools=[refund_user], ordering_key=[]")
    await add_runs(conn, attachment, None)
    await run_all(conn, MANY)
    await run_all(conn, "analyze agent.run; set statement_timeout = '2s'")
    for _ in range(3):
        await run_all(conn, EDIT("desk"))
    assert await value(conn, "select version from agent.attachment where name = 'desk'") == 4


@pytest.mark.few(3)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        (EDIT("a"), EDIT("a")),
        (EDIT("a"), EDIT("b")),
        (EDIT("a"), "select agent.rollback('a', 1)"),
        (EDIT("a"), REPLACE("a")),
        (REPLACE("a"), EDIT("b")),
        (REPLACE("a"), REPLACE("c")),
        ("select agent.detach('a')", EDIT("b")),
        ("select agent.detach('a')", REPLACE("c")),
        ("update agent.persona set system_prompt = 'x'", EDIT("b")),
        (EDIT("b"), "update agent.persona set system_prompt = 'x'"),
    ],
)
async def test_who_edits_second_waits_and_both_edits_count(
    conn: AsyncConnection, dsn: str, first: str, second: str
) -> None:
    """Of one agent, or of two on one table: no error, no lost version, and the table is read."""
    await run_all(conn, DESK)
    await run_all(conn, "insert into agent.persona (name) values ('p')")
    await attach(conn, "name=a, tools=[refund_user]")
    await attach(conn, "name=b, tools=[refund_user], on=[insert, update], persona=p")
    async with session(dsn) as one, session(dsn) as two:
        async with one.transaction():
            await run_all(one, first)
            other = asyncio.create_task(run_all(two, second))
            waits = asyncio.create_task(until(conn, WAITS, two.info.backend_pid))
            await asyncio.wait({waits, other}, return_when=asyncio.FIRST_COMPLETED)
            assert not other.done() or other.result() is None
            await waits
        await other
    made = await rows(
        conn,
        "select a.name, a.version, (select max(version) from agent.attachment_version v"
        " where v.attachment_id = a.id) from agent.attachment a",
    )
    assert all(version == newest for _, version, newest in made)
    requested = "select inserts_only from agent_internal.requested_table where requester = 'intake'"
    assert await rows(conn, requested) == [(False,)]


async def test_who_waits_too_long_reads_what_for(conn: AsyncConnection, dsn: str) -> None:
    """An edit that stays open names itself after 10 s, or after the session's own timeout."""
    await run_all(conn, DESK)
    await attach(conn, "name=a")
    await attach(conn, "name=b")
    shorter = "alter function agent_internal.freeze_attachment() set lock_timeout = '200ms'"
    await run_all(conn, shorter)
    async with session(dsn) as one, one.transaction():
        await run_all(one, EDIT("a"))
        error = await refused(conn, EDIT("b"), state="55P03")
    assert "changing an attachment of" in str(error)
    assert "pg_stat_activity" in (error.diag.message_hint or "")


async def test_who_creates_second_reads_that_it_exists(conn: AsyncConnection, dsn: str) -> None:
    """Not the name of a constraint."""
    await run_all(conn, DESK)
    async with session(dsn) as one, session(dsn) as two:
        async with one.transaction():
            await run_all(one, REPLACE("c"))
            other = asyncio.create_task(refused(two, REPLACE("c"), state="WA013"))
            await until(conn, WAITS, two.info.backend_pid)
        assert 'agent "c" was created meanwhile by another transaction' in str(await other)


@pytest.mark.parametrize("steps", ["mend, resume", "mend"])
async def test_who_resumes_while_the_reader_looks_at_identities_is_not_paused_again(
    conn: AsyncConnection, dsn: str, steps: str
) -> None:
    """It had read that the table has none, and waits for the transaction that mends it."""
    await run_all(conn, DESK)
    await attach(conn, "name=desk, tools=[refund_user], on=[insert, update]")
    await run_all(
        conn,
        "alter table support_tickets replica identity nothing; select agent.pause('desk')",
    )
    async with session(dsn) as mender, session(dsn) as reader:
        async with mender.transaction():
            await run_all(mender, "alter table support_tickets replica identity full")
            if "resume" in steps:
                await mender.execute("select agent.resume('desk')")
            look = asyncio.create_task(
                rows(reader, "select * from agent_internal.check_identities()")
            )
            await asyncio.wait({look}, timeout=0.2)  # it waits for 0.5 s
        assert await look == []
    await conn.execute("select agent.resume('desk')")
    assert not await value(conn, "select paused from agent.attachment")
    assert await value(
        conn,
        "select array_agg(pubname::text) = '{walagent}' from pg_publication_tables"
        " where tablename = 'support_tickets'",
    )
