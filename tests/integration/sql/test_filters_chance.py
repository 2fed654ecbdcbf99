"""Random conditions as row filters: none drops a row that its condition wants, and none can raise.

What the database found by expressions over the text of a stored rule is read here by the parser of
the guard, so a name or a constant that misleads one of them misleads not both.
"""

from collections.abc import Iterator
from typing import LiteralString

import psycopg
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from psycopg import Connection, sql

from walagent.guard.querytree import read_nodes

TABLE = """
create extension if not exists citext;
create table app_filtered (
    id int primary key, n bigint, t text, v varchar(20), b boolean, d date, m numeric, a int[],
    c citext, "odd :quals name" text, " :merge" int, "{FUNCEXPR :funcid 12" int, "new.t" text,
    "a'b""c\\d" text
);
with x (i, w) as (
    select i, array['open', '', null, 'it''s new.x', ' :merge ', '{FUNCEXPR', 'old.t', 'A', '\\']
      from generate_series(1, 60) i
)
insert into app_filtered
select i, nullif(i % 7 - 3, 2), w[i % 9 + 1], w[i % 5 + 1], (array[true, false, null])[i % 3 + 1],
       date '2026-01-01' + i, i / 3.0, array[i, null, i % 3], w[i % 4 + 1],
       w[i % 9 + 1], nullif(i % 4, 1), i % 2, w[i % 8 + 1], w[i % 3 + 1]
  from x;
"""
KINDS = {
    "OPEXPR", "SCALARARRAYOPEXPR", "BOOLEXPR", "NULLTEST", "BOOLEANTEST", "VAR", "CONST",
    "RELABELTYPE", "ARRAYEXPR",
}  # fmt: skip
TYPES = (
    "consttype", "vartype", "opresulttype", "resulttype", "array_typeid", "element_typeid", "opno",
)  # fmt: skip
FUNCTIONS = ("funcid", "opfuncid")


def _named(column: str) -> str:
    return 'new."' + column.replace('"', '""') + '"'


NUMBERS = st.sampled_from(["id", "n", " :merge", "{FUNCEXPR :funcid 12"]).map(_named)
TEXTS = st.sampled_from(["t", "v", "odd :quals name", "new.t", "a'b\"c\\d", "c"]).map(_named)
WORDS = st.sampled_from(
    [
        "open",
        "",
        "it''s new.x",
        " :merge ",
        "{FUNCEXPR",
        "old.t",
        "new_1.t",
        ") or (true",
        '"',
        "\\",
    ]
).map(lambda word: f"'{word}'")
COMPARED = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "is distinct from"])
INTEGERS = st.integers(-3, 9).map(str)
PLAIN = st.one_of(
    st.tuples(NUMBERS, COMPARED, INTEGERS).map(" ".join),
    st.tuples(TEXTS, COMPARED, WORDS).map(" ".join),
    st.tuples(NUMBERS, COMPARED, NUMBERS).map(" ".join),
    st.tuples(TEXTS, st.sampled_from(["is null", "is not null"])).map(" ".join),
    st.sampled_from(["new.b", "new.b is not true", "new.b is unknown", "true", "null::boolean"]),
    st.tuples(NUMBERS, st.lists(INTEGERS, min_size=1, max_size=3).map(", ".join)).map(
        lambda pair: f"{pair[0]} in ({pair[1]})"
    ),
    st.tuples(TEXTS, WORDS, WORDS).map(
        lambda each: f"{each[0]} = any (array[{each[1]}, {each[2]}])"
    ),
    st.integers(0, 60).map(lambda days: f"new.d < date '2026-01-01' + interval '{days} days'"),
    st.just("new.d >= '2026-01-20'"),
)
# What can raise, can be answered by code of others, or reads more than the new row.
OTHERS = st.sampled_from(
    [
        "1 / new.n > 0", "new.m > 1", "new.t::int = 1", "new.a[1] = 1", "new.t like 'o%'",
        "lower(new.t) = 'a'", "length(new.t) > 2", "coalesce(new.n, 1) > 0", "new.n + 1 > 2",
        "case when new.b then true else 1 / new.n = 1 end", "(new.id, new.n) < (5, 2)",
        "new is not null", 'new.t collate "C" < \'b\'', "nullif(new.t, 'a') is null",
        "greatest(new.n, 1) = 1", "old.n is distinct from new.n", "new.a = '{1,2}'",
        "new.m::text = '1'", "make_interval(secs => new.n) > '1 s'", "new.c = 'open'",
        "new.d = current_date", "row(new.*) is null", "new.n::int = 1", "new.a && '{1}'",
    ]
)  # fmt: skip


