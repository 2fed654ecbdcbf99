"""The tenant of a change: that which the row names, or that of the attachment."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, refused, rows, run_all, value
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel

# Each change writes down which run it must start: by a trigger, so in the order of the changes.
TICKETS = """
insert into agent.tenant (name) values ('acme'), ('umbra');
insert into agent.tenant (name, active) values ('gone', false);
create table ticket (
    id bigint primary key, tenant_id text, body text, n integer not null default 0
);
alter table ticket replica identity full, alter body set storage external;
create table expected (op text, id bigint, tenant text);
create function note() returns trigger language plpgsql as $$
begin
    insert into expected select lower(tg_op), coalesce(new.id, old.id),
        case tg_op when 'DELETE' then old.tenant_id else new.tenant_id end;
    return null;
end $$;
create trigger note after insert or update or delete on ticket
    for each row execute function note();
"""
BODY = "(select string_agg(t || md5(t || i::text), '') from generate_series(1, 80) i)"
SPEC = "name=desk, on=[insert, update, delete], tenant=tenant_id"


@pytest.mark.slow
async def test_each_of_5000_changes_is_in_the_tenant_of_its_row_once(
    conn: AsyncConnection, dsn: str
) -> None:
    """COPY, updates without the TOASTed column, rows that move, deletes; in turn."""
    await run_all(conn, DESK + TICKETS)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, SPEC, "ticket")
        body = {t: await value(conn, f"select {BODY} from (values (%s)) v (t)", t) for t in "XY"}
        async with (
            conn.cursor() as cursor,
            cursor.copy("copy ticket (id, tenant_id, body) from stdin") as copy,
        ):
            for n in range(2000):
                tenant, mark = ("acme", "X") if n % 2 else ("umbra", "Y")
                await copy.write_row((n, tenant, body[mark]))
        await run_all(conn, "update ticket set n = 1 where id < 1500")
        for low in range(0, 500, 100):  # a row that moves gets a body of its new tenant
            await conn.execute(
                "update ticket t set tenant_id = m.tenant, body = m.body"
                "  from (values ('umbra', 'acme', %s), ('acme', 'umbra', %s))"
                "       m (was, tenant, body)"
                " where t.id between %s and %s and t.tenant_id = m.was",
                [body["X"], body["Y"], low, low + 99],
            )
        await run_all(conn, "delete from ticket where id < 1000")
        await d.until("select count(*) = 5000 from agent.run")
        await d.caught_up()
    wanted = "select tenant, op, id::text, count(*) from expected group by 1, 2, 3 order by 1, 2, 3"
    found = (
        "select tenant, change ->> 'op', key, count(*) from agent.run where change ->> 'table'"
        " = 'ticket' group by 1, 2, 3 order by 1, 2, 3"
    )
    assert await rows(conn, found) == await rows(conn, wanted)
    assert await value(conn, "select count(*) from agent.run where state <> 'pending'") == 0
    marks = "select distinct tenant, strpos(change::text, 'Y') > 0, strpos(change::text, 'X') > 0"
    seen = await rows(
        conn,
        f"{marks} from agent.run where change ->> 'table' = 'ticket'",
    )
    assert set(seen) <= {
        ("umbra", True, False), ("acme", False, True),
        ("umbra", False, False), ("acme", False, False),
    }  # fmt: skip
    assert await rows(conn, "select * from agent.broken_invariant") == []


async def test_a_row_of_no_active_tenant_is_a_dead_run_without_it(
    conn: AsyncConnection, dsn: str
) -> None:
    """It is in the tenant of the attachment, and says which name the row has."""
    await run_all(conn, DESK + TICKETS)
    async with daemon(conn, dsn, parts=("reader",)) as d:
        await attach(conn, SPEC, "ticket")
        await run_all(
            conn,
            "insert into ticket values (1, 'nobody', 'secret'), (2, 'gone', 'secret'),"
            " (3, null, 'secret'), (4, 'acme', 'fine')",
        )
        await d.until("select count(*) = 4 from agent.run")
    found = await rows(
        conn, "select tenant, state::text, key, ordering_key, error, change from agent.run"
    )
    head = {"op": "insert", "schema": "public", "table": "ticket"}
    assert found[:3] == [
        ("default", "dead", None, None, {"reason": reason}, head)
        for reason in (
            'tenant "nobody" does not exist or is not active',
            'tenant "gone" does not exist or is not active',
            "the row names no tenant",
        )
    ]
    assert found[3][:2] == ("acme", "pending")


async def test_deletes_need_the_tenant_in_the_replica_identity(conn: AsyncConnection) -> None:
    """Otherwise the WAL does not say whose row was deleted; the hint is the statement."""
    await run_all(conn, DESK + TICKETS + "alter table ticket replica identity default")
    error = await refused(
        conn, "select agent.attach('ticket', %s)", f"model=fake, {SPEC}", state="WA013"
    )
    assert error.diag.message_hint == "alter table public.ticket replica identity full"
    await run_all(conn, str(error.diag.message_hint))
    await attach(conn, SPEC, "ticket")
    missing = "select agent.attach('ticket', 'model=fake, name=other, tenant=tenant')"
    await refused(conn, missing, state="WA013")


async def test_the_agent_acts_in_the_tenant_of_the_row(conn: AsyncConnection, dsn: str) -> None:
    """Its tools see what their role sees in that tenant, and no other."""
    await run_all(
        conn,
        DESK + TICKETS + "create function whoami() returns text language sql as"
        "  $$ select format('%s %s %s', agent.current_tenant(), agent.current_principal(),"
        "                   (select count(*) from agent.run)) $$",
    )
    model = ScriptedModel([call("whoami"), "done"])
    async with daemon(conn, dsn, {"fake": model}) as d:
        await attach(conn, f"{SPEC}, tools=[whoami]", "ticket")
        await run_all(conn, "insert into ticket values (1, 'acme', 'a'), (2, 'umbra', 'b')")
        await d.ended(2)
    said = await rows(
        conn,
        "select r.tenant, s.content ->> 'content' from agent.run r"
        " join agent.step s on s.run_id = r.id and s.kind = 'result' order by 1",
    )
    assert [(tenant, str(text).split()[:2]) for tenant, text in said] == [
        ("acme", ["acme", "desk"]),
        ("umbra", ["umbra", "desk"]),
    ]
