"""A thread in which every kind of work is done, once: for daemons that are killed in mid-turn.

A person says what is to be done.  `host` does it: tools in SQL and Python, in the database and
outside, memory, messages, a workflow, and a call that a person approves.  `clerk` then makes one
call that it cannot avoid.  The thread is longer than a prompt, so it is summarized meanwhile.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from psycopg import AsyncConnection

from tests.faults.rig.processes import LEASE, Daemon, Settings, running
from tests.faults.rig.stage import Place, make_ready
from tests.faults.rig.waiting import fetch, until_true
from tests.helpers.mailbox import Mailbox
from tests.helpers.web import Web
from walagent.message import Message, Request, Text
from walagent.models.script import Answer, call
from walagent.testing import FakeProvider

KILLED = -9
SECRET = "HOOK_KEY"
# Each death costs an attempt, and there are more than an operator would allow.
PATIENCE = """
create function be_patient() returns trigger language plpgsql
    as $$ begin new.max_attempts := 1000; return new; end $$;
create trigger be_patient before insert on agent.run
    for each row execute function be_patient();
"""
SCENE = """
create table ledger (seq bigint primary key generated always as identity, text text not null);
create function enter(text text) returns text language sql
    as $$ insert into public.ledger (text) values (text); select 'entered' $$;
create function pay(text text) returns text language sql
    as $$ insert into public.ledger (text) values (text); select 'paid' $$;
create function begin_flow(text text) returns text language sql
    as $$ select 'run ' || agent.start_workflow('flow', jsonb_build_object('text', text)) $$;
select agent.create_workflow('flow',
    '[{"name": "think", "kind": "model", "model": "script", "prompt": "Of {{text}}"},
      {"name": "file", "kind": "tool", "tool": "enter", "arguments": {"text": "flow {{text}}"}}]',
    '[{"from": "think", "to": "file"}]');
insert into agent.agent (name, model, tools, system_prompt) values
    ('host', 'script', '{enter,note_in_python,tell_again,tell_once,remember,send_webhook,send_email,
        begin_flow,pay}', 'You are Host.');
insert into agent.agent (name, model, tools, tool_choice, finish, system_prompt) values
    ('clerk', 'script', '{enter}', 'required', 'after_call', 'You are Clerk.');
select agent.attach_to_threads('host', approve => '{pay}', max_context_tokens => 500);
select agent.attach_to_threads('clerk', max_context_tokens => 500,
    wake => $$ new.type = 'text' and new.author = 'host' $$);
insert into agent.principal (tenant, name) values ('default', 'ann');
select agent.grant_role('host', 'developer');  -- for it starts workflows
"""
CHANNELS = """
insert into agent.channel (tenant, name, kind, target, secret)
values ('default', 'hook', 'webhook', 'http://127.0.0.1:{port}/in', '{secret}');
insert into agent.channel (tenant, name, kind, target)
values ('default', 'mail', 'email', 'ann@acme.test');
"""
ACTS = ("first", "second")
OPEN = "select agent.open_thread(%s, '{ann,host,clerk}')::text"
SAY = "select agent_internal.assume('default', 'ann'), agent.post(%s, %s)"

ENDED = "select bool_and(agent_internal.is_final(state)) from agent.run"
# A turn of the clerk follows the host's last word in each act.
DONE = """
select not exists (select from agent.run
                    where ordering_key in (%(thread)s, 'summary ' || %(thread)s)
                      and not agent_internal.is_final(state))
   and exists (select from agent.event
                where thread_id::text = %(thread)s and author = 'host' and type = 'text'
                  and data ->> 'text' = 'Done: ' || %(act)s)
   and exists (select from ledger where text = 'clerk ' || %(act)s)
"""
PROGRESS = """
select (select count(*) from agent.step), (select count(*) from agent.run),
       (select count(*) from agent.run where agent_internal.is_final(state)),
       (select count(*) from agent.event), (select end_lsn::text from agent.checkpoint)
"""
EXPIRE = """
update agent.run set lease_expires_at = agent_internal.now() - interval '1 s'
 where state = 'running'
"""
PENDING = "select id from agent.approval where state = 'pending'"
UNKNOWN = """
select r.id, r.kind, o.subject, s.content ->> 'idempotency_key'
  from agent.run r left join agent.outbox o on o.run_id = r.id
       join lateral (select * from agent.step s where s.run_id = r.id and s.kind = 'intent'
                      order by seq desc limit 1) s on true
 where r.state = 'needs_review'
