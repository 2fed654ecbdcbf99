"""The view that says which promises do not hold: it is empty, and it can be otherwise."""

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.database import DESK, attach, column, run_all, value
from tests.helpers.queue import add_runs, claim
from walagent.store.people.listings import broken_invariants

STEP = "insert into agent.step (run_id, seq, kind, content) values"
QUESTION = (
    "insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at)"
    " values (1, 'c', 't', '{}', '', 'x', 'infinity')"
)
ENDED = """update agent.run set state = 'failed', finished_at = now(), lease_expires_at = null
            where id = 1"""
BROKEN = {
    "a step is missing": f"{STEP} (1, 0, 'note', '{{}}'), (1, 2, 'note', '{{}}')",
    "a run is ahead of the checkpoint": """
        insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn)
        values ('s', '1', 1, 'pgoutput', '0/1', '0/1')""",
    "a run waits for an approval that does not exist": """
        update agent.run set state = 'waiting_approval', lease_expires_at = null where id = 1""",
    "an approval waits for a run that has ended": f"{QUESTION}; {ENDED}",
    "a run is blocked by one that has ended": f"""
        {ENDED}; update agent.run set blocked_by = 1 where id = 2""",
    "runs block one another": """
        update agent.run set blocked_by = 3 - id, state = 'pending', lease_expires_at = null
         where id in (1, 2)""",
    "a call has two results": f"""
        {STEP} (1, 0, 'result', '{{"call_id": "c"}}'), (1, 1, 'result', '{{"call_id": "c"}}')""",
    "a lease has expired and its run was not released": """
        update agent.run set lease_expires_at = now() - interval '6 minutes' where id = 1""",
    "a change is in two runs": """
        insert into agent_internal.merged_change
        select attachment_id, generation, commit_lsn, ordinal, 2, change
          from agent.run where id = 1""",
}


@pytest.mark.parametrize("rule", BROKEN)
async def test_a_broken_promise_is_seen(conn: AsyncConnection, rule: str) -> None:
    """Each rule of the view, broken by hand, shows one row of its own name."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), "a", "b")
    (first, _) = await claim(conn)
    assert first.run_id == 1
    assert await column(conn, "select rule from agent.broken_invariant") == []
    await run_all(conn, "alter table agent.run disable trigger user")
    await run_all(conn, BROKEN[rule])
    assert set(await column(conn, "select rule from agent.broken_invariant")) == {rule}


async def test_calls_of_different_replies_may_have_the_same_id(conn: AsyncConnection) -> None:
    """Some providers start the numbers again with each reply."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), "a")
    result = "'result', '{\"call_id\": \"c\"}'"
    await run_all(conn, f"{STEP} (1, 0, 'reply', '{{}}'), (1, 1, {result})")
    await run_all(conn, f"{STEP} (1, 2, 'reply', '{{}}'), (1, 3, {result})")
    assert await broken_invariants(conn) == []
    await run_all(conn, f"{STEP} (1, 4, {result})")
    assert [each["rule"] for each in await broken_invariants(conn)] == ["a call has two results"]


async def test_steps_of_old_runs_are_read_on_request(conn: AsyncConnection) -> None:
    """`walagent wal check` reads those of the latest runs, with --all those of all."""
    await run_all(conn, DESK)
    await add_runs(conn, await attach(conn, ""), "a", "b")
    await run_all(conn, f"{STEP} (1, 1, 'note', '{{}}')")
    assert await broken_invariants(conn, latest=1) == []
    assert [each["rule"] for each in await broken_invariants(conn, latest=2)] == [
        "a step is missing"
    ]
    assert len(await broken_invariants(conn)) == 1


async def test_starting_a_run_reads_no_other_unfinished_ones(conn: AsyncConnection) -> None:
    """What one change costs does not grow with the runs that wait for people."""
    await run_all(conn, DESK)
    attached = await attach(conn, "")
    await add_runs(conn, attached, *(str(n) for n in range(300)))
    await claim(conn, 300)
    await run_all(
        conn,
        "insert into agent.checkpoint (slot, system_id, timeline, plugin, commit_lsn, end_lsn)"
        " values ('s', '1', 1, 'pgoutput', '1/0', '1/0')",
    )
    run = {
        "attachment_id": attached,
        "attachment_version": 1,
        "commit_lsn": "1/8",
        "ordinal": 0,
        "change": {},
        "ordering_key": "new",
        "max_attempts": 1,
        "start": True,
    }
    read = (
        "select seq_tup_read + coalesce(idx_tup_fetch, 0) from pg_stat_xact_all_tables"
        " where relid = 'agent.run'::regclass"
    )
    async with conn.transaction():
        before = await value(conn, read)
        started = await value(
            conn,
            "select agent_internal.ingest(_slot => 's', _epoch => 0, _generation => 1,"
            " _commit_lsn => '1/8', _end_lsn => '1/9', _runs => %s,"
            " _worker => 'w', _lease => '30 s')",
            Jsonb([run]),
        )
        after = await value(conn, read)
    assert len(started) == 1
    assert after - before < 10
