"""What a person must act on: one relation behind the first page, the page WAL and status."""

import shlex
from contextlib import closing
from pathlib import Path

import pytest
from prometheus_client import generate_latest
from psycopg import AsyncConnection, Connection

from tests.faults.rig.servers import own_server
from tests.helpers.database import attach, column, rows, run_all, until, value
from tests.helpers.queue import add_runs
from walagent.app.problems import Problems, pause_after
from walagent.config import Replication
from walagent.console.declared import declared_queries
from walagent.replication.bootstrap import ensure_slot
from walagent.store.status import show_problems, show_status
from walagent.telemetry import metrics

TABLE = """
insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');
create table public.item (id int primary key);
"""
BUDGETS = """
insert into agent.budget (name, period, max_tokens)
values ('spent', 'day', 100), ('nearly', 'day', 100), ('fine', 'day', 100);
update agent_internal.budget_use u
   set spent_tokens = case b.name when 'spent' then 100 when 'nearly' then 85 else 10 end
  from agent.budget b where b.id = u.budget_id;
"""
PART = """
insert into agent.budget (name, period, max_tokens, on_exceeded)
values ('spent', 'total', 8100, '{does}');
update agent_internal.budget_use set spent_tokens = 3960;
set session_replication_role = replica;  -- a run
update agent.run set {does_to}, error = '{{"reason": "needs up to 8040", "budget": "spent"}}';
set session_replication_role = origin;
"""
WAITED_FOR = PART.format(
    does="wait", does_to="state = 'waiting_retry', next_attempt_at = now() + interval '1 hour'"
)
REFUSING = PART.format(does="fail", does_to="state = 'failed', finished_at = now()")
CHANNEL = """
insert into agent.channel (tenant, name, kind, target, secret)
values ('default', 'ops', 'webhook', 'https://ops.acme.test/hooks', 'OPS_HOOK_KEY');
insert into agent.notification (tenant, event, channel) values ('default', 'problem', 'ops');
"""
OTHER = """
select agent.create_tenant('acme');
insert into agent.channel (tenant, name, kind, target, secret)
values ('acme', 'theirs', 'webhook', 'https://acme.test/hooks', 'OPS_HOOK_KEY');
insert into agent.notification (tenant, event, channel) values ('acme', 'problem', 'theirs');
alter table agent.attachment disable trigger all;
update agent.attachment set tenant = 'acme';
alter table agent.attachment enable trigger all;
"""
BROKEN = "update agent.attachment set paused = true, paused_reason = 'credit used up'"
BY_A_PERSON = """
update agent.attachment set paused = true, paused_reason = 'holidays', paused_by = 'ann'
"""
RESOLVED = """
insert into agent.issue (agent, reason, state) values ('reader', 'r', 'resolved');
insert into agent.run (kind, reason, queue_id, principal, change, state, finished_at)
values ('question', 'question', 1, 'someone', '{}', 'failed', now());
"""
PENDING = "-- a run"
UNKNOWN = """
update agent.run set state = 'running', started_at = now(), worker = 'w', lease_expires_at = now();
update agent.run set state = 'needs_review', worker = null, lease_expires_at = null,
    error = '{"reason": "unknown", "call_id": "c"}';
"""
EXPIRING = """
insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at)
select r.id, 'c', 't', '{}', 'd', current_user, now() + interval '10 minutes' from agent.run r;
"""


@pytest.fixture
def which(request: pytest.FixtureRequest) -> str:
    """The server of this session."""
    return str(request.config.getoption("--server"))


async def kinds(conn: AsyncConnection) -> list[str]:
    """The kinds of problems, the most urgent first."""
    return [each["kind"] for each in await show_problems(conn)]


