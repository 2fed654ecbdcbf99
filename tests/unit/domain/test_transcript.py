"""Steps to messages and back."""

import json
from itertools import pairwise

import pytest

from tests.helpers.build import Steps, wants
from walagent.domain.run import StepKind
from walagent.domain.transcript import messages, reply_from_json, reply_to_json, result_to_json
from walagent.message import Message, Reply, Stop, Text, Thinking, ToolCall, ToolResult

CALL = wants()
FIRST = Message("user", (Text("row"),))

REPLIES = [
    Reply((), Stop.END),
    Reply((Text("Done."),), Stop.END, model="m-1", note="not a language model"),
    Reply((Text("a"), CALL, wants(call_id="c2", amount=1.5)), Stop.TOOL),
    Reply((ToolCall("c", "f", None, "{broken"),), Stop.TOOL),
    Reply((ToolCall("c", "f", {}),), Stop.TOOL),
    Reply((Thinking("anthropic", {"signature": "x", "text": "hm"}), Text("ok")), Stop.LENGTH),
    Reply((Text("no"),), Stop.REFUSAL),
]


@pytest.mark.parametrize("reply", REPLIES)
def test_a_reply_comes_back_as_it_was(reply: Reply) -> None:
    """Through JSON and PostgreSQL, but for usage, which has columns of its own."""
    assert reply_from_json(json.loads(json.dumps(reply_to_json(reply)))) == reply


def test_a_run_without_steps_says_only_what_changed() -> None:
    """The data block is all that the model is shown."""
    assert messages("row", []) == (FIRST,)


def test_replies_and_results_take_turns() -> None:
    """All results of one reply are one message of the user's side, in their order."""
    other = wants(call_id="c2")
    steps = (
        Steps()
        .reply("I look.", CALL, other)
        .result(CALL, "one")
        .result(other, "two", is_error=True)
        .reply("Done.")
    )
    assert messages("row", steps) == (
        FIRST,
        Message("assistant", (Text("I look."), CALL, other)),
        Message(
            "user",
            (
                ToolResult("c1", "refund", "one"),
                ToolResult("c2", "refund", "two", is_error=True),
            ),
        ),
        Message("assistant", (Text("Done."),)),
    )


def test_what_is_not_said_to_the_model_is_not_shown() -> None:
    """Intents, questions to people, decisions and errors are ours."""
    steps = (
        Steps()
        .reply(CALL)
        .approval(CALL)
        .decision(CALL, "approved")
        .intent(CALL)
        .add(StepKind.ERROR, {"reason": "x"})
        .result(CALL)
    )
    assert messages("row", steps) == messages("row", Steps().reply(CALL).result(CALL))


def test_a_note_is_said_by_the_user() -> None:
    """A correction follows the words that it corrects."""
    steps = Steps().reply("I would.").note(text="Call a tool.", correction=True)
    assert messages("row", steps)[2:] == (Message("user", (Text("Call a tool."),)),)


@pytest.mark.parametrize("said", [(), (" \n",)])
def test_an_empty_reply_is_shown_as_one(said: tuple[str, ...]) -> None:
    """No provider takes a turn without words, nor two turns of one side in a row."""
    found = messages("open", Steps().reply(*said).note(text="Go on.", correction=True))
    assert [message.role for message in found] == ["user", "assistant", "user"]
    assert found[1].parts[-1] == Text("(an empty answer)")


def test_the_messages_only_grow_at_their_end() -> None:
    """So the prefix of each request is that of the one before, and prompt caches hit."""
    steps = Steps().reply("a", CALL).result(CALL).reply("b").note(text="c").retried().reply("d")
    shown = [messages("row", steps[:n]) for n in range(len(steps) + 1)]
    flat = [[(turn.role, part) for turn in turns for part in turn.parts] for turns in shown]
    for before, after in pairwise(flat):
        assert after[: len(before)] == before


def test_after_a_retry_the_user_speaks_last() -> None:
    """A model that has said its last words is asked again; not every provider would go on."""
    last = messages("row", Steps().reply("I", stop=Stop.LENGTH).retried())[-1]
    assert last.role == "user"


@pytest.mark.parametrize(
    "steps",
    [
        Steps().retried(),
        Steps().reply(CALL).retried(),
        Steps().reply(CALL).result(CALL).retried(),
        Steps().reply(CALL).retried().result(CALL),
    ],
)
def test_a_retry_says_nothing_where_the_model_waits_for_an_answer(steps: Steps) -> None:
    """A result follows its call, with nothing between them."""
    plain = Steps(step for step in steps if step.kind is not StepKind.NOTE)
    assert messages("row", steps) == messages("row", plain)


def test_two_retries_say_it_once() -> None:
    """However often a person tried."""
    once = messages("row", Steps().reply("I").retried())
    assert messages("row", Steps().reply("I").retried().retried()) == once


def test_a_result_names_its_call() -> None:
    """What is recorded is what the model is shown."""
    assert result_to_json(CALL, "done", is_error=False) == {
        "call_id": "c1",
        "name": "refund",
        "content": "done",
        "is_error": False,
    }
