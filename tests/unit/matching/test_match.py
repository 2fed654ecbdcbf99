"""Which attachments a change concerns, by everything but their conditions."""

from dataclasses import replace

import pytest

from tests.helpers.build import TICKETS, attachment, change
from walagent.domain.change import UNCHANGED, Op, Row
from walagent.matching.match import Candidates, TooDeep, alike, matches, touches
from walagent.matching.origin import Origin

ROW = {"id": 1, "status": "open"}


@pytest.mark.parametrize("op", list(Op))
def test_only_wanted_operations_match(op: Op) -> None:
    """An attachment names what it wants."""
    it = change(op, ROW)
    wanted, others = attachment(ops=frozenset({op})), attachment(ops=frozenset(Op) - {op})
    assert list(matches([it], [wanted], None)) == [Candidates(wanted, [it], None)]
    assert list(matches([it], [others], None)) == []


def test_every_attachment_of_a_table_is_asked() -> None:
    """In their order."""
    it = change(Op.INSERT, ROW)
    on = [attachment(id=n) for n in range(3)]
    assert [found.attachment for found in matches([it], on, None)] == on


def test_an_attachment_does_not_react_to_itself() -> None:
    """Whatever its depth allows; others do."""
    it = change(Op.INSERT, ROW)
    own, other = attachment(id=1, max_depth=100), attachment(id=2)
    origin = Origin(run_id=9, attachment_id=1, depth=0)
    assert list(matches([it], [own, other], origin)) == [Candidates(other, [it], origin)]


def test_no_agent_reacts_to_a_revert() -> None:
    """Nor is it recorded as passed over."""
    it, on = change(Op.INSERT, ROW), attachment(id=2, max_depth=100)
    assert list(matches([it], [on], Origin(9, 0, 0, reverts=True))) == []


@pytest.mark.parametrize(
    ("depth", "limit", "acts"),
    [(0, 1, True), (1, 1, False), (1, 2, True), (2, 2, False), (99, 100, True), (0, 0, None)],
)
def test_agents_answer_agents_only_so_often(depth: int, limit: int, acts: bool | None) -> None:  # noqa: FBT001
    """Beyond the limit it is recorded as passed over; 0 means never, and is no news."""
    it, on = change(Op.INSERT, ROW), attachment(id=2, max_depth=limit)
    origin = Origin(run_id=9, attachment_id=1, depth=depth)
    found = list(matches([it], [on], origin))
    expected = {True: [Candidates(on, [it], origin)], False: [TooDeep(on, it, origin)], None: []}
    assert found == expected[acts]


@pytest.mark.parametrize(
    ("columns", "old", "new", "may"),
    [
        (None, None, ROW, True),
        ({"status"}, {"id": 1, "status": "open"}, ROW, False),
        ({"status"}, {"id": 1, "status": "new"}, ROW, True),
        ({"status"}, {"id": 1, "status": None}, ROW, True),
        ({"id"}, {"id": 1, "status": "new"}, ROW, False),
        ({"status"}, None, ROW, True),
        ({"status"}, {"id": 2}, ROW, True),
        ({"other"}, None, ROW, False),
        ({"status"}, None, {"id": 1, "status": UNCHANGED}, False),
        ({"status", "id"}, {"id": 1}, {"id": 1, "status": UNCHANGED}, False),
        (set[str](), None, ROW, False),
    ],
)
def test_an_update_counts_when_it_may_have_touched_a_watched_column(
    columns: set[str] | None,
    old: Row | None,
    new: Row,
    may: bool,  # noqa: FBT001
) -> None:
    """What the WAL says was left alone was; what it does not say may have changed."""
    on = attachment(columns=None if columns is None else frozenset(columns))
    assert touches(change(Op.UPDATE, new, old), on) is may


@pytest.mark.parametrize(
    ("old", "may"),
    [({"id": 2, "status": "open"}, True), ({"id": 1, "status": "open"}, False), ({"id": 2}, True)],
)
def test_the_key_counts_where_only_what_is_unchanged_is_written(
    old: Row,
    may: bool,  # noqa: FBT001
) -> None:
    """A run of the former key does not find the row; others name the key in `columns`."""
    on = attachment(columns=frozenset({"status"}))
    kept = attachment(columns=frozenset({"status"}), only_unchanged=True)
    it = change(Op.UPDATE, ROW, old)
    assert touches(it, kept) is may
    assert touches(it, on) is ("status" not in old)


@pytest.mark.parametrize("op", [Op.INSERT, Op.DELETE, Op.TRUNCATE])
def test_only_updates_are_asked_what_they_touched(op: Op) -> None:
    """A new row is new in all of its columns."""
    row = None if op is Op.TRUNCATE else ROW
    it = change(op, row if op is Op.INSERT else None, row if op is Op.DELETE else None)
    assert touches(it, attachment(columns=frozenset({"other"})))


def test_an_update_that_touches_no_watched_column_is_left_out_among_others() -> None:
    """The others stay together, in their order."""
    old = {"id": 1, "status": "open"}
    its = [change(Op.UPDATE, {**ROW, "status": status}, old) for status in ("a", "open", "b")]
    on = attachment(columns=frozenset({"status"}), ops=frozenset({Op.UPDATE}))
    assert list(matches(its, [on], None)) == [Candidates(on, [its[0], its[2]], None)]
    assert list(matches([its[1]], [on], None)) == []


def test_changes_are_cut_where_the_operation_or_the_relation_is_another() -> None:
    """Nothing is lost or moved by that."""
    inserts = [change(Op.INSERT, ROW) for _ in range(2)]
    updates = [change(Op.UPDATE, ROW)]
    other = [change(Op.UPDATE, ROW, relation=replace(TICKETS))]
    assert list(alike(inserts)) == [inserts]
    assert list(alike([*inserts, *updates, *other, *inserts])) == [
        inserts, updates, other, inserts
    ]  # fmt: skip
