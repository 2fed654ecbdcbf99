"""The page of evaluations: lists, cases as their reader may see them, labels, and two compared."""

import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.helpers.people import person
from tests.helpers.shapes import Served
from tests.integration.console.test_page_tables import people
from walagent.console.declared import declared_queries
from walagent.console.evaluations import with_labels, with_p
from walagent.console.sessions import acting_role
from walagent.message import Json

SECRET = "CANARY"  # of columns that a viewer without a login may not read
OUTCOME = {"result": "Done.", "error": None, "tokens": 10, "cost": 0.5, "seconds": 1.5}


def outcome(amount: int | None, state: str = "succeeded", **more: object) -> dict[str, Any]:
    """What a run came to: it read, and wrote an amount, or nothing."""
    calls: list[Json] = [{"tool": "look", "arguments": {}, "state": "done", "reads": True}]
    if amount is not None:
        written: dict[str, Json] = {"amount": amount}
        calls.append({"tool": "update_row", "arguments": written, "state": "done", "reads": False})
    return {**OUTCOME, "state": state, "calls": calls, **more}


CHANGES = [
    {
        "table": "public.salary",
        "operation": "update",
        "columns": ["amount"],
        "before": {"id": "1", "amount": f"{SECRET} before"},
        "after": {"id": "1", "amount": f"{SECRET} after"},
    },
    {"table": "public.pay", "operation": "insert", "columns": ["salary"]},
]
DATASET = f"""
insert into agent.dataset (name, attachment, relation, columns, source)
values ('golden', 'audit', 'public.salary', '[]', 'runs');
insert into agent.dataset_case (dataset_id, key, change, run_id, expected, labelled_by, labelled_at)
select d.id, r.key, r.change, r.id, '{{"values": {{"amount": "{SECRET} label"}}}}', 'ann', now()
  from agent.dataset d, agent.run r order by r.id;
insert into agent.dataset_case (dataset_id, key, change)
select d.id, '9', '{{"schema": "public", "table": "salary", "op": "insert", "old": null,
                     "new": {{"id": 9, "employee": "{SECRET} row", "amount": 1}}}}'
  from agent.dataset d;
insert into agent.evaluation (attachment, agent, model, planned, held_until, ended_at, dataset,
                              draft, shadow)
values ('audit', 'audit', 'two', 4, now(), now(), 'golden', '{{"model": "two"}}', null),
       ('audit', 'audit', 'three', 2, now(), now(), null, '{{"system_prompt": "Check."}}', null),
       ('other', 'audit', 'four', 0, now(), null, null, '{{}}', 3);
"""
CASE = """
insert into agent.evaluation_case (evaluation_id, number, run_id, case_id, key, recorded, candidate,
                                   agrees, expected, was_right, is_right)
select %(of)s, %(number)s, r.id, c.id, %(key)s, %(recorded)s, %(candidate)s, %(agrees)s,
       %(expected)s, %(was)s, %(is)s
  from (select 1) one
       left join agent.run r on r.key = %(key)s and not %(alone)s
       left join agent.dataset_case c on c.key = %(key)s and %(of)s = 1
"""
LABEL = {"values": {"amount": f"{SECRET} label"}}


async def insert(conn: AsyncConnection, of: int, number: int, key: str, **given: Any) -> None:  # noqa: ANN401
    """A case of an evaluation, of the run of a key."""
    values: dict[str, Any] = {
        "of": of, "number": number, "key": key, "recorded": None, "agrees": None,
        "expected": None, "was": None, "is": None, "alone": False, **given,
    }  # fmt: skip
    documents = ("recorded", "candidate", "expected")
    dumped = {name: values[name] and json.dumps(values[name]) for name in documents}
    await conn.execute(CASE, {**values, **dumped})


Desk = tuple[Served, str, str, str]


