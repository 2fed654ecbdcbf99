"""Where clauses as trees."""

from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from walagent.postgres.quoting import quote_name, quote_text
from walagent.sync import expression
from walagent.sync.expression import (
    FORMS,
    FUNCTIONS,
    TYPES,
    Among,
    Array,
    Between,
    Binary,
    Call,
    Cast,
    Column,
    InSelect,
    Like,
    Literal,
    Node,
    Quantified,
    Select,
    Unary,
    children,
    columns_of,
    selects_of,
)
from walagent.sync.lexer import WhereError
from walagent.sync.where import MAX_DEPTH, MAX_LENGTH, parse_where

CHARACTERS = st.characters(exclude_characters="\0", codec="utf-8")
TEXTS = st.text(st.sampled_from("'\"\\aA%") | CHARACTERS, max_size=6)
LEAVES: st.SearchStrategy[Node] = st.one_of(
    st.builds(Column, TEXTS.filter(bool)),
    st.builds(Literal, TEXTS),
    st.sampled_from([Literal(None), Literal(value=True), Literal(value=False)]),
    st.sampled_from(["0", "1.5", "1e3"]).map(lambda text: Literal(text, is_number=True)),
)
COMPARISONS = ["=", "<>", "<", ">", "<=", ">="]
TESTS = ["null", "true", "false", "unknown"]
OPERATORS = [
    "and",
    "or",
    *COMPARISONS,
    "||",
    "@>",
    "<@",
    "&&",
    "&",
    "|",
    "#",
    "<<",
    ">>",
    *"+-*/%^",
]


