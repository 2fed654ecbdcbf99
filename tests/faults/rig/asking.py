"""A scene for providers that misbehave: one table, and agents whose models a `FakeProvider` plays.

The provider runs in the test's own loop and counts what arrives; the daemon is another process.
Each agent has a model of its own and works the tickets that carry its name.
"""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.request import urlopen

from tests.faults.rig.processes import Daemon, free_port, running
from tests.faults.rig.stage import CREDENTIAL, Place
from tests.faults.rig.waiting import DEADLINE, fetch, until
from walagent.config import Replication
from walagent.message import Request
from walagent.replication.bootstrap import ensure_slot
from walagent.testing import Answer, FakeProvider, Fault, Rule

SCENE = """
create table ticket (
    id   bigint primary key generated always as identity,
    kind text not null
);
create table effect (
    seq  bigint primary key generated always as identity,
    kind text not null,
    what text not null
);
create function note(kind text, what text default 'x')
    returns text
    language sql
as $$ insert into public.effect (kind, what) values (kind, what); select 'noted' $$;
create function refuse(why text default 'never')
    returns text
    language plpgsql
as $$ begin raise exception 'no: %', why; end $$;
"""
_MODEL = """
insert into agent.model (name, provider, model_id, base_url, credential, timeout_seconds)
values (%(model)s, %(provider)s, %(model)s, %(url)s, %(credential)s, %(timeout)s)
on conflict do nothing
"""
_ATTACH = """
select agent.attach('ticket', format(
    'name=%%1$s, model=%%3$s, when="new.kind = ''%%1$s''", tools=[note, refuse], bind=[kind=kind],'
    ' %%2$s', %(name)s::text, %(spec)s::text, %(model)s::text))
"""
WRITE = "insert into ticket (kind) select %s from generate_series(1, %s)"

# How it stands with the runs of each agent.
_ENDS = """
select a.name as kind, r.state::text, r.attempt, coalesce(r.error ->> 'reason', '') as reason,
       a.paused, coalesce(a.paused_reason, '') as pause, r.tokens, r.cost::float8,
       extract(epoch from r.next_attempt_at - agent_internal.now())::float8 as waits,
       (select count(*) from effect e where e.kind = a.name) as effects,
       array(select s.kind || case when s.content ->> 'is_error' = 'true' then '!' else '' end
               from agent.step s where s.run_id = r.id order by s.seq) as steps
  from agent.run r join agent.attachment a on a.id = r.attachment_id
 where a.name = any (%s)
 order by r.id
"""


@dataclass(frozen=True, slots=True)
class End:
    """How a run stands, and what it has left."""

    kind: str
    state: str
    attempt: int
    reason: str
    paused: bool
    pause: str
    tokens: int
    cost: float | None
    waits: float | None
    effects: int
    steps: Sequence[str]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent with a model of its own, what the provider answers it, and what is to come of it.

    Args:
        name: of agent, model and tickets.
        replies: as for `FakeProvider`, by their place in the run.
        url: where its model is, when that is not the provider.
        timeout: seconds for one call.
        model: which it shares with others; default: it has one of its own.
    """

    name: str
    replies: Sequence[Answer] = ()
    spec: str = "max_attempts=2"
    url: str = ""
    timeout: int = 120
    model: str = ""

    @property
    def rule(self) -> Rule:
        """What the provider is told of it."""
        return Rule(f'"kind":"{self.name}"', self.replies)


def url_of(provider: FakeProvider, wire: str) -> str:
    """Where a provider is, as a model's row says it."""
    return str(provider.spec(wire).base_url)


async def set_scene(place: Place, wire: str, url: str, agents: Iterable[Agent]) -> None:
    """Make the table, the slot, and each agent with its model, which is at *url* or its own."""
    await place.conn.execute(SCENE)
    await ensure_slot(place.conn, place.dsn, Replication(slot=place.slot))
    for agent in agents:
        values = {"name": agent.name, "provider": wire, "url": agent.url or url}
        values |= {"model": agent.model or agent.name}
        values |= {"credential": CREDENTIAL, "timeout": agent.timeout, "spec": agent.spec}
        await place.conn.execute(_MODEL, values)
        await place.conn.execute(_ATTACH, values)


async def ends(place: Place, *names: str) -> list[End]:
    """How the runs of some agents stand."""
    return [End(*row) for row in await fetch(place.conn, _ENDS, list(names))]


