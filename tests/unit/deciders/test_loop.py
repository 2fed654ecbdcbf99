"""What a run does next, move by move, from its recorded steps alone."""

import json
from dataclasses import replace

import pytest

from tests.helpers.build import Steps, attachment, changed, tool, wants
from walagent.deciders.arguments import what_is_wrong
from walagent.deciders.loop import (
    corrections,
    must_call,
    next_move,
    refuse,
    times_cut,
)
from walagent.domain.agent_spec import Finish, RunLimits
from walagent.domain.attachment import Attachment
from walagent.domain.run import Step, StepKind
from walagent.domain.tool_spec import Effect, Tool
from walagent.domain.transcript import reply_to_json
from walagent.message import Reply, Stop, Text, ToolCall
from walagent.moves import Act, Ask, Call, End, Move, Note, Wait, succeed

MAX_CORRECTIONS = RunLimits().max_corrections
REFUND = tool()
ESCALATE = tool("escalate", input_schema={"type": "object", "properties": {}})
DESK = attachment(REFUND, ESCALATE)
CALL = wants()


def move(steps: Steps, on: Attachment = DESK) -> Move:
    """Decide with the real check of arguments."""
    return next_move(steps, on.agent, what_is_wrong)


def act(call: ToolCall, tool: Tool, *, again: bool = False) -> Act:
    """The move that carries one call out."""
    return Act((Call(call, tool, again),))


def failure(steps: Steps, on: Attachment = DESK) -> str:
    """Why the run fails, which it must."""
    found = move(steps, on)
    assert isinstance(found, End), found
    return found.reason


# The plain way.


def test_a_fresh_run_asks_the_model() -> None:
    """Nothing is recorded: the model is asked."""
    assert move(Steps()) == Ask()


def test_a_call_is_carried_out() -> None:
    """The model called a tool that it has, with arguments that fit."""
    assert move(Steps().reply("I will.", CALL)) == act(CALL, REFUND)


def test_the_model_is_asked_again_when_its_call_is_answered() -> None:
    """It reads the answer before anything else happens."""
    assert move(Steps().reply(CALL).result(CALL)) == Ask()


def test_words_end_the_run() -> None:
    """The last words are the run's result."""
    assert move(Steps().reply(CALL).result(CALL).reply("Refunded.")) == succeed("Refunded.")


def test_a_run_may_end_without_any_tool() -> None:
    """Where no call is required, words are enough."""
    assert move(Steps().reply("Nothing to do.")) == succeed("Nothing to do.")


def test_an_empty_reply_ends_a_run_in_which_something_was_done() -> None:
    """Some models say nothing when they are done."""
    assert move(Steps().reply(CALL).result(CALL).reply()) == succeed("")


@pytest.mark.parametrize("said", [(), (" ",)])
def test_an_empty_first_reply_goes_back_to_the_model(said: tuple[str, ...]) -> None:
    """Nothing was done and nothing was said: that is no success.  The third one fails the run."""
    steps = Steps()
    for _ in range(MAX_CORRECTIONS):
        found = move(steps.reply(*said))
        assert isinstance(found, Note)
        assert move(steps.note(text=found.content["text"], correction=True)) == Ask()
    assert failure(steps.reply(*said)) == "the model answered nothing"


def test_an_error_of_an_attempt_is_not_part_of_the_conversation() -> None:
    """What an earlier attempt stumbled over changes no decision."""
    steps = Steps().reply(CALL).add(StepKind.ERROR, {"reason": "the database was away"})
    assert move(steps) == act(CALL, REFUND)


WRITTEN = '<tool_call>\n{"name": "refund", "arguments": {"amount": 5}}\n</tool_call>'


def test_a_call_that_is_written_as_text_is_no_success() -> None:
    """Nothing was done.  The model is told, and the run fails with the reason in the end."""
    steps = Steps()
    for _ in range(MAX_CORRECTIONS):
        found = move(steps.reply(WRITTEN))
        assert isinstance(found, Note)
        assert "Nothing was carried out" in found.content["text"]
        steps.note(text=found.content["text"], correction=True)
    assert '"refund" as text' in failure(steps.reply(WRITTEN))
    assert "tool_mode" in failure(steps)


