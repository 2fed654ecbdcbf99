"""Operator classes of users: checked where PostgreSQL would call them, and only there."""

# ruff: noqa: ISC004 - a statement in several lines is one element of its case
import random

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import role, rows, run_all
from tests.helpers.guard import TRACES, statements
from walagent.errors import StatementRefusedError
from walagent.guard.analysis import Allowlist
from walagent.guard.query import Guard
from walagent.guard.read_limits import ReadLimits

# Of a user; sorts and hashes nothing else than integers.
CLASSES = """
create table goods (id integer, name text);
insert into goods select n, n from generate_series(1, 500) n;
analyze goods;
grant select on goods to public;
create function spring_order(integer, integer) returns integer language plpgsql immutable as
    $$ begin perform pg_advisory_lock_shared(1), nextval('public.trace'); return
       ($1 > $2)::integer - ($1 < $2)::integer; end $$;
create function spring_hash(integer) returns integer language plpgsql immutable as
    $$ begin perform pg_advisory_lock_shared(1), nextval('public.trace'); return $1; end $$;
create operator class trap_order for type integer using btree as
    operator 1 <, operator 2 <=, operator 3 =, operator 4 >=, operator 5 >,
    function 1 spring_order(integer, integer);
create operator class trap_hash for type integer using hash as
    operator 1 =, function 1 spring_hash(integer);
"""
STATEMENTS = (
    "select * from goods where id = 3",
    "select * from goods order by id using <",
    "select * from goods order by id using > limit 1",
    "select min(id), max(id) from goods",
    "select distinct id from goods",
    "select id, count(*) from goods group by id having count(*) > 0",
    "select * from goods a join goods b on a.id = b.id",
    "select * from goods a full join goods b using (id)",
    "select * from goods where id in (select id from goods)",
    "select * from goods where id not in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)",
    "select * from goods where id between 1 and 3 and id > 0",
    "select * from goods a where (a.id, a.id) < (3, 4)",
    "select sum(id) over (order by id range between 1 preceding and 1 following) from goods",
    "select id from goods union select id from goods except select 3",
    "select percentile_disc(0.5) within group (order by id using <) from goods",
    "with recursive t (n) as (select 1 union select n + 1 from t where n < 9) select * from t",
    "select greatest(id, 3), array[id] < array[3], id = any (array[1, 2]) from goods",
)


@pytest.fixture
async def guard(reader: AsyncConnection, conn: AsyncConnection) -> Guard:
    """With the classes, which no index has yet."""
    await run_all(conn, CLASSES)
    return Guard(reader, limits=ReadLimits(cost=1e12))  # before 18, what is off costs 1e10


@pytest.mark.slow
async def test_a_class_that_nothing_uses_refuses_nothing(
    guard: Guard, reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """And its functions are not called, whichever plan PostgreSQL takes."""
    before = await rows(conn, TRACES)
    for off in random.sample(
        ("hashjoin", "mergejoin", "nestloop", "hashagg", "seqscan", "sort"), 2
    ):
        await run_all(reader, f"set enable_{off} = off")
        for text in STATEMENTS:
            assert await guard.read(text) is not None
        await run_all(reader, "reset all")
    refused = {}
    for text in statements("honest.sql"):
        try:
            await guard.read(text)
        except StatementRefusedError as error:
            refused[text] = str(error)
    assert refused == {}
    assert await rows(conn, TRACES) == before


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "use",
    [
        "create index on goods (id trap_order)",
        "create index on goods (name, (id + 0) trap_order) where id > 0",
        "create index on goods using hash (id trap_hash)",
        "create table part (id integer) partition by range (id trap_order)",
        "create table part (id integer) partition by hash (id trap_hash)",
        "create table part (id integer); create table below (check (id > 0)) inherits (part);"
        " create index on below (id trap_order)",
        "create table whole (id integer) partition by range (id trap_order);"
        " create table part partition of whole for values from (0) to (9)",
        "create materialized view part as select 1 as id; create index on part (id trap_order)",
        "create table inner_one (id integer); create index on inner_one (id trap_order);"
        " create view part as select * from inner_one",
        "alter operator family trap_order using btree add operator 1 =(integer, bigint)",
        "create function less(integer, integer) returns boolean immutable return $1 < $2;"
        " create operator <<< (function = less, leftarg = integer, rightarg = integer);"
        " create operator class trap_more for type integer using btree"
        " as operator 1 <<<, operator 3 =, function 1 spring_order(integer, integer)",
        "create operator class trap_odd for type integer using btree as operator 1 =,"
        " function 1 spring_order(integer, integer)",
        "create type odd as range (subtype = integer, subtype_opclass = trap_order)",
    ],
)
async def test_a_class_that_could_be_called_is_refused_by_name(
    guard: Guard, conn: AsyncConnection, use: str
) -> None:
    """By an index or a partition key of what is read, or as PostgreSQL looks up operators."""
    await run_all(conn, use)
    table = "part" if " part" in use else "goods"
    await run_all(conn, f"grant select on {table} to public")
    with pytest.raises(StatementRefusedError) as caught:
        await guard.evaluate(f"select * from {table} where id = 3")
    said = str(caught.value)
    assert "function public.spring_" in said
    assert "operator class trap_" in said
    assert "owns it: drop the operator class" in said


async def test_the_owner_is_named_and_a_listed_function_is_allowed(
    guard: Guard, reader: AsyncConnection, conn: AsyncConnection
) -> None:
    """The cure of an operator who needs the class."""
    async with role(conn, "nologin") as mallory:
        await run_all(conn, f"alter function spring_order(integer, integer) owner to {mallory}")
        await run_all(conn, "create index on goods (id trap_order)")
        says = f"trap_order for type integer calls it, and role {mallory}"
        with pytest.raises(StatementRefusedError, match=says):
            await guard.evaluate("select * from goods where id = 3")
        await run_all(conn, f"reassign owned by {mallory} to current_user")
    listed = Guard(reader, allowed=Allowlist(functions=("public.spring_order",)))
    await listed.evaluate("select * from goods where id = 3")
