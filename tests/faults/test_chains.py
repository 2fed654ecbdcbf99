"""Agents write, and agents hear of it: never of themselves, and not for ever.

The tables have triggers, other sessions write in between, somebody forges tags, and processes die.
"""

import random
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import psycopg
import pytest
from psycopg import AsyncConnection
from psycopg.conninfo import make_conninfo

from tests.faults.rig.commands import types
from tests.faults.rig.processes import Daemon, pause, running
from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import TOOLS, Place, add_model
from tests.faults.rig.waiting import fetch, until
from walagent.base import faults
from walagent.config import Replication
from walagent.message import Json
from walagent.replication.bootstrap import ensure_slot
from walagent.store.tools import register_python_tools
from walagent.tools.python import find_tools

pytestmark = pytest.mark.scenario(17)

# What is written to `a` is copied to `mirror`, and comes back into `a`, as triggers do.
TABLES = """
create table a (
    id bigint primary key generated always as identity,
    version int default 1, note text, seen int default 0
);
create table b (id bigint primary key generated always as identity, note text);
create table c (id bigint primary key generated always as identity, note text);
create table mirror (id bigint primary key generated always as identity, note text);
create table probe (id bigint primary key generated always as identity);
create table effect (tool text, item bigint, version int);
create function touch_a() returns trigger language plpgsql as $$
begin
    insert into mirror (note) values (new.note);
    if new.note = 'agent' then
        insert into a (note) values ('trigger');
        update a set seen = seen + 1;
    end if;
    return null;
end $$;
create trigger touch_a after insert on a for each row execute function touch_a();
create function to_a() returns void language sql as $$ insert into a (note) values ('agent') $$;
create function to_b() returns void language sql as $$ insert into b (note) values ('agent') $$;
create function to_c() returns void language sql as $$ insert into c (note) values ('agent') $$;
create function to_all() returns void language sql as $$
    insert into b (note) values ('agent'); insert into c (note) values ('agent');
$$;
"""
IN_EFFECT = "select count(*) = %s from agent.attachment_version where active_from is not null"
PROBED = "select count(*) = %s from agent.run_overview where attachment = 'probe'"
RUNS = """
select attachment, key, cause_run, depth, state::text
  from agent.run_overview where attachment <> 'probe' order by id
"""
ENDED = """
select count(*) >= %s and bool_and(agent_internal.is_final(state)) from agent.run_overview
 where attachment <> 'probe'
"""


async def set_scene(place: Place, models: Mapping[str, Sequence[str]]) -> None:
    """Make tables, tools, a slot, and for each agent the model that makes these calls."""
    await place.conn.execute(TABLES)
    await register_python_tools(place.conn, find_tools([TOOLS]).values())
    for name, calls in models.items():
        given = {"update_row": {"seen": 7}}
        replies = [{"call": call, "arguments": given.get(call, {})} for call in calls]
        script: dict[str, Json] = {"replies": [*replies, "Done."]}
        await add_model(place, name, script)
    await ensure_slot(place.conn, place.dsn, Replication(slot=place.slot))


async def attach_all(place: Place, attachments: Mapping[str, str]) -> None:
    """Attach by table; and one that only tells how far the WAL is ingested."""
    for table, spec in attachments.items():
        await place.conn.execute("select agent.attach(%s, %s)", [table, spec])
    model = next(iter(attachments))
    await place.conn.execute("select agent.attach('probe', %s)", [f"name=probe, model={model}"])
    await place.conn.execute("select agent.pause('probe')")


@asynccontextmanager
async def agents(place: Place, attachments: Mapping[str, str]) -> AsyncIterator[Serving]:
    """The daemon in this process, with these attachments in effect."""
    await attach_all(place, attachments)
    async with serving(place, place.dsn) as daemon:
        await until(place.conn, IN_EFFECT, len(attachments) + 1, alive=daemon.is_alive)
        yield daemon


async def all_is_heard(place: Place, runs: int, alive: Callable[[], None]) -> None:
    """Wait until these runs have ended, and everything that they wrote has been ingested."""
    await until(place.conn, ENDED, runs, alive=alive)
    await place.conn.execute("insert into probe default values")
    ((probes,),) = await fetch(place.conn, "select count(*) from probe")
    await until(place.conn, PROBED, probes, alive=alive)


async def said(place: Place, *words: str) -> str:
    """What a command says."""
    return (await types(place, *words)).worked().out


# Itself.

