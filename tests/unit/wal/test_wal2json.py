"""wal2json's documents, read and written."""

from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal.encode import HEAD, keepalive
from walagent.domain.change import (
    UNCHANGED,
    Begin,
    Change,
    Column,
    Commit,
    Idle,
    Item,
    Op,
    OriginMarker,
    Piece,
    Relation,
    Row,
)
from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn
from walagent.wal import json_lines
from walagent.wal.wal2json import Wal2jsonTransactions
from walagent.wal.wal2json_rows import SeenTables, read_row
from walagent.wal.wal2json_text import format_begin, format_change, format_commit, format_marker

AT = {"xid": 7, "timestamp": "2026-11-21 11:27:21.5+00", "lsn": "0/64", "nextlsn": "0/8C"}
BEGIN = {"action": "B", **AT}
COMMIT = {"action": "C", **AT}
ID = {"name": "id", "type": "integer", "value": 1}
B = {"name": "b", "type": "text", "value": "x"}
TABLE = {"schema": "public", "table": "t"}
INSERT = {"action": "I", **TABLE, "columns": [ID, B], "pk": [{"name": "id", "type": "integer"}]}


def read(*documents: object, into: Wal2jsonTransactions | None = None) -> list[Item]:
    """The items of some documents."""
    frames = [each if isinstance(each, bytes) else HEAD + orjson.dumps(each) for each in documents]
    return list((into or Wal2jsonTransactions(lambda _: True)).feed(frames))


def changes(items: Iterable[Item]) -> list[Change]:
    """The changes of some items."""
    return [change for item in items if isinstance(item, Piece) for change in item.changes]


def test_a_transaction_comes_as_begin_pieces_and_commit() -> None:
    """The same items as pgoutput gives."""
    begin, piece, commit = read(BEGIN, INSERT, COMMIT)
    at = datetime(2026, 11, 21, 11, 27, 21, 500_000, UTC)
    assert begin == Begin(7, Lsn(100), at)
    (change,) = changes([piece])
    assert (change.commit_lsn, change.ordinal, change.op, change.xid) == (100, 0, Op.INSERT, 7)
    assert change.new == {"id": 1, "b": "x"}
    assert [column.in_key for column in change.relation.columns] == [True, False]
    assert commit == Commit(Lsn(100), Lsn(140))


@pytest.mark.parametrize(
    ("type_name", "sent", "value"),
    [
        ("numeric(8,2)", 1.5, Decimal("1.5")),
        ("numeric", "1.234567890123456789", Decimal("1.234567890123456789")),
        ("bytea", "00ff", "\\x00ff"),
        ("double precision", 1, 1.0),
        ("boolean", True, True),
        ("bigint", 2**53 + 1, 2**53 + 1),
        ("jsonb", '{"a": 1}', '{"a": 1}'),
        ("text", None, None),
    ],
)
def test_values_are_typed_by_the_name_of_their_type(
    type_name: str, sent: object, value: object
) -> None:
    """As far as JSON still has them."""
    cells = [{"name": "v", "type": type_name, "value": sent}]
    (change,) = changes(read(BEGIN, {**INSERT, "columns": cells}))
    assert change.new == {"v": value}
    assert change.new is not None
    assert type(change.new["v"]) is type(value)


def test_a_column_left_out_of_an_update_is_unchanged() -> None:
    """Once the column is known."""
    update = {"action": "U", **TABLE, "columns": [ID], "identity": [ID]}
    change = changes(read(BEGIN, INSERT, update))[1]
    assert change.new == {"id": 1, "b": UNCHANGED}
    assert change.old is None


def test_a_changed_key_is_the_old_row() -> None:
    """An unchanged one is not, for pgoutput does not send it."""
    update = {"action": "U", **TABLE, "columns": [{**ID, "value": 2}, B], "identity": [ID]}
    (change,) = changes(read(BEGIN, update))
    assert change.old == {"id": 1}


def test_a_full_identity_is_kept_though_nothing_changed() -> None:
    """It has every column, so it is no key."""
    update = {"action": "U", **TABLE, "columns": [ID, B], "identity": [ID, B]}
    (change,) = changes(read(BEGIN, update))
    assert change.old == {"id": 1, "b": "x"}


