"""What the transactions of a stream start, collected until it is written."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.build import TICKETS, WHEN, attachment
from tests.unit.matching.test_origin import KEY, XID, signed
from tests.unit.matching.test_registry import DEFINITION, OURS
from walagent.domain.attachment import Attachment
from walagent.domain.change import (
    Begin,
    Change,
    Commit,
    Idle,
    Item,
    Op,
    OriginMarker,
    Piece,
    Relation,
    Value,
)
from walagent.intake.batching import Batch, Batcher
from walagent.matching.match import Candidates, TooDeep
from walagent.matching.origin import Origin
from walagent.matching.registry import Registry
from walagent.message import Json
from walagent.postgres.lsn import Lsn

OTHER = Relation(9, "public", "other", TICKETS.columns)
OURSELVES = Origin(7, 3, 2)


def batcher(*attachments: Attachment, backfilling: set[int] | None = None) -> Batcher:
    """A batcher at the start of a stream."""
    on = attachments or (attachment(id=1, max_depth=9),)
    return Batcher(Registry(on), KEY, backfilling if backfilling is not None else set(), Lsn(0))


def insert(ordinal: int, relation: Relation = TICKETS, lsn: int = 100, **row: Value) -> Change:
    """An inserted row."""
    return Change(Lsn(lsn), ordinal, Op.INSERT, relation, {"id": ordinal, **row}, None)


def begin(lsn: int = 100, xid: int = XID) -> Begin:
    """The start of a transaction."""
    return Begin(xid, Lsn(lsn), WHEN)


def commit(lsn: int = 100) -> Commit:
    """Its end, ten bytes after its commit."""
    return Commit(Lsn(lsn), Lsn(lsn + 10))


def take(it: Batcher, *items: Item) -> Batch:
    """Take items; return what has been collected of whole transactions."""
    for item in items:
        it.take(item)
    return it.group


def found(batch: Batch) -> list[tuple[int, int, Sequence[int]]]:
    """What has been found: commit LSN, attachment, ordinals."""
    return [
        (int(at.commit_lsn), one.attachment.id, [change.ordinal for change in one.changes])
        for at, one in batch.found
        if isinstance(one, Candidates)
    ]


FORGED = OriginMarker("walagent", b"7 3 2 x", Lsn(1))
FIRST, SECOND = signed(), signed(b"8 4 1")
HERE, AWAY = Piece([insert(0)]), Piece([insert(0, OTHER)])


# What comes before a change of the table, and the origin that the change then has.
ORIGINS: dict[str, tuple[list[Item], Origin | None]] = {
    "none": ([], None),
    "ours": ([FIRST], OURSELVES),
    "forged": ([FORGED], None),
    "forged, ours": ([FORGED, FIRST], OURSELVES),
    "ours, forged": ([FIRST, FORGED], OURSELVES),
    "ours twice": ([FIRST, SECOND], OURSELVES),
    "ours twice, turned": ([SECOND, FIRST], Origin(8, 4, 1)),
    "change, ours": ([HERE, FIRST], None),
    "change elsewhere, ours": ([AWAY, FIRST], None),
    "ours, change, ours": ([FIRST, HERE, SECOND], OURSELVES),
    "forged, change, ours": ([FORGED, AWAY, FIRST], None),
}


@pytest.mark.parametrize("name", ORIGINS)
def test_an_origin_marker_counts_only_before_the_changes(name: str) -> None:
    """A worker writes it first: a tool could emit another one, or copy one, but only later."""
    before, origin = ORIGINS[name]
    group = take(batcher(), begin(), *before, Piece([insert(1)]), commit())
    _, last = group.found[-1]
    assert not isinstance(last, TooDeep)
    assert last.origin == origin


def test_a_transaction_of_a_run_that_changed_nothing_known_is_not_written() -> None:
    """A tool that writes to tables without an attachment costs the checkpoint nothing."""
    assert take(batcher(), begin(), FIRST, commit()).is_empty
    assert not take(batcher(), begin(), signed(b"7 3 2 before"), commit()).is_empty


def test_an_origin_marker_is_of_its_transaction_alone() -> None:
    """The next transaction is somebody else's."""
    group = take(
        batcher(), begin(), FIRST, HERE, commit(), begin(200), Piece([insert(0)]), commit(200)
    )
    assert [one.origin for _, one in group.found] == [OURSELVES, None]


LANES = st.sampled_from([TICKETS, OTHER])
# Transactions: pieces of changes, each of a table with an attachment or without.
STREAMS = st.lists(st.lists(st.lists(LANES, min_size=1, max_size=4), max_size=4), max_size=5)


@given(STREAMS)
def test_each_change_is_found_once_and_in_order(stream: list[list[list[Relation]]]) -> None:
    """However they are cut into pieces; the position moves with the commits alone."""
    it = batcher(attachment(id=1), attachment(id=2))
    expected = list[tuple[int, int, int]]()
    for n, pieces in enumerate(stream, start=1):
        lsn, ordinal = 100 * n, 0
        before = it.position
        it.take(begin(lsn))
        for piece in pieces:
            changes = [insert(ordinal + k, on, lsn) for k, on in enumerate(piece)]
            expected += [
                (lsn, each, change.ordinal)
                for change in changes
                if change.relation is TICKETS
                for each in (1, 2)
            ]
            ordinal += len(piece)
            it.take(Piece(changes))
            it.take(Idle(Lsn(lsn + 5), reply_requested=False))
        assert it.position == before
        it.take(commit(lsn))
        assert (it.commit_lsn, it.passed) == (lsn, lsn + 10)
    got = [(lsn, of, ordinal) for lsn, of, ordinals in found(it.group) for ordinal in ordinals]
    assert sorted(got) == sorted(expected)
    for of in (1, 2):
        own = [(lsn, ordinal) for lsn, each, ordinal in got if each == of]
        assert own == sorted(own)
    assert it.group.size == len(expected)


