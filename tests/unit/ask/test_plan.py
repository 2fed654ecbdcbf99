"""Plans: what could never be carried out is told to the planner before anything runs."""

import pytest

from walagent.ask.plan import MOST_STEPS, StepType, plan_schema, read_plan, waves
from walagent.errors import InvalidCallError
from walagent.message import Json


def sql(name: str, *needs: str, **changes: Json) -> dict[str, Json]:
    """A step that asks the database."""
    return {
        "id": name,
        "type": "SQL",
        "description": "",
        "tool_input": {"query": "select 1"},
        "depends_on": list(needs),
        **changes,
    }


def plan(*steps: dict[str, Json], **changes: Json) -> dict[str, Json]:
    """A plan as a model writes it."""
    return {"reasoning": "because", "steps": list(steps), **changes}


def test_a_plan_is_read_and_ordered() -> None:
    """Steps that wait for nothing go first, side by side."""
    about = {"tool_input": {"operation": "sum", "column": "x"}, "type": "ANALYZE"}
    found = read_plan(plan(sql("c", "a", "b", **about), sql("b"), sql("a")))
    assert [step.type for step in found.steps] == [StepType.ANALYZE, StepType.SQL, StepType.SQL]
    assert list(waves(found.steps)) == [("b", "a"), ("c",)]


def test_a_calculation_of_constants_needs_no_step() -> None:
    """It has nothing to wait for."""
    about = {"tool_input": {"operation": "calculate", "expression": "6 * 7"}, "type": "ANALYZE"}
    assert read_plan(plan(sql("a", **about))).steps[0].depends_on == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (None, "not a JSON object"),
        ({}, "reasoning: Field required"),
        (plan(), "there are no steps"),
        (plan(sql("a"), sql("a")), 'two steps have the id "a"'),
        (plan(sql("a", "a")), 'step "a" depends on itself'),
        (plan(sql("a", "b")), 'step "a" depends on "b", which does not exist'),
        (plan(sql("a", "b"), sql("b", "a")), "wait for one another: "),
        (plan(sql("a", "c"), sql("b", "a"), sql("c", "b")), "wait for one another: "),
        (plan(sql("a", type="DELETE")), "steps.0.type: Input should be 'SQL'"),
        (plan(sql("a", tool_input=None)), 'step "a" needs tool_input.query'),
        (plan(sql("a", tool_input={"query": " "})), 'step "a" needs tool_input.query'),
        (plan(sql("a", surprise=1)), "steps.0.surprise: Extra inputs"),
        (plan(sql("a"), sql("b", "a", type="ANALYZE", tool_input={})), "tool_input.sql or"),
        (plan(sql("a", type="ANALYZE", tool_input={"operation": "sum"})), "needs the steps it is"),
        (plan(sql("a", type="ANALYZE", tool_input={"operation": "calculate"})), "input.expression"),
        (plan(sql("a", type="VERIFY")), "needs the steps it is about"),
        (plan(sql("a", fallback=sql("f", tool_input=None))), 'step "f" needs tool_input.query'),
        (plan(sql("a", fallback=sql("f", fallback=sql("g")))), 'fallback of step "a" has a'),
        (plan(*(sql(f"s{n}") for n in range(MOST_STEPS + 1))), f"{MOST_STEPS} are allowed"),
        (plan(outcome="clarify"), "outcome clarify needs a reply"),
        (plan(outcome="refuse", reply=" "), "outcome refuse needs a reply"),
    ],
)
def test_what_is_wrong_is_said(wrong: Json, says: str) -> None:
    """In words that a planner can act on."""
    with pytest.raises(InvalidCallError) as caught:
        read_plan(wrong)
    assert says in str(caught.value)


def test_every_mistake_is_reported_at_once() -> None:
    """A planner gets one more try, so it hears of all of them."""
    with pytest.raises(InvalidCallError) as caught:
        read_plan(plan(sql("a", "a"), sql("a"), sql("b", "x", tool_input=None)))
    for says in (
        'two steps have the id "a"',
        "itself",
        '"x", which does not exist',
        'step "b" needs',
    ):
        assert says in str(caught.value)


def test_a_question_back_needs_no_steps() -> None:
    """The outcome says which it is."""
    found = read_plan(plan(outcome="clarify", reply="Which year?"))
    assert (found.outcome, found.reply) == ("clarify", "Which year?")


def test_the_schema_is_closed() -> None:
    """So that a provider can hold its model to it."""
    schema = plan_schema()
    assert schema["additionalProperties"] is False
    assert schema["$defs"]["PlanStep"]["additionalProperties"] is False
