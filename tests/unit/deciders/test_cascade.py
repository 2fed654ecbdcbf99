"""Which model of a cascade is asked next, from the steps alone."""

from dataclasses import replace

import pytest

from tests.helpers.build import Steps, attachment, claim, run_of, tool
from walagent.deciders.agent import AgentDecider
from walagent.deciders.agent_prompt import build_request
from walagent.deciders.arguments import what_is_wrong
from walagent.deciders.cascade import cascade_move, steps_before
from walagent.deciders.stages import CONTROL, pass_on
from walagent.domain.agent_spec import Finish
from walagent.domain.cascade import UNSURE, Stage, is_sampled
from walagent.domain.run import RunSpec, StepKind
from walagent.message import Json, ModelSpec, Request, Stop, ToolCall
from walagent.moves import Act, Ask, End, Move, Note, Prompt

STAGES = (Stage("tiny", {"threshold": 0.6}), Stage("small"))
MODEL = ModelSpec("fake", "scripted", "fake")
REFUND = ToolCall("c1", "refund", {"amount": 5})


def run(**changes: Json) -> RunSpec:
    """A run of an agent that asks two models before its own."""
    on = attachment(tool(), stages=STAGES, finish=Finish.AFTER_CALL, **changes)
    return run_of(on, claim())


def move(of: RunSpec, steps: Steps) -> Move:
    """What the run does next."""
    return cascade_move(of, steps, what_is_wrong)


def request(of: RunSpec, steps: Steps) -> Request:
    """The next request."""
    return build_request(of, steps, mark="0", model=MODEL)


def replied(steps: Steps, stage: int, *said: str | ToolCall, stop: Stop | None = None) -> Steps:
    """A model of the cascade has replied."""
    steps.reply(*said, stop=stop)
    steps[-1] = replace(steps[-1], content={**steps[-1].content, "stage": stage})
    return steps


def passed(of: RunSpec, steps: Steps) -> Steps:
    """The note that passes a stage is recorded."""
    note = move(of, steps)
    assert isinstance(note, Note)
    return steps.add(note.kind, note.content)


def test_the_first_stage_is_asked_first() -> None:
    """With the one that comes after it; nothing else is asked instead."""
    asked = Prompt(about={"stage": 1}, model="tiny", next_model="small")
    assert move(run(), Steps()) == Ask((asked,))


def test_a_sure_stage_acts() -> None:
    """Its calls are carried out as those of any reply."""
    found = move(run(), replied(Steps(), 1, REFUND))
    assert isinstance(found, Act)
    assert found.calls[0].call == REFUND


@pytest.mark.parametrize(
    ("said", "stop", "why"),
    [
        ([ToolCall("c", UNSURE, {"reason": "two meanings"})], None, "unsure: two meanings"),
        ([ToolCall("c", UNSURE, None)], None, "unsure"),
        ([REFUND, ToolCall("c", UNSURE, {"reason": "x"})], None, "unsure: x"),
        ([ToolCall("c", "fly", {})], None, 'there is no tool "fly"; the tools are: refund'),
        ([REFUND, ToolCall("c", "refund", {"amount": "much"})], None, "amount"),
        ([ToolCall("c", "refund", None)], None, "cannot be used"),
        ([REFUND], Stop.LENGTH, "cut off by its token limit"),
        (["No."], Stop.REFUSAL, "refused"),
        ([""], None, "answered nothing"),
    ],
)
def test_an_unsure_stage_is_passed_and_nothing_of_its_reply_is_carried_out(
    said: list[str | ToolCall], stop: Stop | None, why: str
) -> None:
    """Nor is it corrected: the next model is asked, by a note."""
    found = move(run(), replied(Steps(), 1, *said, stop=stop))
    assert isinstance(found, Note)
    assert why in str(found.content["why"])
    assert {k: v for k, v in found.content.items() if k != "why"} == {
        "cascade": "small",
        "for": "tiny",
        "unsure": True,
    }


def test_words_where_a_call_is_required_pass_a_stage() -> None:
    """Another model is asked, instead of this one again."""
    of = run(tool_choice="refund")
    assert isinstance(move(of, replied(Steps(), 1, "Refund it.")), Note)
    assert request(of, Steps()).choice.mode == "required"  # it can say that it is not sure


def test_the_next_model_gets_the_request_that_the_first_one_got() -> None:
    """The last one without the tool unsure, and with the agent's parameters."""
    of, steps = run(), Steps()
    first = request(of, steps)
    assert first.parameters == {"threshold": 0.6}
    assert [each.name for each in first.tools] == ["refund", UNSURE]
    passed(of, replied(steps, 1, ToolCall("c", UNSURE, {"reason": "x"})))
    second = request(of, steps)
    assert (second.messages, second.tools) == (first.messages, first.tools)
    assert second.parameters == {}
    passed(of, replied(steps, 2, ToolCall("c", UNSURE, {"reason": "y"})))
    plain = run_of(attachment(tool(), finish=Finish.AFTER_CALL), claim())
    assert request(of, steps) == request(plain, Steps())
    assert move(of, steps) == Ask((Prompt(about={"stage": 3}),))


