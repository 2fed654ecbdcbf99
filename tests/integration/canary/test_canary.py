"""A canary: a version of an attachment that a share of the ordering keys gets."""

from dataclasses import replace
from pathlib import Path

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import (
    DESK,
    attach,
    message_of,
    refused,
    rows,
    run_all,
    until,
    value,
)
from tests.integration.canary.test_canary_rules import ran
from tests.integration.cli.user import User
from walagent.base import faults
from walagent.domain.attachment import Attachment
from walagent.matching.canary import Canary
from walagent.postgres.lsn import Lsn
from walagent.store import checkpoint as checkpoints

RUNS = """
select r.key, r.attachment_version from agent.run r
 where r.change ->> 'table' = 'support_tickets' order by r.commit_lsn, r.ordinal
"""
ACTIVE = """
select version, share from agent.attachment_version
 where active_from is not null and active_until is null and definition ->> 'name' = 'desk'
 order by 1
"""
SECOND = "insert into agent.model (name, provider, model_id) values ('second', 'scripted', 'x');"


async def desk(conn: AsyncConnection, spec: str = "") -> None:
    """A table with an agent, and a second model."""
    await run_all(conn, DESK + SECOND)
    await attach(conn, f"name=desk, {spec}" if spec else "name=desk")


async def canary_of(conn: AsyncConnection) -> Canary:
    """The canary of the attachment, as the reader has it."""
    ((definition, share),) = await rows(
        conn, "select canary_definition, canary_share from agent.attachment where name = 'desk'"
    )
    return Canary(Attachment.from_json(definition), share)


async def write(conn: AsyncConnection, *keys: int) -> None:
    """Insert tickets, each in a transaction."""
    for key in keys:
        await conn.execute("insert into support_tickets (id) values (%s)", [key])


async def test_a_canary_has_its_share_between_two_commits(conn: AsyncConnection, dsn: str) -> None:
    """Begun, grown, rolled back; begun again, promoted: each change has the version of its time."""
    await desk(conn)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await write(conn, *range(40))
        assert await value(conn, "select agent.canary('desk', 'model=second', share => 0.3)") == 2
        small = await canary_of(conn)
        await write(conn, *range(100, 140))
        await value(conn, "select agent.canary('desk', share => 0.7)")
        large = await canary_of(conn)
        await write(conn, *range(200, 240))
        await d.caught_up()
        assert await rows(conn, ACTIVE) == [(1, None), (2, 0.7)]
        assert await value(conn, "select agent.roll_back_canary('desk', 'no')") == 1
        await write(conn, *range(300, 310))
        assert await value(conn, "select agent.canary('desk', 'model=second', share => 0.5)") == 3
        other = await canary_of(conn)
        await write(conn, *range(400, 440))
        assert await value(conn, "select agent.promote_canary('desk')") == 3
        await write(conn, *range(500, 510))
        await d.caught_up()
        assert await rows(conn, ACTIVE) == [(3, None)]
    expected = [
        *((str(n), 1) for n in range(40)),
        *((str(n), 2 if small.takes(str(n)) else 1) for n in range(100, 140)),
        *((str(n), 2 if large.takes(str(n)) else 1) for n in range(200, 240)),
        *((str(n), 1) for n in range(300, 310)),
        *((str(n), 3 if other.takes(str(n)) else 1) for n in range(400, 440)),
        *((str(n), 3) for n in range(500, 510)),
    ]
    assert await rows(conn, RUNS) == expected
    assert {version for _, version in expected} == {1, 2, 3}
    assert await rows(
        conn, "select version, base_version, state, reason from agent.canary order by 1"
    ) == [(2, 1, "rolled_back", "no"), (3, 1, "promoted", None)]
    assert await value(conn, "select model from agent.agent where name = 'desk'") == "second"


async def test_a_canary_is_in_effect_from_its_place_in_a_transaction(
    conn: AsyncConnection, dsn: str
) -> None:
    """Also in one so large that it is ingested in pieces, and read again after a crash."""
    await desk(conn)
    insert = "insert into support_tickets (id) select generate_series({}, {})".format
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await d.caught_up()
        with faults.armed("intake.checkpoint_advanced"):
            await run_all(
                conn,
                f"begin; {insert(1, 5000)};"
                "select agent.canary('desk', 'model=second', share => 0.5);"
                f"{insert(5001, 6000)}; select agent.canary('desk', share => 0.1);"
                f"{insert(6001, 7000)}; commit",
            )
            await d.dies("reader")
        canary = await canary_of(conn)
        await d.start_reader()
        await d.caught_up()
        assert await rows(conn, ACTIVE) == [(1, None), (2, 0.1)]
    half = replace(canary, share=0.5)
    assert await rows(conn, RUNS) == [
        *((str(n), 1) for n in range(1, 5001)),
        *((str(n), 2 if half.takes(str(n)) else 1) for n in range(5001, 6001)),
        *((str(n), 2 if canary.takes(str(n)) else 1) for n in range(6001, 7001)),
    ]


