"""What a question's run does next, as a table of cases: no database, no model, no clock."""

from collections.abc import Sequence
from typing import Literal

import pytest

from walagent.ask.moves import next_move, read_standing
from walagent.ask.options import Options
from walagent.ask.plan import StepType
from walagent.ask.results import StepResult
from walagent.domain.run import RunState, Step, StepKind
from walagent.domain.transcript import reply_to_json
from walagent.message import Json, Reply, Stop, Text, ToolCall
from walagent.moves import Act, Ask, End, Move, Prompt, fail
from walagent.rows.rows import ResultColumn, Rows

ONE_ROW = Rows([ResultColumn("n", 20)], [("7",)])


def replied(
    by: str, arguments: dict[str, Json] | None = None, text: str = "", **about: Json
) -> dict[str, Json]:
    """A reply that calls the tool it was made to call; without arguments, one in words."""
    parts = (Text(text),) if arguments is None else (ToolCall("c", by, arguments),)
    stop = Stop.END if arguments is None else Stop.TOOL
    return {**reply_to_json(Reply(parts, stop)), "by": by, **about}


def sql(name: str, *needs: str, query: str = "select 1") -> dict[str, Json]:
    """A step of a plan."""
    return {
        "id": name,
        "type": "SQL",
        "description": "",
        "tool_input": {"query": query},
        "depends_on": list(needs),
    }


def planned(*steps: dict[str, Json], **more: Json) -> dict[str, Json]:
    """A reply of the planner."""
    return replied("planner", {"reasoning": "r", "steps": list(steps), **more})


def result(name: str, *, error: str = "", findings: Sequence[str] = ()) -> StepResult:
    """What a step gave."""
    rows = Rows(()) if error else ONE_ROW
    return StepResult(name, StepType.SQL, rows, "select 1", error, findings)


def verdict(stage: Literal["plan", "results"], reason: str = "") -> dict[str, Json]:
    """A reply of the critic; with a reason it rejects."""
    return replied("critic", {"approved": not reason, "reason": reason}, stage=stage)


ANSWER = replied("answer", {"text": "Seven.", "caveats": []})


def steps(*contents: dict[str, Json] | StepResult) -> list[Step]:
    """Recorded steps."""
    return [
        Step(n, StepKind.RESULT, {"call_id": "x", **each.to_json()})
        if isinstance(each, StepResult)
        else Step(n, StepKind.REPLY, each)
        for n, each in enumerate(contents)
    ]


def move(*contents: dict[str, Json] | StepResult, parallel: bool = True) -> Move:
    """The next move after some steps."""
    return next_move(steps(*contents), Options(parallel=parallel))


PLANNER = Ask((Prompt("planner", keep=True),))


def candidates(*numbers: int) -> Ask:
    """The move that asks for these candidates."""
    return Ask(tuple(Prompt("planner", {"candidate": number}, keep=True) for number in numbers))


def finish(status: str, text: str) -> End:
    """The end of a question that was dealt with."""
    return End(RunState.SUCCEEDED, text, about={"status": status})


def rejected(*contents: dict[str, Json] | StepResult) -> Sequence[tuple[Json, str]]:
    """The plans so far, each with what was wrong with it."""
    return read_standing(steps(*contents)).rejected


def ids(found: Move) -> list[str]:
    """The steps to carry out."""
    assert isinstance(found, Act)
    return [(call.call.arguments or {})["id"] for call in found.calls]


def test_a_plain_question_takes_two_replies() -> None:
    """One for the plan, one for the answer."""
    assert move() == PLANNER
    assert ids(move(planned(sql("a")))) == ["a"]
    assert move(planned(sql("a")), result("a")) == Ask((Prompt("answer"),))
    assert move(planned(sql("a")), result("a"), ANSWER) == finish("answered", "Seven.")


def test_steps_go_side_by_side_or_one_by_one() -> None:
    """And each when what it needs is there."""
    plan, approved = planned(sql("a"), sql("b"), sql("c", "a", "b")), verdict("plan")
    assert ids(move(plan, approved)) == ["a", "b"]
    assert ids(move(plan, approved, parallel=False)) == ["a"]
    assert ids(move(plan, approved, result("b"))) == ["a"]
    assert ids(move(plan, approved, result("b"), result("a"))) == ["c"]


@pytest.mark.parametrize(("outcome", "status"), [("clarify", "clarify"), ("refuse", "refused")])
def test_a_planner_may_ask_back_or_say_no(outcome: str, status: str) -> None:
    """Then nothing is run."""
    assert move(planned(outcome=outcome, reply="Which?")) == finish(status, "Which?")  # pyright: ignore[reportArgumentType]


def test_a_wrong_plan_goes_back_with_its_mistakes() -> None:
    """Twice; then it is given up."""
    wrong = planned(sql("a", "a"))
    assert move(wrong) == PLANNER
    assert "depends on itself" in rejected(wrong)[0][1]
    assert move(wrong, wrong) == PLANNER
    given_up = move(wrong, wrong, wrong)
    assert isinstance(given_up, End)
    assert "depends on itself" in given_up.reason
    assert ids(move(wrong, planned(sql("a")))) == ["a"]


