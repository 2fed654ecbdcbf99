"""Tools as providers take them, and calls as they come back."""

import re
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from walagent.errors import ModelRejectedError
from walagent.message import (
    Example,
    Json,
    Message,
    ModelSpec,
    Reply,
    Request,
    Stop,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
)
from walagent.models.anthropic.request_body import TOOLS as ANTHROPIC
from walagent.models.credentials import Endpoint
from walagent.models.openai.tool_rules import COMMON, GEMINI, MISTRAL, OPENAI, rules_of
from walagent.models.schema_writer import ToolRules
from walagent.models.tool_schemas import presented
from walagent.models.wire_format import need_schema

RULES = {
    "anthropic": ANTHROPIC,
    "common": COMMON,
    "gemini": GEMINI,
    "mistral": MISTRAL,
    "openai": OPENAI,
}
TEXT = {"type": "string"}
POINT = {
    "type": "object",
    "properties": {"x y": {"type": "number"}, "ä": {}},
    "required": ["x y"],
    "additionalProperties": False,
}
AWKWARD: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "Due Date": {"type": ["string", "null"], "format": "date", "description": "When"},
        "Straße": TEXT,
        "名前": TEXT,
        "1st": TEXT,
        "a.b": TEXT,
        "a_b": TEXT,
        "x" * 70: TEXT,
        "any": {},
        "empty": {"type": "object"},
        "untyped": {"enum": ["a", "b"]},
        "numbers": {"enum": [1, 2]},
        "maybe": {"type": ["string", "null"], "enum": ["a", None]},
        "blank": {"type": "string", "enum": ["", "a"]},
        "fixed": {"const": "a"},
        "point": POINT,
        "list": {"type": "array", "items": POINT},
        "bare": {"type": "array"},
        "either": {"anyOf": [POINT, {"type": "null"}]},
        "one": {"oneOf": [{"type": "integer"}, {"type": "string"}]},
        "two": {"type": ["string", "integer"]},
        "ref": {"$ref": "#/$defs/point", "description": "Where"},
        "circle": {"$ref": "#/$defs/tree"},
        "uuid": {"type": "string", "format": "uuid"},
        "$schema": TEXT,
    },
    "required": ["Due Date", "any"],
    "$defs": {
        "point": POINT,
        "tree": {
            "type": "object",
            "properties": {
                "name": TEXT,
                "parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
        },
    },
}
VALUES: dict[str, Json] = {
    "Due Date": None,
    "Straße": "Allee 1",
    "名前": "x",
    "1st": "x",
    "a.b": "dot",
    "a_b": "line",
    "x" * 70: "long",
    "any": {"deep": [1, None, {"ä": True}]},
    "empty": {"k": 1},
    "numbers": 2,
    "point": {"x y": 1.5, "ä": [1]},
    "list": [{"x y": 1, "ä": "text"}],
    "either": {"x y": 2},
    "ref": {"x y": 3, "ä": None},
    "circle": {"name": "a", "parts": [{"name": "b"}]},
}
LONG = "schema_" * 10 + "function"
TOOL = ToolSpec(LONG, "Do it.", AWKWARD)
ASKED = Message("user", (Text("go"),))


def request(*tools: ToolSpec, **fields: Json) -> Request:
    """Write a request."""
    return Request("", (ASKED,), tools, **fields)


@pytest.mark.parametrize("name", RULES)
def test_what_is_sent_is_what_the_provider_takes(name: str) -> None:
    """Names, types and keys; at every depth."""
    rules = RULES[name]
    (sent,) = presented(request(TOOL), rules).request.tools
    assert rules.name.fullmatch(sent.name)
    need_schema(sent.input_schema, rules.key, "parameters")
    assert sent.input_schema["type"] == "object"
    Draft202012Validator.check_schema(dict(sent.input_schema))


@pytest.mark.parametrize("name", RULES)
def test_a_call_comes_back_under_our_names(name: str) -> None:
    """What was written otherwise on the way out is read back, and sent again the same way."""
    call = ToolCall("call_1", LONG, VALUES)
    turns = (ASKED, Message("assistant", (call,)))
    asked = presented(Request("", turns, (TOOL,)), RULES[name])
    sent = asked.request.messages[1].parts[0]
    assert isinstance(sent, ToolCall)
    assert sent.name == asked.request.tools[0].name
    known = asked.request.tools[0].input_schema["properties"]
    assert set(sent.arguments or {}) <= set(known)
    read = asked.read(Reply((Text("so"), sent), Stop.TOOL))
    assert [(one.name, one.arguments) for one in read.calls] == [(LONG, VALUES)]


def test_gemini_gets_its_subset_and_nothing_else() -> None:
    """It refuses a field that it does not know, and a list that is not one of texts."""

    def check(schema: dict[str, Any]) -> None:
        assert schema.keys() <= (GEMINI.keywords or frozenset())
        assert isinstance(schema.get("type", ""), str)
        assert all(isinstance(one, str) and one for one in schema.get("enum", ()))
        assert schema.get("format", "date-time") == "date-time"
        for one in schema.get("properties", {}).values():
            check(one)
        for one in schema.get("anyOf", ()):
            check(one)
        if "items" in schema:
            check(schema["items"])

    schema = presented(request(TOOL), GEMINI).request.tools[0].input_schema
    check(dict(schema))
    known = schema["properties"]
    assert known["Due_Date"]["nullable"] is True
    assert known["Due_Date"]["description"] == '"Due Date": When; format date'
    assert known["Strasse"]["description"] == '"Straße"'
    assert known["untyped"] == {"type": "string", "enum": ["a", "b"]}
    assert known["numbers"] == {"type": "integer", "description": "one of 1, 2"}
    assert known["maybe"] == {"type": "string", "enum": ["a"], "nullable": True}
    assert known["any"]["type"] == "string"
    assert "JSON" in known["any"]["description"]


