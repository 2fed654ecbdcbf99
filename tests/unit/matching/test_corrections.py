"""What passes the filter of rows that agents wrote: all that can be one of them."""

from decimal import Decimal

import pytest

from walagent.domain.change import Change, Column, Op, Relation, Row, Value
from walagent.matching.corrections import Watched
from walagent.matching.row_changes import text_of
from walagent.postgres import pgtypes
from walagent.postgres.lsn import Lsn


def relation(identity: str, *types: int) -> Relation:
    """A table with a key of columns k0, k1 and so on, another identity, and what agents write."""
    names = [f"k{n}" for n in range(len(types))]
    columns = [
        Column(name, oid, "", in_key=identity == "d")
        for name, oid in zip(names, types, strict=True)
    ]
    columns.append(Column("other", pgtypes.TEXT, "", in_key=identity == "i"))
    return Relation(7, "public", "item", (*columns, Column("kind", 25, "", in_key=False)), identity)


def watched(of: Relation, **key: Value) -> Watched:
    """Watch one row."""
    types = {column.name: column.type_oid for column in of.columns}
    found = Watched(tuple(sorted(key)), {"kind"})
    found.add({name: text_of(value, types[name]) for name, value in key.items()})
    return found


def update(of: Relation, new: Row, old: Row | None = None) -> Change:
    """An update as it is decoded."""
    return Change(Lsn(1), 0, Op.UPDATE, of, new, old)


@pytest.mark.parametrize(
    ("type_oid", "value"),
    [
        (pgtypes.INT8, 5),
        (pgtypes.TEXT, "a"),
        (pgtypes.BOOL, True),
        (pgtypes.FLOAT8, 1.0),
        (pgtypes.FLOAT8, 1e300),
        (pgtypes.FLOAT4, 1e6),
        (pgtypes.NUMERIC, Decimal("0.0000001")),
        (pgtypes.NUMERIC, Decimal("NaN")),
    ],
)
@pytest.mark.parametrize("columns", [1, 2])
def test_a_row_passes_whatever_its_key_is(type_oid: int, value: Value, columns: int) -> None:
    """A key is compared as the text that PostgreSQL writes."""
    of = relation("d", *[type_oid] * columns)
    key: Row = {f"k{n}": value for n in range(columns)}
    (row,) = watched(of, **key).take([update(of, {**key, "other": "x", "kind": "bug"})])
    assert row["values"] == {"kind": "bug"}


def test_a_row_passes_when_another_identity_changes() -> None:
    """The old row has the columns of the identity alone, and not the key."""
    of = relation("i", pgtypes.INT8)
    change = update(of, {"k0": 5, "other": "y", "kind": "bug"}, {"other": "x"})
    (row,) = watched(of, k0=5).take([change])
    assert (row["key"], row["values"]) == ({"k0": "5"}, {"kind": "bug"})
    assert "was" not in row


def test_few_other_rows_pass() -> None:
    """Or each of them would be looked up."""
    of = relation("d", pgtypes.INT8)
    found = watched(of, k0=-1)
    for n in range(50_000):
        found.add({"k0": str(n)})
    others = [update(of, {"k0": n, "other": "", "kind": "x"}) for n in range(100_000, 150_000)]
    assert len(found.take(others)) < 5_000
