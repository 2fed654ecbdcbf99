"""What embedded/e5 calls, given what it chose; and what it has to choose."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from walagent.domain.cascade import UNSURE, UNSURE_TOOL
from walagent.errors import ModelRejectedError, PreconditionError
from walagent.message import (
    Example,
    Json,
    Message,
    Request,
    Stop,
    Text,
    ToolChoice,
    ToolResult,
    ToolSpec,
)
from walagent.models.embedded.choices import questions, value_descriptions
from walagent.models.embedded.chosen_calls import PlanSettings, plan, why_unsure
from walagent.models.embedded.labels import LabelChoice
from walagent.models.embedded.nearest_label_model import NOTE, EmbeddedModel
from walagent.models.embedded.subject import Subject
from walagent.models.provider import Embedding

TEXT = Subject("I want my money back")
USUAL = PlanSettings()
Chosen = dict[tuple[str, str], LabelChoice]


def tool(name: str, required: Sequence[str] = (), **arguments: Json) -> ToolSpec:
    """A tool with these argument schemas."""
    schema = {"type": "object", "properties": arguments, "required": list(required)}
    return ToolSpec(name, f"{name} does it", schema)


REFUND = tool("refund")
CLOSE = tool("close")
ESCALATE = tool("escalate_to_human", ["reason"], reason={"type": "string"})
SET = tool(
    "update_row", category={"enum": ["billing", "bug", None]}, priority={"enum": [1, 2]}, n={}
)
TOOLS = (SET, REFUND, CLOSE, ESCALATE)


def asking(*tools: ToolSpec, mode: str = "auto", name: str = "") -> Request:
    """A request with these tools."""
    choice = ToolChoice(mode, name)  # type: ignore[arg-type]
    return Request("", (Message("user", (Text(TEXT.text),)),), tools, choice)


def chose(
    tool: str, confidence: float, **arguments: tuple[str, float]
) -> dict[tuple[str, str], LabelChoice]:
    """What the model chose: a tool, and values for update_row."""
    odds: Mapping[str, float] = {tool: confidence, "other": 1 - confidence}
    chosen = {("", ""): LabelChoice(tool, confidence, odds)}
    values = {("update_row", n): LabelChoice(v, c, {v: c}) for n, (v, c) in arguments.items()}
    return chosen | values


def sure(name: str, confidence: float) -> LabelChoice:
    """A value that was chosen from a list."""
    return LabelChoice(name, confidence, {name: confidence})


SMALL_SET = tool("update_row", category={"enum": ["billing", "bug"]}, priority={"enum": [1, 2]})
VALUE = {("update_row", "category"): sure("billing", 0.9)}


def calls(
    request: Request, choices: Chosen, subject: Subject = TEXT, settings: PlanSettings = USUAL
) -> list[tuple[str, Mapping[str, Json]]]:
    """The planned calls."""
    return [(c.tool, c.arguments) for c in plan(request, subject, choices, settings).calls]


def test_setting_columns_and_acting_go_together() -> None:
    """One call sets what is sure, the other acts; values keep their JSON type."""
    choices = chose("refund", 0.8, category=("billing", 0.9), priority=("2", 0.6))
    assert calls(asking(*TOOLS), choices) == [
        ("update_row", {"category": "billing", "priority": 2}),
        ("refund", {}),
    ]


def test_an_unsure_value_is_left_out_and_an_unsure_tool_is_not_called() -> None:
    """Below the threshold a person decides, and is told why."""
    choices = chose("refund", 0.4, category=("billing", 0.45))
    ((name, arguments),) = calls(asking(*TOOLS), choices)
    assert name == "escalate_to_human"
    assert arguments == {"reason": "not sure enough: other 60%, refund 40%. “I want my money back”"}


@pytest.mark.parametrize(
    ("name", "confidence", "called"),
    [
        ("refund", 0.55, "escalate_to_human"),
        ("refund", 0.79, "escalate_to_human"),
        ("refund", 0.81, "refund"),
        ("find", 0.55, "find"),
        ("escalate_to_human", 0.55, "escalate_to_human"),
    ],
)
def test_of_two_tools_one_that_writes_needs_a_margin(
    name: str, confidence: float, called: str
) -> None:
    """The better one of two is always above a half; what only reads, or holds back, may be."""
    find = replace(tool("find"), reads=True)
    found = calls(asking(REFUND, find, ESCALATE), chose(name, confidence))
    assert [each for each, _ in found] == [called]
    lower = PlanSettings(margin=0.5)
    assert calls(asking(REFUND, ESCALATE), chose("refund", 0.55), settings=lower) == [
        ("refund", {})
    ]


@pytest.mark.parametrize(
    ("tools", "choices", "why"),
    [
        ((REFUND, CLOSE), chose("refund", 0.81), None),
        ((REFUND, CLOSE), chose("refund", 0.79), "not sure enough: refund 79%"),
        ((REFUND, CLOSE), chose("refund", 0.4), "not sure enough: other 60%"),
        ((SMALL_SET,), {**VALUE, ("update_row", "priority"): sure("1", 0.7)}, None),
        ((SMALL_SET,), {**VALUE, ("update_row", "priority"): sure("1", 0.4)}, "priority 1 40%"),
        ((SET,), {**VALUE, ("update_row", "priority"): sure("1", 0.7)}, "n of update_row"),
        ((REFUND, ESCALATE), chose("escalate_to_human", 0.9), "reason of escalate_to_human"),
        ((), {}, "no tool to choose"),
        ((REFUND,), {("", ""): sure("refund", 1.0)}, "no second tool"),
    ],
)
def test_in_a_cascade_all_must_be_sure_and_chosen_from_lists(
    tools: Sequence[ToolSpec], choices: Chosen, why: str | None
) -> None:
    """Else nothing is called, not even what is sure: the next model decides all of it."""
    found = why_unsure(asking(*tools), TEXT, choices, USUAL)
    assert found is None if why is None else found is not None and why in found


def test_in_a_cascade_no_parameter_lowers_the_margin() -> None:
    """Also where the row of the model, or that of a tenant's own one, says otherwise."""
    lower = PlanSettings(margin=0.5)
    found = why_unsure(asking(REFUND, CLOSE), TEXT, chose("refund", 0.79), lower)
    assert found is not None
    assert "not sure enough" in found