SELF = (
    "name=a, model=a, on=[insert, update], tools=[to_a, note_in_python], writes=[seen],"
    " bind=[item=id, version=version], max_depth=100"
)
HEARD = """
select r.change -> 'new' ->> 'note', r.change ->> 'op', r.cause_run, r.depth, r.state::text
  from agent.run r join agent.attachment a on a.id = r.attachment_id
 where a.name = 'a' order by 1
"""


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("point", ["tool.started", "tool.done", "tool.recorded", "tool.committed"])
async def test_an_agent_never_hears_of_itself(place: Place, point: str) -> None:
    """Written by its tools, or by the table's triggers; others' rows in between are heard of."""
    await set_scene(place, {"a": ("to_a", "note_in_python", "update_row")})

    def interleave() -> None:
        """Another session commits, in the middle of a tool's transaction where that is open."""
        with psycopg.connect(place.dsn) as conn:
            conn.execute("insert into a (note) values ('between')")

    async with agents(place, {"a": SELF}) as daemon:
        with faults.armed(point, mode=interleave):
            async with await AsyncConnection.connect(place.dsn) as early:
                # Begins before the agent's transactions, and commits after them.
                await early.execute("insert into a (note) values ('early')")
                await place.conn.execute("insert into a (note) values ('user')")
                await until(place.conn, ENDED, 2, alive=daemon.is_alive)
        await all_is_heard(place, 3, daemon.is_alive)
    assert await fetch(place.conn, HEARD) == [
        (note, "insert", None, 0, "succeeded") for note in ("between", "early", "user")
    ]
    # They did write, each of them: a row of the agent, a row of the trigger, updates of all rows.
    written = "select note, count(*) from a group by 1 order by 1"
    assert {*await fetch(place.conn, written)} >= {("agent", 3), ("trigger", 3)}


# One another.


async def test_an_agent_hears_of_another_through_a_trigger_and_knows_of_whom(place: Place) -> None:
    """What the application's trigger writes for an agent is the agent's write; and it is told."""
    await set_scene(place, {"c": ("to_a",), "mirror": ()})
    specs = {"c": "name=c, model=c, tools=[to_a]", "mirror": "name=mirror, model=mirror"}
    async with agents(place, specs) as daemon:
        await place.conn.execute("insert into c (note) values ('user')")
        await all_is_heard(place, 3, daemon.is_alive)
    assert await fetch(place.conn, RUNS) == [
        ("c", "1", None, 0, "succeeded"),
        ("mirror", "1", 1, 1, "succeeded"),
        ("mirror", "2", 1, 1, "succeeded"),
    ]
    assert "cause run: 1\n  depth: 1\n" in await said(place, "show", "2")
    assert "written by run 1 (depth 1)" in await said(place, "why", "mirror", "2")


@pytest.mark.slow
async def test_agents_that_answer_each_other_end_at_the_limit_and_say_why(place: Place) -> None:
    """Each is skipped where its own limit is reached, with the reason; nothing else is lost."""
    await set_scene(place, {"b": ("to_c",), "c": ("to_b",)})
    specs = {
        "b": "name=b, model=b, tools=[to_c], max_depth=4",
        "c": "name=c, model=c, tools=[to_b], max_depth=3",
    }
    async with agents(place, specs) as daemon:
        await place.conn.execute("insert into b (note) values ('user')")
        await all_is_heard(place, 6, daemon.is_alive)
    found = await fetch(place.conn, RUNS)
    assert [(name, cause, depth) for name, _, cause, depth, _ in found] == [
        ("bc"[n % 2], n or None, n) for n in range(6)
    ]
    assert [state for *_, state in found] == ["succeeded"] * 5 + ["skipped"]
    reason = "depth 5 of the chain of runs exceeds max_depth 3 of c"
    assert reason in await said(place, "why", "c", found[-1][1])
    assert await fetch(place.conn, "select count(*) from c") == [(3,)]


async def test_one_write_may_be_heard_by_several(place: Place) -> None:
    """Each has a run of its own, and they have the same cause."""
    await set_scene(place, {"a": ("to_all",), "b": (), "c": ()})
    specs = {
        "a": "name=a, model=a, tools=[to_all]",
        "b": "name=b, model=b",
        "c": "name=c, model=c",
    }
    async with agents(place, specs) as daemon:
        await place.conn.execute("insert into a (note) values ('user'), ('user')")
        await all_is_heard(place, 6, daemon.is_alive)
    found = await fetch(place.conn, RUNS)
    assert Counter((name, cause, depth) for name, _, cause, depth, _ in found) == {
        ("a", None, 0): 2,
        **{(name, cause, 1): 1 for name in "bc" for cause in (1, 2)},
    }