def test_a_filter_of_the_provider_is_named() -> None:
    """Half a text does not say why it ends."""
    said = Reply((Text("half"),), Stop.REFUSAL, why="content_filter")
    steps = Steps().add(StepKind.REPLY, reply_to_json(said))
    assert failure(steps) == "the model refused (the provider stopped it: content_filter): half"


# Several calls in one reply.


def test_calls_of_one_reply_are_carried_out_in_their_order() -> None:
    """The second waits for the answer of the first."""
    first, second = wants(call_id="a"), wants("escalate", "b", reason="x")
    steps = Steps().reply(first, second)
    assert move(steps) == act(first, REFUND)
    assert move(steps.result(first)) == act(second, ESCALATE)
    assert move(steps.result(second)) == Ask()


def test_a_failed_call_does_not_stop_the_others() -> None:
    """Of three parallel calls the second fails; the third is carried out all the same."""
    a, b, c = (wants(call_id=name, amount=n) for n, name in enumerate("abc"))
    steps = Steps().reply(a, b, c).result(a).result(b, "no such account", is_error=True)
    assert move(steps) == act(c, REFUND)
    assert move(steps.result(c)) == Ask()


def test_an_answer_belongs_to_the_reply_that_asked() -> None:
    """A provider that counts its calls from 1 in each reply does not get an old answer."""
    steps = Steps().reply(CALL).result(CALL).reply(wants(amount=6))
    assert move(steps) == act(wants(amount=6), REFUND)


# Wrong calls.


def test_an_unknown_tool_is_refused_with_the_known_ones() -> None:
    """The model may have misspelled it."""
    call = wants("refnd")
    found = move(Steps().reply(call))
    reason = 'there is no tool "refnd"; the tools are: refund, escalate'
    wanted = refuse(call, reason)
    assert found == replace(wanted, content={**wanted.content, "denied": reason})


def test_a_tool_of_a_run_without_tools_is_refused() -> None:
    """No text grants a tool: what the attachment does not list is not carried out."""
    found = move(Steps().reply(CALL), attachment())
    reason = 'there is no tool "refund"; the tools are: none'
    wanted = refuse(CALL, reason)
    assert found == replace(wanted, content={**wanted.content, "denied": reason})


def test_a_long_unknown_name_is_cut() -> None:
    """A model that invents a name of a thousand letters does not fill the transcript."""
    found = move(Steps().reply(wants("x" * 1000)))
    assert isinstance(found, Note)
    assert len(found.content["content"]) < 200


def test_arguments_that_are_no_object_are_refused() -> None:
    """Nothing is repaired."""
    call = ToolCall("c1", "refund", None, '{"amount": 5', "they have a number that is too large")
    found = move(Steps().reply(call))
    reason = "the arguments of refund cannot be used: they have a number that is too large"
    assert found == refuse(call, reason)


def test_arguments_that_the_schema_refuses_go_back_to_the_model() -> None:
    """The reason names the argument."""
    call = wants(amount="a lot")
    found = move(Steps().reply(call))
    assert isinstance(found, Note)
    assert found.content["correction"]
    assert 'amount: "a lot" is not of type number' in found.content["content"]


def test_two_wrong_replies_go_back_and_the_third_fails_the_run() -> None:
    """A model that cannot be corrected is stopped."""
    wrong = [wants(call_id=f"c{n}", amount="x" * n) for n in range(3)]
    steps = Steps()
    for call in wrong[:MAX_CORRECTIONS]:
        assert isinstance(move(steps.reply(call)), Note)
        steps.result(call, "refused", is_error=True, correction=True)
        assert move(steps) == Ask()
    reason = failure(steps.reply(wrong[-1]))
    assert reason.startswith("the model did not correct itself: refund refuses these arguments")


def test_several_wrong_calls_in_one_reply_count_once() -> None:
    """The model has not been told yet: it gets an answer to each of them."""
    wrong = [wants(call_id=name, amount=name) for name in "abcd"]
    steps = Steps().reply(*wrong)
    for call in wrong:
        assert isinstance(move(steps), Note)
        steps.result(call, "refused", is_error=True, correction=True)
    assert move(steps) == Ask()
    assert corrections(steps.reply("sorry")) == 1


