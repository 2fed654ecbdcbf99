"""Apply a transaction to shapes: the images of its rows, what conditions say, and the logs."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final

from walagent.base.concurrency import Breath
from walagent.domain.change import Change, Op
from walagent.postgres.quoting import quote_name, quote_text
from walagent.store.codecs.decoded_rows import by_columns, true_rows
from walagent.store.role_reader import read_in
from walagent.sync.expression import columns_of
from walagent.sync.query import Connecting
from walagent.sync.shape import RowChange, Shape, ShapeChange, Texts, lacks_values
from walagent.sync.snapshot import Visible, copy_rows, reading, select
from walagent.sync.table import ShapeTable
from walagent.sync.transactions import Transaction
from walagent.telemetry.log import log

_CONDITIONS: Final = 100  # of a statement
_STEPS: Final = 50  # changes between two looks at the clock


class Applier:
    """Applies transactions to shapes.

    Args:
        connecting: gives a connection for what the stream does not have.
        drop: ends a shape.
        has_room: whether shapes may take so many bytes more.
    """

    def __init__(
        self,
        connecting: Callable[[], Connecting],
        drop: Callable[[Shape], None],
        has_room: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._connecting = connecting
        self._drop = drop
        self._has_room = has_room
        self.wide: Visible | None = None  # a snapshot, by which IDs of transactions get 64 bits

    async def apply(self, shapes: Sequence[Shape], transaction: Transaction) -> None:
        """Add what a transaction changed to the logs of shapes that are alike.

        It is decoded in portions, so that only messages are in memory together; a log that has no
        room for them ends its shape at once.
        """
        table, breath = shapes[0].table, Breath()
        entries = _Entries(table.relation, transaction, self._txids(transaction), shapes)
        for portion in transaction.portions():
            changes = _of_table(table, portion)
            await breath.if_due()
            rows = await self._rows(entries.shape, changes, breath) if changes else []
            if rows is None:
                self._drop_all([*entries.of])
                return
            for shape, matches in await self._concerned([*entries.of], rows, breath):
                try:
                    fits = await entries.add(shape, rows, matches, breath)
                    fits = fits and self._has_room(entries.size)
                except Exception as error:  # noqa: BLE001 - it ends this shape, and no other
                    log.error("sync.shape_failed", table=table.name, error=error)
                    fits = False
                if not fits:
                    self._drop(shape)
                    entry = entries.of.pop(shape)
                    entries.size -= entry.size
                    while entry.shrink():
                        await breath.if_due()
            for shape in [each for each in entries.of if each.ended]:
                del entries.of[shape]
            if not entries.of:
                return
        await self._append(entries, breath)

    async def _append(self, entries: "_Entries", breath: Breath) -> None:
        for shape, entry in entries.of.items():
            if shape.ended:
                continue
            if entries.end(shape):
                shape.append(entries.lsn, entry)
            else:
                self._drop(shape)
            await breath.if_due()

    def _drop_all(self, shapes: Sequence[Shape]) -> None:
        for shape in shapes:
            self._drop(shape)

    async def _rows(
        self, shape: Shape, changes: Sequence[Change], breath: Breath
    ) -> list[RowChange | None] | None:
        """Return changes as all shapes that are like one see them.

        There are none if the shapes must end, because the table has changed or a row has NULL that
        they have announced as never NULL.
        """
        table, is_whole = shape.table, shape.definition.where is not None
        if _has_changed(table, changes):
            return None
        rows: list[RowChange | None] = []
        for change in changes:
            new = await self._image(table, change, is_whole=is_whole)
            if _has_null(table, new):
                return None
            known = new is not None or change.old is not None
            rows.append(RowChange.of(table, change, new) if known else None)
            await breath.if_due()
        return rows

    async def _concerned(
        self, shapes: Sequence[Shape], rows: Sequence[RowChange | None], breath: Breath
    ) -> Sequence[tuple[Shape, Sequence[bool | None]]]:
        """Return the shapes that changes can be in, with what PostgreSQL says of new rows."""
        if shapes[0].is_evaluated_by_postgresql:
            images = [None if row is None else row.new for row in rows]
            verdicts = await self._evaluate(shapes[0].table, shapes, images)
            return list(zip(shapes, verdicts, strict=True))
        if shapes[0].definition.where is not None:
            shapes = await _touched(shapes, rows, breath)
        return [(shape, [None] * len(rows)) for shape in shapes]

    async def _image(
        self, table: ShapeTable, change: Change, *, is_whole: bool
    ) -> dict[str, str | None] | None:
        """Return the texts of a new row; None: there is none, or no more.

        Of a row that has left its key and is deleted since, a shape of all rows has what was sent,
        until it is deleted there, too; one with a condition has it no more.

        Args:
            is_whole: whether all columns are needed: the row can move into the shape.  They are,
                too, if its key has changed: the row under the new key is an insert.
        """
        if change.new is None:
            return None
        new = table.texts(change.new)
        if (is_whole or change.old is not None) and lacks_values(change):
            whole = await self._complete(table, new)
            return whole if is_whole else whole or new
        return new

    async def _complete(
        self, table: ShapeTable, new: dict[str, str | None]
    ) -> dict[str, str | None] | None:
        """Read the row as it is now; what changed since, a later transaction changes again."""
        names = [column.name for column in table.columns]
        condition = " and ".join(
            f"{quote_name(name)} = {quote_text(new[name] or '')}" for name in table.key
        )
        query = f"{select(table, names, None)} where {condition}"
        found: list[list[str | None]] = []
        async with self._connecting() as conn, reading(conn):
            async for rows in copy_rows(conn, query):
                found += rows
        # Deleted since: a later transaction says so.
        return {**dict(zip(names, found[0], strict=True)), **new} if found else None

    async def _evaluate(
        self,
        table: ShapeTable,
        shapes: Sequence[Shape],
        images: Sequence[Texts | None],
    ) -> Sequence[Sequence[bool]]:
        """Let PostgreSQL evaluate the conditions of shapes on new rows.

        Types of columns are built in or enums, so that casting executes no code of others.
        """
        conditions = [s.definition.where for s in shapes if s.definition.where is not None]
        found = list[list[bool]]()
        async with self._connecting() as conn, reading(conn):
            for start in range(0, len(conditions), _CONDITIONS):
                part = conditions[start : start + _CONDITIONS]
                read = {name for where in part for name in columns_of(where)} or {table.key[0]}
                types = {each.name: each.sql_type for each in table.columns if each.name in read}
                text = by_columns([where.sql() for where in part], types)
                rows = [tuple([(image or {}).get(name) for name in types]) for image in images]
                true = await true_rows(partial(read_in, conn, text), rows, len(part))
                found += [[row in each for row in rows] for each in true]
        return found

    def _txids(self, transaction: Transaction) -> Sequence[int]:
        """Return the transaction's ID in 32 and, if it differs, in 64 bits."""
        xid = transaction.begin.xid
        wide = xid if self.wide is None else self.wide.widen(xid)
        return [xid] if wide == xid else [xid, wide]