def test_a_reply_without_a_plan_is_a_wrong_plan() -> None:
    """The model was made to call the tool, and did not."""
    talk = replied("planner", text="I would rather talk.")
    assert move(talk) == PLANNER
    assert "not a JSON object" in rejected(talk)[0][1]


def test_a_statement_that_failed_is_planned_again() -> None:
    """Twice, with what went wrong; what did work and stays in the plan is not run again."""
    first = planned(sql("a"), sql("b"), sql("c", "b"))
    so_far = (first, verdict("plan"), result("a"), result("b", error="no such column"))
    assert move(*so_far) == PLANNER
    plan, why = rejected(*so_far)[-1]
    assert plan == first["parts"][0]["arguments"]
    assert "step b failed: no such column" in why
    second = planned(sql("a"), sql("b", query="select 2"), sql("c", "b"))
    assert ids(move(*so_far, second, verdict("plan"))) == ["b"]
    changed = planned(sql("a", query="select 3"), sql("b", query="select 2"))
    assert ids(move(*so_far, changed, verdict("plan"))) == ["a", "b"]


def test_a_statement_that_fails_again_and_again_is_given_up() -> None:
    """With the last reason."""
    failed = result("a", error="no such column")
    plans = (planned(sql("a")), failed) * 2
    assert move(*plans) == PLANNER
    assert move(*plans, planned(sql("a")), failed) == fail("step a failed: no such column")


def test_a_result_that_rests_on_a_changed_step_is_not_kept() -> None:
    """Its own words are the same; what they are about is not."""
    first = planned(sql("a"), sql("b", "a"), sql("c"))
    second = planned(sql("a", query="select 2"), sql("b", "a"), sql("c", query="select 3"))
    found = steps(
        first, verdict("plan"), result("a"), result("b"), result("c", error="bad"), second
    )
    assert read_standing(found).results == {}


def test_the_critic_sees_what_is_not_plain() -> None:
    """A plan of several steps before it is carried out, and results that checks have found odd."""
    several = planned(sql("a"), sql("b"))
    assert move(several) == Ask((Prompt("critic", {"stage": "plan"}),))
    odd = result("a", findings=["there are no rows"])
    assert move(planned(sql("a")), odd) == Ask((Prompt("critic", {"stage": "results"}),))
    assert move(planned(sql("a")), odd, verdict("results")) == Ask((Prompt("answer"),))
    assert isinstance(next_move(steps(several), Options(critic=False)), Act)


def test_a_rejection_leads_to_one_other_plan() -> None:
    """A second rejection stands in the answer, and is not hidden."""
    odd = result("a", findings=["there are no rows"])
    first = (planned(sql("a")), odd, verdict("results", "the year is wrong"))
    assert move(*first) == PLANNER
    assert "the year is wrong" in rejected(*first)[-1][1]
    second = (*first, planned(sql("a")), odd, verdict("results", "still wrong"))
    assert ids(move(*first, planned(sql("a")))) == ["a"]
    assert move(*second) == Ask((Prompt("answer"),))
    assert read_standing(steps(*second)).objections == ["still wrong"]


def test_a_verdict_that_is_none_lets_the_question_go_on() -> None:
    """A critic that says nothing stops nothing."""
    several = planned(sql("a"), sql("b"))
    silent = replied("critic", stage="plan")
    assert ids(move(several, silent)) == ["a", "b"]


def test_an_answer_without_words_is_asked_for_again() -> None:
    """Once; then the rows must speak for themselves."""
    done = (planned(sql("a")), result("a"))
    silent = replied("answer", {"caveats": []})
    assert move(*done, silent) == Ask((Prompt("answer"),))
    assert move(*done, silent, ANSWER) == finish("answered", "Seven.")
    found = move(*done, silent, silent)
    assert isinstance(found, End)
    assert "see the rows" in (found.result or "")
    in_prose = replied("answer", text="Seven, I think.")
    assert move(*done, in_prose) == finish("answered", "Seven, I think.")


def test_how_often_is_planned_again_is_said_with_the_question() -> None:
    """Not at all, or more often than is usual."""
    failed = (planned(sql("a")), result("a", error="no such column"))
    given_up = fail("step a failed: no such column")
    assert next_move(steps(*failed), Options(retries=0)) == given_up
    four = failed * 4
    assert next_move(steps(*four), Options(retries=4)) == PLANNER
    assert next_move(steps(*four, *failed), Options(retries=4)) == given_up


# Several plans for one question.


def of(number: int, content: dict[str, Json] | StepResult) -> Step:
    """A step of one of several plans."""
    (step,) = steps(content)
    return Step(0, step.kind, {**step.content, "candidate": number})


def rows(*texts: str | None, oid: int = 20) -> StepResult:
    """A result of step a, with one column of a name that only this plan has."""
    return StepResult(
        "a", StepType.SQL, Rows([ResultColumn(f"n{texts}", oid)], [(x,) for x in texts])
    )


def several(*given: Step, count: int = 3, replans: int = 2) -> Move:
    """The next move where several plans were asked for."""
    return next_move(given, Options(candidates=count, retries=replans))