def test_a_call_that_a_person_refused_is_no_mistake_of_the_model() -> None:
    """Being told no by people does not use up the corrections."""
    steps = Steps()
    for name in "abc":
        call = wants(call_id=name, amount=ord(name))
        steps.reply(call).result(call, "a person refused this call", is_error=True)
    assert corrections(steps.reply("I give up.")) == 0
    assert move(steps) == succeed("I give up.")


# Calls that are required.


@pytest.mark.parametrize("choice", ["required", "refund"])
def test_words_where_a_call_is_required_go_back_to_the_model(choice: str) -> None:
    """Twice; the third time the run fails."""
    on = attachment(REFUND, tool_choice=choice)
    steps = Steps()
    for _ in range(MAX_CORRECTIONS):
        found = move(steps.reply("I would refund it."), on)
        assert isinstance(found, Note)
        assert move(steps.note(text=found.content["text"], correction=True), on) == Ask()
    reason = failure(steps.reply("I would refund it."), on)
    assert reason == "the model answered in words where a tool call is required"


def test_a_required_call_is_required_until_a_tool_has_answered() -> None:
    """A refusal because of wrong arguments is no answer of a tool."""
    on = attachment(REFUND, tool_choice="required")
    wrong = wants(amount="x")
    steps = Steps().reply(wrong).result(wrong, "refused", is_error=True, correction=True)
    assert must_call(steps, on.agent) == "required"
    steps.reply(wants(call_id="c2")).result(wants(call_id="c2"))
    assert must_call(steps, on.agent) is None
    assert move(steps.reply("Done."), on) == succeed("Done.")


def test_the_named_tool_must_be_called_first() -> None:
    """A model that calls another one before it is told so, for not every server enforces it."""
    on = attachment(REFUND, ESCALATE, tool_choice="escalate")
    found = move(Steps().reply(CALL), on)
    assert isinstance(found, Note)
    assert found.content["correction"]
    assert "escalate" in found.content["content"]


def test_after_the_named_tool_any_tool_may_be_called() -> None:
    """Also in the same reply."""
    on = attachment(REFUND, ESCALATE, tool_choice="escalate")
    first, second = wants("escalate", "a", reason="x"), wants(call_id="b")
    steps = Steps().reply(first, second)
    assert move(steps, on) == act(first, ESCALATE)
    assert move(steps.result(first), on) == act(second, REFUND)


def test_nothing_is_required_of_a_model_that_may_choose() -> None:
    """The default."""
    assert must_call([], DESK.agent) is None


# How a reply can stop.


def test_a_reply_that_was_cut_off_fails_the_run() -> None:
    """Half a sentence is no result."""
    assert "max_output_tokens" in failure(
        Steps().reply("I thi", stop=Stop.LENGTH), limited(max_output_tokens=512)
    )


def test_a_refusal_fails_the_run_with_its_words() -> None:
    """A person reads why."""
    steps = Steps().reply("I cannot help with that.", stop=Stop.REFUSAL)
    assert failure(steps) == "the model refused: I cannot help with that."


@pytest.mark.parametrize(
    ("stop", "reason"),
    [
        (Stop.LENGTH, "the model was cut off by its token limit"),
        (Stop.REFUSAL, "the model refused"),
    ],
)
def test_no_call_of_a_reply_that_was_not_whole_is_carried_out(stop: Stop, reason: str) -> None:
    """Half a call can look like a whole one: providers close the braces of what they cut."""
    first, second = wants(call_id="a"), wants(call_id="b", amount=5000)
    steps = Steps().reply("I will", first, second, stop=stop)
    for call in (first, second):
        found = move(steps, limited(max_steps=1))
        assert found == refuse(call, "not carried out: the reply was cut off")
        steps.result(call, "not carried out", is_error=True, correction=True)
    assert failure(steps, limited(max_steps=1)).startswith(reason)
    assert move(steps.retried()) == Ask()


def test_a_reply_that_a_default_limit_cut_is_asked_for_again() -> None:
    """Nobody chose the limit: the model is asked again, with a higher one, at most twice."""
    call, steps = wants(), Steps()
    for n in range(MAX_CORRECTIONS):
        call = wants(call_id=f"c{n}")
        steps.reply(call, stop=Stop.LENGTH)
        assert move(steps) == refuse(call, "not carried out: the reply was cut off")
        steps.result(call, "not carried out", is_error=True, correction=True)
        found = move(steps)
        assert isinstance(found, Note)
        assert "cut off" in found.content["text"]
        assert move(steps.note(**found.content)) == Ask()
        assert times_cut(steps) == n + 1
    assert "max_output_tokens" in failure(steps.reply("I", stop=Stop.LENGTH))
    assert times_cut(steps.retried()) == 0


