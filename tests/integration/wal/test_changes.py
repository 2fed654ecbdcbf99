"""What changes look like when they come from a real server.

That all plug-ins tell the same of every type is seen by `tests/faults/test_values.py`.
"""

from dataclasses import replace
from decimal import Decimal
from typing import Literal

import pytest
from psycopg import AsyncConnection

from tests.integration.wal.reading import follow, read_all, read_changes
from walagent.domain.change import UNCHANGED, Begin, Commit, Op, OriginMarker, Piece
from walagent.errors import GapError

TICKETS = "create table tickets (id int primary key, body text, state text)"


async def test_insert_update_delete_and_truncate_arrive_with_their_rows(
    conn: AsyncConnection, dsn: str
) -> None:
    """The plain case, in commit order."""
    await conn.execute(TICKETS)
    options = await follow(conn, dsn, "tickets")
    await conn.execute("insert into tickets values (1, 'a', null)")
    await conn.execute("update tickets set body = 'b'")
    await conn.execute("delete from tickets")
    await conn.execute("truncate tickets")
    found = await read_changes(conn, dsn, options)
    assert [(each.op, each.new, each.old) for each in found] == [
        (Op.INSERT, {"id": 1, "body": "a", "state": None}, None),
        (Op.UPDATE, {"id": 1, "body": "b", "state": None}, None),
        (Op.DELETE, None, {"id": 1}),
        (Op.TRUNCATE, None, None),
    ]
    assert {column.type_name for column in found[0].relation.columns} == {"integer", "text"}


async def test_a_changed_key_arrives_with_the_old_key(conn: AsyncConnection, dsn: str) -> None:
    """Both keys are there, and nothing else of the old row."""
    await conn.execute(TICKETS)
    options = await follow(conn, dsn, "tickets")
    await conn.execute("insert into tickets values (1, 'a', 'b')")
    await conn.execute("update tickets set id = 2")
    change = (await read_changes(conn, dsn, options))[-1]
    assert change.old == {"id": 1}
    assert change.new == {"id": 2, "body": "a", "state": "b"}


async def test_replica_identity_full_gives_the_whole_old_row(
    conn: AsyncConnection, dsn: str
) -> None:
    """NULLs too."""
    await conn.execute(TICKETS)
    await conn.execute("alter table tickets replica identity full")
    options = await follow(conn, dsn, "tickets")
    await conn.execute("insert into tickets values (1, 'a', null)")
    await conn.execute("update tickets set body = 'b'")
    change = (await read_changes(conn, dsn, options))[-1]
    assert change.old == {"id": 1, "body": "a", "state": None}
    assert change.relation.identity == "f"


@pytest.mark.parametrize(
    "plugin", ["pgoutput", pytest.param("wal2json", marks=pytest.mark.wal2json)]
)
async def test_an_untouched_toasted_value_is_unchanged_not_null(
    conn: AsyncConnection, dsn: str, plugin: str
) -> None:
    """The update did not write it, so the WAL does not have it."""
    await conn.execute(TICKETS)
    await conn.execute("alter table tickets alter body set storage external")
    options = await follow(conn, dsn, "tickets", plugin=plugin)
    await conn.execute("insert into tickets values (1, repeat('x', 5000), 'new')")
    await conn.execute("update tickets set state = 'old'")
    change = (await read_changes(conn, dsn, options))[-1]
    assert change.new == {"id": 1, "body": UNCHANGED, "state": "old"}


@pytest.mark.wal2json
async def test_wal2json_knows_a_column_that_it_has_never_sent(
    conn: AsyncConnection, dsn: str
) -> None:
    """The table is the same as pgoutput describes, also when the first change leaves it out."""
    await conn.execute(TICKETS)
    await conn.execute("alter table tickets alter body set storage external")
    await conn.execute("insert into tickets values (1, repeat('x', 5000), 'new')")
    one = await follow(conn, dsn, "tickets")
    other = await follow(conn, dsn, "tickets", plugin="wal2json")
    await conn.execute("update tickets set state = 'old'")
    left, right = [await read_changes(conn, dsn, options) for options in (one, other)]
    assert left == right
    assert left[0].new == {"id": 1, "body": UNCHANGED, "state": "old"}


