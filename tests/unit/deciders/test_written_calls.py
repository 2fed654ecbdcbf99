"""Calls that a model writes into its text are told from texts."""

import pytest

from walagent.deciders.written_calls import written_call

TOOLS = {"note", "refund", "stop"}

WRITTEN = [
    '<tool_call>\n{"name": "note", "arguments": {"t": "x"}}\n</tool_call>',
    'I will do that.\n<tool_call>{"name": "note", "arguments": {}}</tool_call>',
    "<tool_call>\n<function=note>\n<parameter=t>\nx\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>note\n<arg_key>t</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
    '<function=note>{"t": "x"}</function>',
    '<function_calls><invoke name="note"><parameter name="t">x</parameter></invoke>',
    '[TOOL_CALLS][{"name": "note", "arguments": {"t": "x"}}]',
    '[TOOL_CALLS]note{"t": "x"}',
    '[TOOL_REQUEST]{"name": "note", "arguments": {}}[END_TOOL_REQUEST]',
    '<|python_tag|>{"name": "note", "parameters": {"t": "x"}}',
    '{"name": "note", "parameters": {"t": "x"}}',
    '{"name": "note", "arguments": {"t": "x"}}',
    '[{"name": "note", "arguments": {"t": "x"}}]',
    '{"tool_calls": [{"function": {"name": "note", "arguments": "{}"}}]}',
    '```json\n{"name": "note", "arguments": {"t": "x"}}\n```',
    "<\uff5ctool\u2581calls\u2581begin\uff5c><\uff5ctool\u2581call\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>note\n```json\n{}\n```",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.note:0<|tool_call_argument_begin|>{}",
    '<|channel|>commentary to=functions.note <|constrain|>json<|message|>{"t": "x"}',
]

TEXTS = [
    "",
    "Noted.",
    "I called note and then stop.",
    "The tag is <tool_call>, which nobody uses here.",
    '<tool_call>{"name": "unknown", "arguments": {}}</tool_call>',
    '{"name": "note"}',
    '{"name": "Ada", "arguments": {}}',
    '{"status": "done"}',
    "[1, 2]",
    "{not json",
    '```json\n{"status": "done"}\n```',
    "The footnotes and notes are done.",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_call_as_text_is_found(text: str) -> None:
    """Whatever the model was trained to write."""
    assert written_call(text, TOOLS) == "note"


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_a_text(text: str) -> None:
    """Also one that speaks of tools, or is JSON."""
    assert written_call(text, TOOLS) is None
