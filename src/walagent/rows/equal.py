"""Whether two results say the same, whatever their columns are called.  Pure."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from itertools import product
from typing import Final

Row = Sequence[object]

_WITHIN: Final = 0.005  # numbers are often rounded to cents
_MOST: Final = 1_000  # ways to choose columns that are tried
_FEW: Final = 200  # rows of which each is compared with each


def same_rows(
    expected: Sequence[Row],
    found: Sequence[Row],
    *,
    ordered: bool = False,
    within: float = _WITHIN,
) -> bool:
    """Whether some columns of *found* are the expected rows.

    Columns may have any order, and there may be more of them; rows may not.  Of more than 200 rows
    in any order, those are compared that are at the same place when both are sorted.

    Args:
        ordered: whether the order of the rows counts.
        within: by how much a number may differ; a date may be written longer or shorter.
    """
    if len(expected) != len(found):
        return False
    if not expected:
        return True
    want, have, off = _columns(expected), _columns(found), Decimal(str(within))
    places = [[n for n, other in enumerate(have) if _same_values(c, other, off)] for c in want]
    same = _same_in_order if ordered else _same_in_any_order
    wanted = list(zip(*want, strict=True))
    for tries, chosen in enumerate(product(*places)):
        if tries == _MOST:
            break
        if len({*chosen}) == len(chosen) and same(
            wanted,
            list(zip(*(have[n] for n in chosen), strict=True)),
            off,
        ):
            return True
    return False


def _columns(rows: Sequence[Row]) -> list[list[object]]:
    return [[_plain(cell) for cell in column] for column in zip(*rows, strict=True)]


def _same_values(want: Sequence[object], have: Sequence[object], within: Decimal) -> bool:
    """Whether two columns have the same values, in any order."""
    pairs = zip(sorted(want, key=_order), sorted(have, key=_order), strict=True)
    return all(_same_cell(a, b, within) for a, b in pairs)


def _same_in_order(want: Sequence[Row], have: Sequence[Row], within: Decimal) -> bool:
    return all(_same(a, b, within) for a, b in zip(want, have, strict=True))


def _same_in_any_order(want: Sequence[Row], have: Sequence[Row], within: Decimal) -> bool:
    by_values = _same_in_order(sorted(want, key=_place), sorted(have, key=_place), within)
    if by_values or len(want) > _FEW:
        return by_values
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


def _place(row: Row) -> list[tuple[int, Decimal, str]]:
    return [_order(cell) for cell in row]


def _order(cell: object) -> tuple[int, Decimal, str]:
    """Order cells of any type: as numbers, then as texts, NULL last."""
    match cell:
        case Decimal():
            return 0, cell, ""
        case None:
            return 2, Decimal(0), ""
        case _:
            return 1, Decimal(0), str(cell)


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


def shown(rows: Sequence[Row]) -> str:
    """Write the first of some rows."""
    return "(" + ", ".join(_words(rows[0])) + ")"


def _words(row: Row) -> Iterator[str]:
    return ("NULL" if cell is None else str(cell) for cell in row)
