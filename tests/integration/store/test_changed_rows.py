"""What an open transaction has changed is found without a trigger, a snapshot or a list."""

from collections.abc import AsyncIterator

import pytest
from psycopg import AsyncConnection, errors

from walagent.store.relations import changed_rows as module
from walagent.store.relations.changed_rows import ChangedRow, changed_rows
from walagent.store.sessions.connections import connect

TABLES = """
create table item (id bigint primary key, what text);
create table parted (id bigint, what text, primary key (id)) partition by range (id);
create table parted_1 partition of parted for values from (0) to (10);
create table keyless (what text);
insert into item select n, 'old' from generate_series(1, 9) n;
insert into parted values (1, 'old');
insert into keyless values ('old');
"""


@pytest.fixture
async def outside(conn: AsyncConnection, dsn: str) -> AsyncIterator[AsyncConnection]:
    """Another session, which sees what is committed."""
    await conn.execute(TABLES)
    async with await connect(dsn) as other:
        await other.execute("set search_path = public")
        yield other


def brief(row: ChangedRow) -> tuple[str, str | None, str | None]:
    """A change as: key before or after, value before, value after."""
    some = row.before or row.after or {}
    before, after = (cells["what"] if cells else None for cells in (row.before, row.after))
    return (some.get("id") or "", before, after)


async def test_each_kind_of_change_is_found(
    conn: AsyncConnection, outside: AsyncConnection
) -> None:
    """Through savepoints, and beside rows that others change and commit meanwhile."""
    async with conn.transaction(force_rollback=True):
        await conn.execute("insert into item values (10, 'new')")
        async with conn.transaction():
            await conn.execute("update item set what = 'once' where id = 1")
        async with conn.transaction():
            await conn.execute("update item set what = 'twice' where id = 1")
            await conn.execute("delete from item where id = 2")
        async with conn.transaction():
            await conn.execute("select from item where id in (3, 4) for key share")
        async with conn.transaction():
            await conn.execute("delete from item where id = 3")  # marked by two IDs of its own
        async with conn.transaction(force_rollback=True):
            await conn.execute("delete from item where id = 5")
        await conn.execute("update item set what = what where id = 6")
        await conn.execute("update item set id = 70 where id = 7")
        await outside.execute("update item set what = 'theirs' where id = 8")
        await outside.execute("insert into item values (11, 'theirs')")
        found = await changed_rows(conn, outside)
    assert found.unknown == {}
    assert sorted(map(brief, found.rows), key=str) == sorted(
        [
            ("10", None, "new"), ("1", "old", "twice"), ("2", "old", None), ("3", "old", None),
            ("7", "old", None), ("70", None, "old"),
        ],
        key=str,
    )  # fmt: skip


async def test_tables_without_a_key_and_partitions_are_compared(
    conn: AsyncConnection, outside: AsyncConnection
) -> None:
    """A single row is a pair; a partition has the name of its own."""
    async with conn.transaction(force_rollback=True):
        await conn.execute("update keyless set what = 'new'")
        await conn.execute("update parted set what = 'new'")
        found = await changed_rows(conn, outside)
    assert {row.table: brief(row)[1:] for row in found.rows} == {
        "keyless": ("old", "new"),
        "parted_1": ("old", "new"),
    }


async def test_a_transaction_that_wrote_nothing_has_changed_nothing(
    conn: AsyncConnection, outside: AsyncConnection
) -> None:
    """Also if it has read."""
    async with conn.transaction(force_rollback=True):
        await conn.execute("select from item")
        assert (await changed_rows(conn, outside)).rows == ()


async def test_policies_are_not_executed(conn: AsyncConnection, outside: AsyncConnection) -> None:
    """They are code of others: the table is named instead, with the reason."""
    await conn.execute(
        "create role limited; grant all on item to limited; alter table item enable row level"
        " security;"
        " create policy all_rows on item using (true)"
    )
    try:
        async with conn.transaction(force_rollback=True):
            await conn.execute("set local role limited")
            await conn.execute("update item set what = 'new'")
            await outside.execute("set role limited")
            found = await changed_rows(conn, outside)
        assert found.rows == []
        assert "row-level security" in found.unknown["public.item"]
    finally:
        await conn.execute("drop owned by limited; drop role limited")


async def test_nobody_adds_code_between_the_look_and_the_reading(
    conn: AsyncConnection, dsn: str, outside: AsyncConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An expression of statistics is executed by planning, as who compares; writers go on."""
    look = module._code_of_others  # noqa: SLF001 - the window opens after it
    refused: list[str | None] = []
    async with await connect(dsn) as other:
        await other.execute("set search_path = public")
        await other.execute("set lock_timeout = '200ms'")

        async def looks(within: AsyncConnection, table: module._Table) -> object:
            found = await look(within, table)
            try:
                await other.execute("create statistics late on (what || 'x'), id from item")
            except errors.LockNotAvailable as error:
                refused.append(error.sqlstate)
            await other.execute("update item set what = 'theirs' where id = 8")
            return found

        monkeypatch.setattr(module, "_code_of_others", looks)
        async with conn.transaction(force_rollback=True):
            await conn.execute("update item set what = 'once' where id = 1")
            found = await changed_rows(conn, outside)
    assert refused == ["55P03"] * 2  # on either connection
    assert [brief(row) for row in found.rows] == [("1", "old", "once")]


async def test_a_table_that_takes_long_is_read_once(
    conn: AsyncConnection, outside: AsyncConnection
) -> None:
    """For each row of a replay, it would take as long again."""
    await conn.execute("insert into item select n, 'old' from generate_series(10, 100000) n")
    slow = dict[str, str]()
    for _ in range(2):
        async with conn.transaction(force_rollback=True):
            await conn.execute("update item set what = 'new' where id = 1")
            await conn.execute("insert into keyless values ('new')")
            found = await changed_rows(conn, outside, "1ms" if not slow else "10s", slow)
        assert "timeout" in found.unknown["public.item"]
        assert found.unknown.keys() >= slow.keys() >= {"public.item"}
