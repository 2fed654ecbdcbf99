"""Who may not take back a run cannot, and a revert gives nobody a right of the role."""

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import (
    DESK,
    attach,
    column,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)
from tests.integration.changes.test_revert import closed_ticket, revert
from walagent.models.script import call

PEOPLE = """
select agent.create_tenant('acme'), agent.create_tenant('other');
select agent.create_principal('ann', 'user', tenant => 'acme'),
       agent.create_principal('eve', 'user', tenant => 'other'),
       agent.create_principal('vic', 'user', tenant => 'default'),
       agent.create_principal('pat', 'user', tenant => 'default');
select agent.grant_role('ann', 'approver', tenant => 'acme'),
       agent.grant_role('eve', 'approver', tenant => 'other'),
       agent.grant_role('vic', 'viewer', tenant => 'default'),
       agent.grant_role('pat', 'approver', tenant => 'default');
"""


async def test_only_approvers_take_runs_back(conn: AsyncConnection, dsn: str) -> None:
    """Not who looks, develops or asks; not another tenant, which does not learn that the run is."""
    async with closed_ticket(conn, dsn):
        await run_all(conn, PEOPLE)
        for capability in ("viewer", "developer", "asker", "member"):
            async with role(conn) as login:
                await run_all(conn, f"select agent.grant_{capability}('{login}')")
                async with session(dsn, user=login) as own:
                    await refused(own, "select agent.revert(1)", state="42501")
        async with role(conn) as login:
            await run_all(
                conn, f"select agent.grant_approver('{login}'), agent.grant_member('{login}')"
            )
            for tenant, name, state in (
                ("other", "eve", "WA003"),
                ("acme", "ann", "WA003"),
                ("default", "vic", "42501"),
            ):
                secret = await value(
                    conn, "select token from agent.create_token(%s, tenant => %s)", name, tenant
                )
                async with session(dsn, user=login) as own, own.transaction(force_rollback=True):
                    await value(own, "select agent.act_as(%s)", secret)
                    error = await refused(own, "select agent.revert(1)", state=state)
                    assert state != "WA003" or "does not exist" in str(error)
        assert await value(conn, "select count(*) from agent.run where kind = 'revert'") == 0


async def test_another_tenant_sees_no_change(conn: AsyncConnection, dsn: str) -> None:
    """Neither the row, its key nor that there is one; an approver of the tenant does."""
    async with closed_ticket(conn, dsn) as d:
        await d.until("select count(*) = 1 from agent.row_change")
        await run_all(conn, PEOPLE)
        async with role(conn) as login:
            await run_all(
                conn, f"select agent.grant_viewer('{login}'), agent.grant_member('{login}')"
            )
            for tenant, name, count in (("other", "eve", 0), ("default", "pat", 1)):
                secret = await value(
                    conn, "select token from agent.create_token(%s, tenant => %s)", name, tenant
                )
                async with session(dsn, user=login) as own, own.transaction():
                    await value(own, "select agent.act_as(%s)", secret)
                    for table in ("row_change", "change_overview"):
                        assert await value(own, f"select count(*) from agent.{table}") == count


async def test_changes_are_written_by_the_reader_alone(conn: AsyncConnection, dsn: str) -> None:
    """No capability of people writes them, nor says what was there before."""
    async with closed_ticket(conn, dsn):
        pass
    for capability in ("viewer", "developer", "approver", "asker", "member"):
        async with role(conn) as login:
            await run_all(conn, f"select agent.grant_{capability}('{login}')")
            async with session(dsn, user=login) as own:
                for statement in (
                    "update agent.row_change set before = '{}'",
                    "delete from agent.row_change",
                    "insert into agent.row_change select * from agent.row_change",
                    "select * from agent_internal.row_before",
                    'select agent_internal.record_row_changes(\'{"changes": [], "ended": []}\')',
                ):
                    await refused(own, statement, state="42501")


async def test_a_forged_request_is_not_carried_out(conn: AsyncConnection, dsn: str) -> None:
    """Anyone can call the signed function; nobody but a worker can sign."""
    async with closed_ticket(conn, dsn), role(conn) as nobody, session(dsn, user=nobody) as own:
        await refused(
            own,
            "select agent_signed.revert_run('{\"run\": 1, \"steps\": []}', 'x')",
            state="42501",
        )


async def test_a_forged_marker_hides_no_change_from_agents(conn: AsyncConnection, dsn: str) -> None:
    """Neither that of a revert, nor the signed message of a request, which is no origin."""
    async with closed_ticket(conn, dsn) as d:
        before = await value(conn, "select count(*) from agent.run where kind = 'agent'")
        forged = "pg_logical_emit_message(true, 'walagent', '1 1 0 revert 00')"
        insert = "insert into support_tickets (issue) values ('x')"
        await run_all(conn, f"begin; select {forged}; {insert}; commit")
        await run_all(conn, f"begin; select agent.revert(1); {insert}; commit")
        await d.caught_up()
        found = await value(
            conn,
            "select count(*) from agent.run where kind = 'agent'"
            " and change ->> 'table' <> 'sentinel'",
        )
        assert (before, found) == (1, 3)


async def test_a_role_that_lost_its_privilege_is_refused(conn: AsyncConnection, dsn: str) -> None:
    """The revert has the rights that the role has now, whoever asks for it."""
    await run_all(conn, DESK)
    async with (
        role(conn, "nologin") as app,
        daemon(conn, dsn, [call("update_row", status="closed"), "done"]) as d,
    ):
        await run_all(
            conn,
            f"grant usage on schema public to {app};"
            f"grant select, update on support_tickets to {app}",
        )
        await attach(conn, f"run_as={app}, writes=[status]")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        await run_all(conn, f"revoke update on support_tickets from {app}")
        state, reason = await revert(d, 1)
        assert (state, "permission denied" in reason) == ("failed", True)
        assert await column(conn, "select status from support_tickets") == ["closed"]
        await run_all(conn, f"grant update on support_tickets to {app}")
        assert (await revert(d, 1))[0] == "succeeded"


async def test_what_triggers_execute_in_a_revert_cannot_leave_the_role(
    conn: AsyncConnection, dsn: str
) -> None:
    """Nor with a constraint trigger that was deferred: it is executed within the trampoline."""
    await run_all(conn, DESK)
    async with (
        role(conn, "nologin") as app,
        daemon(conn, dsn, [call("update_row", status="closed"), "done"]) as d,
    ):
        await run_all(
            conn,
            f"grant usage on schema public to {app}; create table who (name text);"
            f"grant select, update on support_tickets to {app}; grant insert on who to {app};"
            "create function note() returns trigger language plpgsql as $$ begin"
            " insert into who values (current_user);"
            " begin reset role; insert into who values ('reset'); exception when others then null;"
            " end; return null; end $$;"
            "create constraint trigger note after update on support_tickets"
            " deferrable initially deferred for each row execute function note()",
        )
        await attach(conn, f"run_as={app}, writes=[status]")
        await run_all(conn, "insert into support_tickets (id, issue) values (7, 'x')")
        await d.ended()
        assert await revert(d, 1) == ("succeeded", "1 change of run 1 was taken back")
        assert await rows(conn, "select name from who") == [(app,), (app,)]
        await run_all(conn, "drop table who")
