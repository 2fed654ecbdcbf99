"""Frames of pgoutput, put together to transactions."""

import struct
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.wal import encode
from walagent.domain.change import (
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
)
from walagent.errors import DecodeError
from walagent.postgres.lsn import Lsn
from walagent.wal import transactions
from walagent.wal.spool import Spools
from walagent.wal.transactions import PgoutputTransactions

COLUMNS = (Column("id", 23, "integer", in_key=True), Column("b", 25, "text", in_key=False))
T = encode.relation(1, COLUMNS, "t")
OTHER = encode.relation(2, COLUMNS, "other")


def reader(*, start: int = 0, piece: int = 1000) -> PgoutputTransactions:
    """A reader that wants every table but `other`."""
    return PgoutputTransactions(lambda table: table.name != "other", start=Lsn(start), piece=piece)


def read(*messages: bytes, into: PgoutputTransactions | None = None) -> list[Item]:
    """The items of some messages."""
    return list((into or reader()).feed(encode.frames(*messages)))


def changes(items: Iterable[Item]) -> list[Change]:
    """The changes of some items."""
    return [change for item in items if isinstance(item, Piece) for change in item.changes]


def row(number: int) -> tuple[bytes, bytes]:
    """A row of COLUMNS."""
    return str(number).encode(), b"x"


def test_a_transaction_comes_as_begin_pieces_and_commit() -> None:
    """In this order, with the positions of begin and commit."""
    first, piece, last = read(encode.begin(), T, encode.insert(1, row(1)), encode.commit())
    assert isinstance(first, Begin)
    assert (first.xid, first.commit_lsn) == (7, 100)
    assert [change.new for change in changes([piece])] == [{"id": 1, "b": "x"}]
    assert last == Commit(Lsn(100), Lsn(140))


def test_ordinals_count_what_nobody_wants() -> None:
    """The identity of a change does not depend on who asks for which table."""
    items = read(
        encode.begin(),
        T,
        OTHER,
        encode.insert(2, row(1)),
        encode.insert(1, row(2)),
        encode.truncate(2, 1),
        encode.delete(1, row(2)),
        encode.commit(),
    )
    found = [(change.ordinal, change.op) for change in changes(items)]
    assert found == [(1, Op.INSERT), (3, Op.TRUNCATE), (4, Op.DELETE)]


def test_ordinals_start_again_with_each_transaction() -> None:
    """They count within the transaction."""
    into = reader()
    for commit_lsn in (100, 200):
        items = read(
            encode.begin(commit_lsn),
            T,
            encode.insert(1, row(1)),
            encode.commit(commit_lsn),
            into=into,
        )
        assert [change.ordinal for change in changes(items)] == [0]


def test_a_relation_is_asked_for_once_per_relation_message() -> None:
    """Not once per row."""
    asked: list[Relation] = []
    into = PgoutputTransactions(lambda relation: not asked.append(relation))
    read(encode.begin(), T, *[encode.insert(1, row(n)) for n in range(5)], into=into)
    assert [relation.name for relation in asked] == ["t"]


def test_rows_follow_the_relation_as_it_is_described_last() -> None:
    """A column that is added in the middle of a transaction is there from then on."""
    wide = encode.relation(1, (*COLUMNS, Column("c", 16, "", in_key=False)))
    items = read(
        encode.begin(), T, encode.insert(1, row(1)), wide, encode.insert(1, (*row(2), b"t"))
    )
    assert [change.new for change in changes(items)] == [
        {"id": 1, "b": "x"},
        {"id": 2, "b": "x", "c": True},
    ]


def test_what_the_checkpoint_has_is_left_out() -> None:
    """A transaction is skipped iff its commit LSN is below the checkpoint's end LSN."""
    into = reader(start=140)
    known = read(encode.begin(100), T, encode.insert(1, row(1)), encode.commit(100), into=into)
    assert known == []
    assert into.received == 140
    new = read(encode.begin(140), encode.insert(1, row(2)), encode.commit(140, 180), into=into)
    assert [type(item) for item in new] == [Begin, Piece, Commit]


def test_a_keepalive_within_a_transaction_is_not_idle() -> None:
    """Its position must not be confirmed, nor count as received."""
    into = reader()
    assert read(encode.begin(), encode.keepalive(900, reply=True), into=into)[1:] == []
    assert into.received == 0
    assert into.take_request()
    assert not into.take_request()
    assert read(encode.commit(), encode.keepalive(900), into=into)[1] == Idle(
        Lsn(900), reply_requested=False
    )
    assert into.received == 900


