"""Refuse an analysis that would build large values: DuckDB's memory limit does not count them.

It reads DuckDB's own syntax tree, and multiplies the constants that functions enlarge texts and
lists by.
"""

import json
from collections.abc import Iterator, Mapping
from math import prod
from typing import TYPE_CHECKING, Any, Final, cast

from walagent.errors import InvalidCallError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

LARGEST: Final = 1_000_000  # times that a text or list is repeated
_ENLARGING: Final = frozenset(
    (
        "repeat",
        "lpad",
        "rpad",
        "format",
        "printf",
        "list_resize",
        "array_resize",
        "bar",
        "range",
        "generate_series",
    )
)
# Functions that put one argument into another several times.
_MULTIPLYING: Final = frozenset(
    (
        "replace",
        "regexp_replace",
        "list_transform",
        "list_apply",
        "array_transform",
        "array_apply",
        "apply",
    )
)


def check_size(database: "DuckDBPyConnection", query: str) -> None:
    """Refuse a statement that enlarges a value too much by constants.

    Raises:
        InvalidCallError: it does, or is nested too deeply.
    """
    found = database.execute("select json_serialize_sql(?)", [query]).fetchone()
    try:
        tree: Any = json.loads(found[0]) if found else {}
        largest = max(_numbers(tree), default=1.0)
        times = _times(tree, largest)
    except RecursionError:
        raise InvalidCallError("the analysis is nested too deeply") from None
    if times > LARGEST:
        raise InvalidCallError(
            f"the analysis repeats a value more than {LARGEST:,} times; use smaller constants"
        )


def _times(node: Any, largest: float) -> float:  # noqa: ANN401 - JSON
    """Return how often the values of a node can be repeated.

    Args:
        largest: what a count that is no constant is taken for: a constant may stand elsewhere.
    """
    fields = _fields(node)
    if fields.get("type") == "TABLE_FUNCTION":
        node = fields["function"]["arguments"]  # it makes rows, which count
    if fields.get("function_name") in _MULTIPLYING:
        return prod(_times(each, largest) for each in _below(fields.get("arguments")))
    times = max((_times(each, largest) for each in _below(node)), default=1.0)
    if fields.get("function_name") in _ENLARGING:
        own = list(_numbers(fields.get("arguments")))
        times *= prod(own) if own else largest
    return times


def _numbers(node: Any) -> Iterator[float]:  # noqa: ANN401 - JSON
    """Yield the constants from 1 on that are numbers, or texts that are."""
    fields = _fields(node)
    if fields.get("class") == "CONSTANT":
        text = str(fields.get("literal", {}).get("text", ""))
        words = "".join(c if c in _DIGITS else " " for c in text).split()
        yield from (number for number in map(_number, words) if number >= 1)
        return
    for each in _below(node):
        yield from _numbers(each)


_DIGITS: Final = frozenset("0123456789.eE+")


def _number(word: str) -> float:
    try:
        return float(word[:30])
    except ValueError:
        return 0.0


def _fields(node: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON
    return cast("Mapping[str, Any]", node) if isinstance(node, Mapping) else {}


def _below(node: Any) -> Iterator[Any]:  # noqa: ANN401 - JSON
    if isinstance(node, Mapping):
        yield from cast("Mapping[str, Any]", node).values()
    elif isinstance(node, list):
        yield from cast("list[Any]", node)