def test_an_idle_server_moves_the_position_only_between_transactions() -> None:
    """And never back."""
    it = batcher()
    take(it, Idle(Lsn(50), reply_requested=False), Idle(Lsn(40), reply_requested=False))
    assert it.passed == 50
    take(it, begin(), Idle(Lsn(500), reply_requested=False))
    assert it.passed == 50
    take(it, commit(), Idle(Lsn(500), reply_requested=False))
    assert (it.passed, it.commit_lsn) == (500, 100)


def test_what_is_open_is_not_in_the_group() -> None:
    """A transaction joins the group when it commits."""
    it = batcher()
    assert take(it, begin(), HERE).is_empty
    assert not take(it, commit()).is_empty


def attach(ordinal: int, id_: int = 5, version: int = 1, **changes: Json) -> Change:
    """An attachment that takes effect."""
    definition = {**DEFINITION, "id": id_, "version": version, "ops": ["insert"], **changes}
    row = {"id": id_, "definition": json.dumps(definition)}
    return Change(Lsn(100), ordinal, Op.INSERT, OURS, row, None)


def detach(ordinal: int, id_: int = 5) -> Change:
    """An attachment that is removed."""
    return Change(Lsn(100), ordinal, Op.DELETE, OURS, None, {"id": id_})


def test_an_attachment_takes_effect_at_its_place() -> None:
    """Not for what its transaction wrote before, and not after it was removed."""
    changes = [insert(0), attach(1), insert(2), detach(3), insert(4), attach(5), insert(6)]
    it = batcher(attachment(id=1, relation_oid=0, table="none"))
    group = take(it, begin(), Piece(changes), commit())
    assert found(group) == [(100, 5, [2]), (100, 5, [6])]
    assert [(each.attachment_id, each.version) for each in group.effects] == [
        (5, 1),
        (5, None),
        (5, 1),
    ]
    assert [each.id for each in it.attached] == [5, 5]


def test_two_versions_in_one_transaction_take_effect_one_after_the_other() -> None:
    """Each for what follows it; two attachments at once act both."""
    changes = [
        attach(0, version=1), insert(1), attach(2, version=2), insert(3),
        attach(4, 6), attach(5, 7), insert(6),
    ]  # fmt: skip
    group = take(
        batcher(attachment(id=1, relation_oid=0, table="none")), begin(), Piece(changes), commit()
    )
    versions = [
        (one.attachment.id, one.attachment.version, [change.ordinal for change in one.changes])
        for _, one in group.found
        if isinstance(one, Candidates)
    ]
    assert versions == [(5, 1, [1]), (5, 2, [3]), (5, 2, [6]), (6, 1, [6]), (7, 1, [6])]


def test_what_several_transactions_start_is_written_together() -> None:
    """In the order of their commits: candidates, attachments that take effect, and sizes."""
    it = batcher(attachment(id=1, relation_oid=0, table="none"))
    for lsn, id_ in ((100, 5), (200, 6)):
        take(it, begin(lsn), Piece([attach(0, id_), insert(1, lsn=lsn)], 7), commit(lsn))
    assert [(each.attachment_id, each.commit_lsn) for each in it.group.effects] == [
        (5, 100), (6, 200),
    ]  # fmt: skip
    assert found(it.group) == [(100, 5, [1]), (200, 5, [1]), (200, 6, [1])]
    assert it.group.size == 3


def test_the_same_version_takes_effect_once() -> None:
    """The WAL can be read again."""
    it = batcher(attachment(id=1, relation_oid=0, table="none"))
    group = take(it, begin(), Piece([attach(0), attach(1)]), commit())
    assert len(group.effects) == len(it.attached) == 1


@pytest.mark.parametrize(("version", "running"), [(1, {5}), (2, set[int]())])
def test_a_first_version_with_a_backfill_starts_one(version: int, running: set[int]) -> None:
    """A later one has had it; removing the attachment ends it."""
    backfilling = set[int]()
    it = batcher(attachment(id=1), backfilling=backfilling)
    take(it, begin(), Piece([attach(0, version=version, backfill=True)]), commit())
    assert backfilling == running
    take(it, begin(200), Piece([detach(0)]), commit(200))
    assert backfilling == set()


def test_rows_that_the_stream_has_are_noted_for_a_running_backfill() -> None:
    """By their key, of each attachment whose backfill runs; and no others."""
    it = batcher(attachment(id=1), attachment(id=2), backfilling={2})
    group = take(it, begin(), Piece([insert(7), insert(8)]), Piece([insert(9, OTHER)]), commit())
    assert group.seen == [(2, "7"), (2, "8")]


def test_what_a_run_changed_is_recorded_beside_its_runs() -> None:
    """Of a transaction with an origin marker; its end is recorded, too."""
    it = batcher(attachment(id=1, ops=frozenset()))
    nobody = take(it, begin(), Piece([insert(0)]), commit())
    assert (nobody.is_empty, bool(nobody.recorded)) == (True, False)
    batch = take(it, begin(200), signed(), Piece([insert(0), insert(1)]), commit(200))
    (entry,) = batch.recorded.changes
    assert (entry["run"], [row["n"] for row in entry["rows"]]) == (7, [0, 1])
    assert [end[:3] for end in batch.recorded.ended] == [(7, XID, str(Lsn(200)))]


def test_a_request_lets_the_position_be_written() -> None:
    """Also after changes, of which it says nothing."""
    it = batcher(attachment(id=1, ops=frozenset()))
    batch = take(it, begin(), Piece([insert(0)]), signed(b"7 request"), commit())
    assert (batch.is_empty, batch.recorded.changes) == (False, [])
