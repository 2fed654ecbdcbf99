"""Which publication a table is in, and that the application never suffers from it."""

import asyncio
from uuid import uuid4

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.daemon import daemon
from tests.helpers.database import (
    DESK,
    attach,
    column,
    message_of,
    refused,
    role,
    rows,
    run_all,
    session,
    until,
    value,
)
from walagent.store.install.migrate import migrate

NO_KEY = DESK + "create table notes (id int, body text); insert into notes values (1, 'a');"


async def published(conn: AsyncConnection, table: str = "notes") -> list[str]:
    """The publications that a table is in."""
    query = (
        "select pubname from pg_publication_tables where tablename = %s and pubname ~ 'walagent'"
    )
    return await column(conn, query, table)


async def test_a_table_of_which_only_inserts_are_wanted_keeps_its_updates(
    conn: AsyncConnection,
) -> None:
    """It has no key: published with updates, the application's own UPDATE would fail."""
    await run_all(conn, NO_KEY)
    await attach(conn, "", "notes")
    assert await published(conn) == ["walagent_inserts"]
    await run_all(conn, "update notes set body = 'b'; delete from notes")
    what = "select pubinsert, pubupdate, pubdelete, pubtruncate from pg_publication"
    found = await rows(conn, f"{what} where pubname = 'walagent_inserts'")
    assert found == [(True, False, False, False)]


async def test_a_table_is_in_the_publication_that_its_agents_need(conn: AsyncConnection) -> None:
    """Each attach, update and detach may move it; the last one takes it out."""
    await run_all(conn, DESK)
    table = "support_tickets"
    await attach(conn, "name=a, on=insert")
    assert await published(conn, table) == ["walagent_inserts"]
    await attach(conn, "name=b, on=[insert, update]")
    assert await published(conn, table) == ["walagent"]
    await attach(conn, "name=c, on=delete")
    assert await published(conn, table) == ["walagent"]
    await value(conn, "select agent.detach('b')")
    assert await published(conn, table) == ["walagent"]
    await run_all(conn, "update agent.attachment set ops = '{insert}' where name = 'c'")
    assert await published(conn, table) == ["walagent_inserts"]
    await value(conn, "select agent.detach('support_tickets')")
    assert await published(conn, table) == []


async def test_an_attachment_that_moves_to_another_table_moves_the_publication(
    conn: AsyncConnection,
) -> None:
    """The old table is let go."""
    await run_all(conn, NO_KEY)
    await attach(conn, "name=a")
    await run_all(conn, "update agent.attachment set relation = 'notes'")
    assert await published(conn, "support_tickets") == []
    assert await published(conn, "notes") == ["walagent_inserts"]


async def test_pausing_moves_nothing(conn: AsyncConnection) -> None:
    """Changes are still ingested."""
    await run_all(conn, DESK)
    await attach(conn, "name=a")
    await value(conn, "select agent.pause('a')")
    assert await published(conn, "support_tickets") == ["walagent_inserts"]


async def test_a_table_that_was_dropped_is_let_go(conn: AsyncConnection) -> None:
    """Detaching does not stumble over it."""
    await run_all(conn, NO_KEY)
    await attach(conn, "name=a", "notes")
    await run_all(conn, "drop table notes")
    assert await value(conn, "select agent.detach('a')") == 1


async def test_an_awkward_name_is_published_as_it_is(conn: AsyncConnection) -> None:
    """Quotes, capitals, dots and blanks."""
    await run_all(
        conn,
        DESK
        + 'create schema "My ""App"""; create table "My ""App"""."Tick.et s" (id int primary key)',
    )
    await attach(conn, "name=a, on=update", '"My ""App"""."Tick.et s"')
    assert await published(conn, "Tick.et s") == ["walagent"]


async def test_changes_of_partitions_come_as_their_parents(conn: AsyncConnection) -> None:
    """The publications say so."""
    via_root = "select bool_and(pubviaroot) from pg_publication where pubname ~ 'walagent'"
    assert await value(conn, via_root) is True


