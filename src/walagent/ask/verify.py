"""Checks of results that need no model: what is odd about rows, and what VERIFY steps say.

None looks at what the question was, so what is found is a reason to look again, not a verdict.  A
value of any type is read as the text that PostgreSQL printed; only numbers are taken for numbers.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from itertools import chain
from typing import Final

from walagent.ask.plan import PlanStep, StepType
from walagent.ask.results import StepResult
from walagent.postgres import pgtypes
from walagent.rows.rows import ResultColumn, Rows

# Words in the names of columns.  Of the first kind, values are parts of a whole …
_PERCENT: Final = re.compile(r"percent|pct|percentage|%")
# … unless they are a change, or a part of something else than the whole.
_UNBOUND: Final = re.compile(
    r"growth|change|increase|decrease|delta|diff|deviation|gain|loss|over|vs|versus|yoy|mom|qoq"
    r"|margin|markup|return|roi|target|plan|budget|inflation|interest"
)
_FRACTION: Final = re.compile(r"percent|pct|percentage|%|share|ratio|rate")
_MEAN: Final = re.compile(r"avg|average|mean|per")
_MINOR: Final = re.compile(r"cents?|pence|minor")
# Of these, the parts do not add up to the whole.
_NOT_ADDITIVE: Final = re.compile(
    r"avg|average|mean|median|min|max|rate|ratio|share|percent|pct|percentage|%|price|distinct"
    r"|unique|stddev|variance|first|last|id|year|quarter|month|week|day|hour|rank|position"
)
_FEW_OF_ALL: Final = re.compile(r"\b(limit|fetch|having|offset)\b", re.IGNORECASE)
_OVERLAPPING: Final = re.compile(r"\b(distinct|rollup|cube|sets)\b", re.IGNORECASE)
_SEVERAL: Final = 3  # rows that are zero before it is odd


def check_rows(rows: Rows) -> Sequence[str]:
    """Say what is odd about rows; nothing for most."""
    if not rows.texts:
        return ("there are no rows",)
    return tuple(chain(_about_all(rows), _about_columns(rows)))


def verify(step: PlanStep, inputs: Mapping[str, StepResult]) -> StepResult:
    """Carry a VERIFY step out: one row for each step that it is about."""
    columns = [
        ResultColumn("step", pgtypes.TEXT),
        ResultColumn("passed", pgtypes.BOOL),
        ResultColumn("finding", pgtypes.TEXT),
    ]
    found = {name: list(_found(result)) for name, result in inputs.items()}
    for name, said in _totals_that_differ(inputs):
        found[name].append(said)
    texts = [(name, "f" if said else "t", "; ".join(said)) for name, said in found.items()]
    findings = tuple(f"{name}: {said}" for name, passed, said in texts if passed == "f")
    return StepResult(step.id, step.type, Rows(columns, texts), findings=findings)


def _found(result: StepResult) -> Sequence[str]:
    if result.error:
        return [result.error]
    if result.type is StepType.SEARCH and result.rows.texts:
        return ()  # that nobody vouches for the web is no fault of these results
    return result.findings


def _about_all(rows: Rows) -> Iterator[str]:
    if rows.lacks_rows:
        yield "not all rows were read, so totals over them are wrong"
    distinct = len(set(rows.texts))
    if distinct == 1 and len(rows) > 1 and len(rows.names) > 1:
        yield "all rows are the same, as after a join that repeats them"
    if 1 < distinct < len(rows) / 2:
        yield "most rows appear more than once, as after a join that repeats them"


def _about_columns(rows: Rows) -> Iterator[str]:
    for n, column in enumerate(rows.columns):
        texts = [row[n] for row in rows.texts]
        if all(text is None for text in texts):
            yield f"{column.name} is NULL in every row"
        elif column.type_oid in pgtypes.NUMBERS:
            yield from _about_numbers(column, texts)


def _about_numbers(column: ResultColumn, texts: Sequence[str | None]) -> Iterator[str]:
    name = column.name
    numbers = list(_numbers(texts))
    finite = [number for number in numbers if number.is_finite()]
    if odd := len(numbers) - len(finite):
        yield f"{name} is not a finite number in {_count(odd, 'row')}"
    if has_word(_PERCENT, name) and not has_word(_UNBOUND, name):
        outside = [number for number in finite if not 0 <= number <= 100]  # noqa: PLR2004 - percent
        if outside:
            yield f"{name} is outside of 0 to 100 in {_count(len(outside), 'row')}: {outside[0]}"
    whole = column.type_oid in pgtypes.INTEGERS and has_word(_FRACTION, name)
    if whole and len(finite) >= _SEVERAL and not any(finite):
        yield f"{name} is 0 in every row, as after a division of whole numbers"


def _totals_that_differ(inputs: Mapping[str, StepResult]) -> Iterator[tuple[str, str]]:
    """Compare totals with their parts: results of one row with those of several, by column."""
    totals = {name: each for name, each in inputs.items() if len(each.rows) == 1}
    parts = {name: each for name, each in inputs.items() if len(each.rows) > 1 and _whole(each)}
    for of_total, total in totals.items():
        for of_parts, part in parts.items():
            for column, (one,) in _additive(total):
                sums = [sum(numbers) for name, numbers in _additive(part) if name == column]
                if len(sums) == 1 and _differ(one, Decimal(sums[0]), part):
                    yield (
                        of_parts,
                        f"{column} adds up to {sums[0]}, and is {one} in {of_total}",
                    )


def _whole(result: StepResult) -> bool:
    """Whether a result has all parts, and each thing in one of them only."""
    return not result.rows.cut and not _OVERLAPPING.search(result.query)


def _additive(result: StepResult) -> Iterator[tuple[str, Sequence[Decimal]]]:
    """Give the columns whose numbers can be added up, by their names in small letters."""
    for n, column in enumerate(result.rows.columns):
        numbers = list(_numbers(row[n] for row in result.rows.texts))
        known = len(numbers) == len(result.rows) and all(each.is_finite() for each in numbers)
        if (
            known
            and column.type_oid in pgtypes.NUMBERS
            and not has_word(_NOT_ADDITIVE, column.name)
        ):
            yield column.name.casefold(), numbers


def _differ(total: Decimal, added: Decimal, part: StepResult) -> bool:
    """Whether the parts are not the total, even if each was rounded to a hundredth."""
    allowed = Decimal("0.005") * len(part.rows) + abs(total) / 1_000_000
    if _FEW_OF_ALL.search(part.query):
        return 0 <= total < added - allowed  # some parts may be missing, but not be too many
    return abs(total - added) > allowed


def _numbers(texts: Iterable[str | None]) -> Iterator[Decimal]:
    for text in texts:
        try:
            if text is not None:
                yield Decimal(text)
        except InvalidOperation:  # one that was cut
            continue


def has_word(words: re.Pattern[str], name: str) -> bool:
    """Return whether one of the words stands in a name like `growth_percent` or `growthPercent`."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1_\2", name).casefold()
    return any(words.fullmatch(word) for word in re.findall(r"[^\W_]+|%", spaced))


def is_fraction(name: str) -> bool:
    """Return whether a column is named as a part of a whole, or a mean."""
    return has_word(_FRACTION, name) or has_word(_MEAN, name)


def is_minor(name: str) -> bool:
    """Return whether a column is named as an amount in hundredths."""
    return has_word(_MINOR, name)


def _count(n: int, thing: str) -> str:
    return f"{n} {thing}" + ("" if n == 1 else "s")
