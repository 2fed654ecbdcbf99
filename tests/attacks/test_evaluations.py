"""Evaluations and datasets: of a tenant, for those who see runs; labels are for approvers."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, refused, role, rows, run_all, session, value
from tests.helpers.people import acting, application, person
from walagent.domain.agent_spec import Target
from walagent.store.relations.changed_rows import Cells, ChangedRow
from walagent.trial.cases import Case
from walagent.trial.replaying import written

FILLED = """
insert into agent.dataset (name, attachment, relation, columns, source, tenant)
values ('golden', 'desk', 'public.t', '[]', 'runs', '{0}');
insert into agent.dataset_case (dataset_id, key, change, run_id, tenant)
select id, '1', '{{"new": {{"secret": "{0}"}}}}', 1, '{0}' from agent.dataset where tenant = '{0}';
insert into agent.evaluation (attachment, agent, model, planned, held_until, tenant)
values ('desk', 'desk', 'm', 1, now(), '{0}');
insert into agent.evaluation_case (evaluation_id, number, run_id, candidate, tenant)
select id, 1, 1, '{{}}', '{0}' from agent.evaluation where tenant = '{0}';
"""
TABLES = ("dataset", "dataset_case", "evaluation", "evaluation_case", "evaluation_overview")
LABEL = "select agent.label_case(%s, %s)"
WRITES = (
    "insert into agent.dataset (name) values ('x')",
    "update agent.dataset_case set expected = '{\"tools\": []}'",
    "delete from agent.dataset_case",
    "insert into agent.evaluation (attachment) values ('x')",
    "update agent.evaluation set error = null",
    "update agent.evaluation_case set is_right = true",
    "delete from agent.evaluation_case",
    "select agent_internal.reserve_charge(1, 'default', 'm', 1, 1)",
    "select agent_internal.settle_charge(1, 0, 0)",
    "select agent_internal.release_charges('{1}')",
    "delete from agent_internal.evaluation_charge",
)


@pytest.fixture
async def filled(conn: AsyncConnection) -> AsyncConnection:
    """A dataset and an evaluation in each of two tenants."""
    for tenant in ("default", "other"):
        await run_all(
            conn, f"insert into agent.tenant (name) values ('{tenant}') on conflict do nothing"
        )
        await run_all(conn, FILLED.format(tenant))
    return conn


async def _case(conn: AsyncConnection, tenant: str) -> object:
    return await value(conn, "select id from agent.dataset_case where tenant = %s", tenant)


async def test_what_is_of_another_tenant_is_neither_seen_nor_labelled(
    filled: AsyncConnection, dsn: str
) -> None:
    """Also not by an approver, who labels the cases of its own; and that is in the audit."""
    token = await person(filled, "ann", "viewer", "approver")
    theirs, own = await _case(filled, "other"), await _case(filled, "default")
    async with application(filled, dsn, "viewer", "approver") as conn:
        async with acting(conn, token):
            for table in TABLES:
                assert await column(conn, f"select tenant from agent.{table}") == ["default"]
            await refused(conn, LABEL, theirs, '{"tools": []}', state="WA005")
        async with conn.transaction():
            await conn.execute("select agent.act_as(%s)", [token])
            await conn.execute(LABEL, [own, '{"tools": ["a"]}'])
    labels = (
        "select tenant, expected is not null, labelled_by::text from agent.dataset_case order by 1"
    )
    assert await rows(filled, labels) == [("default", True, "ann"), ("other", False, None)]
    audited = "select principal::text, object from agent.audit where action = 'case.labelled'"
    assert await rows(filled, audited) == [("ann", str(own))]


@pytest.mark.parametrize("capability", ["viewer", "developer", "asker", "member"])
async def test_a_lower_capability_can_do_nothing(
    filled: AsyncConnection, dsn: str, capability: str
) -> None:
    """It writes no row, gives no label, and moves no budget."""
    case = await _case(filled, "default")
    async with role(filled) as login:
        await run_all(filled, f"select agent.grant_{capability}('{login}')")
        async with session(dsn, user=login) as conn:
            for statement in (*WRITES, f"select agent.label_case({case}, '{{\"tools\": []}}')"):
                await refused(conn, statement, state="42501")


async def test_who_decides_writes_labels_by_the_function_alone(
    filled: AsyncConnection, dsn: str
) -> None:
    """The capability approver writes none of the tables."""
    async with role(filled) as login:
        await run_all(filled, f"select agent.grant_approver('{login}')")
        async with session(dsn, user=login) as conn:
            for statement in WRITES:
                await refused(conn, statement, state="42501")


async def test_a_viewer_without_the_scope_or_the_role_sees_nothing(
    filled: AsyncConnection, dsn: str
) -> None:
    """As with runs."""
    members = await person(filled, "bob", "developer")
    posts = await person(filled, "ann", "viewer", scopes=("post",))
    async with application(filled, dsn, "viewer") as conn:
        for token in (members, posts):
            async with acting(conn, token):
                for table in TABLES:
                    assert await rows(conn, f"select 1 from agent.{table}") == []


@pytest.mark.parametrize(
    "label",
    ["[]", "{}", '"x"', '{"values": {}}', '{"values": 1}', '{"tools": [1]}', '{"result": 1}',
     '{"tools": [], "more": 1}', '{"values": null}'],
)  # fmt: skip
async def test_a_label_that_says_nothing_is_refused(filled: AsyncConnection, label: str) -> None:
    """By the function and by the table."""
    case = await _case(filled, "default")
    await refused(filled, LABEL, case, label, state="22023")
    statement = (
        "update agent.dataset_case set expected = %s, labelled_by = 'x', labelled_at = now()"
    )
    await refused(filled, statement, label, state="23514")


async def test_a_label_is_removed(filled: AsyncConnection) -> None:
    """With its author; and that is in the audit, too."""
    case = await _case(filled, "default")
    await filled.execute(LABEL, [case, '{"result": "x"}'])
    await filled.execute(LABEL, [case, None])
    found = "select expected, labelled_by, labelled_at from agent.dataset_case where id = %s"
    assert await rows(filled, found, case) == [(None, None, None)]
    actions = "select action from agent.audit where object = %s order by at, action"
    assert sorted(map(str, await column(filled, actions, str(case)))) == [
        "case.labelled",
        "case.unlabelled",
    ]


async def test_a_tenant_takes_its_evaluations_along(filled: AsyncConnection) -> None:
    """None of its rows stays."""
    await run_all(filled, "select agent.delete_tenant('other')")
    for table in TABLES:
        assert await column(filled, f"select distinct tenant from agent.{table}") == ["default"]


def _changed(table: str, before: Cells | None, after: Cells | None) -> ChangedRow:
    return ChangedRow("public", table, before, after)


@pytest.mark.parametrize(
    ("table", "before", "after"),
    [
        ("pay", None, {"id": "1", "salary": "CANARY"}),
        ("tickets", {"id": "2", "issue": "CANARY"}, {"id": "2", "issue": "x"}),
        ("tickets", {"id": "2", "issue": "CANARY"}, None),
        (
            "tickets",
            {"id": "1", "issue": "a", "secret": "CANARY"},
            {"id": "1", "issue": "b", "secret": "CANARY too"},
        ),
    ],
)
def test_nothing_that_the_agent_is_not_shown_is_stored_of_what_it_would_write(
    table: str, before: Cells | None, after: Cells | None
) -> None:
    """A trial compares as the owner, and triggers write elsewhere: viewers see names alone."""
    target = Target(1, "public", "tickets", ("id",), frozenset({"issue"}), writes=("category",))
    case = Case({"op": "insert", "new": {"id": 1, "issue": "a"}}, "1", "default", 1)
    found = written(_changed(table, before, after), target, case)
    assert "CANARY" not in str(found)
    assert (found["table"], bool(found["columns"])) == (f"public.{table}", True)


def test_of_its_own_row_what_the_agent_sees_or_writes_is_stored() -> None:
    """Before and after."""
    target = Target(1, "public", "tickets", ("id",), frozenset({"issue"}), writes=("category",))
    case = Case({"op": "insert", "new": {"id": 1, "issue": "a"}}, "1", "default", 1)
    before, after = {"id": "1", "category": None}, {"id": "1", "category": "bug"}
    row = _changed("tickets", {**before, "issue": "CANARY"}, {**after, "issue": "CANARY"})
    assert written(row, target, case) == {
        "table": "public.tickets",
        "operation": "update",
        "columns": ["category"],
        "before": before,
        "after": after,
    }
