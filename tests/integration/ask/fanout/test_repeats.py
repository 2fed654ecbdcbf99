"""Totals that a join repeats: found where the data proves it, and silent where anything else is."""

from collections.abc import Sequence

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from tests.helpers.guard import statements
from walagent.ask.fanout.repeats import find_repeats
from walagent.guard.query import Guard
from walagent.rows.rows import Rows

SCHEMA = """
create table orders (id integer primary key, customer text, total numeric, day date);
create table item (order_id integer references orders, line integer, price numeric, kind text,
                   until date, primary key (order_id, line));
create table note (order_id integer, text text);
create table label (order_id integer unique, text text);
create view items as select order_id, price from item;
insert into orders select n, 'c' || n % 3, 10 * n, '2025-01-01' from generate_series(1, 20) n;
insert into item
select o.id, l, 1, case l when 1 then 'a' else 'b' end, case l when 2 then o.day end
  from orders o, generate_series(1, 3) l;
insert into note select id, 'x' from orders;
insert into label select id, 'x' from orders;
"""


REPEATED = [
    ("select sum(o.total) from orders o join item i on i.order_id = o.id", "sum adds up"),
    ("select sum(total) from orders o, item i where o.id = i.order_id", "sum adds up"),
    ("select count(o.id) from orders o left join item i on o.id = i.order_id", "count counts"),
    ("select sum(o.total) from orders o join items i on i.order_id = o.id", "sum adds up"),
    (
        (
            "select customer, sum(o.total) from orders o join item i on i.order_id = o.id"
            " group by customer having sum(o.total) > 5"
        ),
        "sum adds up",
    ),
    (
        "select * from (select sum(o.total) from orders o join item i on i.order_id = o.id) q",
        "sum adds up",
    ),
    (
        (
            "with q as (select o.id, o.total from orders o) select sum(q.total), count(*) from q"
            " join item i on i.order_id = q.id"
        ),
        "sum adds up q.total once for each row of item",
    ),
    (
        (
            'with "My Q" as (select id, total as "The (Sum)" from orders)'
            ' select sum("The (Sum)") from "My Q" join item i on i.order_id = id'
        ),
        "sum adds up My Q.The (Sum) once",
    ),
    (
        "select count(c.oid) from pg_class c join item i on i.order_id = c.relnatts",
        "count counts c.oid once for each row of item",
    ),
    (
        "select o.id, o.customer from orders o join item i on i.order_id = o.id",
        "a row of orders comes once for each row of item",
    ),
    (
        (
            "select l.order_id, o.day from label l join orders o on o.id = l.order_id"
            " join item i on i.order_id = o.id order by i.price limit 50"
        ),
        "a row of label comes once for each row of item",
    ),
    (
        "select sum(o.total) from item i join orders o on i.order_id = o.id and i.kind = 'b'",
        "sum adds up",
    ),
    (
        (
            "select avg(i.price) from orders o join item i on i.order_id = o.id"
            " join (select order_id, line from item) j on j.order_id = o.id"
        ),
        "",
    ),
    (
        (
            "select sum(l.order_id) from label l join orders o on l.order_id = o.id"
            " join item i using (order_id)"
        ),
        "sum adds up",
    ),
    (
        "select sum(o.total) from orders o join item i on i.order_id = o.id and i.line < 3",
        "sum adds up",
    ),
    (
        (
            "select sum(o.total) from orders o join item i on i.order_id = o.id"
            " where o.day >= '2024-12-01' and o.day < '2025-02-01'"
        ),
        "sum adds up",
    ),
    (
        (
            "select (select sum(o.total) from orders o join item i on i.order_id = o.id"
            " where o.customer = c.customer) from orders c"
        ),
        "sum adds up",
    ),
]
HONEST = [
    # Rows that are equal, and are not those of one table; or that are not equal.
    "select o.customer from orders o join item i on i.order_id = o.id",
    "select o.id, i.price from orders o join item i on i.order_id = o.id",
    "select distinct o.id from orders o join item i on i.order_id = o.id",
    "select o.id from orders o join item i on i.order_id = o.id group by o.id",
    "select o.id from orders o join item i on i.order_id = o.id union select 1",
    "select o.id, l.text from orders o join label l on l.order_id = o.id",
    # Of a few only.
    "select sum(o.total) filter (where i.line = 1) from orders o join item i on i.order_id = o.id",
    (
        "select sum(case when i.line = 1 then o.total end) from orders o"
        " join item i on i.order_id = o.id"
    ),
    # What is joined has a key, or no two rows that meet one.
    "select sum(i.price), count(*) from orders o join item i on i.order_id = o.id",
    "select sum(o.total) from orders o join label l on l.order_id = o.id",
    "select sum(o.total) from orders o join note n on n.order_id = o.id",
    "select sum(o.total) from orders o join item i on i.order_id = o.id and i.line = 2",
    "select sum(o.total) from orders o join item i on i.order_id = o.id where i.kind = 'a'",
    "select sum(o.total) from orders o join item i on i.order_id = o.id and i.line > 2",
    "select sum(o.total) from orders o join item i on i.order_id = o.id where 2 > i.line",
    (
        "select sum(o.total) from orders o join item i on i.order_id = o.id"
        " where i.until is not null"
    ),
    # It was brought to one row before.
    (
        "select sum(o.total), sum(i.price) from orders o join"
        " (select order_id, sum(price) price from item group by 1) i on i.order_id = o.id"
    ),
    (
        "with i as (select distinct order_id from item)"
        " select sum(o.total) from orders o join i on i.order_id = o.id"
    ),
    (
        "with i as (select order_id, sum(price) from item group by 1), j as (select * from i)"
        " select sum(o.total) from orders o join j on j.order_id = o.id"
    ),
    "select sum(o.total) from orders o where exists (select from item where order_id = o.id)",
    "select sum(o.total) from orders o where id in (select order_id from item)",
    "select sum(o.total) from orders o cross join (select count(*) from item) n",
    # Each group has one row of it; or each row is counted once.
    (
        "select i.order_id, i.line, sum(o.total) from orders o join item i on i.order_id = o.id"
        " group by i.order_id, i.line"
    ),
    "select count(distinct o.id), max(o.total) from orders o join item i on i.order_id = o.id",
    # Of both sides: such a total is meant.
    "select sum(o.total * i.price) from orders o join item i on i.order_id = o.id",
    # Conditions that may leave one row, for all that is known here.
    "select sum(o.total) from orders o join item i on i.order_id = o.id and i.line in (3, 4)",
    "select sum(o.total) from orders o join item i on i.order_id = o.id and i.until = o.day",
    (
        "select sum(o.total) from orders o join item i on i.order_id = o.id"
        " where i.line = (select max(line) from item where order_id = o.id)"
    ),
    (
        "select sum(o.total) from orders o join lateral"
        " (select * from item where order_id = o.id limit 1) i on true"
    ),
    "select sum(o.total) from orders o join item i on i.ctid = o.ctid",
    "select count(c.oid) from pg_class c join pg_attribute a on a.attrelid = c.oid",
    "select sum(a.total) from orders a join orders b on a.day = b.day and a.id < b.id",
]


