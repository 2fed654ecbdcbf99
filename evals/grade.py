"""Whether an answer is right: its rows against the expected ones, by value and not by name.

Columns may have any name and order, and there may be more of them; rows may not.  A number may be
off by what the question allows, a date may be written longer or shorter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import permutations
from typing import Any

from evals.questions import Question
from walagent.ask.outcome import QuestionResult

Row = Sequence[object]
_WIDEST = 8  # columns of a result among which the expected ones are looked for


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
    return Grade(f"other values, such as {_shown(found)} for {_shown(expected)}")


def same_rows(
    expected: Sequence[Row], found: Sequence[Row], *, ordered: bool = False, within: float = 0.005
) -> bool:
    """Whether some columns of *found* are the expected rows."""
    if len(expected) != len(found):
        return False
    if not expected:
        return True
    want = [[_plain(cell) for cell in row] for row in expected]
    have = [[_plain(cell) for cell in row] for row in found]
    wide = min(len(have[0]), _WIDEST)
    same = _same_in_order if ordered else _same_in_any_order
    return any(
        same(want, [[row[n] for n in columns] for row in have], Decimal(str(within)))
        for columns in permutations(range(wide), len(want[0]))
    )


def _same_in_order(want: Sequence[Row], have: Sequence[Row], within: Decimal) -> bool:
    return all(_same(a, b, within) for a, b in zip(want, have, strict=True))


def _same_in_any_order(want: Sequence[Row], have: Sequence[Row], within: Decimal) -> bool:
    left = list(have)
    for row in want:
        at = next((n for n, other in enumerate(left) if _same(row, other, within)), None)
        if at is None:
            return False
        left.pop(at)
    return True


def _same(want: Row, have: Row, within: Decimal) -> bool:
    return all(_same_cell(a, b, within) for a, b in zip(want, have, strict=True))


def _same_cell(want: object, have: object, within: Decimal) -> bool:
    if isinstance(want, Decimal) and isinstance(have, Decimal):
        return abs(want - have) <= within
    if isinstance(want, str) and isinstance(have, str) and want[:4].isdigit() and "-" in want:
        return have.startswith(want) or want.startswith(have)
    return want == have


def _plain(cell: object) -> object:
    """Make one of numbers however they are written, and of texts but for blanks and case."""
    match cell:
        case None:
            return None
        case bool():
            return "t" if cell else "f"
        case date() | datetime():
            return cell.isoformat()
        case _:
            text = str(cell).strip()
    try:
        number = Decimal(text)
    except InvalidOperation:
        return text.casefold()
    return number if number.is_finite() else text.casefold()


def _shown(rows: Sequence[Row]) -> str:
    return "(" + ", ".join(_words(rows[0])) + ")"


def _words(row: Row) -> Iterator[str]:
    return ("NULL" if cell is None else str(cell) for cell in row)


def as_texts(rows: Sequence[Sequence[Any]]) -> list[list[str | None]]:
    """Write rows for a report."""
    return [[None if cell is None else str(cell) for cell in row] for row in rows]
