"""The page of changes: rows that runs changed, what others changed of them, and taking back."""

from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import rows, run_all, value
from tests.helpers.people import person
from tests.helpers.shapes import Served
from tests.integration.console.test_page_tables import people

NOTHING = dict.fromkeys(("agent", "relation", "key", "column", "run", "since", "until"), "")
LONG = "x" * 301
WRITTEN = f"""
insert into agent.row_change (run_id, commit_lsn, ordinal, xid, committed_at, relation, schema_name,
                              table_name, op, source, key, columns, before, after, omitted)
select r.id, '0/1', 0, 7, now() - interval '2 days', 'salary'::regclass, 'public', 'salary',
       'update', 'statement', jsonb_build_object('id', r.key), '{{amount,employee}}',
       '{{"amount": null, "employee": "a"}}', '{{"amount": "5", "employee": ""}}', '{{}}'
  from agent.run r where r.key = '1';
insert into agent.row_change (run_id, commit_lsn, ordinal, xid, committed_at, relation, schema_name,
                              table_name, op, source, key, columns, before, after, omitted)
select r.id, '0/1', n, 7, now(), 'salary'::regclass, 'public', 'salary', 'insert', 'trigger',
       jsonb_build_object('id', n::text), null, null,
       jsonb_build_object('id', n::text, 'employee', '{LONG}'), '{{amount}}'
  from agent.run r, generate_series(3, 5) n where r.key = '2';
insert into agent.correction (run_id, commit_lsn, ordinal, column_name, number, kind, relation,
                              schema_name, table_name, key, wrote, value, xid, committed_at)
select r.id, '0/9', n, 'employee', 1, 'changed', 'salary'::regclass, 'public', 'salary',
       jsonb_build_object('id', n::text), '', null, 8, now()
  from agent.run r, generate_series(1, 3) n where r.key = '1';
update agent.correction set corrected_by = 'ada' where ordinal = 3;
update agent.row_change c
   set numbers = (select jsonb_object_agg(attname, attnum) from pg_attribute
                   where attrelid = c.relation and attnum > 0);
update agent.correction c
   set number = (select attnum from pg_attribute
                  where attrelid = c.relation and attname = c.column_name);
update agent.run set state = 'cancelled', finished_at = now();
"""
QUEUED = "select id::text, undoes::text from agent.run where kind = 'revert'"


async def asked(served: Served, token: str, name: str, **given: str) -> list[dict[str, Any]]:
    """What a query of the page returns."""
    answer = await served.query(token, f"console.{name}", **given)
    assert answer.status_code == 200, answer.text
    return answer.json()["rows"]


async def listed(served: Served, token: str, **given: str) -> list[dict[str, Any]]:
    """A page of changes."""
    return await asked(
        served, token, "changes", **{**NOTHING, "before": "", "limit": "50", **given}
    )


async def test_accuracy_is_of_the_columns_that_the_agent_writes(
    conn: AsyncConnection, dsn: str
) -> None:
    """For those who see its runs."""
    async with people(conn, dsn) as (served, _, _):
        await run_all(conn, WRITTEN)
        await run_all(
            conn,
            "update agent.attachment_version"
            ' set definition = definition || \'{"writes": ["amount", "employee"]}\'',
        )
        ada = await person(conn, "ada", "viewer")
        found = await asked(served, ada, "accuracy", agent="audit")
        assert [
            tuple(each[name] for name in ("version", "column_name", "written", "corrected"))
            for each in found
        ] == [(1, "amount", "1", "0"), (1, "employee", "1", "1")]
        assert await asked(served, ada, "accuracy", agent="other") == []
        assert await asked(served, await person(conn, "nob"), "accuracy", agent="audit") == []


