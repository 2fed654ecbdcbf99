"""Providers that refuse, fail, hang, cut and lie, and what becomes of the runs.

A real daemon with the real SDKs asks a provider that the test plays and that counts what arrives.
"""

import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from email.utils import formatdate
from functools import partial
from time import monotonic, time
from typing import Any

import pytest

from tests.faults.rig.asking import (
    Agent,
    End,
    Mood,
    Scene,
    asked,
    by_hand,
    calling,
    ends,
    set_scene,
    url_of,
    words,
    working,
)
from tests.faults.rig.commands import types
from tests.faults.rig.processes import free_port, pause
from tests.faults.rig.proxy import Proxy
from tests.faults.rig.stage import CREDENTIAL, KEY, Figure, Place
from tests.faults.rig.waiting import fetch, until, until_true
from walagent.message import Reply, Request, Stop, Text, ToolCall, Usage
from walagent.models.replies import COUNT_LIMIT
from walagent.testing import Answer, FakeProvider, Fault, Rule, call, in_turn

pytestmark = pytest.mark.scenario(13)
WIRES = pytest.mark.parametrize("wire", ["anthropic", "openai"])
SETTLED = """
select count(*) = %s
  from agent.run r join agent.attachment a on a.id = r.attachment_id
 where agent_internal.is_final(state) or a.paused and state = 'pending'
       or state = 'waiting_retry' and next_attempt_at > agent_internal.now() + interval '1 min'
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
        # A page of a proxy in place of an answer costs no attempt.
        attempt = 1 if name == "html" else 2
        yield Case(Agent(f"failed_{name}", once(fault), timeout=3), requests=2, attempt=attempt)
    poison = Agent("failed_always", [Fault(500)])
    yield Case(poison, "dead", requests=2, attempt=2, says="(attempt 2 of 2)")


def replies(wire: str) -> Iterator[Case]:
    """An answer, and a strange one."""
    some = Usage(1, 0, 0, 1)
    whole = ToolCall("c1", "note", {"what": "half a sen"})
    limited = "max_attempts=2, max_output_tokens=100"
    cut = Reply((Text("half a sen"),), Stop.LENGTH, some)
    stopped = " (the provider stopped it: content_filter)" if wire == "openai" else ""
    yield Case(Agent("cut_words", [cut], limited), "failed", says="cut off by its token limit")
    yield Case(Agent("cut_once", [cut, "ok"]), requests=2, steps="reply note reply")
    yield Case(
        Agent("cut_call", [Reply((whole,), Stop.LENGTH, some)], limited),
        "failed",
        says="cut off by its token limit",
        steps="reply result!",
    )
    yield Case(
        Agent("refused_words", [Reply((Text("I won't."),), Stop.REFUSAL, some)]),
        "failed",
        says=f"the model refused{stopped}: I won't.",
    )
    yield Case(
        Agent("refused_call", [Reply((Text("no"), whole), Stop.REFUSAL, some)]),
        "failed",
        says=f"the model refused{stopped}: no",
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
    none = Agent(
        "arguments_null", [calling(wire, "null"), "ok"]
    )  # as some write a call without any
    yield Case(none, requests=2, effects=1)
    twice = Agent("arguments_twice", [calling(wire, '{"what": "a", "what": "b"}'), "ok"])
    broken = Agent("arguments_broken", [in_turn(calling(wire, '{"what": '), "ok"), "ok"])
    if wire == "anthropic":  # its answer is one JSON document, so it is there or not
        yield Case(twice, requests=2, effects=1)
        yield Case(broken, requests=2, attempt=2)
    else:
        yield Case(twice, requests=2, steps="reply result! reply")
        yield Case(broken, requests=2, steps="reply result! reply")


@pytest.mark.slow
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
        await set_scene(place, wire, url_of(provider, wire), [case.agent for case in cases])
        async with working(place) as scene:
            for case in cases:
                await scene.write(case.agent.name)
            await until(place.conn, SETTLED, len(cases), alive=scene.daemon.is_alive)
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


# The provider is away for a while.

SLOTS = 20
AWAY, HERE = 200, 60  # runs


@dataclass(frozen=True, slots=True)
class Outage:
    """How a provider goes away.

    Args:
        answer: what it answers meanwhile; None: nobody listens.
        lasts: seconds.
        trials: how many requests it may see in that time, beside those that were on their way.
        attempts: how many of its attempts a run may lose.
        event: what is logged, once.
        timeout: seconds that a request may take; a busy machine answers no sooner than it can.
    """

    answer: "Answer | None"
    lasts: float
    trials: int
    attempts: int
    event: str
    timeout: int = 10


OUTAGES = [
    pytest.param(Outage(Fault(429), 4, 3, 0, "model.rate_limited"), id="limited"),
    pytest.param(
        Outage(Fault(429, "1"), 25, 6, 0, "model.rate_limited"),
        id="limited-long",
        marks=pytest.mark.slow,
    ),
    pytest.param(
        Outage(Fault(500), 12, 4, 1, "breaker.opened"), id="failing", marks=pytest.mark.slow
    ),
    pytest.param(
        Outage(Fault(stall=3600), 12, 4, 1, "breaker.opened", timeout=1),
        id="hanging",
        marks=pytest.mark.slow,
    ),
    pytest.param(Outage(None, 12, 4, 0, "breaker.opened"), id="gone", marks=pytest.mark.slow),
]


@pytest.mark.slow
@pytest.mark.parametrize("outage", OUTAGES)
async def test_an_outage_costs_few_requests_and_no_run_and_others_go_on(
    place: Place, outage: Outage, figure: Figure, request: pytest.FixtureRequest
) -> None:
    """Runs wait in the queue without a slot; one request finds out when it is over."""
    mood = Mood("ok")
    async with FakeProvider(["ok"], latency=0.2) as other, FakeProvider([mood]) as away:
        url, its = url_of(other, "openai"), url_of(away, "openai")
        agents = [Agent("here"), Agent("away", url=its, timeout=outage.timeout)]
        await set_scene(place, "openai", url, agents)
        async with working(place, slots=SLOTS) as scene:
            await scene.write("away")
            await scene.ended("away", 1)
            await scene.write("here", HERE)
            usual = await scene.ended("here", HERE)
            asked, meanwhile = await go_away(scene, outage, away, mood)
            first, all_of_them = await come_back(scene, outage, away, mood)
    name = request.node.callspec.id
    figure(f"{name}: requests while {AWAY} runs wait {outage.lasts:g} s", asked)
    figure(f"{name}: other models, beside as usual", meanwhile / usual, "times")
    figure(f"{name}: until the first run goes on", first, "s")
    figure(f"{name}: until all have ended", all_of_them, "s")
    assert asked <= SLOTS * 1.5 + outage.trials


async def go_away(
    scene: Scene, outage: Outage, away: FakeProvider, mood: Mood
) -> tuple[int, float]:
    """Let runs pile up while nobody answers; return what was asked, and how long others took."""
    began, before = monotonic(), away.requests
    if outage.answer is None:
        await away.stop()
    else:
        mood.now = outage.answer
    await scene.write("away", AWAY)
    await scene.write("here", HERE)
    meanwhile = await scene.ended("here", 2 * HERE)
    await scene.daemon.has_said(outage.event)
    assert await scene.gauge("walagent_model_calls_allowed", "away") <= 1
    is_open = await scene.gauge("walagent_model_breaker_open", "away")
    assert is_open == (outage.event == "breaker.opened")
    await pause(outage.lasts - (monotonic() - began))
    worn = await scene.worn("away")
    assert worn.claims <= 2 * SLOTS + outage.trials + 10, worn
    assert worn.attempts <= outage.attempts + 1, worn
    assert worn.given_up == 0, worn
    return away.requests - before, meanwhile


async def come_back(
    scene: Scene, outage: Outage, away: FakeProvider, mood: Mood
) -> tuple[float, float]:
    """End the outage; return how long the first run took to go on, and all of them to end."""
    mood.now = "ok"
    if outage.answer is None:
        await away.start(away.port)
    first = await scene.ended("away", 2)
    rest = await scene.ended("away", 1 + AWAY)
    worn = await scene.worn("away")
    assert worn.attempts <= outage.attempts + 1, worn
    assert worn.given_up == 0, worn
    assert scene.daemon.count(outage.event) == 1
    assert scene.daemon.count("breaker.closed") == (outage.event == "breaker.opened")
    assert await scene.gauge("walagent_model_breaker_open", "away") == 0
    return first, first + rest


@pytest.mark.slow
async def test_a_provider_that_cannot_be_reached_costs_no_attempt(place: Place) -> None:
    """Nobody listens, nobody knows the name, no TLS is spoken: mended while the daemon runs."""
    port = free_port()
    async with FakeProvider(["ok"]) as provider:
        url = url_of(provider, "openai")
        urls = {
            "nobody": f"http://127.0.0.1:{port}/v1",
            "name": "http://nobody.invalid/v1",
            "tls": url.replace("http:", "https:"),
        }
        once = "max_attempts=1"
        agents = [Agent(name, url=wrong, spec=once) for name, wrong in urls.items()]
        await set_scene(place, "openai", url, agents)
        async with working(place) as scene:
            for name in urls:
                await scene.write(name)
            tried = "select count(*) = 3 from agent.run where lease >= 3"
            await until(place.conn, tried, alive=scene.daemon.is_alive)
            assert provider.requests == 0
            for end in await ends(place, *urls):
                assert end.state in {"waiting_retry", "running", "pending"}
            await place.conn.execute(
                "update agent.model set base_url = %s where name in ('name', 'tls')", [url]
            )
            async with FakeProvider(["ok"]) as late:
                await late.stop()
                await late.start(port)
                for name in urls:
                    await scene.ended(name, 1)
            assert {end.attempt for end in await ends(place, *urls)} == {1}


# Keys.


@pytest.mark.slow
async def test_a_refused_key_pauses_its_agents_and_a_new_one_lets_them_go_on(
    place: Place, figure: Figure
) -> None:
    """One request for each run that has a slot, and no more, however many changes pile up.

    The agents are paused one after the other: slots that the first one left are taken by runs of
    the second, until a reply pauses that one, too.
    """
    keys = place.folder / "credentials"
    keys.mkdir()
    (keys / CREDENTIAL).write_text("not-the-key")
    async with FakeProvider(["ok"]) as provider:
        agents = [Agent(name, model="shared") for name in ("left", "right")]
        await set_scene(place, "anthropic", url_of(provider, "anthropic"), agents)
        environment = {"CREDENTIALS_DIRECTORY": str(keys)}
        async with working(place, slots=SLOTS, environment=environment) as scene:
            for agent in agents:
                await scene.write(agent.name, 50)
            await until(place.conn, ALL_PAUSED, alive=scene.daemon.is_alive)
            await until(place.conn, NONE_RUNS, alive=scene.daemon.is_alive)
            asked = provider.requests
            await scene.write("left", 20)
            await until(place.conn, INGESTED, 120, alive=scene.daemon.is_alive)
            for end in await ends(place, "left", "right"):
                assert end.state in {"pending", "waiting_retry"}
                assert (end.attempt, end.paused) == (0, True)
                assert "anthropic shared answered 401 authentication_error" in end.pause
                assert f"check the key in {CREDENTIAL}" in end.pause
            assert scene.daemon.count("attachment.paused") == 2
            assert provider.requests == asked
            # A new key, and the running daemon finds it.
            (keys / CREDENTIAL).write_text(KEY)
            for agent in agents:
                (await types(place, "agents", "resume", agent.name)).worked()
            await scene.ended("left", 70)
            await scene.ended("right", 50)
            assert (await scene.worn("left")).attempts == 1
    figure("refused key: requests of 100 runs of 2 agents", asked)
    assert asked <= SLOTS * len(agents)


ALL_PAUSED = "select bool_and(paused) from agent.attachment"
NONE_RUNS = "select not exists (select from agent.run where state = 'running')"
INGESTED = "select count(*) = %s from agent.run"


# One row that no provider answers.


async def test_a_poison_row_is_given_up_and_the_others_go_on(place: Place) -> None:
    """It is dead after its attempts; when its reason is mended, a person lets it go on."""
    mood = Mood(Fault(500))
    poison = Rule('"id":7,', [mood])
    async with FakeProvider(["ok"], rules=[poison]) as provider:
        await set_scene(place, "openai", url_of(provider, "openai"), [Agent("one")])
        async with working(place) as scene:
            await scene.write("one", 20)
            await scene.ended("one", 19)
            await until(place.conn, "select state = 'dead' from agent.run where key = '7'")
            await scene.write("one")
            await scene.ended("one", 20)
            assert provider.requests == 20 + 2
            mood.now = "ok"
            ((run,),) = await fetch(place.conn, "select id from agent.run where key = '7'")
            (await types(place, "runs", "retry", str(run))).worked()
            await scene.ended("one", 21)
            assert provider.requests == 20 + 3
            assert scene.daemon.count("breaker.opened") == 0


# The network between.


@pytest.mark.parametrize("wire", ["anthropic", pytest.param("openai", marks=pytest.mark.slow)])
async def test_an_answer_that_is_cut_anywhere_is_asked_for_again_and_no_other(
    place: Place, wire: str, chance: random.Random, figure: Figure
) -> None:
    """Status line, head, body, last byte: what was not stored is asked again, and nothing else."""
    names = [f"cut{number}" for number in range(10)]  # few for each: no breaker shall open
    places = [0, 1, 17, *(chance.randrange(18, 450) for _ in range(21))]
    async with FakeProvider([[call("note", what="a")], "ok"]) as provider:
        target = f"host=127.0.0.1 port={provider.port}"
        async with Proxy(target).listen() as proxy:
            url = url_of(provider, wire).replace(str(provider.port), str(proxy.port))
            agents = [Agent(name, spec="max_attempts=50") for name in names]
            await set_scene(place, wire, url, agents)
            proxy.cut_links(places)
            async with working(place) as scene:
                for name in names:
                    await scene.write(name, 3)
                for name in names:
                    await scene.ended(name, 3)
        found = await ends(place, *names)
        assert {" ".join(end.steps) for end in found} == {"reply result reply"}
        assert {end.effects for end in found} == {3}
        assert proxy.answers_cut >= 20
        assert provider.requests == 2 * len(found) + proxy.answers_cut
        assert sum(end.attempt - 1 for end in found) <= proxy.links_cut
    figure(f"answers cut, {wire}", proxy.answers_cut)


@pytest.mark.slow
@WIRES
async def test_a_provider_that_vanishes_without_a_word_is_given_up(place: Place, wire: str) -> None:
    """The call ends when its time is up, and the next one goes over a connection of its own."""
    async with FakeProvider(["ok"], latency=0.5) as provider:
        target = f"host=127.0.0.1 port={provider.port}"
        async with Proxy(target).listen() as proxy:
            url = url_of(provider, wire).replace(str(provider.port), str(proxy.port))
            await set_scene(place, wire, url, [Agent("half", timeout=2)])
            async with working(place) as scene:
                await scene.write("half")
                await until_true(partial(thinks, provider), "the provider has the request")
                for link in list(proxy.links):
                    link.leave_half_open()
                took = await scene.ended("half", 1)
                proxy.delay = 0.2
                await scene.write("half", 5)
                await scene.ended("half", 6)
        found = await ends(place, "half")
        assert [end.attempt for end in found] == [2, 1, 1, 1, 1, 1]
        assert took >= 2
        assert provider.requests == 1 + 6


async def thinks(provider: FakeProvider) -> bool:
    """Whether it is about to answer."""
    return provider.in_flight > 0
