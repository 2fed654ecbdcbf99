"""Statements that run and mean something else: noted; their neighbors that are right are not."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from tests.helpers.guard import statements
from walagent.ask.traps.find import find_traps
from walagent.guard.query import Guard

SCHEMA = """
create table buyer (id integer primary key, name text not null, ref_by integer, land text);
insert into buyer values (1, 'a', null, 'DE'), (2, 'b', 1, 'DE'), (3, 'c', 1, null);
create table orders (
    id integer primary key, buyer integer not null references buyer, state text,
    placed timestamptz, placed_local timestamp, day date, total_cents bigint, quantity integer,
    currency char(3), note text);
insert into orders
select n, 1 + n % 3, case when n % 3 = 0 then 'returned' else 'paid' end,
       '2025-03-01 00:00+00'::timestamptz + n * interval '5 hours',
       '2025-03-01'::timestamp + n * interval '5 hours', '2025-03-01'::date + n % 31,
       100 * n + 5, n, case n % 2 when 0 then 'EUR' else 'USD' end, null
  from generate_series(1, 200) n;
create table item (order_id integer references orders, line integer, price numeric, qty integer,
                   primary key (order_id, line));
insert into item select n, 1, 2.5, 2 from generate_series(1, 200) n;
create table settled (id integer primary key, order_id integer, cents integer, currency text);
insert into settled select n, n, n, case n % 2 when 0 then 'EUR' else 'USD' end
  from generate_series(1, 200) n;
create table euro (id integer primary key, amount numeric, currency text not null);
insert into euro select n, n, 'EUR' from generate_series(1, 9) n;
create table stock (id integer primary key, quantity numeric, unit text, price numeric);
insert into stock values (1, 5, 'kg', 1), (2, 7, 'piece', 2);
create table midnight (at timestamptz);
insert into midnight select '2025-03-01 00:00+00'::timestamptz + n * interval '1 day'
  from generate_series(0, 60) n;
