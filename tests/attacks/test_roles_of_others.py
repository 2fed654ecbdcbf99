"""Roles that somebody who may create roles has made under the names that walagent uses."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.helpers.database import refused, role, rows, run_all, session, value
from walagent.ask.analyst_role import make_analyst
from walagent.config import Config
from walagent.config.dsn import Places
from walagent.console.sessions import acting_role
from walagent.doctor import Severity, examine
from walagent.errors import PreconditionError
from walagent.store.sessions.connections import open_pool
from walagent.store.sessions.rows_login import derived_dsn
from walagent.store.sessions.tool_connections import open_tool_connections
from walagent.sync.reading_role import reading_role

MEMBERSHIPS = 160000  # the version in which roles have administrators
OID = "(select oid from pg_database where datname = current_database())"


@asynccontextmanager
async def definer_of(conn: AsyncConnection, statement: str) -> AsyncIterator[None]:
    """Let another role have the name of the functions' owner: walagent was not installed yet."""
    before = await value(conn, "select to_regrole('walagent_definer') is not null")
    if before:
        await run_all(conn, "alter role walagent_definer rename to walagent_definer_of_test")
    try:
        await run_all(conn, statement)
        yield
    finally:
        heir = "walagent_definer_of_test" if before else "current_user"
        await run_all(conn, f"reassign owned by walagent_definer to {heir}")
        await run_all(conn, "drop owned by walagent_definer; drop role walagent_definer")
        if before:
            await run_all(conn, "alter role walagent_definer_of_test rename to walagent_definer")


async def doctor(conn: AsyncConnection, dsn: str) -> list[tuple[str, str]]:
    """The problems that it finds with roles, and their fixes."""
    found = examine(conn, Places(dsn, dsn), Config())
    return [
        (each.text, each.fix)
        async for each in found
        if each.kind == "role" and each.level is Severity.PROBLEM
    ]


def statement_of(hint: str) -> str:
    """The statement that a hint begins with."""
    return hint.removeprefix("As a superuser, run ").split("; or")[0]