async def test_attaching_waits_for_writers_of_the_table(conn: AsyncConnection, dsn: str) -> None:
    """So each transaction has either committed before it, or writes after it."""
    await run_all(conn, DESK)
    async with session(dsn) as writer, session(dsn) as other:
        await run_all(writer, "begin; insert into support_tickets (issue) values ('x')")
        attaching = asyncio.create_task(attach(other, "name=a"))
        await until(
            conn,
            "select exists (select from pg_stat_activity where wait_event = 'PgSleep'"
            " and datname = current_database())",
        )
        assert not await value(conn, "select exists (select from pg_locks where not granted)")
        assert not attaching.done()
        await run_all(writer, "commit")
        await attaching


async def test_attaching_gives_up_when_the_table_stays_busy(
    conn: AsyncConnection, dsn: str
) -> None:
    """It says what it waited for, and leaves nothing behind."""
    await run_all(
        conn, DESK + "alter function agent_internal.freeze_attachment() set lock_timeout = '100ms'"
    )
    async with session(dsn) as writer:
        await run_all(writer, "begin; insert into support_tickets (issue) values ('x')")
        error = await refused(
            conn, "select agent.attach('support_tickets', 'model=fake')", state="55P03"
        )
        assert "writing to public.support_tickets all the time" in message_of(error)
        assert "pg_stat_activity" in message_of(error)
        await run_all(writer, "rollback")
    assert await value(conn, "select count(*) from agent.attachment") == 0
    assert await value(conn, "select count(*) from agent.agent") == 0


async def test_attaching_does_not_stop_readers(conn: AsyncConnection, dsn: str) -> None:
    """The lock lets everybody read, until the attaching transaction ends."""
    await run_all(conn, DESK)
    async with session(dsn) as other:
        await run_all(conn, "begin")
        await attach(conn, "name=a")
        await run_all(other, "set lock_timeout = '1s'")
        assert await value(other, "select count(*) from support_tickets") == 0
        await run_all(conn, "commit")


# Filters on the server.


async def filters(conn: AsyncConnection) -> list[str]:
    """The row filters of our publications."""
    query = "select pg_get_expr(prqual, prrelid) from pg_publication_rel where prqual is not null"
    return await column(conn, query)


async def test_a_filter_lets_through_what_any_attachment_wants(conn: AsyncConnection) -> None:
    """One attachment without a filter is enough for every row to come."""
    await run_all(conn, DESK)
    await attach(conn, "name=a, when=new.status = 'open', server_filter=true")
    assert await filters(conn) == ["(status = 'open'::text)"]
    await attach(conn, "name=b, when=new.id > 5, server_filter=true")
    assert await filters(conn) == ["((id > 5) OR (status = 'open'::text))"]
    await attach(conn, "name=c")
    assert await filters(conn) == []
    await value(conn, "select agent.detach('c')")
    await value(conn, "select agent.detach('a')")
    assert await filters(conn) == ["(id > 5)"]
    await run_all(conn, "update agent.attachment set condition = 'new.id > 6'")
    assert await filters(conn) == ["(id > 6)"]
    await attach(conn, "name=d, on=update")
    assert await filters(conn) == []
    assert await published(conn, "support_tickets") == ["walagent"]


async def test_only_what_cannot_raise_is_a_filter(conn: AsyncConnection) -> None:
    """An error in the server's sender would end the stream for ever."""
    await run_all(conn, DESK)
    for spec in (
        "when=old.id is null",
        "when=1 / new.id > 0",
        "when=new.amount > 1",
        "when=new.status like 'a%'",
        "when=lower(new.status) = 'a'",
        "when=new.status = 'open', on=[insert, update]",
        "on=insert",
    ):
        error = await refused(
            conn,
            "select agent.attach('support_tickets', %s)",
            f"model=fake, server_filter=true, {spec}",
            state="WA012",
        )
        assert "server_filter requires" in message_of(error)
    assert await filters(conn) == []


