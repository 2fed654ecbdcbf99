"""Which numbers in the text of an answer nothing accounts for.  Pure.

A number is accounted for if it stands in a result, the question, a statement or an assumption, or
is the sum, mean or count of a column, the share of a value in its column or of one column in
another, or a difference or change between two values of a column or of a row.  It may be rounded.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from statistics import median
from typing import Final

from walagent.ask.results import StepResult
from walagent.rows.rows import Rows

_MOST: Final = 5  # numbers that a note names
_PAIRS: Final = 40  # rows whose values are compared in pairs
_COLUMNS: Final = 12  # columns that are compared with one another
_SCALES: Final = {
    "k": 3, "tsd": 3, "thousand": 3, "tausend": 3, "m": 6, "mn": 6, "mio": 6, "mln": 6,
    "million": 6, "millions": 6, "millionen": 6, "b": 9, "bn": 9, "mrd": 9, "billion": 9,
    "billions": 9, "milliarden": 9, "milliarde": 9, "trillion": 12,
}  # fmt: skip
_NUMBER: Final = re.compile(
    r"""
    (?<![\w.,:/#-]) (?P<sign>[-\u2212])? [$€£¥]?
    (?P<digits>\d{1,3}(?:[,.'\u2019 \u00a0\u202f]\d{3})+(?:[.,]\d+)?(?!\d) | \d+(?:[.,]\d+)?)
    (?P<after>\s?(?:%|percent\b|[A-Za-z]+\b)?)
    """,
    re.VERBOSE,
)
# What holds numbers that are no figures: dates, times, addresses, versions, marks of lists.
_OTHER: Final = re.compile(
    r"""
      https?://\S+ | `[^`]*`
    | \d{4}-\d{2}(?:-\d{2})?(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:\.\d+)?)? | \d{1,2}:\d{2}(?::\d{2})?
    | \d{1,2}[./]\d{1,2}[./]\d{2,4} | (?m:^\s*\d{1,2}[.)]\s) | \b\d+(?:st|nd|rd|th)\b | \#\d+
    | \b\d{1,2}\.?\s(?:Jan|Feb|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])\w*\.?
      (?:,?\s\d{4})?
    | \b(?:Jan|Feb|M[aä]r|Apr|Ma[iy]|Jun|Jul|Aug|Sep|O[ck]t|Nov|De[cz])\w*\.?\s\d{1,4}\b
      (?:,\s\d{4})?
    | \b[QH][1-4]\b
    """,
    re.VERBOSE,
)
_FIRST: Final = re.compile(r"\b(?:top|first|last|next|least|largest|smallest)\s$", re.IGNORECASE)
_YEAR: Final = re.compile(
    r"\b(?:in|since|of|for|year|from|to|until|through|during|and|by|before|after)\s$", re.IGNORECASE
)
_ABOUT: Final = re.compile(
    r"(?:about|around|roughly|approximately|approx\.|some|nearly|almost|over|under|than|circa|ca\."
    r"|rund|etwa|fast|knapp|~|≈)\s*$",
    re.IGNORECASE,
)
_PERCENT: Final = ("%", "percent", "prozent", "pct")
_TIMES: Final = ("x", "times", "fold", "mal")
_PLAIN: Final = re.compile(r"-?\d+(?:\.\d+)?")


@dataclass(frozen=True, slots=True)
class _Figure:
    """A number of a text: how it is written, and the ranges of what it can mean."""

    written: str
    ranges: Sequence[tuple[float, float]]
    percent: bool = False
    ratio: bool = False

    def fits(self, known: "_Known") -> bool:
        """Return whether something known can be written like this."""
        if any(known.has(known.amounts, low, high) for low, high in self.ranges):
            return True
        if self.percent:
            return any(
                known.has(known.ratios, low / 100, high / 100)
                or known.has(known.amounts, low / 100, high / 100)
                for low, high in self.ranges
            )
        return self.ratio and any(known.has(known.ratios, *each) for each in self.ranges)


class _Known:
    """Numbers that a text may have, without their signs."""

    def __init__(self, amounts: Iterable[float], ratios: Iterable[float] = ()) -> None:
        self.amounts = sorted({abs(each) for each in amounts})
        self.ratios = sorted({abs(each) for each in ratios})

    @staticmethod
    def has(numbers: Sequence[float], low: float, high: float) -> bool:
        """Return whether one of the sorted numbers is in a range."""
        at = bisect_left(numbers, low)
        return at < len(numbers) and numbers[at] <= high


def unfounded(text: str, around: str, results: Mapping[str, StepResult]) -> Sequence[str]:
    """Return the numbers of a text that neither results nor other texts account for.

    Args:
        around: the question, assumptions and what else a number can come from.
    """
    rows = [each.rows for each in results.values()]
    most = max((len(each) for each in rows), default=0)
    written = " ".join([around, *(each.query for each in results.values())])
    spoken = [(low + high) / 2 for each in _figures(around) for low, high in each.ranges]
    said = [float(each) for each in _PLAIN.findall(written)]
    shown = [number for each in rows for number in (*_of_rows(each), float(len(each)))]
    missing = [each for each in _figures(text, most) if not each.fits(_Known(said + spoken))]
    missing = [each for each in missing if not each.fits(_Known(shown))]
    if missing:
        amounts, ratios = list[float](), list[float]()
        for each in rows:
            _derive(each, amounts, ratios)
        _compare(rows, amounts, ratios)
        derived = _Known(amounts, ratios)
        missing = [each for each in missing if not each.fits(derived)]
    return list(dict.fromkeys(each.written for each in missing))


def note(numbers: Sequence[str]) -> str:
    """Say that numbers are unfounded."""
    more = f" and {len(numbers) - _MOST} more" if len(numbers) > _MOST else ""
    return (
        "the results do not contain, or add up to, these numbers of the text:"
        f" {'; '.join(numbers[:_MOST])}{more}"
    )


def _figures(text: str, most: int = 0) -> Iterator[_Figure]:
    """Yield the figures of a text.

    Args:
        most: rows; up to as many can be the first ones.
    """
    clean = _OTHER.sub(lambda found: " " * len(found[0]), text)
    for found in _NUMBER.finditer(clean):
        digits, after = found["digits"], found["after"].strip().casefold()
        before = clean[max(0, found.start() - 16) : found.start()]
        if re.fullmatch(r"(?:19|20)\d\d", digits) and _YEAR.search(before):
            continue
        scale = _SCALES.get(after, 0)
        ranges = list(_read(digits, scale, about=bool(_ABOUT.search(before))))
        if _FIRST.search(before) and any(high <= most + 1 for _, high in ranges):
            continue
        unit = found["after"].rstrip() if scale or after in _PERCENT else ""
        ratio = after in _TIMES or bool(re.search(r"[.,]\d{1,2}$", digits))
        yield _Figure(
            f"{found['sign'] or ''}{digits}{unit}", ranges, percent=after in _PERCENT, ratio=ratio
        )


def _read(digits: str, scale: int, *, about: bool) -> Iterator[tuple[float, float]]:
    """Yield what a number can mean, as 1.234 is another one in Germany, rounded or cut."""
    body = re.sub(r"['\u2019 \u00a0\u202f]", "", digits)
    readings = {body.replace(",", ""), body.replace(".", "").replace(",", ".")}
    for each in readings:
        try:
            value = float(each)
        except ValueError:  # 1,234.56 is one in one of both ways only
            continue
        places = len(each.partition(".")[2])
        zeros = len(each) - len(each.rstrip("0")) if about and not places else 0
        step = 10.0 ** (scale + zeros - places)
        value *= 10.0**scale
        tiny = step * 1e-6
        yield value - step / 2 - tiny, value + step - 2 * tiny


def _of_rows(rows: Rows) -> Iterator[float]:
    """Yield the numbers in the values of rows, also inside texts."""
    for row in rows.texts:
        for text in row:
            if text is not None:
                yield from map(float, _PLAIN.findall(text))


def _number(text: str | None) -> float | None:
    found = _PLAIN.fullmatch((text or "").replace(",", "").lstrip("$€£¥"))
    return float(found[0]) if found else None


def _columns(rows: Rows) -> Sequence[Sequence[float]]:
    """Return the numbers of each column; none of a column that has something else."""
    found: list[Sequence[float]] = []
    for n in range(len(rows.columns)):
        texts = [row[n] for row in rows.texts if row[n] is not None]
        numbers = [number for text in texts if (number := _number(text)) is not None]
        found.append(numbers if len(numbers) == len(texts) else ())
    return found


def _derive(rows: Rows, amounts: list[float], ratios: list[float]) -> None:
    """Add what can be computed from one result; nothing of a total if rows were left out."""
    columns = _columns(rows)
    for n, numbers in enumerate(columns if not rows.lacks_rows else ()):
        values = [row[n] for row in rows.texts]
        counts = Counter(values)  # rows with the same value
        amounts += [*counts.values(), len(counts), len(values) - counts[None], counts[None]]
        ratios += [each / len(values) for each in counts.values()]
        if numbers:
            running = list(accumulate(numbers))
            amounts += [*running, running[-1] / len(numbers), median(numbers)]
            ratios += [each / running[-1] for each in (*numbers, *running) if running[-1]]
    for numbers in columns:
        _pair(numbers[:_PAIRS], amounts, ratios)
    for row in rows.texts[:_PAIRS]:
        found = [number for text in row[:_COLUMNS] if (number := _number(text)) is not None]
        _pair(found, amounts, ratios)


def _compare(rows: Sequence[Rows], amounts: list[float], ratios: list[float]) -> None:
    """Add what compares results: values of single rows, totals and numbers of rows."""
    singles = [number for each in rows if len(each) == 1 for number in _of_rows(each)]
    whole = [each for each in rows if not each.lacks_rows]
    totals = [sum(numbers) for each in whole for numbers in _columns(each) if numbers]
    counts = [float(len(each)) for each in whole]
    _pair([*singles, *totals, *counts][:_PAIRS], amounts, ratios)


def _pair(numbers: Sequence[float], amounts: list[float], ratios: list[float]) -> None:
    """Add differences, ratios and relative changes between two numbers."""
    for one, other in combinations(dict.fromkeys(numbers), 2):
        amounts.append(one - other)
        for part, whole in ((one, other), (other, one)):
            if whole:
                ratios += [part / whole, part / whole - 1]
