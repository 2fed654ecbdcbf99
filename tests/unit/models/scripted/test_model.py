"""The scripted model: answers by place, from Python and from a file."""

import asyncio
from pathlib import Path

import pytest

from walagent.errors import (
    ConfigError,
    ModelLimitedError,
    ModelRejectedError,
    ModelUnauthorizedError,
    ModelUnavailableError,
)
from walagent.message import (
    Message,
    ModelSpec,
    Reply,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolResult,
    Usage,
)
from walagent.models import build_model
from walagent.testing import Fault, Rule, ScriptedModel, call, in_turn, read_script

ASKED = (Message("user", (Text("refund me"),)),)
CALLED = (
    *ASKED,
    Message("assistant", (ToolCall("1", "find", {}),)),
    Message("user", (ToolResult("1", "find", "cancel"),)),
)


async def test_the_place_in_the_transcript_chooses_the_answer() -> None:
    """So a run that starts again hears the same again."""
    model = ScriptedModel([call("find", id=7), "done"])
    for _ in range(2):
        assert (await model.complete(Request("", ASKED))).calls[0].arguments == {"id": 7}
    assert (await model.complete(Request("", CALLED))).text == "done"
    assert len(model.requests) == 3


async def test_one_reply_may_hold_words_and_several_calls() -> None:
    """With ids that differ, and are the same each time."""
    model = ScriptedModel([["let me", call("a"), call("b")]])
    reply = await model.complete(Request("", ASKED))
    assert reply.parts == (
        Text("let me"),
        ToolCall("call_1_1", "a", {}),
        ToolCall("call_1_2", "b", {}),
    )
    assert reply.stop is Stop.TOOL


async def test_an_answer_may_be_made_of_the_request() -> None:
    """Or be a reply as it is, or an error."""
    exact = Reply((Text("x"),), Stop.LENGTH, Usage(1, 2, 3, 4))
    model = ScriptedModel([lambda request: request.system, exact])
    assert (await model.complete(Request("sys", ASKED))).text == "sys"
    assert await model.complete(Request("", CALLED)) == exact
    with pytest.raises(ModelLimitedError):
        await ScriptedModel([ModelLimitedError("slow")]).complete(Request("", ASKED))


async def test_a_script_that_ran_out_says_so() -> None:
    """A test that asks too often must fail."""
    with pytest.raises(ModelRejectedError, match="has 0 replies, this is 1"):
        await ScriptedModel([]).complete(Request("", ASKED))


async def test_retries_hear_the_answers_in_turn() -> None:
    """The place is the same, the call is another."""
    model = ScriptedModel([in_turn(ModelUnavailableError("down"), "up")])
    with pytest.raises(ModelUnavailableError):
        await model.complete(Request("", ASKED))
    for _ in range(2):
        assert (await model.complete(Request("", ASKED))).text == "up"


async def test_rules_go_by_what_was_said_and_count_from_there() -> None:
    """Each turn of a conversation is answered anew; a tool's words choose nothing."""
    rules = (Rule("cancel", ["cancelled"]), Rule("refund", [call("find"), "refunded"]))
    model = ScriptedModel(["what?"], rules=rules)
    assert (await model.complete(Request("", CALLED))).text == "refunded"
    again = (*CALLED, Message("assistant", (Text("refunded"),)), *ASKED)
    assert (await model.complete(Request("", again))).calls[0].name == "find"
    other = (*again, Message("assistant", (Text("x"),)), Message("user", (Text("cancel"),)))
    assert (await model.complete(Request("", other))).text == "cancelled"
    assert (await model.complete(Request("", (Message("user", (Text("hi"),)),)))).text == "what?"


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(429, "3"), ModelLimitedError),
        (Fault(500), ModelUnavailableError),
        (Fault(401), ModelUnauthorizedError),
        (Fault(400), ModelRejectedError),
        (Fault(404), ModelUnauthorizedError),
        (Fault(400, message="Your credit balance is too low"), ModelUnauthorizedError),
        (Fault(cut=True), ModelUnavailableError),
        (Fault(reply="x", cut_at=-1), ModelUnavailableError),
        (Fault(drop=True), ModelUnavailableError),
        (Fault(200, body=b"{}"), ModelUnavailableError),
        (Fault(stall=60), ModelUnavailableError),
    ],
    ids=str,
)
async def test_a_fault_is_the_error_that_a_provider_makes_of_it(
    fault: Fault, expected: type[Exception]
) -> None:
    """So one script serves both the model and the fake provider."""
    with pytest.raises(expected) as caught:
        await ScriptedModel([fault]).complete(Request("", ASKED, timeout=0.01))
    if isinstance(caught.value, ModelLimitedError):
        assert caught.value.retry_after == 3


