"""A run is taken back: what the rows were before, or a refusal by name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from psycopg import AsyncConnection

from tests.helpers.daemon import Daemon, daemon
from tests.helpers.database import DESK, attach, column, refused, rows, run_all, value
from walagent.base import faults
from walagent.message import Json
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel

TICKET = "select category, status, amount::text from support_tickets where id = 7"


async def revert(d: Daemon, run: int, options: str = "") -> tuple[str, str]:
    """Take a run back; give the state of the revert, and its result or reason."""
    made = await value(d.conn, f"select agent.revert(%s{options})", run)
    await d.until("select agent_internal.is_final(state) from agent.run where id = %s", made)
    ((state, text),) = await rows(
        d.conn,
        "select state::text, coalesce(result, error ->> 'reason') from agent.run where id = %s",
        made,
    )
    return str(state), str(text)


async def outcomes(conn: AsyncConnection) -> list[Json]:
    """The outcomes of the rows of the last revert."""
    return await column(
        conn,
        "select o ->> 'outcome' from agent.step s,"
        " jsonb_path_query(s.content, '$.revert.steps[*].rows[*]') o"
        " where s.run_id = (select max(id) from agent.run where kind = 'revert')",
    )


@asynccontextmanager
async def closed_ticket(conn: AsyncConnection, dsn: str) -> AsyncIterator[Daemon]:
    """A ticket that an agent has changed, by run 1."""
    await run_all(conn, DESK)
    script = [call("update_row", category="billing", status="closed"), "done"]
    async with daemon(conn, dsn, script) as d:
        await attach(
            conn, "writes=[category, status], on=[insert, update], when=\"new.status = 'open'\""
        )
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        yield d


async def test_an_update_is_taken_back(conn: AsyncConnection, dsn: str) -> None:
    """Recorded as a run that refers to it, whose change wakes no agent."""
    async with closed_ticket(conn, dsn) as d:
        assert await rows(conn, TICKET) == [("billing", "closed", None)]
        assert await revert(d, 1) == ("succeeded", "1 change of run 1 was taken back")
        assert await rows(conn, TICKET) == [(None, "open", None)]
        await d.until("select count(*) = 2 from agent.row_change")
        await d.caught_up()
    assert await rows(
        conn,
        "select kind, undoes, reason from agent.run"
        " join agent.run_overview using (id, kind, reason)"
        " where attachment is distinct from 'sentinel' order by id",
    ) == [
        ("agent", None, "change"),
        ("revert", 1, "manual"),
    ]
    assert await rows(
        conn,
        "select source, before ->> 'status', after ->> 'status' from agent.row_change"
        " where run_id = 2",
    ) == [("statement", "closed", "open")]
    assert await value(conn, "select count(*) from agent.audit where action = 'run.reverted'") == 1
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_revert_is_reverted(conn: AsyncConnection, dsn: str) -> None:
    """Then the run is in effect again, and can be reverted again."""
    async with closed_ticket(conn, dsn) as d:
        assert (await revert(d, 1))[0] == "succeeded"
        error = await refused(conn, "select agent.revert(1)", state="WA003")
        assert "was reverted by run 2" in str(error)
        assert await revert(d, 2) == ("succeeded", "1 change of run 2 was taken back")
        assert await rows(conn, TICKET) == [("billing", "closed", None)]
        assert (await revert(d, 1))[0] == "succeeded"
        assert await rows(conn, TICKET) == [(None, "open", None)]


async def test_a_row_that_was_changed_since_is_refused_by_name(
    conn: AsyncConnection, dsn: str
) -> None:
    """With both values; another column may have changed."""
    async with closed_ticket(conn, dsn) as d:
        await run_all(conn, "update support_tickets set amount = 5, status = 'paid'")
        state, text = await revert(d, 1)
        assert (state, await rows(conn, TICKET)) == ("failed", [("billing", "paid", "5")])
        assert text == "nothing of run 1 was taken back: public.support_tickets 7: changed since"
        found = await value(
            conn,
            "select content #> '{revert,steps,0,rows,0,columns}' from agent.step"
            " where run_id = 2 and kind = 'result'",
        )
        assert found == {"status": ["closed", "paid"]}
        await run_all(conn, "update support_tickets set status = 'closed'")
        await run_all(conn, "select agent.retry(2)")
        await d.until("select state = 'succeeded' from agent.run where id = 2")
        assert await rows(conn, TICKET) == [(None, "open", "5")]


async def test_a_dry_run_changes_nothing(conn: AsyncConnection, dsn: str) -> None:
    """It says what would be done, privileges and constraints included."""
    async with closed_ticket(conn, dsn) as d:
        state, text = await revert(d, 1, ", dry_run => true")
        assert (state, text) == ("succeeded", "1 change of run 1 would be taken back")
        assert await rows(conn, TICKET) == [("billing", "closed", None)]
        assert (await revert(d, 1))[0] == "succeeded"
        assert await refused(conn, "select agent.revert(2)", state="WA003")


async def test_a_dry_run_that_is_refused_has_not_failed(conn: AsyncConnection, dsn: str) -> None:
    """It has answered; nobody is called for it."""
    async with closed_ticket(conn, dsn) as d:
        await run_all(conn, "update support_tickets set status = 'paid'")
        await d.caught_up()
        state, text = await revert(d, 1, ", dry_run => true")
        assert (state, text[:34]) == ("succeeded", "nothing of run 1 would be taken ba")
        assert (await revert(d, 1))[0] == "failed"


async def test_what_cannot_be_reverted_is_refused_at_once(conn: AsyncConnection, dsn: str) -> None:
    """A run that does not exist, has not ended, or changes no rows."""
    async with closed_ticket(conn, dsn) as d:
        await d.stop("worker")
        await run_all(conn, "insert into support_tickets (id, issue) values (8, 'y')")
        await d.until("select count(*) = 2 from agent.run")
    waiting = await refused(conn, "select agent.revert(max(id)) from agent.run", state="WA003")
    assert "pending" in str(waiting)
    await refused(conn, "select agent.revert(99)", state="WA003")


async def test_a_later_run_is_named(conn: AsyncConnection, dsn: str) -> None:
    """Though it wrote the same value; once it is taken back, the earlier one can be."""
    await run_all(conn, DESK)
    scripts = [[call("update_row", status=status), "done"] for status in ("b", "c", "b")]
    models = {f"m{n}": ScriptedModel(script) for n, script in enumerate(scripts)}
    await run_all(
        conn,
        "insert into agent.model (name, provider, model_id)"
        " select 'm' || n, 'scripted', 'x' from generate_series(0, 2) n",
    )
    async with daemon(conn, dsn, models) as d:
        for n in range(3):
            await run_all(
                conn,
                f"select agent.attach('support_tickets', 'model=m{n}, name=a{n}, writes=[status],"
                f" on=[insert, update], max_depth=0, when=\"new.issue = ''{n}''\"')",
            )
            if n == 0:
                await run_all(conn, "insert into support_tickets (id, issue) values (7, '0')")
            else:
                await run_all(conn, f"update support_tickets set issue = '{n}'")
            await d.ended(n + 1)
        await d.until("select count(*) = 3 from agent.row_change")
        state, reason = await revert(d, 1)
        assert (state, "run 2 has written status since" in reason) == ("failed", True)
        assert (await revert(d, 3))[0] == "succeeded"
        assert (await revert(d, 2))[0] == "succeeded"
        assert (await revert(d, 1))[0] == "succeeded"
        assert await column(conn, "select status from support_tickets") == ["open"]


async def test_only_steps_with_a_changed_row_are_left(conn: AsyncConnection, dsn: str) -> None:
    """With only_unchanged; without it, nothing of the run is taken back."""
    await run_all(conn, DESK)
    await run_all(conn, "alter table refund add id bigint primary key generated always as identity")
    script = [call("refund_user"), call("update_row", status="closed"), "done"]
    async with daemon(conn, dsn, script) as d:
        await attach(conn, "tools=[refund_user], bind=[ticket_id=id], writes=[status]")
        await run_all(
            conn,
            "select agent.attach('refund', 'model=fake, name=r, on=[insert, update, delete],"
            " when=\"false\"'); insert into support_tickets (id, issue) values (7, 'x')",
        )
        await d.ended()
        await d.until("select count(*) = 2 from agent.row_change")
        await run_all(conn, "update support_tickets set status = 'paid'")
        assert (await revert(d, 1))[0] == "failed"
        assert await value(conn, "select count(*) from refund") == 1
        state, text = await revert(d, 1, ", only_unchanged => true")
        assert (state, "1 change was taken back, 1 step was left" in text) == ("succeeded", True)
        assert await rows(conn, TICKET) == [(None, "paid", None)]
        assert await value(conn, "select count(*) from refund") == 0


async def test_what_is_not_known_is_refused_or_listed(conn: AsyncConnection, dsn: str) -> None:
    """A function's update with the default identity; a call that changed no published table."""
    await run_all(conn, DESK)
    await run_all(
        conn,
        "create function close() returns text language sql as"
        " $$ update support_tickets set status = 'closed' where id = 7; select 'ok' $$",
    )
    script = [call("close"), call("refund_user"), "done"]
    async with daemon(conn, dsn, script) as d:
        await attach(conn, "tools=[close, refund_user], bind=[ticket_id=id], on=[insert, update]")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        state, text = await revert(d, 1)
        assert (state, "what was there before is not known" in text) == ("failed", True)
    assert await value(
        conn, "select content #> '{revert,unseen}' from agent.step where run_id = 2"
    ) == [{"step": 3, "name": "refund_user"}]


