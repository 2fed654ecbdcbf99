"""Many threads at once, and what an event costs beside many others."""

import asyncio
from statistics import median
from typing import cast

import pytest
from psycopg import AsyncConnection

from tests.helpers.daemon import daemon
from tests.helpers.database import rows, run_all, session, value

MEMBERS = 10
LONGEST_WAIT = 10.0  # seconds; what holds a lock is a statement or two
AGENT = """
insert into agent.agent (name, model) values ('sarah', 'fake');
select agent.attach_to_threads('sarah');
"""
MODEL = "insert into agent.model (name, provider, model_id) values ('fake', 'scripted', 'fake');"
PEOPLE = """
insert into agent.principal (tenant, name) select 'default', 'p' || n from generate_series(1, 10) n;
select agent.open_thread('t' || n, '{{sarah,p1,p2,p3,p4,p5,p6,p7,p8,p9,p10}}')
  from generate_series(1, {threads}) n;
"""
DEADLOCKS = "select deadlocks from pg_stat_database where datname = current_database()"
# Somebody who waits for a row that a transaction of another one holds, and for how long.
WAITING = """
select coalesce(max(extract(epoch from clock_timestamp() - l.waitstart)), 0)::float
  from pg_locks l where not l.granted and l.database is not distinct from
       (select oid from pg_database where datname = current_database())
    or not l.granted and l.locktype = 'transactionid'
"""
# Threads of others, without the events that triggers would write.
OTHERS = """
set session_replication_role = replica;
with made as (
    insert into agent.thread (title, last_number)
    select 'other', 1 from generate_series(1, {count}) returning id
), joined as (
    insert into agent.member (thread_id, principal, role)
    select id, p, 'member' from made, unnest('{{sarah,p1}}'::name[]) p
    returning thread_id, principal
)
insert into agent_internal.participation (tenant, principal, thread_id)
select 'default', principal, thread_id from joined;
reset session_replication_role;
analyze agent.thread; analyze agent.member; analyze agent_internal.participation;
"""


async def _post_in_all(dsn: str, name: str, threads: list[str]) -> None:
    async with session(dsn) as conn:
        for thread in threads:
            async with conn.transaction():
                await value(conn, "select agent_internal.assume('default', %s)", name)
                await value(conn, "select agent.post(%s, %s)", thread, f"I am {name}")


async def _longest_wait(dsn: str, end: asyncio.Event) -> float:
    """Return the seconds for which somebody waited for a lock, looked at again and again."""
    longest = 0.0
    async with session(dsn) as conn:
        while not end.is_set():
            longest = max(longest, cast("float", await value(conn, WAITING)))
            await asyncio.sleep(0.1)
    return longest


@pytest.mark.slow
@pytest.mark.parametrize(
    "count", [30, pytest.param(1000, marks=pytest.mark.slow)], ids=["few", "a thousand"]
)
async def test_a_thousand_threads_in_which_ten_members_write_at_once(
    conn: AsyncConnection, dsn: str, count: int
) -> None:
    """Each event is there once and numbered, each thread costs few turns, and nobody waits long."""
    await run_all(conn, MODEL + AGENT + PEOPLE.format(threads=count))
    threads = [thread for (thread,) in await rows(conn, "select id from agent.thread")]
    end = asyncio.Event()
    waits = asyncio.create_task(_longest_wait(dsn, end))
    async with daemon(conn, dsn, ["Noted."]) as d:
        await asyncio.gather(*(_post_in_all(dsn, f"p{n}", threads) for n in range(1, MEMBERS + 1)))
        async with asyncio.timeout(300):
            while not await value(
                conn,
                "select bool_and(m.seen >= (select max(e.number) from agent.event e"
                " where e.thread_id = m.thread_id and e.type = 'text' and e.run_id is null))"
                " from agent.member m where m.principal = 'sarah'",
            ):
                d.check()
                await asyncio.sleep(0.2)
    end.set()
    assert await waits < LONGEST_WAIT
    assert await value(conn, DEADLOCKS) == 0
    texts = "select count(*) from agent.event where type = 'text' and run_id is null"
    assert await value(conn, texts) == count * MEMBERS
    gaps = "select count(*) from agent.thread t where last_number <> (select count(*)"
    gaps += " from agent.event e where e.thread_id = t.id)"
    assert await value(conn, gaps) == 0
    wrong = "select count(*) from agent.run where state not in ('succeeded', 'skipped', 'pending')"
    assert await value(conn, wrong) == 0
    most = "select max(n) from (select count(*) as n from agent.run group by ordering_key) r"
    assert await value(conn, most) <= MEMBERS


async def _buffers_of(conn: AsyncConnection, query: str, *parameters: object) -> int:
    """Return the pages that a statement touches, those of its functions included."""
    pages = list[int]()
    for _ in range(20):
        ((plan,),) = await rows(
            conn, f"explain (analyze, buffers, format json) {query}", *parameters
        )
        pages.append(plan[0]["Plan"]["Shared Hit Blocks"] + plan[0]["Plan"]["Shared Read Blocks"])
    return int(median(pages))


@pytest.mark.slow
async def test_an_event_costs_the_same_beside_a_hundred_thousand_threads(
    conn: AsyncConnection,
) -> None:
    """Posting it, and looking up whom it may wake: indexes have a level or two more."""
    await run_all(conn, MODEL + AGENT)
    await run_all(conn, "insert into agent.principal (tenant, name) values ('default', 'p1')")
    thread = await value(conn, "select agent.open_thread('mine', '{sarah,p1}')")
    place = f'[[0, "default", "{thread}", 1]]'
    post, look = "select agent.post(%s, 'hi')", "select * from agent_internal.agents_of_events(%s)"

    async def cost() -> tuple[int, int]:
        return await _buffers_of(conn, post, thread), await _buffers_of(conn, look, place)

    await run_all(conn, OTHERS.format(count=10))
    few = await cost()
    await run_all(conn, OTHERS.format(count=100_000))
    many = await cost()
    assert many[0] - few[0] < 40, (few, many)
    assert many[1] - few[1] < 20, (few, many)