async def test_a_filter_names_types_of_any_schema(conn: AsyncConnection) -> None:
    """It is compiled on the attaching session's search_path and used on another one."""
    await run_all(
        conn,
        "create schema app; set search_path = app, public;"
        + DESK
        + 'alter table support_tickets add "new.when" text',
    )
    await value(
        conn,
        "select agent.attach('support_tickets'::regclass, 'fake', server_filter => true,"
        " condition => $$new.status = 'it''s new.x' and new.\"new.when\" is not null$$)",
    )
    assert await filters(conn) == [
        "((status = 'it''s new.x'::text) AND (\"new.when\" IS NOT NULL))"
    ]


# An owner that is no superuser.


async def test_an_owner_without_superuser_rights_migrates_and_attaches(
    conn: AsyncConnection, dsn: str
) -> None:
    """To its own tables; for others the hint says what it needs."""
    name = f"walagent_{uuid4().hex[:8]}"
    async with role(conn) as owner, role(conn) as other:
        await run_all(conn, f"create database {name} owner {owner}")
        try:
            async with session(make_conninfo(dsn, dbname=name)) as admin:
                await run_all(admin, f"create schema theirs authorization {other}")
                await run_all(
                    admin,
                    f"create table theirs.notes (id int primary key);"
                    f"alter table theirs.notes owner to {other};"
                    f"grant usage on schema theirs to {owner};"
                    f"grant select on theirs.notes to {owner};"
                    f"grant create on schema public to {owner}",
                )
            async with session(dsn, dbname=name, user=owner) as own:
                await migrate(own)
                await run_all(own, DESK)
                await attach(own, "name=mine, on=[insert, update], tools=[refund_user]")
                assert await published(own, "support_tickets") == ["walagent"]
                error = await refused(
                    own, "select agent.attach('theirs.notes', 'model=fake')", state="42501"
                )
                assert error.diag.message_hint == f"grant {other} to {owner}"
                assert len(await rows(own, "select * from agent.attachment")) == 1
        finally:
            await run_all(conn, f"drop database {name} with (force)")


VIRTUAL = "alter table notes add twice int generated always as (id * 2) virtual"
HARM = {
    "primary key": "alter table notes drop constraint notes_pkey",
    "identity": "alter table notes replica identity nothing",
    "virtual column": f"{VIRTUAL}; alter table notes replica identity full",
}
REPAIR = {"primary key": "alter table notes add primary key (id)"}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("what", HARM)
async def test_the_application_never_waits_for_a_person(
    conn: AsyncConnection, dsn: str, what: str
) -> None:
    """A table that loses its identity after the attach is published without updates in seconds.

    The reason is recorded, inserts go on, and updates start runs again after a resume.
    """
    repair = REPAIR.get(what, "alter table notes replica identity default")
    if what == "virtual column" and conn.info.server_version < 180000:
        pytest.skip("no virtual columns before PostgreSQL 18")
    await run_all(conn, DESK + "create table notes (id int primary key, body text)")
    async with daemon(conn, dsn, ["ok"]) as d:
        await attach(conn, "name=every, on=[insert, update]", "notes")
        await attach(conn, "name=inserts, on=insert", "notes")
        await run_all(conn, "insert into notes values (1, 'a')")
        await d.ended(2)
        await run_all(conn, HARM[what])
        await until(conn, "select paused from agent.attachment where name = 'every'")
        assert await published(conn) == ["walagent_inserts"]
        reason = await value(conn, "select paused_reason from agent.attachment where paused")
        assert "not published" in reason
        await run_all(conn, "update notes set body = 'b'; insert into notes values (2, 'c')")
        await d.ended(3)
        await refused(conn, "select agent.resume('every')", state="WA013")
        await run_all(conn, repair + "; select agent.resume('every'); update notes set body = 'd'")
        assert await published(conn) == ["walagent"]
        # The insert of row 2 waited; both updates after the resume start runs.
        await d.ended(6)
        assert await value(conn, "select count(*) from agent.gap") == 0