@pytest.mark.wal2json
@pytest.mark.parametrize("identity", ["default", "full"])
async def test_wal2json_knows_an_omitted_column_after_the_table_has_changed(
    conn: AsyncConnection, dsn: str, identity: str
) -> None:
    """Like pgoutput: the column is there, and its value is unchanged."""
    await conn.execute(TICKETS)
    await conn.execute("alter table tickets alter body set storage external")
    await conn.execute(f"alter table tickets replica identity {identity}".encode())
    one = await follow(conn, dsn, "tickets")
    other = await follow(conn, dsn, "tickets", plugin="wal2json")
    await conn.execute("insert into tickets values (1, repeat('x', 5000), 'new')")
    await conn.execute("alter table tickets add note text")
    await conn.execute("update tickets set state = 'old'")
    await conn.execute("alter table tickets rename note to remark")
    await conn.execute("update tickets set state = null, remark = 'x'")
    left, right = [await read_changes(conn, dsn, options) for options in (one, other)]
    full = identity == "full"
    for change, other_change in zip(left[1:], right[1:], strict=True):
        assert other_change.new is not None
        assert change.new is not None
        assert other_change.old == change.old
        assert {**change.new} == {n: v for n, v in other_change.new.items() if n in change.new}
        assert change.new["body"] is UNCHANGED
        if full:
            assert [*other_change.new] == [*change.new]


async def test_the_rows_of_a_copy_have_different_ordinals(conn: AsyncConnection, dsn: str) -> None:
    """They share one LSN, so only the ordinal tells them apart."""
    await conn.execute(TICKETS)
    options = await follow(conn, dsn, "tickets")
    async with conn.cursor().copy("copy tickets (id) from stdin") as copy:
        for number in range(5):
            await copy.write_row([number])
    found = await read_changes(conn, dsn, options)
    assert [(each.ordinal, each.new and each.new["id"]) for each in found] == [
        (n, n) for n in range(5)
    ]
    assert len({each.commit_lsn for each in found}) == 1


async def test_one_truncate_of_two_tables_is_two_changes(conn: AsyncConnection, dsn: str) -> None:
    """With consecutive ordinals."""
    await conn.execute(f"{TICKETS}; create table notes (id int primary key)")
    options = await follow(conn, dsn, "tickets", "notes")
    await conn.execute("truncate tickets, notes")
    found = await read_changes(conn, dsn, options)
    assert [each.ordinal for each in found] == [0, 1]
    assert {each.relation.name for each in found} == {"tickets", "notes"}


@pytest.mark.parametrize("protocol", [1, 2])
async def test_what_was_rolled_back_to_a_savepoint_never_was(
    conn: AsyncConnection, dsn: str, protocol: Literal[1, 2]
) -> None:
    """Nor does it count."""
    await conn.execute(TICKETS)
    options = await follow(conn, dsn, "tickets")
    async with conn.transaction():
        await conn.execute("insert into tickets values (1)")
        async with conn.transaction(force_rollback=True):
            await conn.execute("insert into tickets values (2)")
        await conn.execute("insert into tickets values (3)")
    async with conn.transaction(force_rollback=True):
        await conn.execute("insert into tickets values (4)")
    found = await read_changes(conn, dsn, replace(options, protocol=protocol))
    assert [(each.ordinal, each.new and each.new["id"]) for each in found] == [(0, 1), (1, 3)]


async def test_a_message_keeps_its_place_in_the_transaction(
    conn: AsyncConnection, dsn: str
) -> None:
    """First in, first out; and one outside the transaction is not of it."""
    await conn.execute(TICKETS)
    options = await follow(conn, dsn, "tickets")
    async with conn.transaction():
        await conn.execute("select pg_logical_emit_message(true, 'walagent', 'run 1')")
        await conn.execute("insert into tickets values (1)")
        await conn.execute("select pg_logical_emit_message(false, 'walagent', 'loose')")
        await conn.execute("select pg_logical_emit_message(true, 'others', 'no')")
        await conn.execute("select pg_logical_emit_message(true, 'walagent', 'late')")
    items = await read_all(conn, dsn, options)
    assert [type(item) for item in items] == [Begin, OriginMarker, Piece, OriginMarker, Commit]
    assert [item.content for item in items if isinstance(item, OriginMarker)] == [b"run 1", b"late"]


