"""Whether there may be rows that a statement cannot see: "none that you may see" is not "none"."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from walagent.guard.query import Guard
from walagent.rows.rows import Rows

STATEMENTS = """
create table order_ (id bigint, region text, total numeric);
insert into order_ values (1, 'north', 10), (2, 'south', 20);
alter table order_ enable row level security;
create policy north on order_ for select using (region = 'north');
create table note (id bigint);
create view all_orders as select * from order_;
create view my_orders with (security_invoker = on) as select * from order_ where total > 15;
create view mine_in_all as select * from my_orders;
"""
LIMITED = "public.order_: only rows that {} can see (row level security)"


async def made(conn: AsyncConnection, reader: AsyncConnection, more: str = "") -> str:
    """The tables, which the reader may read; give its name."""
    name = reader.info.user
    await run_all(conn, STATEMENTS + more)
    await run_all(conn, f"grant select on all tables in schema public to {name}")
    return name


async def scope(reader: AsyncConnection, sql: str) -> list[str]:
    """Why there may be other rows."""
    return list((await Guard(reader).read(sql)).scope)


@pytest.mark.parametrize(
    "sql",
    [
        "select * from order_",
        "select (select count(*) from order_) as n",
        "with o as (select * from order_) select 1 as one from note, o union all select 2",
        "select * from note where exists (select from order_ o where o.id = note.id)",
        "select * from mine_in_all, order_",
    ],
)
async def test_a_policy_in_force_is_reported(
    conn: AsyncConnection, reader: AsyncConnection, sql: str
) -> None:
    """Wherever in the statement the table is read."""
    name = await made(conn, reader)
    assert LIMITED.format(name) in await scope(reader, sql)


async def test_what_hides_nothing_is_not_reported(
    conn: AsyncConnection, reader: AsyncConnection
) -> None:
    """No policy, a policy that lets everything through, or one that is not the reader's."""
    name = await made(conn, reader)
    assert await scope(reader, "select * from note") == []
    assert await scope(reader, "select 1") == []
    await run_all(conn, f"create policy everything on order_ for select to {name} using (true)")
    assert await scope(reader, "select * from order_") == []
    await run_all(conn, "create policy less on order_ as restrictive using (total < 15)")
    assert await scope(reader, "select * from order_") == [LIMITED.format(name)]


async def test_row_security_without_a_policy_hides_everything(
    conn: AsyncConnection, reader: AsyncConnection
) -> None:
    """And that is told, too."""
    name = await made(conn, reader, "alter table note enable row level security;")
    found = await Guard(reader).read("select * from note")
    assert found.texts == []
    assert found.scope == (f"public.note: only rows that {name} can see (row level security)",)


async def test_a_view_reads_with_the_rights_of_its_owner(
    conn: AsyncConnection, reader: AsyncConnection
) -> None:
    """Who made the view may see all, and so does who reads it; unless its reader's rights count."""
    name = await made(conn, reader)
    assert await scope(reader, "select * from all_orders") == []
    assert LIMITED.format(name) in await scope(reader, "select * from my_orders")
    # Also where such a view is read through another one, which has not this property.
    assert LIMITED.format(name) in await scope(reader, "select * from mine_in_all")
    owner = f"owner_{conn.info.dbname}"
    await run_all(
        conn,
        f"create role {owner}; grant select on order_ to {owner};"
        f" alter view all_orders owner to {owner}",
    )
    try:
        assert await scope(reader, "select * from all_orders") == [LIMITED.format(owner)]
    finally:
        await run_all(conn, f"drop owned by {owner}; drop role {owner}")


async def test_an_owner_is_limited_only_by_force(
    conn: AsyncConnection, reader: AsyncConnection
) -> None:
    """As PostgreSQL has it."""
    await made(conn, reader)
    owner = f"owner_{conn.info.dbname}"
    await run_all(
        conn,
        f"create role {owner}; alter table order_ owner to {owner};"
        f" alter view all_orders owner to {owner}",
    )
    try:
        assert await scope(reader, "select * from all_orders") == []
        await run_all(conn, "alter table order_ force row level security")
        assert await scope(reader, "select * from all_orders") == [LIMITED.format(owner)]
    finally:
        await run_all(conn, f"reassign owned by {owner} to current_user; drop role {owner}")


async def test_no_rows_of_a_view_are_none_that_it_lets_through(
    conn: AsyncConnection, reader: AsyncConnection
) -> None:
    """What came is what was asked for; what did not may stand behind the view."""
    await made(conn, reader)
    assert await scope(reader, "select * from all_orders") == []
    none = await scope(reader, "select * from all_orders where id = 7")
    assert none == ["public.all_orders: only rows that this view selects"]


def test_a_scope_is_kept_with_its_rows() -> None:
    """Also by older versions, which knew of none."""
    rows = Rows((), (), (), ("a reason",))
    assert Rows.from_json(rows.to_json()) == Rows([], [], (), ("a reason",))
    old = {key: value for key, value in rows.to_json().items() if key != "scope"}
    assert Rows.from_json(old).scope == ()
