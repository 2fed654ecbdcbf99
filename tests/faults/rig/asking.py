"""A scene for providers that misbehave: one table, and agents whose models a `FakeProvider` plays.

The provider runs in the test's own loop and counts what arrives; the daemon is another process.
Each agent has a model of its own and works the tickets that carry its name.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.faults.rig.stage import CREDENTIAL, Place
from tests.faults.rig.waiting import fetch
from walagent.app.setup import ensure_slot
from walagent.config import Replication
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
values (%(name)s, %(provider)s, %(name)s, %(url)s, %(credential)s, %(timeout)s)
"""
_ATTACH = """
select agent.attach('ticket', format(
    'name=%%1$s, model=%%1$s, when="new.kind = ''%%1$s''", tools=[note, refuse], bind=[kind=kind],'
    ' %%2$s', %(name)s::text, %(spec)s::text))
"""
WRITE = "insert into ticket (kind) select %s from generate_series(1, %s)"

# How it stands with the runs of each agent.
_ENDS = """
select a.name as kind, r.state::text, r.attempt, coalesce(r.error ->> 'reason', '') as reason,
       a.paused, coalesce(a.paused_reason, '') as pause, r.tokens, r.cost::float8,
       extract(epoch from r.next_attempt_at - agent.now())::float8 as waits,
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
    """

    name: str
    replies: Sequence[Answer] = ()
    spec: str = "max_attempts=2"
    url: str = ""
    timeout: int = 120

    @property
    def rule(self) -> Rule:
        """What the provider is told of it."""
        return Rule(f'"kind":"{self.name}"', self.replies)


async def set_scene(
    place: Place, provider: FakeProvider, wire: str, agents: Iterable[Agent]
) -> None:
    """Make the table, the slot, and each agent with its model."""
    await place.conn.execute(SCENE)
    await ensure_slot(place.conn, place.dsn, Replication(slot=place.slot))
    for agent in agents:
        url = provider.spec(wire).base_url
        values = {"name": agent.name, "provider": wire, "url": agent.url or url}
        values |= {"credential": CREDENTIAL, "timeout": agent.timeout, "spec": agent.spec}
        await place.conn.execute(_MODEL, values)
        await place.conn.execute(_ATTACH, values)


async def ends(place: Place, *names: str) -> list[End]:
    """How the runs of some agents stand."""
    return [End(*row) for row in await fetch(place.conn, _ENDS, list(names))]


def asked(provider: FakeProvider, name: str) -> int:
    """How many requests for an agent's model the provider has seen."""
    return sum(received.body["model"] == name for received in provider.received)


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
