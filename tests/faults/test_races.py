"""Fifty sessions at once on one run: a decision is made once, and has at most one effect.

All wait at one gate, an advisory lock, with what they will do in the same message; nothing of ours
lies between the gate's opening and their statements.
"""

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from psycopg import AsyncConnection, Error
from psycopg.conninfo import make_conninfo

from tests.faults.rig.serving import Serving, serving
from tests.faults.rig.stage import CLOCK, Figure, Place, make_ready, script_of
from tests.faults.rig.waiting import fetch, until
from tests.helpers.database import role

pytestmark = pytest.mark.scenario(14)

SESSIONS = 50
GATE = 4711
AT_THE_GATE = """
select count(*) = %s from pg_locks l join pg_database d on d.oid = l.database
 where d.datname = current_database() and l.locktype = 'advisory' and not l.granted
"""
DONE = "done"  # the answer of whoever was first; the others get one of these
NOT_NOW, NOT_PENDING, NOT_YOURS, NO_RIGHT = "WA003", "WA005", "WA006", "42501"

ATTACH = """
select agent.attach('item', 'model=script, tools=[tell], approve=[tell], bind=[item=id],
    max_attempts=50, run_as={bot}');
"""
SCENE = """
create function tell(item bigint, words text) returns text language sql as $$
    insert into public.effect (tool, item, version) values (words, item, 1);
    select 'told'
$$;
grant insert on effect to {bot};
grant select on item to {bot};
"""
SCRIPT = {"replies": [{"call": "tell", "arguments": {"words": "hello"}}, "Told."]}
WRITE = "insert into item values (%s, 1)"

# Every change of state, by whomever it is made.
TRANSITIONS = """
create table transition (
    what text, id bigint, old text, new text, at timestamptz default clock_timestamp()
);
create function note_transition() returns trigger language plpgsql security definer as $$
begin
    insert into public.transition (what, id, old, new)
    values (tg_table_name, new.id, old.state, new.state);
    return null;
end $$;
create trigger note_transition after update of state on agent.run
    for each row when (old.state <> new.state) execute function note_transition();
create trigger note_transition after update of state on agent.approval
    for each row when (old.state <> new.state) execute function note_transition();
"""


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who is connected."""

    conn: AsyncConnection[Any]
    user: str

    async def rush(self, statement: str) -> str:
        """Pass the gate and do it, in one message and so in one transaction; give the answer."""
        gate = f"select pg_advisory_xact_lock_shared({GATE})"
        try:
            await self.conn.execute(f"{gate}; {statement}".encode())
        except Error as error:
            return error.sqlstate or str(error)
        return DONE


async def rush(place: Place, doing: Sequence[tuple[Session, str]]) -> list[str]:
    """Let everybody do their statement at the same moment; give the answer of each."""
    await place.conn.execute("select pg_advisory_lock(%s)", [GATE])
    tasks = [asyncio.create_task(session.rush(words)) for session, words in doing]
    await until(place.conn, AT_THE_GATE, len(doing))
    await place.conn.execute("select pg_advisory_unlock(%s)", [GATE])
    return await asyncio.gather(*tasks)


@asynccontextmanager
async def sessions(place: Place, users: Mapping[str, int]) -> AsyncIterator[list[Session]]:
    """So many connections of each user."""
    async with AsyncExitStack() as stack:
        made: list[Session] = []
        for user, count in users.items():
            dsn = make_conninfo(place.dsn, user=user)
            for _ in range(count):
                conn = await AsyncConnection.connect(dsn, autocommit=True)
                made.append(Session(await stack.enter_async_context(conn), user))
        yield made


@dataclass(frozen=True, slots=True)
class Desk:
    """A bot that must ask before it acts, and people who decide."""

    place: Place
    bot: str
    people: tuple[str, ...]

    async def asked(self, item: int, daemon: Serving | None = None) -> tuple[int, int]:
        """Write a row and wait until its run has asked; give run and approval."""
        await self.place.conn.execute(WRITE, [item])
        found = """
            select r.id, p.id from agent.run r join agent.approval p on p.run_id = r.id
             where r.key = %s and r.state = 'waiting_approval' and p.state = 'pending'"""
        alive = daemon.is_alive if daemon else lambda: None
        await until(self.place.conn, f"select exists ({found})", str(item), alive=alive)
        ((run, approval),) = await fetch(self.place.conn, found, str(item))
        return run, approval


@pytest.fixture
async def desk(place: Place) -> AsyncIterator[Desk]:
    """The scene, with every change of state noted."""
    async with AsyncExitStack() as stack:
        bot, *people = [await stack.enter_async_context(role(place.conn)) for _ in range(4)]
        await make_ready(place, attach="")
        script_of(place, "script").write_text(json.dumps(SCRIPT))
        await place.conn.execute((SCENE.format(bot=bot) + TRANSITIONS).encode())
        await place.conn.execute(ATTACH.format(bot=bot).encode())
        for name in (bot, *people):
            await place.conn.execute("select agent.grant_approver(%s)", [name])
        yield Desk(place, bot, tuple(people))


# What each session may try, and what it may be told.

TRIES = {
    "approve": ("select agent.approve({p})", {DONE, NOT_PENDING}),
    "approve by hand": (
        "update agent.approval set state = 'approved' where id = {p}",
        {DONE, NOT_PENDING},
    ),
    "reject": ("select agent.reject({p}, 'no')", {DONE, NOT_PENDING}),
    "cancel": ("select agent.cancel({r})", {DONE, NOT_NOW}),
    "approve its own": ("select agent.approve({p})", {NOT_YOURS, NOT_PENDING}),
    "change": (
        """update agent.approval set arguments = '{{"words": "x"}}', state = 'approved'
            where id = {p}""",
        {NO_RIGHT},
    ),
    "change as owner": (
        """update agent.approval set arguments = '{{"words": "x"}}', state = 'approved'
            where id = {p}""",
        {NOT_PENDING},
    ),
    "tick": ("select agent_internal.tick()", {DONE}),
    "let time pass": (
        "update clock set shift = shift + interval '8 days'; select agent_internal.tick()",
        {DONE},
    ),
}
CROWD = {
    "people": ["approve"] * 12
    + ["approve by hand"] * 6
    + ["reject"] * 10
    + ["cancel"] * 4
    + ["change"] * 4,
    "bot": ["approve its own"] * 6,
    "owner": ["change as owner"] * 4 + ["tick"] * 4,
}
assert sum(map(len, CROWD.values())) == SESSIONS
DECISIONS = {"approve": "approved", "approve by hand": "approved", "reject": "rejected"}

RUN = """
select r.state::text, p.state, p.decided_by::text, p.digest,
       (select count(*) from agent.approval a where a.run_id = r.id),
       (select count(*) from public.effect e where e.item::text = r.key),
       (select count(*) from agent.step s where s.run_id = r.id and s.kind = 'result'
                                            and s.content ->> 'is_error' = 'false'),
       array(select s.content from agent.step s where s.run_id = r.id and s.kind = 'decision'),
       array(select s.content ->> 'content' from agent.step s
              where s.run_id = r.id and s.kind = 'result')
  from agent.run r join agent.approval p on p.run_id = r.id
 where r.id = %s
