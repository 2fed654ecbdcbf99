"""Principals without a role for it read the runs of nobody else, whatever login they act over."""

from contextlib import suppress

from psycopg import AsyncConnection, Error

from tests.helpers.daemon import daemon
from tests.helpers.database import role, run_all, value
from tests.helpers.people import acting, application, token_of
from walagent.models.script import call
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.store.role_reader import RoleReader, RoleStatement

SETUP = """
insert into agent.model (name, provider, model_id, input_price, output_price)
values ('fake', 'scripted', 'fake', 1, 5);
create table ticket (id bigint primary key, body text);
create table noted (what text);
create function note(what text) returns void language sql as $$ insert into noted values ($1) $$;
select agent.attach('ticket', 'name=triage, model=fake, tools=note, approve=note');
insert into agent.agent (name, model, system_prompt) values ('sarah', 'fake', 'You are Sarah.');
select agent.attach_to_threads('sarah');
insert into agent.principal (tenant, name)
select 'default', unnest('{ann,eve,vic,app,aud,dev}'::name[]);
insert into agent.role_grant (tenant, principal, role, granted_by)
values ('default', 'vic', 'viewer', 'test'), ('default', 'app', 'approver', 'test'),
       ('default', 'aud', 'auditor', 'test'), ('default', 'dev', 'developer', 'test');
"""
COUNTS = """
select array[(select count(*) from agent.run), (select count(*) from agent.step),
             (select count(*) from agent.approval), (select count(*) from agent.run_overview)]
"""


async def test_only_readers_read_runs(conn: AsyncConnection, dsn: str) -> None:
    """A member reads that its thread has a turn, and not what tools returned there."""
    await run_all(conn, SETUP)
    model = ScriptedModel([call("note", what="secret")])
    async with daemon(conn, dsn, {"fake": model}) as d:
        thread = await value(conn, "select agent.open_thread('Talk', '{sarah,ann}')")
        await run_all(conn, "insert into ticket values (1, 'a secret')")
        await d.until("select exists (select from agent.approval)")
        await value(conn, "select agent.post(%s, 'Hi!')", thread)
        await d.until("select exists (select from agent.run where kind = 'turn' and attempt > 0)")
    everything = await value(conn, COUNTS)
    assert min(everything) > 0
    async with application(conn, dsn, "viewer", "approver", "developer") as app:
        for name in ("vic", "app", "aud"):
            async with acting(app, await token_of(conn, name)) as acted:
                assert await value(acted, COUNTS) == everything, name
        for name in ("eve", "dev"):
            async with acting(app, await token_of(conn, name)) as acted:
                assert await value(acted, COUNTS) == [0, 0, 0, 0], name
        async with acting(app, await token_of(conn, "ann")) as acted:
            assert await value(acted, COUNTS) == [1, 0, 0, 1]
            text = "select coalesce(string_agg(r::text, ''), '') from agent.run r"
            assert "secret" not in await value(acted, text)


async def test_code_that_reads_leaves_nothing_behind(conn: AsyncConnection) -> None:
    """Before PostgreSQL 16, a read-only transaction can make large objects."""
    made = "select count(*) from pg_largeobject_metadata"
    async with role(conn, "nologin") as name:
        reader = RoleReader(conn)
        try:
            for _ in range(2):
                with suppress(Error):  # a newer server refuses it
                    await reader.read(RoleStatement(name, b"select lo_create(0)::text"))
        finally:
            await reader.aclose()
        assert await value(conn, made) == 0


async def test_nobody_sets_the_random_numbers_of_who_reads_next(conn: AsyncConnection) -> None:
    """DISCARD ALL keeps what setseed() has set, and a tool may draw who wins."""
    async with role(conn, "nologin") as name:
        reader = RoleReader(conn)
        try:
            drawn = [
                await reader.read(RoleStatement(name, text))
                for text in (
                    b"select (setseed(0.5), random())::text",
                    b"select ('', random())::text",
                    b"select (setseed(0.5), random(), random())::text",
                )
            ]
        finally:
            await reader.aclose()
    first, after, again = drawn
    assert first is not None
    assert first.rstrip(")") in str(again)
    assert str(after).strip('(),"') not in str(again)
