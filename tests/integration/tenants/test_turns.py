"""Tenants take turns: between queues, and within the queue of an attachment that serves several."""

import asyncio
import time

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import DESK, attach, column, refused, run_all
from tests.helpers.queue import claim

FILL = """
insert into agent.run (tenant, queue_id, attachment_id, attachment_version, generation, commit_lsn,
                       ordinal, committed_at, change, key, max_attempts)
select %s, %s, %s, 1, 1, '0/100'::pg_lsn + %s::numeric, n, now(), '{}', n::text, 5
  from generate_series(1, %s) n
"""


async def fill(conn: AsyncConnection, tenant: str, queue: int, rows: int, offset: int = 0) -> None:
    """Queue runs of a tenant."""
    await conn.execute(FILL, [tenant, queue, queue, offset, rows])


@pytest.fixture
async def queue(conn: AsyncConnection) -> int:
    """A queue with two tenants to come."""
    await run_all(conn, DESK)
    await run_all(conn, "select agent.create_tenant('acme'), agent.create_tenant('zeta')")
    return await attach(conn, "name=shared")


async def tenants_of(conn: AsyncConnection, slots: int) -> list[str]:
    """The tenants of the runs that are claimed next."""
    claims = await claim(conn, slots)
    found = await column(
        conn,
        "select r.tenant from agent.run r join unnest(%s::bigint[]) with ordinality as x (id, n)"
        " on x.id = r.id order by n",
        [each.run_id for each in claims],
    )
    return [str(each) for each in found]


async def test_a_queue_serves_its_tenants_in_turn(conn: AsyncConnection, queue: int) -> None:
    """Whoever came first, and however many; then all that is left."""
    await fill(conn, "acme", queue, 500)
    await fill(conn, "zeta", queue, 3, 1)
    await fill(conn, "default", queue, 3, 2)
    assert sorted(await tenants_of(conn, 6)) == ["acme"] * 2 + ["default"] * 2 + ["zeta"] * 2
    one_by_one = [(await tenants_of(conn, 1))[0] for _ in range(3)]
    assert sorted(one_by_one) == ["acme", "default", "zeta"]
    assert await tenants_of(conn, 5) == ["acme"] * 5
    claimed = 0
    while found := await tenants_of(conn, 100):
        claimed += len(found)
    assert claimed == 500 - 8


async def test_queues_of_tenants_are_served_in_turn(conn: AsyncConnection, queue: int) -> None:
    """Many queues of one tenant get no more turns than one of another."""
    for n in range(8):
        other = await attach(conn, f"name=a{n}")
        await conn.execute("update agent_internal.queue set tenant = 'acme' where id = %s", [other])
        await fill(conn, "acme", other, 5)
    await conn.execute("update agent_internal.queue set tenant = 'zeta' where id = %s", [queue])
    await fill(conn, "zeta", queue, 4)
    found = [(await tenants_of(conn, 1))[0] for _ in range(8)]
    assert sorted(found) == ["acme"] * 4 + ["zeta"] * 4


async def test_a_limit_of_running_runs_holds(conn: AsyncConnection, queue: int) -> None:
    """Of the tenant, and not of others; also in two claims at once; and it ends with the runs."""
    await conn.execute("update agent.tenant set max_running = 3 where name = 'acme'")
    await fill(conn, "acme", queue, 20)
    await fill(conn, "zeta", queue, 2, 1)
    assert sorted(await tenants_of(conn, 10)) == ["acme"] * 3 + ["zeta"] * 2
    assert await tenants_of(conn, 10) == []
    await conn.execute(
        "update agent.run set state = 'succeeded', lease_expires_at = null, finished_at = now()"
        " where tenant = 'acme' and state = 'running'"
    )
    assert await tenants_of(conn, 2) == ["acme", "acme"]
    assert await tenants_of(conn, 2) == ["acme"]
    await refused(conn, "update agent.tenant set max_running = -1", state="23514")


async def test_no_run_of_a_disabled_tenant_is_claimed(conn: AsyncConnection, queue: int) -> None:
    """Until it is enabled again."""
    await fill(conn, "acme", queue, 2)
    await fill(conn, "zeta", queue, 2, 1)
    await conn.execute("select agent.disable_tenant('acme')")
    assert await tenants_of(conn, 10) == ["zeta"] * 2
    await conn.execute("select agent.enable_tenant('acme')")
    assert await tenants_of(conn, 10) == ["acme"] * 2


@pytest.mark.parametrize("rows", [2000, pytest.param(100_000, marks=pytest.mark.slow)])
async def test_a_backlog_of_one_tenant_does_not_delay_another(
    conn: AsyncConnection, queue: int, rows: int
) -> None:
    """Below two seconds from the commit to the claim, in the same queue, with eight slots."""
    await fill(conn, "acme", queue, rows)
    await conn.execute("analyze agent.run")
    await tenants_of(conn, 8)
    await fill(conn, "zeta", queue, 1, 1)
    begun = time.monotonic()
    async with asyncio.timeout(30):
        while "zeta" not in await tenants_of(conn, 8):
            pass
    assert time.monotonic() - begun < 2