async def test_changes_are_filtered_and_read_in_pages(conn: AsyncConnection, dsn: str) -> None:
    """Newest first; NULL, an empty text and a value that is not known are three things."""
    async with people(conn, dsn) as (served, _, _):
        await run_all(conn, WRITTEN)
        run = str(await value(conn, "select min(id) from agent.run"))
        ada = await person(conn, "ada", "viewer", "approver")
        every = await listed(served, ada)
        assert [each["key"] for each in every] == ["5", "4", "3", "1"]
        inserted, updated = every[0], every[-1]
        assert (updated["before"], updated["after"], updated["hidden"]) == (
            {"amount": None, "employee": "a"},
            {"amount": "5", "employee": ""},
            [],
        )
        assert (inserted["before"], inserted["omitted"], inserted["source"]) == (
            None, ["amount"], "trigger",
        )  # fmt: skip
        assert (inserted["cut"], len(inserted["after"]["employee"])) == (["employee"], 300)
        for given, keys in (
            ({"agent": "audit"}, 4),
            ({"agent": "audit,other"}, 4),
            ({"agent": "other"}, 0),
            ({"relation": "salary"}, 4),
            ({"relation": "public.salary"}, 4),
            ({"relation": "alary"}, 0),
            ({"key": "1,4"}, 2),
            ({"column": "amount"}, 4),
            ({"column": "id"}, 3),
            ({"run": run}, 1),
            ({"since": "24h"}, 3),
            ({"until": "24h"}, 1),
        ):
            assert len(await listed(served, ada, **given)) == keys, given
        first = await listed(served, ada, limit="2")
        assert [*first, *await listed(served, ada, before=first[-1]["place"])] == every


async def test_corrections_are_read_in_pages(conn: AsyncConnection, dsn: str) -> None:
    """With both values, for who can read the column; others learn that it is hidden."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(conn, WRITTEN)
        ada = await person(conn, "ada", "viewer", "approver")
        page = {**NOTHING, "before": "", "limit": "2"}
        first = await asked(served, ada, "corrections", **page)
        rest = await asked(served, ada, "corrections", **{**page, "before": first[-1]["place"]})
        assert [each["key"] for each in (*first, *rest)] == ["3", "2", "1"]
        assert (first[0]["wrote"], first[0]["value"], first[0]["is_hidden"]) == ("", None, False)
        assert [each["corrected_by"] for each in (*first, *rest)] == ["ada", None, None]
        (hidden,) = await asked(served, vic, "corrections", **{**page, "key": "3"})
        assert (hidden["wrote"], hidden["value"], hidden["is_hidden"]) == (None, None, True)
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        await run_all(conn, f"grant select (employee) on salary to {login}")
        (shown,) = await asked(served, vic, "corrections", **{**page, "key": "3"})
        assert (shown["wrote"], shown["is_hidden"]) == ("", False)
        assert await asked(served, vic, "corrections", **{**page, "column": "amount"}) == []


FALLEN = """
set session_replication_role = replica;
insert into agent.run (id, reason, queue_id, attachment_id, attachment_version, change, key, state,
                       finished_at)
overriding system value
select 1000 + n, 'manual', id, id, version, '{}', n::text, 'succeeded', now()
  from agent.attachment, generate_series(1, 200) n;
reset session_replication_role;
insert into agent.row_change (run_id, commit_lsn, ordinal, xid, committed_at, relation, schema_name,
                              table_name, op, source, key, columns, after)
select 1000 + n, '0/1', 0, 1, now() - case when n <= 50 then '1 day' else '20 days' end::interval,
       'salary'::regclass, 'public', 'salary', 'update', 'statement', '{}', '{amount}', '{}'
  from generate_series(1, 200) n;