"""
# A call that did not happen is in the hands of the model, which here does not repeat it.
UNSAFE_CALLS = """
select i.content ->> 'idempotency_key', (not (r.content -> 'is_error')::boolean)::integer
  from agent.step i
       join agent.step r on r.run_id = i.run_id and r.kind = 'result'
                        and r.content ->> 'call_id' = i.content ->> 'call_id'
 where i.kind = 'intent' and i.content ->> 'name' = 'tell_once'
"""
REPEATABLE_CALLS = """
select content ->> 'idempotency_key' from agent.step
 where kind = 'intent' and content ->> 'name' = 'tell_again'
"""
RESOLVE = "select agent.resolve(%s, %s, 'looked')"


def calls_of(act: str, number: int) -> Sequence[Answer]:
    """What `host` answers in an act, reply by reply.

    Args:
        number: of the act, among all of the test.
    """
    last = f"Done: {act}"
    if act.startswith("third"):
        return (call("pay", text=f"pay {act}"), last)
    if act.startswith("first"):
        return (
            [call("enter", text=f"one {act}"), call("note_in_python", item=number, version=1)],
            [call("tell_again", item=number), call("tell_once", item=number)],
            last,
        )
    return (
        [
            call("remember", key=act, value=f"What ann wants: {act}"),
            call("send_webhook", channel="hook", subject=act, text="It is done."),
            call("send_email", channel="mail", subject=act, text="It is done."),
            call("begin_flow", text=act),
        ],
        call("pay", text=f"pay {act}"),
        last,
    )


def shown(request: Request) -> str:
    """What a request shows first."""
    return "".join(p.text for p in request.messages[0].parts if isinstance(p, Text))


@dataclass(slots=True)
class Show:
    """The thread, its outside, and what its models were asked."""

    place: Place
    provider: FakeProvider
    hook: Web
    box: Mailbox
    acts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # (thread, act)
    deaths: int = 0
    repeated: int = 0  # calls of which a person said that they had not happened
    seen: tuple[int, tuple[Any, ...]] = (0, ())

    @property
    def conn(self) -> AsyncConnection[Any]:
        """The test's connection."""
        return self.place.conn

    @property
    def settings(self) -> Settings:
        """What a daemon needs to reach the outside."""
        rule = {"secrets": [SECRET], "networks": ["127.0.0.0/8"]}
        smtp = {"host": "127.0.0.1", "port": self.box.port, "sender": "walagent@acme.test"}
        return {
            "tools": {"http_hosts": {f"127.0.0.1:{self.hook.port}": rule}},
            "outbox": {"smtp": {**smtp, "security": "none"}},
            "workers": {"drain": 1},
        }

    def daemon(self, failpoint: str = "", *, name: str = "", lease: float = 30.0) -> Daemon:
        """A daemon, that kills itself where asked to.

        Args:
            lease: seconds; where a test lets leases expire itself, no living worker misses one.
        """
        settings = {**self.settings, "workers": {"lease": lease, "drain": 1}}
        environment = {SECRET: "a key of the hook"}
        return Daemon(
            self.place, settings=settings, name=name, failpoint=failpoint, environment=environment
        )

    def running(self, name: str) -> AbstractContextManager[Daemon]:
        """One of several processes, whose runs are taken over by the others when it dies."""
        return running(self.daemon(name=name, lease=LEASE))

    async def open(self, title: str = "Show") -> str:
        """Open a thread."""
        ((thread,),) = await fetch(self.conn, OPEN, title)
        return thread

    async def say(self, thread: str, act: str) -> None:
        """Let the person say what is to be done, at length."""
        self.acts.append((thread, act))
        async with self.conn.transaction():
            await fetch(self.conn, SAY, thread, f"Please do {act}. {'It is long. ' * 80}")

    async def is_done(self, thread: str, act: str) -> bool:
        """Whether everything that follows from an act is over; a person decides what waits."""
        await self.decide()
        given = {"thread": thread, "act": act}
        cursor = await self.conn.execute(DONE.encode(), given)
        row = await cursor.fetchone()
        return row is not None and bool(row[0])

    async def is_over(self) -> bool:
        """Whether everything that follows from all acts is over."""
        done = [await self.is_done(thread, act) for thread, act in self.acts]
        return all(done) and (await fetch(self.conn, ENDED))[0][0]

    async def is_idle(self, thread: str) -> bool:
        """Whether the last act of a thread is over: another one would be taken up with it."""
        last = [act for of, act in self.acts if of == thread][-1:]
        return all([await self.is_done(thread, act) for act in last])

    async def decide(self) -> None:
        """Approve what waits, and look up what happened where the outcome is unknown."""
        for (approval,) in await fetch(self.conn, PENDING):
            await fetch(self.conn, "select agent.approve(%s)", approval)
        for run, kind, subject, key in await fetch(self.conn, UNKNOWN):
            if kind == "delivery":
                happened = subject in [str(each["subject"]) for each in self.box.messages]
            else:
                happened = any(line.endswith(key) for line in self.told)
            await fetch(self.conn, RESOLVE, run, happened)
            self.repeated += not happened

    @property
    def told(self) -> list[str]:
        """What the tools outside were called with: item and key."""
        path = self.place.folder / "outside"
        return path.read_text().splitlines() if path.exists() else []

    async def play(self, thread: str, act: str, point: str) -> int:
        """Let daemons die at *point*, at each passing of it, until the act is over."""
        await self.say(thread, act)
        deaths = await die_until(self.is_over, self.has_moved, self.daemon, self.conn, point)
        self.deaths += deaths
        return deaths

    async def has_moved(self) -> bool:
        """Whether anything was committed since the last look, but for what begins again."""
        await self.decide()
        (row,) = await fetch(self.conn, PROGRESS)
        before, self.seen = self.seen, (self.repeated, row)
        return before[0] == self.repeated and before[1] != row


