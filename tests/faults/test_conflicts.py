"""The application and our tools want the same rows: it wins, and what we do still happens once.

What it refuses, by a lock, a trigger or a constraint, is waited for or told to the model.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.faults.rig.roles import roles
from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import Figure, Place, add_model, make_ready
from tests.faults.rig.waiting import fetch, until
from walagent.message import Json

pytestmark = pytest.mark.scenario(16)

WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
OF_ITEM = "from agent.run where (change -> 'new' ->> 'id')::bigint = %s"
RUN = f"select state::text, attempt, error ->> 'sqlstate' {OF_ITEM}"
ENDED = f"select exists (select {OF_ITEM} and agent.is_final(state))"
IN_EFFECT = """
select count(*) = %s from agent.attachment_version where active_from is not null
"""
EFFECTS = "select count(*) from effect where item = %s"

# `stock` is the application's, and the tools write there, too.
STOCK = """
create table stock (id int primary key, amount int not null default 100, note text);
insert into stock select generate_series(1, 20);
create table news (id bigint primary key, version int not null default 1);
create function take(item bigint, first int, second int, pause float default 0)
    returns text
    language plpgsql
as $$
begin
    update public.stock set amount = amount - 1 where id = first;
    perform pg_sleep(pause);
    update public.stock set amount = amount - 1 where id = second;
    insert into public.effect (tool, item, version) values ('take', item, 1);
    return 'taken';
end $$;
"""
TAKE = "select agent.attach('item', 'name=take, model=take, tools=[take], bind=[item=id]')"


def calls(*arguments: dict[str, Json], tool: str = "take") -> dict[str, Json]:
    """A model's script: one call a reply, then the end."""
    return {"replies": [*({"call": tool, "arguments": given} for given in arguments), "Done."]}


@asynccontextmanager
async def at_work(
    place: Place, attachments: Sequence[str], dsn: str = ""
) -> AsyncIterator[Serving]:
    """The daemon in this process, with these attachments in effect."""
    for attach in attachments:
        await place.conn.execute(attach.encode())
    async with serving(place, dsn or place.dsn, replication_dsn=place.dsn) as daemon:
        await until(place.conn, IN_EFFECT, len(attachments), alive=daemon.is_alive)
        yield daemon


@asynccontextmanager
async def application(place: Place) -> AsyncIterator[AsyncConnection[Any]]:
    """A session of the application."""
    async with await AsyncConnection.connect(
        place.dsn, autocommit=True, application_name="shop"
    ) as conn:
        yield conn


# Deadlocks.

WAITS = """
select exists (select from pg_locks l join pg_stat_activity a using (pid)
                where not l.granted and a.application_name = %s)
"""
HOLDS_ONE = """
select exists (select from pg_stat_activity
                where application_name = 'walagent worker' and wait_event = 'PgSleep')
"""


async def stock_of_two_sessions(
    place: Place, app: AsyncConnection[Any], daemon: Serving, *, tool_closes: bool
) -> float:
    """Let application and tool each hold what the other wants; return how long the former waited.

    Raises what the application's statement raises: it must be nothing.
    """
    await app.execute("begin")
    await app.execute("update stock set amount = amount - 10 where id = 1")
    await place.conn.execute(WRITE, [1])
    # The tool takes 2, sleeps, and wants 1.
    await until(
        place.conn,
        HOLDS_ONE if tool_closes else WAITS,
        *([] if tool_closes else ["walagent worker"]),
        alive=daemon.is_alive,
    )
    started = time.monotonic()
    await app.execute("update stock set amount = amount - 10 where id = 2")
    waited = time.monotonic() - started
    await app.execute("commit")
    return waited


@pytest.mark.parametrize("tool_closes", [False, True], ids=["the application", "the tool"])
@pytest.mark.parametrize("privileged", [False, True])
async def test_in_a_circle_of_locks_the_application_wins(
    place: Place, figure: Figure, *, tool_closes: bool, privileged: bool
) -> None:
    """Whoever closes it: ours ends before the server looks for a victim, and is done again."""
    pause = 0.0 if not tool_closes else 0.8 if privileged else 0.3
    await make_ready(place, attach="")
    await place.conn.execute(STOCK)
    await add_model(place, "take", calls({"first": 2, "second": 1, "pause": pause}))
    async with roles(place) as r, application(place) as app:
        await r.do("grant select, update on stock to {agent}")
        if privileged:
            await r.do("grant set on parameter deadlock_timeout to {runner}")
        attach = TAKE.replace("name=take", f"name=take, run_as={r.agent}")
        async with at_work(place, [attach], r.dsn(r.runner)) as daemon:
            waited = await stock_of_two_sessions(place, app, daemon, tool_closes=tool_closes)
            await until(place.conn, ENDED, 1, alive=daemon.is_alive)
        figure("application's wait in a circle of locks", waited * 1000, "ms")
        assert waited < 1.0
    assert await fetch(place.conn, RUN, 1) == [("succeeded", 1, None)]
    assert await fetch(place.conn, EFFECTS, 1) == [(1,)]
    assert await fetch(
        place.conn, "select id, amount from stock where amount < 100 order by 1"
    ) == [
        (1, 89),
        (2, 89),
    ]


# Under load.

MEANWHILE = """
select count(*) from agent.run where agent.is_final(state)
"""


