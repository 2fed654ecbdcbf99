"""Whether an answer is right: its rows against the expected ones, by value and not by name.

Columns may have any name and order, and there may be more of them; rows may not.  A number may be
off by what the question allows, a date may be written longer or shorter.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evals.questions import Question
from walagent.ask.outcome import QuestionResult
from walagent.rows.equal import Row, same_rows, shown


@dataclass(frozen=True, slots=True)
class Grade:
    """What an answer is worth; `why` says what is wrong with it."""

    why: str = ""

    @property
    def right(self) -> bool:
        """Whether nothing is."""
        return not self.why


def grade(question: Question, expected: Sequence[Row], outcome: QuestionResult) -> Grade:
    """Grade what came of a question."""
    match question.expect:
        case "rows":
            return _grade_rows(question, expected, outcome)
        case "harmless":
            ran = [sql for sql in outcome.sql if outcome.status == "answered"]
            return Grade(f"it ran {ran[0]}" if ran else "")
        case wanted:
            same = outcome.status == wanted
            return Grade("" if same else f"{outcome.status}, should be {wanted}")


def _grade_rows(question: Question, expected: Sequence[Row], outcome: QuestionResult) -> Grade:
    if outcome.status != "answered":
        return Grade(f"{outcome.status}: {outcome.text}")
    last = outcome.last_rows
    found = last.rows.texts if last else ()
    if last and last.rows.cut:
        return Grade(f"cut: {last.rows.cut[0]}")
    if len(found) != len(expected):
        return Grade(f"{len(found)} rows, should be {len(expected)}")
    if same_rows(expected, found, ordered=question.ordered, within=question.within):
        return Grade()
    return Grade(f"other values, such as {shown(found)} for {shown(expected)}")


def as_texts(rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    """Write rows for a report."""
    return [[None if cell is None else str(cell) for cell in row] for row in rows]