@pytest.fixture
async def shop(conn: AsyncConnection, reader: AsyncConnection) -> Guard:
    """A guard over orders with several items each, and one note and one label each."""
    await run_all(conn, SCHEMA)
    await run_all(conn, f"grant select on all tables in schema public to {reader.info.user}")
    return Guard(reader)


async def repeats(guard: Guard, query: str) -> Sequence[str]:
    """Run a statement, and say what it repeats."""
    return await find_repeats(guard, query, await guard.read(query))


@pytest.mark.slow
async def test_honest_statements_of_all_kinds_have_no_finding(reader: AsyncConnection) -> None:
    """What the guard accepts is analysed without an error, and accused of nothing."""
    found = {text: await repeats(Guard(reader), text) for text in statements("honest.sql")}
    assert {text: said for text, said in found.items() if said} == {}


@pytest.mark.slow
async def test_a_total_over_repeated_rows_is_found(shop: Guard) -> None:
    """However the join is written; a subquery is not looked into from outside."""
    for query, what in REPEATED:
        found = await repeats(shop, query)
        assert [said.startswith(what) for said in found] == [True] * bool(what), query


@pytest.mark.slow
async def test_an_honest_total_has_no_finding(shop: Guard) -> None:
    """A false alarm is as bad as none."""
    found = {query: await repeats(shop, query) for query in HONEST}
    assert {query: said for query, said in found.items() if said} == {}


async def test_what_cannot_be_proved_is_not_said(shop: Guard, conn: AsyncConnection) -> None:
    """Two rows that could meet one, and do not."""
    asked = "select sum(o.total) from orders o join note n on n.order_id = o.id"
    assert await repeats(shop, asked) == ()
    await run_all(conn, "insert into note values (1, 'y')")
    assert len(await repeats(shop, asked)) == 1


@pytest.mark.slow
async def test_a_statement_that_cannot_be_looked_into_has_no_finding(shop: Guard) -> None:
    """And the connection can be used afterwards."""
    broken = "select sum(nothing) from orders join item on true"
    assert await find_repeats(shop, broken, Rows(())) == ()
    deep = f"select sum(o.total{' + 1' * 1_500}) from orders o join item i on i.order_id = o.id"
    assert await repeats(shop, deep) == ()
    assert list(await shop.read("select 1")) == [(1,)]
