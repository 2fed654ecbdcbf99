"""A shadow leaves nothing behind, keeps nobody waiting, and gives nobody a right."""

import asyncio
from pathlib import Path

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.daemon import daemon
from tests.helpers.database import (
    DEADLINE,
    DESK,
    attach,
    refused,
    role,
    rows,
    run_all,
    session,
    until,
    value,
)
from tests.helpers.people import application, person
from tests.integration.canary.test_shadow import (
    KEPT,
    OUTCOMES,
    REAL,
    SECOND,
    says,
    sets,
    shadow,
    shadowed,
    tickets,
)
from walagent.config import Config
from walagent.models.script import call
from walagent.store.sessions.connections import connect
from walagent.trial.shadowing import Shadower, keep_shadowing

LOUD = """
create sequence called;
create function shout(ticket_id bigint) returns text language plpgsql as $$
begin
    perform nextval('called');
    perform pg_notify('shouts', 'here');
    perform pg_advisory_lock(4711);
    insert into refund values ($1, 7);
    update support_tickets set status = 'shouted';
    return 'shouted';
end $$;
"""
ONCE = """
create function take(ticket_id bigint) returns text language plpgsql as $$
begin
    update support_tickets set status = 'taken' where id = $1 and status = 'open';
    if not found then
        raise exception 'it is taken';
    end if;
    return 'taken';
end $$;
"""
BUDGET = """
insert into agent.budget (name, attachment, period, max_cost) values ('all', 'desk', 'day', 100)
"""
SLOW = """
create function linger(ticket_id bigint) returns text language plpgsql as $$
begin
    update support_tickets set status = 'late' where id = $1;
    perform pg_sleep(60);
    return 'late';
end $$;
"""


async def test_nothing_of_what_a_shadow_does_is_seen_outside(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Of rows, notifications, locks and calls that a person approves there is no trace."""
    await run_all(conn, DESK + SECOND.format(says(tmp_path, [{"call": "shout"}], "Done.")) + LOUD)
    await attach(conn, "name=desk, tools=[shout], approve=[shout], bind=[ticket_id=id]")
    await value(conn, "select agent.shadow('desk', 'model=second')")
    async with daemon(conn, dsn, ["Done."]) as d, session(dsn) as listening:
        await listening.execute("listen shouts")
        await tickets(d, "one", "two")
        await d.caught_up()
        before = await rows(conn, KEPT)
        assert await shadow(dsn) == 2
        assert await rows(conn, KEPT) == before
        await conn.execute("notify shouts, 'last'")
        async for heard in listening.notifies(timeout=10):
            assert heard.payload == "last"
            break
    assert await value(conn, "select last_value from called") >= 2
    assert await rows(conn, "select * from pg_locks where locktype = 'advisory'") == []
    ((candidate,), _) = await rows(conn, "select candidate from agent.shadow_run order by run_id")
    assert [made["state"] for made in candidate["calls"]] == ["done"]
    assert await value(conn, "select count(*) from agent.approval") == 0


@pytest.mark.parametrize("is_known", [True, False])
async def test_a_shadow_sees_the_rows_as_its_run_did(
    conn: AsyncConnection, dsn: str, tmp_path: Path, *, is_known: bool
) -> None:
    """A tool that works once works for both, if the WAL has what its run wrote; else it says so."""
    script = says(tmp_path, {"call": "take"}, "Done.")
    await run_all(conn, DESK + SECOND.format(script) + ONCE)
    spec = "name=desk, tools=[take], bind=[ticket_id=id]"
    if is_known:
        await run_all(conn, "alter table support_tickets replica identity full")
        spec += ", on=[insert, update]"
    await attach(conn, spec)
    await value(conn, "select agent.shadow('desk', 'model=second')")
    async with daemon(conn, dsn, [call("take"), "Done."]) as d:
        await tickets(d, "one")
        assert await shadow(dsn) == 1
    assert await rows(conn, OUTCOMES) == [("1", "same" if is_known else "other")]
    sees = "select (candidate -> 'taken_back')::boolean from agent.shadow_run"
    assert await value(conn, sees) is is_known
    assert await value(conn, "select status from support_tickets") == "taken"


async def test_a_shadow_sees_what_others_wrote_since(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """What the run wrote is taken back where it is as the run left it."""
    await run_all(conn, DESK + SECOND.format(says(tmp_path, {"call": "take"}, "Done.")) + ONCE)
    await attach(conn, "name=desk, tools=[take], bind=[ticket_id=id], writes=[status]")
    await value(conn, "select agent.shadow('desk', 'model=second')")
    async with daemon(conn, dsn, [call("update_row", status="taken"), "Done."]) as d:
        await tickets(d, "one", "two")
        await run_all(conn, "update support_tickets set status = 'closed' where id = 2")
        await d.caught_up()
        assert await shadow(dsn) == 2
    sees = await rows(
        conn,
        "select (candidate -> 'taken_back')::boolean, candidate -> 'calls' -> 0 ->> 'state'"
        "  from agent.shadow_run order by run_id",
    )
    assert sees == [(True, "done"), (False, "failed")]
    left = await rows(conn, "select id, status from support_tickets order by 1")
    assert left == [(1, "taken"), (2, "closed")]


async def test_rows_are_free_while_a_shadow_asks_its_model(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Also what it has written already; and the next runs go on beside it."""
    await shadowed(conn, says(tmp_path, *sets("billing"), latency=1.5))
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "one")
        trying = asyncio.create_task(shadow(dsn, 1))
        count = 0
        async with session(dsn) as app:
            await app.execute("set lock_timeout = '1s'")
            while not trying.done():
                await app.execute("update support_tickets set status = status || '.' where id = 1")
                count += 1
                if count == 5:
                    await tickets(d, "two")
                    assert not trying.done()
                await asyncio.sleep(0.05)
        assert await trying == 1
    assert count > 10
    assert (await rows(conn, OUTCOMES))[1] == ("2", "waiting")


