"""Runs to score, in Chromium."""

from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.browser import CHROMIUM, MARKS, use
from tests.helpers.database import rows, run_all, until, value
from tests.helpers.desk import SUBJECTS, desk
from tests.helpers.people import person

pytestmark = MARKS
BUTTONS = "Right Wrong\u2026 Not sure"
LATER = "changed later"
MISTAKES = "replies went back to the model"
SORTED = """
select r.id from agent.run r where change -> 'new' ->> 'subject' = %s and state = 'succeeded'
"""
MISTAKEN = """
insert into agent.step (run_id, seq, kind, content)
select run_id, max(seq) + 1, 'note', '{"text": "A call is required here.", "correction": true}'
  from agent.step where run_id = %s group by run_id
"""
FALLEN = """
set session_replication_role = replica;
insert into agent.run (id, reason, queue_id, attachment_id, attachment_version, change, key, state,
                       finished_at)
overriding system value
select 1000 + n, 'manual', id, id, version, '{}', n::text, 'succeeded', now()
  from agent.attachment, generate_series(1, 140) n;
reset session_replication_role;
insert into agent.row_change (run_id, commit_lsn, ordinal, xid, committed_at, relation, schema_name,
                              table_name, op, source, key, columns, after)
select 1000 + n, '0/1', 0, 1, now() - case when n <= 40 then '1 day' else '20 days' end::interval,
       'ticket'::regclass, 'public', 'ticket', 'update', 'statement', '{}', '{category}', '{}'
  from generate_series(1, 140) n;
insert into agent.score (run_id, principal, value)
select 1000 + n, 'postgres', -1 from generate_series(1, 5) n
"""


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is missing")
async def test_a_person_says_whether_runs_were_right(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """From the list, which says why each is there, and on the page of a run; notes are texts."""
    async with desk(conn, dsn, tmp_path) as started:
        run, other = [await value(conn, SORTED, SUBJECTS[n]) for n in (1, 4)]
        await conn.execute("update ticket set category = 'bug' where subject = %s", [SUBJECTS[1]])
        await conn.execute(MISTAKEN, [other])
        await until(conn, "select count(*) = 1 from agent.correction")
        viewer = await person(conn, "vera", "viewer")
        seen = await use("scores.mjs", link=started.link, viewer=viewer, run=run)
        said = "select run_id, value, comment from agent.score order by 1"
        assert await rows(conn, said) == sorted([(run, 0, None), (other, 1, None)])
        await run_all(conn, FALLEN)
        fell = await use("fell.mjs", link=started.link, viewer=viewer)
        audited = "select count(*) from agent.audit where action = 'run.scored'"
        assert await value(conn, audited) == 3
    (said,) = fell["said"]
    assert said == (
        "triage: of 46 values that it wrote in 7 days, 86.9 % were not wrong;"
        " in the 28 days before, 100 % of 100. What was corrected"
    )
    assert (fell["axe"], fell["wide"]) == ([], [])
    assert sorted(seen["listed"]) == [
        f"triage v1 run {run} ticket 2 forgot my password category = how_to {LATER} {BUTTONS}",
        f"triage v1 run {other} ticket 5 archive vs delete category = how_to {MISTAKES} {BUTTONS}",
    ]
    assert (seen["offered"], seen["read"]) == (0, 0)
    assert seen["said"] == ["wrong"]
    (score,) = seen["score"]
    assert score.startswith("wrong ")
    assert "It was <b>a bug</b>." in score
    assert seen["accuracy"] == ["category v1 83.3 % 6 1 1 0 0"]
    assert (seen["axe"], seen["wide"], seen["dialogs"]) == ([], [], 0)
