"""What a snapshot has: transactions, and rows as COPY writes them."""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.sync.build import column
from walagent.sync.lines import SnapshotLines
from walagent.sync.messages import row_message
from walagent.sync.snapshot import Visible, cells_of
from walagent.sync.table import ShapeTable

ESCAPES = {
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
}
CHARACTERS = st.characters(exclude_characters="\0", codec="utf-8")
CELLS = st.none() | st.text(st.sampled_from('a/"\\N\n\t\x01\x7f%é漢') | CHARACTERS, max_size=5)
ROWS = st.lists(st.tuples(CELLS.filter(lambda each: each is not None), CELLS, CELLS), max_size=5)


def copied(cells: tuple[str | None, ...]) -> bytes:
    """A line as COPY writes it."""
    return "\t".join(
        "\\N" if cell is None else "".join(ESCAPES.get(each, each) for each in cell)
        for cell in cells
    ).encode()


@given(st.lists(CELLS, min_size=1, max_size=4))
def test_a_line_of_copy_has_the_cells_of_the_row(cells: list[str | None]) -> None:
    """NULL, and every character that is escaped."""
    assert cells_of(copied(tuple(cells))) == cells


@given(ROWS.filter(bool))
def test_lines_become_the_messages_of_their_rows(rows: list[tuple[str | None, ...]]) -> None:
    """Put into a template or decoded: the same JSON, and the same keys."""
    names = ["id", "a%b", 'q"']
    columns = [column(name, 25, pk_index=0 if name == "id" else None) for name in names]
    table = ShapeTable(7, "pub%lic", 'it"em', columns, has_policies=False, identity="d")
    members = set[str]()
    writer = SnapshotLines(table, names, names, members)
    found = json.loads(b"[%b]" % writer.messages(b"\n".join(map(copied, rows))))
    every = [dict(zip(names, row, strict=True)) for row in rows]
    relation = (table.schema, table.name)
    assert found == [
        json.loads(row_message("insert", relation, table.key_of(row), row, {})) for row in every
    ]
    assert members == {table.key_of(row) for row in every}


SNAPSHOTS = st.integers(3, 2**40).flatmap(
    lambda xmax: st.sets(st.integers(max(xmax - 50, 1), xmax - 1), max_size=5).map(
        lambda running: Visible(min(running, default=xmax), xmax, frozenset(running))
    )
)


@given(SNAPSHOTS, st.lists(st.integers(-100, 100), max_size=20))
def test_a_snapshot_has_what_was_committed_before_it(visible: Visible, near: list[int]) -> None:
    """By the lower 32 bits that the stream has, also where they begin again."""
    wide = [xid for each in near if (xid := visible.xmax + each) > 0]
    has = {xid: xid < visible.xmax and xid not in visible.running for xid in wide}
    for xid in wide:
        assert visible.widen(xid & 0xFFFFFFFF) == xid
        assert visible.has(xid & 0xFFFFFFFF) is has[xid]
    lacking = visible.lacking(xid & 0xFFFFFFFF for xid in wide)
    assert lacking == [xid & 0xFFFFFFFF for xid in wide if not has[xid]]


@given(SNAPSHOTS)
def test_a_snapshot_is_read_as_postgresql_writes_it(visible: Visible) -> None:
    """`xmin:xmax:xip,…`, with an empty list where nothing runs."""
    running = ",".join(map(str, sorted(visible.running)))
    assert Visible.parse(f"{visible.xmin}:{visible.xmax}:{running}") == visible