async def test_a_canary_outlasts_its_reader(conn: AsyncConnection, dsn: str) -> None:
    """The next reader begins with the canary, and with its share at the checkpoint."""
    await desk(conn)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await value(conn, "select agent.canary('desk', 'model=second', share => 0.2)")
        await value(conn, "select agent.canary('desk', share => 0.6)")
        canary = await canary_of(conn)
        await d.caught_up()
        await d.stop("reader")
        await write(conn, *range(30))
        await value(conn, "select agent.canary('desk', share => 0.1)")
        await d.start_reader()
        await d.caught_up()
    expected = [(str(n), 2 if canary.takes(str(n)) else 1) for n in range(30)]
    assert await rows(conn, RUNS) == expected


async def test_a_canary_of_before_the_slot_is_in_effect(conn: AsyncConnection, dsn: str) -> None:
    """From where the slot begins; also of one that is created again after a gap."""
    await desk(conn)
    await value(conn, "select agent.canary('desk', 'model=second', share => 0.5)")
    canary = await canary_of(conn)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await write(conn, *range(30))
        await d.caught_up()
    expected = [(str(n), 2 if canary.takes(str(n)) else 1) for n in range(30)]
    assert await rows(conn, RUNS) == expected
    await checkpoints.open_checkpoint(
        conn,
        await value(conn, "select slot from agent.checkpoint"),
        system_id="1",
        timeline=1,
        plugin="pgoutput",
        start=Lsn(1 << 40),
        existing=await checkpoints.existing_attachments(conn),
    )
    assert await rows(conn, ACTIVE) == [(1, None), (2, 0.5)]


async def test_a_change_of_the_attachment_ends_its_canary(conn: AsyncConnection, dsn: str) -> None:
    """The next version has a number of its own; pausing and resuming end nothing."""
    await desk(conn)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await value(conn, "select agent.canary('desk', 'model=second')")
        await run_all(conn, "select agent.pause('desk'); select agent.resume('desk')")
        await d.caught_up()
        assert await rows(conn, ACTIVE) == [(1, None), (2, 0.1)]
        await run_all(conn, "update agent.attachment set cap = 3 where name = 'desk'")
        await d.caught_up()
        assert await rows(conn, ACTIVE) == [(3, None)]
    assert await rows(conn, "select version, state from agent.canary") == [(2, "replaced")]


async def test_a_retry_keeps_a_run_with_the_canary_that_there_is(conn: AsyncConnection) -> None:
    """Of one that has ended, it takes the version of the attachment."""
    await desk(conn)
    (made,) = await rows(conn, "select id from agent.attachment")
    await value(conn, "select agent.canary('desk', 'model=second')")
    (run,) = await ran(conn, int(made[0]), 2, 1, failed=1)
    retried = "select attachment_version from agent.run where id = %s and state = 'pending'"
    await value(conn, "select agent.retry(%s)", run)
    assert await value(conn, retried, run) == 2
    await value(conn, "select agent.cancel(%s)", run)
    await value(conn, "select agent.roll_back_canary('desk')")
    await value(conn, "select agent.retry(%s)", run)
    assert await value(conn, retried, run) == 1


async def test_a_detached_attachment_has_no_canary(conn: AsyncConnection, dsn: str) -> None:
    """Its record stays; what is attached under the name later is another one."""
    await desk(conn)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await value(conn, "select agent.canary('desk', 'model=second', share => 0.9)")
        await value(conn, "select agent.detach('desk')")
        await attach(conn, "name=desk")
        await write(conn, *range(10))
        await d.caught_up()
        assert await rows(conn, ACTIVE) == [(1, None)]
    assert {version for _, version in await rows(conn, RUNS)} == {1}
    assert await rows(conn, "select version, state from agent.canary") == [(2, "replaced")]