async def test_a_tool_that_lingers_holds_its_locks_for_seconds(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Then the shadow has failed on this change."""
    await run_all(conn, DESK + SECOND.format(says(tmp_path, {"call": "linger"}, "Done.")) + SLOW)
    await attach(conn, "name=desk, tools=[linger], bind=[ticket_id=id]")
    await value(conn, "select agent.shadow('desk', 'model=second')")
    async with daemon(conn, dsn, ["Done."]) as d:
        await tickets(d, "one")
        async with await connect(dsn) as own:
            assert await Shadower(own, dsn, Config(), held=1.0).work_one()
        await run_all(conn, "set lock_timeout = '1s'; update support_tickets set status = 'x'")
    assert await rows(conn, OUTCOMES) == [("1", "failed")]
    assert (
        await rows(
            conn,
            "select state, wait_event from pg_stat_activity"
            " where application_name = 'walagent try' and state = 'active'",
        )
        == []
    )


async def test_a_row_that_is_locked_is_not_waited_for(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The shadow gives way before anybody is chosen to end a deadlock, and comes back."""
    await shadowed(conn, says(tmp_path, *sets("bug")))
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "one")
        async with session(dsn) as app, app.transaction():
            await app.execute("update support_tickets set status = 'held'")
            assert await shadow(dsn) == 1
            assert await rows(conn, OUTCOMES) == [("1", "waiting")]
        await run_all(conn, "update agent_internal.shadowed_run set not_before = null")
        assert await shadow(dsn) == 1
    assert await value(conn, "select status from support_tickets") == "held"
    assert (await rows(conn, OUTCOMES))[0][1] != "waiting"


async def test_budgets_hold_for_shadows_and_count_them(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """One that is used up keeps the shadow waiting, and what it has cost is counted."""
    await shadowed(conn, says(tmp_path, *sets("bug")))
    spent = "select spent_cost from agent_internal.budget_use"
    await run_all(conn, BUDGET)
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "one", "two")
        await d.caught_up()
        before = await value(conn, spent)
        assert await shadow(dsn, 1) == 1
        ((cost,),) = await rows(
            conn, "select (candidate -> 'cost')::numeric from agent.evaluation_case"
        )
        assert cost > 0
        assert await value(conn, spent) == before + cost
        await run_all(conn, "update agent.budget set max_cost = 0.0001")
        assert await shadow(dsn, 1) == 1
    assert await rows(conn, OUTCOMES) == [("1", "same"), ("2", "waiting")]
    assert await value(conn, "select reserved_cost from agent_internal.budget_use") == 0


