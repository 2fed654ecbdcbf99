"""Where clauses in Python, against a second evaluator with PostgreSQL's three-valued logic."""

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from operator import eq, ge, gt, le, lt, ne

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sync.build import column
from walagent.sync.predicate import Texts, compile_where, needed_values
from walagent.sync.table import ShapeTable
from walagent.sync.where import parse_where

UUID = "00000000-0000-0000-0000-00000000000{}"
COLUMNS = [
    column("n", 23, pk_index=0),
    column("a", 16),
    column("b", 16),
    column("t", 25),
    column("u", 2950),
    column("mood", 20000, is_enum=True),
    column("price", 1700),
]
TABLE = ShapeTable(7, "public", "item", COLUMNS, has_policies=False, identity="d")
LOGIC = {"true": True, "false": False, "null": None}
TEXT_OF = {True: "t", False: "f", None: None}
VALUES = {
    "n": [None, "-1", "0", "1", "10"],
    "a": [None, "t", "f"],
    "b": [None, "t", "f"],
    "t": [None, "", "a", "A", "it's"],
    "u": [None, UUID.format(1), UUID.format("a")],
    "mood": [None, "sad", "fine"],
    "price": [None, "1.50"],
}
ROWS: st.SearchStrategy[Texts] = st.fixed_dictionaries({
    name: st.sampled_from(values) for name, values in VALUES.items()
})  # fmt: skip
BLANK: Texts = dict.fromkeys(VALUES)


def holds(where: str, row: Texts) -> bool | None:
    """What a condition says of a row; it must be compiled."""
    predicate = compile_where(parse_where(where), TABLE)
    assert predicate is not None, where
    return predicate(row)


def kleene(op: str, left: bool | None, right: bool | None) -> bool | None:  # noqa: FBT001
    """Combine truth values: unknown if the answer depends on what is unknown."""

    def decide(x: bool, y: bool) -> bool:  # noqa: FBT001
        return x and y if op == "and" else x or y

    answers = {
        decide(x, y)
        for x in ([True, False] if left is None else [left])
        for y in ([True, False] if right is None else [right])
    }
    return answers.pop() if len(answers) == 1 else None


@pytest.mark.parametrize(("left", "right"), list(product(LOGIC, LOGIC)))
def test_and_and_or_of_three_values(left: str, right: str) -> None:
    """Of constants and of columns, in nine cases each."""
    row = {**BLANK, "a": TEXT_OF[LOGIC[left]], "b": TEXT_OF[LOGIC[right]]}
    for op in ("and", "or"):
        wanted = kleene(op, LOGIC[left], LOGIC[right])
        assert holds(f"{left} {op} {right}", BLANK) is wanted
        assert holds(f"a {op} b", row) is wanted


@pytest.mark.parametrize("value", LOGIC)
def test_tests_of_three_values(value: str) -> None:
    """NOT keeps unknown; IS never says it."""
    row, known = {**BLANK, "a": TEXT_OF[LOGIC[value]]}, LOGIC[value]
    assert holds("not a", row) is (None if known is None else not known)
    assert holds("a is null", row) is (known is None)
    assert holds("a is not null", row) is (known is not None)
    for word, wanted in (("true", True), ("false", False), ("unknown", None)):
        assert holds(f"a is {word}", row) is (known is wanted)
        assert holds(f"a is not {word}", row) is (known is not wanted)


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("n in (1, 2)", {None: None, "1": True, "3": False}),
        ("n in (1, null)", {None: None, "1": True, "3": None}),
        ("n not in (1, 2)", {None: None, "1": False, "3": True}),
        ("n not in (1, null)", {None: None, "1": False, "3": None}),
        ("n = any('{1,2}')", {None: None, "1": True, "3": False}),
        ("n = any('{}')", {None: False, "1": False}),
        ("n = null", {None: None, "1": None}),
        ("n <> null", {None: None, "1": None}),
        ("n = '1'", {None: None, "1": True}),
        ("n = ' +01 '", {None: None, "1": True, "01": False}),
        ("10 > n", {None: None, "9": True, "10": False, "11": False}),
        ("10 <= n", {None: None, "9": False, "10": True, "11": True}),
        ("n > -5", {}),
    ],
)  # fmt: skip
def test_lists_and_nulls(where: str, wanted: dict[str | None, bool | None]) -> None:
    """NOT IN of a list with a NULL is never true; integers compare as numbers."""
    if not wanted:  # a sign is an operator: left to PostgreSQL
        assert compile_where(parse_where(where), TABLE) is None
    for value, answer in wanted.items():
        assert holds(where, {**BLANK, "n": value}) is answer


Condition = tuple[str, Callable[[Texts], bool | None]]
COMPARE: dict[str, Callable[[int, int], bool]] = {
    "=": eq, "<>": ne, "<": lt, ">": gt, "<=": le, ">=": ge,
}  # fmt: skip


