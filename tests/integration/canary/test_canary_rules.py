"""The rule by which walagent rolls a canary back: figures of both versions, and what follows."""

import pytest
from psycopg import AsyncConnection, errors

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, rows, run_all, until, value
from tests.helpers.queue import add_runs
from walagent.runs.canary_rules import check_canaries
from walagent.store.canaries import check_canary, due_canaries
from walagent.store.status import show_problems

SECOND = "insert into agent.model (name, provider, model_id) values ('second', 'scripted', 'x');"
ENDED = """
set session_replication_role = replica;
update agent.run r
   set state = case when r.id = any (%(failed)s) then 'failed' else 'succeeded' end
                   ::agent.run_state,
       cost = %(cost)s, started_at = now() - interval '1 s' * %(seconds)s, finished_at = now()
 where r.id = any (%(runs)s);
set session_replication_role = origin;
"""


async def canary(conn: AsyncConnection, rule: str, least: int = 10) -> int:
    """An attachment with a canary, version 2; return its ID."""
    await run_all(conn, DESK + SECOND)
    made = await attach(conn, "name=desk, tools=[refund_user]")
    await value(
        conn,
        "select agent.canary('desk', 'model=second', rollback_if => %s, min_runs => %s)",
        rule,
        least,
    )
    return made


async def ran(
    conn: AsyncConnection,
    attachment: int,
    version: int,
    many: int,
    *,
    failed: int = 0,
    cost: float = 0.01,
    seconds: float = 1,
) -> list[int]:
    """Runs of a version that have ended."""
    keys = [f"{version}-{n}" for n in range(many)]
    made = await add_runs(conn, attachment, *keys, attachment_version=version)
    for statement in ENDED.split(";")[:-1]:
        given = {"failed": made[:failed], "runs": made, "cost": cost, "seconds": seconds}
        await conn.execute(statement.encode(), given if "%" in statement else None)
    return made


async def state(conn: AsyncConnection) -> str:
    """What has become of the canary."""
    return await value(conn, "select state from agent.canary order by version desc limit 1")


@pytest.mark.parametrize(
    ("rule", "base", "other", "reason"),
    [
        (
            "failures > 2 * baseline",
            {"failed": 1},
            {"failed": 3},
            "failures > 2 * baseline: 0.3000 in 10 runs of version 2, 0.1000 in 10 of version 1",
        ),
        ("failures > 2 * baseline", {"failed": 1}, {"failed": 2}, None),
        ("failures > 2 * baseline + 0.15", {}, {"failed": 1}, None),
        ("failures > baseline - 0.05", {"failed": 1}, {"failed": 1}, "failures > baseline - 0.05"),
        ("cost > 1.5 * baseline", {"cost": 0.01}, {"cost": 0.02}, "cost > 1.5 * baseline: 0.020"),
        ("cost > 0.5", {}, {"cost": 0.4}, None),
        ("latency > 30 or calls > 9", {}, {"seconds": 31}, "latency > 30: 31.000"),
        (
            "calls > 9 OR  latency>baseline+2",
            {"seconds": 1},
            {"seconds": 4},
            "latency>baseline+2",
        ),
    ],
)
async def test_the_first_clause_that_is_true_ends_a_canary(
    conn: AsyncConnection, rule: str, base: dict[str, int], other: dict[str, int], reason: str
) -> None:
    """With its figures, and those of the version that it is compared with."""
    made = await canary(conn, rule)
    await ran(conn, made, 1, 10, **base)
    await ran(conn, made, 2, 10, **other)
    found = await check_canary(conn, made)
    assert (found is None) == (reason is None)
    if found is not None:
        assert found.reason.startswith(reason)
        assert (found.attachment, found.version) == ("desk", 2)
    assert await state(conn) == ("running" if reason is None else "rolled_back")
    assert await value(
        conn, "select (canary is null) = %s from agent.attachment", found is not None
    )


