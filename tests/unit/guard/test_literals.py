"""A statement without its literals is analyzed in the same way, and converts none."""

import pytest

from walagent.errors import StatementRefusedError
from walagent.guard.literals import split_literals


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 'a'", "select $1"),
        ("select 'it''s', E'a\\'b', N'c', U&'d' uescape '!'",
         "select $1, $2, ($3 :: pg_catalog.bpchar), $4"),
        ("select 'a'\n  'b', 'c' -- it's\n", "select $1 , $2"),
        ("select $$a'b$$, $x$ $y$ $X$ $x$", "select $1 , $2"),
        ('select "it\'s", a$b$c', 'select "it\'s" , a$b$c'),
        ("select /* 'a' /* 'b' */ */ 1e-5", "select 1e-5"),
        ("select x->>'a', x@>'{}'", "select x ->> $1 , x @> $2"),
        ("select holder '(x)', a.\"B\" 'x'", 'select cast($1 as holder) , cast($2 as a."B")'),
        ("select 'x'::holder", "select $1 :: holder"),
        ("select interval '1 day'", "select interval '1 day'"),
        ("select timestamp(3) with time zone '2024-01-01'",) * 2,
        ("select public.interval 'x'", "select cast($1 as public.interval)"),
        ("select double precision '1', character varying(3) 'x'",) * 2,
        ("select double 'x', varying 'x'", "select cast($1 as double) , cast($2 as varying)"),
        ("select varchar\u00a0 'x', $\u00a0$'x'$\u00a0$", "select cast($1 as varchar\u00a0) , $2"),
        ("select public.extract('x')", "select public.extract($1)"),
        ("select x at time zone 'UTC'", "select x at time zone $1"),
        ("select b'101', extract('year' from x)", "select b'101' , extract ( 'year' from x )"),
        ("select x in('a') and y like 'b' escape ''",
         "select x in ( $1 ) and y like $2 escape $3"),
    ],
)  # fmt: skip
def test_literals_are_replaced(text: str, expected: str) -> None:
    """Only those of types that the grammar names stay."""
    template = split_literals(text)
    found = template.filled([f"${n + 1}" for n in range(len(template.literals))])
    assert found.replace(" ", "").replace("\n", "") == expected.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 'a', _tag '{x}'", "select null , cast( null as _tag )"),
        ("select x is distinct from ('a'), 'b'",
         'select x is distinct from ( (null collate pg_catalog."C") ) , null'),
        ("select ('a') is not distinct from x",
         'select ( (null collate pg_catalog."C") ) is not distinct from x'),
        ("select N'a'", "select ( null :: pg_catalog.bpchar )"),
        ("select f(variadic '{a}')", "select f ( variadic null )"),
        ("json_table(x, '$' columns (a int path 'a' default '1' on error))",
         "json_table ( x , '$' columns ( a int path 'a' default null on error ) )"),
        ("select f(x, '$' columns), path '(1,2)', a int path 'b' = x",
         "select f ( x , null columns ) , cast( null as path ) , a int cast( null as path ) = x"),
    ],
)  # fmt: skip
def test_literals_become_nulls(text: str, expected: str) -> None:
    """Each in a form that is analyzed as the literal would be."""
    template = split_literals(text)
    assert " ".join(template.empty.split()) == expected


def test_nothing_else_is_changed() -> None:
    """What is executed is made of the same pieces as what is analyzed."""
    text = "select E'it\\'s', x /* '1' */ ->> $a$'b'$a$ from t -- 'c'"
    whole = split_literals(text).whole
    assert " ".join(whole.split()) == "select E'it\\'s' , x ->> $a$'b'$a$ from t"


def test_a_statement_with_parameters_is_refused() -> None:
    """They would be confused with ours; a function may have some."""
    with pytest.raises(StatementRefusedError):
        split_literals("select $1")
    assert split_literals("select $12", parameters=True).empty == "select $12"
