"""People decide about the call of a turn, all at once, while its worker is killed."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import pytest
from psycopg import AsyncConnection, Error

from tests.faults.rig.processes import pause, running
from tests.faults.rig.stage import CLOCK, Figure, Place
from tests.faults.rig.turns import EXPIRE, Show, answering, fetch_none, make_show
from tests.faults.rig.waiting import fetch, until, until_true
from tests.helpers.mailbox import mailbox
from tests.helpers.web import web
from walagent.testing import FakeProvider

pytestmark = pytest.mark.scenario(14)
DONE = ""
# What each tries, and the answers that it can get.
TRIES = {
    "approve": ("select agent.approve({p})", {DONE, "WA005"}),
    "reject": ("select agent.reject({p}, 'no')", {DONE, "WA005"}),
    "edit": ('select agent.approve({p}, \'{{"text": "edited {a}"}}\')', {DONE, "WA005"}),
    "cancel": ("select agent.cancel({r})", {DONE, "WA003"}),
    "leave": ("select agent.remove_member('{t}', 'host')", {DONE}),
    "expire": (
        "update clock set shift = shift + interval '8 days'; select agent_internal.tick()",
        {DONE},
    ),
}
PEOPLE = ["approve"] * 8 + ["reject"] * 6 + ["edit"] * 6
ALSO = ("", "cancel", "leave", "expire")  # in rounds in turn, beside what people decide
DECISIONS = {"approve": "approved", "reject": "rejected", "edit": "approved"}
ASKED = """
select p.id, r.id from agent.approval p join agent.run r on r.id = p.run_id
 where r.ordering_key = %s and p.state = 'pending'
"""
IS_ASKED = f"select exists ({ASKED})"
OVER = """
select bool_and(agent_internal.is_final(state)) from agent.run
 where ordering_key in (%(t)s, 'summary ' || %(t)s)
"""
ENDED = """
select r.state::text, p.state, p.edited is not null,
       array(select l.text from ledger l where l.text in ('pay ' || %(a)s, 'edited ' || %(a)s)),
       (select count(*) from agent.step s where s.run_id = r.id and s.kind = 'decision'),
       (select count(*) from agent.event e
         where e.run_id = r.id and e.type = 'tool_use' and e.data ->> 'name' = 'pay'),
       (select count(*) from agent.event e where e.run_id = r.id and e.type = 'text'),
       (select count(*) from agent.approval a where a.run_id = r.id)
  from agent.run r join agent.approval p on p.run_id = r.id
 where r.id = %(r)s
"""


@pytest.fixture
async def show(place: Place) -> AsyncIterator[Show]:
    """The thread of `test_turns`, whose clock can be put forward."""
    async with FakeProvider([answering] * 4) as provider, web() as hook, mailbox() as box:
        provider.key = "fake-key"
        made = await make_show(place, provider, hook, box)
        await fetch_none(place.conn, CLOCK)
        yield made


async def tried(session: AsyncConnection, statement: str) -> str:
    """Execute statements of a person; return the SQLSTATE of a refusal."""
    try:
        await fetch_none(session, statement)
    except Error as error:
        return str(error.sqlstate)
    return DONE


def check(seen: list[tuple[str, str]], ended: Sequence[Any], act: str) -> None:
    """See that one decision counts, and that the call was made once or not at all."""
    for kind, answer in seen:
        assert answer in TRIES[kind][1], (kind, answer)
    state, decided, edited, entered, decisions, posted, said, asked = ended
    winners = [kind for kind, answer in seen if kind in DECISIONS and answer == DONE]
    if decided in {"approved", "rejected"}:
        assert [DECISIONS[kind] for kind in winners] == [decided], (winners, decided)
        assert edited == (winners == ["edit"])
    else:
        assert winners == [], decided
        assert decided in {"cancelled", "expired"}
    assert (asked, decisions) == (1, decided != "cancelled")
    expected = [f"{'edited' if edited else 'pay'} {act}"]
    if state == "succeeded":
        assert entered == (expected if decided == "approved" else [])
        assert (posted, said) == (1, 1)
    else:
        assert state == "cancelled", state
        assert {"cancel", "leave"} & {kind for kind, answer in seen if answer == DONE}
        assert entered in ([], expected) if decided == "approved" else entered == []
        assert posted == len(entered) or decided != "approved"
        assert said == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    "rounds", [4, pytest.param(40, marks=pytest.mark.slow)], ids=["short", "long"]
)
async def test_one_decision_counts_while_the_worker_is_killed(
    show: Show, chance: random.Random, figure: Figure, rounds: int
) -> None:
    """Approved, edited, rejected, cancelled, expired, or the agent is removed: one of them."""
    conn, decided = show.conn, Counter[str]()
    async with AsyncExitStack() as stack:
        crowd = [
            await stack.enter_async_context(
                await AsyncConnection.connect(show.place.dsn, autocommit=True)
            )
            for _ in range(len(PEOPLE) + 1)
        ]
        for number in range(rounds):
            act, thread = f"third{number}", await show.open(f"Show {number}")
            with running(show.daemon()) as daemon:
                await show.say(thread, act)
                await until(conn, IS_ASKED, thread, alive=daemon.is_alive)
                ((approval, run),) = await fetch(conn, ASKED, thread)
                kinds = chance.sample(PEOPLE, len(PEOPLE))
                if also := ALSO[number % len(ALSO)]:
                    kinds.insert(chance.randrange(len(kinds)), also)
                given = {"p": approval, "r": run, "t": thread, "a": act}
                trying = [
                    asyncio.create_task(tried(each, TRIES[kind][0].format(**given)))
                    for each, kind in zip(crowd, kinds, strict=False)
                ]
                await pause(chance.uniform(0, 0.3))
                daemon.kill()
                answers = await asyncio.gather(*trying)
            await fetch_none(conn, EXPIRE)
            with running(show.daemon()) as daemon:
                given = {"t": thread}

                async def is_over(given: dict[str, str] = given) -> bool:
                    row = await (await conn.execute(OVER.encode(), given)).fetchone()
                    return bool(row and row[0])

                await until_true(is_over, f"{act} is over")
                daemon.is_alive()
            cursor = await conn.execute(ENDED.encode(), {"r": run, "a": act})
            (ended,) = await cursor.fetchall()
            check(list(zip(kinds, answers, strict=True)), ended, act)
            decided[f"{ended[1]}, then {ended[0]}"] += 1
    assert await fetch(conn, "select * from agent.broken_invariant") == []
    for outcome, count in sorted(decided.items()):
        figure(f"turns {outcome}", count)