MADE = {
    "member": "create role walagent_definer; grant walagent_definer to {eve}",
    "member of a member": "create role walagent_definer; create role {eve}_group;"
    "grant {eve}_group to {eve}; grant walagent_definer to {eve}_group",
    "administrator": "create role walagent_definer;"
    "grant walagent_definer to {eve} with admin option",
    "login": "create role walagent_definer login password 'x'",
    "attribute": "create role walagent_definer createrole",
    "function": "create role walagent_definer; create function public.f_of_eve() returns int"
    " language sql security definer return 1;"
    "alter function public.f_of_eve() owner to walagent_definer",
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
async def test_the_role_of_the_functions_is_walagents_alone(
    conn: AsyncConnection, dsn: str, made: str
) -> None:
    """Each is refused with its fix, and doctor says it; then the functions are given away."""
    async with role(conn, "login createrole") as eve, definer_of(conn, made.format(eve=eve)):
        error = await refused(conn, "select agent_internal.restrict_definers()", state="42501")
        fix = statement_of(str(error.diag.message_hint))
        problems = await doctor(conn, dsn)
        assert [each for each, _ in problems if '"walagent_definer"' in each], problems
        await run_all(conn, fix)
        await run_all(conn, "select agent_internal.restrict_definers()")
        named = "select count(*) from pg_proc where proowner = 'walagent_definer'::regrole"
        assert await value(conn, f"select ({named}) > 10")
        if "group" in made:
            await run_all(conn, f"drop role {eve}_group")
        async with session(dsn, user=eve) as own:
            await refused(own, "select key from agent_internal.secret", state="42501")
        await run_all(conn, "drop function if exists public.f_of_eve()")


async def test_a_role_that_a_role_manager_made_is_not_used(conn: AsyncConnection, dsn: str) -> None:
    """Whoever creates a role adds members to it, also without being one: from PostgreSQL 16 on."""
    if conn.info.server_version < MEMBERSHIPS:
        pytest.skip("before PostgreSQL 16, roles have no administrators")
    async with role(conn, "login createrole") as eve, definer_of(conn, "select"):
        async with session(dsn, user=eve) as own:
            await run_all(own, "create role walagent_definer")
        await refused(conn, "select agent_internal.restrict_definers()", state="42501")
        (trouble,) = await rows(
            conn, "select trouble, statement from agent_internal.role_trouble('walagent_definer')"
        )
        assert trouble == (
            f'role "{eve}" can act as it',
            f"revoke walagent_definer from {eve} granted by {conn.info.user} cascade",
        )


@pytest.mark.parametrize("kind", ["console", "sync", "rows", "tools"])
async def test_the_roles_of_a_database_are_walagents_alone(
    conn: AsyncConnection, dsn: str, kind: str
) -> None:
    """Those that the daemon creates when it needs them."""

    async def use() -> object:
        if kind == "console":
            return await acting_role(conn)
        if kind == "sync":
            return await reading_role(conn)
        if kind == "rows":
            return await derived_dsn(conn, dsn)
        async with (
            open_pool(lambda: dsn, size=1, application="t") as pool,
            open_tool_connections(pool, lambda: dsn),
        ):
            return None

    name = f"walagent_{kind}_{await value(conn, f'select {OID}::bigint')}"
    async with role(conn, "login createrole") as eve:
        logs_in = "login" if kind in {"rows", "tools"} else ""
        async with session(dsn, user=eve) as own:
            await run_all(own, f"create role {name} {logs_in}; grant {name} to {eve}")
        try:
            with pytest.raises(PreconditionError, match=f'role "{eve}" can act as it') as found:
                await use()
            assert f"revoke {name} from {eve}" in found.value.hint
            held = f"select count(*) from agent_internal.holder where role = '{name}'"
            assert await value(conn, held) == 0
            assert f'role "{name}" of walagent: role "{eve}" can act as it' in [
                text for text, _ in await doctor(conn, dsn)
            ]
            await run_all(conn, statement_of(found.value.hint))
            await use()
        finally:
            await run_all(conn, f"drop owned by {name}; drop role {name}")
            await run_all(conn, f"delete from agent_internal.holder where role = '{name}'")


async def test_the_analyst_has_no_member_that_nobody_named(conn: AsyncConnection, dsn: str) -> None:
    """A role that somebody made gets no right to read; members that a superuser added are meant."""
    await run_all(conn, "create table public.pay (pay text); insert into public.pay values ('x')")
    async with role(conn, "login createrole") as eve, role(conn) as ann:
        name = f"{eve}_analyst"
        async with session(dsn, user=eve) as own:
            await run_all(own, f"create role {name}; grant {name} to {eve}")
            with pytest.raises(PreconditionError, match=eve) as found:
                await make_analyst(conn, name, None)
            await refused(own, "select pay from public.pay", state="42501")
        await run_all(conn, statement_of(found.value.hint))
        await run_all(conn, f"grant {name} to {ann}")
        assert await make_analyst(conn, name, None)
        async with session(dsn, user=ann) as hers:
            assert await value(hers, "select pay from public.pay") == "x"
        await run_all(conn, f"drop owned by {name}; drop role {name}")


async def test_a_runner_that_somebody_else_can_act_as_gets_no_key(
    conn: AsyncConnection, dsn: str
) -> None:
    """Who reads the key acts as anybody; of other capabilities, doctor says it."""
    async with role(conn, "login createrole") as eve:
        async with session(dsn, user=eve) as own:
            await run_all(own, f"create role {eve}_made; grant {eve}_made to {eve}")
        error = await refused(conn, f"select agent.grant_runner('{eve}_made')", state="42501")
        assert eve in str(error)
        await run_all(conn, f"select agent.grant_approver('{eve}_made')")
        assert f'role "{eve}_made" of walagent: role "{eve}" can act as it' in [
            text for text, _ in await doctor(conn, dsn)
        ]
        await run_all(conn, f"drop owned by {eve}_made; drop role {eve}_made")


async def test_an_installer_that_may_create_roles_keeps_its_own(
    conn: AsyncConnection, dsn: str
) -> None:
    """It administers what it creates, and a runner knows the passwords of its logins."""
    async with role(conn, "login createrole") as boss:
        await run_all(conn, f"select agent.grant_runner('{boss}')")
        name = f"walagent_rows_{await value(conn, f'select {OID}::bigint')}"
        async with session(dsn, user=boss) as own:
            assert name in await derived_dsn(own, make_conninfo(dsn, user=boss))
            assert name in await derived_dsn(own, make_conninfo(dsn, user=boss))
        await run_all(conn, f"drop owned by {name}; drop role {name}")
