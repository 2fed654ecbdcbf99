"""Who may attach what, and that no way leads around it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection, sql

from tests.helpers.database import (
    DESK,
    as_role,
    attach,
    column,
    message_of,
    refused,
    role,
    rows,
    run_all,
    session,
    value,
)

OWN = """
create schema {dev} authorization {dev};
set role {dev};
create table {dev}.notes (id int primary key, body text, secret text);
create function {dev}.file_note(note_id int) returns text language sql as $$ select 'filed' $$;
reset role;
"""


@asynccontextmanager
async def developer(conn: AsyncConnection) -> AsyncIterator[str]:
    """A role that may attach agents, with a schema of its own."""
    async with role(conn) as name:
        await run_all(conn, OWN.format(dev=name))
        await value(conn, "select agent.grant_developer(%s)", name)
        yield name


async def test_a_developer_without_special_rights_attaches_to_its_own_table(
    conn: AsyncConnection, dsn: str
) -> None:
    """No superuser, no right on runs, no right on publications."""
    await run_all(conn, DESK)
    async with developer(conn) as dev:
        async with session(dsn, user=dev) as own:
            await attach(
                own,
                'name=mine, tools=[file_note], bind=[note_id=id], when="new.id > 1",'
                " on=[insert, update], writes=[body]",
                "notes",
            )
            await value(own, "select agent.pause('mine', 'later')")
            await value(own, "select agent.resume('mine')")
            await run_all(own, "update agent.attachment set condition = 'new.id > 2'")
            await run_all(own, "update agent.agent set system_prompt = 'Be brief.'")
        found = await value(conn, "select definition from agent.attachment")
        assert (found["run_as"], found["attached_by"], found["version"]) == (dev, dev, 3)
        assert found["tools"][0]["target"] == f"{dev}.file_note(integer)"
        assert found["condition"] == "(new.id > 2)"
        published = "select pubname from pg_publication_tables where tablename = 'notes'"
        assert await column(conn, published) == ["walagent"]
        async with session(dsn, user=dev) as own:
            assert await value(own, "select agent.detach('mine')") == 1
        assert await column(conn, published) == []


async def test_a_developer_attaches_to_no_table_that_its_agent_may_not_read(
    conn: AsyncConnection,
) -> None:
    """The WAL would show it all the same: rows of others, and columns that are not granted."""
    await run_all(conn, DESK)
    async with developer(conn) as dev:
        refusal = 'lacks SELECT on column "id" of public.support_tickets'
        async with as_role(conn, dev):
            error = await refused(
                conn, "select agent.attach('support_tickets', 'model=fake')", state="42501"
            )
            assert refusal in message_of(error)
        await run_all(conn, f"grant select (id, issue) on support_tickets to {dev}")
        async with as_role(conn, dev):
            for spec in (
                "model=fake",
                "model=fake, columns=[amount]",
                "model=fake, columns=[issue], tools=[refund_user], bind=[amount=amount]",
            ):
                await refused(
                    conn, "select agent.attach('support_tickets', %s)", spec, state="42501"
                )
            await attach(conn, "columns=[issue], tools=[refund_user], bind=[ticket_id=id]")
            for changed in ("columns = null", "columns = '{status}'", 'bind = \'{"a": "amount"}\''):
                await refused(conn, f"update agent.attachment set {changed}", state="42501")


async def test_nobody_attaches_an_agent_that_runs_as_somebody_else(conn: AsyncConnection) -> None:
    """Not as a superuser, not as another developer; as a role that one is a member of, yes."""
    await run_all(conn, DESK)
    superuser = await value(conn, "select current_user")
    async with developer(conn) as dev, role(conn, "nologin") as bot:
        await run_all(conn, f"grant usage on schema {dev} to {bot}")
        await run_all(conn, f"grant select on {dev}.notes to {bot}")
        for other in (superuser, bot):
            async with as_role(conn, dev):
                error = await refused(
                    conn,
                    f"select agent.attach('{dev}.notes', 'model=fake, run_as={other}')",
                    state="42501",
                )
                assert f'must be a member of role "{other}"' in message_of(error)
        await run_all(conn, f"grant {bot} to {dev}")
        async with as_role(conn, dev):
            await attach(conn, f"run_as={bot}", f"{dev}.notes")
            await refused(
                conn, f"update agent.attachment set run_as = '{superuser}'", state="42501"
            )


# A developer's own functions and operators, put before PostgreSQL's.
TRICKS = """
create function {dev}.pg_has_role(name, text) returns boolean language sql as 'select true';
create function {dev}.pg_has_role(name, name, text) returns boolean language sql as 'select true';
create function {dev}.pg_has_role(oid, text) returns boolean language sql as 'select true';
create function {dev}.has_column_privilege(name, regclass, smallint, text)
    returns boolean language sql as 'select true';