async def test_latency_ends_with_the_requests_timeout() -> None:
    """As it would with a real provider."""
    model = ScriptedModel(["x"], latency=60)
    with pytest.raises(ModelUnavailableError, match="timeout"):
        await asyncio.wait_for(model.complete(Request("", ASKED, timeout=0.01)), 5)


SCRIPT = """
latency: 0.001
usage: {input_tokens: 7, output_tokens: 3}
rules:
  - match: refund
    replies:
      - call: refund_user
        arguments: {user_id: 7}
      - The money is on its way.
replies:
  - - Let me look.
    - call: lookup
  - fault: {status: 429, retry_after: "3"}
"""


async def test_a_script_is_read_from_a_file(tmp_path: Path) -> None:
    """The one that the module's documentation shows, and it is a provider like any other."""
    path = tmp_path / "script.yaml"
    path.write_text(SCRIPT)
    spec = ModelSpec("trial", "scripted", "x", base_url=str(path))
    model = build_model(spec, environ={})
    reply = await model.complete(Request("", ASKED))
    assert reply.calls == (ToolCall("call_1_0", "refund_user", {"user_id": 7}),)
    assert reply.usage == Usage(7, 0, 0, 3)
    assert (await model.complete(Request("", CALLED))).text == "The money is on its way."
    hello = (Message("user", (Text("hi"),)),)
    assert (await model.complete(Request("", hello))).text == "Let me look."


def test_every_fault_can_be_written_in_a_file(tmp_path: Path) -> None:
    """With the names that it has in Python."""
    path = tmp_path / "script.yaml"
    path.write_text("""
replies:
  - fault: {status: 529, retry_after: soon, code: c, message: m, headers: {x-a: 1}, body: b}
  - fault: {reply: [hm, {call: find}], stall: 1, drip: 0.5, cut: true, cut_at: -1, drop: true}
""")
    assert read_script(path).replies == (
        Fault(529, "soon", "c", "m", {"x-a": "1"}, b"b"),
        Fault(reply=["hm", call("find")], stall=1, drip=0.5, cut=True, cut_at=-1, drop=True),
    )


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[]", "this should be a mapping with latency"),
        ("reply: []", "unknown key 'reply'; known: latency, pace, usage, rules, replies"),
        ("replies: x", "replies: this should be a list"),
        ("replies: [{call: 7}]", "reply 1: this should be a text, or a call"),
        ("replies: [a, {say: 7}]", "reply 2: unknown key 'say'"),
        ("replies: [{fault: {state: 7}}]", "unknown key 'state'"),
        ("replies: [{fault: {cut_at: half}}]", "reply 1: this should be a whole number"),
        ("replies: [{fault: {reply: 7}}]", "reply 1: this should be a mapping with call"),
        ("latency: -1", "latency: this should be a number"),
        ("rules: [{match: 7, replies: []}]", "rule 1: this should be a text to match"),
        ("replies: [", "cannot be read"),
        ("usage: {tokens: 1}", "unknown key 'tokens'"),
    ],
)
def test_a_file_that_is_not_a_script_is_reported_with_its_place(
    tmp_path: Path, text: str, complaint: str
) -> None:
    """And what would be right there."""
    path = tmp_path / "script.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=complaint):
        read_script(path)


def test_a_scripted_model_without_a_script_is_refused(tmp_path: Path) -> None:
    """Before the first run asks it."""
    with pytest.raises(ConfigError, match="script x cannot be read"):
        build_model(ModelSpec("trial", "scripted", "x"), environ={})
    missing = ModelSpec("trial", "scripted", "x", parameters={"script": str(tmp_path / "no")})
    with pytest.raises(ConfigError, match="cannot be read"):
        build_model(missing, environ={})


async def test_a_rule_can_be_for_one_agent(tmp_path: Path) -> None:
    """By its prompt, with or without a word of the user; each turn of a thread starts anew."""
    script = tmp_path / "script.yaml"
    script.write_text(
        "rules:\n"
        "- {prompt: You triage, match: refund, replies: [Refunding.]}\n"
        "- {prompt: You sort, replies: [Sorted.]}\n"
        "replies: [Anybody.]\n"
    )
    model = ScriptedModel.of(read_script(script))
    later = (*ASKED, Message("assistant", (Text("So."),)), Message("user", (Text("And now?"),)))
    for system, said, text in (
        ("You triage.", ASKED, "Refunding."),
        ("You sort.", later, "Sorted."),
        ("You write.", ASKED, "Anybody."),
    ):
        assert (await model.complete(Request(system, said))).text == text
    script.write_text("rules: [{replies: [x]}]")
    with pytest.raises(ConfigError, match="match or prompt"):
        read_script(script)
