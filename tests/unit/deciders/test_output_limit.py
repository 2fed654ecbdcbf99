"""How many tokens a model may answer with."""

from dataclasses import replace

import pytest

from tests.helpers.build import attachment, tool
from walagent.deciders.output_limit import output_limit
from walagent.domain.agent_spec import AgentSpec, RunLimits
from walagent.message import Json, ModelSpec

ROOMY = ModelSpec("m", "openai", "x", max_output_tokens=128_000)
TEXT = {"type": "string"}


def taking(**arguments: Json) -> AgentSpec:
    """An agent with one tool that has these arguments."""
    return attachment(tool(input_schema={"type": "object", "properties": arguments})).agent


@pytest.mark.parametrize(
    ("agent", "limit"),
    [
        (taking(kind={"type": "string", "enum": ["a", "b"]}, amount={"type": "number"}), 1_024),
        (taking(maybe={"type": ["integer", "null"]}, short={**TEXT, "maxLength": 80}), 1_024),
        (taking(reason=TEXT), 4_096),
        (taking(long={**TEXT, "maxLength": 100_000}), 4_096),
        (taking(items={"type": "array", "items": {"type": "integer"}}), 4_096),
        (taking(anything={}), 4_096),
        (attachment().agent, 4_096),
    ],
)
def test_the_default_follows_from_what_the_tools_take(agent: AgentSpec, limit: int) -> None:
    """A budget holds the whole limit of each call, so it is not what the model could write."""
    assert output_limit(agent, ROOMY, 0) == limit


def test_what_the_agent_says_counts() -> None:
    """More or less than the default."""
    agent = replace(taking(reason=TEXT), limits=RunLimits(max_output_tokens=30_000))
    assert output_limit(agent, ROOMY, 0) == output_limit(agent, ROOMY, 1) == 30_000


def test_a_default_that_cut_a_reply_off_grows() -> None:
    """Up to what the model can write."""
    agent = taking(reason=TEXT)
    assert [output_limit(agent, ROOMY, n) for n in range(4)] == [4_096, 16_384, 65_536, 128_000]


@pytest.mark.parametrize(
    ("parameters", "limit"),
    [
        ({"reasoning_effort": "high"}, 16_384),
        ({"thinking": {"type": "enabled", "budget_tokens": 10_000}}, 26_384),
        ({"reasoning_effort": None}, 1_024),
    ],
)
def test_a_model_that_reasons_gets_more(parameters: dict[str, Json], limit: int) -> None:
    """Its reasoning counts towards the limit."""
    agent = taking(amount={"type": "number"})
    assert output_limit(agent, replace(ROOMY, parameters=parameters), 0) == limit
    assert output_limit(replace(agent, parameters=parameters), ROOMY, 0) == limit
    assert output_limit(agent, replace(ROOMY, reasons=True), 0) >= 16_384
