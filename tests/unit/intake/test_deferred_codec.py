"""A change that is stored until it can be evaluated."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from walagent.domain.change import UNCHANGED, Change, Column, Op, Relation, Row, Value
from walagent.intake.deferred_codec import read_change, write_change
from walagent.postgres import pgtypes
from walagent.postgres.lsn import Lsn

TEXTS = st.text(max_size=5) | st.sampled_from(["x\udcff", "\\N", '{"a": 1.0}', "null", ""])
VALUES: dict[int, st.SearchStrategy[Value]] = {
    pgtypes.BOOL: st.booleans(),
    20: st.integers(-(2**63), 2**63 - 1),
    pgtypes.FLOAT8: st.floats(),
    pgtypes.NUMERIC: st.decimals(allow_nan=False) | st.just(Decimal("NaN")),
    pgtypes.TEXT: TEXTS,
    114: TEXTS,  # json
    0: TEXTS,  # unknown
}
COLUMNS = tuple(
    Column(f'c"{oid}', oid, f"type {oid}", in_key=n == 0) for n, oid in enumerate(VALUES)
)
ROWS = st.fixed_dictionaries({c.name: st.none() | VALUES[c.type_oid] for c in COLUMNS})
OMITTED = st.sets(st.sampled_from([column.name for column in COLUMNS]))


def with_omitted(row: Row | None, omitted: set[str]) -> Row | None:
    """A row of which some values were not sent."""
    if row is None:
        return None
    return {name: UNCHANGED if name in omitted else value for name, value in row.items()}


CHANGES = st.builds(
    lambda op, identity, new, omitted, old, xid: Change(
        Lsn(2**63 - 1),
        3,
        op,
        Relation(16384, "s", 't"', COLUMNS, identity),
        with_omitted(new, omitted),
        old,
        xid,
    ),
    st.sampled_from(Op),
    st.sampled_from("dnfi"),
    st.none() | ROWS,
    OMITTED,
    st.none() | ROWS,
    st.integers(0, 2**32 - 1),
)


@given(CHANGES)
def test_a_change_is_read_as_it_was_written(change: Change) -> None:
    """Every value in its type: 1 is not true, 1.0 is not 1, and NULL is not left out."""
    again = read_change(write_change(change))
    for row, same in ((change.new, again.new), (change.old, again.old)):
        assert (row is None) == (same is None)
        for name in row or {}:
            assert repr((same or {})[name]) == repr((row or {})[name])
    assert (again.op, again.relation, again.commit_lsn, again.ordinal, again.xid) == (
        change.op, change.relation, change.commit_lsn, change.ordinal, change.xid,
    )  # fmt: skip
