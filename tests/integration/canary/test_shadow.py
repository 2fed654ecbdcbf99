"""A shadow: a version that runs on the same changes, of which nothing is kept."""

import json
from collections.abc import Sequence
from pathlib import Path

from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, refused, rows, run_all, value
from walagent.base import faults
from walagent.config import Config
from walagent.message import Json
from walagent.models.script import ScriptedCall
from walagent.store.sessions.connections import connect
from walagent.trial.shadowing import Shadower

SECOND = """
insert into agent.model (name, provider, model_id, base_url, input_price, output_price)
values ('second', 'scripted', 'second', '{}', 1, 5);
"""
REAL = [ScriptedCall("update_row", {"category": "bug"}), "Done."]
# All that a shadow could leave behind.
KEPT = """
select (select jsonb_agg(t order by id) from support_tickets t), (select count(*) from refund),
       (select jsonb_agg(r.id order by id) from agent.run r), (select count(*) from agent.step),
       (select count(*) from agent.attachment), (select count(*) from agent.attachment_version),
       (select count(*) from agent.agent), (select count(*) from agent.agent_version),
       (select count(*) from agent.approval), (select count(*) from agent.outbox),
       (select count(*) from agent.spend), (select count(*) from agent_internal.queue),
       (select count(*) from agent_internal.trial), (select count(*) from agent.row_change),
       (select count(*) from agent_internal.row_before), (select count(*) from agent.correction)
"""
OUTCOMES = "select key, outcome from agent.shadow_run order by run_id"


def says(folder: Path, *replies: Json, latency: float = 0, **rules: Sequence[Json]) -> str:
    """Write a script: what the shadow's model replies, by a word of the issue."""
    document = {
        "latency": latency,
        "usage": {"input_tokens": 900, "output_tokens": 100},
        "rules": [{"match": word, "replies": list(given)} for word, given in rules.items()],
        "replies": list(replies),
    }
    path = folder / "second.json"
    path.write_text(json.dumps(document))
    return str(path)


def sets(category: str) -> list[Json]:
    """Replies that write a category."""
    return [{"call": "update_row", "arguments": {"category": category}}, "Done."]


async def shadowed(
    conn: AsyncConnection,
    script: str,
    *,
    spec: str = "writes=[category]",
    changes: str = "model=second",
    share: float | None = None,
) -> None:
    """A table with an agent that has a shadow, version 2."""
    await run_all(conn, DESK + SECOND.format(script))
    await attach(conn, f"name=desk, {spec}")
    await value(conn, "select agent.shadow('desk', %s, share => %s)", changes, share)


async def tickets(d: Daemon, *issues: str) -> None:
    """Insert tickets, and wait for the ends of their runs."""
    before = await value(d.conn, "select count(*) from support_tickets")
    for issue in issues:
        await d.conn.execute("insert into support_tickets (issue) values (%s)", [issue])
    await d.ended(before + len(issues), attachment="desk")


async def shadow(dsn: str, most: int = 1000) -> int:
    """Try what is due; return how many changes."""
    async with await connect(dsn) as own:
        shadower = Shadower(own, dsn, Config())
        count = 0
        while count < most and await shadower.work_one():
            count += 1
        return count


