"""A judge whose reply cannot be used has been paid all the same."""

import pytest

from walagent.domain.agent_spec import AgentSpec
from walagent.errors import ModelError, ModelRejectedError, ModelUnavailableError
from walagent.message import ModelSpec, Usage
from walagent.models.scripted.scripted_model import ScriptedModel
from walagent.trial.cases import Case
from walagent.trial.judging import Judge
from walagent.trial.outcomes import Outcome

PRICED = ModelSpec("judge", "scripted", "judge", input_price=1.0, output_price=5.0)
OUTCOME = Outcome("succeeded", "Done.", None, (), 10, 0.1, 1.0)


@pytest.mark.parametrize("kind", [ModelRejectedError, ModelUnavailableError])
async def test_a_verdict_that_cannot_be_used_costs_what_it_did(kind: type[ModelError]) -> None:
    """Its tokens and their cost, without a verdict."""
    used = Usage(1_000_000, output_tokens=100_000)
    judge = Judge(ScriptedModel([kind("no", usage=used)], spec=PRICED))
    case = Case({"op": "insert", "new": {"id": 1}}, "1", "default", recorded=OUTCOME)
    said = await judge.ask(1, case, OUTCOME, AgentSpec("a", "m"))
    assert (said.right, said.error, said.tokens) == (None, "no", 1_100_000)
    assert said.cost == pytest.approx(1.5)


async def test_a_verdict_that_did_not_come_costs_nothing() -> None:
    """Its cost is not known, and not zero."""
    judge = Judge(ScriptedModel([ModelUnavailableError("no")], spec=PRICED))
    case = Case({"op": "insert", "new": {"id": 1}}, "1", "default", recorded=OUTCOME)
    said = await judge.ask(1, case, OUTCOME, AgentSpec("a", "m"))
    assert (said.tokens, said.cost) == (0, None)
