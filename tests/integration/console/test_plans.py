"""What the pages of the console read of many runs, under row-level security: by indexes."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.helpers.database import run_all
from walagent.console.declared import declared_queries
from walagent.console.sessions import acting_role

MANY = """
insert into agent.tenant (name) values ('a');
insert into agent.principal (tenant, name) values ('a', 'vic');
insert into agent.role_grant (tenant, principal, role, granted_by)
values ('a', 'vic', 'viewer', 'test');
set session_replication_role = replica;
insert into agent.run
    (tenant, kind, reason, queue_id, principal, change, key, state, created_at, finished_at, error)
select 'a', 'question', 'question', 1, 'someone', '{}', n::text,
       case when n % 50 = 0 then 'failed' else 'succeeded' end::agent.run_state,
       now() - n * interval '5 minutes', now() - n * interval '5 minutes',
       case when n % 50 = 0 then '{"reason": "no answer"}'::jsonb end
  from generate_series(20000, 1, -1) n;
reset session_replication_role;
analyze agent.run;
"""
VALUES = {"limit": "200", "run": "500", "key": "500"}
# The page of costs reads all runs of its days.
CASES: Mapping[str, Mapping[str, str]] = {
    "home": {},
    "problem_of_runs": {},
    "problem_of_issues": {},
    "counts": {},
    "waits": {},
    "failures": {"since": "1 day"},
    "throughput": {},
    "attachments": {},
    "runs": {},
    "runs_count": {"key": "500"},
    "runs_histogram": {},
    "run": {},
    "run_chain": {},
}
INDEXES = {
    "problem_of_runs": "run_waits",
    "problem_of_issues": "run_failed",
    "waits": "run_waits",
    "failures": "run_failed",
    "attachments": "run_waits",
}
BOUNDED = {"counts", "run_chain", "runs_histogram"}  # they read 10,001 and 20,000 runs at most


def _scans(plan: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if plan.get("Relation Name") == "run":
        yield plan["Node Type"], plan.get("Index Name", "")
    for each in plan.get("Plans", ()):
        yield from _scans(each)


@pytest.mark.few(4)
@pytest.mark.parametrize("name", CASES)
async def test_pages_read_runs_by_indexes(conn: AsyncConnection, name: str) -> None:
    """Of 20,000 runs."""
    await run_all(conn, MANY)
    found = [each for each in declared_queries() if each.name == f"console.{name}"]
    # What the function of problems reads has no plan of its own.
    text = found[0].text if found else f"select * from agent_internal.{name}"
    parameters = found[0].parameters if found else ()
    given = dict.fromkeys(parameters, "") | dict(CASES[name])
    given |= {each: VALUES[each] for each in parameters if each in VALUES and each != "key"}
    login = await acting_role(conn)
    async with conn.transaction():
        await conn.execute("select agent_internal.assume('a', 'vic')")
        await conn.execute(f"set local role {login}".encode())
        # The planner has no statistics of states: it would take the whole table of a test.
        off = name in INDEXES
        await conn.execute(f"set local enable_seqscan = {'off' if off else 'on'}".encode())
        explain = f"explain (format json) {text}"
        ((plan,),) = await (await conn.execute(explain.encode(), given)).fetchall()
        await conn.execute("reset role")
    scans = set(_scans(plan[0]["Plan"]))
    assert scans
    assert INDEXES.get(name, "") in {index for _, index in scans} | {""}
    assert name in BOUNDED or "Seq Scan" not in {kind for kind, _ in scans}, scans
