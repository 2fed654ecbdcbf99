"""Who corrected what an agent wrote, where the WAL can say it."""

from pathlib import Path

from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import DESK, attach, role, rows, run_all, session, until, value
from tests.helpers.people import person
from tests.helpers.shapes import serving
from tests.integration.cli.user import User
from walagent.config import Replication
from walagent.config.sections import MutationEntry
from walagent.models.script import call
from walagent.replication.bootstrap import ensure_slot

SCRIPT = [call("update_row", category="bug"), "done"]
BY = "select r.key, c.kind, c.corrected_by::text from agent.correction c join agent.run r"
BY += " on r.id = c.run_id order by r.key::int"
CHANGE = "update support_tickets set category = 'billing' where id = {}"


async def test_who_signs_a_transaction_has_corrected(
    conn: AsyncConnection, dsn: str, tmp_path: Path
) -> None:
    """The principal of a token, else the login; who signs nothing is not known, nor who forges."""
    await run_all(conn, DESK)
    token = await person(conn, "ann", "viewer")
    async with daemon(conn, dsn, SCRIPT) as d, role(conn) as login:
        await attach(conn, "writes=[category], name=desk, corrections=true")
        await run_all(
            conn,
            f"select agent.grant_member('{login}'); grant select, update, delete"
            f" on support_tickets to {login};"
            "insert into support_tickets (id, issue) select n, 'x' from generate_series(1, 7) n",
        )
        await d.until("select count(*) = 7 from agent_internal.last_write")
        sign = "select agent.sign_changes()"
        forge = (
            "select pg_logical_emit_message(true, 'walagent', 'author 616e6e ' || repeat('0', 64))"
        )
        async with session(dsn, user=login) as app:
            await run_all(app, f"{sign}; {CHANGE.format(1)}")
            async with app.transaction():
                await app.execute("select agent.act_as(%s)", [token])
                await run_all(app, f"{sign}; {CHANGE.format(2)}")
            await run_all(app, CHANGE.format(3))
            await run_all(app, f"{forge}; {CHANGE.format(4)}")
            await run_all(app, f"{sign}; delete from support_tickets where id = 5")
        run = await value(conn, "select id from agent.run where key = '6' and kind = 'agent'")
        await run_all(conn, f"select agent.revert({run})")
        await d.until("select count(*) = 6 from agent.correction")
        me = await value(conn, "select session_user::text")
        assert await rows(conn, BY) == [
            ("1", "changed", login),
            ("2", "changed", "ann"),
            ("3", "changed", None),
            ("4", "changed", None),
            ("5", "deleted", login),
            ("6", "reverted", me),
        ]
        await run_all(conn, f"drop owned by {login}")
    user = User(tmp_path, dsn)
    (row,) = user.types("runs", "corrections", "--by", "ann", "--json").worked().json
    assert (row["key"], row["corrected_by"]) == ("2", "ann")
    assert user.types("runs", "corrections", "--by", "eve", "--json").worked().json == []


WROTE = """
insert into agent.run (id, reason, queue_id, attachment_id, attachment_version, change, key, state,
                       finished_at)
overriding system value
select 900, 'manual', id, id, version, '{}', '1', 'succeeded', now() from agent.attachment;
insert into agent_internal.last_write (relation, key, column_name, number, run_id, digest,
                                       written_at)
select 'support_tickets'::regclass, '{"id": "1"}', 'category', attnum, 900,
       agent_internal.digest_of('bug'), now()
  from pg_attribute where attrelid = 'support_tickets'::regclass and attname = 'category';
"""


async def test_a_mutation_of_the_file_is_signed_with_its_principal(
    conn: AsyncConnection, dsn: str
) -> None:
    """A page of one's own has to do nothing for it."""
    await run_all(conn, DESK)
    await attach(conn, "writes=[category], name=desk, corrections=true")
    await run_all(conn, "insert into support_tickets (id, category) values (1, 'bug')")
    await run_all(conn, WROTE)
    token = await person(conn, "ann", "viewer")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with role(conn) as app:
        await run_all(conn, f"grant select, update on support_tickets to {app}")
        sort = MutationEntry(
            statement="update support_tickets set category = %(to)s where id = 1 returning id",
            run_as=app,
            parameters=("to",),
        )
        async with serving(conn, dsn, mutations={"sort": sort}) as served:
            answer = await served.mutate(token, "sort", to="billing")
            assert answer.status_code == 200, answer.text
            await until(conn, "select count(*) = 1 from agent.correction")
        await run_all(conn, f"drop owned by {app}")
    assert await rows(conn, BY) == [("1", "changed", "ann")]