async def test_corrections_count_for_a_rule(conn: AsyncConnection) -> None:
    """As a share of the runs; those of many rows at once do not."""
    made = await canary(conn, "corrections > baseline + 0.15")
    await ran(conn, made, 1, 10)
    ended = await ran(conn, made, 2, 10)
    insert = """
        insert into agent.correction (run_id, commit_lsn, ordinal, column_name, number, kind,
                                      relation, schema_name, table_name, key, xid, committed_at)
        values (%s, '0/1', 0, 'status', 3, %s, 1, 'public', 'support_tickets', %s, 1, now())"""
    for run, kind in zip(ended, ("bulk", "changed", "deleted"), strict=False):
        key = None if kind == "bulk" else '{"id": "1"}'
        assert await check_canary(conn, made) is None
        await conn.execute(insert.encode(), [run, kind, key])
    assert (found := await check_canary(conn, made)) is not None
    assert "0.2000 in 10 runs" in found.reason


@pytest.mark.parametrize(("base", "other"), [(10, 9), (9, 10)])
async def test_a_rule_waits_for_enough_runs_of_both_versions(
    conn: AsyncConnection, base: int, other: int
) -> None:
    """Of a few, a share says nothing."""
    made = await canary(conn, "failures > baseline")
    await ran(conn, made, 1, base)
    await ran(conn, made, 2, other, failed=other)
    assert await check_canary(conn, made) is None
    await ran(conn, made, 1, 1)
    await ran(conn, made, 2, 1)
    assert await check_canary(conn, made) is not None


async def test_runs_of_before_the_canary_do_not_count(conn: AsyncConnection) -> None:
    """They met other changes."""
    await run_all(conn, DESK + SECOND)
    made = await attach(conn, "name=desk")
    await ran(conn, made, 1, 50, failed=50)
    await value(
        conn, "select agent.canary('desk', 'model=second', rollback_if => 'failures > baseline')"
    )
    await ran(conn, made, 1, 30)
    await ran(conn, made, 2, 30, failed=1)
    assert await check_canary(conn, made) is not None
    await ran(conn, made, 2, 5)
    assert await rows(
        conn, "select side, version, runs, ended, failures::float from agent.canary_figures"
    ) == [("baseline", 1, 30, 30, 0.0), ("canary", 2, 30, 30, 0.0333)]


async def test_a_canary_that_cannot_run_any_more_is_rolled_back(
    conn: AsyncConnection, caplog: pytest.LogCaptureFixture
) -> None:
    """Also without a rule: its function is gone."""
    await run_all(conn, DESK + SECOND)
    made = await attach(conn, "name=desk")
    await value(conn, "select agent.canary('desk', 'tools=[refund_user]')")
    assert await check_canary(conn, made) is None
    await run_all(conn, "drop function refund_user; update agent.canary set check_at = now()")
    await check_canaries(conn, await due_canaries(conn))
    (record,) = [each for each in caplog.records if "canary.rolled_back" in each.getMessage()]
    assert "refund_user" in record.getMessage()
    assert await state(conn) == "rolled_back"


async def test_a_canary_that_was_rolled_back_by_its_rule_is_a_problem(
    conn: AsyncConnection,
) -> None:
    """Audited with the reason, and shown until the next canary; not what a person ended."""
    made = await canary(conn, "failures > 0.5", least=2)
    await ran(conn, made, 2, 2, failed=2)
    await until(conn, "select count(*) = 1 from agent_internal.due_canaries()")
    await check_canaries(conn, await due_canaries(conn))
    (found,) = [each for each in await show_problems(conn) if each["kind"] == "canary"]
    assert (found["subject"], found["urgency"]) == ("desk", 3)
    assert found["detail"] == "failures > 0.5: 1.0000 in 2 runs of version 2"
    assert await rows(
        conn,
        "select object, detail ->> 'reason' from agent.audit where action = 'canary.rolled_back'",
    ) == [("desk", found["detail"])]
    await value(conn, "select agent.canary('desk', 'max_steps=3')")
    await value(conn, "select agent.roll_back_canary('desk')")
    assert [each for each in await show_problems(conn) if each["kind"] == "canary"] == []


