"""The audit as a page: who did what, for those who may read it; and whether it is unchanged."""

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all, value
from tests.helpers.people import person
from tests.helpers.shapes import Served, serving
from walagent.config import Replication
from walagent.replication.bootstrap import ensure_slot

FILTER = dict.fromkeys(("entry", "who", "did", "object", "since", "until", "q"), "")
DONE = """
insert into agent.model (name, provider, model_id) values ('one', 'scripted', 'one');
insert into agent.agent (name, model, system_prompt) values ('triage', 'one', 'Check it.');
select agent.create_tenant('acme');
select agent.create_principal('eve', tenant => 'acme');
"""
AS_ANN = """
select agent_internal.assume('default', 'ann');
select agent.create_principal('bob');
select agent.grant_role('bob', 'viewer');
"""
TAMPER = """
set session_replication_role = replica;
update agent.audit set object = 'x' where tenant = 'default' and number = 2;
set session_replication_role = origin
"""


@pytest.fixture
async def desk(conn: AsyncConnection, dsn: str) -> AsyncIterator[tuple[Served, str, str]]:
    """A server, and tokens of an admin and of a viewer."""
    ann = await person(conn, "ann", "admin")
    vic = await person(conn, "vic", "viewer")
    await run_all(conn, DONE)
    async with conn.transaction():
        await run_all(conn, AS_ANN)
    await ensure_slot(conn, dsn, Replication(slot=conn.info.dbname))
    async with serving(conn, dsn) as served:
        yield served, ann, vic
    await run_all(conn, "delete from agent.agent")


async def asked(served: Served, token: str, name: str, **given: str) -> list[dict[str, Any]]:
    """What a query of the page returns."""
    answer = await served.query(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def entries(served: Served, token: str, **given: str) -> list[tuple[str, str, str]]:
    """Who did what to what, newest first."""
    found = await asked(served, token, "audit", **{**FILTER, "before": "", "limit": "100", **given})
    return [(each["principal"], each["action"], each["object"]) for each in found]


async def test_an_auditor_reads_who_did_what(
    conn: AsyncConnection, desk: tuple[Served, str, str]
) -> None:
    """Filtered by person, act, object, time and words; in pages; of its tenant alone."""
    served, ann, _ = desk
    everything = await entries(served, ann)
    assert ("eve", "principal.created") not in [each[1:] for each in everything]
    assert "eve" not in {each[2] for each in everything}
    assert await entries(served, ann, who="ann") == [
        ("ann", "role_grant.created", "bob viewer"),
        ("ann", "principal.created", "bob"),
    ]
    assert await entries(served, ann, who="ann", did="role_grant") == [
        ("ann", "role_grant.created", "bob viewer")
    ]
    created = await entries(served, ann, did="created", object="bob")
    assert [each[1] for each in created] == ["role_grant.created", "principal.created"]
    assert await entries(served, ann, did="principal.created", object="bob", since="1h")
    assert await entries(served, ann, until="1h") == []
    assert [each[2] for each in await entries(served, ann, q="TRIAGE")] == ["triage"]
    (row,) = await asked(
        served, ann, "audit", **{**FILTER, "object": "triage", "before": "", "limit": "9"}
    )
    assert await entries(served, ann, entry=row["number"]) == [
        (row["principal"], "agent.created", "triage")
    ]
    assert (row["detail"], row["kind"]) == ({"version": 1}, "login")
    first = await asked(served, ann, "audit", **FILTER, before="", limit="2")
    rest = await entries(served, ann, before=first[-1]["number"])
    assert rest == everything[2:]
    counts = await asked(served, ann, "audit_counts", **{**FILTER, "who": "ann"})
    assert {(each["did"], each["n"]) for each in counts} == {
        ("role_grant.created", "1"),
        ("principal.created", "1"),
    }
    (reach,) = await asked(served, ann, "audit_reach")
    assert reach["entries"] == str(len(everything))
    assert reach["since"] is not None


async def test_who_is_no_auditor_reads_nothing_of_it(desk: tuple[Served, str, str]) -> None:
    """Neither rows nor how many there are; the session names the role."""
    served, ann, vic = desk
    assert await entries(served, vic) == []
    for name in ("audit_counts", "audit_reach"):
        assert await asked(served, vic, name, **FILTER) == []
    assert await asked(served, vic, "audit_chain", tenant="", number="", digest="") == []
    for token, roles in (ann, True), (vic, False):
        url = f"http://127.0.0.1:{served.port}/v1/session"
        answer = await served.http.get(url, headers={"authorization": f"Bearer {token}"})
        assert ("auditor" in answer.json()["roles"]) is roles


async def test_the_chain_is_computed_where_it_is_read(
    conn: AsyncConnection, desk: tuple[Served, str, str]
) -> None:
    """It names the first bad row; with a head of the log, also a chain that was rewritten."""
    served, ann, _ = desk

    async def chain(**given: str) -> Mapping[str, Any]:
        empty = {"tenant": "", "number": "", "digest": ""}
        (found,) = await asked(served, ann, "audit_chain", **{**empty, **given})
        return found

    found = await chain()
    assert (found["tenant"], found["bad_row"]) == ("default", None)
    number, _, digest = found["head"].partition(":")
    assert number == found["rows"]
    assert (await chain(number=number, digest=digest))["bad_row"] is None
    other = await chain(number=number, digest="0" * 64)
    assert (other["bad_row"], "rewritten" in other["reason"]) == (number, True)
    await run_all(conn, TAMPER)
    found = await chain()
    assert (found["bad_row"], found["reason"]) == ("2", "the row was changed")
    assert await value(conn, "select count(*) from agent.audit where object = 'x'") == 1
