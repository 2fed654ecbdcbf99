"""Memories as a page: who may read and change them; threads and tenants keep theirs."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.helpers.people import person
from tests.helpers.shapes import Served, serving

FILTER = dict.fromkeys(("agent", "kind", "about", "key", "trust", "state", "q", "before"), "")
STORED = """
select agent.remember('triage', '"Ann handles refunds"', key => 'refunds');
select agent.remember('triage', '"Bob handles refunds"', key => 'refunds');
select agent.remember('triage', '{"limit": 50}', kind => 'procedural', principal => 'dan');
select agent.remember('other', '"Of another agent"');
select agent.remember('triage', '"Old"', expires_at => now() - interval '1 day');
insert into agent.memory (agent, value, thread_id, run_id, created_by, principal)
select 'triage', '"Said in confidence"', agent.open_thread('quiet', '{dan}'), 17, 'triage', 'eve';
"""
PAST = """
update agent.memory set created_at = now() - interval '2 days' where value = '"Old"'
"""


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server, two people, and what two agents remember."""
    await person(conn, "dan", "developer")
    await person(conn, "eve")
    await run_all(conn, STORED)
    await run_all(conn, PAST)
    async with serving(conn, dsn) as found:
        yield found


async def asked(served: Served, token: str, name: str, **given: str) -> list[dict[str, Any]]:
    """What a query of the page returns."""
    answer = await served.query(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def texts(served: Served, token: str, **given: str) -> list[str]:
    """The texts that the list shows, sorted."""
    found = await asked(served, token, "memories", **{**FILTER, "limit": "100", **given})
    return sorted(each["text"] for each in found)


async def test_what_is_recalled_is_listed_and_the_rest_by_its_state(
    conn: AsyncConnection, served: Served
) -> None:
    """Of a thread, only by who can see the thread; without a role, nothing."""
    vic, mia = await person(conn, "vic", "viewer"), await person(conn, "mia")
    dan = await value(conn, "select token from agent.create_token('dan')")
    dex = await person(conn, "dex", "developer")  # no member of the thread
    listed = ["Bob handles refunds", "Of another agent", '{"limit": 50}']
    assert await texts(served, dex) == listed
    for each in vic, dan:  # one who sees all threads, and a member
        assert await texts(served, each) == sorted([*listed, "Said in confidence"])
    assert await texts(served, mia) == []
    assert await texts(served, vic, state="replaced,expired") == ["Ann handles refunds", "Old"]
    for given, found in (
        ({"agent": "other"}, ["Of another agent"]),
        ({"about": "dan"}, ['{"limit": 50}']),
        ({"kind": "procedural"}, ['{"limit": 50}']),
        ({"key": "refunds"}, ["Bob handles refunds"]),
        ({"q": "HANDLES"}, ["Bob handles refunds"]),
        ({"trust": "untrusted"}, ["Said in confidence"]),
    ):
        assert await texts(served, vic, **given) == found, given
    agents = [("agent", name) for name in ("other", "triage")]
    for each, people in (vic, ("dan", "eve")), (dex, ("dan",)):
        known = [(o["name"], o["value"]) for o in await asked(served, each, "memory_options")]
        assert known == [*(("about", name) for name in people), *agents]
    assert await asked(served, mia, "memory_options") == []
    secret = await value(conn, "select id::text from agent.memory where run_id = 17")
    assert await asked(served, dex, "memory", id=secret) == []
    assert len(await asked(served, dan, "memory", id=secret)) == 1


async def test_pages_of_memories_leave_none_out(conn: AsyncConnection, served: Served) -> None:
    """Also where many were stored at one instant."""
    dan = await value(conn, "select token from agent.create_token('dan')")
    await run_all(conn, "update agent.memory set created_at = '2026-01-01'")
    seen, before = list[str](), ""
    while page := await asked(
        served, dan, "memories", **{**FILTER, "before": before, "limit": "2"}
    ):
        seen += [each["text"] for each in page]
        before = page[-1]["place"]
    assert sorted(seen) == await texts(served, dan)
    assert len(seen) == 4


async def test_a_developer_changes_what_is_recalled(conn: AsyncConnection, served: Served) -> None:
    """With what it replaced; what was replaced meanwhile is refused, not overwritten."""
    vic = await person(conn, "vic", "viewer")
    dan = await value(conn, "select token from agent.create_token('dan')")
    found = await asked(served, dan, "memories", **{**FILTER, "key": "refunds", "limit": "1"})
    old = found[0]["id"]
    correct = {"id": old, "text": "Eve handles refunds", "is_text": "true"}
    assert (await served.mutate(vic, "console.correct_memory", **correct)).status_code == 403
    assert (await served.mutate(dan, "console.correct_memory", **correct)).status_code == 200
    refused = await served.mutate(dan, "console.correct_memory", **correct)
    assert refused.status_code == 400, refused.text
    assert "WA024" in refused.text
    found = await asked(served, dan, "memories", **{**FILTER, "key": "refunds", "limit": "1"})
    chain = await asked(served, dan, "memory", id=found[0]["id"])
    assert [(each["value"], each["depth"], each["state"]) for each in chain] == [
        ("Eve handles refunds", 0, "live"),
        ("Bob handles refunds", 1, "replaced"),
        ("Ann handles refunds", 2, "replaced"),
    ]
    assert {each["may_change"] for each in await asked(served, vic, "memory", id=old)} == {False}
    (document,) = await asked(served, dan, "memories", **{**FILTER, "about": "dan", "limit": "1"})
    wrong = {"id": document["id"], "text": "{limit", "is_text": "false"}
    assert (await served.mutate(dan, "console.correct_memory", **wrong)).status_code == 400
    right = {**wrong, "text": '{"limit": 60}'}
    assert (await served.mutate(dan, "console.correct_memory", **right)).status_code == 200
    for name, given, state in (
        ("dispute_memory", {"disputed": "true"}, "disputed"),
        ("retract_memory", {}, "withdrawn"),
    ):
        done = await served.mutate(dan, f"console.{name}", id=chain[0]["id"], **given)
        assert done.status_code == 200, done.text
        chain = await asked(served, dan, "memory", id=chain[0]["id"])
        assert chain[0]["state"] == state
    await served.mutate(dan, "console.forget_memory", id=chain[0]["id"])
    assert await value(conn, "select count(*) from agent.memory where key = 'refunds'") == 0
    new = {"agent": "triage", "text": "New", "key": "", "kind": "semantic", "about": ""}
    assert (await served.mutate(vic, "console.remember", **new)).status_code == 403
    assert (await served.mutate(dan, "console.remember", **new)).status_code == 200
    stored = "select trust, created_by::text from agent.memory where value = '\"New\"'"
    assert await rows(conn, stored) == [("trusted", "dan")]


async def test_another_tenant_has_its_own(conn: AsyncConnection, served: Served) -> None:
    """Neither listed, nor opened, nor changed by its ID."""
    eve = await person(conn, "eve", "developer", tenant="acme")
    one = await value(conn, "select id::text from agent.memory where agent = 'other'")
    assert await texts(served, eve, state="live,disputed,replaced,withdrawn,expired") == []
    assert await asked(served, eve, "memory", id=one) == []
    for name, given in (
        ("correct_memory", {"text": "x", "is_text": "true"}),
        ("dispute_memory", {"disputed": "true"}),
        ("retract_memory", {}),
        ("forget_memory", {}),
    ):
        await served.mutate(eve, f"console.{name}", id=one, **given)
    kept = "select value, disputed, retracted_at from agent.memory where agent = 'other'"
    assert await rows(conn, kept) == [("Of another agent", False, None)]
