"""Estimate how large the values are that a statement builds from its constants.

PostgreSQL limits a value to 1 GB and the memory of a session not at all.  It computes what is
constant when it plans.  What depends on rows is not estimated: time and their number bound it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Final

from walagent.errors import StatementRefusedError
from walagent.guard.querytree import Node
from walagent.postgres import pgtypes

LARGEST: Final = 1 << 20  # bytes of one value
TOTAL: Final = 16 << 20  # bytes of all values that functions enlarge
_DIGIT: Final = re.compile(r"\d")
_PLAIN: Final = re.compile(r"'(?:[^']|'')*'|\$.*\$", re.DOTALL)  # literals without escapes
_OF_COLUMN: Final = 32  # bytes, as PostgreSQL assumes of a column without statistics

# OIDs of functions, from pg_proc.dat.
_REPEAT: Final = frozenset({1622})
_PAD: Final = frozenset({873, 874, 879, 880, 668, 1683, 1685, 2075})  # also char(n), bit(n)
_FILL: Final = frozenset({1193, 1286})  # array_fill
_REPLACE: Final = frozenset({2087, 2284, 2285, 6251, 6252, 6253})
_JOIN: Final = frozenset({384, 395})  # array_to_string
# quote_ident, quote_literal, quote_nullable, encode, to_json, to_jsonb
_DOUBLE: Final = frozenset({1282, 1283, 1285, 1289, 1290, 1946, 3176, 3787})
_FORMAT: Final = frozenset({3539, 3540})
_LENGTH: Final = frozenset({1317, 1381, 1374, 720})
_SUM: Final = frozenset({176, 177, 178, 179, 463, 837, 1274, 1278, 181, 464, 1275, 1279,
                        1724, 1725})  # fmt: skip
_PRODUCT: Final = frozenset({141, 152, 170, 171, 465, 839, 1276, 1280, 1726})
_CAST: Final = frozenset({313, 314, 480, 481, 714, 754,  # between integers
                         1740, 1744, 1779, 1781, 1782, 1783, 1707, 1708, 1397, 1705})  # fmt: skip

_PARTS: Final = frozenset({"COALESCEEXPR", "MINMAXEXPR", "CASEEXPR", "CASEWHEN", "ARRAYEXPR",
                           "ROWEXPR", "JSONCONSTRUCTOREXPR", "XMLEXPR"})  # fmt: skip
_TEXTS: Final = pgtypes.TEXTS | {pgtypes.BYTEA, 705}  # 705: unknown


@dataclass(frozen=True, slots=True)
class Size:
    """Upper bounds of a value.

    Args:
        number: if it is an integer; None: it depends on rows.
        width: in bytes.
    """

    number: float | None = 0
    width: float = 0


class UnreadLiteralError(StatementRefusedError):
    """What a literal is decides whether a statement is refused, and NULL stands in its place."""


class Sizes:
    """Estimates nodes, inner ones first."""

    def __init__(self, where: str = "", literals: Sequence[str] = ()) -> None:
        """Start with no node.

        Args:
            where: the object that has the rule, for messages.
            literals: what NULLs can stand for.
        """
        self._where = where
        self._unread = literals
        widest = max((len(literal.encode()) for literal in literals), default=0)
        numeric = any(_DIGIT.search(literal) for literal in literals)
        self._null = Size(inf if numeric else 0, widest)
        self._total = 0.0
        self._known: dict[int, Size] = {}  # by the identity of a node, which its tree keeps

    def add(self, node: Node) -> None:
        """Estimate a node whose inner nodes were added.

        Raises:
            StatementRefusedError: its value could be too large.
        """
        size = self._known[id(node)] = self._size(node)
        if size.width > LARGEST:
            kind = UnreadLiteralError if self._unread else StatementRefusedError
            raise kind(
                f"{self._where}a value of up to {_spelled(size.width)} bytes would be computed,"
                f" the limit is {LARGEST:,}"
            )

    def _of(self, node: Node | None) -> Size:
        return Size() if node is None else self._known.get(id(node), Size())

    def _all(self, node: Node) -> list[Size]:
        return [self._of(each) for nodes in node.nodes.values() for each in nodes]

    def _size(self, node: Node) -> Size:
        match node.kind:
            case "CONST":
                return self._constant(node)
            case "VAR":
                return self._column(node)
            case "PARAM" | "AGGREF" | "WINDOWFUNC":
                return Size(None, _OF_COLUMN)
            case "FUNCEXPR" | "OPEXPR":
                return self._call(node)
            case "SUBLINK":
                return self._output(node.node("subselect"), 0)
            case "QUERY":
                return Size()
            case kind if kind in _PARTS:
                sizes = self._all(node)
                width = sum(size.width for size in sizes)
                return Size(_largest(sizes), width)
            case "COERCEVIAIO":  # it can quote: a text in a row in a row
                sizes = self._all(node)
                arg = node.node("arg")
                number = self._parsed(arg) if arg and arg.kind == "CONST" else _largest(sizes)
                return Size(number, sum(2 * size.width for size in sizes))
            case _:
                sizes = self._all(node)
                return Size(_largest(sizes), max((size.width for size in sizes), default=0))

    def _constant(self, node: Node) -> Size:
        if not _is_null(node):
            return _constant(node)
        kind = next(node.numbers("consttype"), 0)
        return Size(0, self._null.width) if kind in _TEXTS else self._null

    def _parsed(self, constant: Node) -> float | None:
        """Bound the integer that a text is read as."""
        if _is_null(constant):
            return self._null.number
        text = octets(constant)[4:].decode(errors="replace")
        if next(constant.numbers("consttype"), 0) not in _TEXTS:
            return self._of(constant).number
        return inf if _DIGIT.search(text) else 0

    def _call(self, node: Node) -> Size:
        """Estimate what a function or operator returns."""
        given = [self._of(each) for each in node.nodes.get("args", [])]
        function = next(node.numbers("funcid", "opfuncid"), 0)
        width = sum(size.width for size in given)
        grown = width
        numbers = [size.number for size in given]
        count = 0.0 if len(numbers) < 2 or numbers[1] is None else numbers[1]  # noqa: PLR2004 - text, count
        if function in _REPEAT:
            grown = given[0].width * max(count, 1)
        elif function in _PAD:
            grown = max(width, 4 * count)
        elif function in _FILL:
            grown = (given[0].width + 8) * self._elements(node)
        elif function in _REPLACE:
            grown = given[0].width * max(1, *(size.width for size in given[1:]))
        elif function in _JOIN:
            grown = given[0].width * (1 + given[1].width)
        elif function in _DOUBLE:
            grown = 2 * width
        elif function in _FORMAT:
            grown = self._formatted(node.nodes["args"][0], given)
        if grown > max(width, _OF_COLUMN):
            self._total += grown
        if self._total > TOTAL:
            grown = max(grown, self._total)
        return Size(_number(function, given, width), grown)

    def _formatted(self, text: Node, given: Sequence[Size]) -> float:
        """Bound what format() returns, for any literal that NULL stands for."""
        contents = [octets(text)[4:]]
        if _is_null(text):
            plain = _PLAIN.fullmatch
            contents = [each.encode() if plain(each) else b"%*" for each in self._unread]
        return max((_formatted(text, each, given) for each in contents), default=0)

    def _elements(self, node: Node) -> float:
        """Return how many elements array_fill makes: the product of its dimensions."""
        args = node.nodes.get("args", [])
        dimensions = args[1] if len(args) > 1 else None
        if dimensions is None or dimensions.kind != "ARRAYEXPR":
            return 1 if dimensions is None or dimensions.kind != "CONST" else inf
        product = 1.0
        for each in dimensions.nodes.get("elements", []):
            product *= max(1.0, self._of(each).number or 1.0)
        return product

    def _column(self, node: Node) -> Size:
        """Estimate a column: of a subquery, VALUES or a function by what these compute."""
        unknown = Size(None, _OF_COLUMN)
        query = node.query(next(node.numbers("varlevelsup"), 0))
        place, column = next(node.numbers("varno"), 0), next(node.numbers("varattno"), 0)
        sources = query.nodes.get("rtable", []) if query else []
        if not (0 < place <= len(sources) and column):
            return unknown
        source = sources[place - 1]
        match next(source.numbers("rtekind"), 0):
            case 1:
                return self._output(source.node("subquery"), column - 1)
            case 2 | 9 as kind:
                columns = source.nodes.get("joinaliasvars" if kind == 2 else "groupexprs", [])  # noqa: PLR2004 - RTE_JOIN, RTE_GROUP
                return self._of(columns[column - 1]) if column <= len(columns) else unknown
            case 3:
                called = [self._of(each.node("funcexpr")) for each in source.nodes["functions"]]
                arguments = [
                    self._of(argument)
                    for each in source.nodes["functions"]
                    for call in each.nodes.get("funcexpr", [])
                    for argument in call.nodes.get("args", [])
                ]
                return Size(_largest(arguments), max((one.width for one in called), default=0))
            case 5:
                values = [self._of(each) for each in source.nodes.get("values_lists", [])]
                return Size(_largest(values), max((one.width for one in values), default=0))
            case 6:
                return self._of_cte(source, query, column)
            case _:
                return unknown

    def _of_cte(self, source: Node, query: Node | None, column: int) -> Size:
        name = source.fields.get("ctename")
        for _ in range(next(source.numbers("ctelevelsup"), 0)):
            query = query.query(1) if query else None
        for each in query.nodes.get("cteList", []) if query else []:
            if each.fields.get("ctename") == name:
                return self._output(each.node("ctequery"), column - 1)
        return Size(None, _OF_COLUMN)

    def _output(self, query: Node | None, column: int) -> Size:
        """Estimate a column of a subquery."""
        targets = query.nodes.get("targetList", []) if query else []
        return self._of(targets[column]) if column < len(targets) else Size(None, _OF_COLUMN)


def _largest(sizes: list[Size]) -> float | None:
    numbers = [size.number for size in sizes]
    return None if None in numbers else max((n for n in numbers if n is not None), default=0)


def _number(function: int, given: list[Size], width: float) -> float | None:
    """Bound an integer; what is constant and not understood counts as infinite."""
    numbers = [size.number for size in given]
    if function in _LENGTH:
        return width
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    if function in _CAST:
        return known[0]
    if function in _SUM:
        return sum(known)
    if function in _PRODUCT and len(known) > 1:
        return known[0] * known[1]
    return inf


def _is_null(node: Node) -> bool:
    return node.kind == "CONST" and node.has("constisnull", "true")


def _constant(node: Node) -> Size:
    kind = next(node.numbers("consttype"), 0)
    content = octets(node)
    if kind in pgtypes.INTEGERS:
        return Size(float(abs(int.from_bytes(content[:8], "little", signed=True))), 8)
    if not node.has("constlen", "-1"):
        return Size(inf, len(content))
    content = content[4:]  # after the length
    if kind == pgtypes.NUMERIC:
        return Size(_magnitude(content), len(content))
    return Size(0 if kind in _TEXTS else inf, len(content))


def _magnitude(numeric: bytes) -> float:
    """Bound a numeric by the weight of its first digit (numeric.c, NumericChoice)."""
    head = int.from_bytes(numeric[:2], "little")
    if head & 0xC000 == 0x8000:  # noqa: PLR2004 - NUMERIC_SHORT
        weight = (head & 0x3F) - (head & 0x40)
    else:
        weight = int.from_bytes(numeric[2:4], "little", signed=True)
    return 10_000.0 ** min(weight + 1, 9)


def octets(node: Node) -> bytes:
    """Return the bytes of a constant."""
    words = node.fields.get("constvalue", [])
    return bytes(int(word) % 256 for word in words[2:-1])


def _formatted(text: Node, content: bytes, given: Sequence[Size]) -> float:
    """Bound what format() returns: a field can repeat any argument, quoted, and have a width."""
    if text.kind != "CONST":  # constant, but not known
        return inf if given[0].number is not None else sum(size.width for size in given)
    if b"%" not in content:
        return len(content)
    if b"*" in content:  # an argument is a width
        return inf
    digits = "".join(chr(octet) if 48 <= octet <= 57 else " " for octet in content).split()  # noqa: PLR2004 - 0 to 9
    widest = max((float(word[:12]) for word in digits), default=0)
    argument = max((size.width for size in given[1:]), default=0)
    return len(content) + content.count(b"%") * max(widest, 2 * argument)


def _spelled(size: float) -> str:
    return "over 1,000,000,000" if size > 1e9 else f"{size:,.0f}"  # noqa: PLR2004 - PostgreSQL's limit