async def test_two_reverts_of_a_run_are_one(conn: AsyncConnection, dsn: str) -> None:
    """The second is refused while the first waits."""
    async with closed_ticket(conn, dsn) as d:
        await d.stop("worker")
        made = await value(conn, "select agent.revert(1)")
        error = await refused(conn, "select agent.revert(1)", state="WA003")
        assert f"is being reverted by run {made}" in str(error)
        await d.start_worker()
        await d.until("select state = 'succeeded' from agent.run where id = %s", made)
        assert await rows(conn, TICKET) == [(None, "open", None)]


async def test_a_crash_undoes_once(conn: AsyncConnection, dsn: str) -> None:
    """The effects commit with the step."""
    async with closed_ticket(conn, dsn) as d:
        with faults.armed("tool.committed"):
            made = await value(conn, "select agent.revert(1)")
            await d.dies("worker")
        await d.expire_leases()
        await d.start_worker()
        await d.until("select state = 'succeeded' from agent.run where id = %s", made)
        assert await rows(conn, TICKET) == [(None, "open", None)]
        await d.caught_up()
    assert await value(conn, "select count(*) from agent.row_change where run_id = %s", made) == 1


async def test_an_update_that_is_not_published_is_taken_back(
    conn: AsyncConnection, dsn: str
) -> None:
    """The agent reacts to inserts alone; the revert itself is then not recorded."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, [call("update_row", status="closed"), "done"]) as d:
        await attach(conn, "writes=[status]")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        assert (await revert(d, 1))[0] == "succeeded"
        assert await rows(conn, TICKET) == [(None, "open", None)]
        state, reason = await revert(d, 2)
        assert (state, reason) == ("failed", "run 2 has no changes that were recorded")
    assert await value(conn, "select count(*) from agent_internal.row_before") == 0


async def test_a_run_that_was_taken_back_can_begin_afresh(conn: AsyncConnection, dsn: str) -> None:
    """Not while what it wrote is in effect; what it writes then can be taken back as well."""
    await run_all(conn, DESK)
    async with daemon(conn, dsn, [call("update_row", status="closed")]) as d:
        await attach(conn, "writes=[status], on=[insert], finish=answer")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        failed = "select state = 'failed' from agent.run where id = 1"
        for _ in range(2):
            await d.until(failed)
            await d.caught_up()
            error = await refused(conn, "select agent.retry(1, fresh => true)", state="WA003")
            assert "walagent revert" in str(error)
            assert (await revert(d, 1)) == ("succeeded", "1 change of run 1 was taken back")
            assert await rows(conn, TICKET) == [(None, "open", None)]
            assert "was reverted" in str(await refused(conn, "select agent.revert(1)"))
            await run_all(conn, "select agent.retry(1, fresh => true)")
            await d.until("select status = 'closed' from support_tickets")
    assert await rows(conn, "select * from agent.broken_invariant") == []