@pytest.fixture
async def desk(conn: AsyncConnection, dsn: str) -> AsyncIterator[Desk]:
    """A server; a viewer with a login without a privilege, an approver, and that login."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(conn, DATASET)
        changed = outcome(2, changes=CHANGES, not_called=[], not_compared={})
        cases: tuple[Mapping[str, Any], ...] = (
            {"key": "1", "recorded": outcome(1), "candidate": changed, "agrees": False,
             "expected": LABEL, "was": False, "is": True},
            {"key": "2", "recorded": outcome(3), "candidate": outcome(3), "agrees": True,
             "expected": LABEL, "was": True, "is": True},
            {"key": "9", "candidate": outcome(4), "expected": LABEL, "is": False},
            {"key": "1", "recorded": outcome(1), "candidate": outcome(None, "failed"),
             "agrees": False},
        )  # fmt: skip
        for number, case in enumerate(cases, 1):
            await insert(conn, 1, number, **case)
        await insert(conn, 2, 1, "1", recorded=outcome(1), candidate=outcome(1), agrees=True)
        await insert(conn, 2, 2, "2", recorded=outcome(3), candidate=outcome(3), agrees=True,
                     expected=LABEL, was=True, **{"is": False})  # fmt: skip
        ada = await person(conn, "ada", "viewer", "approver")
        yield served, vic, ada, login


async def asked(served: Served, token: str, name: str, **given: str) -> list[dict[str, Any]]:
    """What a query of the page returns."""
    answer = await served.query(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def test_evaluations_are_listed_newest_first(desk: Desk) -> None:
    """In pages, and narrowed; a shadow has its version; what differs is said without a prompt."""
    served, vic, _, _ = desk
    page = {"limit": "2", "before": ""}
    first = await asked(served, vic, "evaluations", **page)
    rest = await asked(served, vic, "evaluations", **{**page, "before": first[-1]["id"]})
    found = [(each["id"], each["shadow"], each["state"]) for each in (*first, *rest)]
    assert found == [("3", 3, "running"), ("2", None, "finished"), ("1", None, "finished")]
    assert [each["differs"] for each in (*first, *rest)] == [{}, {"prompt": True}, {"model": "two"}]
    counts = ("cases", "agreeing", "differing", "labelled", "are_right", "cost")
    assert [rest[0][name] for name in counts] == ["4", "1", "2", "3", "2", "2.0"]
    for given, ids in (
        ({"agent": "audit"}, ["3", "2", "1"]),
        ({"agent": "nobody"}, []),
        ({"attachment": "audit,nothing"}, ["2", "1"]),
        ({"dataset": "golden"}, ["1"]),
    ):
        shown = await asked(served, vic, "evaluations", **{**page, "limit": "9", **given})
        assert [each["id"] for each in shown] == ids, given


async def test_an_evaluation_says_how_sure_it_is(desk: Desk) -> None:
    """Of the cases with a label and a recorded run alone, as `walagent evaluations show` does."""
    served, vic, _, _ = desk
    (found,) = await asked(served, vic, "evaluation", evaluation="1")
    names = ("tested", "first_right", "second_right", "better", "worse", "p", "failing")
    assert [found[name] for name in names] == ["2", "1", "2", "1", "0", 1.0, "1"]
    assert await asked(served, vic, "evaluation", evaluation="99") == []


async def test_cases_are_filtered_by_the_server_and_read_in_pages(desk: Desk) -> None:
    """In the order of their numbers; reads are left out of what a run did."""
    served, vic, _, _ = desk
    page = {"evaluation": "1", "only": "", "before": "", "limit": "3"}
    first = await asked(served, vic, "evaluation_cases", **page)
    rest = await asked(served, vic, "evaluation_cases", **{**page, "before": "3"})
    assert [each["number"] for each in (*first, *rest)] == [1, 2, 3, 4]
    did = [(each["recorded"], each["candidate"]) for each in (*first, *rest)]
    assert did == [
        ("amount = 1", "amount = 2"),
        ("amount = 3", "amount = 3"),
        (None, "amount = 4"),
        ("amount = 1", "failed: Done."),
    ]
    for only, numbers in {
        "differs": [1, 4], "right": [1, 2], "wrong": [3], "better": [1], "worse": [],
        "unlabelled": [4], "failed": [4],
    }.items():  # fmt: skip
        found = await asked(served, vic, "evaluation_cases", **{**page, "only": only})
        assert [each["number"] for each in found] == numbers, only


async def test_values_are_shown_to_who_can_read_them(conn: AsyncConnection, desk: Desk) -> None:
    """Rows, labels and changes, in lists and of one case; without a run, to approvers alone."""
    served, vic, ada, login = desk
    page = {"evaluation": "1", "only": "", "before": "", "limit": "9"}

    async def everything(token: str) -> str:
        one = [
            await asked(served, token, "evaluation_case", evaluation="1", number=str(n))
            for n in range(1, 5)
        ]
        pairs = await asked(served, token, "evaluation_pairs", first="1", second="2", limit="9")
        return str((await asked(served, token, "evaluation_cases", **page), one, pairs))

    assert SECRET not in await everything(vic)
    seen = await everything(ada)
    for each in ("row", "label", "before", "after"):
        assert f"{SECRET} {each}" in seen
    (case,) = await asked(served, vic, "evaluation_case", evaluation="1", number="1")
    assert (case["change"]["new"], case["change"]["hidden"]) == (None, 3)
    assert (case["expected"], case["hidden"]) == ({"values": {}}, ["amount"])
    assert case["changes"][0]["columns"] == ["amount"]
    await run_all(
        conn,
        f"update agent.principal set login = '{login}' where name = 'vic';"
        f"grant select (id, employee, amount) on salary to {login}",
    )
    seen = await everything(vic)
    for each in ("label", "before", "after"):
        assert f"{SECRET} {each}" in seen
    assert f"{SECRET} row" not in seen
    (case,) = await asked(served, vic, "evaluation_case", evaluation="1", number="1")
    assert case["change"]["new"] == {"id": 1, "employee": "e1", "amount": 1000}
    assert case["changes"][1]["columns"] == ["salary"]


async def test_who_sees_no_runs_sees_no_evaluation(conn: AsyncConnection, desk: Desk) -> None:
    """Nor its cases."""
    served, _, _, _ = desk
    nob = await person(conn, "nob", "developer")
    for name, given in (
        ("evaluations", {"limit": "9"}),
        ("evaluation", {"evaluation": "1"}),
        ("evaluation_cases", {"evaluation": "1", "limit": "9"}),
        ("evaluation_case", {"evaluation": "1", "number": "1"}),
        ("evaluation_pairs", {"first": "1", "second": "2", "limit": "9"}),
    ):
        assert await asked(served, nob, name, **given) == [], name
    (nothing,) = await asked(served, nob, "evaluations_compared", first="1", second="2")
    assert (nothing["cases"], nothing["first_cases"]) == ("0", "0")


async def test_an_approver_labels_the_case_that_was_read(conn: AsyncConnection, desk: Desk) -> None:
    """A label that somebody else gave meanwhile is not replaced; the evaluation stays as it is."""
    served, vic, ada, _ = desk
    place = {"evaluation": "1", "number": "1"}
    (case,) = await asked(served, ada, "evaluation_case", **place)
    assert case["labels"] == {
        "recorded": {"tools": ["update_row"], "values": {"amount": 1}},
        "candidate": {"tools": ["update_row"], "values": {"amount": 2}},
    }
    given = {**place, "digest": case["digest"], "expected": case["labels"]["candidate"]}
    assert (await served.mutate(vic, "console.label_case", **given)).status_code == 403
    assert (await served.mutate(ada, "console.label_case", **given)).status_code == 200
    assert (await served.mutate(ada, "console.label_case", **given)).status_code == 404
    (again,) = await asked(served, ada, "evaluation_case", **place)
    assert (again["label"], again["labelled_by"]) == (case["labels"]["candidate"], "ada")
    assert (again["expected"], again["is_right"]) == (LABEL, True)
    (listed, *_) = await asked(served, ada, "evaluation_cases", evaluation="1", limit="9")
    assert listed["is_labelled_since"]
    empty = {**place, "digest": again["digest"], "expected": None}
    assert (await served.mutate(ada, "console.label_case", **empty)).status_code == 200
    audited = (
        "select action, principal::text from agent.audit where action like 'case.%' order by 1"
    )
    assert await rows(conn, audited) == [("case.labelled", "ada"), ("case.unlabelled", "ada")]
    wrong = {**empty, "digest": "", "expected": {"values": 1}}
    assert (await served.mutate(ada, "console.label_case", **wrong)).status_code == 404


async def test_a_case_of_no_dataset_is_not_labelled(desk: Desk) -> None:
    """The score of its run is the label of later evaluations."""
    served, _, ada, _ = desk
    place = {"evaluation": "2", "number": "1"}
    (case,) = await asked(served, ada, "evaluation_case", **place)
    assert (case["case_id"], case["has_run"]) == (None, True)
    given = {**place, "digest": case["digest"], "expected": case["labels"]["candidate"]}
    assert (await served.mutate(ada, "console.label_case", **given)).status_code == 404


async def test_two_evaluations_are_compared_on_what_they_share(desk: Desk) -> None:
    """With the same labels; the rest is counted."""
    served, vic, _, _ = desk
    place = {"first": "1", "second": "2"}
    (found,) = await asked(served, vic, "evaluations_compared", **place)
    assert [found[name] for name in ("first_cases", "second_cases", "cases")] == ["4", "2", "3"]
    names = ("agreeing", "tested", "first_right", "second_right", "better", "worse", "p")
    assert [found[name] for name in names] == ["1", "1", "1", "0", "0", "1", 1.0]
    pairs = await asked(served, vic, "evaluation_pairs", **place, before="", limit="1")
    rest = await asked(served, vic, "evaluation_pairs", **place, before="1", limit="9")
    assert [
        (each["first_number"], each["second_number"], each["first"], each["second"])
        for each in (*pairs, *rest)
    ] == [(1, 1, "amount = 2", "amount = 1"), (4, 1, "failed: Done.", "amount = 1")]


def test_what_did_not_succeed_gives_no_label() -> None:
    """Nor does what was not recorded, or a question."""
    found = with_labels({"recorded": None, "candidate": outcome(1, "failed")})
    assert found["labels"] == {"recorded": None, "candidate": None}
    found = with_labels({"recorded": outcome(None), "candidate": {"question": "How many?"}})
    assert found["labels"] == {"recorded": {"tools": []}, "candidate": None}
    assert with_p({"better": "5", "worse": "0"})["p"] == 0.0625


MANY = """
set session_replication_role = replica;
insert into agent.run (kind, reason, queue_id, attachment_id, attachment_version, change, key,
                       state, finished_at)
