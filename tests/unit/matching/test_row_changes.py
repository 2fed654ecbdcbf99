"""What is recorded of changes: texts as PostgreSQL writes them; rows are followed."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from walagent.domain.change import UNCHANGED, Begin, Change, Column, Op, Relation, Row, Value
from walagent.matching.origin import Origin
from walagent.matching.row_changes import MOST_TEXT, Recording, text_of
from walagent.postgres import pgtypes
from walagent.postgres.lsn import Lsn

TABLE = Relation(
    1, "public", "t", (Column("id", 23, "", in_key=True), Column("a", 25, "", in_key=False))
)


@pytest.mark.parametrize(
    ("given", "type_oid", "text"),
    [
        (None, 0, None),
        (True, 0, "t"),
        (5, 0, "5"),
        (Decimal("1.00"), 0, "1.00"),
        (Decimal("1E-7"), 0, "0.0000001"),
        (Decimal("NaN"), 0, "NaN"),
        (0.1, 0, "0.1"),
        (2.0, 0, "2"),
        (-0.0, 0, "-0"),
        (1e-5, 0, "1e-05"),
        (123456789012345.0, 0, "123456789012345"),
        (1e15, 0, "1e+15"),
        (-1234567890123456.0, 0, "-1.234567890123456e+15"),
        (1e20, 0, "1e+20"),
        (1e6, pgtypes.FLOAT4, "1e+06"),
        (float("inf"), 0, "Infinity"),
        (float("nan"), 0, "NaN"),
    ],
)
def test_values_are_written_as_postgresql_writes_them(
    given: Value, type_oid: int, text: str | None
) -> None:
    """Of floats, an exponent from the same size on."""
    assert text_of(given, type_oid) == text


def recording() -> Recording:
    """Record a transaction of run 1."""
    begin = Begin(7, Lsn(1), datetime(2026, 1, 1, tzinfo=UTC))
    return Recording(begin, Origin(1, 2, 0))


def change(n: int, op: Op, new: Row | None, old: Row | None = None) -> Change:
    """Change a row of the table."""
    return Change(Lsn(1), n, op, TABLE, new, old)


def test_a_row_that_the_transaction_wrote_is_followed() -> None:
    """By its key, also if it changes; a value that the WAL omits is known."""
    record = recording()
    found = [
        record.take([one])
        for one in (
            change(0, Op.INSERT, {"id": 1, "a": "x"}),
            change(1, Op.UPDATE, {"id": 2, "a": UNCHANGED}, {"id": 1}),
            change(2, Op.DELETE, None, {"id": 2}),
            change(3, Op.DELETE, None, {"id": 2}),
        )
    ]
    rows = [entry["rows"][0] for entry in found if entry]
    assert [(row["old"], row["new"], row["first"]) for row in rows] == [
        (None, {"id": "1", "a": "x"}, True),
        ({"id": "1", "a": "x"}, {"id": "2", "a": "x"}, False),
        ({"id": "2", "a": "x"}, None, False),
        ({"id": "2"}, None, True),
    ]


def test_large_values_and_stray_bytes_are_named() -> None:
    """They are not recorded; a JSON document could not hold the latter."""
    entry = recording().take(
        [
            change(0, Op.INSERT, {"id": 1, "a": "x" * (MOST_TEXT + 1)}),
            change(1, Op.INSERT, {"id": 2, "a": "\udcff"}),
        ]
    )
    assert entry is not None
    assert [(row["new"], row["omitted"]) for row in entry["rows"]] == [
        ({"id": "1"}, ["a"]),
        ({"id": "2"}, ["a"]),
    ]


@pytest.mark.parametrize(
    ("origin", "inside", "is_recorded"),
    [
        (Origin(1, 2, 0), [], False),
        (Origin(1, 2, 0, has_before=True), [], True),
        (Origin(1, 2, 0, reverts=True), [], True),
        (Origin(1, 2, 0), [change(0, Op.INSERT, {"id": 1})], True),
    ],
)
def test_an_end_is_recorded_only_where_something_is_known_of_the_transaction(
    origin: Origin,
    inside: list[Change],
    is_recorded: bool,  # noqa: FBT001
) -> None:
    """Each end costs a commit: nothing changed, or in tables that are not published, is no news."""
    record = Recording(Begin(7, Lsn(1), datetime(2026, 1, 1, tzinfo=UTC)), origin)
    for one in inside:
        record.take([one])
    assert bool(record.end()) is is_recorded


def test_tables_of_walagent_are_not_recorded() -> None:
    """What an agent posts to a thread is an event already."""
    relation = Relation(9, "agent", "event", TABLE.columns)
    assert recording().take([Change(Lsn(1), 0, Op.INSERT, relation, {"id": 1}, None)]) is None
