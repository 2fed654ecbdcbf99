"""Runs of a tenant whose attachment is the operator's: its people see and continue their own."""

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import column, refused, rows, run_all, value
from tests.helpers.people import acting, application, person
from walagent.message import Json

SETUP = """
create table tickets (id bigint primary key, org text, body text, category text);
insert into agent.tenant (name) values ('acme'), ('umbra');
insert into agent.model (name, provider, model_id) values ('chat', 'openai', 'chat');
select agent.attach('tickets', 'chat', 'Secret of the operator.', name => 'desk',
                    columns => '{body}', writes => '{category}', tenant => 'org', score_share => 1);
"""
RUN = """
insert into agent.run (tenant, reason, queue_id, attachment_id, attachment_version, change, key,
                       state, error, finished_at, next_attempt_at)
select %(tenant)s, 'manual', id, id, 1, jsonb_build_object('op', 'insert', 'schema', 'public',
       'table', 'tickets', 'new', jsonb_build_object('id', 1, 'body', %(tenant)s::text)),
       '1', %(state)s::agent.run_state, jsonb_build_object('reason', 'as it is'),
       case when agent_internal.is_final(%(state)s::agent.run_state) then now() end,
       case when %(state)s = 'waiting_retry' then now() end
  from agent.attachment
"""
STATES = ("succeeded", "failed", "waiting_retry", "waiting_approval", "needs_review")
BESIDE = """
insert into agent.step (tenant, run_id, seq, kind, content) select tenant, id, 0, 'reply',
    '{"parts": [{"text": "I will."}, {"call": "c", "name": "update_row", "arguments": {}}],
      "stop": "tool"}' from agent.run;
insert into agent.step (tenant, run_id, seq, kind, content) select tenant, id, 1, 'intent',
    '{"call_id": "c", "name": "update_row"}' from agent.run where state = 'needs_review';
insert into agent.step (tenant, run_id, seq, kind, content) select tenant, id, 1, 'result',
    '{"call_id": "c", "name": "update_row", "is_error": false, "content": "updated"}'
    from agent.run where state = 'succeeded';
insert into agent.row_change (tenant, run_id, commit_lsn, ordinal, xid, committed_at, relation,
                              schema_name, table_name, op, source, key, columns, after)
select tenant, id, '0/1', 0, 1, now() - interval '1 day', 'tickets'::regclass, 'public', 'tickets',
       'update', 'statement', '{"id": "1"}', '{category}', '{"id": "1", "category": "a"}'
  from agent.run where state = 'succeeded';
insert into agent.correction (tenant, run_id, commit_lsn, ordinal, column_name, number, kind,
                              relation, schema_name, table_name, key, xid, committed_at)
select tenant, id, '0/2', 0, 'category', 4, 'changed', 'tickets'::regclass, 'public', 'tickets',
       '{"id": "1"}', 2, now() from agent.run where state = 'succeeded';
insert into agent.approval (tenant, run_id, call_id, tool, arguments, digest, run_as, expires_at,
                            agent)
select tenant, id, 'c', 'update_row', '{}', 'd', 'app', now() + interval '1 day', 'desk'
  from agent.run where state = 'waiting_approval';
"""
# Views with a run, of which each must have rows here: those of other kinds of runs do not.
OTHERS = {
    "conversation_timeline", "delivery", "pending_message", "proposal_overview", "reaction",
    "workflow_interrupt",
    "shadow_run",  # of the operator, who tries a version
}  # fmt: skip
# What depends on the privileges of the login on the table.
VALUES = {"before", "after", "wrote", "value", "content"}


@pytest.fixture
async def desk(conn: AsyncConnection) -> AsyncConnection:
    """Make runs of two tenants, in each state that a view is about."""
    await run_all(conn, SETUP)
    for tenant in ("acme", "umbra"):
        for state in STATES:
            await conn.execute(RUN.encode(), {"tenant": tenant, "state": state})
    await run_all(conn, BESIDE)
    return conn


async def _views(conn: AsyncConnection) -> dict[str, str]:
    """Return the column with the run of each view."""
    found = await rows(
        conn,
        "select c.relname, case when a.attname = 'run_id' then 'run_id' else 'id' end"
        "  from pg_class c join pg_attribute a on a.attrelid = c.oid"
        " where c.relnamespace = 'agent'::regnamespace and c.relkind = 'v'"
        "   and (a.attname = 'run_id' or c.relname = 'run_overview' and a.attname = 'id')",
    )
    return {name: key for name, key in found if name not in OTHERS}


