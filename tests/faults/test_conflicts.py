"""The application and our tools want the same rows: it wins, and what we do still happens once.

What it refuses, by a lock, a trigger or a constraint, is waited for or told to the model.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.errors import SerializationFailure

from tests.faults.rig.processes import LEASE
from tests.faults.rig.roles import roles
from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import Figure, Place, add_model, make_ready
from tests.faults.rig.waiting import fetch, until, until_true
from walagent.message import Json

pytestmark = pytest.mark.scenario(16)

WRITE = """
with new as (insert into item values (%s, 1) returning id, version)
insert into written (item, version) select * from new
"""
OF_ITEM = "from agent.run where (change -> 'new' ->> 'id')::bigint = %s"
RUN = f"select state::text, attempt, error ->> 'sqlstate' {OF_ITEM}"
ENDED = f"select exists (select {OF_ITEM} and agent_internal.is_final(state))"
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
    place: Place, attachments: Sequence[str], dsn: str = "", *, lease: float = LEASE
) -> AsyncIterator[Serving]:
    """The daemon in this process, with these attachments in effect."""
    for attach in attachments:
        await place.conn.execute(attach.encode())
    settings = {"workers": {"lease": lease}}
    async with serving(place, dsn or place.dsn, settings, replication_dsn=place.dsn) as daemon:
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
                where application_name = 'walagent tools' and wait_event = 'PgSleep')
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
        *([] if tool_closes else ["walagent tools"]),
        alive=daemon.is_alive,
    )
    started = time.monotonic()
    await app.execute("update stock set amount = amount - 10 where id = 2")
    waited = time.monotonic() - started
    await app.execute("commit")
    return waited


@pytest.mark.few(1)
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
        await r.do(
            "grant select, update on stock to {agent};"
            # Whose privilege counts; the owner here is a superuser.
            "alter function agent_internal.limit_lock_waits() owner to {runner};"
            "alter function agent_internal.limit_lock_waits() security definer;"
            # The daemon would refuse a function of ours that belongs to somebody else.
            "delete from agent_internal.code_object where object ~ 'limit_lock_waits'"
        )
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
select count(*) from agent.run where agent_internal.is_final(state)
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
    most = waits[len(waits) * 99 // 100]
    figure("their 99th percentile", most * 1000, "ms")
    assert most < 1.0
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
    [
        "select * from stock where id = 1 for update",
        pytest.param("lock table stock in access exclusive mode", marks=pytest.mark.slow),
    ],
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
        await until(place.conn, WAITS, "walagent tools", alive=daemon.is_alive)
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


PATIENT = 4.0  # seconds: a lease that a busy machine does not use up


@pytest.mark.slow
async def test_tools_that_take_long_leave_connections_for_leases(place: Place) -> None:
    """More of them than there are connections, each longer than a lease: nobody loses a run."""
    await make_ready(place, attach="")
    await place.conn.execute(STOCK)
    nothing = {"first": 0, "second": 0, "pause": 1.25 * PATIENT}  # no row, and so no lock
    await add_model(place, "take", calls(nothing))
    await add_model(place, "other", {"latency": 2 * PATIENT, "replies": ["Done."]})
    other = "select agent.attach('news', 'name=other, model=other')"
    async with at_work(place, [TAKE, other], lease=PATIENT) as daemon:
        await place.conn.execute("insert into item (id, version) select generate_series(1, 6), 1")
        await place.conn.execute("insert into news (id) select generate_series(1, 5)")
        # Another worker would look, too, whose lease has run out.
        ticking = f"select ({MEANWHILE}) = 11 from agent_internal.tick()"
        await until(place.conn, ticking, alive=daemon.is_alive)
    assert await fetch(place.conn, "select max(attempt) from agent.run") == [(1,)]


@pytest.mark.slow
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


JUDGED = """
select agent.attach('page', $$name=page, model=take, on=update, tools=[note_change],
    bind=[item=id, version=version], when="length(new.body) > 9 and new.version > 1"$$)