def number(op: str, wanted: int) -> Condition:
    """A comparison of an integer."""

    def answer(row: Texts) -> bool | None:
        found = row["n"]
        return None if found is None else COMPARE[op](int(found), wanted)

    return f"n {op} {wanted}", answer


def equal(name: str, literal: str, text: str, *, negated: bool) -> Condition:
    """A comparison of a column with a literal that is written so and means *text*."""

    def answer(row: Texts) -> bool | None:
        found = row[name]
        return None if found is None else (found == text) is not negated

    return f"{name} {'<>' if negated else '='} {literal}", answer


LEAVES = st.one_of(
    st.builds(number, st.sampled_from(list(COMPARE)), st.sampled_from([0, 1, 10])),
    st.builds(
        lambda leaf, negated: equal(*leaf, negated=negated),
        st.sampled_from([
            ("t", "''", ""), ("t", "'it''s'", "it's"), ("t", "'a'", "a"), ("a", "true", "t"),
            ("mood", "'sad'", "sad"), ("u", f"'{UUID.format('A')}'", UUID.format("a")),
        ]),
        st.booleans(),
    ),
    st.sampled_from(["a", "b"]).map(
        lambda name: (name, lambda row: {"t": True, "f": False, None: None}[row[name]])
    ),
)  # fmt: skip


def joined(op: str, left: Condition, right: Condition) -> Condition:
    """Two conditions with AND or OR."""
    return f"({left[0]}) {op} ({right[0]})", lambda row: kleene(op, left[1](row), right[1](row))


def turned(inner: Condition) -> Condition:
    """NOT of a condition."""
    wanted = {True: False, False: True, None: None}
    return f"not ({inner[0]})", lambda row: wanted[inner[1](row)]


def is_so(inner: Condition, word: str) -> Condition:
    """A condition, and whether it is so."""
    wanted = {"true": True, "false": False, "unknown": None}[word]
    return f"({inner[0]}) is {word}", lambda row: inner[1](row) is wanted


CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(joined, st.sampled_from(["and", "or"]), inner, inner),
        st.builds(turned, inner),
        st.builds(is_so, inner, st.sampled_from(["true", "false", "unknown"])),
    ),
    max_leaves=6,
)


@given(CONDITIONS, st.lists(ROWS, min_size=1, max_size=8))
def test_a_condition_holds_for_the_rows_for_which_it_is_true(
    condition: Condition, found: list[Texts]
) -> None:
    """And of the rows that a shape can skip, because they lack what it needs, for none."""
    text, answer = condition
    where = parse_where(text)
    predicate = compile_where(where, TABLE)
    assert predicate is not None
    needed = needed_values(where, TABLE)
    for row in found:
        assert predicate(row) is answer(row)
        if needed is not None and answer(row):
            assert row[needed[0]] in needed[1]


@pytest.mark.parametrize(
    ("where", "needed"),
    [
        ("n = 1", ("n", {"1"})),
        ("1 = n", ("n", {"1"})),
        ("n = null", ("n", set[str]())),
        ("n in (1, '2', null)", ("n", {"1", "2"})),
        ("a and t = 'x'", ("t", {"x"})),
        ("n not in (1, 2)", None),
        ("n = 1 or n = 2", None),
        ("not (n = 1)", None),
        ("n > 1", None),
    ],
)
def test_the_values_that_a_condition_needs(where: str, needed: tuple[str, set[str]] | None) -> None:
    """None: any row can match."""
    assert needed_values(parse_where(where), TABLE) == needed


@pytest.mark.parametrize(
    "where",
    [
        "price = 1.5", "price in (1)",
        "t < 'b'", "mood > 'sad'", "t like 'a'", "n = 1.5", "n = 1e3",
        "n + 1 = 2", "n = a", "lower(t) = 'a'", "a is distinct from b", "n between 1 and 2",
        "u = 'x'", "u > '00000000-0000-0000-0000-000000000000'", "a = 'yes'", "a = 1",
        "n = 12345678901234567890", "n = any('{1,\"2\"}')", "n = any('{1,null}')",
        "n = all('{1}')", "t = 1", "price = null", "nothing = 1", "coalesce(a, b)",
    ],
)  # fmt: skip
def test_what_is_not_proved_is_not_compiled(where: str) -> None:
    """PostgreSQL evaluates it; alone, and as a part of what is."""
    assert compile_where(parse_where(where), TABLE) is None
    assert compile_where(parse_where(f"a and not ({where})"), TABLE) is None


def test_a_collation_can_take_different_texts_for_equal() -> None:
    """Then only PostgreSQL knows."""
    columns = [replace(each, is_deterministic=False) for each in COLUMNS]
    assert compile_where(parse_where("t = 'a'"), replace(TABLE, columns=columns)) is None