class _Entries:
    """What a transaction is in the logs of shapes that are alike."""

    def __init__(
        self,
        relation: tuple[str, str],
        transaction: Transaction,
        txids: Sequence[int],
        shapes: Sequence[Shape],
    ) -> None:
        self.of = {shape: shape.log.entry() for shape in shapes}
        self.shape = shapes[0]
        self.lsn = int(transaction.begin.commit_lsn)
        self.size = 0  # bytes, those that shapes share counted for each
        self._relation = relation
        self._txids = txids
        self._last: dict[Shape, ShapeChange] = {}

    async def add(
        self,
        shape: Shape,
        rows: Sequence[RowChange | None],
        matches: Sequence[bool | None],
        breath: Breath,
    ) -> bool:
        """Add what rows are in a shape; return whether its log has room for them."""
        entry, fits, last = self.of[shape], True, self._last.get(shape)
        before = entry.size
        for number, (row, match) in enumerate(zip(rows, matches, strict=True)):
            if row is not None:
                for last in shape.changes_of(row, matches=match):
                    message = last.message(self._relation, self.lsn, self._txids)
                    fits = entry.add(last.position, message)
            if not fits:
                break
            if not number % _STEPS:
                await breath.if_due()
        if last is not None:
            self._last[shape] = last
        self.size += entry.size - before
        return fits

    def end(self, shape: Shape) -> bool:
        """Let the last message say that it is; return whether the log has room for all."""
        if (last := self._last.get(shape)) is None:
            return True
        message = last.message(self._relation, self.lsn, self._txids, is_last=True)
        return self.of[shape].replace_last(message)


def _of_table(table: ShapeTable, changes: Sequence[Change]) -> Sequence[Change]:
    """Return the changes of one of the tables of a transaction."""
    return [c for c in changes if (c.relation.schema, c.relation.name) == table.relation]


async def _touched(
    shapes: Sequence[Shape], rows: Sequence[RowChange | None], breath: Breath
) -> list[Shape]:
    """Return the shapes with a where clause that changes can be in.

    A row enters a shape only with a value that the shape needs, and leaves it only if it is in it:
    among its members, or with that value in its key before.
    """
    keys, values = set[str](), dict[str, set[str]]()
    for row in rows:
        if row is not None:
            keys |= {row.before, row.key}
            for texts in filter(None, (row.new, row.old)):
                for name, text in texts.items():
                    if text is not None:
                        values.setdefault(name, set()).add(text)
        await breath.if_due()
    none = set[str]()
    found: list[Shape] = []
    for shape in shapes:
        needs, members = shape.needs, shape.members or none
        if (
            needs is None
            or not needs[1].isdisjoint(values.get(needs[0], none))
            or not members.isdisjoint(keys)
        ):
            found.append(shape)
        await breath.if_due()
    return found


def _has_null(table: ShapeTable, row: Mapping[str, str | None] | None) -> bool:
    """Return whether a column has NULL that the shapes have announced as never NULL."""
    return row is not None and not table.never_null.isdisjoint(
        name for name, text in row.items() if text is None
    )


def _has_changed(table: ShapeTable, changes: Sequence[Change]) -> bool:
    """Return whether shapes of the table must end.

    It has other columns than they know, it was truncated, or a row's key before a change is not
    known.
    """
    columns, key = [(each.name, each.type_oid) for each in table.columns], set(table.key)
    keyless = set[int]()  # relations whose identity lacks the key
    for relation in {id(change.relation): change.relation for change in changes}.values():
        if columns != [(each.name, each.type_oid) for each in relation.columns]:
            return True
        if not relation.oid:  # its identity is not known
            continue
        in_key = {each.name for each in relation.columns if each.in_key}
        if relation.identity == "d" and in_key != key:
            return True
        if not in_key >= key:
            keyless.add(id(relation))
    return any(
        change.op is Op.TRUNCATE
        or (change.op is Op.UPDATE and change.old is None and id(change.relation) in keyless)
        or (change.old is not None and not change.old.keys() >= key)
        for change in changes
    )