def test_only_transactional_messages_of_ours_become_tags() -> None:
    """They keep their place among the changes."""
    items = read(
        encode.begin(),
        T,
        encode.message("walagent", b"one"),
        encode.message("walagent", b"two", transactional=False),
        encode.message("other", b"three"),
        encode.insert(1, row(1)),
        encode.message("walagent", b"four"),
    )
    assert [type(item) for item in items] == [Begin, OriginMarker, Piece, OriginMarker]
    assert items[1] == OriginMarker("walagent", b"one", Lsn(50))


def test_a_large_transaction_comes_in_pieces() -> None:
    """None is larger than asked for, and together they are everything."""
    rows = [encode.insert(1, row(number)) for number in range(25)]
    items = read(encode.begin(), T, *rows, encode.commit(), into=reader(piece=10))
    sizes = [len(item.changes) for item in items if isinstance(item, Piece)]
    assert max(sizes) <= 10
    assert [change.ordinal for change in changes(items)] == list(range(25))


def test_a_streamed_transaction_looks_like_any_other() -> None:
    """Protocol 2 gives the same items, without what was rolled back to a savepoint."""
    into = reader()
    early = read(
        *encode.block(
            7,
            encode.streamed(7, T),
            encode.streamed(7, encode.insert(1, row(1))),
            encode.streamed(8, encode.insert(1, row(2))),
            encode.streamed(7, encode.message("walagent", b"tag")),
        ),
        encode.stream_abort(7, 8),
        *encode.block(7, encode.streamed(9, encode.insert(1, row(3))), first=False),
        into=into,
    )
    assert early == []
    late = read(encode.stream_commit(7), into=into)
    plain = read(
        encode.begin(),
        T,
        encode.insert(1, row(1)),
        encode.message("walagent", b"tag"),
        encode.insert(1, row(3)),
        encode.commit(),
    )
    assert late == plain


def test_a_streamed_transaction_that_is_rolled_back_leaves_nothing() -> None:
    """Not even its description of a table that was never committed."""
    into = reader()
    rolled_back = encode.block(
        7, encode.streamed(7, T), encode.streamed(7, encode.insert(1, row(1)))
    )
    assert read(*rolled_back, encode.stream_abort(7, 7), into=into) == []
    with pytest.raises(DecodeError, match="before its Relation"):
        read(encode.begin(), encode.insert(1, row(1)), into=into)


def test_a_streamed_transaction_is_read_in_pieces_too() -> None:
    """Its spool is not read into memory at once."""
    into = reader(piece=10)
    rows = (encode.streamed(7, encode.insert(1, row(number))) for number in range(100))
    read(*encode.block(7, encode.streamed(7, T), *rows), into=into)
    items = read(encode.stream_commit(7), into=into)
    assert max(len(item.changes) for item in items if isinstance(item, Piece)) <= 10
    assert len(changes(items)) == 100


def test_a_spool_gives_back_what_went_in_from_memory_and_from_a_file() -> None:
    """And forgets what was rolled back."""
    for memory in (10, 10_000):
        spools = Spools(memory)
        for number in range(100):
            spools.put(1, number % 3, str(number).encode() * number)
        spools.abort(1, 2)
        wanted = [str(number).encode() * number for number in range(100) if number % 3 != 2]
        assert list(spools.take(1)) == wanted
        assert len(spools) == 0


@pytest.mark.parametrize(
    "messages",
    [
        [encode.insert(1, row(1))],
        [encode.begin(), encode.insert(1, row(1))],
        [encode.begin(), encode.begin()],
        [encode.commit()],
        [encode.begin(100), encode.commit(200)],
        [encode.begin(), *encode.block(7)],
        [*encode.block(7)[:1], encode.begin()],
        [b"E"],
        [*encode.block(7)[:1], *encode.block(8)[:1]],
        [encode.begin(), T, encode.insert(1, (b"1",))],
        [encode.begin(), T, encode.insert(1, (b"one", b"x"))],
        [b""],
    ],
)
def test_messages_out_of_their_place_are_refused(messages: list[bytes]) -> None:
    """A stream that makes no sense stops; nothing is guessed."""
    with pytest.raises(DecodeError):
        read(*messages)


