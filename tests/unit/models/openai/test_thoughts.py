"""Reasoning that a model writes into its text is kept apart, in one piece and in many."""

from typing import Any

import pytest

from walagent.message import Message, ModelSpec, Request, Text, Thinking
from walagent.models.openai.request_body import body_of
from walagent.models.openai.response_body import reply_of
from walagent.models.written_thoughts import TextFilter, thoughts_and_text

SPEC = ModelSpec("m", "openai", "qwen3")
ASKED = Message("user", (Text("which?"),))

CASES = [
    ("The answer is 7.", "", "The answer is 7."),
    ("  padded", "", "  padded"),
    ("<think>secret</think>\nThe answer is 7.", "secret", "The answer is 7."),
    ("\n<think>\na\n</think>\n\n7", "a", "7"),
    ("<THINKING>a</THINKING>7", "a", "7"),
    ("<reasoning>a</reasoning>7", "a", "7"),
    ("<think></think>7", "", "7"),
    ("<think>a</think><think>b</think>7", "a\n\nb", "7"),
    ("<think>never ends", "never ends", ""),
    ("<b>bold</b> 7", "", "<b>bold</b> 7"),
    ("<thinker>7</thinker>", "", "<thinker>7</thinker>"),
    ("Use <think> and </think> for that.", "", "Use <think> and </think> for that."),
    ("<", "", "<"),
    ("<th", "", "<th"),
    ("", "", ""),
]


@pytest.mark.parametrize(("content", "thoughts", "text"), CASES)
def test_reasoning_before_a_text_is_no_part_of_it(content: str, thoughts: str, text: str) -> None:
    """Results, threads and pages have the text."""
    assert thoughts_and_text(content) == (thoughts, text)


@pytest.mark.parametrize(("content", "text"), [(case[0], case[2]) for case in CASES])
@pytest.mark.parametrize("size", [1, 3, 7, 1_000])
def test_who_watches_sees_the_same_text(content: str, text: str, size: int) -> None:
    """Wherever the pieces end."""
    pieces: list[str] = []
    shown = TextFilter(pieces.append)
    for at in range(0, len(content), size):
        shown.write(content[at : at + size])
    shown.end()
    assert "".join(pieces) == text


def test_a_template_that_opens_the_reasoning_itself() -> None:
    """Then only the end of it is in the answer."""
    assert thoughts_and_text("so 7\n</think>\n\nThe answer is 7.") == ("so 7", "The answer is 7.")


@pytest.mark.parametrize(
    "message",
    [
        {"content": "<think>secret</think>7"},
        {"content": "7", "reasoning_content": "secret"},
        {"content": "7", "reasoning": "secret"},
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "secret"}]},
                {"type": "text", "text": "7"},
            ]
        },
    ],
    ids=str,
)
def test_reasoning_is_a_part_of_its_own(message: dict[str, Any]) -> None:
    """Whichever way the server writes it."""
    reply = reply_of(
        {"choices": [{"message": message, "finish_reason": "stop"}]}, SPEC, Request("", ())
    )
    assert reply.text == "7"
    assert ["secret" in str(part.raw) for part in reply.parts if isinstance(part, Thinking)] == [
        True
    ]


def test_what_stood_in_the_text_is_not_sent_back() -> None:
    """Templates of such models leave it out, and servers do not know the field."""
    given = {
        "choices": [{"message": {"content": "<think>secret</think>7"}, "finish_reason": "stop"}]
    }
    reply = reply_of(given, SPEC, Request("", ()))
    request = Request("", (ASKED, Message("assistant", reply.parts), ASKED))
    assert "secret" not in str(body_of(request, SPEC, official=False))