@pytest.mark.slow
async def test_a_slot_near_its_limit_is_named_with_who_holds_it(which: str, tmp_path: Path) -> None:
    """Long before it is lost; a slot of somebody else can wait."""
    settings = {"max_slot_wal_keep_size": "80MB"}
    async with own_server(tmp_path, which, settings=settings) as (server, place):
        conn = place.conn
        assert await kinds(conn) == ["reader"]
        await ensure_slot(conn, server.dsn, Replication(slot="walagent"))
        await run_all(conn, "select pg_create_logical_replication_slot('foreign', 'pgoutput')")
        assert await kinds(conn) == ["reader"]
        async with await AsyncConnection.connect(
            server.dsn, application_name="bi_export"
        ) as holding:
            await holding.execute("create table public.held (id int)")
            near = "retained >= 0.8 * (retained + greatest(safe_wal_size, 0))"
            retained = "(select pg_current_wal_lsn() - restart_lsn as retained, safe_wal_size"
            slots = f"{retained} from pg_replication_slots where slot_name = 'walagent') s"
            while not await value(conn, f"select {near} from {slots}"):
                await run_all(conn, "select txid_current(), pg_switch_wal()")
            found = await show_problems(conn)
            assert [each["kind"] for each in found] == ["reader", "slot", "foreign"]
            slot = found[1]
            assert slot["text"].startswith("Slot walagent keeps ")
            assert slot["text"].endswith(" until it is lost")
            # Nobody has read: what the transaction holds is not more than that.
            assert slot["detail"].startswith("Its reader is ")
            await conn.execute(
                "select pg_logical_slot_get_binary_changes('walagent', null, null,"
                " 'proto_version', '1', 'publication_names', 'walagent')"
            )
            # What this client read is ahead of the checkpoint, too.
            (_, slot) = [each for each in await show_problems(conn) if each["kind"] == "slot"]
            assert f"pid {holding.info.backend_pid}, bi_export as " in slot["detail"]
            assert slot["fix"] == f"select pg_terminate_backend({holding.info.backend_pid});"
            assert slot["since"] is not None
            for _ in range(8):
                await run_all(conn, "select txid_current(), pg_switch_wal()")
            await run_all(conn, "checkpoint")
            await until(
                conn,
                "select bool_and(wal_status = 'lost') from pg_replication_slots",
            )
        found = await show_problems(conn)
        assert [each["kind"] for each in found] == ["slot", "foreign"]
        assert found[0]["text"].startswith("Slot walagent is lost: changes since ")
        assert found[0]["fix"] == "walagent wal resync"
        assert found[1]["text"] == "Slot foreign of somebody else is lost"


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ("", []),
        (
            BROKEN,
            [(1, "attachment", "reader has stopped", "credit used up")],
        ),
        (
            BY_A_PERSON,
            [],
        ),
        (
            "insert into agent.gap (slot, reason) values ('walagent', 'slot lost')",
            [(2, "gap", "1 gap waits for a decision", "Changes may not have been read.")],
        ),
        (
            BUDGETS,
            [
                (3, "budget", "Budget spent is at 100 %", None),
                (4, "budget", "Budget nearly is at 85 %", None),
            ],
        ),
        (
            WAITED_FOR,
            [
                (
                    3,
                    "budget",
                    "Budget spent is at 49 %, and a call needs more than is left",
                    "1 runs wait, and it never begins again.",
                )
            ],
        ),
        (
            REFUSING,
            [(3, "budget", "Budget spent is at 49 %, and a call needs more than is left", None)],
        ),
        (
            UNKNOWN + EXPIRING,
            [
                (
                    1,
                    "review",
                    "1 run has an unknown outcome",
                    "A call was started, and its worker stopped before the answer.",
                ),
                (4, "approval", "1 call that waits for a person expires within the hour", None),
            ],
        ),
        (
            PENDING,
            [(1, "worker", "1 run is pending, and no worker takes runs", None)],
        ),
    ],
)
async def test_what_stands_still_comes_first(
    conn: AsyncConnection, statements: str, expected: list[tuple[object, ...]]
) -> None:
    """Then what will be lost, what costs, and what can wait; a person's pause is none."""
    await run_all(conn, TABLE)
    await attach(conn, "name=reader, system_prompt=Read.", table="public.item")
    if "run" in statements:
        await add_runs(conn, int(await value(conn, "select id from agent.attachment")), None)
    await run_all(conn, statements)
    found = [each for each in await show_problems(conn) if each["kind"] != "reader"]
    names = ("urgency", "kind", "text", "detail")
    assert [tuple(each[name] for name in names) for each in found] == expected


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["reader", "it's $(touch /tmp/x) `id`", 'a "b"'])
async def test_a_command_to_copy_is_one_word_of_the_shell(conn: AsyncConnection, name: str) -> None:
    """A developer names attachments, and an operator pastes the command."""
    await run_all(conn, TABLE)
    await attach(conn, "name=reader, system_prompt=Read.", table="public.item")
    paused = "update agent.attachment set name = %s, paused = true, paused_reason = 'x'"
    await conn.execute(paused, [name])
    (fix,) = [each["fix"] for each in await show_problems(conn) if each["kind"] == "attachment"]
    assert shlex.split(fix) == ["walagent", "agents", "resume", name]
    assert name == "reader" or fix.split(maxsplit=3)[3].startswith("'")


