"""Find the rows that an open transaction has changed, in any table, also by triggers.

    tables   those that it has locked for writing
    after    rows that it sees, and another session does not see at this place
    before   rows with an `xmax` that another session sees, and this one no longer sees there

Savepoints have transaction IDs of their own, greater than that of the transaction, which are listed
nowhere; so system columns only narrow the search, and what both sessions see decides.
Source: PostgreSQL docs, 5.6 System Columns, and 53.13 pg_locks.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import AsyncConnection, AsyncRawCursor, Error, sql

from walagent.store.queries import query
from walagent.store.relations.table_code import Moment, TableCode, code_of

Connection = AsyncConnection[Any]
Cells = Mapping[str, str | None]  # by column, in PostgreSQL's text form

_PATIENCE: Final = "10s"  # for each statement: it reads a whole table
_WAIT: Final = "2s"  # a vacuum that the server starts gives way after one
_NAMED: Final = """
select current_user,
       (select c.oid::bigint
          from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
         where n.nspname = %s and c.relname = %s)
"""
_MOST: Final = 10_000  # rows of a table that are compared


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A row before and after; None: it did not exist, or was deleted."""

    schema: str
    table: str
    before: Cells | None
    after: Cells | None


@dataclass(frozen=True, slots=True)
class Changes:
    """What a transaction has changed.

    Args:
        unknown: tables that it has written to and that could not be compared, and why.
    """

    rows: Sequence[ChangedRow]
    unknown: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Table:
    schema: str
    name: str
    key: Sequence[str]
    oid: int

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


async def changed_rows(conn: Connection, outside: Connection) -> Changes:
    """Compare what an open transaction sees with what is committed.

    Args:
        conn: the transaction.
        outside: another connection of the same role, in autocommit mode.
    """
    xid = await _own_id(conn)
    if xid is None:
        return Changes((), {})
    cursor = await conn.execute(query("written_tables"))
    tables = [_Table(*row) for row in await cursor.fetchall()]
    rows, unknown = list[ChangedRow](), dict[str, str]()
    for table in tables:
        try:
            await _keep(conn, table)
            # Each session plans with what it sees: the transaction can have dropped what is there.
            code = await _code_of_others(conn, table) or await _code_of_others(outside, table)
            if code is not None:
                reason = f"planning a statement on it executes {code}"
                unknown[f"{table.schema}.{table.name}"] = reason
                continue
            rows += await _compare(conn, outside, table, xid)
        except Error as error:
            if outside.closed or conn.closed:
                raise
            reason = error.diag.message_primary or str(error)
            unknown[f"{table.schema}.{table.name}"] = reason
    return Changes(rows, unknown)


async def _keep(conn: Connection, table: _Table) -> None:
    """Let nobody add code to a table, such as statistics, until the transaction ends.

    Writers do not wait for this lock, nor it for them.
    """
    async with conn.transaction():
        await conn.execute(f"set local lock_timeout = '{_WAIT}'")
        locking = sql.SQL("lock table only {} in share update exclusive mode")
        await conn.execute(locking.format(table.identifier))
        await conn.execute("set local lock_timeout to default")


async def _code_of_others(conn: Connection, table: _Table) -> TableCode | str | None:
    """Return code of another role that planning executes, if there is any."""
    cursor = await conn.execute(_NAMED, [table.schema, table.name])
    role, oid = await cursor.fetchone() or ("", None)
    if oid != table.oid:
        return "what the transaction has put in its place"
    found = await code_of(conn, [table.oid], Moment.PLANNED)
    return next((each for each in found if not each.trusted and each.owner != role), None)


async def _own_id(conn: Connection) -> str | None:
    """Return the ID of the open transaction; None: it has written nothing."""
    cursor = await conn.execute("select pg_current_xact_id_if_assigned()::xid::text")
    row = await cursor.fetchone()
    return row[0] if row else None


async def _compare(
    conn: Connection, outside: Connection, table: _Table, xid: str
) -> Iterator[ChangedRow]:
    created = "select t.ctid::text, t.* from only {} t where age(t.xmin) <= age($1::xid) limit {}"
    # A multixact, which stands for several transactions, has no age that could be compared.
    marked = (
        "select t.ctid::text, t.* from only {} t where t.xmax <> '0'::xid"
        " order by age(t.xmax) <= age($1::xid) desc limit {}"
    )
    new = await _read(conn, table, created, xid)
    committed = await _present(outside, table, list(new))
    after = [row for place, row in new.items() if place not in committed]
    old = await _read(outside, table, marked, xid)
    still = await _present(conn, table, list(old))
    gone = [place for place in old if place not in still]
    there = await _present(outside, table, gone)  # not those that others have just changed
    before = [old[place] for place in gone if place in there]
    return _pairs(table, before, after)


def _pairs(table: _Table, before: Sequence[Cells], after: Sequence[Cells]) -> Iterator[ChangedRow]:
    """Pair old and new versions by their key; without one, only where there is one of each."""

    def key_of(row: Cells) -> tuple[str | None, ...]:
        return tuple(row[name] for name in table.key)

    if table.key or len(before) <= 1 >= len(after):
        new = {key_of(row): row for row in after}
        pairs = [(row, new.pop(key_of(row), None)) for row in before]
        left = list(new.values())
    else:
        pairs, left = [(row, None) for row in before], list(after)
    for old, now in [*pairs, *((None, row) for row in left)]:
        if old != now:
            yield ChangedRow(table.schema, table.name, old, now)


async def _read(
    conn: Connection, table: _Table, statement: LiteralString, xid: str
) -> dict[str, Cells]:
    """Return rows by their place.  Only output functions of types are executed."""
    asked = sql.SQL(statement).format(table.identifier, sql.Literal(_MOST))
    async with conn.transaction(force_rollback=True):
        await _settle(conn)
        cursor = AsyncRawCursor(conn)
        await cursor.execute(asked, [xid])
        result = cursor.pgresult
        if result is None:
            return {}
        names = [column.name for column in cursor.description or ()]
        lines = [
            [_text(result.get_value(n, m)) for m in range(len(names))]
            for n in range(result.ntuples)
        ]
    return {line[0] or "": dict(zip(names[1:], line[1:], strict=True)) for line in lines}


async def _present(conn: Connection, table: _Table, places: Sequence[str]) -> set[str]:
    if not places:
        return set()
    statement = sql.SQL("select t.ctid::text from only {} t where t.ctid = any ($1::tid[])")
    async with conn.transaction(force_rollback=True):
        await _settle(conn)
        cursor = AsyncRawCursor(conn)
        await cursor.execute(statement.format(table.identifier), [list(places)])
        return {row[0] for row in await cursor.fetchall()}


async def _settle(conn: Connection) -> None:
    """Limit the time; fail instead of executing policies, which are code of others."""
    await conn.execute(f"set local statement_timeout = '{_PATIENCE}'")
    await conn.execute("set local row_security = off")


def _text(cell: bytes | None) -> str | None:
    return None if cell is None else cell.decode(errors="replace")
