"""What a transaction wrote before completes what it omits later."""

from hypothesis import given
from hypothesis import strategies as st

from walagent.domain.change import UNCHANGED, Change, Column, Op, Relation, Row
from walagent.intake.row_images import RowImages, may_need_images
from walagent.matching.match import alike
from walagent.postgres.lsn import Lsn

from tests.helpers.build import attachment  # isort: skip

LONG = "x" * 600
PAGES = Relation(
    7,
    "public",
    "page",
    (Column("id", 23, "integer", in_key=True), Column("body", 25, "text", in_key=False)),
)


def change(n: int, op: Op, new: Row | None, old: Row | None = None) -> Change:
    """The change with this ordinal."""
    return Change(Lsn(1), n, op, PAGES, new, old)


def test_a_value_is_taken_from_the_last_change_of_the_same_row() -> None:
    """Also under another key; not after a delete, and not from another row."""
    images = RowImages()
    assert images.complete([change(0, Op.INSERT, {"id": 1, "body": LONG})]) == {}
    found = images.complete(
        [
            change(1, Op.UPDATE, {"id": 1, "body": UNCHANGED}),
            change(2, Op.UPDATE, {"id": 2, "body": UNCHANGED}, {"id": 1}),
            change(3, Op.UPDATE, {"id": 2, "body": UNCHANGED}),
            change(4, Op.UPDATE, {"id": 1, "body": UNCHANGED}),
        ]
    )
    assert {n: each.new for n, each in found.items()} == {
        1: {"id": 1, "body": LONG},
        2: {"id": 2, "body": LONG},
        3: {"id": 2, "body": LONG},
    }
    images.complete([change(5, Op.DELETE, None, {"id": 2})])
    assert images.complete([change(6, Op.UPDATE, {"id": 2, "body": UNCHANGED})]) == {}


def test_rows_are_dropped_when_they_are_too_many_or_their_table_changes() -> None:
    """Memory is bounded, and a column of another type is another value."""
    images = RowImages(most=1000)
    images.complete([change(n, Op.INSERT, {"id": n, "body": LONG}) for n in range(2)])
    assert images.complete([change(2, Op.UPDATE, {"id": 1, "body": UNCHANGED})]) == {}
    images.complete([change(3, Op.INSERT, {"id": 3, "body": LONG})])
    again = Relation(7, "public", "page", PAGES.columns)
    update = Change(Lsn(1), 4, Op.UPDATE, again, {"id": 3, "body": UNCHANGED}, None)
    assert images.complete([update]) == {}
    images.complete([change(5, Op.TRUNCATE, None)])
    assert images.complete([change(6, Op.UPDATE, {"id": 3, "body": UNCHANGED})]) == {}


def test_a_row_that_is_written_often_counts_once() -> None:
    """The limit is of the rows that are kept."""
    images = RowImages(most=1000)
    images.complete([change(n, Op.UPDATE, {"id": 1, "body": LONG}) for n in range(9)])
    assert images.complete([change(9, Op.UPDATE, {"id": 1, "body": UNCHANGED})]).keys() == {9}
    images.complete([change(10, Op.TRUNCATE, None)])
    images.complete([change(11, Op.INSERT, {"id": 1, "body": LONG})])
    images.complete([change(12, Op.DELETE, None, {"id": 1})])
    images.complete([change(12, Op.INSERT, {"id": 1, "body": LONG})])
    assert images.complete([change(13, Op.UPDATE, {"id": 1, "body": UNCHANGED})]).keys() == {13}


def test_only_conditions_on_values_that_can_be_omitted_need_them() -> None:
    """Other attachments do not pay for them."""
    ops = frozenset({Op.UPDATE})
    of_body = attachment(ops=ops, condition="…", condition_columns=("body",))
    of_id = attachment(ops=ops, condition="…", condition_columns=("id",))
    assert may_need_images(PAGES, [of_id, of_body])
    assert not may_need_images(PAGES, [of_id])
    assert not may_need_images(PAGES, [attachment(ops=ops)])
    assert not may_need_images(Relation(7, "public", "page", PAGES.columns, "f"), [of_body])


# Changes of a few rows in one transaction: what, the key, another key, the text after it.
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["write", "write", "touch", "move", "delete", "truncate"]),
        st.integers(1, 3),
        st.integers(1, 3),
        st.sampled_from(["short", "a" * 600, "b" * 600]),
    ),
    max_size=25,
)


def as_sent(steps: list[tuple[str, int, int, str]]) -> list[tuple[Change, Row | None, bool]]:
    """Carry out steps on a table with two rows from before.

    Returns:
        each change as the WAL has it, the whole row after it, and whether this transaction has
        written the row with a long text.
    """
    rows = {1: ("o" * 600, False), 2: ("short", False)}  # by key: text, and whether it is known
    sent = list[tuple[Change, Row | None, bool]]()
    for what, key, to, text in steps:
        n, there = len(sent), rows.get(key)
        if what == "truncate":
            rows.clear()
            sent.append((change(n, Op.TRUNCATE, None), None, False))
        elif what == "delete" and there:
            del rows[key]
            sent.append((change(n, Op.DELETE, None, {"id": key}), None, False))
        elif what == "write" and there is None:
            rows[key] = text, True
            sent.append((change(n, Op.INSERT, {"id": key, "body": text}), None, False))
        elif there and (what != "move" or to not in rows) and what != "delete":
            new, at = text if what == "write" else there[0], to if what == "move" else key
            is_omitted = new == there[0] and len(new) >= 600
            row = {"id": at, "body": UNCHANGED if is_omitted else new}
            old = {"id": key} if at != key else None
            del rows[key]
            rows[at] = new, there[1] or not is_omitted
            whole = {"id": at, "body": new}
            sent.append((change(n, Op.UPDATE, row, old), whole, is_omitted and there[1]))
    return sent


@given(STEPS)
def test_a_row_is_completed_with_its_own_value_or_not_at_all(
    steps: list[tuple[str, int, int, str]],
) -> None:
    """Whatever happened to it and to others in between; if it was written before, it is."""
    images, sent = RowImages(), as_sent(steps)
    for group in alike([each for each, _, _ in sent]) if sent else ():
        completed = images.complete(group)
        for each in group:
            _, whole, is_known = sent[each.ordinal]
            assert (each.ordinal in completed) == is_known
            if is_known:
                assert completed[each.ordinal].new == whole