def test_a_table_that_changes_its_columns_is_another_relation() -> None:
    """From the first row on that has them."""
    wide = {**INSERT, "columns": [ID, B, {"name": "c", "type": "boolean", "value": True}]}
    narrow = {**INSERT, "columns": [ID]}
    found = changes(read(BEGIN, INSERT, wide, narrow))
    assert [len(change.relation.columns) for change in found] == [2, 3, 1]
    assert found[2].new == {"id": 1}


STATE = {"name": "state", "type": "text", "value": "new"}
NOTE = {"name": "note", "type": "text", "value": None}
COUNT = {"name": "count", "type": "integer", "value": 1}
WIDE = {**INSERT, "columns": [ID, B, STATE, COUNT]}


def update_of(*cells: object, identity: Iterable[object] = (ID,)) -> dict[str, object]:
    """An update that sends these cells."""
    return {**WIDE, "action": "U", "columns": cells, "identity": list(identity)}


def test_types_can_have_their_names_in_pg_type() -> None:
    """As wal2json writes them without include-typmod, in both formats."""
    cells = [
        {"name": "id", "type": "int4", "value": 1},
        {"name": "ok", "type": "bool", "value": True},
        {"name": "ratio", "type": "float8", "value": 1},
        {"name": "name", "type": "varchar", "value": "x"},
        {"name": "list", "type": "_int8", "value": "{1}"},
    ]
    (change,) = changes(read(BEGIN, {**INSERT, "columns": cells}))
    assert change.new == {"id": 1, "ok": True, "ratio": 1.0, "name": "x", "list": "{1}"}
    assert [column.type_name for column in change.relation.columns] == [
        "integer", "boolean", "double precision", "character varying", "bigint[]",
    ]  # fmt: skip
    document = {
        **{name: AT[name] for name in ("xid", "timestamp", "nextlsn")},
        "change": [
            {
                "kind": "insert", **TABLE, "columnnames": ["id", "ok"],
                "columntypes": ["int4", "bool"], "columnvalues": [1, False],
            }
        ],
    }  # fmt: skip
    (change,) = changes(read(document))
    assert change.new == {"id": 1, "ok": False}


def test_a_full_old_row_describes_a_table_that_changed() -> None:
    """A value that the new row omits is in the old row: nothing is lost, and nothing raises."""
    added = update_of(ID, STATE, COUNT, NOTE, identity=[ID, B, STATE, COUNT, NOTE])
    dropped = update_of(ID, STATE, identity=[ID, B, STATE])
    renamed = update_of(ID, {**STATE, "name": "s"}, identity=[ID, B, {**STATE, "name": "s"}])
    found = changes(read(BEGIN, WIDE, added, dropped, renamed))[1:]
    assert [[column.name for column in change.relation.columns] for change in found] == [
        ["id", "b", "state", "count", "note"],
        ["id", "b", "state"],
        ["id", "b", "s"],
    ]
    for change in found:
        assert change.new is not None
        assert change.old is not None
        assert (change.new["b"], change.old["b"]) == (UNCHANGED, "x")


def test_a_column_that_an_update_omits_is_not_dropped_because_another_was_added() -> None:
    """It is TOASTed; only a type that is never TOASTed shows that its column is gone."""
    (_, added) = changes(read(BEGIN, WIDE, update_of(ID, STATE, COUNT, NOTE)))
    assert added.new == {"id": 1, "b": UNCHANGED, "state": "new", "count": 1, "note": None}
    (_, dropped) = changes(read(BEGIN, WIDE, update_of(ID, STATE, NOTE)))
    assert dropped.new == {"id": 1, "b": UNCHANGED, "state": "new", "note": None}


def test_a_delete_does_not_narrow_a_table() -> None:
    """It has the key only, also where the key is new."""
    key = {"name": "key", "type": "integer", "value": 2}
    delete = {"action": "D", **TABLE, "identity": [key], "pk": [{"name": "key"}]}
    _, deleted, updated = changes(read(BEGIN, WIDE, delete, update_of(ID, STATE, COUNT, key)))
    assert deleted.old == {"key": 2}
    assert updated.new == {"id": 1, "b": UNCHANGED, "state": "new", "count": 1, "key": 2}