def test_the_last_model_is_corrected_as_ever() -> None:
    """It has nobody after it."""
    of, steps = run(), Steps()
    passed(of, replied(steps, 1, ToolCall("c", UNSURE, {"reason": "x"})))
    passed(of, replied(steps, 2, ToolCall("c", UNSURE, {"reason": "y"})))
    found = move(of, replied(steps, 3, ToolCall("c", UNSURE, {"reason": "z"})))
    assert isinstance(found, Note)
    assert found.content["correction"]


def test_a_stage_that_is_out_is_passed_without_a_reply() -> None:
    """Its note hides no reply."""
    of, steps = run(), Steps()
    note = pass_on("tiny", "small", "circuit breaker open")
    steps.add(note.kind, note.content)
    asked = Prompt(about={"stage": 2}, model="small", next_model="fake")
    assert move(of, steps) == Ask((asked,))


def test_a_stage_that_has_begun_to_act_is_not_judged_again() -> None:
    """A tool that fails is its own to deal with."""
    of = run()
    steps = replied(Steps(), 1, REFUND)
    steps.add(
        StepKind.RESULT,
        {"call_id": "c1", "name": "refund", "content": "no money", "is_error": True},
    )
    assert move(of, steps) == Ask((Prompt(about={"stage": 1}, model="tiny", next_model="small"),))
    passed(of, replied(steps, 1, ToolCall("c2", UNSURE, {"reason": "no money"})))
    assert [len(each.parts) for each in request(of, steps).messages] == [1, 1, 1]


def test_unsure_replies_count_in_what_the_run_may_spend_and_not_in_its_replies() -> None:
    """Each stage has one: a run with max_steps 1 can still be decided by the last model."""
    of = run(limits=replace(run().agent.limits, max_steps=1, max_tokens=100))
    steps = Steps()
    passed(of, replied(steps, 1, ToolCall("c", UNSURE, {"reason": "x"})))
    assert isinstance(move(of, steps), Ask)
    steps[0] = replace(steps[0], tokens=101)
    assert isinstance(move(of, steps), End)


def test_a_retry_begins_with_the_first_stage() -> None:
    """A person has looked at it since."""
    of, steps = run(), Steps()
    passed(of, replied(steps, 1, ToolCall("c", UNSURE, {"reason": "x"})))
    steps.add(StepKind.NOTE, {"retry": True})
    assert move(of, steps) == Ask((Prompt(about={"stage": 1}, model="tiny", next_model="small"),))


def done(steps: Steps) -> Steps:
    """A stage has decided, and its call has succeeded."""
    return replied(steps, 1, REFUND).add(
        StepKind.RESULT, {"call_id": "c1", "name": "refund", "content": "ok", "is_error": False}
    )


def test_a_run_of_the_control_sample_asks_the_last_model_before_it_ends() -> None:
    """What a stage decided has its effect first; the control has none, and is asked once."""
    of, steps = run(control=1.0), done(Steps())
    assert move(of, steps) == Ask((Prompt(by=CONTROL, about={"control": 1}, model="fake"),))
    shown = replace(of, agent=replace(of.agent, stages=()))
    assert build_request(shown, steps_before(steps), mark="0", model=MODEL) == build_request(
        shown, [], mark="0", model=MODEL
    )
    steps.reply(ToolCall("c9", "refund", {"amount": 9}))
    steps[-1] = replace(steps[-1], content={**steps[-1].content, "control": 1})
    assert isinstance(move(of, steps), End)


async def test_a_control_is_rendered_for_the_last_model_and_may_not_take_long() -> None:
    """The run has done its work, holds its ordering key, and must end within its limit."""
    of, steps = run(control=1.0), done(Steps())
    asked = Prompt(by=CONTROL, about={"control": 1}, model="fake")
    made = await AgentDecider(b"secret").render(of, steps, asked, MODEL)
    assert (made.timeout, [each.name for each in made.tools]) == (60.0, ["refund"])
    short = run(control=1.0, limits=replace(of.agent.limits, max_seconds=40))
    made = await AgentDecider(b"secret").render(short, steps, asked, MODEL)
    assert made.timeout == 10.0


def test_a_control_without_a_reply_is_not_asked_again() -> None:
    """The run has done its work."""
    of, steps = run(control=1.0), done(Steps())
    steps.add(StepKind.NOTE, {"control": "none", "why": "out"})
    assert isinstance(move(of, steps), End)


def test_what_the_last_model_decided_has_no_control() -> None:
    """It would be asked the same again."""
    of, steps = run(control=1.0), Steps()
    passed(of, replied(steps, 1, ToolCall("c", UNSURE, {"reason": "x"})))
    passed(of, replied(steps, 2, ToolCall("c", UNSURE, {"reason": "y"})))
    replied(steps, 3, REFUND).add(
        StepKind.RESULT, {"call_id": "c1", "name": "refund", "content": "ok", "is_error": False}
    )
    assert isinstance(move(of, steps), End)


def test_the_sample_is_chosen_by_the_run() -> None:
    """About as many as the share says; a larger share has all of a smaller one."""
    chosen = {n for n in range(10_000) if is_sampled(n, 0.02)}
    assert 150 < len(chosen) < 250
    assert chosen <= {n for n in range(10_000) if is_sampled(n, 0.1)}
    assert not any(is_sampled(n, 0.0) for n in range(100))
    assert all(is_sampled(n, 1.0) for n in range(100))