def test_a_limit_of_the_agent_is_not_exceeded() -> None:
    """Somebody chose it: the run fails."""
    steps = Steps().reply("I", stop=Stop.LENGTH)
    assert "max_output_tokens" in failure(steps, limited(max_output_tokens=512))


# One call where one is enough.

ONCE = attachment(REFUND, ESCALATE, tool("look", effect=Effect.READ), finish=Finish.AFTER_CALL)


def test_a_run_ends_after_its_calls() -> None:
    """All calls of a reply have succeeded: nothing is left to ask."""
    other = wants("escalate", call_id="c2")
    steps = Steps().reply("Both.", CALL, other).result(CALL)
    assert move(steps, ONCE) == act(other, ESCALATE)
    assert move(steps.result(other), ONCE) == succeed("Both.")


@pytest.mark.parametrize("correction", [False, True])
def test_a_failed_call_goes_back_to_the_model(*, correction: bool) -> None:
    """A refusal of the database, of a person or of the arguments: the model decides again."""
    steps = Steps().reply(CALL).result(CALL, "no", is_error=True, correction=correction)
    assert move(steps, ONCE) == Ask()
    again = wants(call_id="c2")
    assert move(steps.reply(again).result(again), ONCE) == succeed("")


def test_a_model_that_has_only_read_is_asked_again() -> None:
    """It reads in order to act, unless the tool is the one that it must call."""
    call = wants("look")
    steps = Steps().reply(call).result(call)
    assert move(steps, ONCE) == Ask()
    assert move(steps, changed(ONCE, tool_choice="look")) == succeed("")


def test_to_do_nothing_ends_the_run() -> None:
    """It is a decision."""
    nothing = tool("do_nothing", kind="builtin", target="do_nothing", effect=Effect.READ)
    call = wants("do_nothing")
    steps = Steps().reply(call).result(call)
    assert move(steps, attachment(nothing, finish=Finish.AFTER_CALL)) == succeed("")


def test_calls_that_end_the_run_go_beyond_no_limit() -> None:
    """The last allowed reply is enough."""
    once = changed(ONCE, limits=RunLimits(max_steps=1))
    assert move(Steps().reply(CALL).result(CALL), once) == succeed("")


def test_words_end_the_run_where_no_call_is_needed() -> None:
    """An answer in words still is one."""
    assert move(Steps().reply("Nothing to do."), ONCE) == succeed("Nothing to do.")


# Tools that a person has to approve.

ASKED = attachment(tool(approval=True))


def test_a_tool_with_approval_waits_for_a_person() -> None:
    """Nothing is carried out before."""
    assert move(Steps().reply(CALL), ASKED) == Wait("approval", CALL, ASKED.agent.tools[0])


def test_an_approved_call_is_carried_out() -> None:
    """The very call that was asked about."""
    steps = Steps().reply(CALL).approval(CALL).decision(CALL, "approved")
    assert move(steps, ASKED) == act(CALL, ASKED.agent.tools[0])


def test_a_rejected_call_is_refused_with_the_reason() -> None:
    """The model is told, and it is not its mistake."""
    steps = Steps().reply(CALL).approval(CALL).decision(CALL, "rejected", "too much")
    expected = refuse(CALL, "a person refused this call: too much", correction=False)
    assert move(steps, ASKED) == expected


def test_a_rejection_needs_no_reason() -> None:
    """Then the model is only told that it was refused."""
    steps = Steps().reply(CALL).approval(CALL).decision(CALL, "rejected")
    assert move(steps, ASKED) == refuse(CALL, "a person refused this call", correction=False)


def test_an_expired_question_is_not_a_refusal() -> None:
    """The model learns that nobody answered."""
    found = move(Steps().reply(CALL).approval(CALL).decision(CALL, "expired"), ASKED)
    assert isinstance(found, Note)
    assert "correction" not in found.content
    assert "nobody decided" in found.content["content"]