create function {dev}.has_function_privilege(name, regprocedure, text)
    returns boolean language sql as 'select true';
create function {dev}.lie(text, text) returns boolean language sql as 'select false';
create operator {dev}.= (leftarg = text, rightarg = text, function = {dev}.lie);
create function {dev}.lie(name, name) returns boolean language sql as 'select false';
create operator {dev}.= (leftarg = name, rightarg = name, function = {dev}.lie);
create operator {dev}.<> (leftarg = name, rightarg = name, function = {dev}.lie);
create function {dev}.lie(integer, integer) returns boolean language sql as 'select false';
create operator {dev}.<> (leftarg = integer, rightarg = integer, function = {dev}.lie);
create function {dev}.to_jsonb(agent.attachment) returns jsonb language sql
    as $$ select '{{"run_as": "forged"}}'::jsonb $$;
create function {dev}.coalesced(jsonb, jsonb) returns jsonb language sql
    as $$ select pg_catalog.jsonb_concat($1, '{{"run_as": "forged"}}') $$;
create operator {dev}.|| (leftarg = jsonb, rightarg = jsonb, function = {dev}.coalesced);
"""


async def test_a_search_path_of_tricks_gets_nobody_around_the_checks(conn: AsyncConnection) -> None:
    """Whoever puts functions and operators before PostgreSQL's finds that they are not called."""
    await run_all(conn, DESK)
    superuser = await value(conn, "select current_user")
    await attach(conn, "name=theirs, tools=[escalate_to_human]")
    async with developer(conn) as dev:
        tricks = sql.SQL(TRICKS).format(dev=sql.Identifier(dev)).as_string()
        await run_all(
            conn, f"set role {dev}; {tricks}; set search_path = {dev}, pg_catalog, public"
        )
        insert = "insert into agent.attachment (name, agent, relation, run_as) values"
        for statement in (
            f"{insert} ('x', 'theirs', '{dev}.notes', '{superuser}')",
            f"{insert} ('x', 'theirs', 'public.support_tickets', '{dev}')",
            "update agent.attachment set version = 2",
            "update agent.attachment set paused = true",
            "update agent.agent set system_prompt = 'Obey.'",
            "delete from agent.attachment",
        ):
            await refused(conn, statement, state="42501")
        await run_all(
            conn,
            "insert into agent.agent (name, model) values ('mine', 'fake');"
            f"{insert} ('mine', 'mine', '{dev}.notes', '{dev}')",
        )
        await run_all(conn, "reset role; reset search_path")
        found = await value(conn, "select definition from agent.attachment where name = 'mine'")
        assert found["run_as"] == dev
        theirs = "select version, paused from agent.attachment where name = 'theirs'"
        assert await rows(conn, theirs) == [(1, False)]


async def test_no_setting_lets_an_agent_be_changed_under_its_attachments(
    conn: AsyncConnection,
) -> None:
    """What `walagent apply` sets to make one version of several changes is no way around."""
    await run_all(conn, DESK)
    await attach(conn, "name=theirs")
    async with developer(conn) as dev, as_role(conn, dev):
        await run_all(conn, "set walagent.applying = on")
        error = await refused(conn, "update agent.agent set system_prompt = 'Obey.'", state="42501")
        assert 'agent "theirs" is used by attachment "theirs"' in message_of(error)


async def test_a_developer_changes_nothing_of_anothers(conn: AsyncConnection) -> None:
    """Neither by functions nor by plain statements; a fellow of the same role may."""
    await run_all(conn, DESK)
    async with developer(conn) as ann, developer(conn) as bob:
        async with as_role(conn, ann):
            await attach(conn, "name=anns", f"{ann}.notes")
        async with as_role(conn, bob):
            for statement in (
                "select agent.detach('anns')",
                "select agent.pause('anns')",
                "select agent.resume('anns')",
                "delete from agent.attachment",
                "update agent.attachment set condition = 'true'",
                "update agent.attachment set paused = true",
                "update agent.agent set tools = '{do_nothing}'",
                f"select agent.attach('{bob}.notes', 'model=fake, name=anns')",
            ):
                error = await refused(conn, statement)
                assert error.sqlstate in {"42501", "WA013"}, statement
        await run_all(conn, f"grant {ann} to {bob}")
        async with as_role(conn, bob):
            await value(conn, "select agent.pause('anns')")
            assert await value(conn, "select agent.detach('anns')") == 1


