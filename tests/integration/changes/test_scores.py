"""People say how good a run was."""

import psycopg
import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, role, rows, run_all

RUN = """
insert into agent.run (reason, queue_id, attachment_id, attachment_version, change, key, state,
                       finished_at)
select 'manual', id, id, version, '{}', n::text, s::agent.run_state,
       case s when 'succeeded' then now() end
  from agent.attachment, (values (1, 'succeeded'), (2, 'pending')) v (n, s)
"""


@pytest.fixture
async def desk(conn: AsyncConnection) -> AsyncConnection:
    """A run that has ended, and one that has not."""
    await run_all(conn, DESK)
    await attach(conn, "writes=[category]")
    await run_all(conn, RUN)
    return conn


async def test_a_person_has_one_score_for_a_run(desk: AsyncConnection) -> None:
    """The later one counts; each is in the audit."""
    await run_all(desk, "select agent.score(min(id), -1, 'wrong') from agent.run")
    await run_all(desk, "select agent.score(min(id), 1) from agent.run")
    assert await rows(desk, "select value, comment, principal = session_user from agent.score") == [
        (1, None, True)
    ]
    audited = "select detail from agent.audit where action = 'run.scored' order by number"
    assert await rows(desk, audited) == [({"value": -1},), ({"value": 1},)]


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("agent.score(999, 1)", "run 999 does not exist"),
        ("agent.score((select max(id) from agent.run), 1)", "only a run that has ended"),
        ("agent.score((select min(id) from agent.run), 2)", "value must be -1"),
        ("agent.score((select min(id) from agent.run), 1e-300)", "value must be -1"),
        ("agent.score((select min(id) from agent.run), 0.5)", "value must be -1"),
        ("agent.score((select min(id) from agent.run), null)", "value must be -1"),
        ("agent.score((select min(id) from agent.run), 'NaN')", "value must be -1"),
    ],
)
async def test_what_is_no_score_is_refused(desk: AsyncConnection, call: str, error: str) -> None:
    """With what is wrong."""
    with pytest.raises(psycopg.Error, match=error):
        await run_all(desk, f"select {call}")