def asked(provider: FakeProvider, name: str) -> int:
    """How many requests for a model the provider has seen."""
    return sum(received.body["model"] == name for received in provider.received)


class Mood:
    """An answer that a test changes while the provider gives it."""

    def __init__(self, now: Answer) -> None:
        """Answer so at first."""
        self.now = now

    def __call__(self, _request: Request) -> Answer:
        """Answer as it is now."""
        return self.now


def by_hand(wire: str, content: str, stop: str = "", usage: str = '{"input_tokens": 1}') -> Fault:
    """An answer that is written by hand: JSON of its content, which may be none.

    Args:
        stop: why the model stopped, in the provider's words; default: for a tool, or at its end.
        usage: the same; empty leaves it out.
    """
    counted = f', "usage": {usage}' if usage else ""
    if wire == "anthropic":
        reason = stop or ("tool_use" if "tool_use" in content else "end_turn")
        body = f'{{"content": {content}, "stop_reason": "{reason}"{counted}}}'
    else:
        reason = stop or ("tool_calls" if "tool_calls" in content else "stop")
        body = f'{{"choices": [{{"message": {content}, "finish_reason": "{reason}"}}]{counted}}}'
    return Fault(200, body=body.encode())


def words(wire: str, text: str) -> str:
    """The content of an answer in words, for `by_hand`."""
    said = json.dumps(text)
    return (
        f'[{{"type": "text", "text": {said}}}]' if wire == "anthropic" else f'{{"content": {said}}}'
    )


def calling(wire: str, arguments: str, name: str = "note") -> Fault:
    """A call whose arguments are this text, as the format has it: JSON inside JSON, or a string."""
    if wire == "anthropic":
        call = f'{{"type": "tool_use", "id": "c1", "name": "{name}", "input": {arguments}}}'
        return by_hand(wire, f"[{call}]")
    function = f'{{"name": "{name}", "arguments": {json.dumps(arguments)}}}'
    call = f'{{"id": "c1", "type": "function", "function": {function}}}'
    return by_hand(wire, f'{{"content": null, "tool_calls": [{call}]}}')


_ENDED = """
select count(*) >= %s from agent.run r join agent.attachment a on a.id = r.attachment_id
 where a.name = %s and r.state = 'succeeded'
"""
_WORN = """
select coalesce(sum(lease), 0)::integer, coalesce(max(attempt), 0),
       count(*) filter (where state in ('failed', 'dead'))
  from agent.run r join agent.attachment a on a.id = r.attachment_id
 where a.name = %s
"""


@dataclass(frozen=True, slots=True)
class Worn:
    """What an agent's runs have gone through: claims, the most attempts, and those given up."""

    claims: int
    attempts: int
    given_up: int


@dataclass(frozen=True, slots=True)
class Scene:
    """A daemon at work on the tickets."""

    place: Place
    daemon: Daemon
    port: int  # of its metrics

    async def write(self, kind: str, count: int = 1) -> None:
        """Write tickets for an agent."""
        await self.place.conn.execute(WRITE.encode(), [kind, count])

    async def ended(self, kind: str, count: int, *, seconds: float = DEADLINE) -> float:
        """Wait until so many runs of an agent have succeeded; return how long that took."""
        alive = self.daemon.is_alive
        return await until(self.place.conn, _ENDED, count, kind, alive=alive, seconds=seconds)

    async def worn(self, kind: str) -> Worn:
        """Look what the runs of an agent have gone through."""
        ((claims, attempts, given_up),) = await fetch(self.place.conn, _WORN, kind)
        return Worn(claims, attempts, given_up)

    async def gauge(self, name: str, model: str) -> float:
        """Read what /metrics says of a model."""
        text = await asyncio.to_thread(_scrape, self.port)
        (value,) = re.findall(rf'^{name}{{model="{model}"}} (\S+)$', text, re.MULTILINE)
        return float(value)


def _scrape(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        return answer.read().decode()


@asynccontextmanager
async def working(
    place: Place, *, environment: Mapping[str, str] | None = None, **workers: float
) -> AsyncIterator[Scene]:
    """Run a daemon until the block ends.

    Args:
        workers: settings of the section of this name.
    """
    port = free_port()
    settings = {
        "workers": {"slots": 100, "lease": 10, **workers},
        "http": {"enabled": True, "port": port},
    }
    with running(Daemon(place, settings=settings, environment=environment)) as daemon:
        await daemon.has_said("reader.streaming")
        yield Scene(place, daemon, port)