def test_in_a_cascade_a_call_that_failed_is_left_to_the_next_model() -> None:
    """It would be made again as it was."""
    failed = Subject(TEXT.text, frozenset({"refund"}), {"refund": "no money"})
    found = why_unsure(asking(REFUND, CLOSE), failed, chose("refund", 0.9), USUAL)
    assert found == "refund failed: no money"


def test_the_threshold_and_the_fallback_are_settings() -> None:
    """An agent may be bolder, or fall back on another tool."""
    choices = chose("refund", 0.4)
    assert calls(asking(*TOOLS), choices, settings=PlanSettings(0.3, 0.4)) == [("refund", {})]
    assert calls(asking(*TOOLS), choices, settings=PlanSettings(fallback="close")) == [
        ("close", {})
    ]


def test_without_a_fallback_nothing_is_called() -> None:
    """Holding still is an answer."""
    assert calls(asking(REFUND, CLOSE), chose("refund", 0.4)) == []


def test_a_text_is_filled_by_quoting_the_row() -> None:
    """Nothing is said that the row does not say, and not more than fits."""
    ((_, arguments),) = calls(asking(*TOOLS), chose("escalate_to_human", 0.9))
    assert arguments == {"reason": "“I want my money back”"}

    short = tool("post", ["text"], text={"type": ["string", "null"], "maxLength": 9})
    assert calls(asking(short), chose("post", 0.9)) == [("post", {"text": "“I want m"})]
    ((_, arguments),) = calls(asking(ESCALATE), chose("escalate_to_human", 0.9), Subject("x" * 999))
    assert len(arguments["reason"]) == 302


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number"},
        {"type": "boolean"},
        {"type": "string", "format": "uuid"},
        {"type": "string", "pattern": "^A"},
        {"type": "array", "items": {"type": "string"}},
        {},
    ],
)
def test_what_cannot_be_filled_is_not_called(schema: Json) -> None:
    """Numbers, ids and shapes are bound from the row or not given at all."""
    needy = tool("pay", ["amount"], amount=schema)
    ((name, arguments),) = calls(asking(needy, ESCALATE), chose("pay", 0.9))
    assert name == "escalate_to_human"
    assert arguments["reason"].startswith("cannot fill pay")


def test_what_need_not_be_filled_is_left_out() -> None:
    """Optional arguments that have no list stay the tool's own business; constants are given."""
    easy = tool("pay", ["kind"], kind={"const": "full"}, amount={"type": "number"})
    assert calls(asking(easy), chose("pay", 0.9)) == [("pay", {"kind": "full"})]


def test_after_a_failure_a_person_gets_it() -> None:
    """A call that failed is not repeated; its words reach the fallback."""
    subject = replace(TEXT, done=frozenset({"refund"}), failed={"refund": "no payment"})
    ((name, arguments),) = calls(asking(*TOOLS), chose("refund", 0.9), subject)
    assert name == "escalate_to_human"
    assert arguments["reason"].startswith("refund failed: no payment")


def test_a_named_tool_is_called_however_unsure() -> None:
    """Who names a tool wants it, with the likeliest values."""
    choices = chose("refund", 0.9, category=("bug", 0.2))
    asked = asking(*TOOLS, mode="named", name="update_row")
    assert calls(asked, choices) == [("update_row", {"category": "bug"})]
    assert calls(asking(*TOOLS, mode="none"), choices) == []


def test_tools_that_want_another_language_do_not_compete() -> None:
    """A customer's sentence is never sent as SQL; setting columns competes with nothing."""
    query = tool("query", ["sql"], sql={"type": "string"})
    nothing = tool("do_nothing")
    (which, *_) = questions(asking(query, SET, REFUND, nothing))
    assert [option.name for option in which.options] == ["refund", "do_nothing"]
    (which, *_) = questions(asking(SET, nothing))
    assert which.options == ()