select 'agent', 'manual', 1, 1, 1, jsonb_build_object(
           'schema', 'public', 'table', 't', 'op', 'insert',
           'new', jsonb_build_object('id', n, 'subject', 'Text ' || n, 'body', repeat('y', 800))),
       n::text, 'succeeded', now()
  from generate_series(1, 10000) n;
reset session_replication_role;
insert into agent.evaluation (attachment, agent, model, planned, held_until, ended_at)
select 'triage', 'triage', 'm', 10000, now(), now() from generate_series(1, 20);
insert into agent.evaluation_case (evaluation_id, number, run_id, key, recorded, candidate, agrees,
                                   expected, was_right, is_right)
select e, row_number() over (partition by e order by r.id), r.id, r.key, o.doc, o.doc,
       r.id % 7 <> 0, case when r.id % 3 = 0 then '{"values": {"category": "bug"}}'::jsonb end,
       case when r.id % 3 = 0 then r.id % 2 = 0 end, case when r.id % 3 = 0 then r.id % 5 > 0 end
  from agent.run r
       join generate_series(1, 20) e on e < 3 or r.id <= 500
       cross join lateral (select jsonb_build_object(
           'state', 'succeeded', 'result', 'Sorted.', 'error', null, 'tokens', 500, 'cost', 0.0012,
           'seconds', 1.1, 'calls', jsonb_build_array(jsonb_build_object(
               'tool', 'update_row', 'state', 'done', 'reads', false,
               'arguments', jsonb_build_object('category', r.id % (6 + e),
                                               'reason', repeat(md5(r.id::text), 20)))))) o (doc);
