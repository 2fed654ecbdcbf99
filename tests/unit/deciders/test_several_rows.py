"""One request for several rows, and the reply to each."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.deciders.several_rows import (
    SEVERAL,
    combined,
    is_first,
    is_left_out,
    number_name,
    replies_in,
)
from walagent.message import (
    Example,
    Message,
    Reply,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolSpec,
    Usage,
)

SCHEMA = {
    "type": "object",
    "properties": {"status": {"type": "string"}, "row": {"type": "integer"}},
    "required": ["status"],
    "additionalProperties": False,
}
ROW = ToolSpec("update_row", "Update the row.", SCHEMA)


def asked(text: str) -> Request:
    """The first request of a run."""
    return Request(
        "Be kind.",
        (Message("user", (Text(text),)),),
        tools=(ROW,),
        choice=ToolChoice("named", "update_row"),
        max_tokens=1000,
        examples=(Example("x", "update_row", {"status": "y"}),),
    )


def answered(*rows: object, name: str = SEVERAL) -> Reply:
    """A reply with entries."""
    call = ToolCall("c", name, {"rows": list(rows)})
    return Reply((call,), Stop.TOOL, Usage(100, 10, 5, 21), model="m", tier="flex")


def test_a_request_has_each_row_with_its_number() -> None:
    """And a number that no column is named as, in what it asks for and in the examples."""
    whole = combined([asked("one"), asked("two")], 1500)
    assert whole.messages == (Message("user", (Text("Row 1:\none\n\nRow 2:\ntwo"),)),)
    assert whole.system.startswith("Be kind. You are given several rows")
    assert whole.max_tokens == 1500
    assert whole.choice == ToolChoice("named", SEVERAL)
    (tool,) = whole.tools
    entry = tool.input_schema["properties"]["rows"]["items"]
    assert list(entry["properties"]) == ["row_", "status", "row"]
    assert entry["required"] == ["row_", "status"]
    assert entry["additionalProperties"] is False
    assert whole.examples[0].arguments == {"rows": [{"row_": 1, "status": "y"}]}
    assert number_name(ROW) == "row_"


def test_each_row_has_its_answer_and_its_part() -> None:
    """As if its own call had been answered."""
    reply = answered({"row_": 2, "status": "b"}, {"row_": 1, "row": 7, "status": "a"})
    first, second = replies_in(reply, [asked("one"), asked("two")])
    assert first.calls == (ToolCall("c_1", "update_row", {"row": 7, "status": "a"}),)
    assert second.calls == (ToolCall("c_2", "update_row", {"status": "b"}),)
    assert (first.usage, second.usage) == (Usage(50, 5, 3, 11), Usage(50, 5, 2, 10))
    assert (first.rows, first.tier, first.model) == (2, "flex", "m")


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (Reply((Text("I would rather not."),), Stop.END), "no answer"),
        (Reply((Text("No."),), Stop.REFUSAL, why="filter"), "refused (filter)"),
        (
            Reply((ToolCall("c", SEVERAL, None, raw="{"),), Stop.LENGTH),
            "cut off by its token limit",
        ),
        (answered(name="update_row"), "no answer"),
        (
            answered(
                {"row_": 0}, {"row_": 3}, {"row_": True}, {"row_": "1"}, {"row_": 1.0}, {}, "x", 1
            ),
            "no answer",
        ),
        (answered({"row_": 1}, {"row_": 1}, {"row_": 2}, {"row_": 2}), "several answers"),
        (Reply((ToolCall("c", SEVERAL, {"rows": {"row_": 1}}),), Stop.TOOL), "no answer"),
    ],
)
def test_what_is_no_answer_to_one_row_is_left_out(reply: Reply, why: str) -> None:
    """Nothing is guessed, and the row has its part of the tokens."""
    reply = replace(reply, usage=Usage(101, output_tokens=7))
    found = replies_in(reply, [asked("one"), asked("two")])
    assert all(is_left_out(each) for each in found)
    assert [each.why for each in found] == [why, why]
    assert sum((each.usage for each in found), Usage()) == reply.usage


def test_a_call_that_came_whole_is_used_though_the_reply_was_cut_off() -> None:
    """What is cut off is what followed."""
    reply = replace(answered({"row_": 1, "status": "a"}), stop=Stop.LENGTH)
    first, second = replies_in(reply, [asked("one"), asked("two")])
    assert (first.stop, is_left_out(first), is_left_out(second)) == (Stop.TOOL, False, True)


def test_entries_of_several_calls_count_together() -> None:
    """A model may call twice; a row that is in both has no answer."""
    one = ToolCall("a", SEVERAL, {"rows": [{"row_": 1}, {"row_": 2}]})
    two = ToolCall("b", SEVERAL, {"rows": [{"row_": 2}]})
    found = replies_in(Reply((one, two), Stop.TOOL), [asked("one"), asked("two")])
    assert [is_left_out(each) for each in found] == [False, True]


def test_later_calls_and_other_tools_are_made_alone() -> None:
    """Only a row, and one way to answer."""
    first = asked("one")
    assert is_first(first)
    assert not is_first(replace(first, messages=first.messages * 3))
    assert not is_first(replace(first, tools=(ROW, replace(ROW, name="other"))))
    assert not is_first(replace(first, tools=()))


@given(st.tuples(*[st.integers(0, 10_000)] * 4), st.integers(1, 100))
def test_shares_add_up_and_are_even(tokens: tuple[int, int, int, int], parts: int) -> None:
    """No token is lost, and none is counted twice."""
    shares = Usage(*tokens).shares(parts)
    assert sum(shares, Usage()) == Usage(*tokens)
    totals = [each.output_tokens for each in shares]
    assert max(totals) - min(totals) <= 1
