"""What both providers do alike to a request."""

from types import MappingProxyType

import pytest

from walagent.errors import ModelRejectedError
from walagent.message import Example, Message, ModelSpec, Request, Text, ToolCall, ToolResult
from walagent.models import prompt

SPEC = ModelSpec("m", "openai", "x", parameters={"temperature": 0, "seed": 1})


def test_without_examples_the_system_prompt_is_untouched() -> None:
    """Byte for byte."""
    assert prompt.system_text(Request(" s \n", ())) == " s \n"


def test_examples_are_rendered_the_same_whatever_the_order_of_their_keys() -> None:
    """A prompt cache sees one byte of difference."""
    one = Example('say "x"\nnow', "t", {"b": 1, "a": [2]})
    two = Example('say "x"\nnow', "t", MappingProxyType({"a": [2], "b": 1}))
    first = prompt.system_text(Request("s", (), examples=(one,)))
    assert first == prompt.system_text(Request("s", (), examples=(two,)))
    assert first.endswith('Text: "say \\"x\\"\\nnow"\nCall: t {"a":[2],"b":1}')


def test_neighbours_of_one_role_become_one_turn_with_results_first() -> None:
    """However the engine recorded them."""
    result, words = ToolResult("1", "t", "r"), Text("w")
    messages = (
        Message("assistant", (ToolCall("1", "t", {}),)),
        Message("user", (words,)),
        Message("user", (result,)),
        Message("assistant", (Text("x"),)),
    )
    joined = list(prompt.turns(messages))
    assert [turn.role for turn in joined] == ["assistant", "user", "assistant"]
    assert joined[1].parts == (result, words)


def test_a_growing_transcript_keeps_its_turns() -> None:
    """All turns but the last are the same in the next request."""
    messages = (
        Message("user", (Text("q"),)),
        Message("assistant", (ToolCall("1", "t", {}), ToolCall("2", "t", {}))),
        Message("user", (ToolResult("1", "t", "a"),)),
        Message("user", (ToolResult("2", "t", "b"),)),
        Message("assistant", (Text("x"),)),
        Message("user", (Text("y"),)),
    )
    for length in range(1, len(messages)):
        now, later = (list(prompt.turns(messages[:n])) for n in (length, length + 1))
        assert later[: len(now) - 1] == now[:-1]
        assert later[len(now) - 1].parts[: len(now[-1].parts)] == now[-1].parts


def test_the_requests_parameters_go_before_the_models() -> None:
    """And one that is null takes a default out of the body."""
    given = prompt.parameters(SPEC, Request("", (), parameters={"seed": 2}), frozenset())
    assert given == {"temperature": 0, "seed": 2}
    assert prompt.assembled({"a": 1, "b": 2}, {"b": None, "c": 3}) == {"a": 1, "c": 3}


def test_a_parameter_cannot_replace_what_is_ours() -> None:
    """Or a persona could rewrite its own transcript or lift its limits."""
    with pytest.raises(ModelRejectedError, match="parameter messages"):
        prompt.parameters(
            SPEC, Request("", (), parameters={"messages": []}), frozenset({"messages"})
        )


def test_missing_and_repeated_call_ids_are_made_up_the_same_each_time() -> None:
    """Results find their call by its id; a replay must find the same."""
    messages = (Message("user", (Text("q"),)), Message("assistant", (ToolCall("a", "t", {}),)))
    request = Request("", messages)
    ids = prompt.call_ids(["a", "", None, "b", "b", 7], request)
    assert ids == ["call_2_0", "call_2_1", "call_2_2", "b", "call_2_4", "call_2_5"]
    assert prompt.call_ids(["a", "", None, "b", "b", 7], request) == ids