async def test_who_may_only_look_scores_nothing(desk: AsyncConnection) -> None:
    """And writes no score past the function."""
    async with role(desk) as viewer:
        await run_all(desk, f"select agent.grant_viewer('{viewer}'); set role {viewer}")
        for statement in (
            "select agent.score(min(id), 1) from agent.run",
            "insert into agent.score (run_id, principal, value) values (1, 'ann', 1)",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                await run_all(desk, statement)
        await run_all(desk, f"reset role; drop owned by {viewer}")


# Runs 1 to 7: nothing odd, corrected, a mistake, another model, many replies, much cost, failed.
ODD = """
insert into agent.run (id, reason, queue_id, attachment_id, attachment_version, change, key, state,
                       cost, finished_at)
overriding system value
select n, 'manual', id, id, version, '{"schema": "public", "table": "support_tickets"}', n::text,
       case n when 7 then 'failed' else 'succeeded' end::agent.run_state,
       case n when 6 then 0.09 end, now()
  from agent.attachment, generate_series(1, 7) n;
insert into agent.correction (run_id, commit_lsn, ordinal, column_name, number, kind, relation,
                              schema_name, table_name, key, xid, committed_at)
values (2, '0/1', 0, 'category', 4, 'changed', 'support_tickets'::regclass, 'public',
        'support_tickets', '{"id": "2"}', 1, now());
insert into agent.step (run_id, seq, kind, content) values
    (1, 0, 'reply', '{}'), (1, 1, 'result', '{"call_id": "a", "content": "done"}'),
    (3, 0, 'reply', '{}'), (3, 1, 'result', '{"call_id": "a", "correction": true}'),
    (4, 0, 'note', '{"fallback": "other", "for": "fake", "why": "503"}'),
    (7, 0, 'note', '{"text": "Answer with a call.", "correction": true}');
insert into agent.step (run_id, seq, kind, content)
select 5, n, 'reply', '{}' from generate_series(0, 7) n
"""
LISTED = "select run_id, reasons from agent.unscored_run order by 1"


@pytest.fixture
async def odd(conn: AsyncConnection) -> AsyncConnection:
    """Runs of which some should be looked at."""
    await run_all(conn, DESK)
    await attach(conn, "writes=[category], max_steps=10, max_cost=0.1")
    await run_all(conn, ODD)
    return conn


async def test_runs_that_a_person_should_score_are_listed_with_the_reason(
    odd: AsyncConnection,
) -> None:
    """Succeeded ones alone, until somebody has scored them."""
    assert await rows(odd, LISTED) == [
        (2, ["corrected"]),
        (3, ["mistakes"]),
        (4, ["fell_back"]),
        (5, ["near_limit"]),
        (6, ["near_limit"]),
    ]
    await run_all(odd, "select agent.score(n, 0) from unnest('{2,3,4}'::bigint[]) n")
    assert await rows(odd, LISTED) == [(5, ["near_limit"]), (6, ["near_limit"])]


async def test_a_share_of_all_runs_is_listed_at_random(odd: AsyncConnection) -> None:
    """The same runs each time: it depends on the number of the run alone."""
    await run_all(odd, "update agent.attachment set score_share = 0.2")
    await run_all(odd, RUN_OF_SHARE)
    of_share = "select array_agg(run_id) from agent.unscored_run where 'sample' = any (reasons)"
    ((first,),) = await rows(odd, of_share)
    assert isinstance(first, list)
    assert 150 < len(first) < 250
    assert await rows(odd, of_share) == [(first,)]
    await run_all(odd, "update agent.attachment set score_share = 1")
    await run_all(odd, "update agent.run set attachment_version = 3")
    assert await rows(odd, "select count(*) from agent.unscored_run") == [(1006,)]


RUN_OF_SHARE = """
insert into agent.run (id, reason, queue_id, attachment_id, attachment_version, change, state,
                       finished_at)
overriding system value
select n, 'manual', id, id, version, '{}', 'succeeded', now()
  from agent.attachment, generate_series(1001, 2000) n
"""
SHADOWED = """
insert into agent.evaluation (attachment, agent, model, planned, shadow, held_until)
select a.name, a.agent, 'fake', 0, s, now() from agent.attachment a, (values (2), (null)) v (s);
insert into agent.evaluation_case (evaluation_id, number, run_id, candidate, agrees)
select e.id, n, n, jsonb_build_object('state', case n when 2 then 'failed' else 'succeeded' end),
       n = 1
  from agent.evaluation e, generate_series(1, 3) n where e.shadow is not null
union all
select e.id, 1, 4, '{"state": "succeeded"}', false from agent.evaluation e where e.shadow is null
"""


async def test_a_run_of_which_a_shadow_did_something_else_is_listed(
    odd: AsyncConnection,
) -> None:
    """Not one whose shadow failed, and not one that a replay differs from."""
    await run_all(odd, SHADOWED)
    differing = "select run_id from agent.unscored_run where 'shadow_differs' = any (reasons)"
    assert await rows(odd, differing) == [(3,)]


WROTE = """
insert into agent.row_change (run_id, commit_lsn, ordinal, xid, committed_at, relation,
                              schema_name, table_name, op, source, key, columns, after)
select n, '0/1', 0, 1, now() - interval '8 days', 'support_tickets'::regclass, 'public',
       'support_tickets', 'update', 'statement', '{"id": "1"}', '{category}', '{"category": "bug"}'
  from generate_series(1, 4) n
"""
ACCURACY = "select written, corrected, confirmed, scored, wrong from agent.accuracy"


async def test_accuracy_counts_what_people_say(odd: AsyncConnection) -> None:
    """A score counts for more than a correction; people who disagree leave it as it is."""
    await run_all(odd, WROTE)
    assert await rows(odd, ACCURACY) == [(4, 1, 3, 0, 1)]
    await run_all(odd, "select agent.score(1, -1), agent.score(3, 1)")
    assert await rows(odd, ACCURACY) == [(4, 1, 2, 2, 2)]
    await run_all(odd, "select agent.score(2, 1, 'The customer changed their mind.')")
    assert await rows(odd, ACCURACY) == [(4, 1, 2, 3, 1)]
    await run_all(
        odd,
        "insert into agent.score (run_id, principal, value) values (2, 'someone', -1)",
    )
    assert await rows(odd, ACCURACY) == [(4, 1, 2, 3, 2)]