async def die_until(
    is_over: Callable[[], Awaitable[bool]],
    has_moved: Callable[[], Awaitable[bool]],
    start: Callable[[str], Daemon],
    conn: AsyncConnection[Any],
    point: str,
) -> int:
    """Let daemons die at *point* until something is over, each at a passing that is new.

    Where a death has left nothing committed, the next daemon dies one passing later.  Leases of the
    dead run out at once.

    Args:
        start: with a failpoint.

    Returns:
        how many died.
    """
    passes, deaths = 1, 0
    await has_moved()
    while not await is_over():
        with running(start(f"{point}:{passes}:kill")) as daemon:

            async def can_go_on(daemon: Daemon = daemon) -> bool:
                return daemon.has_ended or await is_over()

            await until_true(can_go_on, f"what follows {deaths} deaths at {point}")
            if daemon.has_ended:
                assert await daemon.ended() == KILLED, daemon.said[-3000:]
                deaths += 1
        await fetch_none(conn, EXPIRE)
        passes = 1 if await has_moved() else passes + 1
    return deaths


async def fetch_none(conn: AsyncConnection[Any], statement: str) -> None:
    """Execute a statement without rows."""
    await conn.execute(statement.encode())


def answering(request: Request) -> Answer:
    """Answer as the agent whose prompt it is."""
    if "You summarize a thread" in request.system:
        return "What was said before."
    if "You are Clerk" in request.system:
        return call(
            "enter", text=f"clerk {re.findall(r'Done: ([a-z]+[0-9]*)', shown(request))[-1]}"
        )
    if "You are Host" in request.system:
        act = re.findall(r"Please do ([a-z]+[0-9]*)", shown(request))[-1]
        replies = calls_of(act, int(re.sub(r"\D", "", act) or 0))
        return replies[sum(message.role == "assistant" for message in request.messages)]
    return "A thought."


async def make_show(place: Place, provider: FakeProvider, hook: Web, box: Mailbox) -> Show:
    """Make tables, tools, agents and channels, and a slot."""
    url = f"http://127.0.0.1:{provider.port}/v1"
    await make_ready(place, attach="", provider=url)
    await fetch_none(place.conn, PATIENCE + SCENE + CHANNELS.format(port=hook.port, secret=SECRET))
    return Show(place, provider, hook, box)


# What must be true in the end.