create table rate (currency char(3) primary key, per_eur numeric);
insert into rate values ('EUR', 1), ('USD', 1.1);
"""

# Each statement that must be noted, with a part of the note, and neighbors that must not.
TRAPS: list[tuple[str, str, list[str]]] = [
    (
        (
            "select (select count(*) from orders where state = 'returned')"
            " / (select count(*) from orders) as return_rate"
        ),
        "return_rate divides whole numbers",
        [
            (
                "select (select count(*) from orders where state = 'returned')::numeric"
                " / (select count(*) from orders) as return_rate"
            ),
            "select 100 * count(*) filter (where state = 'returned') / count(*) as pct from orders",
        ],
    ),
    (
        (
            "select buyer, count(*) filter (where state = 'paid') / count(*) * 100 as paid_percent"
            " from orders group by 1"
        ),
        "paid_percent divides whole numbers",
        [
            "select extract(year from day)::integer / 10 * 10 as decade from orders",
            "select quantity / 10 as bucket, count(*) from orders group by 1",
        ],
    ),
    (
        "select round(sum(quantity) / count(*), 2) as x from orders",
        "x divides whole numbers",
        [
            "select round(sum(quantity)::numeric / count(*), 2) as x from orders",
            "select quantity - quantity / buyer * buyer as rest from orders",
        ],
    ),
    (
        "select sum(quantity) / count(*) as average from (select quantity from orders) q",
        "average divides whole numbers",
        ["select sum(total_cents) / count(*) from orders where currency = 'EUR'"],
    ),
    (
        "select id from orders where quantity / buyer > 0.5 * id",
        "it divides whole numbers",
        ["select id from orders where quantity / buyer > 2"],
    ),
    (
        "select total_cents / 100 as total from orders",
        "total divides whole numbers",
        ["select total_cents / 100.0 as total from orders"],
    ),
    (
        "select count(*) from buyer where id not in (select ref_by from buyer)",
        "buyer.ref_by is NULL in some rows",
        [
            (
                "select count(*) from buyer where id not in"
                " (select ref_by from buyer where ref_by is not null)"
            ),
            "select count(*) from buyer where id not in (select buyer from orders)",
            "select count(*) from buyer b where not exists (select from buyer where ref_by = b.id)",
        ],
    ),
    (
        (
            "with r as (select ref_by as x from buyer) select name from buyer"
            " where id <> all (select x from r)"
        ),
        "buyer.ref_by is NULL in some rows",
        [
            (
                "with r as (select ref_by as x from buyer) select name from buyer"
                " where id not in (select x from r where x > 0)"
            ),
            "select id from buyer where id in (select ref_by from buyer)",
        ],
    ),
    (
        "select name from buyer where land not in ('FR', null)",
        "its list has a NULL",
        ["select name from buyer where land not in ('FR', 'IT')"],
    ),
    (
        "select count(*) from buyer where id in (select ref_by from orders)",
        "a column of the query around it",
        ["select count(*) from buyer where id in (select buyer from orders)"],
    ),
    (
        "select count(*) from orders where placed between '2025-03-01' and '2025-03-31'",
        "placed <= 2025-03-31 leaves out",
        [
            "select count(*) from orders where placed >= '2025-03-01' and placed < '2025-04-01'",
            "select count(*) from orders where day between '2025-03-01' and '2025-03-31'",
            "select count(*) from orders where placed::date between '2025-03-01' and '2025-03-31'",
            "select count(*) from orders where placed <= '2025-03-31 23:59:59'",
            "select count(*) from midnight where at between '2025-03-01' and '2025-03-31'",
        ],
    ),
    (
        (
            "with o as (select * from orders) select count(*) from o"
            " where date '2025-03-31' >= placed_local"
        ),
        "placed_local <= 2025-03-31 leaves out",
        ["select count(*) from orders where placed_local <= '2025-03-31 18:30'"],
    ),
    (
        "select count(*) from orders where placed = date '2025-03-04'",
        "placed = 2025-03-04 finds only what is at midnight",
        ["select count(*) from orders where day = '2025-03-04'"],
    ),
    (
        "select extract(hour from placed_local at time zone 'Europe/Berlin') from orders",
        "placed_local has no time zone",
        [
            "select extract(hour from placed at time zone 'Europe/Berlin') from orders",
            "select extract(hour from placed_local) from orders",
            "select placed - (placed_local at time zone 'Europe/Berlin') from orders",
            (
                "select extract(hour from placed_local at time zone 'UTC' at time zone 'EST')"
                " from orders"
            ),
        ],
    ),
    (
        "select (placed_local at time zone 'Asia/Tokyo')::date, count(*) from orders group by 1",
        "placed_local has no time zone",
        ["select (placed_local at time zone 'UTC')::date, count(*) from orders group by 1"],
    ),
    (
        (
            "select date_trunc('day', placed at time zone 'Europe/Berlin' at time zone 'UTC')"
            " from orders"
        ),
        "takes the local time of Europe/Berlin for one of UTC",
        [
            (
                "select date_trunc('day', placed at time zone 'Europe/Berlin')"
                " at time zone 'Europe/Berlin' from orders"
            ),
        ],
    ),
    (
        "select sum(total_cents) from orders",
        "sum adds up orders.total_cents of several currencies (orders.currency)",
        [
            "select currency, sum(total_cents) from orders group by 1",
            "select sum(total_cents) from orders where currency = 'EUR'",
            "select sum(quantity) from orders",
            "select sum(amount) from euro",
            "select id, sum(total_cents) from orders group by id",
            (
                "select o.id, sum(p.cents) from orders o join settled p on p.order_id = o.id"
                " group by o.id"
            ),
            "select id, (select sum(cents) from settled where order_id = o.id) from orders o",
            (
                "select o.currency, sum(p.cents) from orders o join settled p on p.order_id = o.id"
                " group by 1"
            ),
            "select sum(total_cents / per_eur) from orders join rate using (currency)",
            "select sum(total_cents) filter (where currency = 'EUR') from orders",
        ],
    ),
    (
        (
            "with o as (select buyer, total_cents as cents, currency from orders)"
            " select buyer, avg(cents) from o group by 1"
        ),
        "avg averages orders.total_cents of several currencies",
        [
            (
                "with o as (select total_cents as cents, currency as c from orders)"
                " select c, avg(cents) from o group by 1"
            ),
            (
                "with o as (select total_cents as cents from orders where currency = 'USD')"
                " select avg(cents) from o"
            ),
        ],
    ),
    (
        "select sum(i.price * i.qty) from item i join orders o on o.id = i.order_id",
        "of several currencies (orders.currency)",
        [
            (
                "select o.currency, sum(i.price * i.qty) from item i join orders o"
                " on o.id = i.order_id group by 1"
            ),
            (
                "select sum(i.price * i.qty) from item i join orders o on o.id = i.order_id"
                " where o.currency = 'EUR'"
            ),
        ],
    ),
    (
        "select b.land, sum(total_cents) from orders o join buyer b on b.id = o.buyer group by 1",
        "of several currencies",
        ["select buyer, sum(amount) from euro join orders using (id) group by 1"],
    ),
    (
        "select sum(quantity) from stock",
        "of several units (stock.unit)",
        [
            "select unit, sum(quantity) from stock group by unit",
            "select sum(price) from stock",
        ],
    ),
]


@pytest.fixture
async def guard(conn: AsyncConnection, reader: AsyncConnection) -> Guard:
    """A guard over a shop with several currencies, units, NULLs and kinds of time."""
    await run_all(conn, "set time zone 'UTC'")
    await run_all(conn, SCHEMA)
    await run_all(conn, f"grant select on all tables in schema public to {reader.info.user}")
    await run_all(reader, "set time zone 'UTC'")
    return Guard(reader)


@pytest.mark.few(7)
@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap[1])
async def test_a_trap_is_noted_and_its_neighbors_are_not(
    guard: Guard, trap: tuple[str, str, list[str]]
) -> None:
    """A false alarm is as bad as none."""
    text, said, neighbors = trap
    found = await notes(guard, text)
    assert [said in each for each in found] == [True], found
    for neighbor in neighbors:
        assert (neighbor, await notes(guard, neighbor)) == (neighbor, ())


async def notes(guard: Guard, text: str) -> tuple[str, ...]:
    """Run a statement and return what is noted about it."""
    return tuple(await find_traps(guard, text, await guard.read(text)))


@pytest.mark.slow
async def test_honest_statements_of_all_kinds_have_no_note(reader: AsyncConnection) -> None:
    """What the guard accepts is read without an error."""
    guard = Guard(reader)
    found = {text: await notes(guard, text) for text in statements("honest.sql")}
    assert {text: said for text, said in found.items() if said} == {}
