"""Compile a where clause to Python, where that gives what PostgreSQL gives.

Proved for comparisons and IN of integers, booleans and UUIDs, and for equality of text and enums
(deterministic collations compare equal only what is the same bytes); AND, OR, NOT and IS over them.
Everything else is left to PostgreSQL.  Values are compared as the texts that PostgreSQL writes,
integers as numbers.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

from walagent.postgres import pgtypes
from walagent.sync.expression import Among, Binary, Column, Literal, Node, Quantified, Test, Unary
from walagent.sync.table import ShapeTable

Texts = Mapping[str, str | None]
Predicate = Callable[[Texts], bool | None]  # None: unknown

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INTEGER: Final = re.compile(r"\s*[+-]?[0-9]{1,18}\s*")
_ITEM: Final = re.compile(r'[^\s{}",\\]+')  # of an array's text, without quotes


class _UnprovedError(Exception):
    """This is left to PostgreSQL."""


def compile_where(where: Node, table: ShapeTable) -> Predicate | None:
    """Compile *where*; None if PostgreSQL must evaluate it."""
    try:
        return _compile(where, _kinds(table))
    except _UnprovedError:
        return None


def needed_values(where: Node, table: ShapeTable) -> tuple[str, frozenset[str]] | None:
    """Return a column and its values in all rows for which *where* is true; None: any row can be.

    Args:
        where: one that can be compiled.
    """
    try:
        return _needed(where, _kinds(table))
    except _UnprovedError:
        return None


def _needed(where: Node, kinds: Mapping[str, str]) -> tuple[str, frozenset[str]] | None:
    match where:
        case Binary("and", left, right):
            return _needed(left, kinds) or _needed(right, kinds)
        case Binary("=", Column(name), Literal() as literal) | Binary(
            "=", Literal() as literal, Column(name)
        ):
            value = _value(kinds.get(name, ""), literal)
            return name, frozenset[str]() if value is None else frozenset({str(value)})
        case Among(Column(name), items, False):
            values = [_value(kinds.get(name, ""), i) for i in items if isinstance(i, Literal)]
            return name, frozenset(str(value) for value in values if value is not None)
        case _:
            return None


def _kinds(table: ShapeTable) -> Mapping[str, str]:
    return {
        column.name: _kind(column.type_oid, is_enum=column.is_enum and not column.dims)
        for column in table.columns
        if column.is_deterministic
    }


def _kind(type_oid: int, *, is_enum: bool) -> str:
    if type_oid in pgtypes.INTEGERS:
        return "int"
    if type_oid == pgtypes.BOOL:
        return "bool"
    if type_oid == pgtypes.UUID:
        return "uuid"
    return "text" if type_oid in {pgtypes.TEXT, pgtypes.VARCHAR} else "enum" if is_enum else ""


def _compile(  # noqa: C901 - a case for each node
    node: Node, kinds: Mapping[str, str]
) -> Predicate:
    match node:
        case Literal(bool() | None as value, False):
            return lambda _: value
        case Column(name) if kinds.get(name) == "bool":
            return _bool_column(name)
        case Unary("not", of):
            return _not(_compile(of, kinds))
        case Binary("and" | "or" as op, left, right):
            return _both(op, _compile(left, kinds), _compile(right, kinds))
        case Test(Column(name), "null", negated, None):
            return (
                (lambda row: row[name] is not None) if negated else (lambda row: row[name] is None)
            )
        case Test(of, "true" | "false" | "unknown" as what, negated, None):
            wanted = {"true": True, "false": False, "unknown": None}[what]
            inner = _compile(of, kinds)
            return lambda row: (inner(row) is wanted) != negated
        case Binary(op, Literal(bool() as a, False), Literal(bool() as b, False)) if op in {
            "=",
            "<>",
        }:
            result = (a == b) == (op == "=")
            return lambda _: result
        case Binary(op, Column(name), Literal() as literal) if op in _FLIPPED:
            return _compare(op, name, kinds.get(name, ""), literal)
        case Binary(op, Literal() as literal, Column(name)) if op in _FLIPPED:
            return _compare(_FLIPPED[op], name, kinds.get(name, ""), literal)
        case Among(Column(name), items, negated) if all(
            isinstance(item, Literal) for item in items
        ):
            return _among(name, kinds.get(name, ""), items, negated=negated)
        case Quantified("=", Column(name), "any", Literal(str() as array, False)):
            return _any(name, kinds.get(name, ""), array)
        case _:
            raise _UnprovedError


_FLIPPED: Final = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}


def _bool_column(name: str) -> Predicate:
    values = {"t": True, "f": False, None: None}
    return lambda row: values[row[name]]


def _not(inner: Predicate) -> Predicate:
    def negated(row: Texts) -> bool | None:
        found = inner(row)
        return None if found is None else not found

    return negated


def _both(op: str, left: Predicate, right: Predicate) -> Predicate:
    ends = op == "or"  # the value that decides alone

    def joined(row: Texts) -> bool | None:
        first = left(row)
        if first is ends:
            return ends
        second = right(row)
        if second is ends:
            return ends
        return None if first is None or second is None else not ends

    return joined


def _value(kind: str, literal: Literal) -> str | int | None:  # noqa: C901 - a case for each type
    """Return what a literal of a column's type is compared with."""
    value = literal.value
    if value is None:
        return None
    match kind:
        case "int":
            if not isinstance(value, bool) and _INTEGER.fullmatch(value):
                return int(value)
        case "bool":
            if isinstance(value, bool):
                return "t" if value else "f"
            if value in {"t", "true", "f", "false"} and not literal.is_number:
                return value[0]
        case "uuid":
            if isinstance(value, str) and not literal.is_number and _UUID.fullmatch(value.lower()):
                return value.lower()
        case "text" | "enum":
            if isinstance(value, str) and not literal.is_number:
                return value
        case _:
            pass
    raise _UnprovedError