def test_a_decision_holds_for_its_own_call_only() -> None:
    """The approval of one call does not let a second one through."""
    first, second = wants(call_id="a"), wants(call_id="b", amount=5000)
    steps = Steps().reply(first, second).approval(first).decision(first, "approved").result(first)
    assert move(steps, ASKED) == Wait("approval", second, ASKED.agent.tools[0])


def test_a_decision_does_not_outlive_its_reply() -> None:
    """A later call with the same id and other arguments is asked about anew."""
    later = wants(amount=5000)
    steps = Steps().reply(CALL).approval(CALL).decision(CALL, "approved").result(CALL)
    assert move(steps.reply(later), ASKED) == Wait("approval", later, ASKED.agent.tools[0])


def test_wrong_arguments_are_refused_before_a_person_is_asked() -> None:
    """Nobody is asked about a call that cannot happen."""
    assert isinstance(move(Steps().reply(wants(amount="x")), ASKED), Note)


# Tools outside the database: an intent without a result.


@pytest.mark.parametrize("effect", [Effect.READ, Effect.TRANSACTIONAL, Effect.IDEMPOTENT])
def test_a_lost_call_is_made_again_where_that_is_harmless(effect: Effect) -> None:
    """With the mark that it is not the first time, so that no second intent is recorded."""
    on = attachment(tool(effect=effect))
    assert move(Steps().reply(CALL).intent(CALL), on) == act(CALL, on.agent.tools[0], again=True)


def test_a_lost_call_of_an_unsafe_tool_goes_to_a_person() -> None:
    """It may have acted: nobody but a person can find out."""
    on = attachment(tool(effect=Effect.UNSAFE))
    assert move(Steps().reply(CALL).intent(CALL), on) == Wait("review", CALL, on.agent.tools[0])


def test_an_unsafe_tool_is_started_when_it_was_not() -> None:
    """Only a recorded intent makes the outcome unknown."""
    on = attachment(tool(effect=Effect.UNSAFE))
    assert move(Steps().reply(CALL), on) == act(CALL, on.agent.tools[0])


def test_an_approved_and_lost_call_is_not_approved_again() -> None:
    """The decision stands; the effect class decides about the loss."""
    on = attachment(tool(effect=Effect.UNSAFE, approval=True))
    steps = Steps().reply(CALL).approval(CALL).decision(CALL, "approved").intent(CALL)
    assert move(steps, on) == Wait("review", CALL, on.agent.tools[0])


# Limits.


def limited(**limits: float) -> Attachment:
    """The desk with limits."""
    return attachment(REFUND, ESCALATE, limits=RunLimits(**limits))  # pyright: ignore[reportArgumentType]


def test_the_model_is_not_asked_more_often_than_allowed() -> None:
    """`max_steps` counts replies."""
    steps = Steps()
    for n in range(2):
        call = wants(call_id=str(n), amount=n)
        steps.reply(call).result(call)
    assert move(steps, limited(max_steps=3)) == Ask()
    assert failure(steps, limited(max_steps=2)) == (
        "2 replies of the model were not enough (max_steps)"
    )


def test_the_calls_of_the_last_allowed_reply_are_carried_out() -> None:
    """The limit stops the next reply, not what the last one asked for."""
    assert move(Steps().reply(CALL), limited(max_steps=1)) == act(CALL, REFUND)


def test_the_last_allowed_reply_may_end_the_run() -> None:
    """Ending needs no further reply."""
    assert move(Steps().reply("Done."), limited(max_steps=1)) == succeed("Done.")


def test_a_run_stops_when_its_tokens_are_used_up() -> None:
    """The figures are in the reason."""
    steps = Steps().reply(CALL, tokens=60).result(CALL).reply(wants(call_id="d"), tokens=60)
    assert failure(steps, limited(max_tokens=100)) == "120 tokens used, 100 allowed (max_tokens)"
    assert isinstance(move(steps, limited(max_tokens=120)), Act)


def test_a_run_stops_when_its_money_is_spent() -> None:
    """The figures are in the reason."""
    steps = Steps().reply(CALL, cost=0.06).result(CALL).reply(wants(call_id="d"), cost=0.06)
    reason = failure(steps, limited(max_cost=0.1))
    assert reason == "0.120000 US dollars spent, 0.1 allowed (max_cost)"


