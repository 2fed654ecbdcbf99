"""Hostile statements, respelled at random: none is accepted, and none has had an effect."""

import os
import random
import re
from collections.abc import AsyncIterator, Callable

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows
from tests.helpers.guard import TRACES, statements
from walagent.errors import StatementRefusedError
from walagent.guard.query import Guard

_TOKEN = re.compile(
    r"""(?P<kept>[uU]&"[^"]*"|[eE]?'(?:[^']|'')*'|"[^"]*"|\$\$.*?\$\$|--.*)
      | (?P<name>\b(?:spring\w*|purge|customer|nextval|pg_\w+|set_config|trapped\w*|checked)\b)
      | (?P<word>[A-Za-z_]\w*)
      | (?P<blank>\s+)
      | (?P<rest>.)""",
    re.VERBOSE | re.DOTALL,
)
_BLANKS = (" ", "\n", "\t", "\r\n", "\f", " /**/ ", "/* ; */", " -- '\n", "/* /* */ */ ", "  ")


def _respelled(text: str, chance: random.Random) -> str:
    """Change case, quotes and blanks; the server reads the same."""

    def spell(token: re.Match[str]) -> str:
        match token.lastgroup:
            case "name" if chance.random() < 0.4:
                return _quoted(token.group(), chance)
            case "name" | "word":
                return "".join(chance.choice((c.lower(), c.upper())) for c in token.group())
            case "blank":
                return chance.choice(_BLANKS)
            case _:
                return token.group()

    return "".join(spell(token) for token in _TOKEN.finditer(text))


def _quoted(name: str, chance: random.Random) -> str:
    if chance.random() < 0.5:
        return f'"{name}"'
    at = chance.randrange(len(name))
    return f'U&"{name[:at]}\\{ord(name[at]):04x}{name[at + 1 :]}"'


_WRAPS: tuple[Callable[[str], str], ...] = (
    lambda s: f"({s})",
    lambda s: f"select * from ({s}) as q",
    lambda s: f"select 1 from ({s}\n) q, customer",
    lambda s: f"with q as ({s}) select * from q",
    lambda s: f"with q as materialized ({s}) select 1",
    lambda s: f"with recursive q as ({s}) table q",
    lambda s: f"({s}) union all ({s})",
    lambda s: f"select 1 where exists ({s})",
    lambda s: f"select 1 from customer where id in ({s})",
    lambda s: f"select array({s})",
    lambda s: f"select ({s})",
    lambda s: f"select 1 order by ({s})",
    lambda s: f"select * from customer c, lateral ({s}) l",
    lambda s: f"explain {s}",
    lambda s: f"explain analyze {s}",
    lambda s: f"explain (analyze, costs off) {s}",
    lambda s: f"{s};",
    lambda s: f"; {s}",
    lambda s: f"select 1; {s}",
    lambda s: f"{s} -- end",
    lambda s: f"/* begin */ {s} /* end */",
)


async def _variants(chance: random.Random, count: int) -> AsyncIterator[str]:
    hostile = statements("hostile.sql")
    for n in range(count):
        text = _respelled(hostile[n % len(hostile)], chance)
        for _ in range(chance.choice((0, 1, 1, 2, 3))):
            text = chance.choice(_WRAPS)(text)
        yield text


@pytest.mark.parametrize(
    ("part", "count"),
    [(0, 150), *(pytest.param(part, 5_000, marks=pytest.mark.slow) for part in range(1, 5))],
)
async def test_no_spelling_makes_a_hostile_statement_welcome(
    reader: AsyncConnection, conn: AsyncConnection, part: int, count: int
) -> None:
    """Case, comments, blanks, quotes, subqueries, unions and EXPLAIN hide nothing.

    The slow parts together are 20,000 variants, which are others in each run.
    """
    seed = int(os.environ.get("WALAGENT_FAULT_SEED") or random.randrange(2**32))
    print(f"WALAGENT_FAULT_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    guard = Guard(reader)
    before = await rows(conn, TRACES)
    accepted: list[str] = []
    async for text in _variants(random.Random(f"{seed} {part}"), count):
        try:
            await guard.evaluate(text)
        except StatementRefusedError:
            continue
        accepted.append(text)
    assert accepted == []
    assert await rows(conn, TRACES) == before