def test_definitions_and_plans_have_a_limit() -> None:
    """A database that creates tables every day does not fill the memory of its reader."""
    tables = SeenTables(lambda _: True)
    for n in range(10_001):
        tables.find({**INSERT, "table": f"t{n}"})
    assert len(tables) == 10_000
    table = tables.find(INSERT)
    for n in range(300):
        read_row(table, [{**ID, "name": f"c{n}"}], whole=False)
    assert len(table.plans) <= 256


def test_what_nobody_wants_is_counted() -> None:
    """And what the checkpoint has is left out."""
    into = Wal2jsonTransactions(lambda table: table.name == "t", start=Lsn(100))
    other = {**INSERT, "table": "other"}
    assert [change.ordinal for change in changes(read(BEGIN, other, INSERT, into=into))] == [1]
    into = Wal2jsonTransactions(lambda _: True, start=Lsn(101))
    assert read(BEGIN, INSERT, COMMIT, into=into) == []
    assert into.received == 140


def test_only_transactional_messages_of_ours_become_tags() -> None:
    """Like those of pgoutput."""
    marker = {"action": "M", "lsn": "0/32", "transactional": True, "prefix": "walagent"}
    marker["content"] = "ü"
    items = read(BEGIN, marker, {**marker, "transactional": False}, {**marker, "prefix": "other"})
    assert items[1:] == [OriginMarker("walagent", "ü".encode(), Lsn(50))]


def test_keepalives_are_idle_between_transactions_only() -> None:
    """The rule is the same for both plug-ins."""
    items = read(BEGIN, keepalive(900), COMMIT, keepalive(900))
    assert [type(item) for item in items] == [Begin, Commit, Idle]


def test_format_1_tells_the_same_changes() -> None:
    """One document for the transaction instead of one for each change."""
    document = {
        "xid": 7,
        "timestamp": AT["timestamp"],
        "nextlsn": "0/8C",
        "change": [
            {"kind": "message", "transactional": True, "prefix": "other", "content": ""},
            {
                "kind": "insert",
                **TABLE,
                "columnnames": ["id", "b"],
                "columntypes": ["integer", "text"],
                "columnvalues": [1, "x"],
                "pk": {"pknames": ["id"], "pktypes": ["integer"]},
            },
            {
                "kind": "delete",
                **TABLE,
                "oldkeys": {"keynames": ["id"], "keytypes": ["integer"], "keyvalues": [1]},
            },
        ],
    }
    delete = {"action": "D", **TABLE, "identity": [ID]}
    one, two = changes(read(document)), changes(read(BEGIN, INSERT, delete, COMMIT))
    assert [(each.op, each.new, each.old, each.relation) for each in one] == [
        (each.op, each.new, each.old, each.relation) for each in two
    ]
    assert read(document)[-1] == Commit(Lsn(140), Lsn(140))


@pytest.mark.parametrize(
    "documents",
    [
        (HEAD + b"{",),
        (HEAD + b"[]",),
        (HEAD,),
        ({"action": "X"},),
        (INSERT,),
        (BEGIN, BEGIN),
        (BEGIN, {**COMMIT, "lsn": "0/1"}),
        (BEGIN, {**INSERT, "columns": [{**ID, "value": "one"}]}),
        (BEGIN, {**INSERT, "columns": [{**ID, "value": 1.5}]}),
        (BEGIN, {**INSERT, "columns": [{**B, "value": 1}]}),
        (BEGIN, {**INSERT, "columns": None}),
        ({**BEGIN, "timestamp": "yesterday"},),
    ],
)
def test_documents_of_another_shape_are_refused(documents: tuple[object, ...]) -> None:
    """With an offset, and never with another error."""
    with pytest.raises(DecodeError):
        read(*documents)


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False)
    | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(
    st.lists(
        st.one_of(
            st.sampled_from([BEGIN, COMMIT, INSERT]),
            st.builds(
                lambda base, key, value: {**base, key: value},
                st.sampled_from([BEGIN, COMMIT, INSERT, {"change": [], **AT}]),
                st.sampled_from([*AT, *INSERT, "identity", "change"]),
                _json,
            ),
            _json,
            st.binary(max_size=40),
        ),
        max_size=5,
    )
)
def test_any_documents_are_items_or_a_decode_error(documents: list[object]) -> None:
    """Whatever JSON, and whatever bytes."""
    try:
        read(*documents)
    except DecodeError as error:
        assert error.offset >= 0  # noqa: PT017 - most documents are fine or not, both is right