@pytest.mark.parametrize("limits", [{"max_tokens": 100}, {"max_cost": 0.1}])
def test_an_answer_that_is_there_is_not_thrown_away_for_its_price(limits: dict[str, float]) -> None:
    """Ending the run goes beyond no limit: what the last reply cost is spent either way."""
    steps = Steps().reply("Refunded.", tokens=110, cost=0.11)
    assert move(steps, limited(**limits)) == succeed("Refunded.")


def test_unknown_cost_is_not_taken_for_zero_or_for_too_much() -> None:
    """Where no price is known, the limit cannot be reached here."""
    assert move(Steps().reply(CALL, cost=None), limited(max_cost=0.1)) == act(CALL, REFUND)


def circle(times: int, *answers: str) -> Steps:
    """The same call again and again."""
    steps = Steps()
    for n in range(times):
        call = wants(call_id=f"c{n}")
        steps.reply(call).result(call, answers[n % len(answers)])
    return steps


def test_the_same_call_with_the_same_result_three_times_is_a_circle() -> None:
    """Twice may be an accident."""
    assert move(circle(2, "ok")) == Ask()
    assert failure(circle(3, "ok")) == "the same call had the same result 3 times"


def test_the_same_call_with_other_results_is_no_circle() -> None:
    """Looking again until something has changed is a way to work."""
    assert move(circle(5, "1", "2", "3")) == Ask()


def test_a_circle_is_seen_also_across_a_restart() -> None:
    """PostgreSQL gives an object's keys back in another order; the call is the same."""
    steps = Steps()
    for n in range(3):
        call = ToolCall(f"c{n}", "move", {"to": 1, "amount": 2})
        steps.reply(call).result(call)
    sorted_by_postgres = json.loads(json.dumps(steps[0].content, sort_keys=True))
    steps[0] = Step(0, StepKind.REPLY, sorted_by_postgres)
    assert "3 times" in failure(steps, attachment(tool("move", input_schema={})))


# A person lets a run go on.


def test_limits_count_again_after_a_retry() -> None:
    """A run that had used up its replies gets as many again."""
    steps = circle(3, "ok")
    on = limited(max_steps=3)
    assert isinstance(move(steps, on), End)
    assert move(steps.retried(), on) == Ask()


def test_corrections_count_again_after_a_retry() -> None:
    """The model gets another chance to be corrected."""
    steps = Steps()
    for n in range(MAX_CORRECTIONS):
        call = wants(call_id=f"c{n}", amount="x")
        steps.reply(call).result(call, "refused", is_error=True, correction=True)
    steps.reply(wants(call_id="last", amount="x"))
    assert isinstance(move(steps), End)
    assert isinstance(move(steps.retried()), Note)


@pytest.mark.parametrize("stop", [Stop.LENGTH, Stop.REFUSAL])
def test_a_reply_that_failed_the_run_is_asked_for_again_after_a_retry(stop: Stop) -> None:
    """The model gets another try."""
    steps = Steps().reply("I", stop=stop)
    assert isinstance(move(steps, limited(max_output_tokens=512)), End)
    assert move(steps.retried(), limited(max_output_tokens=512)) == Ask()


def test_a_retry_before_anything_happened_starts_the_run() -> None:
    """A run that died for want of a provider has no steps but the retry's note."""
    assert move(Steps().retried()) == Ask()


def test_a_retry_does_not_forget_what_was_answered() -> None:
    """The steps stay: a call that has its result is not made again."""
    steps = Steps().reply(CALL).result(CALL).retried()
    assert move(steps) == Ask()


def test_what_a_run_does_next_follows_from_its_recorded_steps_alone() -> None:
    """Promise 5: steps that went through PostgreSQL and back give the same move, at every place."""
    call, late = wants(call_id="a", amount=1.5), wants(call_id="b")
    steps = (
        Steps()
        .reply("Let me see.", call)
        .approval(call)
        .decision(call, "approved")
        .intent(call)
        .result(call, "done")
        .retried()
        .reply(late)
        .result(late, "refused", is_error=True)
        .reply("Done.")
    )
    on = attachment(tool(approval=True, effect=Effect.IDEMPOTENT))
    for end in range(len(steps) + 1):
        lived = Steps(steps[:end])
        stored = Steps(
            Step(s.seq, s.kind, json.loads(json.dumps(s.content, sort_keys=True)), s.tokens, s.cost)
            for s in lived
        )
        assert move(lived, on) == move(stored, on) == move(lived, on)
