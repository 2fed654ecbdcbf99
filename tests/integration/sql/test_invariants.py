"""The view that says which promises do not hold: it is empty, and it can be otherwise."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, run_all
from tests.helpers.queue import add_runs, claim

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
    "two runs of one ordering key at the same time": """
        update agent.run
           set ordering_key = 'a', state = 'running', lease_expires_at = 'infinity'""",
    "a run waits for an approval that does not exist": """
        update agent.run set state = 'waiting_approval', lease_expires_at = null where id = 1""",
    "an approval waits for a run that has ended": f"{QUESTION}; {ENDED}",
    "a run is blocked by one that has ended": f"""
        {ENDED}; update agent.run set blocked_by = 1 where id = 2""",
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
