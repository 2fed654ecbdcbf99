"""The careful decoder of pgoutput messages, and the generated one beside it."""

import math
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal import encode
from walagent.domain.change import UNCHANGED, Change, Column, Op, Relation, Row
from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn
from walagent.wal import pgoutput
from walagent.wal.rowcode import UNFIT, compile_rows

OID = 5
TYPES = {"int": 23, "big": 20, "float": 701, "flag": 16, "amount": 1700, "words": 25, "odd": 999}
COLUMNS = tuple(Column(name, oid, "", in_key=name == "int") for name, oid in TYPES.items())
RELATION = Relation(OID, "public", "t", COLUMNS)

_SOUND = {
    16: st.sampled_from([b"t", b"f"]),
    20: st.integers(-(2**63), 2**63 - 1).map(lambda number: str(number).encode()),
    23: st.integers(-(2**31), 2**31 - 1).map(lambda number: str(number).encode()),
    25: st.binary(max_size=300),
    701: st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(lambda number: repr(number).encode()),
        st.sampled_from([b"Infinity", b"-Infinity"]),
    ),
    999: st.text().map(str.encode),
    1700: st.decimals(allow_nan=False).map(lambda number: str(number).encode()),
}


def _cells(columns: Sequence[Column]) -> st.SearchStrategy[tuple[encode.Cell, ...]]:
    return st.tuples(
        *(st.none() | st.just(UNCHANGED) | _SOUND[column.type_oid] for column in columns)
    )


rows = _cells(COLUMNS)
row_messages = st.one_of(
    st.builds(encode.insert, st.just(OID), rows),
    st.builds(encode.update, st.just(OID), rows, st.none() | rows),
    st.builds(encode.delete, st.just(OID), rows, st.sampled_from([b"K", b"O"])),
)


def careful(payload: bytes, relation: Relation = RELATION) -> tuple[Op, Row | None, Row | None]:
    """Decode a row message without the generated code."""
    row = pgoutput.decode(payload)
    assert isinstance(row, pgoutput.RowChange)
    new = None if row.new is None else pgoutput.type_row(relation, row.new)
    old = None
    if row.old is not None:
        old = pgoutput.type_row(relation, row.old, only_key=row.old_is_key)
    return row.op, new, old


def fast(payload: bytes, relation: Relation = RELATION) -> Change:
    """Decode a row message with the generated code."""
    made = compile_rows(relation, 0)
    decoders = {b"I": made.insert, b"U": made.update, b"D": made.delete}
    return decoders[payload[:1]](payload, Lsn(1), 2, 3)


def test_a_row_has_python_values_of_its_types() -> None:
    """Numbers, truth and decimals are typed; a type nobody knows keeps its text."""
    row = (b"1", b"-2", b"NaN", b"t", b"1.50", "ü".encode(), b"(1,2)")
    new = dict(careful(encode.insert(OID, row))[1] or {})
    assert isinstance(number := new.pop("float"), float)
    assert math.isnan(number)
    assert new == {
        "int": 1,
        "big": -2,
        "flag": True,
        "amount": Decimal("1.50"),
        "words": "ü",
        "odd": "(1,2)",
    }


def test_null_and_unchanged_are_not_the_same() -> None:
    """An untouched TOASTed value is a third state."""
    row: list[encode.Cell] = [b"1", None, None, None, None, UNCHANGED, None]
    change = fast(encode.update(OID, row))
    assert change.new is not None
    assert change.new["words"] is UNCHANGED
    assert change.new["big"] is None
    assert change.old is None


def test_an_old_key_holds_the_keys_columns_only() -> None:
    """The server sends NULL for the others, which says nothing about them."""
    row = (b"2", None, None, None, None, None, None)
    change = fast(encode.update(OID, row, (b"1", None, None, None, None, None, None)))
    assert change.old == {"int": 1}


def test_bytes_of_a_sql_ascii_database_survive() -> None:
    """What is not UTF-8 comes back as it was."""
    row = (b"1", None, None, None, None, b"caf\xe9", None)
    new = careful(encode.insert(OID, row))[1]
    assert new is not None
    assert str(new["words"]).encode("utf-8", "surrogateescape") == b"caf\xe9"