async def test_the_reader_evaluates_rules(conn: AsyncConnection, dsn: str) -> None:
    """Also those that became due while there was none."""
    made = await canary(conn, "failures > 0.5", least=2)
    await ran(conn, made, 2, 2, failed=2)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await d.until("select state = 'rolled_back' from agent.canary")
    assert await rows(conn, "select ended_by, ended_at is not null from agent.canary") == [
        (None, True)
    ]


async def test_a_canary_replaces_a_version_when_it_is_promoted(conn: AsyncConnection) -> None:
    """Until then a failure of the version before it is one of the present version."""
    made = await canary(conn, "failures > 0.5")
    await ran(conn, made, 1, 1, failed=1)
    await ran(conn, made, 2, 1, failed=1)
    replaced = (
        "select f.replaced_at = c.ended_at, f.is_present from agent_internal.failure f,"
        " agent.canary c order by c.version, f.version"
    )
    assert await rows(conn, replaced) == [(None, True), (None, False)]
    await value(conn, "select agent.roll_back_canary('desk')")
    assert await rows(conn, replaced) == [(None, True), (True, False)]
    await value(conn, "select agent.canary('desk', 'model=second')")
    await value(conn, "select agent.promote_canary('desk')")
    assert await rows(conn, replaced) == [
        (False, False),
        (True, False),
        (True, False),
        (False, False),
    ]


async def test_a_rule_is_not_due_again_at_once(conn: AsyncConnection) -> None:
    """Its figures cost; a change of the rule is looked at soon."""
    made = await canary(conn, "failures > 0.5")
    assert await check_canary(conn, made) is None
    assert await value(conn, "select count(*) from agent_internal.due_canaries()") == 0
    await value(conn, "select agent.canary('desk', rollback_if => 'failures > 0.4')")
    assert await value(conn, "select count(*) from agent_internal.due_canaries()") == 1
    await value(conn, "select agent.canary('desk', rollback_if => '')")
    assert await rows(conn, "select rollback_if, min_runs from agent.canary") == [(None, 10)]


async def test_a_locked_attachment_is_left_for_later(conn: AsyncConnection, dsn: str) -> None:
    """Somebody is deciding about it."""
    made = await canary(conn, "failures > 0.1", least=1)
    await ran(conn, made, 2, 1, failed=1)
    async with await AsyncConnection.connect(dsn) as other:
        await other.execute("select from agent.attachment for update")
        with pytest.raises(errors.LockNotAvailable):
            await check_canary(conn, made)
    assert await check_canary(conn, made) is not None


@pytest.mark.parametrize(
    "held",
    [
        "select agent.canary('desk', share => 0.2)",
        "select from agent.attachment where name = 'desk' for update",
    ],
)
async def test_a_canary_that_somebody_has_locked_holds_up_no_other_and_is_named(
    conn: AsyncConnection, dsn: str, caplog: pytest.LogCaptureFixture, held: str
) -> None:
    """An open transaction of one developer would else keep every bad version in production."""
    first = await canary(conn, "failures > 0.5")
    second = await attach(conn, "name=other, tools=[refund_user]")
    await run_all(
        conn,
        "select agent.canary('other', 'model=second', rollback_if => 'failures > 0.5',"
        " min_runs => 10)",
    )
    for attachment in (first, second):
        await ran(conn, attachment, 2, 10, failed=10)
    states = "select attachment, state from agent.canary order by attachment"
    async with (
        await AsyncConnection.connect(dsn, autocommit=True) as somebody,
        await AsyncConnection.connect(dsn, autocommit=True) as reader,
    ):
        await reader.execute("set lock_timeout = '0.5s'")
        await somebody.execute("begin")
        await somebody.execute(held.encode())
        await check_canaries(reader, await due_canaries(reader))
        assert await rows(conn, states) == [("desk", "running"), ("other", "rolled_back")]
        assert f"'attachment': {first}" in caplog.text
        await somebody.execute("rollback")
        await check_canaries(reader, await due_canaries(reader))
    assert await rows(conn, states) == [("desk", "rolled_back"), ("other", "rolled_back")]