"""
MOVED = "select what, old, new from transition where id = %s and what = %s order by at"


async def check_round(
    desk: Desk, run: int, approval: int, told: Sequence[tuple[str, str, str]]
) -> str:
    """See that exactly one of the crowd decided, and that the run did as it was told; give what.

    Args:
        told: what each tried, as whom, and the answer.
    """
    for kind, _, answer in told:
        assert answer in TRIES[kind][1], (kind, answer)
    winners = [(kind, user) for kind, user, answer in told if kind in DECISIONS and answer == DONE]
    ((state, decided, by, digest, questions, effects, acted, decisions, results),) = await fetch(
        desk.place.conn, RUN, run
    )
    assert [(DECISIONS[kind], user) for kind, user in winners] == (
        [(decided, by)] if decided in DECISIONS.values() else []
    )
    assert [(d["decision"], d["digest"]) for d in decisions] == (
        [] if decided == "cancelled" else [(decided, digest)]
    )
    assert (questions, effects) == (1, acted)
    assert effects <= (decided == "approved")
    if state == "succeeded":
        expected = {"approved": "told", "rejected": "a person refused", "expired": "nobody decided"}
        assert len(results) == 1
        assert results[0].startswith(expected[decided])
    else:
        assert state == "cancelled"
        assert any(kind == "cancel" and answer == DONE for kind, _, answer in told)
    moved = await fetch(desk.place.conn, MOVED, approval, "approval")
    assert moved == [("approval", "pending", decided)]
    moved = await fetch(desk.place.conn, MOVED, run, "run")
    assert sum(old == "waiting_approval" for _, old, _ in moved) == 1
    assert sum(new in {"succeeded", "cancelled"} for *_, new in moved) == 1
    assert moved[-1][2] == state
    return decided


ROUNDS = [pytest.param(6, id="short"), pytest.param(80, id="long", marks=pytest.mark.slow)]


@pytest.mark.parametrize("rounds", ROUNDS)
async def test_of_fifty_who_decide_at_once_one_does(
    desk: Desk, chance: random.Random, figure: Figure, rounds: int
) -> None:
    """Approved, rejected, expired or cancelled: one transition, one step, at most one effect."""
    place = desk.place
    await place.conn.execute(CLOCK)
    await place.conn.execute("grant select on clock to public")
    decided, told = Counter[str](), Counter[str]()
    users = dict.fromkeys(desk.people, 12) | {desk.bot: 6, place.conn.info.user: 8}
    async with serving(place, place.dsn) as daemon, sessions(place, users) as crowd:
        for number in range(rounds):
            run, approval = await desk.asked(number + 1, daemon)
            kinds = {
                desk.bot: list(CROWD["bot"]),
                place.conn.info.user: list(CROWD["owner"]),
            }
            if number % 2:
                kinds[place.conn.info.user] = ["let time pass"] * 8
            open_kinds = list(CROWD["people"])
            for listed in (open_kinds, *kinds.values()):
                chance.shuffle(listed)
            doing = [(session, kinds.get(session.user, open_kinds).pop()) for session in crowd]
            chance.shuffle(doing)
            answers = await rush(
                place,
                [(session, TRIES[kind][0].format(p=approval, r=run)) for session, kind in doing],
            )
            ended = "select agent_internal.is_final(state) from agent.run where id = %s"
            await until(place.conn, ended, run, alive=daemon.is_alive)
            seen = [
                (kind, session.user, answer)
                for (session, kind), answer in zip(doing, answers, strict=True)
            ]
            decided[await check_round(desk, run, approval, seen)] += 1
            told.update(answer for kind, _, answer in seen if kind in DECISIONS)
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []
    assert told[DONE] == decided["approved"] + decided["rejected"]
    figure("sessions raced", SESSIONS * rounds)
    figure("approvals", rounds)
    for state, count in sorted(decided.items()):
        figure(state, count)
    figure("decisions that came too late", told[NOT_PENDING])
    ((transitions,),) = await fetch(place.conn, "select count(*) from transition")
    figure("transitions", transitions)


# The same for what else a person may do with a run, each alone.

RUN_IN = {
    "failed": "state = 'failed', finished_at = agent_internal.now()",
    "needs_review": "state = 'needs_review'",
    "waiting_retry": "state = 'waiting_retry', next_attempt_at = agent_internal.now() + interval"
    " '1 day'",
}
INTENT = """
insert into agent.step (run_id, seq, kind, content)
select %s, max(seq) + 1, 'intent', '{"call_id": "c1", "name": "tell"}'
  from agent.step where run_id = %s
