"""Schemas and publications that somebody else has made under the names of walagent's."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import refused, role, run_all, session
from tests.integration.cli.user import empty_database
from walagent.errors import PreconditionError
from walagent.store.install.migrate import migrate

FAKES = {
    "agent": "create schema agent",
    "agent_internal": "create schema agent_internal",
    "agent_call": "create schema agent_call",
    "agent_signed": "create schema agent_signed",
    "its comment": "create schema agent; comment on schema agent is 'walagent: x'",
    "its tables": "create schema agent; create table agent.attachment ();"
    "create schema agent_internal;"
    "create table agent_internal.migration (name text, sha256 text, version text)",
    "publication": "create publication walagent",
}


@pytest.mark.parametrize("fake", FAKES.values(), ids=FAKES)
async def test_walagent_is_not_installed_into_a_schema_of_somebody_else(
    server: str, fake: str
) -> None:
    """Who owns it could exchange what is in it; and nothing of theirs is executed."""
    with empty_database(server) as dsn:
        async with session(dsn) as conn, role(conn) as eve:
            await run_all(conn, f"grant create on database {conn.info.dbname} to {eve}")
            async with session(dsn, user=eve) as own:
                await run_all(own, fake)
            with pytest.raises(PreconditionError, match=f'belongs to role "{eve}"') as found:
                await migrate(conn)
            assert "drop " in found.value.hint


async def test_a_prepared_schema_is_empty(server: str) -> None:
    """A function that somebody put into it would be called with the names of walagent."""
    with empty_database(server) as dsn:
        async with session(dsn) as conn:
            await run_all(conn, "create schema agent")
            await run_all(conn, "create function agent.f() returns int language sql return 1")
            with pytest.raises(PreconditionError, match=r"function agent.f\(\)"):
                await migrate(conn)
            await run_all(conn, "drop function agent.f()")
            assert (await migrate(conn)).is_new


async def test_a_publication_of_somebody_else_is_not_repaired(
    conn: AsyncConnection, dsn: str
) -> None:
    """Its owner chooses what is sent."""
    async with role(conn) as eve, session(dsn, user=eve) as own:
        await run_all(conn, f"grant create on database {conn.info.dbname} to {eve}")
        await run_all(conn, "drop publication walagent_inserts")
        await run_all(own, "create publication walagent_inserts")
        repair = "select agent_internal.repair_publications()"
        assert eve in str(await refused(conn, repair, state="42501"))
