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


@pytest.mark.slow
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


WORKED = """
insert into agent.model (name, provider, model_id, base_url)
values ('one', 'scripted', 'one', '/none'), ('two', 'scripted', 'two', '/none');
create table ticket (id bigint primary key);
select agent.attach('ticket', 'name=triage, model=one, system_prompt="Check it."');
insert into agent.run
    (id, queue_id, attachment_id, attachment_version, generation, commit_lsn, ordinal, committed_at,
     change, key, state, created_at, started_at, finished_at, cost, result)
overriding system value
select n, a.id, a.id, a.version, 1, '0/1', n, now(), '{}', n::text, 'succeeded',
       at.created, at.created, at.created + n * interval '10 s', n * 0.01, 'Sorted.'
  from agent.attachment a, generate_series(1, 3) n,
       lateral (select timestamptz '2026-11-24 10:00+00' + n * interval '1 h' as created) at;
insert into agent.step (run_id, seq, kind, content) values
  (1, 0, 'reply', '{"parts": [{"text": "Mine."},
     {"call": "a", "name": "update_row", "arguments": {"note": null, "category": "how_to"}},
     {"call": "b", "name": "refund", "arguments": {"amount": 12.50}},
     {"call": "c", "name": "page", "arguments": {}}, {"call": "d", "name": "page", "raw": "{"}]}'),
  (1, 1, 'result', '{"call_id": "a", "name": "update_row", "content": "done", "is_error": false}'),
  (1, 2, 'decision', '{"call_id": "b", "decision": "approved", "edited": {"amount": 9}}'),
  (1, 3, 'result', '{"call_id": "b", "name": "refund", "content": "done", "is_error": false}'),
  (1, 4, 'result', '{"call_id": "c", "name": "page", "content": "no", "is_error": true}');
insert into agent.run
    (id, kind, reason, queue_id, principal, change, state, started_at, lease_expires_at)
overriding system value
values (4, 'question', 'question', 1, 'someone', '{}', 'running', now() - interval '2 h',
        now() + interval '1 h');
insert into agent.step (run_id, seq, kind, content) values (4, 0, 'reply', '{"registered": "two"}');
"""
NAMED = {
    "model=one": "3 2 1",
    "model=two": "4",
    "model=one,two": "4 3 2 1",
    "duration=20s": "4 3 2",  # one that is executed has lasted until now
    "duration=<20s": "1",
    "duration=>30s": "4 3",
    "cost=0.02": "3 2",
    "cost=<0.02": "1",
    "since=2026-11-24T12:00:00Z until=2026-11-24T13:00:00Z": "2",
    "until=1h": "3 2 1",
    "ended=2026-11-24T11:00:00Z..2026-11-24T12:01:00Z": "2 1",
    "ended=2026-11-24T12:00:00Z": "4 3 2",
}


@pytest.mark.slow
async def test_runs_say_what_they_did_and_are_found_by_it(conn: AsyncConnection, dsn: str) -> None:
    """Columns with their values, not the name of a tool; by model, time, cost and period."""
    await run_all(conn, WORKED)
    vic = await person(conn, "vic", "viewer")
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        rows = {row["id"]: row for row in await _read(served, vic, "runs", limit="9")}
        found = {
            given: " ".join(
                row["id"]
                for row in await _read(
                    served,
                    vic,
                    "runs",
                    limit="9",
                    **dict(each.split("=", 1) for each in given.split()),
                )
            )
            for given in NAMED
        }
        drawn = await _read(served, vic, "runs_histogram", model="one")
    await run_all(conn, "delete from agent.attachment; delete from agent.agent")
    assert rows["1"]["what"] == "category = how_to, note = NULL; refund(amount => 9)"
    assert rows["2"]["what"] == "Sorted."
    assert (rows["3"]["duration_ms"], rows["3"]["model"]) == (30_000, "one")
    assert (rows["4"]["duration_ms"], rows["4"]["model"]) == (None, "two")
    assert found == NAMED
    assert sum(row["runs"] for row in drawn) == 3
    assert {row["state"] for row in drawn} == {"succeeded"}
    assert not any(row["is_least"] for row in drawn)
    assert min(row["at"] for row in drawn).startswith("2026-11-24T11:00")
