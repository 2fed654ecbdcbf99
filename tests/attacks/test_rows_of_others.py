"""Rows that an attachment's own role may not see stay hidden, however the attachment asks."""

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import message_of, refused, role, rows, run_all, session, value
from walagent.models.scripted.scripted_model import ScriptedModel

TENANTS = """
insert into agent.tenant (name) values ('a'), ('b');
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('fake', 'scripted', 'fake', 1, 5);
select agent.grant_developer('{dev}'), agent.grant_viewer('{dev}');
select agent.create_principal('dev', login => '{dev}', tenant => 'a');
select agent.grant_role('dev', r, tenant => 'a') from unnest('{{developer,viewer}}'::text[]) r;
create schema devs authorization {dev};
set role {dev};
create table devs.t (id int primary key, tenant text);
reset role;
"""
INSERT = """
insert into agent.attachment (name, agent, relation, tenant_column)
values ('x', 't', 'devs.t', 'tenant')
"""
ATTACH = "select agent.attach('devs.t', %s)"


async def test_a_developer_of_one_tenant_sends_no_row_to_another(
    conn: AsyncConnection, dsn: str
) -> None:
    """Who writes a table of its own could name each tenant; the agent would act there."""
    async with role(conn) as dev, role(conn) as nobodys:
        await run_all(conn, TENANTS.format(dev=dev))
        async with session(dsn, user=dev) as own:
            error = await refused(own, ATTACH, "model=fake, tenant=tenant", state="42501")
            assert 'tenant "a"' in message_of(error)
            await value(own, ATTACH, "model=fake")
            for statement in (
                "update agent.attachment set tenant_column = 'tenant'",
                INSERT,
            ):
                await refused(own, statement, state="42501")
        await run_all(
            conn,
            f"select agent.grant_developer('{nobodys}'); grant usage on schema devs to {nobodys};"
            f"grant select on devs.t to {nobodys}",
        )
        async with session(dsn, user=nobodys) as other:
            await value(other, ATTACH, "name=free, model=fake, tenant=tenant")
        await value(conn, ATTACH, "name=of_operator, model=fake, tenant=tenant")
        await run_all(
            conn,
            "delete from agent.attachment; drop schema devs cascade;"
            "update agent.principal set login = null",
        )


GUARDED = """
create table public.orders (id int primary key, tenant text, what text);
alter table public.orders enable row level security;
create policy own on public.orders using (tenant = agent.current_tenant());
grant select on public.orders to {dev};
"""
SEEN = "select state::text, change ? 'new', key from agent.run order by id"


async def test_a_skipped_run_does_not_show_the_row_that_its_role_may_not_see(
    conn: AsyncConnection, dsn: str
) -> None:
    """The WAL has no policies; nor is the row of a run shown that is never claimed."""
    async with role(conn) as dev:
        await run_all(conn, TENANTS.format(dev=dev) + GUARDED.format(dev=dev))
        script = {"fake": ScriptedModel(["done"])}
        async with daemon(conn, dsn, script) as d, session(dsn, user=dev) as own:
            await value(own, "select agent.attach('public.orders', 'name=spy, model=fake')")
            await run_all(
                conn,
                "insert into public.orders values (1, 'b', 'CANARY'), (2, 'a', 'of dev')",
            )
            await d.until(
                "select count(*) = 2 from agent.run where state in ('skipped', 'succeeded')"
            )
            # The first has lost its row; the second is of the tenant of the developer.
            found = [("skipped", False, None), ("succeeded", True, "2")]
            assert await rows(own, SEEN) == found
            # One that waits, and will wait as long as the attachment is paused.
            await value(own, "select agent.pause('spy')::text")
            await run_all(conn, "insert into public.orders values (3, 'b', 'CANARY')")
            await d.until("select exists (select from agent.run where state = 'pending')")
            assert await rows(own, SEEN) == found
            assert await value(own, "select count(*) from agent_internal.merged_change") == 0
            assert "CANARY" not in str(await rows(own, "select change::text from agent.run"))
            await value(own, "select agent.detach('spy')")
            assert await rows(own, SEEN) == found
            # Who decides about calls sees what they are about.
            await run_all(conn, "select agent.grant_role('dev', 'approver', tenant => 'a')")
            assert len(await rows(own, SEEN)) == len(found) + 1
        await run_all(
            conn,
            "drop schema devs cascade; drop table public.orders;"
            "update agent.principal set login = null",
        )
