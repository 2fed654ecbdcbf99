"""The list of runs: a search of text says how far it read, and goes on from there."""

from typing import Any

import pytest
from psycopg import AsyncConnection
from psycopg.types.json import Jsonb

from tests.helpers.database import run_all
from tests.helpers.people import person
from tests.helpers.shapes import Served, serving
from walagent.config import Replication
from walagent.console.declared import declared_queries
from walagent.replication.bootstrap import ensure_slot

MANY = """
set session_replication_role = replica;
insert into agent.run
    (id, kind, reason, queue_id, principal, change, key, state, finished_at, error)
overriding system value
select n, 'question', 'question', 1, 'someone', '{}', n::text, 'failed', now(),
       jsonb_build_object('reason', case when n % 5000 = 0 then 'outage' else 'no answer' end)
  from generate_series(1, 25000) n;
set session_replication_role = origin;
"""


async def _read(served: Served, token: str, name: str, **given: str) -> list[dict[str, Any]]:
    answer = await served.query(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def test_a_search_says_how_far_it_read_and_goes_on(conn: AsyncConnection, dsn: str) -> None:
    """Of 25,000 runs, the newest 10,000 first; then older ones, until there are none."""
    await run_all(conn, MANY)
    vic = await person(conn, "vic", "viewer")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        (first,) = await _read(served, vic, "runs_reach")
        assert (first["oldest"], first["is_partial"]) == ("15001", True)
        assert first["since"]
        newest = await _read(served, vic, "runs", q="outage", limit="9")
        assert [row["id"] for row in newest] == ["25000", "20000"]
        (second,) = await _read(served, vic, "runs_reach", before="15001", size="12000")
        assert (second["oldest"], second["is_partial"]) == ("3001", True)
        (count,) = await _read(
            served, vic, "runs_count", q="outage", before="15001", oldest=second["oldest"]
        )
        assert count["count"] == "3"
        (last,) = await _read(served, vic, "runs_reach", before="3001", size="50000")
        assert (last["oldest"], last["is_partial"]) == ("1", False)
        found = await _read(served, vic, "runs", q="outage", before="20000", oldest="1", limit="9")
        assert [row["id"] for row in found] == ["15000", "10000", "5000"]
        assert await _read(served, vic, "runs_reach", before="1") == []


ROWS = {
    "refund": (
        {"at": "2026-11-26 09:45:50.30", "reason": "Charged twice", "amount": "12.50"},
        "Charged twice",
    ),
    "letter": ({"asked": "2026-11-26", "body": "Dear all", "to": "4711"}, "Dear all"),
    "other": (
        {
            "a_date": "2026-11-26T09:45:50Z",
            "b_number": "-12.5",
            "c_key": "other",
            "d_words": "Blue",
        },
        "Blue",
    ),
    "none": ({"at": "2026-11-26", "id": "5b2f0c0e-3f51-4f6e-9d0c-7b7a4f3f9b11", "n": "17"}, None),
}


@pytest.mark.parametrize("key", ROWS)
async def test_a_row_is_called_by_its_words(conn: AsyncConnection, key: str) -> None:
    """No date, number, key or UUID is its title, and words that people wrote come first."""
    new, title = ROWS[key]
    change = {"op": "insert", "schema": "public", "table": "x", "new": new}
    await conn.execute(
        "insert into agent.run (kind, reason, queue_id, principal, change, key)"
        " values ('question', 'question', 1, 'someone', %s, %s)",
        [Jsonb(change), key],
    )
    (query,) = [each for each in declared_queries() if each.name == "console.runs"]
    given = dict.fromkeys(query.parameters, "") | {"limit": "9"}
    text = f"select title from ({query.text}) q"
    found = await (await conn.execute(text.encode(), given)).fetchall()
    assert found == [(title,)]