# Forgeries.

FORGER = """
create role {0} login;
grant insert on a to {0};
grant insert on mirror to {0};
"""
TAGS = """
select encode(data, 'escape') from pg_logical_slot_peek_binary_changes(
    %s, null, null, 'proto_version', '1', 'publication_names', 'walagent', 'messages', 'on')
 where get_byte(data, 0) = ascii('M')
"""


async def test_a_tag_proves_nothing_in_the_hands_of_anybody_else(place: Place) -> None:
    """An ordinary login writes one of its own, or a genuine one that it has seen: it is heard."""
    await set_scene(place, {"a": ("to_a",)})
    seen = f"{place.slot}_spy"
    forger = f"{place.slot}_forger"
    await place.conn.execute("select pg_create_logical_replication_slot(%s, 'pgoutput')", [seen])
    await place.conn.execute(FORGER.format(forger).encode())
    try:
        async with agents(place, {"a": "name=a, model=a, tools=[to_a]"}) as daemon:
            await place.conn.execute("insert into a (note) values ('user')")
            await all_is_heard(place, 1, daemon.is_alive)
            told = " ".join(text for (text,) in await fetch(place.conn, TAGS, seen))
            (genuine, *_) = re.findall(r"[0-9]+ [0-9]+ [0-9]+ [0-9a-f]{64}", told)
            run, attachment, depth, _signature = genuine.split(" ")
            assert (run, depth) == ("1", "0")
            tags = [genuine, f"{run} {attachment} {depth} {'0' * 64}", f"1 {attachment} 99"]
            login = make_conninfo(place.dsn, user=forger)
            async with await AsyncConnection.connect(login, autocommit=True) as conn:
                for tag in tags:
                    async with conn.transaction():
                        await conn.execute(
                            "select pg_logical_emit_message(true, 'walagent', %s)", [tag]
                        )
                        await conn.execute("insert into a (note) values ('forged')")
            await all_is_heard(place, 4, daemon.is_alive)
        assert await fetch(place.conn, HEARD) == [
            *[("forged", "insert", None, 0, "succeeded")] * 3,
            ("user", "insert", None, 0, "succeeded"),
        ]
    finally:
        await place.conn.execute("select pg_drop_replication_slot(%s)", [seen])
        await place.conn.execute(f"drop owned by {forger}; drop role {forger}".encode())


# And through everything else.


@pytest.mark.slow
async def test_a_chain_stays_whole_when_processes_die(place: Place, chance: random.Random) -> None:
    """Each link once, each with its own cause and depth, wherever it was torn."""
    await set_scene(place, {"a": ("to_all",), "b": ("to_c",), "c": ()})
    specs = {
        "a": "name=a, model=a, tools=[to_all], max_attempts=50",
        "b": "name=b, model=b, tools=[to_c], max_attempts=50",
        "c": "name=c, model=c, max_attempts=50",
    }
    users = 40
    await attach_all(place, specs)
    with running(Daemon(place)) as daemon:
        await until(place.conn, IN_EFFECT, len(specs) + 1, alive=daemon.is_alive)
    for number in range(users):
        await place.conn.execute("insert into a (note) values (%s)", [f"user {number}"])
    for done in sorted(chance.sample(range(4 * users), 8)):
        with running(Daemon(place)) as daemon:
            await until(place.conn, f"select ({COUNT}) >= %s", done, alive=daemon.is_alive)
            await pause(chance.uniform(0, 0.1))
    with running(Daemon(place)) as daemon:
        await all_is_heard(place, 4 * users, daemon.is_alive)
    found = await fetch(place.conn, LINKS)
    assert Counter((name, of, depth) for name, of, depth, _ in found) == {
        ("a", None, 0): users,
        ("b", "a", 1): users,
        ("c", "a", 1): users,
        ("c", "b", 2): users,
    }
    causes = Counter((name, cause) for name, *_, cause in found if cause is not None)
    assert set(causes.values()) == {1}
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []


COUNT = "select count(*) from agent.run where agent_internal.is_final(state)"
LINKS = """
select r.attachment, p.attachment, r.depth, r.cause_run
  from agent.run_overview r left join agent.run_overview p on p.id = r.cause_run
 where r.attachment <> 'probe'
"""
