"""Deleting a tenant: all that it has goes, and nothing of the others changes."""

from psycopg import AsyncConnection

from tests.helpers.database import DESK, refused, rows, run_all, value
from tests.helpers.people import acting, application, person
from tests.helpers.queue import claim

BUILD = """
insert into agent.agent (tenant, name, model) values ('{0}', 'bot', 'fake');
insert into agent.attachment (tenant, name, agent, relation, ops, run_as)
values ('{0}', '{0}_desk', 'bot', 'support_tickets', '{{insert}}', current_user);
insert into agent.budget (tenant, name, period, max_cost) values ('{0}', 'b', 'day', 1);
insert into agent.run (tenant, queue_id, attachment_id, attachment_version, generation, commit_lsn,
                       ordinal, committed_at, change, key, max_attempts)
select '{0}', id, id, 1, 1, '0/1', n, now(), '{{"new": {{"secret": "of {0}"}}}}', n::text, 5
  from agent.attachment, generate_series(1, 5) n where tenant = '{0}';
insert into agent.step (tenant, run_id, seq, kind, content)
select tenant, id, 0, 'note', '{{}}' from agent.run where tenant = '{0}';
insert into agent.persona (tenant, name) values ('{0}', 'p');
"""
TALK = """
select agent.post(agent.open_thread('t', '{{bot}}'), 'hello {0}');
select agent.observe((select id from agent.thread), 'seen');
"""


async def build(conn: AsyncConnection, app: AsyncConnection, tenant: str) -> str:
    """Create a tenant with a row in each kind of table; return a token of its admin."""
    token = await person(conn, "boss", "admin", tenant=tenant)
    await run_all(conn, f"select agent.create_principal('bot', 'agent', tenant => '{tenant}')")
    await run_all(conn, BUILD.format(tenant))
    async with app.transaction():
        await app.execute("select agent.act_as(%s)", [token])
        await run_all(app, TALK.format(tenant))
    return token


async def checksum(conn: AsyncConnection, tenant: str) -> dict[str, str]:
    """A digest of the rows of a tenant in each table."""
    tables = await rows(conn, "select t::text from agent_internal.tenant_tables() t")
    found = {}
    for (table,) in tables:
        found[str(table)] = await value(
            conn,
            f"select count(*) || md5(coalesce(string_agg(t::text, '' order by t::text), ''))"
            f" from {table} t where tenant = %s",
            tenant,
        )
    found["tenant"] = str(await rows(conn, "select * from agent.tenant where name = %s", tenant))
    return found


async def test_all_that_a_tenant_has_goes_and_nothing_else_changes(
    conn: AsyncConnection, dsn: str
) -> None:
    """With events, audit, versions, and a run in flight, whose worker loses it."""
    await run_all(conn, DESK)
    async with application(conn, dsn) as app:
        await build(conn, app, "acme")
        token = await build(conn, app, "zeta")
        held = await claim(conn, 4)
        before = await checksum(conn, "acme")
        contents = dict(
            await rows(conn, "select relation::text, rows from agent.tenant_contents('zeta')")
        )
        assert contents["agent.run"] == 5
        assert contents["agent.event"] > 1
        assert contents["agent.audit"] > 1
        audited = contents["agent.audit"]
        deleted = await value(conn, "select agent.delete_tenant('zeta')")
        assert deleted == sum(contents.values()) - audited - 1
        left = {t: n for t, n in (await checksum(conn, "zeta")).items() if n[0] not in "0["}
        assert set(left) == {"agent.audit", "agent_internal.audit_head"}
        after = await checksum(conn, "acme")
        assert {t for t in before if before[t] != after[t]} == set()
        await refused(app, "select agent.act_as(%s)", token, state="WA018")
        ended = "select tenant from agent.audit where action = 'tenant.deleted'"
        assert await rows(conn, ended) == [("default",)]
        for each in held:
            kept = await value(conn, "select count(*) from agent.run where id = %s", each.run_id)
            beat = "select * from agent_internal.heartbeat('w1', %s, %s, '30 s')"
            lost = await rows(conn, beat, [each.run_id], [each.lease])
            assert lost == ([] if kept else [(each.run_id, False)])
        await run_all(conn, "select agent.delete_tenant('acme', 'remove')")
        left = {t: n for t, n in (await checksum(conn, "acme")).items() if n[0] not in "0["}
        assert left == {}


async def test_only_the_operator_deletes(conn: AsyncConnection, dsn: str) -> None:
    """Not the default tenant, none that does not exist, and no admin its own."""
    boss = await person(conn, "boss", "admin", tenant="acme")
    await run_all(conn, "select agent.create_tenant('zeta')")
    await refused(conn, "select agent.delete_tenant('default')", state="WA020")
    await refused(conn, "select agent.delete_tenant('zeto')", state="WA020")
    await refused(conn, "select agent.delete_tenant('zeta', 'maybe')", state="WA020")
    async with application(conn, dsn) as app:
        for act in (
            "select agent.delete_tenant('acme')",
            "select * from agent.tenant_contents('zeta')",
        ):
            async with acting(app, boss):
                await refused(app, act, state="42501")