async def test_changes_deferred_for_a_canary_stay_with_it(conn: AsyncConnection, dsn: str) -> None:
    """The attachment was broken for a while, and is what it was."""
    await desk(conn, "writes=[status]")
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await value(conn, "select agent.canary('desk', 'model=second', share => 0.5)")
        canary = await canary_of(conn)
        await run_all(conn, "alter table support_tickets rename status to state")
        await write(conn, *range(20))
        await d.caught_up()
        await until(conn, "select paused from agent.attachment where name = 'desk'")
        check = "select agent_internal.check_canary(id) from agent.attachment"
        assert await rows(conn, check) == []  # what neither version can do is not its fault
        await run_all(conn, "alter table support_tickets rename state to status")
        await value(conn, "select agent.resume('desk')")
        await d.caught_up()
    deferred = "select bool_and(change ? 'deferred') from agent.run"
    assert await value(conn, f"{deferred} where change ->> 'table' = 'support_tickets'")
    expected = [(str(n), 2 if canary.takes(str(n)) else 1) for n in range(20)]
    assert await rows(conn, RUNS) == expected


async def test_a_change_to_what_the_canary_is_promotes_it(conn: AsyncConnection) -> None:
    """By any way, as `walagent apply` of a file that has its settings."""
    await desk(conn)
    await value(conn, "select agent.canary('desk', 'model=second')")
    await run_all(conn, "update agent.agent set model = 'second' where name = 'desk'")
    assert await rows(conn, "select version, canary from agent.attachment") == [(2, None)]
    assert await rows(conn, "select version, state from agent.canary") == [(2, "promoted")]


async def test_a_canary_of_both_agent_and_attachment_is_promoted_as_one_version(
    conn: AsyncConnection,
) -> None:
    """No version between the two is made."""
    await desk(conn)
    changes = (
        "model=second, tools=[refund_user], approve=[refund_user], priority=7, writes=[status]"
    )
    assert await value(conn, "select agent.canary('desk', %s)", changes) == 2
    before = await rows(conn, "select model, tools from agent.agent")
    assert before == [("fake", [])]
    assert await value(conn, "select agent.promote_canary('desk')") == 2
    assert await rows(
        conn,
        "select a.version, g.model, g.tools, a.approve, a.priority, a.writes,"
        "       a.definition = v.definition"
        "  from agent.attachment a join agent.agent g on g.name = a.agent"
        "       join agent.attachment_version v on v.attachment_id = a.id and v.version = 2",
    ) == [(2, "second", ["refund_user"], ["refund_user"], 7, ["status"], True)]
    assert await value(conn, "select max(version) from agent.attachment_version") == 2


@pytest.mark.parametrize(
    ("statement", "state", "word"),
    [
        ("select agent.canary('dusk', 'model=second')", "WA013", "desk"),
        ("select agent.canary('desk')", "WA013", "no canary"),
        ("select agent.promote_canary('desk')", "WA013", "no canary"),
        ("select agent.roll_back_canary('desk')", "WA013", "no canary"),
        ("select agent.canary('desk', 'model=fake')", "WA010", "nothing"),
        ("select agent.canary('desk', '')", "WA010", "requires"),
        ("select agent.canary('desk', 'modell=second')", "WA010", '"model"'),
        ("select agent.canary('desk', 'model=secund')", "WA014", '"second"'),
        ("select agent.canary('desk', 'tools=[refund_usr]')", "WA011", "refund_user"),
        ("select agent.canary('desk', 'agent=nobody')", "WA013", "nobody"),
        ("select agent.canary('desk', 'when=\"true\"')", "WA010", "when"),
        ("select agent.canary('desk', 'ordering_key=[status]')", "WA010", "ordering_key"),
        ("select agent.canary('desk', 'name=other')", "WA010", "name"),
        ("select agent.canary('desk', 'run_as=postgres')", "WA010", "run_as"),
        ("select agent.canary('desk', 'agent=desk, model=second')", "WA010", "agent"),
        ("select agent.canary('desk', 'model=second', share => 0)", "WA010", "share"),
        ("select agent.canary('desk', 'model=second', share => 1)", "WA010", "share"),
        ("select agent.canary('desk', 'model=second', share => 'NaN')", "WA010", "share"),
        ("select agent.canary('desk', 'model=second', min_runs => 0)", "WA010", "min_runs"),
        ("select agent.canary('desk', 'model=second', rollback_if => 'true')", "WA010", "true"),
        (
            "select agent.canary('desk', 'model=second', rollback_if => 'failures > 1; drop')",
            "WA010",
            "drop",
        ),
        (
            "select agent.canary('desk', 'model=second', rollback_if => 'failure > 1')",
            "WA010",
            "failures",
        ),
    ],
)
async def test_what_cannot_be_a_canary_is_refused(
    conn: AsyncConnection, statement: str, state: str, word: str
) -> None:
    """With the name of what is wrong, as attaching refuses it; nothing of it is stored."""
    await desk(conn)
    error = await refused(conn, statement, state=state)
    assert word in message_of(error)
    assert await value(conn, "select count(*) from agent.canary") == 0
    assert await rows(conn, "select model, version from agent.agent") == [("fake", 1)]
    assert await value(conn, "select count(*) from agent.attachment_version") == 1


