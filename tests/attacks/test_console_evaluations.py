"""The page of evaluations, asked by who may not see rows, labels, or any of it."""

import json

from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.helpers.people import person, token_of
from tests.helpers.shapes import Served
from tests.integration.console.test_page_evaluations import SECRET, Desk, desk
from tests.integration.console.test_page_tables import RENAMED

__all__ = ["desk"]

QUERIES = {
    "evaluations": {},
    "evaluation": {"evaluation": "1"},
    "evaluation_cases": {"evaluation": "1"},
    **{f"evaluation_case {n}": {"evaluation": "1", "number": str(n)} for n in range(1, 5)},
    "evaluation_pairs": {"first": "1", "second": "2"},
    "evaluations_compared": {"first": "1", "second": "2"},
}
LABELS = "select id, expected, labelled_by::text, labelled_at from agent.dataset_case order by id"
LOGIN = """
update agent.principal set login = '{login}' where name = 'vic';
grant select on salary to {login};
"""
# An evaluation of another tenant whose case names a case of a dataset of this one.
FOREIGN = """
insert into agent.evaluation (attachment, agent, model, planned, held_until, tenant)
values ('x', 'x', 'm', 1, now(), 'other');
insert into agent.evaluation_case (evaluation_id, number, run_id, case_id, candidate, tenant)
select e.id, 1, r.id, c.id, '{"calls": [], "state": "succeeded"}', 'other'
  from agent.evaluation e, agent.run r, agent.dataset_case c
 where e.tenant = 'other' and r.key = '1' and c.key = '1'
"""


async def everything(served: Served, token: str) -> str:
    """What all queries of the page answer, refusals as well."""
    texts = list[str]()
    for name, given in QUERIES.items():
        answer = await served.query(token, f"console.{name.split()[0]}", limit="50", **given)
        assert answer.status_code < 500, answer.text
        texts.append(answer.text)
    return "\n".join(texts)


async def test_another_tenant_reads_nothing(conn: AsyncConnection, desk: Desk) -> None:
    """Neither a case nor how many there are; nor who may not read, or sees no runs."""
    served, _, ada, _ = desk
    assert SECRET in await everything(served, ada)
    for token in (
        await person(conn, "eve", "viewer", "approver", "admin", tenant="other"),
        await token_of(conn, "ada", "post"),
        await person(conn, "dev", "developer"),
        await person(conn, "nob"),
    ):
        seen = await everything(served, token)
        for each in (SECRET, "amount", "golden", "audit", "two", "salary", "e1"):
            assert f'"{each}' not in seen, each
        answer = await served.query(token, "console.evaluations_compared", first="1", second="2")
        if answer.status_code == 200:
            (counts,) = answer.json()["rows"]
            assert {str(v) for k, v in counts.items() if k not in {"first", "second", "p"}} == {"0"}


async def test_who_may_not_decide_labels_nothing(conn: AsyncConnection, desk: Desk) -> None:
    """Whatever the token has beside it; it is refused, and nothing is changed."""
    served, vic, ada, _ = desk
    answer = await served.query(ada, "console.evaluation_case", evaluation="1", number="1")
    (case,) = answer.json()["rows"]
    given = {"evaluation": "1", "number": "1", "digest": case["digest"], "expected": {"tools": []}}
    before = await rows(conn, LABELS)
    for token, statuses in (
        (vic, {403}),
        (await person(conn, "dev", "developer", "viewer", "auditor"), {403}),
        (await token_of(conn, "ada", "read"), {403}),
        (await token_of(conn, "ada", "approve"), {404}),  # it reads nothing, so it has read nothing
        (await person(conn, "eve", "viewer", "approver", "admin", tenant="other"), {404}),
        ("walagent-token", {401}),
    ):
        answer = await served.mutate(token, "console.label_case", **given)
        assert answer.status_code in statuses, answer.text
        assert await rows(conn, LABELS) == before
    refused = "select principal::text from agent.audit where action = 'request.refused' order by 1"
    assert await rows(conn, refused) == [("ada",), ("dev",), ("vic",)]


async def test_a_case_of_an_own_evaluation_leads_to_no_row_of_others(
    conn: AsyncConnection, desk: Desk
) -> None:
    """The numbers of a run and of a case of another tenant are only numbers."""
    served, _, _, _ = desk
    eve = await person(conn, "eve", "viewer", "approver", "admin", tenant="other")
    await run_all(conn, FOREIGN)
    own = await value(conn, "select id from agent.evaluation where tenant = 'other'")
    place = {"evaluation": str(own), "number": "1"}
    (case,) = (await served.query(eve, "console.evaluation_case", **place)).json()["rows"]
    assert SECRET not in json.dumps(case)
    names = ("has_run", "change", "label", "labelled_by", "dataset", "relation")
    assert [case[name] for name in names] == [False, None, None, None, None, None]
    before = await rows(conn, LABELS)
    given = {**place, "digest": case["digest"], "expected": {"tools": []}}
    assert (await served.mutate(eve, "console.label_case", **given)).status_code == 404
    assert await rows(conn, LABELS) == before


async def test_a_table_of_the_same_name_shows_nothing_of_the_one_before(
    conn: AsyncConnection, desk: Desk
) -> None:
    """Rights are those of the table that the attachment of the run is of, if it still is."""
    served, vic, _, login = desk
    await run_all(conn, LOGIN.format(login=login))
    assert SECRET in await everything(served, vic)
    await run_all(conn, f"revoke select on salary from {login}")
    await run_all(conn, RENAMED.format(login=login))
    assert SECRET not in await everything(served, vic)
    await run_all(conn, f"grant select on salary_2025 to {login}")
    assert SECRET in await everything(served, vic)
    await run_all(conn, "delete from agent.attachment")
    assert SECRET not in await everything(served, vic)