THREE = tuple(of(n, planned(sql("a", query=f"select {n}"))) for n in (1, 2, 3))


def test_several_plans_are_asked_for_at_once_and_each_is_carried_out() -> None:
    """After a crash, only what is missing."""
    assert several() == candidates(1, 2, 3)
    assert several(THREE[0], THREE[2]) == candidates(2)
    found = several(*THREE, of(1, rows("7")), of(3, rows("7")))
    assert isinstance(found, Act)
    (call,) = found.calls
    assert call.about == {"candidate": 2}
    assert (call.call.arguments or {})["tool_input"] == {"query": "select 2"}


def test_the_result_that_most_came_to_is_taken() -> None:
    """Whatever its columns are called, however rows are ordered and numbers are written."""
    ends = (
        of(1, rows("8", "7", None)),
        of(2, rows("7", None, "8.00", oid=1700)),
        of(3, rows("9")),
    )
    standing = read_standing([*THREE, *ends], candidates=3)
    assert standing.plan is not None
    assert standing.plan.steps[0].text("query") == "select 1"
    assert standing.agreement == "2 of 3 plans came to this"
    assert standing.findings == ["only 2 of 3 plans came to this"]
    assert several(*THREE, *ends) == Ask((Prompt("critic", {"stage": "results"}),))
    other = (of(1, rows("9")), *(of(n, rows("7")) for n in (2, 3)))
    chosen = read_standing([*THREE, *other], candidates=3)
    assert list(chosen.results["a"].rows) == [(7,)]


def test_plans_that_all_agree_need_no_review() -> None:
    """Also where each has several steps, which a single plan would be reviewed for."""
    plans = [of(n, planned(sql("a"), sql("b", query=f"select {n}"))) for n in (1, 2)]
    ends = [of(n, result(name)) for n in (1, 2) for name in ("a", "b")]
    assert several(*plans, *ends, count=2) == Ask((Prompt("answer"),))
    assert read_standing([*plans, *ends], candidates=2).agreement == "2 of 2 plans came to this"


def test_where_no_two_plans_agree_the_one_that_checks_found_least_in_is_taken() -> None:
    """And it is said."""
    odd = StepResult("a", StepType.SQL, Rows([ResultColumn("n", 20)], [(None,)]), findings=["NULL"])
    standing = read_standing([*THREE, of(1, odd), of(2, rows("2")), of(3, rows("3"))], candidates=3)
    assert list(standing.results["a"].rows) == [(2,)]
    assert standing.findings == ["only 1 of 3 plans came to this"]


def test_a_plan_that_is_none_or_fails_falls_out() -> None:
    """The others are what is chosen from."""
    plans = (of(1, planned(sql("a", "a"))), *THREE[1:])
    ends = (of(2, result("a", error="no such column")), of(3, rows("3")))
    standing = read_standing([*plans, *ends], candidates=3)
    assert list(standing.results["a"].rows) == [(3,)]
    assert several(*plans, *ends) == Ask((Prompt("answer"),))


def test_where_every_plan_falls_out_one_more_is_asked_for() -> None:
    """As if there had been one: with what failed, or with all their mistakes; then it is alone."""
    failed = [of(n, result("a", error=f"column {n} is missing")) for n in (1, 2, 3)]
    assert several(*THREE, *failed) == PLANNER
    told = read_standing([*THREE, *failed], candidates=3).rejected
    assert told[-1][1] == "step a failed: column 1 is missing"
    assert isinstance(several(*THREE, *failed, replans=0), End)
    alone = [*THREE, *failed, *steps(planned(sql("a")))]
    assert ids(several(*alone)) == ["a"]
    none = [of(n, planned(sql("a", "a"))) for n in (1, 2)]
    assert several(*none, count=2) == PLANNER
    assert len(read_standing(none, candidates=2).rejected) == 2


def test_more_than_half_of_the_plans_may_ask_back() -> None:
    """Then nothing is carried out; fewer are overruled."""
    asks = planned(outcome="clarify", reply="Which year?")  # pyright: ignore[reportArgumentType]
    assert several(of(1, asks), of(2, asks), THREE[2]) == finish("clarify", "Which year?")
    assert ids(several(of(1, asks), *THREE[1:])) == ["a"]


def test_an_agreement_goes_with_the_plan_that_it_was_about() -> None:
    """What the critic sends back is planned alone."""
    ends = (of(1, rows("7")), of(2, rows("7")), of(3, rows("9")))
    rejected = [*THREE, *ends, *steps(verdict("results", "the year is wrong"))]
    assert several(*rejected) == PLANNER
    standing = read_standing([*rejected, *steps(planned(sql("a")), result("a"))], candidates=3)
    assert (standing.agreement, standing.findings) == ("", [])


def test_what_went_beside_a_step_that_failed_comes_too_late() -> None:
    """The last candidate's failure has settled the matter before."""
    pair = of(1, planned(sql("a"), sql("b")))
    given = [pair, of(2, planned(sql("a"))), of(2, result("a"))]
    given += [of(1, result("b", error="no")), of(1, result("a"))]
    assert several(*given, count=2) == Ask((Prompt("answer"),))