def test_a_plain_tool_is_sent_as_it_is() -> None:
    """Prompt caches match bytes, and people read what is sent."""
    schema = {"type": "object", "properties": {"q": TEXT}, "required": ["q"]}
    plain = request(ToolSpec("find", "Find it.", schema), choice=ToolChoice("named", "find"))
    for rules in RULES.values():
        assert presented(plain, rules).request == plain


def test_all_that_names_a_tool_is_written_the_same_way() -> None:
    """The choice, the examples, and the calls and results of before."""
    call = ToolCall("call_1", LONG, {"Straße": "x"})
    result = ToolResult("call_1", LONG, "ok")
    turns = (ASKED, Message("assistant", (call,)), Message("user", (result,)))
    example = Example("text", LONG, {"Straße": "y"})
    given = Request("", turns, (TOOL,), ToolChoice("named", LONG), examples=(example,))
    sent = presented(given, MISTRAL).request
    (name,) = [tool.name for tool in sent.tools]
    made, answered = sent.messages[1].parts[0], sent.messages[2].parts[0]
    assert isinstance(made, ToolCall)
    assert isinstance(answered, ToolResult)
    assert {name} == {sent.choice.name, made.name, answered.name, sent.examples[0].tool}
    assert made.id == answered.call_id
    assert re.fullmatch("[A-Za-z0-9]{9}", made.id)
    assert sent.examples[0].arguments == {"Strasse": "y"}


def test_no_two_names_become_one() -> None:
    """A call that could mean two tools would be one of them by chance."""
    names = ["a b", "a_b", "a-b", "é", "e", "ё", "x" * 80, "x" * 81, "1", "_1"]
    tools = [ToolSpec(name, "", {"type": "object", "properties": {}}) for name in names]
    asked = presented(request(*tools), GEMINI)
    sent = [tool.name for tool in asked.request.tools]
    assert len(set(sent)) == len(names)
    calls = tuple(ToolCall(str(at), name, {}) for at, name in enumerate(sent))
    assert [call.name for call in asked.read(Reply(calls, Stop.TOOL)).calls] == names


def test_more_tools_than_the_provider_takes_are_refused_before_a_call() -> None:
    """It would answer 400, for each row."""
    tools = [ToolSpec(f"t{at}", "", {"type": "object"}) for at in range(129)]
    with pytest.raises(ModelRejectedError, match="129 tools"):
        presented(request(*tools), OPENAI)
    assert len(presented(request(*tools), ANTHROPIC).request.tools) == 129


@pytest.mark.parametrize(
    ("model_id", "base_url", "official", "expected"),
    [
        ("gpt-x", "https://api.openai.com/v1", True, OPENAI),
        (
            "gemini-2.5-flash",
            "https://generativelanguage.googleapis.com/v1beta/openai",
            False,
            GEMINI,
        ),
        ("google/gemini-3-pro", "https://openrouter.ai/api/v1", False, GEMINI),
        ("tuned", "https://generativelanguage.googleapis.com/v1beta/openai", False, GEMINI),
        ("mistral-large-latest", "https://api.mistral.ai/v1", False, MISTRAL),
        ("magistral-medium", "http://gateway/v1", False, MISTRAL),
        ("qwen3", "http://localhost:11434/v1", False, COMMON),
    ],
)
def test_host_and_model_say_who_answers(
    model_id: str, base_url: str, *, official: bool, expected: ToolRules
) -> None:
    """A gateway that hides it gets what all of them take."""
    spec = ModelSpec("m", "openai", model_id, base_url)
    assert rules_of(spec, Endpoint(base_url, "", official)) is expected


@pytest.mark.parametrize("text", ["", "not json", '{"a": 1}', "7", "null"])
def test_a_text_in_place_of_json_is_read_if_it_is_json(text: str) -> None:
    """And stays a text if it is not."""
    tool = ToolSpec("t", "", {"type": "object", "properties": {"any": {}}})
    asked = presented(request(tool), GEMINI)
    (call,) = asked.read(Reply((ToolCall("1", "t", {"any": text}),), Stop.TOOL)).calls
    expected = {"": "", "not json": "not json", '{"a": 1}': {"a": 1}, "7": 7, "null": None}
    assert call.arguments == {"any": expected[text]}


def test_references_that_grow_without_end_do_not() -> None:
    """A schema of a hundred bytes can stand for more than any memory holds."""
    bomb = {
        f"d{at}": {
            "type": "object",
            "properties": {k: {"$ref": f"#/$defs/d{at + 1}"} for k in "abcd"},
        }
        for at in range(20)
    }
    schema = {"type": "object", "properties": {"a": {"$ref": "#/$defs/d0"}}, "$defs": bomb}
    (sent,) = presented(request(ToolSpec("t", "", schema)), COMMON).request.tools
    assert len(str(sent.input_schema)) < 2_000_000
