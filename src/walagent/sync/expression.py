"""The expressions that a where clause can have, and their SQL.

Each node prints itself as SQL that means the same in every session: names are quoted, functions
and types are those of pg_catalog, and a value is a literal, never a part of the text.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from walagent.postgres.quoting import quote_name, quote_text

# Types that a value can be cast to.  Their input functions are immutable, or depend on settings
# that the session fixes.
TYPES: Final = frozenset({
    "int2", "int4", "int8", "float4", "float8", "numeric", "bool", "uuid", "text", "varchar",
    "bpchar", "date", "time", "timetz", "timestamp", "timestamptz", "interval",
})  # fmt: skip
# Immutable functions, with the least and greatest number of arguments.
FUNCTIONS: Final = {
    "lower": (1, 1),
    "upper": (1, 1),
    "length": (1, 1),
    "array_length": (2, 2),
    "cardinality": (1, 1),
    "array_position": (2, 3),
    "array_remove": (2, 2),
    "array_append": (2, 2),
    "array_prepend": (2, 2),
    "array_cat": (2, 2),
}
# What looks like a function and is part of the grammar; and concat, which is stable.
FORMS: Final = {"coalesce": (1, 100), "greatest": (1, 100), "least": (1, 100), "concat": (1, 100)}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table.

    Args:
        source: the name of the sub-select whose table has it; "": it is the table of the shape.
    """

    name: str
    source: str = ""

    def sql(self) -> str:
        """Return it as SQL."""
        name = quote_name(self.name)
        return f"{self.source}.{name}" if self.source else name


@dataclass(frozen=True, slots=True)
class Literal:
    """A value: text in quotes, whose type follows from its place, a number, a boolean or NULL."""

    value: str | bool | None
    is_number: bool = False

    def sql(self) -> str:
        """Return it as SQL."""
        if self.value is None:
            return "null"
        if isinstance(self.value, bool):
            return "true" if self.value else "false"
        return self.value if self.is_number else quote_text(self.value)


@dataclass(frozen=True, slots=True)
class Unary:
    """NOT, or a sign."""

    op: str
    of: "Node"

    def sql(self) -> str:
        """Return it as SQL."""
        return f"({self.op} {self.of.sql()})"


@dataclass(frozen=True, slots=True)
class Binary:
    """An operator between two operands; AND and OR, too."""

    op: str
    left: "Node"
    right: "Node"

    def sql(self) -> str:
        """Return it as SQL."""
        op = self.op if self.op in {"and", "or"} else f"operator(pg_catalog.{self.op})"
        return f"({self.left.sql()} {op} {self.right.sql()})"


@dataclass(frozen=True, slots=True)
class Call:
    """A function of FUNCTIONS, or one of FORMS."""

    name: str
    arguments: "tuple[Node, ...]"

    def sql(self) -> str:
        """Return it as SQL."""
        name = f"pg_catalog.{self.name}" if self.name in FUNCTIONS else self.name
        return f"{name}({', '.join(each.sql() for each in self.arguments)})"


@dataclass(frozen=True, slots=True)
class Test:
    """IS [NOT] NULL, TRUE, FALSE, UNKNOWN, or DISTINCT FROM."""

    of: "Node"
    what: str
    negated: bool = False
    other: "Node | None" = None

    def sql(self) -> str:
        """Return it as SQL."""
        no = "not " if self.negated else ""
        if self.other is not None:
            return f"({self.of.sql()} is {no}distinct from {self.other.sql()})"
        return f"({self.of.sql()} is {no}{self.what})"


@dataclass(frozen=True, slots=True)
class Among:
    """[NOT] IN a list."""

    of: "Node"
    items: "tuple[Node, ...]"
    negated: bool = False

    def sql(self) -> str:
        """Return it as SQL."""
        no = "not " if self.negated else ""
        return f"({self.of.sql()} {no}in ({', '.join(each.sql() for each in self.items)}))"


