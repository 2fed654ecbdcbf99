"""A statement without its literals is analyzed in the same way, and converts none."""

import pytest

from walagent.errors import StatementRefusedError
from walagent.guard.literals import without_literals


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("select 'a'", "select $1"),
        ("select 'it''s', E'a\\'b', N'c', U&'d' uescape '!'", "select $1 , $2 , $3 , $4"),
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
    found, count = without_literals(text)
    assert found.replace(" ", "").replace("\n", "") == expected.replace(" ", "")
    assert count == expected.count("$") - expected.count("a$b$c") * 2


def test_literals_become_nulls() -> None:
    """Where a statement takes no parameters."""
    found, count = without_literals("select 'a', _tag '{x}'", nulls=True)
    assert (" ".join(found.split()), count) == ("select null , cast(null as _tag)", 2)


def test_a_statement_with_parameters_is_refused() -> None:
    """They would be confused with ours."""
    with pytest.raises(StatementRefusedError):
        without_literals("select $1")