@given(row_messages)
def test_the_generated_decoder_reads_what_the_careful_one_reads(payload: bytes) -> None:
    """Whatever it does not leave to the careful one, it reads the same."""
    change = None
    try:
        change = fast(payload)
    except UNFIT:
        return
    assert isinstance(change, Change)
    assert (change.op, change.new, change.old) == careful(payload)
    assert (change.commit_lsn, change.ordinal, change.xid) == (1, 2, 3)
    assert change.relation is RELATION


@given(st.lists(st.none() | st.binary(max_size=5), max_size=9))
def test_the_generated_decoder_copes_with_nulls_at_the_end(row: list[bytes | None]) -> None:
    """A NULL has one byte, so little may be left to read."""
    columns = tuple(Column(f"c{n}", 17, "", in_key=True) for n in range(len(row)))
    relation = Relation(OID, "public", "t", columns)
    payload = encode.insert(OID, row)
    try:
        new = fast(payload, relation).new
    except UnicodeDecodeError:
        return
    assert new == careful(payload, relation)[1]


@given(row_messages, st.data())
def test_broken_rows_are_refused_by_both_or_read_the_same(
    payload: bytes, data: st.DataObject
) -> None:
    """Cut, lengthened or altered bytes never make the generated decoder tell another story."""
    at = data.draw(st.integers(1, len(payload) - 1))
    broken = data.draw(
        st.sampled_from([payload[:at], payload + b"\0", payload[:at] + b"\xff" + payload[at + 1 :]])
    )
    try:
        change = fast(broken)
    except UNFIT:
        return
    assert (change.op, change.new, change.old) == careful(broken)


@given(
    st.binary()
    | st.builds(
        bytes.__add__, st.sampled_from([bytes([c]) for c in b"BCRYOMIUDTSEcA"]), st.binary()
    )
)
def test_any_bytes_are_a_message_or_a_decode_error(data: bytes) -> None:
    """Nothing else is ever raised, and the offset lies within the bytes."""
    offset = 0
    try:
        pgoutput.decode(data)
    except DecodeError as error:
        offset = error.offset
    assert 0 <= offset <= len(data)


@given(row_messages, st.integers(0))
def test_a_row_that_is_cut_off_is_refused(payload: bytes, cut: int) -> None:
    """No prefix of a message is a message."""
    with pytest.raises(DecodeError):
        pgoutput.decode(payload[: cut % len(payload)])


@given(
    st.lists(
        st.builds(
            Column,
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1),
            st.sampled_from([16, 23, 25, 1700]),
            st.just(""),
            in_key=st.booleans(),
        ),
        unique_by=lambda column: column.name,
        max_size=6,
    )
)
def test_no_column_name_breaks_the_generated_code(columns: list[Column]) -> None:
    """Quotes, braces, newlines and keywords are names like others."""
    relation = pgoutput.decode(encode.relation(OID, columns))
    assert isinstance(relation, Relation)
    assert [column.name for column in relation.columns] == [column.name for column in columns]
    new = fast(encode.insert(OID, [None] * len(columns)), relation).new
    assert new == {column.name: None for column in columns}


def test_too_many_columns_are_refused() -> None:
    """No relation has them, and code for them would take for ever to compile."""
    columns = [Column(str(n), 23, "", in_key=False) for n in range(1665)]
    with pytest.raises(DecodeError, match="1665"):
        pgoutput.decode(encode.relation(OID, columns))


@pytest.mark.parametrize("value", [b"1.5", b"", b"abc", b"\xff"])
def test_a_value_that_its_type_does_not_allow_is_refused_with_its_offset(value: bytes) -> None:
    """The offset points at the value."""
    payload = encode.insert(OID, (value, None, None, None, None, None, None))
    with pytest.raises(DecodeError, match='column "int"') as caught:
        careful(payload)
    assert caught.value.offset == 8
