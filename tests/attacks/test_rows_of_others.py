"""Rows that an attachment's own role may not see stay hidden, however the attachment asks."""

from psycopg import AsyncConnection

from tests.helpers.database import message_of, refused, role, run_all, session, value

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