_sound = st.sampled_from(
    [
        encode.begin(),
        encode.commit(),
        T,
        OTHER,
        encode.insert(1, row(1)),
        encode.update(1, row(1), row(2)),
        encode.delete(1, row(1)),
        encode.truncate(1, 2),
        encode.message("walagent", b"x"),
        encode.keepalive(5),
        encode.stream_commit(7),
        encode.stream_abort(7, 8),
        *encode.block(7, encode.streamed(7, T), encode.streamed(7, encode.insert(1, row(1)))),
    ]
)


@given(st.lists(_sound | st.binary(max_size=60), max_size=12), st.data())
def test_any_frames_are_items_or_a_decode_error(messages: list[bytes], data: st.DataObject) -> None:
    """Sound messages in any order, with any bytes between and any byte changed."""
    sent = encode.frames(*messages)
    if sent and data.draw(st.booleans()):
        at = data.draw(st.integers(0, len(sent) - 1))
        spot = data.draw(st.integers(0, max(0, len(sent[at]) - 1)))
        sent[at] = sent[at][:spot] + data.draw(st.binary(max_size=3)) + sent[at][spot + 1 :]
    into = reader()
    try:
        opened = False
        for item in into.feed(sent):
            assert not (isinstance(item, Begin) and opened)
            assert opened or isinstance(item, Begin | Idle)
            opened = isinstance(item, Begin | Piece | OriginMarker)
    except DecodeError:
        pass
    finally:
        into.close()


def test_a_piece_of_wide_rows_is_bounded_by_bytes_when_streamed() -> None:
    """A thousand rows of a megabyte are not one piece."""
    into, wide = reader(), b"x" * transactions.PIECE_BYTES
    rows = [encode.streamed(7, encode.insert(1, (b"1", wide))) for _ in range(3)]
    read(*encode.block(7, encode.streamed(7, T), *rows), into=into)
    pieces = [item for item in read(encode.stream_commit(7), into=into) if isinstance(item, Piece)]
    assert [len(piece.changes) for piece in pieces] == [1, 1, 1]
    assert struct.calcsize(">I") * 3 + len(wide) * 3 <= into.weight


def test_decoders_of_many_relations_are_bounded_and_no_row_is_lost() -> None:
    """The server does not describe a relation again: what was evicted decodes as before."""
    into = PgoutputTransactions(lambda table: table.name != "other", compiled=10)
    tables = [
        (oid, (COLUMNS[0], Column(f"c{oid}", 25, "text", in_key=False))) for oid in range(1000)
    ]
    described = [encode.relation(oid, columns) for oid, columns in tables]
    read(encode.begin(50), *described, encode.relation(1000, COLUMNS, "other"),
         encode.commit(50, 60), into=into)  # fmt: skip
    assert len(into._decoders) == 10  # noqa: SLF001
    for at in range(100, 100 + 250 * 50, 50):  # more rows than after which one is compiled again
        rows = [encode.insert(oid, row(oid)) for oid in (0, 500, 999, 1000)]
        ends = [encode.truncate(1, 1000)]
        items = read(encode.begin(at), *rows, *ends, encode.commit(at, at + 10), into=into)
        assert [(change.relation.oid, change.ordinal, change.new) for change in changes(items)] == [
            *((oid, n, {"id": oid, f"c{oid}": "x"}) for n, oid in enumerate((0, 500, 999))),
            (1, 4, None),
        ]
    assert len(into._decoders) == 10  # noqa: SLF001
    assert bytes([*b"I", 0, 0, 0, 0]) in into._decoders.by_key  # noqa: SLF001 - compiled again


def test_names_of_types_are_kept_for_the_relation_that_follows() -> None:
    """The server sends them before each relation."""
    into = reader()
    read(encode.begin(), into=into)
    for oid in range(1, 1001):
        named = encode.type_name(20_000 + oid, "app", f"mood{oid}")
        column = Column("m", 20_000 + oid, "", in_key=False)
        items = read(
            named,
            encode.relation(oid, (COLUMNS[0], column)),
            encode.insert(oid, row(oid)),
            into=into,
        )
        (change,) = changes(items)
        assert change.relation.columns[1].type_name == f"app.mood{oid}"
    assert len(into._types) <= 1  # noqa: SLF001