update agent.attachment_version set definition = definition || '{"writes": ["amount"]}'
"""
WRONG = """
insert into agent.score (run_id, principal, value)
select 1000 + n, 'ada', -1 from generate_series({}) n
"""


async def test_accuracy_that_fell_is_said_with_both_figures(
    conn: AsyncConnection, dsn: str
) -> None:
    """Not what chance alone can do; and to those who see runs."""
    async with people(conn, dsn) as (served, vic, _):
        await run_all(conn, FALLEN)
        await run_all(conn, WRONG.format("51, 56"))  # 6 of 150
        await run_all(conn, WRONG.format("1, 4"))  # 4 of 50
        assert await asked(served, vic, "accuracy_fell") == []
        await run_all(conn, WRONG.format("5, 8"))  # 8 of 50
        assert await asked(served, vic, "accuracy_fell") == [
            {
                "agent": "audit",
                "written": "50",
                "wrong": "8",
                "written_before": "150",
                "wrong_before": "6",
            }
        ]
        assert await asked(served, await person(conn, "nob"), "accuracy_fell") == []
        await run_all(conn, "delete from agent.score where run_id <= 1050")
        assert await asked(served, vic, "accuracy_fell") == []


SCORED = """
set session_replication_role = replica;
update agent.run set state = 'succeeded';
reset session_replication_role;
insert into agent.step (run_id, seq, kind, content)
select id, 900, 'note', '{"text": "A call is required here.", "correction": true}' from agent.run;
update agent.run set created_at = now() - interval '8 days' where key = '2'
"""


async def test_runs_to_score_are_read_in_pages(conn: AsyncConnection, dsn: str) -> None:
    """Those of a week, or since a time; a score takes one off, and is shown with its run."""
    async with people(conn, dsn) as (served, vic, _):
        await run_all(conn, WRITTEN)
        await run_all(conn, SCORED)
        ada = await person(conn, "ada", "viewer", "approver")
        page = {**NOTHING, "before": "", "limit": "1"}
        (first,) = await asked(served, ada, "unscored", **page)
        assert (first["key"], first["reasons"]) == ("1", ["corrected", "mistakes"])
        assert await asked(served, ada, "unscored", **{**page, "before": first["place"]}) == []
        page |= {"limit": "50", "since": "9d"}
        for given, keys in (
            ({}, ["2", "1"]),
            ({"agent": "audit"}, ["2", "1"]),
            ({"agent": "other"}, []),
            ({"relation": "salary"}, ["2", "1"]),
            ({"key": "2"}, ["2"]),
            ({"column": "amount"}, ["1"]),
            ({"until": "24h"}, ["2"]),
        ):
            found = await asked(served, vic, "unscored", **{**page, **given})
            assert [each["key"] for each in found] == keys, given
        said = {"run": first["run_id"], "value": -1, "comment": ""}
        refused = await served.mutate(vic, "console.score", **said)
        assert refused.status_code == 403
        assert (await served.mutate(ada, "console.score", **said)).status_code == 200
        assert [each["key"] for each in await asked(served, vic, "unscored", **page)] == ["2"]
        (score,) = await asked(served, vic, "scores", run=first["run_id"])
        assert (score["principal"], score["value"], score["comment"]) == ("ada", -1, None)


async def test_values_of_changes_are_shown_to_who_can_read_them(
    conn: AsyncConnection, dsn: str
) -> None:
    """Others see table, key and columns, and that the values are hidden from them."""
    async with people(conn, dsn) as (served, vic, login):
        await run_all(conn, WRITTEN)
        (row,) = await listed(served, vic, key="1")
        assert (row["before"], row["after"]) == (None, None)
        assert (row["columns"], sorted(row["hidden"])) == (
            ["amount", "employee"],
            ["amount", "employee"],
        )
        await run_all(conn, f"update agent.principal set login = '{login}' where name = 'vic'")
        await run_all(conn, f"grant select (amount) on salary to {login}")
        (row,) = await listed(served, vic, key="1")
        assert (row["before"], row["after"]) == ({"amount": None}, {"amount": "5"})
        assert row["hidden"] == ["employee"]


@pytest.mark.parametrize(("held", "status"), [(("viewer",), 403), (("viewer", "approver"), 200)])
async def test_an_approver_takes_a_run_back(
    conn: AsyncConnection, dsn: str, held: tuple[str, ...], status: int
) -> None:
    """A viewer is refused, and nothing is queued; a second one is told who was first."""
    async with people(conn, dsn) as (served, _, _):
        await run_all(conn, WRITTEN)
        run = str(await value(conn, "select min(id) from agent.run"))
        someone = await person(conn, "someone", *held)
        given = {"run": run, "dry_run": False, "only_unchanged": True}
        answer = await served.mutate(someone, "console.revert", **given)
        assert answer.status_code == status, answer.text
        made = await rows(
            conn, "select id::text, undoes::text from agent.run where kind = 'revert'"
        )
        if status != 200:
            assert made == []
            return
        reverting = answer.json()["result"]
        assert made == [(reverting, run)]
        for asked_for in (run, reverting):
            (row,) = await asked(served, someone, "reverts", run=asked_for)
            assert (row["id"], row["undoes"], row["by"]) == (reverting, run, "someone")
            assert (row["is_dry"], row["only_unchanged"], row["is_in_effect"]) == (
                False, True, False,
            )  # fmt: skip
        again = await served.mutate(someone, "console.revert", **given)
        assert (again.status_code, f"by run {reverting}" in again.text) == (409, True), again.text