"""
LOCKING = """
select exists (select from pg_locks where not granted and relation = 'page'::regclass)
"""


@pytest.mark.slow
async def test_a_condition_that_needs_a_locked_row_waits_for_it(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """The WAL left a large value out; the stream waits with the reason, and loses nothing."""
    await make_ready(place, attach="")
    await place.conn.execute(
        "create table page (id bigint primary key, version int, body text);"
        "alter table page alter column body set storage external;"
        "insert into page values (1, 1, repeat('x', 10000))"
    )
    await add_model(place, "take", {"replies": [{"call": "note_change"}, "Done."]})

    async def waited() -> bool:
        return "ConflictError (55P03)" in caplog.text

    async with at_work(place, [JUDGED]) as daemon, application(place) as app:
        # In one transaction, so that the table is locked before the change can be evaluated.
        async with await AsyncConnection.connect(place.dsn) as locking:
            await app.execute("begin")
            await app.execute("update page set version = 2")
            waiting = asyncio.create_task(
                locking.execute("lock table page in access exclusive mode")
            )
            await until(place.conn, LOCKING)
            await app.execute("commit")
            await waiting

            await until_true(waited, "the reader says what it waits for")
        await until(
            place.conn,
            f"select exists ({EFFECTS} having count(*) = 1)",
            1,
            alive=daemon.is_alive,
        )
    assert await fetch(place.conn, "select state::text from agent.run") == [("succeeded",)]
    assert await fetch(place.conn, "select paused from agent.attachment") == [(False,)]


# Isolation.


@pytest.mark.slow
async def test_a_login_of_another_isolation_level_changes_no_tool(place: Place) -> None:
    """It waits, sees what the application has committed meanwhile, and is carried out once."""
    await make_ready(place, attach="")
    await place.conn.execute(STOCK)
    await add_model(place, "take", calls({"first": 1, "second": 2}))
    ((login,),) = await fetch(place.conn, "select agent_internal.tools_login()")
    async with roles(place) as r, application(place) as app:
        await r.do("grant select, update on stock to {agent}")
        for role in (r.runner, login):
            await place.conn.execute(
                f"alter role {role} set default_transaction_isolation = 'repeatable read';"
                # So that the tool is in the middle of its wait when the application commits.
                f"alter role {role} set deadlock_timeout = '20s'".encode()
            )
        attach = TAKE.replace("name=take", f"name=take, run_as={r.agent}")
        async with at_work(place, [attach], r.dsn(r.runner)) as daemon:
            await app.execute("begin")
            await app.execute("update stock set amount = amount - 10 where id = 1")
            await place.conn.execute(WRITE, [1])
            await until(place.conn, WAITS, "walagent tools", alive=daemon.is_alive)
            await app.execute("commit")
            await until(place.conn, ENDED, 1, alive=daemon.is_alive)
    assert await fetch(place.conn, RUN, 1) == [("succeeded", 1, None)]
    assert await fetch(place.conn, "select amount from stock where id = 1") == [(89,)]
    assert await fetch(place.conn, EFFECTS, 1) == [(1,)]


@pytest.mark.slow
@pytest.mark.parametrize("isolation", ["repeatable read", "serializable"])
async def test_a_database_of_another_isolation_level_works(
    place: Place, chance: random.Random, figure: Figure, isolation: str
) -> None:
    """The application runs at it, and tries again what it would anyway; we do not."""
    await make_ready(place, attach="")
    await place.conn.execute(STOCK)
    await place.conn.execute(
        "do $$ begin execute format('alter database %I set default_transaction_isolation"
        f" = ''{isolation}''', current_database()); end $$".encode()
    )
    await add_model(place, "take", calls({"first": 1, "second": 2}))
    async with at_work(place, [TAKE]) as daemon:
        shopping = asyncio.create_task(shop(place, chance, 100, isolation))
        await place.conn.execute("insert into item (id, version) select generate_series(1, 100), 1")
        await until(place.conn, f"select ({MEANWHILE}) >= 100", alive=daemon.is_alive, seconds=120)
        with suppress(SerializationFailure):
            figure(f"application's statements at {isolation}", len(await shopping))
    found = await fetch(place.conn, "select state::text, count(*) from agent.run group by 1")
    assert found == [("succeeded", 100)]
    assert await fetch(place.conn, "select count(*) from effect where tool = 'take'") == [(100,)]
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []


# What the application refuses.

SHELF = """
create table shelf (code text primary key);
insert into shelf values ('a'), ('b');
create table box (
    id      bigint primary key,
    label   text not null unique,
    shelf   text references shelf deferrable initially deferred,
    size    int check (size > 0),
    place   int4range,
    state   text not null default 'new',
    secret  text default 'hush-hush',
    exclude using gist (place with &&)
);
create function guard_box() returns trigger language plpgsql as $$
begin
    if new.label = 'banned' then
        raise exception 'this label is banned' using errcode = 'P0001', hint = 'take another';
    end if;
    if new.label = 'void' then
        new.label := null;
    end if;
    return new;