async def test_only_developers_begin_shadows(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """And nobody writes which changes they have, or what came of them."""
    await run_all(conn, DESK + SECOND.format(says(tmp_path, "Done.")))
    await attach(conn, "name=desk")
    calls = (
        "select agent.shadow('desk', 'model=second')",
        "insert into agent_internal.shadowed_run (run_id, attachment_id, version) values (1, 1, 2)",
        "update agent_internal.shadowed_run set ended = true",
        "select * from agent_internal.claim_shadow('1 min')",
        "select agent_internal.end_shadowed(1, 1, 1, '{}', '0')",
        "select agent_internal.end_shadow(null)",
        "update agent.attachment set canary_shadow = true",
    )
    for capability in ("viewer", "approver", "asker", "member", "developer"):
        async with role(conn) as login:
            await run_all(conn, f"select agent.grant_{capability}('{login}')")
            async with session(dsn, user=login) as own:
                for statement in calls:
                    await refused(own, statement, state="42501")
    assert await value(conn, "select count(*) from agent.canary") == 0


async def test_a_shadow_of_another_tenant_is_not_seen(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """Neither its changes nor what came of them."""
    await shadowed(conn, says(tmp_path, *sets("bug")))
    await run_all(
        conn,
        "select agent.create_tenant('acme');"
        "select agent.create_principal('ann', 'user', tenant => 'acme');"
        "select agent.grant_role('ann', 'viewer', tenant => 'acme')",
    )
    token = await value(conn, "select token from agent.create_token('ann', tenant => 'acme')")
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "one")
        await d.caught_up()
        assert await shadow(dsn) == 1
    async with application(conn, dsn, "viewer") as own, own.transaction():
        await own.execute("select agent.act_as(%s)", [token])
        for table in ("agent.shadow_run", "agent_internal.shadowed_run", "agent.canary_figures"):
            assert await rows(own, f"select * from {table}") == []


async def test_a_shadow_of_a_tenant_acts_in_it(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """As its runs do; what it came to is of the tenant."""
    script = says(tmp_path, *sets("bug"))
    await run_all(conn, DESK + SECOND.format(script))
    token = await person(conn, "ann", "developer", "viewer", tenant="acme")
    async with conn.transaction():
        await conn.execute("select agent.act_as(%s)", [token])
        await attach(conn, "name=desk, writes=[category]")
        await value(conn, "select agent.shadow('desk', 'model=second')")
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "one")
        assert await shadow(dsn) == 1
    found = "select tenant, outcome from agent.shadow_run"
    assert await rows(conn, found) == [("acme", "same")]
    assert await rows(conn, "select tenant from agent.evaluation") == [("acme",)]


async def test_a_login_that_does_not_own_the_schema_executes_no_shadow(
    conn: AsyncConnection, dsn: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It says so once, and the shadow waits for one that does; what is shadowed is kept."""
    await shadowed(conn, says(tmp_path, *sets("bug")))
    async with daemon(conn, dsn, REAL) as d:
        await tickets(d, "one")
        async with role(conn) as login:
            await run_all(conn, f"select agent.grant_runner('{login}')")
            given = make_conninfo(dsn, user=login)
            async with await connect(given) as watch:
                keeping = asyncio.create_task(keep_shadowing(watch, lambda: given, Config()))
                with caplog.at_level("ERROR"):
                    async with asyncio.timeout(DEADLINE):
                        while "shadow.refused" not in caplog.text:  # noqa: ASYNC110 - a log
                            await asyncio.sleep(0.02)
                keeping.cancel()
                await asyncio.wait({keeping})
        assert await rows(conn, OUTCOMES) == [("1", "waiting")]
        async with await connect(dsn) as watch:
            keeping = asyncio.create_task(keep_shadowing(watch, lambda: dsn, Config()))
            await until(conn, "select exists (select from agent.evaluation_case)")
            keeping.cancel()
            await asyncio.wait({keeping})
    assert await rows(conn, OUTCOMES) == [("1", "same")]
