"""Documents as a page: found by words, changed by who may, of one tenant."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.helpers.people import person
from tests.helpers.shapes import Served, serving

STORED = """
insert into agent.document (title, body, source, updated_at)
select 'Page ' || n, 'Nothing of it', '', '2026-01-01' from generate_series(1, 5) n;
insert into agent.document (title, body, source) values
    ('Refund policy', 'Customers get their money back within 30 days.', 'https://wiki.example/a'),
    ('Refund policy of 2020', 'Customers get nothing back.', '');
insert into agent.document_link (from_id, to_id, relation)
select n.id, o.id, 'supersedes' from agent.document n, agent.document o
 where n.title = 'Refund policy' and o.title like '%2020';
"""


@pytest.fixture
async def served(conn: AsyncConnection, dsn: str) -> AsyncIterator[Served]:
    """A server, and some documents."""
    await run_all(conn, STORED)
    async with serving(conn, dsn) as found:
        yield found


async def asked(served: Served, token: str, name: str, **given: str) -> list[dict[str, Any]]:
    """What a query of the page returns."""
    answer = await served.query(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def test_documents_are_listed_and_found_by_words(
    conn: AsyncConnection, served: Served
) -> None:
    """What is superseded is listed, and not found; pages leave none out."""
    vic = await person(conn, "vic", "viewer")
    seen, before = list[str](), ""
    while page := await asked(served, vic, "documents", q="", before=before, limit="2"):
        seen += [each["title"] for each in page]
        before = page[-1]["place"]
    assert sorted(seen) == sorted(
        [*(f"Page {n}" for n in range(1, 6)), "Refund policy", "Refund policy of 2020"]
    )
    (found,) = await asked(served, vic, "documents", q="refunds", before="", limit="9")
    assert (found["title"], found["is_superseded"]) == ("Refund policy", False)
    assert "money back" in found["excerpt"]
    (whole,) = await asked(served, vic, "document", id=found["id"])
    assert (whole["body"], whole["state"], whole["may_change"]) == (
        "Customers get their money back within 30 days.",
        "queued",
        False,
    )
    assert [(each["relation"], each["title"], each["is_of"]) for each in whole["links"]] == [
        ("supersedes", "Refund policy of 2020", False)
    ]


async def test_a_developer_writes_documents(conn: AsyncConnection, served: Served) -> None:
    """What somebody has changed meanwhile is not overwritten; what is too long is refused."""
    vic, dan = await person(conn, "vic", "viewer"), await person(conn, "dan", "developer")
    new = {"title": "Hours", "body": "Nine to five.", "source": ""}
    assert (await served.mutate(vic, "console.add_document", **new)).status_code == 403
    stored = await served.mutate(dan, "console.add_document", **new)
    one = stored.json()["result"]
    change = {**new, "id": one, "base": "1", "body": "Eight to four."}
    assert (await served.mutate(vic, "console.change_document", **change)).status_code == 403
    assert (await served.mutate(dan, "console.change_document", **change)).status_code == 200
    assert (await served.mutate(dan, "console.change_document", **change)).status_code == 404
    for wrong in {"title": ""}, {"title": "x" * 1_001}, {"body": "x" * 1_048_577}:
        answer = await served.mutate(
            dan, "console.change_document", **{**change, "base": "2", **wrong}
        )
        assert answer.status_code == 400, answer.text
    kept = "select body, version, created_by::text from agent.document where title = 'Hours'"
    assert await rows(conn, kept) == [("Eight to four.", 2, "dan")]
    assert (await served.mutate(vic, "console.remove_document", id=one)).status_code == 403
    assert (await served.mutate(dan, "console.remove_document", id=one)).status_code == 200
    assert (await served.mutate(dan, "console.remove_document", id=one)).status_code == 404


async def test_another_tenant_has_its_own(conn: AsyncConnection, served: Served) -> None:
    """Neither listed, nor found, nor changed by its ID."""
    eve = await person(conn, "eve", "developer", tenant="acme")
    one = await value(conn, "select id::text from agent.document where title = 'Refund policy'")
    assert await asked(served, eve, "documents", q="", before="", limit="9") == []
    assert await asked(served, eve, "documents", q="refund", before="", limit="9") == []
    assert await asked(served, eve, "document", id=one) == []
    given = {"id": one, "base": "1", "title": "x", "body": "x", "source": ""}
    assert (await served.mutate(eve, "console.change_document", **given)).status_code == 404
    assert (await served.mutate(eve, "console.remove_document", id=one)).status_code == 404