async def test_a_table_may_change_in_the_middle_of_the_stream(
    conn: AsyncConnection, dsn: str
) -> None:
    """Each row follows the table as it was then, also within one transaction."""
    await conn.execute(TICKETS)
    options = await follow(conn, dsn, "tickets")
    await conn.execute("insert into tickets values (1, 'a', 'b')")
    async with conn.transaction():
        await conn.execute("alter table tickets add n numeric, drop state")
        await conn.execute("insert into tickets values (2, 'a', 1.50)")
        await conn.execute("alter table tickets rename to cases")
        await conn.execute("alter table cases alter n type text using n::text")
        await conn.execute("insert into cases values (3, 'a', '1.50')")
    found = await read_changes(conn, dsn, options)
    assert [(each.relation.name, each.new) for each in found] == [
        ("tickets", {"id": 1, "body": "a", "state": "b"}),
        ("tickets", {"id": 2, "body": "a", "n": Decimal("1.50")}),
        ("cases", {"id": 3, "body": "a", "n": "1.50"}),
    ]


async def test_types_that_are_not_built_in_keep_their_text_and_name(
    conn: AsyncConnection, dsn: str
) -> None:
    """Enums, domains and composites.  A domain has its base type's name, as the server sends it."""
    await conn.execute(
        "create type mood as enum ('good', 'bad'); create domain small as int;"
        "create type pair as (a int, b text);"
        "create table odd (id small primary key, m mood, p pair, l text[])"
    )
    options = await follow(conn, dsn, "odd")
    await conn.execute("insert into odd values (1, 'good', (1, 'x y'), '{a,NULL}')")
    (change,) = await read_changes(conn, dsn, options)
    assert change.new == {"id": "1", "m": "good", "p": '(1,"x y")', "l": "{a,NULL}"}
    names = [column.type_name for column in change.relation.columns]
    assert names == ["int4", "mood", "pair", "text[]"]


async def test_text_forms_do_not_depend_on_the_servers_settings(
    conn: AsyncConnection, dsn: str
) -> None:
    """The database asks for other styles; the stream asks for its own."""
    for setting in (
        "datestyle = 'German'",
        "intervalstyle = 'sql_standard'",
        "timezone = 'Asia/Tokyo'",
    ):
        await conn.execute(f"alter database {conn.info.dbname} set {setting}".encode())
    for setting in ("bytea_output = 'escape'", "extra_float_digits = -15"):
        await conn.execute(f"alter database {conn.info.dbname} set {setting}".encode())
    await conn.execute(
        "create table forms (id int primary key, t timestamptz, i interval, f float8, b bytea)"
    )
    options = await follow(conn, dsn, "forms")
    await conn.execute(
        "insert into forms values (1, '2026-01-02 03:04:05+00', '1 day 2 hours', 0.1::float8 + 0.2,"
        " '\\x00ff')"
    )
    (change,) = await read_changes(conn, dsn, options)
    assert change.new == {
        "id": 1,
        "t": "2026-01-02 03:04:05+00",
        "i": "1 day 02:00:00",
        "f": 0.30000000000000004,
        "b": "\\x00ff",
    }


async def test_a_publication_that_came_after_the_slot_is_reported_with_what_to_do(
    conn: AsyncConnection, dsn: str
) -> None:
    """Servers before 18 are stuck there; later ones go on, and both are right."""
    await conn.execute(TICKETS)
    options = await follow(conn, dsn, "tickets")
    await conn.execute("drop publication pub")
    await conn.execute("insert into tickets values (1)")
    await conn.execute("create publication pub for table tickets")
    await conn.execute("insert into tickets values (2)")
    if conn.info.server_version >= 180000:
        found = await read_changes(conn, dsn, options)
        assert [each.new and each.new["id"] for each in found] == [2]
        return
    with pytest.raises(GapError, match="pub") as caught:
        await read_changes(conn, dsn, options)
    assert "new slot" in caught.value.hint