_WRONG = {
    "states": """
        select kind, state, count(*), min(error::text) from agent.run
         where state not in ('succeeded', 'skipped') group by 1, 2""",
    "runs of a kind that were skipped": """
        select kind, reason, error from agent.run
         where state = 'skipped' and kind <> 'turn'""",
    "said twice": """
        select thread_id, author, type, data - 'id', count(*)
          from agent.event where author in ('host', 'clerk') and type <> 'tool_result'
         group by 1, 2, 3, 4 having count(*) > 1""",
    "results twice": """
        select run_id, type, coalesce(data ->> 'tool_use_id', data ->> 'id'), count(*)
          from agent.event where type like 'tool%%' group by 1, 2, 3 having count(*) > 1""",
    "numbers": """
        select id, last_number from agent.thread t
         where last_number <> (select count(*) from agent.event e where e.thread_id = t.id)""",
    "entered twice": "select text, count(*) from ledger group by 1 having count(*) > 1",
    "noted twice": "select item, count(*) from effect group by 1 having count(*) > 1",
    "remembered twice": """
        select principal, key, count(*) from agent.memory group by 1, 2 having count(*) > 1""",
    "sent twice": """
        select subject, channel, count(*) from agent.outbox group by 1, 2 having count(*) > 1""",
    "errors of tools": """
        select run_id, content from agent.step
         where kind = 'result' and content ->> 'is_error' = 'true'
           and not content ? 'reviewed_by'""",
    "promises": "select * from agent.broken_invariant limit 20",
    "held": "select id from agent.run where lease_expires_at is not null",
}


async def all_is_once(show: Show) -> None:
    """See that each act was done, once, inside and outside; list what is wrong."""
    conn = show.conn
    found = {what: await fetch(conn, query) for what, query in _WRONG.items()}
    assert not any(found.values()), {what: rows for what, rows in found.items() if rows}
    firsts = sorted(act for _, act in show.acts if act.startswith("first"))
    seconds = sorted(act for _, act in show.acts if not act.startswith("first"))
    entered = sorted(
        [f"clerk {act}" for _, act in show.acts]
        + [f"one {act}" for act in firsts]
        + [f"pay {act}" for act in seconds]
        + [f"flow {act}" for act in seconds]
    )
    assert [text for (text,) in await fetch(conn, "select text from ledger order by 1")] == entered
    items = sorted(int(re.sub(r"\D", "", act) or 0) for act in firsts)
    noted = await fetch(conn, "select item from effect where tool = 'python' order by 1")
    assert [item for (item,) in noted] == items
    await _outside_is_once(show, seconds, items)
    memories = "select key from agent.memory order by 1"
    assert [key for (key,) in await fetch(conn, memories)] == seconds
    compacted = "select bool_and(summary_upto > 0 and summary <> '') from agent.thread"
    assert await fetch(conn, compacted) == [(True,)]
    _asked_alike(show)


async def _outside_is_once(show: Show, subjects: list[str], items: list[int]) -> None:
    """See that messages and calls left once; where they can be repeated, under one key."""
    ids = {each.headers["webhook-id"] for each in show.hook.sent}
    sent = await fetch(show.conn, "select id::text from agent.outbox where channel = 'hook'")
    assert ids == {key for (key,) in sent}
    assert len(ids) == len(subjects)
    assert sorted(str(each["subject"]) for each in show.box.messages) == subjects
    repeatable = {key for (key,) in await fetch(show.conn, REPEATABLE_CALLS)}
    keys = {line.split(" ", 1)[1] for line in show.told}
    assert len(keys & repeatable) == len(items)
    lines = [line.split(" ", 1)[1] for line in show.told]
    calls = await fetch(show.conn, UNSAFE_CALLS)
    assert len(calls) == len(items)
    wrong = [key for key, happened in calls if lines.count(key) != happened]
    assert not wrong, "an unsafe call was repeated, or did not happen"


def _asked_alike(show: Show) -> None:
    """See that a question that was repeated was the same, and was repeated for deaths alone."""
    asked: dict[tuple[str, int], list[Sequence[Message]]] = {}
    for each in show.provider.received:
        assert each.request is not None, each.problem
        request = each.request
        if "You are Host" not in request.system:
            continue
        act = re.findall(r"Please do ([a-z]+[0-9]*)", shown(request))[-1]
        place = sum(message.role == "assistant" for message in request.messages)
        asked.setdefault((act, place), []).append(request.messages)
    for key, questions in asked.items():
        others = [each for each in questions if each != questions[0]]
        assert not others, (key, questions[0], others)
        assert len(questions) <= 1 + show.deaths, key