async def test_a_problem_is_announced_once(conn: AsyncConnection) -> None:
    """By whichever process saw it twice; who has not signed in learns its kind alone."""
    await run_all(conn, TABLE)
    await attach(conn, "name=reader, system_prompt=Read.", table="public.item")
    await run_all(conn, CHANNEL + BUDGETS)
    one, other = Problems(), Problems()
    for each in (one, other):
        await each.look(conn)
        assert each.warnings == []
        await each.look(conn)
    # Of budgets, an event of its own says it.
    sent = "select subject from agent.outbox where event = 'problem' order by created_at"
    assert await column(conn, sent) == ["No process reads the WAL"]
    assert one.warnings == ["a person must act: reader (1), budget (1); see walagent status"]
    await run_all(conn, BROKEN)
    await one.look(conn)
    assert "attachment" not in one.warnings[0]
    await one.look(conn)
    await other.look(conn)
    await other.look(conn)
    assert await column(conn, sent) == ["No process reads the WAL", "reader has stopped"]
    (body,) = await column(conn, "select body from agent.outbox where subject ~ 'stopped'")
    assert body == {
        "kind": "attachment",
        "subject": "reader",
        "text": "reader has stopped",
        "detail": "credit used up",
        "fix": "walagent agents resume reader",
    }
    assert "attachment (1)" in one.warnings[0]
    assert one.warnings == other.warnings
    shown = generate_latest(metrics.registry).decode()
    assert 'walagent_problems{kind="attachment",urgency="1"} 1.0' in shown
    assert 'walagent_problems{kind="budget",urgency="4"} 1.0' in shown
    await run_all(conn, "update agent.attachment set paused = false, paused_reason = null")
    await one.look(conn)
    assert "attachment" not in one.warnings[0]
    assert 'kind="attachment"' not in generate_latest(metrics.registry).decode()


async def test_one_that_begins_again_is_announced_when_the_hour_is_over(
    conn: AsyncConnection,
) -> None:
    """By one process, if it lasts; while it stands, it is not announced again."""
    await run_all(conn, TABLE)
    await attach(conn, "name=reader, system_prompt=Read.", table="public.item")
    await run_all(conn, CHANNEL)
    one, other = Problems(), Problems()
    sent = "select count(*) from agent.outbox where subject = 'reader has stopped'"

    async def look() -> object:
        for each in (one, other, one, other):
            await each.look(conn)
        return await value(conn, sent)

    later = "update agent_internal.problem_standing set announced_at = now() - interval '1 hour'"
    await run_all(conn, BROKEN)
    assert await look() == 1
    await run_all(conn, later)
    assert await look() == 1
    await run_all(conn, "update agent_internal.problem_standing set announced_at = now()")
    await run_all(conn, "update agent.attachment set paused = false, paused_reason = null")
    assert await look() == 1
    await run_all(conn, BROKEN)
    assert await look() == 1
    await run_all(conn, later)
    assert await look() == 2
    one, other = Problems(), Problems()  # other processes
    await run_all(conn, later)
    assert await look() == 2