async def test_there_is_one_canary_of_an_attachment(conn: AsyncConnection) -> None:
    """A second is refused until the first has ended."""
    await desk(conn)
    await value(conn, "select agent.canary('desk', 'model=second')")
    error = await refused(conn, "select agent.canary('desk', 'max_steps=3')", state="WA013")
    assert "version 2" in message_of(error)
    changed = (
        """update agent.attachment set canary = '{"changes": {"max_steps": 3}, "min_runs": 1}'"""
    )
    await refused(conn, changed, state="WA013")


async def test_an_agent_of_two_attachments_is_not_promoted_for_one(conn: AsyncConnection) -> None:
    """Its settings would change for both; a second agent is the way."""
    await desk(conn)
    await run_all(conn, "create table notes (id int primary key)")
    await value(conn, "select agent.attach('notes'::regclass, agent => 'desk')")
    error = await refused(conn, "select agent.canary('desk', 'model=second')", state="WA013")
    assert '"notes"' in message_of(error)
    await run_all(conn, "insert into agent.agent (name, model) values ('other', 'second')")
    assert await value(conn, "select agent.canary('desk', 'agent=other')") == 2
    assert await value(conn, "select agent.promote_canary('desk')") == 2
    assert await value(conn, "select agent from agent.attachment where name = 'desk'") == "other"


async def test_a_canary_whose_tool_has_changed_is_not_promoted(conn: AsyncConnection) -> None:
    """What would be in effect is not what was measured."""
    await desk(conn)
    await value(conn, "select agent.canary('desk', 'tools=[refund_user]')")
    await run_all(
        conn,
        "drop function refund_user; create function refund_user(ticket_id bigint, why text)"
        " returns text language sql as $$ select 'no' $$",
    )
    error = await refused(conn, "select agent.promote_canary('desk')", state="WA013")
    assert "has changed" in message_of(error)
    assert await value(conn, "select canary is not null from agent.attachment") is True


async def test_what_becomes_of_a_canary_is_audited(conn: AsyncConnection) -> None:
    """Who began, changed and ended it."""
    await desk(conn)
    for statement in (
        "select agent.canary('desk', 'model=second')",
        "select agent.canary('desk', share => 0.2)",
        "select agent.roll_back_canary('desk', 'slow')",
        "select agent.canary('desk', 'model=second')",
        "select agent.promote_canary('desk')",
    ):
        await conn.execute(statement.encode())
    assert await rows(
        conn,
        "select action, detail ->> 'version', detail ->> 'reason' from agent.audit"
        " where action like 'canary.%' order by number",
    ) == [
        ("canary.begun", "2", None),
        ("canary.changed", "2", None),
        ("canary.rolled_back", "2", "slow"),
        ("canary.begun", "3", None),
        ("canary.promoted", "3", None),
    ]


async def test_a_file_with_the_settings_of_a_canary_promotes_it(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """And one that says the same as before ends nothing."""
    await run_all(conn, DESK + SECOND)
    user = User(tmp_path, dsn)
    file = (
        "agents: {{desk: {{model: {}, max_steps: {}, attach: [{{table: support_tickets,"
        " priority: {}}}]}}}}"
    ).format
    user.writes(file("fake", 20, 0))
    user.types("apply").worked()
    begin = "select agent.canary('desk', 'model=second, max_steps=9, priority=5')"
    assert await value(conn, begin) == 2
    user.writes(file("fake", 20, 0))
    user.types("apply").worked()
    assert await rows(conn, "select version, state from agent.canary") == [(2, "running")]
    user.writes(file("second", 9, 5))
    user.types("apply").worked()
    assert await rows(conn, "select version, state from agent.canary") == [(2, "promoted")]
    assert await rows(conn, "select version, canary from agent.attachment") == [(2, None)]


async def test_a_trial_leaves_a_canary_alone(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """It attaches again, under another name, as the attachment is."""
    await desk(conn)
    await value(conn, "select agent.canary('desk', 'model=second')")
    await write(conn, 1)
    await run_all(
        conn, "update agent.model set base_url = 'script.json' where provider = 'scripted'"
    )
    user = User(tmp_path, dsn)
    user.writes('{"replies": ["ok"]}', "script.json")
    tried = user.types("try", "desk", "--last", "1")
    assert (tried.code, "canary" in tried.out + tried.err) == (0, False), tried
    assert await rows(conn, "select version, state from agent.canary") == [(2, "running")]