end $$;
create trigger guard_box before update on box for each row execute function guard_box();
create function guard_late() returns trigger language plpgsql as $$
begin
    if new.size = 13 then
        raise exception 'no thirteen' using errcode = '23514', detail = new::text;
    end if;
    return null;
end $$;
create constraint trigger guard_late after update on box deferrable initially deferred
    for each row execute function guard_late();
insert into box (id, label, place) values (1000, 'taken', '[1,5)');
create function carry(item bigint, label text) returns text language plpgsql as $$
begin
    insert into public.effect (tool, item, version) values ('carry', item, 1);
    begin
        update public.box set label = carry.label where id = item;
    exception when unique_violation then
        return 'the label was taken, so it has none';
    end;
    return 'labelled';
end $$;
create function stop_early(item bigint) returns text language plpgsql as $$
begin
    insert into public.effect (tool, item, version) values ('stop', item, 1);
    commit;
    return 'committed';
end $$;
"""
BOX = (
    "select agent.attach('box', 'name=box, model=box, tools=[carry, stop_early],"
    " writes=[label, shelf, size, place, state], columns=[label], bind=[item=id]')"
)
REFUSED = {
    "a trigger": ({"label": "banned"}, "P0001", "this label is banned"),
    "a unique label": ({"label": "taken"}, "23505", "box_label_key"),
    "not null": ({"label": "void"}, "23502", '"label"'),
    "a check": ({"size": 0}, "23514", "box_size_check"),
    "a foreign key, at the commit": ({"shelf": "z"}, "23503", "box_shelf_fkey"),
    "a trigger, at the commit": ({"size": 13}, "23514", "no thirteen"),
    "an exclusion": ({"place": "[2,3)"}, "23P01", "box_place_excl"),
    "a type": ({"place": "much"}, "22P02", "malformed range literal"),
}
STEPS = """
select content ->> 'is_error', content ->> 'sqlstate', content ->> 'content'
  from agent.step where kind = 'result' order by run_id, seq
"""


async def boxed(place: Place, first: dict[str, Json]) -> list[Any]:
    """Work one run that makes *first* as its first call, and then a good one; give its results."""
    await make_ready(place, attach="")
    await place.conn.execute(SHELF)
    good = {"call": "update_row", "arguments": {"state": "done", "size": 7, "shelf": "b"}}
    await add_model(place, "box", {"replies": [first, good, "Done."]})
    async with at_work(place, [BOX]) as daemon:
        await place.conn.execute("insert into box (id, label) values (1, 'mine')")
        await until(
            place.conn,
            "select exists (select from agent.run where agent_internal.is_final(state))",
            alive=daemon.is_alive,
        )
    assert await fetch(place.conn, "select state::text, attempt from agent.run") == [
        ("succeeded", 1)
    ]
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []
    row = "select label, size, shelf, state from box where id = 1"
    assert await fetch(place.conn, row) == [("mine", 7, "b", "done")]
    return await fetch(place.conn, STEPS)


@pytest.mark.few(3)
@pytest.mark.parametrize("case", REFUSED)
async def test_what_a_constraint_or_trigger_rejects_is_reported_and_taken_back(
    place: Place, case: str
) -> None:
    """With its SQLSTATE and sentence; what its detail quotes of the row is not for the model."""
    arguments, sqlstate, words = REFUSED[case]
    results = await boxed(place, {"call": "update_row", "arguments": arguments})
    (is_error, state, told), (good, *_) = results
    assert (is_error, state, good) == ("true", sqlstate, "false")
    assert words in told
    assert f"(SQLSTATE {sqlstate})" in told
    assert "hush" not in told
    assert "[1,5)" not in told


@pytest.mark.slow
async def test_a_tool_that_catches_an_error_keeps_the_rest_of_its_work(place: Place) -> None:
    """A subtransaction of its own is its own affair: what it answers is the answer."""
    results = await boxed(place, {"call": "carry", "arguments": {"label": "taken"}})
    assert results[0][0] == "false"
    assert "the label was taken" in results[0][2]
    assert await fetch(place.conn, "select tool from effect") == [("carry",)]


@pytest.mark.slow
async def test_a_tool_cannot_commit_before_its_step(place: Place) -> None:
    """Its effect would stand without the step, and be there twice after the next attempt."""
    results = await boxed(place, {"call": "stop_early"})
    assert results[0][:2] == ("true", "2D000")
    assert await fetch(place.conn, "select * from effect") == []