analyze agent.run, agent.evaluation, agent.evaluation_case
"""
OF_MANY = {"first": "1", "second": "2", "evaluation": "1", "number": "7", "limit": "50"}


@pytest.mark.slow
async def test_ten_thousand_cases_are_read_at_once(conn: AsyncConnection) -> None:
    """No list reads all of two evaluations for each of its rows: that takes 12 seconds."""
    await person(conn, "vic", "viewer")
    await run_all(conn, MANY)
    login = await acting_role(conn)
    async with conn.transaction():
        await conn.execute("select agent_internal.assume('default', 'vic')")
        await conn.execute(f"set local role {login}".encode())
        for declared in declared_queries():
            if not declared.name.startswith("console.evaluation"):
                continue
            given = {each: OF_MANY.get(each, "") for each in declared.parameters}
            began = time.monotonic()
            cursor = await conn.execute(declared.text.encode(), given)
            assert len(await cursor.fetchall()) > 0, declared.name
            assert time.monotonic() - began < 3, declared.name
        await conn.execute("reset role")
    assert await value(conn, "select count(*) from agent.evaluation_case") == 29_000


QUESTIONS = """
insert into agent.evaluation (model, planned, held_until, ended_at)
values ('m', 1, now(), now()) returning id
"""


async def test_a_question_is_shown_with_both_statements(conn: AsyncConnection, desk: Desk) -> None:
    """And not with the case of a dataset that has the same number."""
    served, vic, _, _ = desk
    of = await value(conn, QUESTIONS)
    candidate = {
        "state": "succeeded", "question": "How many?", "sql": ["select 1", "select 2"], "run": 7,
        "calls": [], "error": "other values", "result": None, "tokens": 5, "cost": 0.1,
        "seconds": 1.0,
    }  # fmt: skip
    await conn.execute(
        "insert into agent.evaluation_case (evaluation_id, number, case_id, candidate, expected,"
        " is_right) values (%s, 1, 1, %s, %s, false)",
        [of, json.dumps(candidate), json.dumps({"sql": "select 3"})],
    )
    given = {"evaluation": str(of)}
    (listed, *_) = await asked(served, vic, "evaluations", limit="5", before="")
    assert (listed["attachment"], listed["are_right"], listed["labelled"]) == (None, "0", "1")
    (line,) = await asked(served, vic, "evaluation_cases", **given, only="", before="", limit="5")
    assert (line["title"], line["expected"], line["candidate"]) == (
        "How many?",
        "select 3",
        "other values",
    )
    assert (line["relation"], line["is_labelled_since"]) == (None, False)
    (case,) = await asked(served, vic, "evaluation_case", **given, number="1")
    assert case["candidate"]["sql"] == ["select 1", "select 2"]
    assert (case["expected"], case["change"], case["dataset"]) == ({"sql": "select 3"}, None, None)