def test_every_list_of_values_is_a_question_with_its_own_examples() -> None:
    """Values are described by the argument's comment and by the examples that used them."""
    request = replace(
        asking(tool("update_row", c={"enum": ["a", "b"], "description": "a = apples; b = bees"})),
        examples=(Example("red and round", "update_row", {"c": "a"}), Example("buzz", "other")),
    )
    (_, question) = questions(request)
    assert (question.tool, question.argument) == ("update_row", "c")
    assert [(o.name, o.description, o.examples) for o in question.options] == [
        ("a", "a: apples", ("red and round",)),
        ("b", "b: bees", ()),
    ]


@pytest.mark.parametrize(
    "description",
    [
        "Kind. how_to = a question, or two; bug = broken",
        "how_to: a question, or two\nbug: broken.",
        "Kind: how_to: a question, or two, bug: broken",
    ],
)
def test_the_meaning_of_values_is_found_in_comments(description: str) -> None:
    """A comment in the usual forms is enough."""
    found = value_descriptions({"description": description}, ["bug", "how_to", "other"])
    assert found == {"how_to": "a question, or two", "bug": "broken"}


def test_an_explicit_meaning_wins() -> None:
    """A schema may carry descriptions of its values apart."""
    schema = {"description": "a: no", "x-enum-descriptions": {"a": "yes", "z": "not a value"}}
    assert value_descriptions(schema, ["a", "b"]) == {"a": "yes"}


class Letters:
    """An embedder for tests of everything but meaning: counts of a few letters."""

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Embed *texts*."""
        return [
            Embedding(tuple(t.count(c) + 0.1 for c in "ruc"), len(t), cached=False) for t in texts
        ]


class Absent:
    """An embedder whose library does not load."""

    async def embed(self, texts: Sequence[str]) -> list[Embedding]:
        """Fail."""
        raise PreconditionError(f"no vector for {len(texts)} texts", hint="get another")


async def test_one_call_at_a_time_where_the_agent_wants_it() -> None:
    """Without parallel calls the second comes after the first one's result."""
    model = EmbeddedModel(embedder=Letters())
    first = replace(asking(SET, CLOSE), parallel_calls=False, parameters={"threshold": 0})
    reply = await model.complete(first)
    assert [call.name for call in reply.calls] == ["update_row"]
    result = Message("user", (ToolResult(reply.calls[0].id, "update_row", "ok"),))
    second = replace(first, messages=(*first.messages, Message("assistant", reply.parts), result))
    reply = await model.complete(second)
    assert [call.name for call in reply.calls] == ["close"]


async def test_equal_requests_get_equal_replies_that_say_what_answered() -> None:
    """There is no chance in it, and nobody takes it for a language model."""
    model = EmbeddedModel(embedder=Letters())
    first, second = [await model.complete(asking(*TOOLS)) for _ in range(2)]
    assert first == second
    assert first.note == NOTE == "embedded/e5 (not a language model)"
    assert model.spec.input_price == model.spec.output_price == 0


async def test_a_row_without_words_is_left_alone() -> None:
    """There is nothing to decide on, so nothing is decided."""
    request = replace(asking(*TOOLS), messages=())
    reply = await EmbeddedModel(embedder=Letters()).complete(request)
    assert (reply.calls, reply.stop) == ((), Stop.END)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (replace(asking(REFUND), parameters={"threshold": "high"}), "threshold"),
        (replace(asking(REFUND), parameters={"fallback": "gone"}), "no tool 'gone'"),
        (asking(tool("pay", ["n"], n={"type": "integer"}), mode="required"), "required call"),
    ],
)
async def test_what_can_never_be_answered_is_rejected(request_: Request, message: str) -> None:
    """A wrong setting or an impossible demand fails the run, with the reason."""
    with pytest.raises(ModelRejectedError, match=message):
        await EmbeddedModel(embedder=Letters()).complete(request_)


async def test_a_library_that_does_not_load_fails_the_run_and_not_the_daemon() -> None:
    """Other agents, with other models, go on."""
    with pytest.raises(ModelRejectedError) as caught:
        await EmbeddedModel(embedder=Absent()).complete(asking(REFUND))
    assert caught.value.hint == "get another"


async def test_in_a_cascade_it_says_that_it_is_not_sure_by_the_tool_for_it() -> None:
    """It does not choose that tool; what is sure is called as ever."""
    model = EmbeddedModel(embedder=Letters())
    of = replace(asking(SMALL_SET, UNSURE_TOOL, mode="required"), parameters={"threshold": 0.99})
    (call,) = (await model.complete(of)).calls
    assert call.name == UNSURE
    assert "not sure enough" in (call.arguments or {})["reason"]
    sure_of = await model.complete(replace(of, parameters={"threshold": 0}))
    assert [call.name for call in sure_of.calls] == ["update_row"]
    silent = await model.complete(replace(of, messages=()))
    assert [call.name for call in silent.calls] == [UNSURE]