async def test_each_view_of_runs_shows_a_tenant_its_own(desk: AsyncConnection, dsn: str) -> None:
    """As the operator sees them, but for values; and none of another tenant."""
    views = await _views(desk)
    assert "unscored_run" in views
    token = await person(desk, "gina", "viewer", "approver", "developer", tenant="acme")
    async with application(desk, dsn, "viewer", "approver", "developer") as conn:
        for view, key in views.items():
            query = (
                f"select to_jsonb(v) - array{sorted(VALUES)} from agent.{view} v"
                f" where {key} in (select id from agent.run where tenant = 'acme') order by 1"
            )
            expected = await column(desk, query)
            async with acting(conn, token):
                seen = await column(conn, query)
                every = await column(conn, f"select {key} from agent.{view}")
            assert seen == expected, view
            assert expected, view
            assert len(every) == len(seen), view


async def test_figures_of_agents_count_the_runs_of_the_tenant(
    desk: AsyncConnection, dsn: str
) -> None:
    """Accuracy, and the agents of the last days."""
    token = await person(desk, "gina", "viewer", tenant="acme")
    accuracy = "select agent, attachment, column_name, written, corrected from agent.accuracy"
    analytics = "select agent, runs from agent.agent_analytics()"
    async with application(desk, dsn, "viewer") as conn, acting(conn, token):
        assert await rows(conn, accuracy) == [("desk", "desk", "category", 1, 1)]
        assert await rows(conn, analytics) == [("desk", len(STATES))]
    both = await rows(desk, f"{accuracy} where tenant <> 'default'")
    assert both == [("desk", "desk", "category", 1, 1)] * 2


async def _run(conn: AsyncConnection, state: str, tenant: str = "acme") -> Json:
    query = "select id from agent.run where state = %s::agent.run_state and tenant = %s"
    return await value(conn, query, state, tenant)


async def test_people_of_a_tenant_continue_their_own_runs(desk: AsyncConnection, dsn: str) -> None:
    """Fork, retry and score; a run of another tenant they do not find."""
    token = await person(desk, "gina", "viewer", "approver", tenant="acme")
    async with application(desk, dsn, "viewer", "approver") as conn:
        for statement, state in (
            ("select agent.fork(%s, 0)", "succeeded"),
            ("select agent.fork(%s, 0, newest_version => true)", "succeeded"),
            ("select agent.retry(%s)", "failed"),
            ("select agent.score(%s, 1)", "succeeded"),
        ):
            own, theirs = await _run(desk, state), await _run(desk, state, "umbra")
            async with acting(conn, token):
                await conn.execute(statement.encode(), [own])
            async with acting(conn, token):
                await refused(conn, statement, theirs, state="WA003")


async def test_the_definition_of_the_operator_is_not_shown(desk: AsyncConnection, dsn: str) -> None:
    """A tenant's people see the names, and neither prompt nor role; of others' runs, nothing."""
    token = await person(desk, "gina", "viewer", "approver", "developer", tenant="acme")
    own, theirs = await _run(desk, "failed"), await _run(desk, "failed", "umbra")
    async with (
        application(desk, dsn, "viewer", "approver", "developer") as conn,
        acting(conn, token),
    ):
        for table in ("attachment", "attachment_version"):
            assert await value(conn, f"select count(*) from agent.{table}") == 0
        known = await value(conn, "select agent_internal.definition_of_run(%s)", own)
        assert known["name"] == "desk"
        assert "Secret" not in str(known)
        assert await value(conn, "select agent_internal.definition_of_run(%s)", theirs) is None


async def test_a_row_that_policies_can_hide_is_not_shown_before_the_agent_saw_it(
    desk: AsyncConnection, dsn: str
) -> None:
    """As where the attachment is of the tenant itself."""
    await run_all(
        desk,
        "alter table tickets enable row level security; create policy p on tickets using (true)",
    )
    await desk.execute(RUN.encode(), {"tenant": "acme", "state": "pending"})
    token = await person(desk, "gina", "viewer", tenant="acme")
    async with application(desk, dsn, "viewer") as conn, acting(conn, token):
        seen = await column(conn, "select state::text from agent.run order by id")
    assert seen == list(STATES)
