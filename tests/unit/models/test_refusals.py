"""What becomes of a run when its provider refuses, for each refusal that is known."""

from typing import Any

import pytest

from tests.helpers import build
from tests.helpers.refusals import REFUSALS, Refusal, RefusingServer
from walagent.domain.run import RunState
from walagent.errors import ModelRejectedError, WalagentError
from walagent.message import (
    Message,
    Request,
    Text,
    Thinking,
    ToolCall,
    ToolChoice,
    ToolResult,
    ToolSpec,
)
from walagent.models import build_model
from walagent.runs.error_policy import Outcome, outcome_of

TREE: dict[str, Any] = {
    "type": "object",
    "properties": {"parts": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
}
FIND: dict[str, Any] = {
    "type": "object",
    "properties": {
        "Due Date": {"type": ["string", "null"]},
        "Straße": {"type": "string"},
        "any": {},
        "kind": {"enum": ["a", "b"]},
        "tree": {"$ref": "#/$defs/tree"},
    },
    "$defs": {"tree": TREE},
}
TOOLS = (
    ToolSpec("db.query", "Find it.", FIND),
    ToolSpec("db_query", "Find it, too.", FIND),
    ToolSpec("stop", "Stop.", {"type": "object"}),
)
TURNS = (
    Message("user", (Text("which?"),)),
    Message("assistant", (Text("Let me see."),)),
    Message("user", (Text("and?"),)),
    Message(
        "assistant",
        (
            Thinking("openai", {"text": "hm"}),
            ToolCall("toolu_01", "db.query", {"Straße": "x", "any": [1]}),
            ToolCall("call-2", "stop", None, "{no"),
        ),
    ),
    Message("user", (ToolResult("call-2", "stop", "no", is_error=True),)),
    Message("user", (Text("hurry"), ToolResult("toolu_01", "db.query", "4711"))),
)
# All that walagent does and some provider refuses, if it is sent as it is.
TEMPTING = (
    Request("be brief", TURNS, TOOLS, ToolChoice("required"), parallel_calls=False),
    Request("be brief", TURNS, TOOLS, ToolChoice("named", "db.query"), on_text=lambda _: None),
    Request("", TURNS[:1]),
    Request(
        "", TURNS[:1], tuple(ToolSpec(f"t{n}", "", {"type": "object"}) for n in range(129))
    ),
)  # fmt: skip


def did(outcome: Outcome) -> str:
    """Name what becomes of the run."""
    if outcome.pause:
        return "pauses"
    if outcome.state is RunState.FAILED:
        return "fails"
    return "waits" if outcome.refund else "retries"


async def refused(refusal: Refusal) -> tuple[WalagentError, Outcome]:
    """Let the provider refuse, and the worker decide."""
    async with RefusingServer(refusal, whatever=True) as server:
        model = build_model(server.spec, environ={})
        on_text = (lambda _: None) if refusal.is_stream else None
        request = Request("", TURNS, TOOLS[2:], on_text=on_text)
        with pytest.raises(WalagentError) as caught:
            await model.complete(request)
        await model.aclose()
    claim = build.claim(attachment_id=1)
    return caught.value, outcome_of(caught.value, claim)


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.name)
async def test_what_a_run_does_when_its_provider_refuses(refusal: Refusal) -> None:
    """It pauses, waits, tries again or fails, in the provider's words."""
    error, outcome = await refused(refusal)
    assert did(outcome) == refusal.acts, error
    assert refusal.words in str(error)
    assert "4711" not in f"{error} {error.hint}"
    assert outcome.delay >= refusal.after
    assert refusal.after or outcome.delay < 120


@pytest.mark.parametrize(
    "refusal", [one for one in REFUSALS if one.avoided], ids=lambda refusal: refusal.name
)
@pytest.mark.parametrize("request_", TEMPTING, ids=range(len(TEMPTING)))
async def test_what_a_provider_refuses_is_not_sent(refusal: Refusal, request_: Request) -> None:
    """Or the run fails before anything is sent, where nothing can be written otherwise."""
    async with RefusingServer(refusal, whatever=False) as server:
        model = build_model(server.spec, environ={})
        if len(request_.tools) > 128 and refusal.provider == "openai":
            with pytest.raises(ModelRejectedError, match="129 tools"):
                await model.complete(request_)
            assert not server.asked
        else:
            assert (await model.complete(request_)).text == "fine"
        await model.aclose()


@pytest.mark.parametrize(
    "refusal",
    [one for one in REFUSALS if one.parameters and not one.avoided],
    ids=lambda refusal: refusal.name,
)
async def test_what_a_parameter_brings_about_is_refused_by_the_provider(refusal: Refusal) -> None:
    """Its words say which; without the parameter the request is taken."""
    async with RefusingServer(refusal, whatever=False) as server:
        model = build_model(server.spec, environ={})
        if refusal.parameters == {"tool_choice": None}:
            assert (await model.complete(TEMPTING[0])).text == "fine"
        else:
            with pytest.raises(ModelRejectedError, match="400"):
                await model.complete(TEMPTING[2])
        await model.aclose()
