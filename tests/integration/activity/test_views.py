"""Views of what agents do: for each tenant its own, and fast beside many old runs."""

import json

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import role, rows, run_all, session, value

VIEWS = ("live_activity", "conversation_timeline", "agent_stats", "tool_call_queue", "thinking_trace",
         "error_log", "hourly_activity", "dashboard")  # fmt: skip

TENANT = """
insert into agent.tenant (name) values ('{0}');
insert into agent.principal (tenant, name, login, kind) values ('{0}', '{1}', '{1}', 'user'), ('{0}', 'bot-{0}', null, 'agent');
insert into agent.role_grant (tenant, principal, role, granted_by) values ('{0}', '{1}', 'admin', 'x');
select agent.grant_viewer('{1}'), agent.grant_member('{1}');
insert into agent.thread (tenant, id, created_by, last_number) values ('{0}', gen_random_uuid(), '{1}', 1);
insert into agent.event (tenant, thread_id, number, type, author, data)
select tenant, id, 1, 'text', 'bot-{0}', '{{"text": "secret of {0}"}}' from agent.thread where tenant = '{0}';
insert into agent.run (tenant, kind, reason, queue_id, principal, change, state, lease_expires_at, finished_at, error, started_at)
select '{0}', 'own', 'manual', 1, 'bot-{0}', '{{}}', s, case when s = 'running' then now() end,
       case when s in ('succeeded', 'failed') then now() end, jsonb_build_object('reason', 'secret of {0}', 'call_id', 'c'), now()
  from unnest('{{running,needs_review,succeeded,failed,waiting_approval}}'::agent.run_state[]) s;
insert into agent.step (tenant, run_id, seq, kind, content)
select '{0}', id, 0, 'reply', '{{"parts": [{{"thinking": {{"thinking": "secret of {0}"}}, "provider": "x"}}]}}'
  from agent.run where tenant = '{0}';
insert into agent.approval (run_id, call_id, tool, arguments, digest, run_as, expires_at, risk)
select id, 'c' || n, 'tool' || n, '{{"of": "{0}"}}', '', 'x', now() + interval '1 day', r
  from agent.run, unnest('{{low,critical,medium}}'::text[]) with ordinality as x (r, n)
 where tenant = '{0}' and state = 'waiting_approval';
"""  # fmt: skip


async def test_each_tenant_sees_its_own(conn: AsyncConnection, dsn: str) -> None:
    """In every view something, and nothing of the other tenant."""
    async with role(conn) as one, role(conn) as two:
        await run_all(conn, TENANT.format("alpha", one) + TENANT.format("beta", two))
        for login, own, other in ((one, "alpha", "beta"), (two, "beta", "alpha")):
            async with session(dsn, user=login) as me:
                for view in VIEWS:
                    seen = await rows(me, f"select to_jsonb(v) from agent.{view} v")
                    assert seen, view
                    assert other not in json.dumps(seen), view
                    assert own in json.dumps(seen), view
        await run_all(conn, "delete from agent.thread")


async def test_what_the_views_say(conn: AsyncConnection, dsn: str) -> None:
    """Risk, then age; counts of one tenant."""
    async with role(conn) as login:
        await run_all(conn, TENANT.format("alpha", login))
        async with session(dsn, user=login) as me:
            queue = await rows(me, "select risk, waits_for from agent.tool_call_queue")
            risks = [risk for risk, _ in queue]
            assert risks[:2] == ["critical", "critical"]  # of one without a risk, too
            assert risks[2:] == ["medium", "low"]
            found = await rows(
                me,
                "select agents, threads, running, approvals, reviews, runs, succeeded, failed from agent.dashboard",
            )
            assert found == [(0, 1, 1, 3, 1, 5, 1, 1)]
            stats = await rows(
                me, "select agent, runs, succeeded, failed, waiting from agent.agent_analytics(1)"
            )
            assert stats == [("bot-alpha", 5, 1, 1, 2)]
            assert await value(me, "select count(*) from agent.live_activity") == 3
        await run_all(conn, "delete from agent.thread")


@pytest.mark.slow
async def test_old_runs_are_not_read(conn: AsyncConnection) -> None:
    """None of the views reads the rows of 50,000 runs of last year one by one."""
    await run_all(
        conn,
        """
        insert into agent.run (kind, reason, queue_id, principal, change, state, finished_at, created_at)
        select 'own', 'manual', 1, 'bot', '{}', case when n % 50 = 0 then 'failed' else 'succeeded' end::agent.run_state,
               now() - interval '1 year', now() - interval '1 year' + n * interval '1 s'
          from generate_series(1, 50000) n;
        analyze agent.run;
        select brin_summarize_new_values('agent.run_created');
        """,
    )
    for view in VIEWS:
        plan = await rows(conn, f"explain (analyze, format json) select * from agent.{view}")
        read = _rows_of_runs(plan[0][0][0]["Plan"])
        assert read < 5000, (view, read)


def _rows_of_runs(node: dict) -> float:
    """Rows of agent.run that a plan has read."""
    own = 0.0
    if node.get("Relation Name") == "run":
        loops = node["Actual Loops"]
        own = loops * (
            node["Actual Rows"]
            + node.get("Rows Removed by Filter", 0)
            + node.get("Rows Removed by Index Recheck", 0)
        )
    return own + sum(_rows_of_runs(child) for child in node.get("Plans", []))