async def test_who_is_in_the_way_is_named_by_the_one_that_owns_the_schema(
    conn: AsyncConnection,
) -> None:
    """The operator may pause and detach whatever is attached."""
    await run_all(conn, DESK)
    async with developer(conn) as dev:
        async with as_role(conn, dev):
            await attach(conn, "name=mine", f"{dev}.notes")
        await value(conn, "select agent.pause('mine')")
        assert await value(conn, "select agent.detach('mine')") == 1


async def test_a_developer_reads_no_run_and_no_key(conn: AsyncConnection) -> None:
    """Rows of other people's tables are in the runs; the key would let it sign write-backs."""
    async with developer(conn) as dev, as_role(conn, dev):
        for table in (
            "run",
            "step",
            "approval",
            "checkpoint",
            "attachment_version",
            "worker",
            "gap",
        ):
            await refused(conn, f"select * from agent.{table}", state="42501")
        for table in ("secret", "merged_change", "queue", "backfill_seen"):
            await refused(conn, f"select * from agent_internal.{table}", state="42501")
        for statement in (
            "select agent_internal.publish_relation('pg_class'::regclass)",
            "select agent.grant_runner(current_user)",
            "select agent.grant_developer(current_user)",
            "select agent.grant_approver(current_user)",
            "select agent_internal.pause_broken(1, '')",
            "select agent_internal.begin_write(1, 1)",
            "select agent_internal.sign_write('1 1 0', pg_current_xact_id())",
            "select agent_internal.tick()",
            "select agent.cancel(1)",
            "select agent.resolve(1, true)",
            "select agent.prune('0')",
            "update agent.model set credential = 'HOME'",
            "insert into agent.tool (name, kind, target) values ('x', 'python', 'os:system')",
        ):
            await refused(conn, statement, state="42501")


async def test_trigger_functions_cannot_be_called_or_borrowed(conn: AsyncConnection) -> None:
    """They run with the owner's rights: nobody may hang them on a table of their own."""
    async with developer(conn) as dev, as_role(conn, dev):
        for name in ("freeze_attachment", "delete_attachment_state", "continue_decided"):
            await refused(conn, f"select agent_internal.{name}()")
            await refused(
                conn,
                f"create trigger x after insert on {dev}.notes for each row"
                f" execute function agent_internal.{name}()",
                state="42501",
            )


async def test_nothing_of_ours_is_open_to_everybody(conn: AsyncConnection) -> None:
    """Neither the schema, nor a table, nor a function."""
    functions = (
        "select p.oid::regprocedure::text from pg_proc p"
        " where p.pronamespace::regnamespace::text in ('agent', 'agent_internal')"
        " and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a"
        "              where a.grantee = 0)"
    )
    assert await column(conn, functions) == []
    tables = (
        "select c.relname from pg_class c, aclexplode(c.relacl) a"
        " where c.relnamespace::regnamespace::text in ('agent', 'agent_internal') and a.grantee = 0"
    )
    assert await column(conn, tables) == []
    async with role(conn) as name, as_role(conn, name):
        await refused(conn, "select agent_internal.now()", state="42501")


async def test_whatever_runs_with_the_owners_rights_looks_nowhere_else(
    conn: AsyncConnection,
) -> None:
    """Every such function has a search_path of its own, with pg_temp at its end."""
    loose = (
        "select proname from pg_proc where pronamespace::regnamespace::text in ('agent',"
        " 'agent_internal')"
        " and prosecdef"
        " and not coalesce(proconfig @> '{\"search_path=pg_catalog, pg_temp\"}', false)"
    )
    assert await column(conn, loose) == []


async def test_every_object_has_a_comment(conn: AsyncConnection) -> None:
    """Tables and views are explained where people look at them."""
    silent = (
        "select relname from pg_class where relnamespace::regnamespace::text in ('agent',"
        " 'agent_internal')"
        " and relkind in ('r', 'v') and obj_description(oid, 'pg_class') is null"
    )
    assert await column(conn, silent) == []


@pytest.mark.parametrize("grant", ["runner", "approver", "viewer", "developer"])
async def test_a_grant_for_one_part_is_not_one_for_another(
    conn: AsyncConnection, grant: str
) -> None:
    """None of the roles may change who may do what, nor the functions that run as the owner."""
    async with role(conn) as name:
        await value(conn, f"select agent.grant_{grant}(%s)", name)
        async with as_role(conn, name):
            for other in ("runner", "approver", "viewer", "developer"):
                await refused(conn, f"select agent.grant_{other}(current_user)", state="42501")
            for table in ("agent.model", "agent.attachment_version", "agent_internal.secret"):
                if grant != "runner":
                    await refused(conn, f"delete from {table}", state="42501")
            await refused(conn, "create table agent.mine (id int)", state="42501")
            await refused(conn, "select agent_internal.publish_relation('pg_class')", state="42501")
