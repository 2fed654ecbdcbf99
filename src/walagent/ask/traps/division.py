"""Divisions of whole numbers, whose fraction PostgreSQL cuts off: 3 / 4 is 0.

Not every one is a mistake: `year / 10` makes decades.  Noted are those whose quotient becomes a
fraction afterwards, and, in a column of a result, of totals or by something that is not constant.

Source: pg_operator.dat and pg_proc.dat.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from walagent.ask.fanout.constants import as_integer
from walagent.ask.fanout.levels import QueryLevel, places_of
from walagent.ask.fanout.rule import Item
from walagent.ask.traps.walk import Inside, Note, column_name, expressions, walk
from walagent.ask.verify import is_fraction, is_minor
from walagent.postgres import pgtypes

_DIVIDE: Final = frozenset({527, 528, 546, 547, 687, 691, 695, 821, 825})  # operators
_TIMES: Final = frozenset({141, 152, 170, 171, 465, 839, 943, 1276, 1280})  # their functions
_SCALED: Final = 100  # by this or more, before the division: a whole percentage
_FRACTIONS: Final = pgtypes.FLOATS | {pgtypes.NUMERIC}
_COMPUTED: Final = frozenset({"VAR", "AGGREF", "WINDOWFUNC", "SUBLINK", "PARAM"})


def divisions(level: QueryLevel) -> Iterator[Note]:
    """Note the divisions of one query."""
    for item, around, name in expressions(level):
        sides = item.items("args")
        if item.kind != "OPEXPR" or item.number("opno") not in _DIVIDE or len(sides) != 2:  # noqa: PLR2004
            continue
        if _has(sides[0], _COMPUTED) or _has(sides[1], _COMPUTED):
            if _is_remainder(around, sides[1]):
                continue
            if _becomes_fraction(item, around) or (name and _is_cut(level, sides, name)):
                divides = f"{name} divides" if name not in {"", "?column?"} else "it divides"
                yield Note(f"{divides} whole numbers, so the fraction is cut off")


def _is_cut(level: QueryLevel, sides: Sequence[Item], name: str) -> bool:
    """Return whether the fraction of a quotient in a column is probably wanted."""
    dividend, divisor = sides
    if _is_scaled(dividend):
        return False
    if is_fraction(name) or _has(divisor, _COMPUTED) or _has(dividend, {"AGGREF"}):
        return True
    names = [column_name(level, place) for place in places_of(level, [dividend])]
    return any(map(is_minor, names))


def _becomes_fraction(item: Item, around: Inside) -> bool:
    """Return whether the quotient is converted to a type with fractions."""
    cast = around[-1] if around else None
    return (
        cast is not None
        and cast.kind == "FUNCEXPR"
        and cast.number("funcresulttype") in _FRACTIONS
        and cast.items("args") == [item]
    )


def _is_remainder(around: Inside, divisor: Item) -> bool:
    """Return whether the quotient is multiplied by its divisor again, as for a remainder."""
    above = around[-1] if around else None
    return (
        above is not None
        and above.kind == "OPEXPR"
        and above.number("opfuncid") in _TIMES
        and divisor in above.items("args")
    )


def _is_scaled(dividend: Item) -> bool:
    """Return whether a dividend is multiplied by a hundred, in whatever order."""
    if dividend.kind != "OPEXPR" or dividend.number("opfuncid") not in _TIMES:
        return False
    return any(
        (each.kind == "CONST" and as_integer(each) >= _SCALED) or _is_scaled(each)
        for factor in dividend.items("args")
        for each in (_uncast(factor),)
    )


def _uncast(item: Item) -> Item:
    args = item.items("args")
    return args[0] if item.kind == "FUNCEXPR" and len(args) == 1 else item


def _has(item: Item, kinds: frozenset[str] | set[str]) -> bool:
    return any(each.kind in kinds for each, _ in walk(item))