@dataclass(frozen=True, slots=True)
class Between:
    """[NOT] BETWEEN [SYMMETRIC]."""

    of: "Node"
    low: "Node"
    high: "Node"
    negated: bool = False
    symmetric: bool = False

    def sql(self) -> str:
        """Return it as SQL."""
        no, both = "not " if self.negated else "", "symmetric " if self.symmetric else ""
        return f"({self.of.sql()} {no}between {both}{self.low.sql()} and {self.high.sql()})"


@dataclass(frozen=True, slots=True)
class Like:
    """[NOT] LIKE or ILIKE."""

    of: "Node"
    pattern: "Node"
    ignore_case: bool = False
    negated: bool = False

    def sql(self) -> str:
        """Return it as SQL."""
        no, word = "not " if self.negated else "", "ilike" if self.ignore_case else "like"
        return f"({self.of.sql()} {no}{word} {self.pattern.sql()})"


@dataclass(frozen=True, slots=True)
class Quantified:
    """A comparison with ANY or ALL of an array."""

    op: str
    of: "Node"
    which: str  # any or all
    array: "Node"

    def sql(self) -> str:
        """Return it as SQL."""
        return f"({self.of.sql()} operator(pg_catalog.{self.op}) {self.which} ({self.array.sql()}))"


@dataclass(frozen=True, slots=True)
class Array:
    """ARRAY[…]."""

    items: "tuple[Node, ...]"

    def sql(self) -> str:
        """Return it as SQL."""
        return f"array[{', '.join(each.sql() for each in self.items)}]"


@dataclass(frozen=True, slots=True)
class Cast:
    """A cast to one of TYPES, or to an array of it."""

    of: "Node"
    type: str
    is_array: bool = False

    def sql(self) -> str:
        """Return it as SQL."""
        return f"({self.of.sql()}::pg_catalog.{self.type}{'[]' if self.is_array else ''})"


@dataclass(frozen=True, slots=True)
class Select:
    """One column of some rows of another table; it reads nothing of the row outside.

    Args:
        source: a name that no other sub-select of the clause has.
    """

    schema: str
    table: str
    column: str
    where: "Node | None"
    source: str

    def sql(self) -> str:
        """Return it as SQL."""
        table = f"{quote_name(self.schema)}.{quote_name(self.table)}"
        where = "" if self.where is None else f" where {self.where.sql()}"
        column = f"{self.source}.{quote_name(self.column)}"
        return f"select {column} from only {table} as {self.source}{where}"  # noqa: S608 - quoted


@dataclass(frozen=True, slots=True)
class InSelect:
    """[NOT] IN a sub-select."""

    of: "Node"
    select: Select
    negated: bool = False

    def sql(self) -> str:
        """Return it as SQL; IN itself would look for its operator in the search path."""
        op = "<>) all" if self.negated else "=) any"
        return f"({self.of.sql()} operator(pg_catalog.{op} ({self.select.sql()}))"


Node = (
    Column
    | Literal
    | Unary
    | Binary
    | Call
    | Test
    | Among
    | Between
    | Like
    | Quantified
    | Array
    | Cast
    | InSelect
)


def children(node: Node) -> Sequence[Node]:  # noqa: C901 - a case for each node
    """Return the operands of a node."""
    match node:
        case Column() | Literal():
            return ()
        case Unary(_, of) | Cast(of, _, _) | InSelect(of, _, _):
            return (of,)
        case Binary(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return arguments
        case Test(of, _, _, other):
            return (of,) if other is None else (of, other)
        case Among(of, items, _):
            return (of, *items)
        case Between(of, low, high, _, _):
            return (of, low, high)
        case Like(of, pattern, _, _):
            return (of, pattern)
        case Quantified(_, of, _, array):
            return (of, array)
        case Array(items):
            return items


def selects_of(node: Node | None) -> Iterator[Select]:
    """Yield the sub-selects of a node, and those within them."""
    if isinstance(node, InSelect):
        yield node.select
        yield from selects_of(node.select.where)
    for each in children(node) if node is not None else ():
        yield from selects_of(each)


def columns_of(node: Node) -> Iterator[str]:
    """Yield the names of the columns that a node reads; not those of sub-selects."""
    if isinstance(node, Column):
        yield node.name
    for each in children(node):
        yield from columns_of(each)