def _compare(op: str, name: str, kind: str, literal: Literal) -> Predicate:
    wanted = _value(kind, literal)
    if wanted is None:
        if not kind:
            raise _UnprovedError
        return lambda _: None
    if op in {"=", "<>"}:
        text, equal = str(wanted), op == "="

        def same(row: Texts) -> bool | None:
            found = row[name]
            return None if found is None else (found == text) is equal

        return same
    if kind != "int":
        raise _UnprovedError
    number = int(wanted)
    compare: Callable[[int], bool] = {
        "<": number.__gt__,
        ">": number.__lt__,
        "<=": number.__ge__,
        ">=": number.__le__,
    }[op]

    def ordered(row: Texts) -> bool | None:
        found = row[name]
        return None if found is None else compare(int(found))

    return ordered


def _among(name: str, kind: str, items: tuple[Node, ...], *, negated: bool) -> Predicate:
    values = [_value(kind, item) for item in items if isinstance(item, Literal)]
    if not kind:
        raise _UnprovedError
    texts = frozenset(str(value) for value in values if value is not None)
    otherwise = None if None in values else False

    def among(row: Texts) -> bool | None:
        found = row[name]
        if found is None:
            return None
        result = True if found in texts else otherwise
        return None if result is None else result is not negated

    return among


def _any(name: str, kind: str, array: str) -> Predicate:
    """Compile = ANY('{…}'), for arrays whose items need no quotes."""
    inner = array[1:-1]
    if not (array.startswith("{") and array.endswith("}")):
        raise _UnprovedError
    parts = inner.split(",") if inner else []
    if not all(_ITEM.fullmatch(part) and part.lower() != "null" for part in parts):
        raise _UnprovedError
    if not parts:
        if not kind:
            raise _UnprovedError
        return lambda _: False
    return _among(name, kind, tuple(Literal(part) for part in parts), negated=False)