async def shop(
    place: Place, chance: random.Random, until_ended: int, isolation: str = "read committed"
) -> list[float]:
    """Change two rows a transaction, in any order, until so many runs have ended.

    Raises what PostgreSQL raises; gives the seconds that each statement took.
    """
    waits: list[float] = []
    async with application(place) as app:
        await app.execute(f"set default_transaction_isolation = '{isolation}'".encode())
        while (await fetch(app, MEANWHILE))[0][0] < until_ended:
            first, second = chance.sample(range(1, 5), 2)
            async with app.transaction():
                for row in (first, second):
                    started = time.monotonic()
                    await app.execute("update stock set amount = amount + 1 where id = %s", [row])
                    waits.append(time.monotonic() - started)
    return waits


@pytest.mark.parametrize("runs", [60, pytest.param(1500, marks=pytest.mark.slow)])
async def test_an_application_on_the_same_hot_rows_never_fails_for_us(
    place: Place, chance: random.Random, figure: Figure, runs: int
) -> None:
    """Tools take four rows in any order, and so does the application, all the time."""
    await make_ready(place, attach="")
    await place.conn.execute(STOCK)
    rules = [
        {
            "match": f'"id":{item},',
            "replies": [
                {"call": "take", "arguments": dict(zip(("first", "second"), pair, strict=True))},
                "Done.",
            ],
        }
        for item in range(1, runs + 1)
        for pair in [chance.sample(range(1, 5), 2)]
    ]
    await add_model(place, "take", {"rules": rules, "replies": ["Done."]})
    async with at_work(place, [TAKE]) as daemon:
        shopping = asyncio.create_task(shop(place, chance, runs))
        await place.conn.execute(
            "insert into item (id, version) select generate_series(1, %s), 1", [runs]
        )
        await until(
            place.conn, f"select ({MEANWHILE}) >= %s", runs, alive=daemon.is_alive, seconds=300
        )
        waits = sorted(await shopping)
    figure("application's statements beside tools", len(waits))
    figure("their longest wait for a lock", waits[-1] * 1000, "ms")
    figure("their 99th percentile", waits[len(waits) * 99 // 100] * 1000, "ms")
    assert waits[-1] < 1.0
    found = await fetch(place.conn, "select state::text, count(*) from agent.run group by 1")
    assert found == [("succeeded", runs)]
    assert await fetch(
        place.conn, "select count(*), count(distinct item) from effect where tool = 'take'"
    ) == [(runs, runs)]
    ((left,),) = await fetch(place.conn, "select sum(amount) from stock where id < 5")
    assert left == 400 + len(waits) - 2 * runs


# Locks that are held for long.

LOCKED = "select exists (select from agent.run where state = 'waiting_retry')"


@pytest.mark.parametrize(
    "lock",
    ["select * from stock where id = 1 for update", "lock table stock in access exclusive mode"],
)
async def test_a_lock_that_is_held_for_long_costs_a_run_nothing_but_time(
    place: Place, figure: Figure, lock: str
) -> None:
    """It waits without slot or attempt, with the SQLSTATE; other agents do not wait with it."""
    await make_ready(place, attach="")
    await place.conn.execute(STOCK)
    await add_model(place, "take", calls({"first": 1, "second": 2}))
    await add_model(place, "other", {"replies": [{"call": "note_change"}, "Done."]})
    other = (
        "select agent.attach('news', 'name=other, model=other, tools=[note_change],"
        " bind=[item=id, version=version]')"
    )
    async with at_work(place, [TAKE, other]) as daemon, application(place) as app:
        await app.execute("begin")
        await app.execute(lock.encode())
        await place.conn.execute("insert into item (id, version) select generate_series(1, 20), 1")
        await until(place.conn, WAITS, "walagent worker", alive=daemon.is_alive)
        started = time.monotonic()
        await place.conn.execute("insert into news (id) values (1000)")
        await until(place.conn, f"select exists ({EFFECTS} having count(*) = 1)", 1000)
        figure("a run beside twenty that wait for a lock", time.monotonic() - started, "s")
        await until(place.conn, LOCKED, alive=daemon.is_alive)
        query = "select attempt, error ->> 'sqlstate' from agent.run where state = 'waiting_retry'"
        assert {*(await fetch(place.conn, query))} == {(0, "55P03")}
        await app.execute("commit")
        await until(place.conn, f"select ({MEANWHILE}) = 21", alive=daemon.is_alive)
    found = await fetch(
        place.conn, "select state::text, attempt, count(*) from agent.run group by 1, 2"
    )
    assert found == [("succeeded", 1, 21)]
    assert await fetch(place.conn, "select count(*) from effect where tool = 'take'") == [(20,)]


async def test_an_alter_table_does_not_queue_behind_us(
    place: Place, chance: random.Random, figure: Figure
) -> None:
    """Tools are short transactions, and models hold none: it gets its lock between two of them."""
    await make_ready(place, attach="")
    await place.conn.execute(STOCK)
    await add_model(place, "take", {"latency": 0.05, **calls({"first": 1, "second": 2})})
    waits: list[float] = []
    async with at_work(place, [TAKE]) as daemon, application(place) as app:
        await place.conn.execute("insert into item (id, version) select generate_series(1, 60), 1")
        await until(place.conn, f"select ({MEANWHILE}) > 0", alive=daemon.is_alive)
        for number in range(10):
            started = time.monotonic()
            await app.execute(f"alter table stock add column extra_{number} int".encode())
            waits.append(time.monotonic() - started)
        await until(place.conn, f"select ({MEANWHILE}) = 60", alive=daemon.is_alive)
    figure("longest wait of an ALTER TABLE", max(waits) * 1000, "ms")
    assert max(waits) < 1.0
    assert await fetch(place.conn, "select count(*) from effect where tool = 'take'") == [(60,)]