async def test_a_shadow_has_its_changes_and_nothing_of_it_is_kept(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Each change once; what it would have done is compared with what the run did."""
    script = says(tmp_path, *sets("bug"), money=sets("billing"), odd=sets("nonsense"))
    await shadowed(conn, script)
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "broken", "money", "odd", "broken, too")
        await d.caught_up()
        before = await rows(conn, KEPT)
        assert await rows(conn, OUTCOMES) == [(str(n), "waiting") for n in range(1, 5)]
        assert await shadow(dsn) == 4
        assert await rows(conn, KEPT) == before
    assert await rows(conn, OUTCOMES) == [
        ("1", "same"), ("2", "other"), ("3", "other"), ("4", "same"),
    ]  # fmt: skip
    ((recorded, candidate),) = await rows(
        conn, "select recorded, candidate from agent.shadow_run where key = '2'"
    )
    for outcome, category in ((recorded, "bug"), (candidate, "billing")):
        (call,) = outcome["calls"]
        assert (call["tool"], call["arguments"]) == ("update_row", {"category": category})
    assert candidate["taken_back"]
    figures = "select side, version, ended, failures, cost from agent.canary_figures order by 1"
    (base, own) = await rows(conn, figures)
    assert base[:4] == ("baseline", 1, 4, 0)
    assert own[:4] == ("shadow", 2, 4, 0)
    assert own[4] > 0
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_shadow_is_in_effect_between_two_commits(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Begun, changed, a canary, ended: each change has what was in effect at its commit."""
    await shadowed(conn, says(tmp_path, *sets("bug")), share=0.5)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await run_all(conn, "insert into support_tickets select n from generate_series(1, 40) n")
        await d.caught_up()
        await value(conn, "select agent.shadow('desk', share => 1)")
        await run_all(conn, "insert into support_tickets select n from generate_series(101, 110) n")
        await d.caught_up()
        assert await value(conn, "select agent.roll_back_canary('desk')") == 1
        await run_all(conn, "insert into support_tickets select n from generate_series(201, 210) n")
        await d.caught_up()
        # What waited when the shadow ended is gone.
        assert await value(conn, "select count(*) from agent_internal.shadowed_run") == 0
        assert await value(conn, "select agent.shadow('desk', 'model=second')") == 3
        await run_all(conn, "insert into support_tickets select n from generate_series(301, 310) n")
        await d.caught_up()
        assert await value(conn, "select count(*) from agent_internal.shadowed_run") == 10
        assert await value(conn, "select agent.canary('desk', share => 0.5)") == 3
        await run_all(conn, "insert into support_tickets select n from generate_series(401, 440) n")
        await d.caught_up()
        assert await value(conn, "select agent.promote_canary('desk')") == 3
    versions = "select distinct attachment_version from agent.run where key::int between %s and %s"
    assert await rows(conn, versions, 1, 399) == [(1,)]
    assert sorted(await rows(conn, versions, 401, 440)) == [(1,), (3,)]
    ended = "select version, shadow, state from agent.canary order by 1"
    assert await rows(conn, ended) == [(2, True, "rolled_back"), (3, False, "promoted")]


async def test_a_share_of_the_keys_is_shadowed_once_also_after_crashes(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """What is read again after a crash has no second shadow, and a reader that starts knows it."""
    await shadowed(conn, says(tmp_path, *sets("bug")), share=0.5)
    insert = "insert into support_tickets select n from generate_series({}, {}) n".format
    async with daemon(conn, dsn, parts=("reader",)) as d:
        for at, point in enumerate(("intake.runs_inserted", "intake.committed")):
            await d.caught_up()
            with faults.armed(point):
                # With a table attached in it, it takes the path of several statements.
                await run_all(
                    conn,
                    f"begin; {insert(100 * at, 100 * at + 39)};"
                    f"select agent.shadow('desk', share => {0.6 - at / 5}); commit",
                )
                await d.dies("reader")
            await d.start_reader()
        await run_all(conn, insert(300, 339))
        await d.caught_up()
    assert await value(conn, "select count(*) from agent.run where attachment_version = 1") >= 120
    ((many, once),) = await rows(
        conn,
        "select count(*), count(distinct run_id) from agent_internal.shadowed_run",
    )
    assert many == once
    assert 30 < many < 90


async def test_a_claim_that_was_lost_is_tried_again_and_stored_once(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """What a killed process had claimed waits for the end of its lease."""
    await shadowed(conn, says(tmp_path, *sets("bug")))
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "broken")
        await d.caught_up()
        await run_all(conn, "begin; select * from agent_internal.claim_shadow('5 min'); commit")
        assert await shadow(dsn) == 0
        await run_all(conn, "update agent_internal.shadowed_run set claimed_until = now()")
        assert await shadow(dsn) == 1
    assert await rows(conn, OUTCOMES) == [("1", "same")]
    late = "select agent_internal.end_shadowed(%s, 1, 1, '{\"candidate\": {}}', '0')"
    run = await value(conn, "select run_id from agent_internal.shadowed_run")
    assert await value(conn, late, run) is False
    assert await value(conn, "select count(*) from agent.evaluation_case") == 1


async def test_what_cannot_be_a_shadow_is_refused(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """No shadow is begun beside a canary, and a share is more than 0."""
    await run_all(conn, DESK + SECOND.format(says(tmp_path, "Done.")))
    await attach(conn, "name=desk")
    for share in (0, 1.1, "NaN"):
        await refused(conn, "select agent.shadow('desk', 'model=second', %s)", share, state="WA010")
    await refused(conn, "select agent.shadow('desk', share => 1)", state="WA013")
    await value(conn, "select agent.canary('desk', 'model=second')")
    await refused(conn, "select agent.shadow('desk', share => 0.5)", state="WA013")
    await refused(conn, "select agent.shadow('desk', 'model=second')", state="WA013")


async def test_a_shadow_that_lasts_forgets_with_its_runs(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Retention removes what it did on changes whose runs are removed, not the shadow."""
    await shadowed(conn, says(tmp_path, *sets("bug")))
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "broken", "broken, too")
        assert await shadow(dsn) == 2
    await run_all(
        conn,
        "delete from agent.run where id = (select min(run_id) from agent.shadow_run);"
        "update agent.evaluation set held_until = now() - interval '1 year';"
        "select agent_internal.prune_evaluations('1 day')",
    )
    assert await rows(conn, OUTCOMES) == [("2", "same")]
    assert await value(conn, "select count(*) from agent.evaluation_case") == 1
    await value(conn, "select agent.roll_back_canary('desk')")
    later = "update agent.evaluation set ended_at = now() - interval '1 year'"
    await run_all(conn, f"{later}; select agent_internal.prune_evaluations('1 day')")
    assert await value(conn, "select count(*) from agent.evaluation") == 0


async def test_a_shadow_can_have_a_cascade(conn: AsyncConnection, dsn: str, tmp_path: Path) -> None:
    """Unsure models are passed as in a run, between the transactions of the trial; no control."""
    third = tmp_path / "third.json"
    unsure = [{"call": "unsure", "arguments": {"reason": "two meanings"}}]
    rule = {"match": "money", "replies": unsure}
    third.write_text(json.dumps({"rules": [rule], "replies": sets("bug")}))
    await run_all(conn, DESK + SECOND.format(says(tmp_path, *sets("billing"))))
    await run_all(
        conn,
        "insert into agent.model (name, provider, model_id, base_url)"
        f" values ('third', 'scripted', 'third', '{third}')",
    )
    await attach(conn, "name=desk, writes=[category]")
    spec = "model=second, cascade=[third], cascade_control=1"
    await value(conn, "select agent.shadow('desk', %s)", spec)
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "broken", "money")
        await d.caught_up()
        before = await rows(conn, KEPT)
        assert await shadow(dsn) == 2
        assert await rows(conn, KEPT) == before
    assert await rows(conn, OUTCOMES) == [("1", "same"), ("2", "other")]
    candidates = await rows(
        conn, "select candidate -> 'calls' from agent.shadow_run order by run_id"
    )
    assert [[call["arguments"] for call in calls] for (calls,) in candidates] == [
        [{"category": "bug"}],
        [{"category": "billing"}],
    ]