"""
STEPS = "select kind, count(*) from agent.step where run_id = %s and seq > %s group by 1"


async def put(place: Place, run: int, state: str) -> int:
    """Put a run into a state by force; give the number of its last step."""
    if state == "needs_review":
        await place.conn.execute(INTENT, [run, run])
    async with place.conn.transaction():
        await place.conn.execute("set local session_replication_role = replica")
        await place.conn.execute(
            f"update agent.run set {RUN_IN[state]} where id = %s".encode(), [run]
        )
        await place.conn.execute(
            "update agent.approval set state = 'cancelled' where run_id = %s", [run]
        )
    ((last,),) = await fetch(place.conn, "select max(seq) from agent.step where run_id = %s", run)
    return last


@dataclass(frozen=True, slots=True)
class Choice:
    """What a person may do with a run in a state: the state after it, and the step it makes."""

    state: str
    statements: tuple[str, ...]
    new: str
    step: str | None


CHOICES = {
    "retry": Choice("failed", ("select agent.retry({r})",), "pending", "note"),
    "resolve": Choice(
        "needs_review",
        ("select agent.resolve({r}, true)", "select agent.resolve({r}, false)"),
        "pending",
        "result",
    ),
    "cancel": Choice("waiting_retry", ("select agent.cancel({r})",), "cancelled", None),
}


@pytest.mark.slow
@pytest.mark.few(1)
@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
async def test_of_fifty_who_say_how_a_run_goes_on_one_does(
    desk: Desk, figure: Figure, choice: Choice
) -> None:
    """The others are told that it is too late; there is one transition, and one step of it."""
    place = desk.place
    async with serving(place, place.dsn) as daemon:
        run, _ = await desk.asked(1, daemon)
    last = await put(place, run, choice.state)
    statements = [words.format(r=run) for words in choice.statements]
    users = dict.fromkeys(desk.people, 16) | {place.conn.info.user: 2}
    async with sessions(place, users) as crowd:
        answers = await rush(
            place,
            [(session, statements[n % len(statements)]) for n, session in enumerate(crowd)],
        )
    assert Counter(answers) == {DONE: 1, NOT_NOW: SESSIONS - 1}
    moved = await fetch(place.conn, MOVED, run, "run")
    assert moved[-1] == ("run", choice.state, choice.new)
    assert sum(old == choice.state for _, old, _ in moved) == 1
    made = [(choice.step, 1)] if choice.step else []
    assert await fetch(place.conn, STEPS, run, last) == made
    figure("sessions raced", SESSIONS)
    figure("transitions", 1)


# What was approved is what is done.

TAMPERED = """
update agent.step
   set content = jsonb_set(content, '{parts,0,arguments,words}', '"something else"')
 where run_id = %s and kind = 'reply'
