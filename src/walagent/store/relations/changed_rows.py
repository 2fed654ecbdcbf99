"""Find the rows that an open transaction has changed, in any table, also by triggers.

    tables   those that it has locked for writing
    after    rows that it sees, and another session does not see at this place
    before   rows with an `xmax` that another session sees, and this one no longer sees there

Savepoints have transaction IDs of their own, greater than that of the transaction, which are listed
nowhere; so system columns only narrow the search, and what both sessions see decides.

Who owns a schema can give its name, and so a table's, to another one at any moment.  So a table is
read through a temporary view, which refers to the table that was judged, whatever that is called.
Source: PostgreSQL docs, 5.6 System Columns, and 53.13 pg_locks.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from psycopg import AsyncConnection, AsyncRawCursor, Error, sql

from walagent.store.queries import query
from walagent.store.relations.table_code import Moment, TableCode, code_of

Connection = AsyncConnection[Any]
Cells = Mapping[str, str | None]  # by column, in PostgreSQL's text form

PATIENCE: Final[LiteralString] = "10s"  # for each statement: it reads a whole table
_TOO_LONG: Final = "57014"  # query_canceled
_WAIT: Final = "2s"  # a vacuum that the server starts gives way after one
_LOCKED: Final = """
select exists (
    select from pg_catalog.pg_locks l
     where l.pid = pg_catalog.pg_backend_pid() and l.relation = %s and l.granted
       and l.database = (select oid from pg_catalog.pg_database
                          where datname = pg_catalog.current_database())
       and l.mode = 'ShareUpdateExclusiveLock')
"""
_VIEW: Final = """
create temporary view walagent_rows as
select t.ctid as walagent_place, t.xmin as walagent_xmin, t.xmax as walagent_xmax, t.*
  from only {} t
"""
_REFERRED: Final = """
select array_agg(distinct d.refobjid::bigint)
  from pg_catalog.pg_rewrite r
       join pg_catalog.pg_depend d on d.classid = 'pg_rewrite'::regclass and d.objid = r.oid
 where r.ev_class = 'pg_temp.walagent_rows'::regclass
   and d.refclassid = 'pg_class'::regclass and d.refobjid <> r.ev_class
"""
_SYSTEM: Final = 3  # columns of the view, before those of the table
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


class _ReplacedError(Exception):
    """Another table has the name by now."""


@dataclass(frozen=True, slots=True)
class _Table:
    schema: str
    name: str
    key: Sequence[str]
    oid: int
    patience: LiteralString

    @property
    def identifier(self) -> sql.Identifier:
        return sql.Identifier(self.schema, self.name)


async def changed_rows(
    conn: Connection,
    outside: Connection,
    patience: LiteralString = PATIENCE,
    slow: dict[str, str] | None = None,
) -> Changes:
    """Compare what an open transaction sees with what is committed.

    Args:
        conn: the transaction.
        outside: another connection of the same role, in autocommit mode.
        patience: for each statement that reads a table.
        slow: tables that took longer before, and what the server said; they are not read again,
            and others are added.
    """
    xid = await _own_id(conn)
    if xid is None:
        return Changes((), {})
    cursor = await conn.execute(query("written_tables"))
    tables = [
        _Table(schema, name, key, oid, patience)
        for schema, name, key, oid in await cursor.fetchall()
    ]
    rows, unknown = list[ChangedRow](), dict[str, str]()
    for table in tables:
        name = f"{table.schema}.{table.name}"
        if slow and name in slow:
            unknown[name] = slow[name]
            continue
        try:
            await _keep(conn, table)
            # Each session plans with what it sees: the transaction can have dropped what is there.
            code = await _code_of_others(conn, table) or await _code_of_others(outside, table)
            if code is not None:
                reason = f"planning a statement on it executes {code}"
                unknown[name] = reason
                continue
            rows += await _compare(conn, outside, table, xid)
        except _ReplacedError:
            unknown[name] = "another table has its name by now"
        except Error as error:
            if outside.closed or conn.closed:
                raise
            reason = error.diag.message_primary or str(error)
            unknown[name] = reason
            if slow is not None and error.sqlstate == _TOO_LONG:
                slow[name] = reason
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
        if await (await conn.execute(_LOCKED, [table.oid])).fetchone() != (True,):
            raise _ReplacedError


async def _code_of_others(conn: Connection, table: _Table) -> TableCode | None:
    """Return code of another role that planning executes, if there is any."""
    (role,) = await (await conn.execute("select current_user")).fetchone() or ("",)
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
    created = "where age(walagent_xmin) <= age($1::xid)"
    # A multixact, which stands for several transactions, has no age that could be compared.
    marked = "where walagent_xmax <> '0'::xid order by age(walagent_xmax) <= age($1::xid) desc"
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
    conn: Connection, table: _Table, which: LiteralString, xid: str
) -> dict[str, Cells]:
    """Return rows by their place.  Only output functions of types are executed."""
    asked = f"select * from pg_temp.walagent_rows {which} limit {_MOST}"  # noqa: S608 - constants
    async with _seen(conn, table):
        cursor = AsyncRawCursor(conn)
        await cursor.execute(asked.encode(), [xid])
        result = cursor.pgresult
        if result is None:
            return {}
        names = [column.name for column in cursor.description or ()]
        lines = [
            [_text(result.get_value(n, m)) for m in range(len(names))]
            for n in range(result.ntuples)
        ]
    return {
        line[0] or "": dict(zip(names[_SYSTEM:], line[_SYSTEM:], strict=True)) for line in lines
    }


async def _present(conn: Connection, table: _Table, places: Sequence[str]) -> set[str]:
    if not places:
        return set()
    async with _seen(conn, table):
        cursor = AsyncRawCursor(conn)
        await cursor.execute(
            "select walagent_place::text from pg_temp.walagent_rows"
            " where walagent_place = any ($1::tid[])",
            [list(places)],
        )
        return {row[0] for row in await cursor.fetchall()}


@asynccontextmanager
async def _seen(conn: Connection, table: _Table) -> AsyncGenerator[None]:
    """Have the view of a table, limit the time, and fail instead of executing policies, which are
    code of others.

    Raises:
        _ReplacedError: another table has the name by now.
    """
    async with conn.transaction(force_rollback=True):
        await conn.execute(f"set local statement_timeout = '{table.patience}'")
        await conn.execute("set local row_security = off")
        await conn.execute(sql.SQL(_VIEW).format(table.identifier))
        if await (await conn.execute(_REFERRED)).fetchone() != ([table.oid],):
            raise _ReplacedError
        yield


def _text(cell: bytes | None) -> str | None:
    return None if cell is None else cell.decode(errors="replace")
