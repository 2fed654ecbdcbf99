"""Failed and dead runs on the console's page: grouped by reason, with versions and hours."""

from psycopg import AsyncConnection

from tests.helpers.database import run_all, value
from tests.helpers.people import person
from tests.helpers.shapes import serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot

FAILED = """
create table ticket (id bigint primary key);
insert into agent.model (name, provider, model_id, base_url)
values ('one', 'scripted', 'one', '/none');
select agent.attach('ticket', 'name=triage, model=one, system_prompt="Check it."');
insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                       committed_at, change, key, state, finished_at, error)
select a.id, a.id, a.version, 1, '0/1', n, now(), '{}', n::text, 'failed',
       now() - case when n > 3 then interval '20 hours' else interval '0' end,
       jsonb_strip_nulls(jsonb_build_object('reason', 'write refused', 'sqlstate',
           case when n <= 3 then '23514' when n <= 5 then '42501' end))
  from agent.attachment a, generate_series(1, 6) n;
"""

OLDER = """
insert into agent.run (queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal,
                       committed_at, change, key, state, created_at, finished_at, error)
select queue_id, attachment_id, attachment_version, 1, '0/2', ordinal, now(), '{}', key, 'failed',
       now() - interval '30 days', now() - interval '30 days', error
  from agent.run where key = '1';
insert into agent.run (kind, reason, queue_id, principal, change, state, finished_at, error)
select 'question', 'question', 1, 'someone', '{}'::jsonb, 'failed'::agent.run_state, now(), error
  from agent.run where key = '1' and finished_at > now() - interval '1 day'
union all
select 'question', 'question', 1, 'someone', '{}'::jsonb, 'failed'::agent.run_state, now(), null;
"""
FILTERS = (
    "state",
    "agent",
    "relation",
    "key",
    "kind",
    "reason",
    "sqlstate",
    "model",
    "duration",
    "cost",
    "since",
    "until",
    "ended",
)
MATCHING = (
    *FILTERS,
    *("tenant", "q", "oldest", "before"),
)


async def test_groups_of_one_reason_count_their_own_versions_and_hours(
    conn: AsyncConnection, dsn: str
) -> None:
    """Groups of the same reason differ by SQLSTATE, or have none: no run is counted in two."""
    await run_all(conn, FAILED)
    vic = await person(conn, "vic", "viewer")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        answer = await served.query(vic, "console.failures", since="1 day", q="")
    await run_all(conn, "delete from agent.attachment; delete from agent.agent")
    assert answer.status_code == 200, answer.text
    groups = {row["sqlstate"]: row for row in answer.json()["rows"]}
    assert {state: int(row["runs"]) for state, row in groups.items()} == {
        "23514": 3,
        "42501": 2,
        None: 1,
    }
    for row in groups.values():
        assert row["reason"] == "write refused"
        assert row["versions"] == {"1": int(row["runs"])}
        assert sum(row["spark"]) == int(row["runs"])
    assert groups["23514"]["spark"][-1] == 3
    assert groups["42501"]["spark"][-1] == 0


async def test_a_retry_of_a_group_retries_that_group(conn: AsyncConnection, dsn: str) -> None:
    """Not runs of its reason with another SQLSTATE, another agent, or from before the period."""
    await run_all(conn, FAILED)
    await run_all(conn, OLDER)
    ann = await person(conn, "ann", "approver")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        answer = await served.query(ann, "console.failures", since="1 day", q="")
        groups = answer.json()["rows"]
        retried = dict[str, int]()
        for group in groups:
            match = dict.fromkeys(MATCHING, "") | {
                "state": group["states"],
                "reason": group["reason"],
                "sqlstate": group["sqlstate"] or "none",
                "agent": group["agent"],
                "ended": group["ended"],
            }
            sent = await served.mutate(ann, "console.retry_matching", **match)
            assert sent.status_code == 200, sent.text
            retried[group["id"]] = sent.json()["result"]["done"]
    left = await value(conn, "select count(*) from agent.run where state = 'failed'")
    await run_all(conn, "delete from agent.attachment; delete from agent.agent")
    assert retried == {group["id"]: int(group["runs"]) for group in groups}
    assert len(groups) == 5
    assert left == 1