"""


@pytest.mark.slow
async def test_a_call_that_was_changed_after_its_approval_is_not_carried_out(desk: Desk) -> None:
    """The decision is bound to the digest of the arguments that the person saw."""
    place = desk.place
    async with serving(place, place.dsn) as daemon:
        run, approval = await desk.asked(1, daemon)
        untouched, other = await desk.asked(2, daemon)
    for each in (approval, other):
        await place.conn.execute("select agent.approve(%s)", [each])
    assert (await place.conn.execute(TAMPERED, [run])).rowcount == 1
    async with serving(place, place.dsn) as daemon:
        both = "select count(*) = 2 from agent.run where agent_internal.is_final(state)"
        await until(place.conn, both, alive=daemon.is_alive)
    ended = "select id, state::text, error ->> 'reason' from agent.run order by id"
    assert await fetch(place.conn, ended) == [
        (run, "failed", "the arguments of tell are not the approved ones"),
        (untouched, "succeeded", None),
    ]
    assert await fetch(place.conn, "select item, tool from effect") == [(2, "hello")]


# Somebody who has begun to decide and takes time to commit stops nobody else.

OPEN = {
    "cancel": ("waiting_approval", "select agent.cancel({r})"),
    "cancel one that waits": ("waiting_retry", "select agent.cancel({r})"),
    "approve": ("waiting_approval", "select agent.approve({p})"),
    "reject": ("waiting_approval", "select agent.reject({p})"),
    "retry": ("failed", "select agent.retry({r})"),
    "resolve": ("needs_review", "select agent.resolve({r}, true)"),
}
IN_TIME = 10.0  # seconds for what takes a tenth


@pytest.mark.few(1)
@pytest.mark.parametrize("what", OPEN)
async def test_an_open_transaction_of_a_person_stops_neither_intake_nor_claims(
    desk: Desk, what: str
) -> None:
    """Other runs of the attachment are ingested, claimed and worked; whichever way it ends."""
    place, (state, statement) = desk.place, OPEN[what]
    await place.conn.execute(CLOCK)
    await place.conn.execute("grant select on clock to public")
    async with (
        serving(place, place.dsn) as daemon,
        sessions(place, {desk.people[0]: 1}) as (person,),
    ):
        item = 1
        for end in ("rollback", "commit"):
            run, approval = await desk.asked(item, daemon)
            if state != "waiting_approval":
                await put(place, run, state)
            await person.conn.execute("begin")
            await person.conn.execute(statement.format(r=run, p=approval).encode())
            for number in range(item + 1, item + 6):
                await place.conn.execute(WRITE, [number])
            worked = (
                "select count(*) = 5 from agent.run where id > %s and state = 'waiting_approval'"
            )
            await until(place.conn, worked, run, seconds=IN_TIME, alive=daemon.is_alive)
            await place.conn.execute("set lock_timeout = '2s'")
            await place.conn.execute(
                "select agent_internal.tick()"
            )  # what time makes due waits for nobody
            await person.conn.execute(end.encode())
            item += 6
    assert await fetch(place.conn, "select * from agent.broken_invariant") == []


@pytest.mark.slow
async def test_a_question_that_lapses_while_somebody_decides_stops_no_clockwork(
    desk: Desk,
) -> None:
    """Leases, retries and other questions are dealt with; this one when the person has done."""
    place = desk.place
    await place.conn.execute(CLOCK)
    await place.conn.execute("grant select on clock to public")
    async with serving(place, place.dsn) as daemon:
        run, approval = await desk.asked(1, daemon)
        other, _ = await desk.asked(2, daemon)
    state = "select state::text from agent.run where id = %s"
    async with sessions(place, {desk.people[0]: 1}) as (person,):
        await person.conn.execute("begin")
        await person.conn.execute("select agent.approve(%s)", [approval])
        await place.conn.execute("update clock set shift = shift + interval '8 days'")
        await place.conn.execute("set lock_timeout = '2s'")
        await place.conn.execute("select agent_internal.tick()")
        assert await fetch(place.conn, state, other) == [("pending",)]
        await person.conn.execute("rollback")
    await place.conn.execute("select agent_internal.tick()")
    assert await fetch(place.conn, state, run) == [("pending",)]
    states = "select state from agent.approval order by id"
    assert await fetch(place.conn, states) == [("expired",), ("expired",)]
