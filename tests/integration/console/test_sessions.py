"""Sessions that a daemon without an owner's rights opens: for whoever has proved who they are."""

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import refused, role, run_all, session, value
from tests.helpers.people import person
from walagent.console.sessions import enter, exchange, make_code
from walagent.http.exchange import RefusedError

WHO = "select agent.current_tenant() || '/' || agent.current_principal()"


@pytest.fixture
async def runner(conn: AsyncConnection, dsn: str) -> AsyncIterator[AsyncConnection]:
    """The login of a daemon that owns nothing."""
    async with role(conn) as name:
        await run_all(conn, f"select agent.grant_runner('{name}')")
        async with session(dsn, user=name) as opened:
            yield opened


async def acting(conn: AsyncConnection, token: str) -> str:
    """Whom a token acts as."""
    async with conn.transaction():
        await conn.execute("select agent.act_as(%s)", [token])
        return await value(conn, WHO)


async def test_a_link_signs_in_once(conn: AsyncConnection, runner: AsyncConnection) -> None:
    """Its code is used up, and is no token by which one could enter."""
    async with conn.transaction():
        code = await make_code(conn)
    with pytest.raises(RefusedError, match="code of a link"):
        async with runner.transaction():
            await enter(runner, code.text)
    async with runner.transaction():
        token = await exchange(runner, code.text)
    assert await acting(runner, token) == f"default/{conn.info.user}"
    for wrong in (code.text, token, "wla_x", "\0"):
        with pytest.raises(RefusedError, match="unknown, expired or was used"):
            async with runner.transaction():
                await exchange(runner, wrong)


async def test_a_token_signs_in_with_its_scopes(
    conn: AsyncConnection, runner: AsyncConnection
) -> None:
    """And not for longer than it lasts."""
    await person(conn, "ann", "approver")
    given = await value(
        conn, "select token from agent.create_token('ann', '', '{read}', now() + interval '1 h')"
    )
    async with runner.transaction():
        token = await enter(runner, given)
    assert await acting(runner, token) == "default/ann"
    found = "select scopes = '{read}' and expires_at < now() + interval '61 min' from agent.token"
    assert await value(conn, f"{found} where label = 'console session'")


async def test_what_a_session_gives_lasts_as_long_as_who_opened_it(
    conn: AsyncConnection, runner: AsyncConnection
) -> None:
    """A session ends after hours; a role that its admin grants need not, unless its token does."""
    await person(conn, "ann", "admin")
    await person(conn, "bob")
    create = "select token from agent.create_token('ann', expires_at => now() + %s::interval)"
    lasting, ending = await value(conn, create, None), await value(conn, create, "1 h")
    async with runner.transaction():
        permanent, brief = await enter(runner, lasting), await enter(runner, ending)
        again = await enter(runner, permanent), await enter(runner, brief)
    grant = "select agent.grant_role('bob', 'viewer', now() + %s::interval)::text"
    for token, days in (permanent, True), (again[0], True), (brief, False), (again[1], False):
        async with conn.transaction(force_rollback=True):
            await conn.execute("select agent.act_as(%s)", [token])
            if days:
                await value(conn, grant, "30 days")
                await value(conn, "select agent.grant_role('bob', 'viewer')::text")
            else:
                await refused(conn, grant, "2 h", state="42501")
    # A session opens no other one that is longer.
    ends = "select max(expires_at) < now() + interval '12 hours 1 min' from agent.token"
    assert await value(conn, f"{ends} where purpose = 'session'")
    brief_ends = "select count(*) from agent.token where purpose = 'session'"
    assert await value(conn, f"{brief_ends} and expires_at < now() + interval '61 min'") == 2


async def test_a_runner_makes_no_session_of_its_own_choice(
    conn: AsyncConnection, runner: AsyncConnection
) -> None:
    """Nor any other token."""
    await person(conn, "ann", "admin")
    await refused(runner, "select agent_internal.open_session('')", state="42501")
    await refused(runner, "select agent.create_token('ann')", state="42501")
    insert = "select agent_internal.insert_session('default', 'ann', '{}', null, null)"
    await refused(runner, insert, state="42501")
