"""Providers that refuse, fail, hang, cut and lie, and what becomes of the runs.

A real daemon with the real SDKs asks a provider that the test plays and that counts what arrives.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from time import time
from typing import Any

import pytest

from tests.faults.rig.asking import (
    WRITE,
    Agent,
    End,
    asked,
    by_hand,
    calling,
    ends,
    set_scene,
    words,
)
from tests.faults.rig.processes import Daemon, running
from tests.faults.rig.stage import Figure, Place
from tests.faults.rig.waiting import until
from walagent.agent.models.replies import COUNT_LIMIT
from walagent.message import Reply, Request, Stop, Text, ToolCall, Usage
from walagent.testing import Answer, FakeProvider, Fault, call, in_turn

pytestmark = pytest.mark.scenario(13)
ROOM = {"workers": {"slots": 100, "lease": 10}}
WIRES = pytest.mark.parametrize("wire", ["anthropic", "openai"])
SETTLED = """
select count(*) = %s
  from agent.run r join agent.attachment a on a.id = r.attachment_id
 where agent.is_final(state) or a.paused and state = 'pending'
       or state = 'waiting_retry' and next_attempt_at > agent.now() + interval '1 min'
"""


@dataclass(frozen=True, slots=True)
class Case:
    """An agent, what becomes of its run, and how often the provider was asked.

    Args:
        says: a part of the run's error, or of the reason for its attachment's pause.
    """

    agent: Agent
    state: str = "succeeded"
    requests: int = 1
    attempt: int = 1
    says: str = ""
    effects: int = 0
    steps: str = ""
    paused: bool = False

    def found(self, end: End, requests: int) -> Mapping[str, Any]:
        """What has become of it, beside what should have; empty when they are the same."""
        said = self.says in (end.pause if self.paused else end.reason)
        seen = replace(
            self,
            state=end.state,
            requests=requests,
            attempt=end.attempt,
            says=self.says if said else f"{end.pause} {end.reason}",
            effects=end.effects,
            steps=" ".join(end.steps) if self.steps else "",
            paused=end.paused,
        )
        return {} if seen == self else {self.agent.name: (seen, "instead of", self)}


def once(fault: Fault, then: Answer = "ok") -> list[Answer]:
    """A provider that misbehaves at the first request and answers the second."""
    return [in_turn(fault, then)]


def in_two_seconds(_: Request) -> Answer:
    """A wait that is given as a date; which is in whole seconds."""
    return Fault(429, formatdate(time() + 2, usegmt=True))


def limits() -> Iterator[Case]:
    """The provider asks to wait: no attempt is used up, and it is asked once more."""
    yesterday = formatdate(time() - 86_400, usegmt=True)
    for name, fault in {
        "seconds": Fault(429, "1"),
        "half_a_second": Fault(429, headers={"retry-after-ms": "500"}),
        "date": in_two_seconds,
        "past_date": Fault(429, yesterday),
        "zero": Fault(429, "0"),
        "malformed": Fault(429, "in a while"),
        "overflowing": Fault(429, "99999999999999999999 Oct 1 1:1:1"),
        "negative": Fault(429, "-5"),
        "bare": Fault(429),
        "503": Fault(503, "1"),
        "529": Fault(529, code="overloaded_error"),
    }.items():
        yield Case(Agent(f"limit_{name}", [in_turn(fault, "ok")]), requests=2)
    long = Agent("limit_long", [Fault(429, "99999999")])
    yield Case(long, "waiting_retry", attempt=0, says="answered 429")


def refusals(wire: str) -> Iterator[Case]:
    """A person must act: the attachment is paused at the first answer, no attempt is used up."""
    spent = "insufficient_quota" if wire == "openai" else "billing_error"
    low = "Your credit balance is too low to access the API."
    for name, fault in {
        "401": Fault(401, code="invalid_api_key"),
        "402": Fault(402),
        "403": Fault(403, code="permission_error"),
        "404": Fault(404, message="model: x is not there"),
        "quota": Fault(429, "1", code=spent),
        "credit": Fault(400, code="invalid_request_error", message=low),
    }.items():
        agent = Agent(f"refused_{name}", [fault])
        yield Case(agent, "pending", attempt=0, says=f"answered {fault.status}", paused=True)
    for status in (400, 413, 422):
        yield Case(Agent(f"refused_{status}", [Fault(status)]), "failed", says=f"answered {status}")


def failures(wire: str) -> Iterator[Case]:
    """Nobody answers, or nothing that is an answer: an attempt, and another one."""
    html = {"content-type": "text/html"}
    for name, fault in {
        "408": Fault(408),
        "409": Fault(409),
        "500": Fault(500),
        "502": Fault(502, body=b"<html>Bad Gateway</html>", headers=html),
        "504": Fault(504),
        "silent": Fault(stall=3600),
        "dripping": Fault(reply="x", drip=0.3),
        "dropped": Fault(drop=True),
        "cut_status_line": Fault(reply="x", cut_at=5),
        "cut_head": Fault(reply="x", cut_at=40),
        "cut_body": Fault(reply="x", cut=True),
        "cut_last_byte": Fault(reply="x", cut_at=-1),
        "no_json": Fault(200, body=b"{"),
        "html": Fault(200, body=b"<html>Please log in</html>", headers=html),
        "empty": Fault(200, body=b"", headers={"content-length": "0"}),
        "null": Fault(200, body=b"null"),
        "nested": Fault(200, body=b"[" * 100_000),
        "no_stop": Fault(200, body=b'{"content": [], "choices": [{"message": {}}]}'),
        "odd_stop": by_hand(wire, words(wire, "x"), stop="meltdown"),
    }.items():
        yield Case(Agent(f"failed_{name}", once(fault), timeout=1), requests=2, attempt=2)
    poison = Agent("failed_always", [Fault(500)])
    yield Case(poison, "dead", requests=2, attempt=2, says="(attempt 2 of 2)")


def replies(wire: str) -> Iterator[Case]:
    """An answer, and a strange one."""
    some = Usage(1, 0, 0, 1)
    whole = ToolCall("c1", "note", {"what": "half a sen"})
    yield Case(
        Agent("cut_words", [Reply((Text("half a sen"),), Stop.LENGTH, some)]),
        "failed",
        says="cut off by its token limit",
    )
    yield Case(
        Agent("cut_call", [Reply((whole,), Stop.LENGTH, some)]),
        "failed",
        says="cut off by its token limit",
        steps="reply result!",
    )
    yield Case(
        Agent("refused_words", [Reply((Text("I won't."),), Stop.REFUSAL, some)]),
        "failed",
        says="the model refused: I won't.",
    )
    yield Case(
        Agent("refused_call", [Reply((Text("no"), whole), Stop.REFUSAL, some)]),
        "failed",
        says="the model refused: no",
        steps="reply result!",
    )
    yield Case(Agent("empty_once", ["", "ok"]), requests=2, steps="reply note reply")
    yield Case(Agent("empty", [""] * 3), "failed", requests=3, says="the model answered nothing")
    yield Case(Agent("empty_at_last", [call("note", what="x"), ""]), requests=2, effects=1)
    same = [ToolCall("same", "note", {"what": n}) for n in "ab"]
    yield Case(
        Agent("same_id", [Reply(tuple(same), Stop.TOOL, some), "ok"]),
        requests=2,
        effects=2,
        steps="reply result result reply",
    )
    yield Case(
        Agent("unknown_tool", [call("delete_everything"), "ok"]),
        requests=2,
        steps="reply result! reply",
    )
    parallel = [call("note", what="a"), call("refuse"), call("note", what="b")]
    yield Case(
        Agent("parallel", [parallel, "ok"]),
        requests=2,
        effects=2,
        steps="reply result result! result reply",
    )
    yield Case(
        Agent("circle", [call("note", what="again")] * 10),
        "failed",
        requests=3,
        effects=3,
        says="the same call had the same result 3 times",
    )
    huge, counted = "9" * 30, "input" if wire == "anthropic" else "prompt"
    for name, usage in {
        "missing": "",
        "null": "null",
        "text": f'{{"{counted}_tokens": "7"}}',
        "negative": f'{{"{counted}_tokens": -7}}',
        "infinite": f'{{"{counted}_tokens": 1e999}}',
        "absurd": f'{{"{counted}_tokens": {huge}}}',
    }.items():
        yield Case(Agent(f"usage_{name}", [by_hand(wire, words(wire, "ok"), usage=usage)]))


def arguments(wire: str) -> Iterator[Case]:
    """Arguments that are none: the model is told, nothing is carried out."""
    for name, text in {
        "array": "[1]",
        "text": '"x"',
        "null": "null",
        "number": "7",
        "nan": '{"what": NaN}',
        "infinity": '{"what": -Infinity}',
        "too_large": '{"what": 1e999}',
        "too_long": '{"what": "' + "x" * 10_000_000 + '"}',
        "deep": '{"what": ' + "[" * 500 + "]" * 500 + "}",
        "surrogate": '{"what": "\\ud800"}',
        "nul": '{"what": "\\u0000"}',
        "digits": '{"what": ' + "9" * 400 + "}",
        "wrong_type": '{"what": {"a": 1}}',
        "unknown_name": '{"what": "x", "kind": "other"}',
    }.items():
        yield Case(
            Agent(f"arguments_{name}", [calling(wire, text), "ok"]),
            requests=2,
            steps="reply result! reply",
        )
    twice = Agent("arguments_twice", [calling(wire, '{"what": "a", "what": "b"}'), "ok"])
    broken = Agent("arguments_broken", [in_turn(calling(wire, '{"what": '), "ok"), "ok"])
    if wire == "anthropic":  # its answer is one JSON document, so it is there or not
        yield Case(twice, requests=2, effects=1)
        yield Case(broken, requests=2, attempt=2)
    else:
        yield Case(twice, requests=2, steps="reply result! reply")
        yield Case(broken, requests=2, steps="reply result! reply")


@WIRES
async def test_each_way_to_misbehave_ends_as_documented(
    place: Place, wire: str, figure: Figure
) -> None:
    """The state, the attempts, the effects, and how often the provider was asked.

    All at once in one daemon, so none is in the way of another.
    """
    cases = [*limits(), *refusals(wire), *failures(wire), *replies(wire), *arguments(wire)]
    rules = [case.agent.rule for case in cases]
    async with FakeProvider(rules=rules) as provider:
        await set_scene(place, provider, wire, [case.agent for case in cases])
        with running(Daemon(place, settings=ROOM)) as daemon:
            await daemon.has_said("reader.streaming")
            for case in cases:
                await place.conn.execute(WRITE.encode(), [case.agent.name, 1])
            await until(place.conn, SETTLED, len(cases), alive=daemon.is_alive)
        found: dict[str, Any] = {}
        for case in cases:
            (end,) = await ends(place, case.agent.name)
            found |= case.found(end, asked(provider, case.agent.name))
        assert not found, json.dumps(found, indent=1, default=str)
        tokens = {
            name: (await ends(place, f"usage_{name}"))[0].tokens for name in ("text", "absurd")
        }
        assert tokens == {"text": 0, "absurd": COUNT_LIMIT}
        assert {received.problem for received in provider.received} == {""}
        assert provider.requests == len(provider.received)
    figure(f"ways to misbehave, {wire}", len(cases))