def _joined(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(lambda p: f"({' '.join(p)})"),
        inner.map(lambda each: f"not ({each})"),
        inner.map(lambda each: f"({each}) is not false"),
    )


CONDITIONS = st.recursive(st.one_of(PLAIN, PLAIN, OTHERS), _joined, max_leaves=5)


@pytest.fixture
def table(dsn: str) -> Iterator[Connection]:
    """A connection that sees the table with its rows."""
    with psycopg.connect(dsn) as conn:
        conn.execute(TABLE.encode())
        conn.commit()
        yield conn
        conn.rollback()


def row_filter(conn: Connection, condition: str) -> str | None:
    """The filter of a condition."""
    found = conn.execute(
        "select agent_internal.row_filter('app_filtered', c.compiled)"
        "  from agent_internal.compile_condition('app_filtered', %s, 'public') c",
        [condition],
    ).fetchone()
    assert found is not None
    return found[0]


def _published(conn: Connection, text: str) -> str:
    """The tree of the filter, as PostgreSQL stores it for its sender."""
    clause = sql.SQL(as_literal(text))
    conn.execute(
        sql.SQL("create publication tried for table app_filtered where ({})").format(clause)
    )
    row = conn.execute(
        "select prqual::text from pg_publication_rel where prqual is not null"
    ).fetchone()
    assert row is not None
    return row[0]


def as_literal(text: str) -> LiteralString:
    """Text of SQL that the database itself has printed."""
    return text  # pyright: ignore[reportReturnType] - not of a user


def check(conn: Connection, condition: str) -> bool:
    """Check that the filter, if there is one, drops no wanted row and cannot raise."""
    conn.rollback()
    if (text := row_filter(conn, condition)) is None:
        return False
    nodes = list(read_nodes(_published(conn, text)))
    assert {node.kind for node in nodes} <= KINDS
    assert all(oid < 16384 for node in nodes for oid in node.numbers(*TYPES, *FUNCTIONS))
    called = {oid for node in nodes for oid in node.numbers(*FUNCTIONS)}
    query = "select count(*) from pg_proc where oid = any (%s) and proleakproof"
    assert conn.execute(query, [list(called)]).fetchone() == (len(called),)
    dropped = sql.SQL(
        "select count(*) from app_filtered new where ({}) and"
        " not exists (select from app_filtered where id = new.id and ({}))"
    ).format(sql.SQL(as_literal(condition)), sql.SQL(as_literal(text)))
    assert conn.execute(dropped).fetchone() == (0,)
    return True


@pytest.mark.slow
@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(CONDITIONS)
@example("""new." :merge" > 1 and new."odd :quals name" = ' :merge '""")
@example("""new."new.t" = 'new.t' or new."a'b""c\\d" = 'old_1.'""")
def test_a_filter_drops_no_row_that_its_condition_wants(table: Connection, condition: str) -> None:
    """Whatever names and constants contain; and all of it is leakproof and of PostgreSQL."""
    check(table, condition)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(CONDITIONS, OTHERS, st.sampled_from(["{} and ({})", "({1}) or {0}", "not ({1}) and {0}"]))
def test_one_part_that_can_raise_is_enough_for_no_filter(
    table: Connection, condition: str, other: str, joined: str
) -> None:
    """Wherever it stands, also behind what reads like the end of the tree."""
    assert not check(table, joined.format(condition, other))


@pytest.mark.slow
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(NUMBERS, COMPARED, INTEGERS).map(" ".join), min_size=1, max_size=4))
def test_comparisons_of_numbers_are_a_filter(table: Connection, parts: list[str]) -> None:
    """Also of columns whose names look like a part of the tree."""
    assert check(
        table, " or ".join(part for part in parts if "distinct" not in part) or "new.n > 1"
    )
