"""Apply a transaction to shapes: the images of its rows, what conditions say, and the logs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from walagent.base.concurrency import Breath
from walagent.domain.change import Change, Op
from walagent.postgres.quoting import quote_name, quote_text
from walagent.store.codecs.decoded_rows import by_columns, true_rows
from walagent.store.role_reader import read_in
from walagent.sync.expression import columns_of
from walagent.sync.query import Connecting
from walagent.sync.shape import RowChange, Shape, ShapeChange, lacks_values
from walagent.sync.snapshot import Visible, copy_rows, reading, select
from walagent.sync.table import ShapeTable
from walagent.sync.transactions import Transaction
from walagent.telemetry.log import log

_CONDITIONS: Final = 100  # of a statement
_PORTION: Final = 2_000  # changes between two looks at the clock


class Applier:
    """Applies transactions to shapes.

    Args:
        connecting: gives a connection for what the stream does not have.
        drop: ends a shape.
    """

    def __init__(self, connecting: Callable[[], Connecting], drop: Callable[[Shape], None]) -> None:
        self._connecting = connecting
        self._drop = drop
        self.wide: Visible | None = None  # a snapshot, by which IDs of transactions get 64 bits

    async def apply(self, shapes: Sequence[Shape], transaction: Transaction) -> None:
        """Add what a transaction changed to the logs of shapes that are alike."""
        table, has_where = shapes[0].table, shapes[0].definition.where is not None
        changes: Sequence[Change] = transaction.changes
        breath = Breath()
        if len(transaction.shaped) > 1:
            changes = await _of_table(table, changes, breath)
        images, rows = await self._rows(table, changes, breath, is_whole=has_where)
        if images is None:
            self._drop_all(shapes)
            return
        verdicts: Sequence[Sequence[bool | None]] = [[None] * len(changes)] * len(shapes)
        if shapes[0].is_evaluated_by_postgresql:
            verdicts = await self._evaluate(table, shapes, images)
        elif has_where:
            shapes = await _touched(shapes, rows, breath)
            verdicts = verdicts[: len(shapes)]
        lsn, txids = int(transaction.begin.commit_lsn), self._txids(transaction)
        for shape, matches in zip(shapes, verdicts, strict=True):
            try:
                found = await _changes(shape, rows, matches, breath)
                messages = await _written(table.relation, found, lsn, txids, breath)
                fits = not found or shape.extend(lsn, messages, _position_in(found))
            except Exception as error:  # noqa: BLE001 - it ends this shape, and no other
                log.error("sync.shape_failed", table=table.name, error=error)
                fits = False
            if not fits:
                self._drop(shape)
        while rows:  # to free all of a large transaction at once takes long
            del rows[-_PORTION:], images[-_PORTION:]
            await breath.if_due()

    def _drop_all(self, shapes: Sequence[Shape]) -> None:
        for shape in shapes:
            self._drop(shape)

    async def _rows(
        self, table: ShapeTable, changes: Sequence[Change], breath: Breath, *, is_whole: bool
    ) -> tuple[list[dict[str, str | None] | None] | None, list[RowChange | None]]:
        """Return the images of new rows, and the changes as all shapes see them.

        There are no images if the shapes must end, because the table has changed or a row has NULL
        that they have announced as never NULL.
        """
        for part in _portions(changes):
            if _has_changed(table, part):
                return None, []
            await breath.if_due()
        images: list[dict[str, str | None] | None] = []
        rows: list[RowChange | None] = []
        for n, change in enumerate(changes):
            new = await self._image(table, change, is_whole=is_whole)
            if _has_null(table, new):
                return None, rows
            images.append(new)
            known = new is not None or change.old is not None
            rows.append(RowChange.of(table, change, new, n) if known else None)
            await breath.if_due()
        return images, rows

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
        images: Sequence[dict[str, str | None] | None],
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


async def _changes(
    shape: Shape,
    rows: Sequence[RowChange | None],
    matches: Sequence[bool | None],
    breath: Breath,
) -> list[ShapeChange]:
    """Return what the changes of a transaction are in a shape."""
    found: list[ShapeChange] = []
    for row, match in zip(rows, matches, strict=True):
        if row is not None:
            found += shape.changes_of(row, matches=match)
        await breath.if_due()
    return found


async def _written(
    relation: tuple[str, str],
    changes: Sequence[ShapeChange],
    lsn: int,
    txids: Sequence[int],
    breath: Breath,
) -> list[bytes]:
    """Return the messages of a transaction in a shape; the last one says that it is."""
    messages: list[bytes] = []
    for at, change in enumerate(changes, 1):
        messages.append(change.message(relation, lsn, txids, is_last=at == len(changes)))
        await breath.if_due()
    return messages


def _position_in(changes: Sequence[ShapeChange]) -> Callable[[int], int]:
    return lambda number: changes[number].position


def _portions(changes: Sequence[Change]) -> Iterator[Sequence[Change]]:
    """Yield parts of which one takes about a millisecond."""
    for start in range(0, len(changes), _PORTION):
        yield changes[start : start + _PORTION]


async def _of_table(
    table: ShapeTable, changes: Sequence[Change], breath: Breath
) -> Sequence[Change]:
    """Return the changes of one of the tables of a transaction."""
    found: list[Change] = []
    for part in _portions(changes):
        found += [c for c in part if (c.relation.schema, c.relation.name) == table.relation]
        await breath.if_due()
    return found


async def _touched(
    shapes: Sequence[Shape], rows: Sequence[RowChange | None], breath: Breath
) -> list[Shape]:
    """Return the shapes with a where clause that changes can be in.

    A row enters a shape only with a value that the shape needs, and leaves it only if it is in it.
    """
    keys, values = set[str](), dict[str, set[str]]()
    for row in rows:
        if row is not None:
            keys |= {row.before, row.key}
            for name, text in (row.new or {}).items():
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