async def test_a_part_that_cannot_be_read_leaves_the_others(
    conn: AsyncConnection, dsn: str
) -> None:
    """It is a problem of its own; what was announced is not announced again."""
    await run_all(conn, TABLE)
    await attach(conn, "name=reader, system_prompt=Read.", table="public.item")
    await run_all(conn, CHANNEL + BROKEN)
    problems = Problems()
    for _ in range(2):
        await problems.look(conn)
    async with await AsyncConnection.connect(dsn) as holding:
        await holding.execute("lock table agent.approval in access exclusive mode")
        found = await show_problems(conn)
        assert {each["kind"] for each in found} == {"attachment", "reader", "worker", "unread"}
        assert found[-1]["text"].startswith("Problems of approvals could not be looked for: ")
        for _ in range(2):
            await problems.look(conn)
        assert "unread (1)" in problems.warnings[0]
        assert "attachment (1)" in problems.warnings[0]
        home = next(each for each in declared_queries() if each.name == "console.home")
        shown = f"select h.problems from ({home.text}) h"
        assert '"kind": "unread"' in str(await value(conn, f"select ({shown})::text"))
    await run_all(
        conn,
        "create or replace function agent_internal.without_values(_reason text)"
        " returns text language sql immutable return (1 / 0)::text",
    )
    await run_all(conn, RESOLVED)
    assert {"attachment", "reader", "unread"} < set(await kinds(conn))
    for _ in range(2):
        await problems.look(conn)
    sent = "select count(*) from agent.outbox where event = 'problem'"
    assert await value(conn, sent) == 4


async def test_another_client_that_reads_the_slot_is_a_problem(
    conn: AsyncConnection, dsn: str
) -> None:
    """While it reads, and when it has gone with what it consumed."""
    slot = str(conn.info.dbname)
    await ensure_slot(conn, dsn, Replication(slot=slot))
    start = f"START_REPLICATION SLOT {slot} LOGICAL 0/0 (proto_version '1', publication_names 'w')"
    active = f"select active_pid is not null from pg_replication_slots where slot_name = '{slot}'"
    with closing(Connection.connect(f"{dsn} replication=database", autocommit=True)) as ours:
        ours.pgconn.send_query(start.encode())
        await until(conn, active)
        assert await value(conn, "select agent_internal.take_checkpoint(%s, 'me')", slot)
        assert await kinds(conn) == []
    await until(conn, active.replace("is not null", "is null"))
    assert await kinds(conn) == ["reader"]
    with closing(Connection.connect(f"{dsn} replication=database", autocommit=True)) as other:
        other.pgconn.send_query(start.encode())
        await until(conn, active)
        (found,) = await show_problems(conn)
        assert (found["urgency"], found["kind"]) == (1, "foreign")
        assert found["text"] == f"Another client reads slot {slot}: PID {other.info.backend_pid}"
        assert found["fix"] == f"select pg_terminate_backend({other.info.backend_pid});"
        shown = await show_status(conn, slot)
        assert shown["reader"].startswith("another client")
    await until(conn, active.replace("is not null", "is null"))
    await conn.execute(
        "select count(*) from pg_logical_slot_get_binary_changes(%s, null, null,"
        " 'proto_version', '1', 'publication_names', 'walagent')",
        [slot],
    )
    assert sorted(await kinds(conn)) == ["reader", "slot"]


def test_a_look_that_took_long_does_not_silence_the_watch() -> None:
    """Seconds between two looks; what is old is said to be old."""
    assert pause_after(0.1) == pytest.approx(29.9)
    assert pause_after(1) == 100
    assert pause_after(20) == 180
    problems = Problems()
    assert problems.warnings == []
    problems._looked_at -= 400  # noqa: SLF001 - time passes
    assert problems.warnings == ["problems were looked for 400 s ago, and not since"]


async def test_a_problem_is_of_one_tenant(conn: AsyncConnection) -> None:
    """An attachment of one is no business of another, also not of the default one."""
    await run_all(conn, TABLE)
    await attach(conn, "name=reader, system_prompt=Read.", table="public.item")
    for each in (CHANNEL, OTHER, BROKEN):
        await run_all(conn, each)
    problems = Problems()
    for _ in range(2):
        await problems.look(conn)
    sent = "select tenant, subject, body ? 'tenant' from agent.outbox where event = 'problem'"
    assert sorted(await rows(conn, sent)) == [
        ("acme", "reader has stopped", False),
        ("default", "No process reads the WAL", False),
    ]
    queued = "select distinct tenant from agent.run where kind = 'delivery' order by tenant"
    assert await column(conn, queued) == ["acme", "default"]