RELATION = Relation(
    5,
    "public",
    "t",
    (
        Column("id", 23, "integer", in_key=True),
        Column("n", 1700, "numeric", in_key=False),
        Column("b", 17, "bytea", in_key=False),
        Column("s", 25, "text", in_key=False),
    ),
)


def change(op: Op, new: Row | None, old: Row | None = None) -> Change:
    """A change of RELATION."""
    return Change(Lsn(100), 0, op, RELATION, new, old, 7)


def test_a_change_is_written_as_wal2json_writes_it() -> None:
    """Numbers keep their digits, bytea loses its prefix, an unchanged value is left out."""
    row = {"id": 1, "n": Decimal("1.50"), "b": "\\x00", "s": UNCHANGED}
    line = format_change(change(Op.UPDATE, row))
    assert line == (
        b'{"action":"U","xid":7,"lsn":"0/64","ordinal":0,"schema":"public","table":"t","columns":['
        b'{"name":"id","type":"integer","value":1},{"name":"n","type":"numeric","value":1.50},'
        b'{"name":"b","type":"bytea","value":"00"}],'
        b'"identity":[{"name":"id","type":"integer","value":1}]}'
    )


def test_what_json_cannot_carry_is_still_a_line() -> None:
    """NaN is PostgreSQL's text; bytes that are no text are marked."""
    row = {"id": float("-inf"), "n": Decimal("NaN"), "b": None, "s": "caf\udce9"}
    columns = orjson.loads(format_change(change(Op.INSERT, row)))["columns"]
    assert [cell["value"] for cell in columns] == ["-Infinity", "NaN", None, "caf\ufffd"]


def test_a_change_is_written_by_column_name() -> None:
    """What the WAL omits is named, not null."""
    row = {"id": 1, "n": Decimal("1.50"), "b": "\\x00", "s": UNCHANGED}
    line = json_lines.format_change(change(Op.UPDATE, row, {"id": 2}))
    assert line == (
        b'{"op":"update","lsn":"0/64","ordinal":0,"xid":7,"schema":"public","table":"t",'
        b'"new":{"id":1,"n":1.50,"b":"\\\\x00"},"old":{"id":2},"unchanged":["s"]}'
    )


@given(
    st.integers(-(2**31), 2**31),
    st.decimals(-(10**10), 10**10, allow_nan=False, places=3),
    st.binary().map(lambda content: "\\x" + content.hex()),
    st.text(st.characters(exclude_categories=["Cs"])),
)
def test_what_is_written_is_read_as_it_was(number: int, n: Decimal, b: str, s: str) -> None:
    """A printed stream can be read again."""
    row = {"id": number, "n": n, "b": b, "s": s}
    begin, commit = Begin(7, Lsn(100), datetime(2026, 1, 1, tzinfo=UTC)), Commit(Lsn(100), Lsn(140))
    marker = OriginMarker("walagent", s.encode(), Lsn(50))
    sent = [
        change(Op.INSERT, row),
        change(Op.DELETE, None, {"id": number}),
        change(Op.TRUNCATE, None),
    ]
    lines = [
        format_begin(begin),
        format_marker(marker),
        *map(format_change, sent),
        format_commit(commit),
    ]
    items = read(*(HEAD + line for line in lines))
    assert (items[0], items[1], items[-1]) == (begin, marker, commit)
    assert [(each.op, each.new, each.old) for each in changes(items)] == [
        (each.op, each.new, each.old) for each in sent
    ]
