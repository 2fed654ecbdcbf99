"""Which model and tier is asked next, from the steps alone."""

from dataclasses import replace

from tests.helpers.build import Steps
from walagent.deciders.fall_back import as_asked, fall_back, prompt_of, standard_tier
from walagent.deciders.loop import next_move
from walagent.domain.agent_spec import AgentSpec
from walagent.domain.run import Step, StepKind
from walagent.domain.transcript import ALONE, messages
from walagent.message import Stop
from walagent.moves import Ask, End, Note, Prompt

AGENT = AgentSpec("a", "big", fallback="small", fallback_parameters={"seed": 1}, tier="flex")
FELL = fall_back("big", "small", "breaker open").content
SLOW = standard_tier("flex", "no capacity").content


def test_the_first_model_is_asked_in_its_tier() -> None:
    """With the model to ask instead."""
    assert prompt_of([], AGENT) == Prompt(fallback="small", tier="flex")
    assert as_asked([], AGENT) == AGENT


def test_the_standard_tier_comes_before_the_other_model() -> None:
    """Which may still be asked after it."""
    steps = Steps().add(StepKind.NOTE, SLOW)
    about = {"instead_of": {"tier": "flex", "why": "no capacity"}}
    assert prompt_of(steps, AGENT) == Prompt(about=about, fallback="small")


def test_after_a_fall_back_there_is_no_other_model() -> None:
    """And no tier: its provider is another."""
    steps = Steps().add(StepKind.NOTE, SLOW).add(StepKind.NOTE, FELL)
    about = {"instead_of": {"model": "big", "why": "breaker open"}}
    assert prompt_of(steps, AGENT) == Prompt(about=about, model="small")
    assert as_asked(steps, AGENT) == replace(AGENT, model="small", parameters={"seed": 1})


def test_a_row_that_was_left_out_is_asked_alone_from_then_on() -> None:
    """In its tier, with the request that it would have had; a fall-back stays alone, too."""
    left = {ALONE: True, "rows": 4, "why": "no answer"}
    steps = Steps().add(StepKind.NOTE, left)
    about = {"instead_of": {"rows": 4, "why": "no answer"}}
    expected = Prompt(about=about, fallback="small", tier="flex", alone=True)
    assert prompt_of(steps, AGENT) == expected
    assert next_move(steps, AGENT, lambda *_: None) == Ask((expected,))
    assert messages("row", steps) == messages("row", [])
    assert prompt_of(steps.add(StepKind.NOTE, SLOW), AGENT).alone
    assert prompt_of(steps.add(StepKind.NOTE, FELL), AGENT).alone


def test_what_a_request_cost_that_left_the_row_out_counts_in_the_limits_of_the_run() -> None:
    """It was paid for."""
    note = Step(0, StepKind.NOTE, {ALONE: True, "rows": 4, "why": "no answer"}, 500, 0.5)
    assert isinstance(next_move([note], AGENT, lambda *_: None), Ask)
    for limits in (replace(AGENT.limits, max_tokens=499), replace(AGENT.limits, max_cost=0.4)):
        limited = replace(AGENT, limits=limits)
        assert isinstance(next_move([note], limited, lambda *_: None), End)


def test_a_refused_reply_is_answered_by_a_note_and_not_shown() -> None:
    """Nor are the notes: both models get one request."""
    steps = Steps().reply("I will not.", stop=Stop.REFUSAL)
    move = next_move(steps, AGENT, lambda *_: None)
    assert isinstance(move, Note)
    assert move.content["fallback"] == "small"
    steps.add(StepKind.NOTE, move.content)
    assert messages("row", steps) == messages("row", [])
    assert isinstance(next_move(steps, AGENT, lambda *_: None), Ask)
    steps.reply("Nor will I.", stop=Stop.REFUSAL)
    assert isinstance(next_move(steps, AGENT, lambda *_: None), End)


def test_a_refused_reply_still_counts_in_the_limits_of_the_run() -> None:
    """It was paid for."""
    limited = replace(AGENT, limits=replace(AGENT.limits, max_steps=1))
    steps = Steps().reply("I will not.", stop=Stop.REFUSAL)
    move = next_move(steps, limited, lambda *_: None)
    assert isinstance(move, Note)
    steps.add(StepKind.NOTE, move.content)
    assert isinstance(next_move(steps, limited, lambda *_: None), End)


def test_a_retry_begins_with_the_first_model() -> None:
    """In its tier."""
    steps = Steps().add(StepKind.NOTE, FELL).add(StepKind.NOTE, {"retry": True})
    assert next_move(steps, AGENT, lambda *_: None) == Ask((Prompt(fallback="small", tier="flex"),))