def _trees(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    some = st.lists(inner, min_size=1, max_size=3).map(tuple)
    negated = st.booleans()
    return st.one_of(
        st.builds(Unary, st.sampled_from(["not", "-", "+"]), inner),
        st.builds(Binary, st.sampled_from(OPERATORS), inner, inner),
        st.builds(Call, st.sampled_from(["coalesce", "greatest", "concat"]), some),
        st.builds(lambda of: Call("lower", (of,)), inner),
        st.builds(expression.Test, inner, st.sampled_from(TESTS), negated),
        st.builds(expression.Test, inner, st.just("distinct"), negated, inner),
        st.builds(Among, inner, some, negated),
        st.builds(Between, inner, inner, inner, negated, negated),
        st.builds(Like, inner, inner, negated, negated),
        st.builds(Quantified, st.sampled_from(COMPARISONS), inner, st.just("any"), inner),
        st.builds(Quantified, st.sampled_from(COMPARISONS), inner, st.just("all"), inner),
        st.builds(Array, some),
        st.builds(Cast, inner, st.sampled_from(sorted(TYPES)), negated),
    )  # fmt: skip


TREES = st.recursive(LEAVES, _trees, max_leaves=8)


def written(node: Node) -> str:  # noqa: C901, PLR0912 - a case for each node
    """Write a tree as a client does, with all parentheses."""

    def of(*nodes: Node) -> str:
        return ", ".join(map(written, nodes))

    match node:
        case Column(name):
            return quote_name(name)
        case Literal(value, is_number):
            words = {None: "NULL", True: "TRUE", False: "FALSE"}
            if isinstance(value, str):
                return value if is_number else quote_text(value)
            return words[value]
        case Unary(op, inner):
            return f"({op} {of(inner)})"
        case Binary(op, left, right):
            return f"({of(left)} {op} {of(right)})"
        case Call(name, arguments):
            return f"{name.upper()}({of(*arguments)})"
        case expression.Test(inner, what, negated, other):
            no, tail = "NOT " if negated else "", "" if other is None else f" FROM {of(other)}"
            return f"({of(inner)} IS {no}{what}{tail})"
        case Among(inner, items, negated):
            return f"({of(inner)} {'NOT ' if negated else ''}IN ({of(*items)}))"
        case Between(inner, low, high, negated, symmetric):
            no, both = "NOT " if negated else "", "SYMMETRIC " if symmetric else ""
            return f"({of(inner)} {no}BETWEEN {both}{of(low)} AND {of(high)})"
        case Like(inner, pattern, ignore_case, negated):
            no, word = "NOT " if negated else "", "ILIKE" if ignore_case else "LIKE"
            return f"({of(inner)} {no}{word} {of(pattern)})"
        case Quantified(op, inner, which, array):
            return f"({of(inner)} {op} {which}({of(array)}))"
        case Array(items):
            return f"ARRAY[{of(*items)}]"
        case Cast(inner, kind, is_array):
            return f"({of(inner)}::{kind}{'[]' if is_array else ''})"
        case InSelect(inner, select, negated):
            where = "" if select.where is None else f" WHERE {of(select.where)}"
            source = f"{quote_name(select.schema)}.{quote_name(select.table)}{where}"
            column = quote_name(select.column)
            return f"({of(inner)} {'NOT ' if negated else ''}IN (SELECT {column} FROM {source}))"


@given(TREES)
def test_a_tree_that_is_written_is_read_again(tree: Node) -> None:
    """Every node, with names and values of all characters."""
    assert parse_where(written(tree)) == tree


@given(TREES)
def test_all_columns_of_a_tree_are_found(tree: Node) -> None:
    """Each is checked against the table, so none may be missed."""

    def walk(part: object) -> set[str]:
        if isinstance(part, Column):
            return {part.name}
        if isinstance(part, tuple):
            return set[str]().union(*map(walk, cast("tuple[object, ...]", part)))
        if not is_dataclass(part):
            return set()
        return set[str]().union(*(walk(getattr(part, each.name)) for each in fields(part)))

    assert set(columns_of(tree)) == walk(tree)
    assert all(quote_name(name) in tree.sql() for name in columns_of(tree))


# As PostgreSQL reads it: its manual, 4.1.6.
PRECEDENCE = [
    ("a or b and c", "a or (b and c)"),
    ("a and b or c", "(a and b) or c"),
    ("not a and b", "(not a) and b"),
    ("not a = b", "not (a = b)"),
    ("not a is null", "not (a is null)"),
    ("not a in (1)", "not (a in (1))"),
    ("a = b is null", "(a = b) is null"),
    ("a = b and c", "(a = b) and c"),
    ("a < b + c", "a < (b + c)"),
    ("a = b || c", "a = (b || c)"),
    ("a < b in (c)", "a < (b in (c))"),
    ("a || b in (c)", "(a || b) in (c)"),
    ("a like b || c", "a like (b || c)"),
    ("a between 1 and 2 and b", "(a between 1 and 2) and b"),
    ("a between b + 1 and c || d", "a between (b + 1) and (c || d)"),
    ("a not between 1 and 2 or b", "(a not between 1 and 2) or b"),
    ("a is distinct from b and c", "(a is distinct from b) and c"),
    ("a isnull and b notnull", "(a is null) and (b is not null)"),
    ("a + b * c", "a + (b * c)"),
    ("a * b ^ c", "a * (b ^ c)"),
    ("a - b - c", "(a - b) - c"),
    ("a / b * c", "(a / b) * c"),
    ("a ^ b ^ c", "(a ^ b) ^ c"),
    ("- a ^ b", "(- a) ^ b"),
    ("- a::int", "- (a::int)"),
    ("a::int::text", "(a::int)::text"),
    ("a = b::int + 1", "a = ((b::int) + 1)"),
    ("a != b", "a <> b"),
    ("a = some(b)", "a = any(b)"),
    ("cast(a as bigint)", "a::int8"),
    ("a || b + c", "a || (b + c)"),
    ("a & b + c", "a & (b + c)"),
]


@pytest.mark.parametrize(("text", "meant"), PRECEDENCE)
def test_operators_bind_as_in_postgresql(text: str, meant: str) -> None:
    """Else a client would be shown other rows than it asked for."""
    assert parse_where(text) == parse_where(meant)


@given(st.integers(1, 300), st.sampled_from(["and", "or"]))
def test_a_long_chain_is_no_deep_tree(count: int, op: str) -> None:
    """With all its operands, in order."""
    tree = parse_where(f" {op} ".join(f"c{n}" for n in range(count)))
    assert list(columns_of(tree)) == [f"c{n}" for n in range(count)]
    level, height = [tree], 0
    while level := [child for node in level for child in children(node)]:
        height += 1
    assert 2**height < 2 * count + 1


NESTED: dict[str, Callable[[int], str]] = {
    "parentheses": lambda n: "(" * n + "a" + ")" * n,
    "not": lambda n: "not " * n + "a",
    "sums": lambda n: "a" + " + 1" * n + " = 1",
    "casts": lambda n: "a" + "::text" * n,
    "tests": lambda n: "a" + " is true" * n,
    "functions": lambda n: "lower(" * n + "a" + ")" * n,
    "sums in a sub-select": lambda n: f"a in (select b from c where d{' + 1' * (n - 2)} = 1)",
}


@pytest.mark.parametrize("kind", NESTED)
def test_what_is_too_deep_is_refused(kind: str) -> None:
    """And what is not can be printed, hashed and compared."""
    tree = parse_where(NESTED[kind](MAX_DEPTH - 5), selects=True)
    assert hash(tree) == hash(parse_where(NESTED[kind](MAX_DEPTH - 5), selects=True))
    assert tree.sql()
    for many in (MAX_DEPTH + 1, 2000):
        with pytest.raises(WhereError, match="nested"):
            parse_where(NESTED[kind](many), selects=True)


def test_what_is_too_long_is_refused() -> None:
    """Before it is read."""
    with pytest.raises(WhereError, match="longer"):
        parse_where("a" * (MAX_LENGTH + 1))
    assert parse_where("a" * MAX_LENGTH) == Column("a" * MAX_LENGTH)


@pytest.mark.parametrize("name", [*FUNCTIONS, *FORMS])
def test_functions_take_as_many_arguments_as_they_have(name: str) -> None:
    """And no more."""
    least, most = (FUNCTIONS | FORMS)[name]
    for count in range(most + 2):
        text = f"{name}({', '.join(['a'] * count)})"
        if least <= count <= most:
            assert parse_where(text) == Call(name, (Column("a"),) * count)
        else:
            with pytest.raises(WhereError, match="arguments"):
                parse_where(text)


@given(TEXTS)
def test_a_parameter_is_a_text(value: str) -> None:
    """It cannot become anything else."""
    assert parse_where("a = $1", {1: value}) == Binary("=", Column("a"), Literal(value))


@pytest.mark.parametrize(("text", "params"), [("a = $2", {1: "x"}), ("a = $1", {1: "x\0"})])
def test_a_parameter_without_a_value_is_refused(text: str, params: dict[int, str]) -> None:
    """Nor can a text of PostgreSQL have a NUL."""
    with pytest.raises(WhereError, match="parameter"):
        parse_where(text, params)


@given(
    st.builds(
        Select,
        *[TEXTS.filter(bool)] * 3,
        st.none() | st.just(Column("a", "s1")),
        st.just("s1"),
    ),
    st.booleans(),
)
def test_a_sub_select_that_is_written_is_read_again(select: Select, negated: bool) -> None:  # noqa: FBT001
    """Its names, too; its columns are those of its own table, and none of the row outside."""
    tree = Binary("or", Column("a"), InSelect(Column("b"), select, negated))
    assert parse_where(written(tree), selects=True) == tree
    assert list(columns_of(tree)) == ["a", "b"]
    assert list(selects_of(tree)) == [select]


def test_a_sub_select_reads_nothing_of_the_row_outside() -> None:
    """Whatever the columns are called: what PostgreSQL does not find inside, it finds outside."""
    tree = parse_where(
        "a in (select b from c where a = 1 and b not in (select a from d where b = 2)) and b = 3",
        selects=True,
    )
    assert tree.sql().count('"a"') == tree.sql().count('s1."a"') + tree.sql().count('s2."a"') + 1
    assert tree.sql().count('s1."b"') == 2
    assert [(each.table, each.source) for each in selects_of(tree)] == [("c", "s1"), ("d", "s2")]
    assert list(columns_of(tree)) == ["a", "b"]


@pytest.mark.parametrize(
    "what",
    [
        "1", "a, b from c", "count(*) from c", "distinct a from c", "*  from c", "c.a from c",
        "a", "a from", "a from c d", "a from c, d", "a from c join d on true", "a from b.c.d",
        "a from c limit 1", "a from c order by a", "a from c group by a", "a from c for update",
        "a from (select a from c)", "a from f(1)", "a from c union select a from d", "'x' from c",
        "a from c where a = 1 limit 1",
    ],
)  # fmt: skip
def test_a_sub_select_is_one_column_of_one_table(what: str) -> None:
    """Else the reason is given, with the place."""
    with pytest.raises(WhereError, match="must be select COLUMN from TABLE") as refused:
        parse_where(f"a in (select {what})", selects=True)
    assert refused.value.position == 7


def test_sub_selects_are_few_and_only_where_they_are_followed() -> None:
    """A subset is read once, and a condition of one cannot have any."""
    one = "a in (select b from c)"
    assert parse_where(" or ".join([one] * 5), selects=True)
    with pytest.raises(WhereError, match="more than 5"):
        parse_where(" or ".join([one] * 6), selects=True)
    with pytest.raises(WhereError, match="cannot have a sub-select"):
        parse_where(one)
