"""A provider that plans as an honest model would: with the reference statement of each question."""

from collections.abc import Mapping

from evals.questions import Question, the_questions
from walagent.message import Request, Text
from walagent.models.script import Answer
from walagent.testing import FakeProvider, call

_REFUSALS = {
    "clarify": "Which ones do you mean?",
    "refused": "It cannot be answered from this database, because nothing of it is kept.",
    "harmless": "I only read.",
}


def planner(instead: Mapping[str, str] | None = None) -> FakeProvider:
    """Give the provider.

    Args:
        instead: statements for some questions, by id.
    """

    def answer(request: Request) -> Answer:
        match request.choice.name:
            case "plan":
                return _plan(_asked(request), instead or {})
            case "verdict":
                return call("verdict", approved=True, reason="")
            case _:
                return call("answer", text="See the rows.", caveats=[])

    return FakeProvider([answer] * 30)


def _asked(request: Request) -> Question:
    """The question: what the user's side said last that ends with one."""
    said = [
        part.text
        for message in request.messages
        if message.role == "user"
        for part in message.parts
        if isinstance(part, Text)
    ]
    by_length = sorted(the_questions(), key=lambda each: -len(each.text))
    return next(each for text in reversed(said) for each in by_length if text.endswith(each.text))


def _plan(question: Question, instead: Mapping[str, str]) -> Answer:
    sql = instead.get(question.id, question.sql)
    if not sql:
        outcome = "clarify" if question.expect == "clarify" else "refuse"
        return call("plan", reasoning="", outcome=outcome, reply=_REFUSALS[question.expect])
    step = {"id": "a", "type": "SQL", "description": "it", "tool_input": {"query": sql}}
    return call("plan", reasoning="One statement answers it.", steps=[step])
