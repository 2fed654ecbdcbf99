"""Which relations a statement can read, by their kind and by what is below them."""

import re

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, run_all
from walagent.errors import StatementRefusedError
from walagent.guard.query import Guard

AWAY = "is on another server"
RELATIONS = """
create foreign data wrapper far;
create server away foreign data wrapper far;
create foreign table foreign_alone (id integer) server away;

create table parted (id integer) partition by range (id);
create table parted_here partition of parted for values from (0) to (10);
create foreign table parted_away partition of parted for values from (10) to (20) server away;

create table deep (id integer) partition by range (id);
create table deep_middle partition of deep for values from (0) to (20) partition by range (id);
create foreign table deep_away partition of deep_middle for values from (0) to (10) server away;

create table parent (id integer);
create foreign table parent_away () inherits (parent) server away;

create table grandparent (id integer);
create table middle () inherits (grandparent);
create foreign table middle_away () inherits (middle) server away;

create table two_parents () inherits (grandparent, parent);

create table local_parent (id integer);
create table local_child () inherits (local_parent);
create view seen as select * from visit;
create view seen_away as select * from deep;
create view seen_twice as select * from seen_away;
create function read_away() returns setof integer language sql stable as 'select id from parent';
create materialized view copied as select 1 as id with no data;
create type composed as (id integer);
"""
NO_TABLE = (
    "cannot open relation|is an index|is a composite type"  # before PostgreSQL 16, the latter
)
# By pg_class.relkind: an example, and why it is refused; "": it can be read.
KINDS = {
    "r": ("customer", ""),
    "p": ("visit", ""),
    "v": ("seen", ""),
    "m": ("best", ""),
    "S": ("trace", ""),
    "f": ("foreign_alone", AWAY),
    "t": ("{toast}", "must not be read"),
    "i": ("customer_pkey", NO_TABLE),
    "I": ("visit_pkey", NO_TABLE),
    "c": ("composed", NO_TABLE),
}
# What has a foreign table below it, and what has none.
BELOW = {
    "parted": AWAY,
    "parted_away": AWAY,
    "parted_here": "",
    "deep": AWAY,
    "deep_middle": AWAY,
    "parent": AWAY,
    "grandparent": AWAY,
    "middle": AWAY,
    "two_parents": "",
    "local_parent": "",
    "seen_away": AWAY,
    "seen_twice": AWAY,
    "read_away()": AWAY,
}


async def _made(conn: AsyncConnection, reader: AsyncConnection) -> None:
    await run_all(conn, RELATIONS)
    await run_all(
        conn,
        "alter table visit add primary key (at);"
        f"grant select on all tables in schema public to {reader.info.user}",
    )


async def _answer(reader: AsyncConnection, relation: str) -> str:
    """Return why a relation cannot be read; "": it can."""
    try:
        await Guard(reader).evaluate(f"select * from {relation}")
    except StatementRefusedError as error:
        return str(error)
    return ""


async def test_each_kind_of_relation_can_be_read_or_cannot(
    conn: AsyncConnection, reader: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """A kind that a new PostgreSQL brings needs a line in the table."""
    await _made(conn, reader)
    kinds = await column(conn, "select distinct relkind::text from pg_class")
    assert set(kinds) == set(KINDS)
    toast = await column(
        conn, "select reltoastrelid::regclass::text from pg_class where relname = 'customer'"
    )
    await run_all(
        conn,
        f"grant usage on schema pg_toast to {reader.info.user};"
        f"grant select on {toast[0]} to {reader.info.user}",
    )
    for kind, (relation, reason) in KINDS.items():
        with subtests.test(kind):
            found = await _answer(reader, relation.format(toast=toast[0]))
            assert re.search(reason, found) if reason else not found


@pytest.mark.slow
async def test_a_relation_with_rows_on_another_server_cannot_be_read(
    conn: AsyncConnection, reader: AsyncConnection, subtests: pytest.Subtests
) -> None:
    """However far below the foreign table is: its wrapper could connect anywhere."""
    await _made(conn, reader)
    for relation, reason in BELOW.items():
        with subtests.test(relation):
            found = await _answer(reader, relation)
            assert found == reason or (reason and reason in found)
