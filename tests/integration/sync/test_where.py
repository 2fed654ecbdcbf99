"""Where clauses: what is compiled to Python gives what PostgreSQL gives."""

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all
from walagent.sync.lexer import WhereError
from walagent.sync.predicate import compile_where, needed_values
from walagent.sync.table import read_table
from walagent.sync.where import parse_where

TABLE = """
create type mood as enum ('sad', 'fine', 'it''s');
create table item (
    id integer primary key, n bigint, small smallint, t text, b boolean, u uuid, m mood, f float8
);
insert into item
select g, nullif(g % 7, 3) - 2, g % 5, (array['a', 'b', 'A', '', null, 'it''s', 'a b'])[1 + g % 7],
       nullif(g % 3, 2)::boolean, ('00000000-0000-0000-0000-00000000000' || g % 4)::uuid,
       (array['sad', 'fine', 'it''s', null])[1 + g % 4]::mood, g / 2.0
  from generate_series(1, 100) g;
"""
UUIDS = [f"'00000000-0000-0000-0000-00000000000{n}'" for n in range(5)]
TEXTS = ["'a'", "'A'", "''", "'it''s'", "'a b'", "null"]
LEAVES = {
    "n": ["-2", "0", "1", "'3'", "null", "4.0", "1e1"],
    "small": ["0", "4", "'2'", "null"],
    "t": TEXTS,
    "b": ["true", "false", "null", "'t'"],
    "u": [*UUIDS, "null"],
    "m": ["'sad'", "'fine'", "'it''s'", "null"],
}


UNPROVED = [
    "f = 1", "t like 'a%'", "lower(t) = 'a'", "n + 1 = 2", "t < 'b'", "m > 'sad'", "n = 4.0",
]  # fmt: skip


def leaf(chance: random.Random) -> str:
    """A comparison of a column."""
    name = chance.choice(list(LEAVES))
    value = chance.choice(LEAVES[name])
    match chance.randrange(6):
        case 0:
            return f"{name} is {chance.choice(['', 'not '])}null"
        case 1:
            items = ", ".join(chance.sample(LEAVES[name], 2))
            return f"{name} {chance.choice(['', 'not '])}in ({items})"
        case 2 if name == "b":
            return "b"
        case 3 if name in {"n", "small"}:
            return f"{name} = any('{{1,2,{chance.randrange(9)}}}')"
        case 4:
            return f"{value} {chance.choice(['=', '<>'])} {name}"
        case _:
            ops = ["=", "<>", "<", ">", "<=", ">="] if name in {"n", "small"} else ["=", "<>"]
            return f"{name} {chance.choice(ops)} {value}"


def expression(chance: random.Random, depth: int) -> str:
    """An expression over comparisons."""
    if depth == 0 or chance.random() < 0.2:
        return leaf(chance)
    inner = f"({expression(chance, depth - 1)})"
    match chance.randrange(4):
        case 0:
            return f"not {inner}"
        case 1:
            tests = ["true", "false", "unknown", "not true", "not false", "not unknown"]
            return f"{inner} is {chance.choice(tests)}"
        case _:
            return f"{inner} {chance.choice(['and', 'or'])} ({expression(chance, depth - 1)})"


def expressions(seed: int, count: int) -> Iterator[str]:
    """Random expressions."""
    chance = random.Random(seed)
    for _ in range(count):
        yield expression(chance, 3)


async def test_python_and_postgresql_agree(conn: AsyncConnection) -> None:
    """On every row, for every expression that is compiled; most are."""
    await run_all(conn, TABLE)
    table = await read_table(conn, "public", "item")
    names = [column.name for column in table.columns]
    texts = ", ".join(f"case when {name} is not null then concat({name}, '') end" for name in names)
    found = [
        dict(zip(names, row, strict=True))
        for row in await rows(conn, f"select {texts} from item order by id")
    ]
    compiled = narrow = 0
    for text in expressions(5, 400):
        where = parse_where(text)
        predicate = compile_where(where, table)
        if predicate is None:
            continue
        compiled += 1
        query = f"select {where.sql()} from item order by id"
        wanted = [value for (value,) in await rows(conn, query)]
        assert [predicate(row) for row in found] == wanted, text  # type: ignore[arg-type]
        if (needed := needed_values(where, table)) is not None:
            narrow += 1
            name, values = needed
            matching = [row for row, value in zip(found, wanted, strict=True) if value]
            assert all(row[name] in values for row in matching), text
    assert compiled > 200
    assert narrow > 20


async def test_what_is_not_proved_is_left_to_postgresql(conn: AsyncConnection) -> None:
    """Collations that ignore case, floats, patterns, functions, arithmetic."""
    await run_all(conn, TABLE)
    table = await read_table(conn, "public", "item")
    for text in UNPROVED:
        assert compile_where(parse_where(text), table) is None, text
    where = parse_where("t = 'a'")
    assert compile_where(where, table) is not None
    columns = tuple(replace(column, is_deterministic=False) for column in table.columns)
    assert compile_where(where, replace(table, columns=columns)) is None


@pytest.mark.parametrize(
    "text",
    [
        "", "1 = 1)", "(1 = 1", "a = = 1", "a = 1 = 1", "a = (select 1)", "exists (select 1)",
        "a in (select 1)", "pg_sleep(1) is null", "current_user = 'x'()", "a = 1; select 1",
        "a /* x */ = 1", "a = $$x$$", "a = e'\\x'", "a::regclass = 1",
        "a operator(pg_catalog.=) 1", "x.y = 1", "a = 1 union select 1", "case when a then b end",
        "a ~ 'x'", "a @@ 'x'", "a -> 'b' = 'c'", "\0", "a = '\0'", "$1 = 1", "array[", "a is",
        "a is nothing", "a between 1", "a not 1", "lower() = 'a'", "lower(a, b) = 'a'",
        "cast(a as regproc) = 1", "(" * 200 + "a" + ")" * 200,
    ],
)  # fmt: skip
def test_what_is_not_in_the_grammar_is_refused(text: str) -> None:
    """With a position."""
    with pytest.raises(WhereError) as refused:
        parse_where(text)
    assert refused.value.position >= 1


def test_a_text_cannot_leave_its_quotes() -> None:
    """What a client sends as a value stays one."""
    evil = "x'; drop table item; --"
    assert (
        parse_where("t = $1", {1: evil}).sql()
        == "(\"t\" operator(pg_catalog.=) 'x''; drop table item; --')"
    )
    assert parse_where('"a""b" = 1').sql() == '("a""b" operator(pg_catalog.=) 1)'
